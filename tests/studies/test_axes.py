"""Axes of studies: horizons and parameters in lists, in the dataset, in stores that grow, and on the command line."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from cases.command import command
from cases.studies import arms

import scalable_bandits as sb
from scalable_bandits import analysis
from scalable_bandits.status import study_progress
from scalable_bandits.store import ObservationStore, SpecificationDiffers
from scalable_bandits.studies import Problem, Replicate, Study
from scalable_bandits.studies.files import text
from scalable_bandits.studies.stored import FILE as NOTES
from scalable_bandits.studies.stored import study_record

KERNEL = {"type": "Matern", "lengthscale": {"axis": "lengthscale"}, "nu": 1.5}
FILE: dict[str, Any] = {
    "name": "axes", "horizon": [20, 50], "replicates": 2,
    "axes": {"lengthscale": [0.1, 0.3], "scale": [1.0, 2.0, 4.0]},
    "environments": {
        "line": {
            "type": "RKHSFunction.sparse", "space": {"type": "Grid", "bounds": [[0.0, 1.0]], "shape": 20},
            "kernel": KERNEL, "noise": {"type": "GaussianNoise", "scale": 0.3},
        },
        "fixed": {"type": "GPSample", "space": {"type": "Arms", "count": 5}, "kernel": {"type": "Covariance", "matrix":
            [[1.0, 0.1, 0.0, 0.0, 0.0], [0.1, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0],
             [0.0, 0.0, 0.0, 0.0, 1.0]]}, "noise": {"type": "GaussianNoise", "scale": 0.3}},
    },
    "policies": {
        "GP-UCB": {"type": "GPUCB", "scale": {"axis": "scale"}},
        "theory": {"type": "IGPUCB", "information_gain": {"axis": "horizon"}},
        "random": {"type": "RandomSearch"},
    },
    "shared": {"policies": {"noise": "exact", "regularization": "noise variance", "rkhs_norm": 2.0}},
}  # fmt: skip
CASES = ["line, lengthscale = 0.1", "line, lengthscale = 0.3", "fixed"]
POLICIES = [f"GP-UCB, scale = {scale}" for scale in (1, 2, 4)] + ["theory, T = 20", "theory, T = 50", "random"]


def study(**changes: Any) -> Study:
    return Study.from_dict({**FILE, **changes})


@pytest.fixture(scope="module")
def whole() -> xarray.Dataset:
    return study().run()


def test_cases_and_policies_at_each_value(whole: xarray.Dataset) -> None:
    """What depends on no axis is there once; a policy that depends on T is there for each T."""
    assert whole["case"].values.tolist() == CASES
    assert whole["policy"].values.tolist() == POLICIES
    assert whole["case_name"].values.tolist() == ["line", "line", "fixed"]
    np.testing.assert_array_equal(whole["lengthscale"], [0.1, 0.3, np.nan])
    np.testing.assert_array_equal(whole["scale"], [1.0, 2.0, 4.0, np.nan, np.nan, np.nan])
    assert whole["horizon"].values.tolist() == [50, 50, 50, 20, 50, 50]
    assert whole.attrs["horizons"] == [20, 50]
    short = whole["regret"].sel(policy="theory, T = 20").values
    assert np.isfinite(short[..., :20]).all()
    assert np.isnan(short[..., 20:]).all()


def test_numbers_are_those_of_studies_with_one_value(whole: xarray.Dataset) -> None:
    """The same functions and noise along each axis, and the same as in studies of the family without axes."""
    for lengthscale, scale, horizon in ((0.1, 1.0, 20), (0.3, 4.0, 50)):
        tables = json.loads(json.dumps(FILE))
        tables["environments"]["line"]["kernel"]["lengthscale"] = lengthscale
        tables["policies"]["GP-UCB"]["scale"] = scale
        tables["policies"]["theory"]["information_gain"] = horizon
        del tables["axes"]
        one = Study.from_dict({**tables, "name": "one", "family": "axes", "horizon": horizon}).run()
        case = f"line, lengthscale = {lengthscale}"
        labels = {"GP-UCB": f"GP-UCB, scale = {scale:g}", "theory": f"theory, T = {horizon}", "random": "random"}
        for name, label in labels.items():
            for variable in ("regret", "candidate", "width"):
                expected = one[variable].sel(case="line", policy=name)
                found = whole[variable].sel(case=case, policy=label)[:, :horizon]
                np.testing.assert_array_equal(found, expected)


def test_tables_have_each_horizon(whole: xarray.Dataset) -> None:
    """A policy that is played once counts up to T; one that is played at each has the run of T."""
    rows = {(row.case, row.policy, row.horizon): row for row in analysis.means(whole)}
    names = ["GP-UCB, scale = 1", "GP-UCB, scale = 2", "GP-UCB, scale = 4", "theory", "random"]
    assert {key[1] for key in rows} == set(names)
    assert len(rows) == 3 * 5 * 2
    regret = whole["regret"].sel(case="fixed")
    for name, label, horizon in (
        ("random", "random", 20),
        ("theory", "theory, T = 20", 20),
        ("theory", POLICIES[4], 50),
    ):
        expected = regret.sel(policy=label)[:, :horizon].sum("round").mean().item()
        assert rows["fixed", name, horizon].regret == pytest.approx(expected)
    pairs = analysis.differences(whole, against="random")
    (pair,) = (p for p in pairs if (p.case, p.policy, p.horizon) == ("fixed", "theory", 20))
    assert pair.difference == pytest.approx(rows["fixed", "theory", 20].regret - rows["fixed", "random", 20].regret)


def test_curves_over_rounds_and_axes(whole: xarray.Dataset) -> None:
    over_rounds = {(one.case, one.policy): one for one in analysis.curves(whole)}
    assert over_rounds["fixed", "theory"].x.tolist() == [20, 50]
    assert over_rounds["fixed", "theory"].values[:, 0] == pytest.approx(
        whole["regret"].sel(case="fixed", policy="theory, T = 20")[:, :20].sum("round").values
    )
    assert over_rounds["fixed", "random"].x.tolist() == list(range(1, 51))
    over_scale = {(one.case, one.policy): one for one in analysis.curves(whole, over="scale")}
    assert set(over_scale) == {(case, "GP-UCB") for case in CASES}
    assert over_scale["fixed", "GP-UCB"].x.tolist() == [1.0, 2.0, 4.0]
    over_cases = {(one.case, one.policy): one for one in analysis.curves(whole, over="lengthscale")}
    assert ("line", "theory") in over_cases
    assert {case for case, _ in over_cases} == {"line"}
    for quantity, over in (("elapsed", "round"), ("seconds", "scale"), ("regret", "width"), ("regret", "horizon")):
        with pytest.raises(ValueError, match=r"^(quantity|over): got"):
            analysis.curves(whole, quantity, over)


def test_a_choice_changes_no_number(whole: xarray.Dataset) -> None:
    """Names with and without values, and values of axes; others than the file's take part as if they were in it."""
    part = study().run(cases=["line"], policies=["theory, T = 20", "GP-UCB"], axes={"scale": [4.0, 8.0]})
    assert part["policy"].values.tolist() == ["GP-UCB, scale = 4", "GP-UCB, scale = 8", "theory, T = 20"]
    same = part.sel(policy=["GP-UCB, scale = 4"])["regret"]
    np.testing.assert_array_equal(same, whole["regret"].sel(case=CASES[:2], policy=["GP-UCB, scale = 4"]))
    assert json.loads(part.attrs["specification"])["axes"]["scale"] == [1.0, 2.0, 4.0, 8.0]
    short = study().run(cases=["line"], policies=["theory"], horizon=[20])
    np.testing.assert_array_equal(short["regret"][..., :20], whole["regret"][:2, 3:4, :, :20])


