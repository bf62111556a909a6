"""The command: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import math
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray
import zarr
from cases.command import command
from cases.measured import DATA, MEASURED, NAMES, first_values
from matplotlib.image import imread

from scalable_bandits import __version__, progress, store
from scalable_bandits.analysis import Mean
from scalable_bandits.cli import messages, studies
from scalable_bandits.cli.studies import _small
from scalable_bandits.runs.readable import significant
from scalable_bandits.studies import Comparison, Study
from scalable_bandits.terminal import PlainConsole

SMALL = ("--replicates", "2", "--horizon", "20")


class Ran(NamedTuple):
    result: Any
    folder: Path
    study: Study

    def table(self) -> list[dict[str, str]]:
        with (self.folder / "table.csv").open(newline="") as handle:
            return list(csv.DictReader(handle))


@pytest.fixture(scope="module", params=NAMES)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A study, run once by the command."""
    folder = tmp_path_factory.mktemp("runs") / "deep" / request.param
    axes = [f"{axis}={first},{second}" for axis, (first, second) in (first_values(request.param) or {}).items()]
    options = [word for axis in axes for word in ("--axis", axis)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "LINE_SECONDS", math.inf)  # no line, however slow the machine
        result = command("run", request.param, *SMALL, *options, "--seed", 3, "--data", DATA, "--out", folder)
    return Ran(result, folder, Study.load(request.param))


@pytest.mark.sampled(99, slow=20, first="janz2020-table1")
class TestRun:
    """`run` of every study."""

    def test_succeeds_and_says_where(self, ran: Ran) -> None:
        assert ran.result.exit_code == 0, ran.result.output
        assert ran.result.stderr == ""
        extra = {"published.csv": ran.study.published, "growth.png": ran.study.rates, "partition.png": ran.study.cover}
        extra["scaling.png"] = ran.study.timed  # also with axes, as every study with axes is timed
        expected = ["regret.png", "result.zarr", "table.csv", *(name for name, has in extra.items() if has)]
        assert sorted(path.name for path in ran.folder.iterdir()) == sorted(expected)
        for path in ran.folder.iterdir():
            assert str(path) in ran.result.stdout

    def test_prints_every_policy(self, ran: Ran) -> None:
        """With the title, the source and the size of the run."""
        words = " ".join(ran.result.stdout.split())
        assert "2 replicates x 20 rounds" in words
        assert ran.study.source in words
        for row in ran.table():
            assert row["policy"] in words
            best = ran.study.measure == "best"
            assert (significant(float(row["best"]), 3) if best else f"{float(row['regret']):.4g}") in words
        if len(ran.study.cases) > 1:
            assert all(case in words for case in ran.study.cases)

    @pytest.mark.slow
    def test_saves_what_the_study_gives(self, ran: Ran) -> None:
        """The same numbers as `Study.run` with this seed; no warning on opening."""
        axes = first_values(ran.study.name)
        expected = ran.study.run(replicates=2, horizon=20, seed=3, data=DATA, axes=axes)
        path = str(ran.folder / "result.zarr")
        with xarray.open_zarr(path, consolidated=False) as opened:
            measured = list(MEASURED)
            found, again = (each.load().drop_vars(measured, errors="ignore") for each in (opened, expected))
            xarray.testing.assert_identical(found, again)
        regret = zarr.open_group(path, mode="r")["regret"]
        assert isinstance(regret, zarr.Array)
        np.testing.assert_array_equal(regret[...], expected["regret"].values)

    def test_table_follows_from_the_data(self, ran: Ran) -> None:
        """Recomputed row by row in plain Python."""
        group = zarr.open_group(str(ran.folder / "result.zarr"), mode="r")
        regret, uniform = np.asarray(group["regret"][...]), np.asarray(group["uniform_regret"][...])
        cases, policies = (list(map(str, group[name][...])) for name in ("case", "policy"))
        rows = ran.table()
        assert list(rows[0]) == list(Mean._fields)
        assert len(rows) == len(cases) * len(policies)
        for row in rows:
            c, p = cases.index(row["case"]), policies.index(row["policy"])
            totals = [sum(regret[c, p, r].tolist()) for r in range(2)]
            mean = sum(totals) / 2
            expected = {
                "regret": mean,
                "standard_error": abs(totals[0] - totals[1]) / 2,
                "average": mean / 20,
                "last_tenth": sum(regret[c, p, r, t] for r in range(2) for t in (18, 19)) / 4,
                "fraction": mean / (20 * sum(uniform[c]) / 2),
            }
            assert {key: float(row[key]) for key in expected} == pytest.approx(
                expected, rel=1e-12, abs=1e-14 * max(totals)
            )
        for case in cases:
            by = "best" if ran.study.measure == "best" else "regret"
            regrets = [float(row[by]) for row in rows if row["case"] == case]
            assert regrets == sorted(regrets)

    def test_published(self, ran: Ran) -> None:
        """Printed, and kept, beside ours."""
        if ran.study.published is None:
            assert "Compared with the published results" not in ran.result.stdout
            return
        with (ran.folder / "published.csv").open(newline="") as handle:
            rows = list(csv.DictReader(handle))
        assert list(rows[0]) == list(Comparison._fields)
        opened = store.load(ran.folder / "result.zarr").load()
        assert [row["quantity"] for row in rows] == [row.quantity for row in ran.study.published(opened)]
        printed = ran.result.stdout.partition("Compared with the published results")[2]
        for row in rows:
            assert row["published"] in printed
            assert row["quantity"] in printed
            ours = float(row["ours"])  # NaN of a run that is too short for it: an empty cell
            assert f"{ours:.3g}" in printed if ours == ours else "nan" not in printed

    def test_pictures(self, ran: Ran) -> None:
        """PNGs of a sane size with something on them."""
        for path in ran.folder.glob("*.png"):
            data = path.read_bytes()
            assert data[:8] == b"\x89PNG\r\n\x1a\n"
            width, height = struct.unpack(">II", data[16:24])
            assert 600 <= width <= 3000
            assert 400 <= height <= 3000
            assert 10_000 < len(data) < 2_000_000
            pixels = imread(path)[..., :3]
            assert pixels[0, 0].tolist() == [1.0, 1.0, 1.0]
            coloured = np.ptp(pixels, axis=2) > 0.3
            assert 0.001 < coloured.mean() < 0.5


