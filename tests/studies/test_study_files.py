"""Study files: read, checked, written, run; what a stranger's file can do."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from cases.command import command
from cases.measured import DATA, MEASURED, NAMES, first_values
from cases.paths import ROOT

import scalable_bandits as sb
from scalable_bandits import analysis
from scalable_bandits.formulas.information_gain import growth_rate
from scalable_bandits.studies import Study
from scalable_bandits.studies.builders import BUILDERS, Builder
from scalable_bandits.studies.stored import study_record

SMALL: dict[str, Any] = {"replicates": 1, "horizon": 8}
MINE = """
name = "mine"
horizon = 15
replicates = 2
seed = 7

[environments.rough]
type = "GPSample"
space = { type = "Grid", bounds = [[0.0, 1.0]], shape = 40 }
kernel = { type = "Matern", lengthscale = 0.1, nu = 1.5 }
noise = { type = "GaussianNoise", scale = 0.2 }

[shared.policies]
noise = "exact"
regularization = "noise variance"
rkhs_norm = "interpolant"

[policies.ei]
type = "GPEI"

[policies."igp"]
type = "IGPUCB"
information_gain = "growth"
"""


def mine(**changes: Any) -> dict[str, Any]:
    return {**tomllib.loads(MINE), **changes}


@pytest.mark.parametrize("name", NAMES[::5])
@pytest.mark.sampled(12)
def test_shown_copied_and_run(name: str, tmp_path: Path) -> None:
    """What `show` prints is a study with the numbers of the named one; so is what `to_toml` writes of a changed one."""
    file = tmp_path / "mine.toml"
    shown = command("show", name)
    assert shown.exit_code == 0
    file.write_text(shown.stdout)
    named, copy = Study.load(name), Study.load(file)
    assert copy.to_dict() == named.to_dict() == tomllib.loads(shown.stdout)
    axes = first_values(name)
    expected = named.run(**SMALL, data=DATA, axes=axes)
    found = copy.run(**SMALL, data=DATA, axes=axes)
    pair = (each.drop_vars([*MEASURED, "mark"], errors="ignore") for each in (found, expected))
    xarray.testing.assert_identical(*pair)
    changed = Study.from_dict({**copy.to_dict(), "replicates": 1, "seed": 5})
    file.write_text(changed.to_toml())
    assert Study.load(file).to_dict() == changed.to_dict() != named.to_dict()
    assert Study.load(file).run(horizon=2, data=DATA, axes=axes).attrs["seed"] == 5


def test_numbers_are_those_of_the_same_objects() -> None:
    """Of a policy and environment made by hand from what the file says."""
    study = Study.from_dict(mine())
    result = study.run()
    assert result.sizes == {"case": 1, "policy": 2, "replicate": 2, "round": 15}
    seed = study.replicate("rough", 1, 15, seed=7).seed
    space, kernel = sb.Grid([[0.0, 1.0]], 40), sb.Matern(0.1, nu=1.5)
    environment = sb.GPSample(space, kernel, sb.GaussianNoise(0.2), seed=seed)
    gram, values = kernel.block(space.points()), environment.table()
    weights = np.linalg.solve(gram + 0.2**2 * np.eye(40), values)
    options: dict[str, Any] = {"noise": 0.2, "regularization": 0.2**2, "seed": seed}
    gains = np.asarray(growth_rate(kernel, np.arange(16), 1))
    policies = {
        "ei": sb.GPEI(space, kernel, **options),
        "igp": sb.IGPUCB(
            space, kernel, rkhs_norm=float((weights @ gram @ weights) ** 0.5),
            information_gain=lambda t: float(gains[t]), **options,
        ),
    }  # fmt: skip
    for label, policy in policies.items():
        cell = result.sel(case="rough", policy=label, replicate=1)
        expected = sb.simulate(policy, environment, 15)
        np.testing.assert_array_equal(cell["candidate"], expected.candidate)
        np.testing.assert_array_equal(cell["width"], expected.width)


def test_python_of_the_same_shape() -> None:
    """Values of the package in place of tables; the study pickles, as workers need it."""
    table = {
        "type": "GPSample",
        "space": sb.Grid([[0.0, 1.0]], 40),
        "kernel": sb.Matern(0.1, nu=1.5),
        "noise": sb.GaussianNoise(0.2),
    }
    study = Study.from_dict(mine(environments={"rough": table}))
    xarray.testing.assert_identical(study.run(), Study.from_dict(mine()).run())
    assert Study.from_dict(tomllib.loads(study.to_toml())).to_dict() == study.to_dict()
    assert pickle.loads(pickle.dumps(study.build)) == study.build


WRONG = [
    ("horizon = 15", "horzon = 15", r"^key: got 'horzon'; allowed: did you mean 'horizon'\?"),
    ("horizon = 15", "", r"^horizon: got None"),
    ("horizon = 15", "horizon = 1.5", r"^horizon: got 1.5; allowed: a positive integer"),
    ("seed = 7", "seed = -7", r"^seed: got -7"),
    ('name = "mine"', 'name = "../mine"', r"^name: got '../mine'; allowed: letters"),
    ("seed = 7", 'measure = "averge"', r"^measure: got 'averge'; allowed: did you mean 'average'\?"),
    ("seed = 7", 'cover = "igpp"', r"^cover: got 'igpp'; allowed: did you mean 'igp'\?"),
    ('"GPSample"', '"GPSampel"', r"^environments\.rough\.type: got 'GPSampel'; allowed: did you mean 'GPSample'\?"),
    ("space =", "spcae =", r"^key of environments\.rough: got 'spcae'; allowed: did you mean 'space'\?"),
    ('"Matern"', '"Matren"', r"^environments\.rough\.kernel: type: got 'Matren'; .* 'Matern'"),
    ("nu = 1.5", "un = 1.5", r"^environments\.rough\.kernel: key of Matern: got 'un'"),
    ('"GaussianNoise"', '"GausianNoise"', r"^environments\.rough\.noise: type: got .* 'GaussianNoise'"),
    ('"GPEI"', '"GPIE"', r"^policies\.ei\.type: got 'GPIE'; allowed: did you mean 'GP"),
    ('type = "GPEI"', 'type = "GPEI"\nincubent = 1', r"^key of policies\.ei: got 'incubent'; .* 'incumbent'"),
    ('type = "GPEI"', 'type = "GPEI"\nseed = 1', r"^key of policies\.ei: got 'seed'"),
    ('type = "GPEI"', 'type = "GPEI"\nminimize = true', r"^key of policies\.ei: got 'minimize'"),  # regret is maximised
    ('"GPEI"', '"SamplePathPolicy"', r"^policies\.ei\.type: got 'SamplePathPolicy'; allowed: known: "),  # a base class
    ("rkhs_norm =", "rkhs_nrom =", r"^key of shared\.policies: got 'rkhs_nrom'; .* 'rkhs_norm'"),
    ("[shared.policies]", "[shared.policy]", r"^key of shared: got 'policy'; .* 'policies'"),
    (
        "seed = 7",
        'on = "tcp://somewhere:8786"',
        r"^on: got 'tcp://somewhere:8786'; allowed: local, local:4, threads or threads:4",
    ),
    ("seed = 7", 'on = "recipe.yaml"', r"^on: got"),
    ("seed = 7", 'builder = "os.system"', r"^builder: got 'os.system'"),
    ("seed = 7", 'analysis = "os.system"', r"^analysis: got 'os.system'"),
    ('"GPEI"', '"os.system"', r"^policies\.ei\.type: got 'os.system'"),
    ('"Grid", bounds', '"os.system", bounds', r"^environments\.rough\.space: type: got 'os.system'"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_refusals_name_the_key(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Before anything is made, and by the command with code 2."""
    file = tmp_path / "mine.toml"
    assert MINE.count(old) == 1
    file.write_text(MINE.replace(old, new))
    with pytest.raises(ValueError, match=message):
        Study.load(file)
    result = command("run", file, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"interpolant"', '"interpolent"', r"^policies\.igp: rkhs_norm: got 'interpolent'; .* 'interpolant'"),
        ('"interpolant"', '"exact"', r"^policies\.igp: rkhs_norm: got 'exact'; allowed: .*GPSample is unknown"),
        ('"interpolant"', "-1.0", r"^policies\.igp: rkhs_norm: got -1.0"),
    ],
)
def test_refusals_of_values_name_the_table(old: str, new: str, message: str, tmp_path: Path) -> None:
    study = Study.from_dict(tomllib.loads(MINE.replace(old, new)))
    with pytest.raises(ValueError, match=message):
        study.run(store=tmp_path / "runs")
    assert not any(tmp_path.iterdir())