@pytest.mark.parametrize("where", ["here", "workers"])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_a_store_grows_along_its_axes(
    where: str, whole: xarray.Dataset, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A policy, a horizon and values are added later: old numbers stay, and the dataset is that of a run at once."""
    place, on = tmp_path / "runs", request.getfixturevalue("client") if where == "workers" else None
    policies = {name: FILE["policies"][name] for name in ("theory", "random")}
    Study.from_dict({**FILE, "policies": policies, "axes": {"lengthscale": [0.1, 0.2]}, "horizon": [10, 20]}).run(
        store=place, on=on
    )
    before = {run.relative_to(place): run.stat().st_mtime_ns for run in place.rglob("0000/committed")}
    result = study().run(store=place, axes={"lengthscale": [0.1, 0.3]}, on=on).load()
    assert "line, lengthscale = 0.2" in result["case"]
    np.testing.assert_array_equal(result["horizon"].sel(policy="theory, T = 10"), 10)
    found = result.sel(case=CASES, policy=POLICIES)
    xarray.testing.assert_identical(found["regret"].drop_attrs(), whole["regret"].drop_attrs())
    assert {name for name in before if "t-10" in str(name) or "t-20" in str(name)}
    again = Study.open(place).load()
    xarray.testing.assert_identical(again.drop_attrs(), result.drop_attrs())


@pytest.mark.slow
def test_one_horizon_becomes_a_list(tmp_path: Path) -> None:
    """The runs of a policy that depends on the horizon stay where they are, under a name with T."""
    place = tmp_path / "runs"
    study(horizon=20).run(store=place)
    assert "theory" in study_record(place)["policies"]
    result = study().run(store=place).load()
    assert (place / "fixed" / "theory" / "0000").is_dir()
    assert "theory, T = 20" in result["policy"]
    xarray.testing.assert_identical(result.drop_attrs(), study().run().drop_attrs())
    with pytest.raises(SpecificationDiffers, match="theory: stored with a list of horizons, given with no axis"):
        study(horizon=50).run(store=place)


@pytest.mark.parametrize("keep", ["log", 7])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_some_rounds(keep: Any, whole: xarray.Dataset, tmp_path: Path) -> None:
    """Regrets are sums over all rounds, in memory and in stores; a store goes on with what it keeps."""
    here = study(keep=keep).run()
    stored = study(keep=keep, horizon=[20]).run(store=tmp_path / "runs")
    assert stored["round"].values[-1] == 20
    stored = study().run(store=tmp_path / "runs").load()
    rounds = stored["round"].values
    assert {20, 50} <= set(rounds.tolist())
    np.testing.assert_array_equal(here["cumulative_regret"], stored["cumulative_regret"])
    np.testing.assert_array_equal(here["regret"], whole["regret"].sel(round=rounds))
    expected = whole["regret"].cumsum("round", skipna=False).sel(round=rounds)
    np.testing.assert_allclose(here["cumulative_regret"], expected, rtol=1e-12)
    key = "case", "policy", "horizon", "runs", "regret", "average", "fraction"
    rows = [[getattr(row, name) for name in key] for row in analysis.means(stored)]
    for row, one in zip(rows, analysis.means(whole), strict=True):
        assert row == pytest.approx([getattr(one, name) for name in key])
    assert ObservationStore.open(tmp_path / "runs" / "fixed" / "random" / "0000").specification["keep"] == keep
    with pytest.raises(SpecificationDiffers, match="keep: stored"):
        study(keep="all").run(store=tmp_path / "runs")


@pytest.mark.parametrize("keep", ["all", 7])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_unfinished_studies_can_be_read(keep: Any, tmp_path: Path) -> None:
    """Runs that are missing: one of two replicates, all of a policy, those of a horizon."""
    place = tmp_path / "runs"
    study(keep=keep).run(store=place)
    for run in (
        "fixed/random/0001",
        "fixed/gp-ucb-scale-1/0000",
        "fixed/gp-ucb-scale-1/0001",
        "fixed/theory-t-20/0000",
    ):
        shutil.rmtree(place / run)
    result = Study.open(place).load()
    done = analysis.complete(result)
    assert (int(done.sum()), done.size) == (32, 36)
    rows = {(row.policy, row.horizon): row.runs for row in analysis.means(result) if row.case == "fixed"}
    assert rows["random", 50] == rows["random", 20] == rows["theory", 20] == 1
    assert rows["GP-UCB, scale = 1", 50] == 0
    assert rows["theory", 50] == 2
    assert {one.policy for one in analysis.curves(result) if one.case == "fixed"} == {
        "GP-UCB, scale = 2", "GP-UCB, scale = 4", "theory", "random",
    }  # fmt: skip
    (over,) = (one for one in analysis.curves(result, over="scale") if one.case == "fixed")
    assert over.x.tolist() == [2.0, 4.0]
    assert analysis.differences(result, against="random")
    assert len(analysis.finished(result, "fixed", "random")) == 1
    assert len(analysis.finished(result, "fixed", "GP-UCB, scale = 1")) == 0


def build(replicate: Replicate) -> Problem:
    """On as many arms as the axis says."""
    return arms(replicate, count=int(replicate.values["arms"]))


def test_in_python() -> None:
    made = Study("arms", ("one",), build, 10, 2, axes={"arms": [3, 6]})
    result = made.run()
    assert result["case"].values.tolist() == ["one, arms = 3", "one, arms = 6"]
    assert result["arms"].values.tolist() == [3, 6]
    assert made.replicate("one", 0, 10).values == {"arms": 3}


def test_two_values_that_mean_the_same() -> None:
    """The first two: that an environment depends on the axis is seen at the third."""
    result = Study("arms", ("one",), lambda at: build(at._replace(at=(("arms", max(at.values["arms"], 4)),))), 10, 1,
                   axes={"arms": [3, 4, 6]}).run()  # fmt: skip
    assert result["arms"].values.tolist() == [3, 4, 6]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_what_a_problem_lacks_is_not_played(stored: bool, tmp_path: Path) -> None:
    """A policy that is only in some cases: it is neither missing nor in the tables there."""
    place = str(tmp_path / "runs") if stored else None
    policies = {**FILE["policies"], "theory": {**FILE["policies"]["theory"], "most_candidates": 5}}
    result = study(policies=policies).run(store=place).load()
    assert np.isnan(result["regret"].sel(case=CASES[:2], policy=["theory, T = 20", "theory, T = 50"])).all()
    np.testing.assert_array_equal(analysis.present(result), [[True] * 3 + [False] * 2 + [True]] * 2 + [[True] * 6])
    np.testing.assert_array_equal(analysis.complete(result).all(axis=2), analysis.present(result))
    assert not any(row.policy == "theory" and row.case != "fixed" for row in analysis.means(result))
    assert all(row.runs == 2 for row in analysis.means(result))
    if place is not None:
        assert study_progress(place) == (4 * 2 * 2 + 6 * 2, 4 * 2 * 2 + 6 * 2)
        xarray.testing.assert_identical(Study.open(place).load(), result)
        (Path(place) / NOTES).unlink()  # as of a study that was killed before its notes were written
        assert study_progress(place) == (4 * 2 * 2 + 6 * 2, 4 * 2 * 2 + 6 * 2)
    with pytest.raises(ValueError, match=r"^policies.theory.most_candidates: got 0"):
        study(policies={**policies, "theory": {**FILE["policies"]["theory"], "most_candidates": 0}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": []}, r"^horizon: got \[\]; allowed: a number of rounds, or a list of different numbers"),
        ({"horizon": [10, 10]}, r"^horizon: got \[10, 10\]"),
        ({"horizon": [10, 0]}, r"^horizon\[1\]: got 0"),
        ({"horizon": "10"}, r"^horizon: got '10'"),
        ({"keep": "some"}, r"^keep: got 'some'"),
        ({"axes": [1]}, r"^axes: got \[1\]; allowed: a table"),
        ({"axes": {"round": [1, 2]}}, r"^key of axes: got 'round'"),
        ({"axes": {"a b": [1, 2]}}, r"^key of axes: got 'a b'"),
        ({"axes": {**FILE["axes"], "more": [1]}}, r"^axes.more: got \[1\]; allowed: .*at least two"),
        ({"axes": {**FILE["axes"], "more": [1, 1]}}, r"^axes.more: got \[1, 1\]; allowed: different"),
        ({"axes": {**FILE["axes"], "more": [1, [2]]}}, r"^axes.more: got"),
        ({"axes": {**FILE["axes"], "more": [1, "1"]}}, r"^axes.more: got .*; allowed: different"),
        ({"axes": {**FILE["axes"], "more": [0.3, 0.1 + 0.2]}}, r"^axes.more: got .*; allowed: different"),
        ({"axes": {"scales": [1, 2], "lengthscale": [1, 2]}}, r"^axis: got 'scale'; allowed: did you mean 'scales'"),
        ({"axes": {"scale": [1, 2], "lengthscale": [0.1, -0.1]}}, r"lengthscale: got -0.1"),
    ],
    ids=str,
)
def test_refusals_of_files(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        study(**changes)


def test_dimensions() -> None:
    """Bounds of a plain grid are repeated, with an axis or without; beyond what is enumerated, too."""
    space = {"type": "Grid", "bounds": [[0.0, 2.0]], "shape": 4, "dimension": {"axis": "d"}}
    grown = study(
        axes={"d": [2, 40]}, horizon=5,
        environments={
            "sum": {
                "type": "AdditiveFunction.sparse", "space": space, "kernel": {**KERNEL, "lengthscale": 0.3},
                "noise": {"type": "GaussianNoise", "scale": 0.3},
            },
            "hidden": {
                "type": "AdditiveFunction", "space": {**space, "type": "Box", "dimension": 12, "shape": None},
                "terms": [{"type": "Benchmark", "name": "branin"}], "groups": [[11, 3]],
            },
        },
        policies={"random": {"type": "RandomSearch", "candidates": 16}}, shared={},
    )  # fmt: skip
    made = {case: grown.build(grown.replicate(case, 0, 5, 0, None, {"d": 40})) for case in ("sum", "hidden")}
    assert made["sum"].environment.space == sb.Grid([[0, 2]] * 40, 4)
    hidden = made["hidden"].environment
    assert hidden.space == sb.Box([[0, 2]] * 12)
    assert hidden.optimum() == sb.Benchmark("branin").optimum()
    result = grown.run()
    assert result["case"].values.tolist() == ["sum, d = 2", "sum, d = 40", "hidden"]
    assert (result["regret"] >= 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimension": 0}, "^dimension: got 0; allowed: a positive integer"),
        ({"dimension": {"axis": "e"}}, "^axis: got 'e'"),
        ({"dimension": 2, "bounds": [[0, 1], [0, 1]]}, r"^bounds: got .*; allowed: one pair of ends, .* dimension = 2"),
    ],
)
def test_refused_dimensions(changes: dict[str, Any], message: str) -> None:
    line = {**FILE["environments"]["line"], "space": {**FILE["environments"]["line"]["space"], **changes}}
    with pytest.raises(ValueError, match=message):
        study(environments={"line": line})


def test_refusals_before_anything_runs(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    with pytest.raises(ValueError, match=r"^axes.more: got \[1, 2\]; allowed: an axis on which an environment or a"):
        study(axes={**FILE["axes"], "more": [1, 2]}).run(store=place)
    for axes, message in (
        ({"none": [1]}, "^axes: got 'none'; allowed: known: lengthscale, scale"),
        ({"scale": []}, r"^axes.scale: got \[\]; allowed: a list"),
        ({"scale": [True, [1]]}, "^axes.scale: got"),
    ):
        with pytest.raises(ValueError, match=message):
            study().run(store=place, axes=axes)
    with pytest.raises(ValueError, match=r"^policies: got 'theory, T = 21'; allowed: did you mean 'theory, T = 20'"):
        study().run(store=place, policies=["theory, T = 21"])

    assert not place.exists()


@pytest.mark.slow
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with a part for each horizon, values chosen on the command line, continued from the store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axes.toml").write_text(text(FILE))
    words = "run", "axes.toml", "--replicates", 1, "--store", "runs", "--out", "out"
    found = command(*words, "--horizon", 10, "--horizon", 20, "--axis", "scale=2,3", "--case", "fixed")
    assert found.exit_code == 0, found.output
    assert "T = 10" in found.stdout
    assert "GP-UCB, scale = 3" in found.stdout
    assert (tmp_path / "out" / "regret.png").exists()
    header, first = (tmp_path / "out" / "table.csv").read_text().splitlines()[:2]
    assert header.startswith("case,policy,horizon,runs")
    assert ",10,1," in first
    again = command("resume", "runs", "--out", "again")
    assert again.exit_code == 0, again.output
    status = command("status", "runs").stdout
    assert (status.count("10/10"), status.count("20/20"), status.count("complete")) == (1, 4, 5)
    assert command("report", "runs").exit_code == 0
    for option, message in (("scale", "--axis: got 'scale'"), ("nothing=1", "axes: got 'nothing'")):
        refused = command(*words, "--axis", option)
        assert refused.exit_code == 2
        assert message in refused.stderr
