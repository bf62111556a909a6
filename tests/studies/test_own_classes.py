"""Policies, environments and kernels of the user's in study files and stores, by names that the user allows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError
from scalable_bandits.runs.resuming import resume
from scalable_bandits.specification import REGISTRY
from scalable_bandits.studies import Study

MODULE = '''
import attrs
import numpy as np
import scalable_bandits as sb


@attrs.define(eq=False, kw_only=True, slots=False)
class Greedy(sb.IGPUCB):
    """A policy with a width of its own."""

    factor: float = 0.5

    @property
    def width(self):
        return self.factor


@attrs.frozen(slots=False)
class Rougher(sb.Matern):
    """A kernel."""


class Steps(sb.TableEnvironment):
    """An environment."""

    def __init__(self, space, height=1.0, noise=None, seed=0):
        super().__init__(space, height * np.arange(space.size), noise, seed)
        self.height = height


class Other:
    """No specification."""


def value(x):
    return float(x[0])
'''
FILE = """
name = "own"
horizon = 25
replicates = 2

[environments.line]
type = "GPSample"
space = {{ type = "Grid", bounds = [[0.0, 1.0]], shape = 20 }}
kernel = {{ type = "{module}:Rougher", lengthscale = 0.2, nu = 1.5 }}

[environments.steps]
type = "{module}:Steps"
space = {{ type = "Arms", count = 5 }}
height = 0.5
noise = {{ type = "GaussianNoise", scale = 0.3 }}
kernel = {{ type = "Covariance", matrix = {identity} }}

[shared.policies]
noise = 0.3

[policies.greedy]
type = "{module}:Greedy"
factor = 0.25

[policies.random]
type = "RandomSearch"
"""
CLASSES = ("Greedy", "Rougher", "Steps")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registries: None) -> Iterator[str]:
    """A module of the user's, in the working folder; its name is another one in every test."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "own.toml").write_text(FILE.format(module=name, identity=np.eye(5).tolist()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def names(module: str) -> list[str]:
    return [f"{module}:{name}" for name in CLASSES]


def test_only_what_is_allowed_is_imported(module: str) -> None:
    with pytest.raises(
        ValueError, match=rf"line.kernel: type: got '{module}:Rougher'; .* --class {module}:Rougher, or"
    ):
        Study.load("own.toml")
    with pytest.raises(
        ValueError, match=rf"policies.greedy.type: got '{module}:Greedy'; allowed: a class of this package"
    ):
        Study.from_dict({**sb_tables(module), "environments": {"a": arms()}})
    assert module not in sys.modules
    with pytest.raises(ValueError, match=rf"^classes: got .{module}:Nobody .*module:name of a class"):
        Study.load("own.toml", classes=[f"{module}:Nobody"])
    with pytest.raises(ValueError, match=r"^classes: got .no_such_module:A "):
        Study.load("own.toml", classes=["no_such_module:A"])
    with pytest.raises(ValueError, match=rf"^classes: got '{module}:Other'; allowed: module:Class of a policy"):
        Study.load("own.toml", classes=[f"{module}:Other"])
    tables = sb_tables(module)
    tables["policies"]["greedy"] = {"type": f"{module}:Greedy", "factr": 1.0}
    with pytest.raises(ValueError, match=r"key of policies.greedy: got 'factr'; allowed: did you mean 'factor'"):
        Study.from_dict({**tables, "environments": {"a": arms()}}, classes=names(module))


def sb_tables(module: str) -> dict:
    return {"name": "own", "horizon": 5, "replicates": 1, "policies": {"greedy": {"type": f"{module}:Greedy"}}}


def arms() -> dict:
    return {"type": "GPSample", "space": sb.Arms(3), "kernel": sb.Covariance(np.eye(3))}


@pytest.mark.slow
def test_a_study_with_own_classes(module: str) -> None:
    """It is played, stored, grown, opened without the classes, and has the numbers of the classes in Python."""
    study = Study.load("own.toml", classes=names(module))
    result = study.run()
    own = sys.modules[module]
    replicate = study.replicate("steps", 1, 25)
    problem = study.build(replicate)
    assert type(problem.environment) is own.Steps
    assert type(problem.policies["greedy"]) is own.Greedy
    assert problem.policies["greedy"].width == 0.25
    run = sb.simulate(problem.policies["greedy"], problem.environment, 25)
    np.testing.assert_array_equal(run.regret, result["regret"].sel(case="steps", policy="greedy", replicate=1))
    study.run(store="runs", horizon=10)
    xarray.testing.assert_identical(study.run(store="runs").load(), result)
    xarray.testing.assert_identical(Study.open("runs").load(), result)
    assert Study.from_dict(study.to_dict(), classes=names(module)).to_dict() == study.to_dict()


def test_a_run_with_own_classes(module: str) -> None:
    Study.load("own.toml", classes=names(module)).run(store="runs", replicates=1)
    for name in names(module):
        del REGISTRY[name]
    place = Path("runs/line/greedy/0000")
    assert sb.ObservationStore.open(place).specification["policy"]["type"] == f"{module}:Greedy"
    with pytest.raises(ValueError, match=rf"type: got '{module}:.*allow it: --class"):
        resume(place, rounds=30)
    assert len(resume(place, rounds=30, classes=names(module))) == 30


@pytest.mark.slow
def test_the_command_says_what_it_imports(module: str) -> None:
    options = [part for name in names(module) for part in ("--class", name)]

    refused = command("run", "own.toml", "--store", "runs")
    assert refused.exit_code == 2
    assert f"--class {module}:Rougher" in refused.stderr
    assert not Path("runs").exists()
    done = command("run", "own.toml", "--store", "runs", "--out", "a", *options)
    assert done.exit_code == 0, done.output
    assert f"importing: {', '.join(names(module))}" in done.stderr
    assert command("resume", "runs", "--out", "b", *options).exit_code == 0
    assert command("run", "srinivas2010-synthetic", "--class", f"{module}:Greedy").exit_code == 2
    assert command("run", "--all", "--class", f"{module}:Greedy").exit_code == 2


@pytest.mark.slow
def test_workers_that_cannot_import_the_module(module: str, tmp_path: Path, client: Any) -> None:
    """One line says what to set, once for all runs and evaluations; their main process alone has the folder."""
    said = rf"^on: worker tcp://\S+ \(process \d+\) cannot import '{module}': .* PYTHONPATH={tmp_path} in .*there$"
    with pytest.raises(ClusterError, match=said):
        Study.load("own.toml", classes=names(module)).run(on=client)
    with pytest.raises(ClusterError, match=said):
        sb.minimize(sys.modules[module].value, sb.Box([[0, 1]]), 3, on=client)


@pytest.mark.slow
def test_on_workers(module: str, tmp_path: Path) -> None:
    """By a command in the user's folder; a worker process imports the classes by itself."""
    options = [part for name in names(module) for part in ("--class", name)]
    command = [
        Path(sys.executable).with_name("scalable-bandits"),
        "run",
        "own.toml",
        "--store",
        "runs",
        "--on",
        "local:1",
    ]
    script = [*map(str, command), *options]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole = Study.load("own.toml", classes=names(module)).run()
    xarray.testing.assert_identical(Study.open(tmp_path / "runs").load(), whole)