def test_no_toml(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("name = ")
    with pytest.raises(ValueError, match=r"mine\.toml: not valid TOML"):
        Study.load(tmp_path / "mine.toml")


def test_builders_take_part_and_parameters() -> None:
    """Some cases and policies with the same numbers; other parameters with others; unknown ones refused."""
    tables = Study.load("zhou2021-abrupt").to_dict()
    some = Study.from_dict({**tables, "cases": ["RBF"], "policies": ["random", "IGP-UCB"]}).run(**SMALL)
    whole = Study.load("zhou2021-abrupt").run(**SMALL)
    part, all_of_it = (json.loads(result.attrs.pop("specification")) for result in (some, whole))
    assert part == {**all_of_it, "cases": ["RBF"], "policies": ["random", "IGP-UCB"]}
    xarray.testing.assert_identical(some, whole.sel(case=["RBF"], policy=["IGP-UCB", "random"]))
    other = Study.from_dict({**tables, "parameters": {"changes": 1}}).run(**SMALL)
    assert (other["regret"] != whole["regret"]).any()
    for key, value, message in (
        ("parameters", {"change": 1}, r"^key of parameters: got 'change'; .*'changes'"),
        ("cases", ["RBG"], r"^cases: got 'RBG'; .*'RBF'"),
        ("environments", {}, "^environments: got"),
    ):
        with pytest.raises(ValueError, match=message):
            Study.from_dict({**tables, key: value})
    with pytest.raises(ValueError, match=r"^policies: got 'IGPUCB'; .*'IGP-UCB'"):
        Study.from_dict({**tables, "policies": ["IGPUCB"]}).run(**SMALL)


class TestFunction:
    """A user's own: by the command's option alone."""

    FILE = MINE.replace('"GPSample"', '"FunctionEnvironment"').replace('"interpolant"', "1.0")

    def test_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And resumes from its store, given again."""
        monkeypatch.chdir(tmp_path)
        Path("mine.toml").write_text(self.FILE)
        Path("my_function_here.py").write_text("def f(x):\n    return float(-(x[0] - 0.3) ** 2)\n")
        named = ("--environment", "my_function_here:f")
        done = command("run", "mine.toml", "--store", "runs", *named, "--json")
        assert done.exit_code == 0, done.output
        xarray.testing.assert_identical(
            Study.open("runs").load(), Study.load("mine.toml", function=lambda x: float(-((x[0] - 0.3) ** 2))).run()
        )
        assert command("resume", "runs", "--function", "my_function_here:f").exit_code == 0
        assert command("resume", "runs").exit_code == 2

    def test_refused_without(self, tmp_path: Path) -> None:
        """A file that names a module imports nothing."""
        (tmp_path / "mine.toml").write_text(self.FILE)
        result = command("run", tmp_path / "mine.toml", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "--environment module:name" in result.stderr
        (tmp_path / "mine.toml").write_text(self.FILE.replace("space =", 'function = "antigravity:x"\nspace ='))
        assert command("run", tmp_path / "mine.toml", "--out", tmp_path / "out").exit_code == 2
        assert "antigravity" not in sys.modules
        assert command("run", "srinivas2010-synthetic", "--environment", "math:sin").exit_code == 2


@pytest.mark.slow
def test_a_store_knows_the_file(tmp_path: Path) -> None:
    """It resumes without the file, refuses a changed one, and takes more replicates."""
    file, runs = tmp_path / "mine.toml", tmp_path / "runs"
    file.write_text(MINE)
    assert command("run", file, "--store", runs, "--replicates", 1, "--out", tmp_path / "a").exit_code == 0
    record = study_record(runs)
    assert record is not None
    assert set(record["specification"]) == {"name", "environments", "shared", "policies"}
    file.unlink()
    again = command("resume", runs, "--out", tmp_path / "b")
    assert again.exit_code == 0, again.output
    file.write_text(MINE.replace("0.1, nu", "0.2, nu"))
    changed = command("run", file, "--store", runs, "--out", tmp_path / "c")
    assert changed.exit_code == 2
    assert "specification.environments.rough.kernel.lengthscale: stored 0.1, given 0.2" in changed.stderr
    Study.from_dict(mine()).run(store=runs)
    xarray.testing.assert_identical(Study.open(runs).load(), Study.from_dict(mine()).run())


class TestCommand:
    """`--all`, `--quick`, `--json`, codes and colour."""

    def test_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Runs what it can, skips what has no data, names what failed: code 1."""

        def fails(replicate: Any) -> Any:
            problem = BUILDERS["ziomek2025-toy"].build(replicate)
            problem.environment.set_noise(sb.GaussianNoise(1e308))
            return problem

        monkeypatch.setitem(BUILDERS, "zhou2021-slow", Builder(fails, ("toy",), needs_data=False))
        tables = {"name": "a-bad-one", "builder": "zhou2021-slow", "horizon": 60, "replicates": 3}
        kept = ("chowdhury2017-light", "srinivas2010-synthetic")
        studies = {name: Study.load(name) for name in kept} | {"a-bad-one": Study.from_dict(tables)}
        for name in Study.registry.keys() - studies.keys():
            monkeypatch.delitem(Study.registry, name)
        monkeypatch.setitem(Study.registry, "a-bad-one", studies["a-bad-one"])
        result = command("run", "--all", "--quick", "--json", "--data", tmp_path, "--out", tmp_path / "all")
        assert result.exit_code == 1, result.output
        record = json.loads(result.stdout)
        assert record["skipped"] == ["chowdhury2017-light"]
        assert record["failed"] == ["a-bad-one"]
        assert "light_sensors.mat is missing" in result.stderr
        assert "study a-bad-one: 10 runs failed" in result.stderr
        (done,) = record["studies"]
        assert (done["study"], done["replicates"], done["horizon"]) == ("srinivas2010-synthetic", 2, 50)
        assert [path.name for path in (tmp_path / "all").iterdir()] == ["srinivas2010-synthetic"]

    @pytest.mark.parametrize("arguments", [(), ("toy", "--all"), ("--all", "--case", "rbf")], ids=str)
    def test_bad_usage(self, arguments: tuple[str, ...]) -> None:
        assert command("run", *arguments).exit_code == 2

    def test_json(self, tmp_path: Path) -> None:
        """Of run, list and status: all of the output, without NaN."""

        def strict(text: str) -> Any:
            return json.loads(text, parse_constant=lambda word: pytest.fail(word))

        runs, out = tmp_path / "runs", tmp_path / "out"
        some = ("--case", "d = 1", "--policy", "pi-GP-UCB", "--replicates", 1, "--horizon", 30)
        record = strict(command("run", "janz2020-table1", *some, "--store", runs, "--out", out, "--json").stdout)
        assert record["planned"] == {"replicates": 12, "horizon": 10_000}
        (row,) = record["table"]
        assert row["standard_error"] is None
        result = Study.open(runs)
        assert row["regret"] == float(result["regret"].sum())
        assert [row["published"] for row in record["published"]] == ["0.09", "12 min"]
        (curve,) = analysis.curves_of(record)
        np.testing.assert_allclose(curve.mean, result["regret"].values.ravel().cumsum(), rtol=1e-4)
        assert {Path(file).name for file in record["files"]} == {path.name for path in out.iterdir()}
        (status,) = strict(command("status", runs, "--json").stdout)
        assert (status["rounds"], status["state"], status["policy"]) == (30, "complete", "PiGPUCB")
        listed = strict(command("list", "--json").stdout)
        assert [study["name"] for study in listed] == sorted(Study.registry)

    @pytest.mark.slow
    def test_colour(self) -> None:
        """None where the output is no terminal; none where nobody wants it."""
        run = [sys.executable, "-c", "from scalable_bandits.cli import app; app()", "list"]
        for extra in ({}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
            done = subprocess.run(run, capture_output=True, text=True, env={**os.environ, **extra}, check=True)
            assert "srinivas2010-synthetic" in done.stdout
            assert not re.search(r"\x1b\[(\d+;)*[349]\d", done.stdout)


class TestFigures:
    """The page of published and measured figures."""

    @pytest.fixture(autouse=True)
    def _found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(ROOT)

    def test_is_what_the_results_say(self) -> None:
        """Regenerated, it is the page that is there, with pictures of its results; every study has its place."""
        from docs import figures

        papers = [study.name for study in figures.of_papers()]
        measured = (*figures.measured.TUNERS, *figures.measured.POLICIES, *figures.measured.TASKS)
        newer, beside = figures.measured.NEWER, figures.measured.BESIDE
        parts = (*figures.measured.TUNERS, *beside, *figures.measured.POLICIES, *figures.measured.TASKS)
        with_source = [name for name, study in Study.registry.items() if study.source]
        assert sorted([*papers, *newer, *measured]) == sorted(with_source)
        text = figures.PAGE.read_text()
        assert figures.stale(*figures.made()) == []
        shown = re.findall(r"\]\(figures/([\w.-]+)\)", text)
        assert len(shown) == len(set(shown)) > len(with_source)
        assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
            *papers, "Newer policies", "On measured data",
        ]  # fmt: skip
        assert [line[4:] for line in text.splitlines() if line.startswith("### ")] == [*newer, *parts]

    @pytest.mark.slow
    def test_smaller_ones_are_labelled(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A result of `run --json` that is not the whole study says so; its pictures are drawn, and those alone."""
        from docs import figures, pictures

        quick = ("--quick", "--case", "d = 1", "--json", "--out", tmp_path / "out")
        (tmp_path / "janz2020-table1.json").write_text(command("run", "janz2020-table1", *quick).stdout)
        pages, drawn = figures.made(tmp_path)
        text = pages[figures.PAGE]
        small = "**Small scale** (the study has 12 replicates of 10,000 rounds): 1 replicate of 50"
        assert " ".join(text.split()).count(small) == 1
        assert "| d = 1 | pi-GP-UCB | fraction of uniform play's regret | " in text
        assert "| 0.09 |" in text
        monkeypatch.setattr(pictures, "FOLDER", tmp_path)
        assert [picture.name for picture in drawn if not picture.is_current] == [
            "janz2020-table1-of-regret", "janz2020-table1-of-seconds", "janz2020-table1-d-1",
        ]  # fmt: skip
        for picture in drawn:
            picture.save()
            first = picture.path.read_bytes()
            picture.save()
            assert picture.path.read_bytes() == first
        assert all(picture.is_current for picture in drawn)
        (tmp_path / "janz2020-table1.json").write_text("another")
        assert not any(picture.is_current for picture in drawn)


def test_file_of_the_guide_is_a_study() -> None:
    """As it stands there."""
    guide = (ROOT / "docs" / "research.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", guide, flags=re.DOTALL)
    study = Study.from_dict({key: value for key, value in tomllib.loads(text).items() if key not in ("on", "store")})
    assert study.run(replicates=1, horizon=3)["policy"].values.tolist() == ["IGP-UCB", "EI"]


@pytest.mark.slow
def test_a_function_on_a_box(tmp_path):
    """Policies that play whole boxes, in a study of one's own, stored and read again."""
    kernel = 1.0 * sb.Matern([0.3, 0.3], nu=2.5)
    bowl = {"type": "FunctionEnvironment", "space": sb.Box([[0, 1], [0, 2]]), "noise": sb.GaussianNoise(0.1)}
    policies = {"EI": {"type": "GPEI", "kernel": kernel, "refit": 5}, "TS": {"type": "GPTS", "kernel": kernel}}
    tables = {
        "name": "own",
        "horizon": 15,
        "replicates": 2,
        "environments": {"bowl": {**bowl, "optimum": 0.0}},
        "policies": {**policies, "random": {"type": "RandomSearch"}},
        "shared": {"policies": {"noise": 0.1, "regularization": 0.01}},
    }
    study = Study.from_dict(tables, function=lambda x: float(-((x[0] - 0.5) ** 2) - (x[1] - 1.0) ** 2))
    found = study.run(store=tmp_path / "runs")
    np.testing.assert_allclose(found["uniform_regret"], 1 / 12 + 1 / 3, rtol=1e-3)
    regret = {row.policy: row.regret for row in sb.analysis.means(found)}
    assert regret["EI"] < regret["random"]
    kept = Study.open(tmp_path / "runs").load()
    np.testing.assert_array_equal(kept["regret"], found["regret"])


def test_a_study_is_not_a_run(tmp_path: Path) -> None:
    """It is refused as one, and nothing is written into it."""
    place = tmp_path / "study"
    Study.from_dict(mine()).run(store=place, **SMALL)
    before = sorted(place.rglob("*"))
    space = sb.Grid([[0, 1]], 40)
    with pytest.raises(FileExistsError):
        sb.ObservationStore.open(place)
    with pytest.raises(FileExistsError):
        sb.simulate(sb.RandomSearch(space), sb.GPSample(space, sb.RBF(0.2), seed=1), 5, store=place)
    assert sorted(place.rglob("*")) == before
    assert len(list(sb.check(place))) == 3


def test_warnings_name_study_case_and_policy() -> None:
    """In the place of a line of Dask, or of the command that plays the study; once, for a case in which it holds."""
    line = {"type": "GPSample", "space": sb.Grid([[0, 1]], 5), "kernel": sb.RBF(0.3)}
    tables = {
        "name": "narrow", "horizon": 3, "replicates": 2, "policies": {"ours": {"type": "LBGPUCB"}},
        "environments": {"line": line, "second": line},
        "shared": {"policies": {"regularization": 0.01, "noise": 0.1}},
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sb.Study.from_dict(tables).run()
    unproven = [each for each in caught if each.category is sb.UnprovenWidth]
    assert len(unproven) == 1
    assert re.match("study narrow, case (line|second), policy ours: LBGPUCB: the", str(unproven[0].message))
    assert unproven[0].filename == "<study narrow>"