@pytest.mark.slow
def test_some_cases_and_policies(tmp_path: Path) -> None:
    """By name, once for each; others are refused."""
    chosen = ("--case", "camel", "--case", "bukin6", "--policy", "SupKernelUCB")
    result = command("run", "janz2022-hierarchical", *SMALL, *chosen, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    opened = store.load(tmp_path / "out" / "result.zarr").load()
    assert opened["case"].values.tolist() == ["camel", "bukin6"]
    assert opened["policy"].values.tolist() == ["SupKernelUCB"]
    assert not (tmp_path / "out" / "partition.png").exists()
    refused = command("run", "janz2022-hierarchical", *SMALL, "--case", "came", "--out", tmp_path / "other")
    assert refused.exit_code == 2
    assert "camel" in refused.stderr
    assert not (tmp_path / "other").exists()


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of policies and names of stores: no markup, no emoji."""
    monkeypatch.chdir(tmp_path)
    tables = Study.load("srinivas2010-synthetic").to_dict()
    tables["policies"] = {"random [red] :smile:": tables["policies"]["random"]}
    Path("mine.toml").write_text(Study.from_dict({**tables, "name": "mine"}).to_toml())
    result = command("run", "mine.toml", *SMALL, "--store", "runs[1]", "--out", "out[2]")
    assert result.exit_code == 0, result.output
    assert "random [red] :smile:" in result.stdout
    assert "out[2]/table.csv" in result.stdout


def test_version() -> None:
    result = command("--version")
    assert (result.exit_code, result.stdout) == (0, f"scalable_bandits {__version__}\n")


def test_list() -> None:
    """Every study, with the size of its default run and whether it wants data."""
    result = command("list", columns=200)
    assert result.exit_code == 0
    for name, study in Study.registry.items():
        assert name in result.stdout
        line = next(line for line in result.stdout.splitlines() if f"{name} " in line)
        assert f" {study.replicates} x {study.horizons[-1]:,} " in line
        assert study.duration in line
        assert ("--data" in line) == study.needs_data
        assert ("[data]" in line) == bool(study.packages)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bbob", {"axes": {"function": [2, 3], "dimension": [2]}, "replicates": 2, "horizon": 50}),
        ("hpolib-short", {"axes": {"table": ["naval_propulsion"]}, "replicates": 2, "horizon": 50}),
        ("hpolib-long", {"cases": ["naval_propulsion"], "replicates": 1, "horizon": 50}),
    ],
)
def test_sizes_of_a_quick_run(name: str, expected: dict[str, Any]) -> None:
    """Two numbers of the first axis, so that a curve can be drawn over it, or one word; one case if costs are taken."""
    given = dict.fromkeys(("replicates", "horizon", "axes", "cases"))
    found = _small(Study.load(name), given, quick=True)
    assert {key: value for key, value in found.items() if value is not None} == expected
    assert _small(Study.load(name), given, quick=False) == given
    own = {**given, "horizon": 7}
    assert _small(Study.load(name), own, quick=True)["horizon"] == 7


def test_list_shows_titles_at_120_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded, as wide as the window and no wider."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):  # with which a dumb terminal has 80 columns
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    for module in (messages, studies):  # a console keeps the COLUMNS under which it was made
        monkeypatch.setattr(module, "console", PlainConsole())
    result = command("list", columns=120)
    assert all(study.title.split()[0] in result.stdout for study in Study.registry.values())
    assert "what it shows" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


@pytest.mark.parametrize("name", ["run", "status", "watch", "resume", "report", "show", "list"])
def test_help_has_names_for_values(name: str) -> None:
    """An option says what it takes in our words, a flag takes nothing; typer's own line is the last."""
    lines = command(name, "--help", columns=80).stdout.splitlines()
    options = [line for line in lines if " --" in line and not line.lstrip("│ ").startswith("--help")]
    assert not [line for line in options if "<" in line]
    takes = {"--out": ("FOLDER", "FILE"), "--on": ("WHERE",), "--rounds": ("N",), "--replicates": ("N",)}
    for line in options:
        option, *rest = line.strip("│ ").split()
        assert option not in takes or rest[0] in takes[option]


def test_list_is_readable_in_a_narrow_window() -> None:
    """Names are not cut."""
    result = command("list", columns=80)
    assert all(name in result.stdout for name in Study.registry)


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study's name, where the command was called; again is refused."""
    monkeypatch.chdir(tmp_path)
    arguments = ("run", "srinivas2010-synthetic", "--replicates", 1, "--horizon", 2)
    assert command(*arguments).exit_code == 0
    assert (tmp_path / "srinivas2010-synthetic" / "table.csv").is_file()
    assert command(*arguments).exit_code == 2


def test_one_replicate(tmp_path: Path) -> None:
    """No standard error, no band, no warning."""
    result = command(
        "run", "srinivas2010-synthetic", "--replicates", 1, "--horizon", 1, "--seed", 0, "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    assert "\n variance only " in result.stdout
    assert "nan" not in result.stdout


class TestRefusals:
    """Exit code 2, one line that says why, and nothing written."""

    def test_a_name_like_no_other(self) -> None:
        """All names, and no guess."""
        result = command("show", "nope")
        assert result.exit_code == 2
        assert "did you mean" not in result.stderr
        assert all(name in result.stderr for name in Study.registry)

    def test_no_such_file(self, tmp_path: Path) -> None:
        result = command("run", tmp_path / "mine.toml", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert result.stderr == f"error: study: file {tmp_path}/mine.toml does not exist\n"
        assert not any(tmp_path.iterdir())

    def test_missing_data(self, tmp_path: Path) -> None:
        result = command("run", "chowdhury2017-light", *SMALL, "--data", tmp_path, "--out", tmp_path / "out")
        assert result.exit_code == 2
        for part in ("light_sensors.mat is missing", str(tmp_path), "--data"):
            assert part in result.stderr
        assert "Traceback" not in result.output
        assert not any(tmp_path.iterdir())

    def test_existing_folder(self, tmp_path: Path) -> None:
        """Also an empty one, also a file; it stays as it is."""
        folder, empty, file = tmp_path / "mine", tmp_path / "empty", tmp_path / "file"
        folder.mkdir()
        empty.mkdir()
        for path in (folder / "table.csv", file):
            path.write_text("mine")
        for out in (folder, empty, file):
            result = command("run", "srinivas2010-synthetic", *SMALL, "--out", out)
            assert result.exit_code == 2
            assert f"{out} exists already" in result.stderr
        assert (folder / "table.csv").read_text() == file.read_text() == "mine"
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "file", "mine", "table.csv"]

    @pytest.mark.parametrize(
        "option", [("--replicates", "0"), ("--horizon", "0"), ("--horizon", "2.5"), ("--seed", "-1"), ("--seed", "x")]
    )
    def test_bad_numbers(self, option: tuple[str, str], tmp_path: Path) -> None:
        result = command("run", "srinivas2010-synthetic", *option, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert option[0] in result.stderr
        assert not any(tmp_path.iterdir())

    def test_no_arguments(self) -> None:
        result = command()
        assert "list" in result.output
        assert "run" in result.output


@pytest.mark.slow
def test_numbers_have_their_digits(tmp_path):
    """Errors two, regrets four with their zeros; one replicate is one."""
    done = command("run", "srinivas2010-synthetic", *SMALL, "--out", tmp_path / "out", columns=100)
    rows = re.findall(r"^ [\w -]+?  +([\d.,]+) ± ([\d.,]+)  ", done.stdout, re.MULTILINE)
    assert len(rows) == 6
    for regret, error in rows:
        assert sum(map(str.isdigit, regret.strip("0. "))) <= 4
        assert len(error.lstrip("0.").replace(".", "")) in (1, 2)
    one = command("run", "srinivas2010-synthetic", "--replicates", 1, "--horizon", 5, "--out", tmp_path / "one")
    assert "; 1 replicate x 5 rounds" in one.stdout
