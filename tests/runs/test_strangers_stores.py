"""A store that somebody else made: what it names is neither started nor reached, and what it says is shown as text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.command import command
from cases.store import change_attributes

import scalable_bandits as sb
from scalable_bandits.report import write_report
from scalable_bandits.runs.resuming import resume
from scalable_bandits.store import ObservationStore

RECIPE = "cluster: subprocess:run\noptions: {args: touch started, shell: true}\n"
ADDRESS = "tcp://192.0.2.1:8786"  # which nobody has


def objective(x: Any) -> float:
    return float(x[0])


def policy() -> sb.Policy:
    return sb.RandomSearch(sb.Grid([[0, 1]], 9))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tuning run of three evaluations."""
    monkeypatch.chdir(tmp_path)
    sb.maximize(objective, policy(), 3, store=tmp_path / "run")
    (tmp_path / "run" / "evil.yaml").write_text(RECIPE)
    return tmp_path / "run"


@pytest.mark.parametrize("on", ["run/evil.yaml", ADDRESS, ["local"], {"type": "Command"}])
def test_its_cluster_is_named_again_or_not_used(on: Any, place: Path) -> None:
    change_attributes(place, lambda attributes: attributes["settings"].update(on=on))
    call = ("resume", place, "--function", f"{__name__}:objective", "--rounds", 5)
    refused = command(*call)
    assert refused.exit_code == 2
    assert "error: on: got None; allowed: the cluster of the run, named again" in refused.stderr
    assert str(on).partition("'")[0] in refused.stderr
    assert command(*call, "--on", "threads:1").exit_code == 0
    assert not Path("started").exists()


def test_a_cluster_that_is_named_again_is_said_first(place: Path) -> None:
    """And then used: the recipe of the store runs its command, as its user asked."""
    call = ("resume", place, "--function", f"{__name__}:objective", "--rounds", 5, "--on", "run/evil.yaml")
    assert command(*call).stderr.startswith("running on: run/evil.yaml\n")
    assert Path("started").exists()


def test_its_settings_are_those_of_a_run(place: Path) -> None:
    """No other argument of `maximize` comes from a store."""
    change_attributes(place, lambda attributes: attributes["settings"].update(callbacks=["x"], policy={}))
    assert len(resume(place, rounds=5, function=f"{__name__}:objective")) == 5


def test_its_policy_is_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a report, too, which makes the policy again."""
    monkeypatch.chdir(tmp_path)
    space = sb.Grid([[0, 1]], 9)
    tiled = sb.IGPUCB(space, sb.RBF(0.2), engine="tiled")
    sb.simulate(tiled, sb.TableEnvironment(space, np.arange(9.0)), 3, store="run")
    Path("run/evil.yaml").write_text(RECIPE)
    change_attributes(Path("run"), lambda attributes: attributes["specification"]["policy"].update(on="run/evil.yaml"))
    with pytest.raises(ValueError, match=r"^key of IGPUCB: got 'on'"):
        resume("run", rounds=5)
    write_report("run", tmp_path / "page.html")
    assert not Path("started").exists()


def test_its_environment_runs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = sb.Grid([[0, 1]], 9)
    sb.simulate(policy(), sb.TableEnvironment(space, np.arange(9.0)), 3, store="run")
    program = {"type": "Command", "command": ["touch", "started"], "value_from": None}

    def change(attributes: dict[str, Any]) -> None:
        table = attributes["specification"]["environment"]
        attributes["specification"]["environment"] = {
            "type": "FunctionEnvironment", "space": table["space"], "noise": table["noise"], "seed": 0,
            "function": program, "optimum": 1.0,
        }  # fmt: skip

    change_attributes(Path("run"), change)
    with pytest.raises(ValueError, match=r"^environment.function: got \['touch', 'started'\]; allowed: plain data"):
        resume("run", rounds=5)
    with pytest.raises(ValueError, match=r"^type: got 'Command'"):
        sb.environments.Environment.from_dict(ObservationStore.open("run").specification["environment"])
    write_report("run", tmp_path / "page.html")
    assert not Path("started").exists()


def test_its_study_has_policies_of_this_machine(tmp_path: Path) -> None:
    """Also a study file of somebody else."""
    (tmp_path / "evil.yaml").write_text(RECIPE)
    study = sb.Study.from_dict(
        {
            "name": "theirs", "horizon": 2, "replicates": 1,
            "environments": {"one": {"type": "GPSample", "space": sb.Grid([[0, 1]], 9), "kernel": sb.RBF(0.2)}},
            "policies": {"tiled": {"type": "IGPUCB", "engine": "tiled", "on": str(tmp_path / "evil.yaml")}},
        }
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^policies.tiled: on: got .*evil.yaml"):
        study.run()


HIDDEN = "a\x1bc\x9b\u202e"  # clears the terminal, begins a control sequence, and turns the text
LINES = {"echo": ("echo", f"{{{HIDDEN}}}"), "fail": ("sh", "-c", f"printf '\\033[1A no %s' {{{HIDDEN}}} >&2; exit 1")}


@pytest.mark.parametrize("program", LINES)
def test_what_it_says_does_not_move_the_cursor(program: str, tmp_path: Path) -> None:
    """Names, commands and errors: everything that the command prints of a store."""
    place = tmp_path / HIDDEN
    given = sb.Command(LINES[program])
    if program == "fail":
        with pytest.raises(RuntimeError, match="all 2 evaluations failed"):
            sb.minimize(given, {HIDDEN: sb.Integer(0, 5)}, 2, store=place)
    else:
        sb.minimize(given, {HIDDEN: sb.Integer(0, 5)}, 2, store=place)
    again = command("resume", place, "--rounds", 3, "--command", given)
    assert "a\\x1bc" in again.stderr.partition("running: ")[2]
    for done in (again, command("resume", place), command("status", place), command("check", place)):
        shown = done.stdout + done.stderr
        assert not {"\x1b", "\x9b", "\u202e"}.intersection(shown)
