"""Studies in a store to which cases, policies, replicates and rounds are added: the rest is played, no more."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from cases.command import command
from cases.studies import arms

import scalable_bandits as sb
from scalable_bandits.store import SpecificationDiffers
from scalable_bandits.studies import Problem, Replicate, Study
from scalable_bandits.studies.files import text
from scalable_bandits.studies.stored import StudyResults, study_record

LINE = {"type": "Grid", "bounds": [[0.0, 1.0]], "shape": 20}
FILE: dict[str, Any] = {
    "name": "growing", "horizon": 30, "replicates": 3,
    "environments": {
        "rough": {"type": "GPSample", "space": LINE, "kernel": {"type": "Matern", "lengthscale": 0.1, "nu": 1.5}},
        "smooth": {"type": "GPSample", "space": LINE, "kernel": {"type": "RBF", "lengthscale": 0.3}},
    },
    "policies": {"EI": {"type": "GPEI"}, "UCB": {"type": "IGPUCB"}, "random": {"type": "RandomSearch"}},
    "shared": {"policies": {"noise": 1.0, "regularization": 0.5}},
}  # fmt: skip


def study(**changes: Any) -> Study:
    return Study.from_dict({**FILE, **changes})


def part(*policies: str, cases: tuple[str, ...] = ("rough", "smooth"), **changes: Any) -> Study:
    """The study with some of the policies and cases in its file."""
    tables = {key: {name: FILE[key][name] for name in names} for key, names in (("policies", policies),)}
    environments = {name: FILE["environments"][name] for name in cases}
    return Study.from_dict({**FILE, **tables, "environments": environments, **changes})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What was played: class of the policy, rounds before, and rounds in all."""
    runs = sys.modules["scalable_bandits.studies.runs"]
    simulate, found = runs.simulate, []

    def noted(policy: sb.Policy, environment: Any, horizon: int, **given: Any) -> Any:
        run = simulate(policy, environment, horizon, **given)
        found.append((type(policy).__name__, horizon, environment.space.size))
        return run

    monkeypatch.setattr(runs, "simulate", noted)
    return found


def assert_whole(place: Path, result: xarray.Dataset, whole: xarray.Dataset) -> None:
    """What `run` returned, and what is in the store, are the study that was run at once."""
    xarray.testing.assert_identical(result.load(), whole)
    xarray.testing.assert_identical(Study.open(place).load(), whole)
    assert all(found.whole for found in sb.check(place))


@pytest.mark.slow
def test_a_policy_and_a_horizon_are_added(tmp_path: Path, played: list[Any]) -> None:
    """Two policies of thirty rounds; then a third, which comes first, and then sixty rounds of all."""
    place = tmp_path / "runs"
    before = part("UCB", "random").run(store=place).load()
    assert len(played) == 2 * 2 * 3
    played.clear()
    result = study().run(store=place)
    assert played == [("GPEI", 30, 20)] * 6
    assert_whole(place, result, study().run())
    xarray.testing.assert_equal(Study.open(place)["regret"].sel(policy=["UCB", "random"]).load(), before["regret"])
    ids = {path: study_id(path) for path in place.glob("*/*/000?")}
    assert len(ids) == 18
    played.clear()
    result = study().run(store=place, horizon=60)
    assert [horizon for _, horizon, _ in played] == [60] * 18
    assert ids == {path: study_id(path) for path in place.glob("*/*/000?")}  # they went on, and were not made anew
    assert_whole(place, result, study(horizon=60).run())
    played.clear()
    study().run(store=place)
    assert not played


def study_id(path: Path) -> str:
    return str(sb.ObservationStore.open(path).attributes["id"])


ADDITIONS: dict[str, list[Callable[[Path], Any]]] = {
    "case": [
        lambda place: part("EI", "UCB", "random", cases=("smooth",)).run(store=place),
        lambda place: study().run(store=place),
    ],
    "chosen, one after the other": [
        lambda place: study().run(store=place, policies=["random"], cases=["smooth"], replicates=1),
        lambda place: study().run(store=place, policies=["UCB"], replicates=2),
        lambda place: study().run(store=place, cases=["rough"]),
        lambda place: study().run(store=place),
    ],
    "everything, the last first": [
        lambda place: part("random", cases=("smooth",), replicates=1, horizon=10).run(store=place),
        lambda place: part("UCB", "random", cases=("smooth", "rough"), replicates=2, horizon=20).run(store=place),
        lambda place: study().run(store=place),
    ],
    "a shorter horizon of another policy": [
        lambda place: part("random").run(store=place),
        lambda place: part("UCB", horizon=10).run(store=place),
        lambda place: study().run(store=place),
    ],
}


@pytest.mark.parametrize("way", ADDITIONS)
@pytest.mark.sampled(4)
@pytest.mark.slow
def test_whatever_is_added(way: str, tmp_path: Path) -> None:
    for add in ADDITIONS[way]:
        result = add(tmp_path / "runs")
    assert_whole(tmp_path / "runs", result, study().run())


@pytest.mark.slow
def test_what_was_not_played_is_missing(tmp_path: Path) -> None:
    study().run(store=tmp_path / "runs", policies=["random"])
    result = study().run(store=tmp_path / "runs", policies=["UCB"], cases=["rough"], horizon=50, replicates=2)
    assert dict(result.sizes) == {"case": 2, "policy": 2, "replicate": 3, "round": 50}
    there = np.isfinite(result["regret"]).sum("round")
    np.testing.assert_array_equal(there.sel(policy="random"), np.full((2, 3), 30))
    np.testing.assert_array_equal(there.sel(policy="UCB"), [[50, 50, 0], [0, 0, 0]])


@pytest.mark.slow
def test_names_of_folders_stay(tmp_path: Path) -> None:
    """Labels that are alike in a file system, added one by one."""
    labels = ["UCB", "ucb", "U.C.B", "ucb-1", "Ucb"]
    tables = {label: {"type": "GPUCB", "scale": 1.0 + i} for i, label in enumerate(labels)}
    place, folders, given = tmp_path / "runs", {}, {**FILE, "horizon": 5, "replicates": 1}
    for count in range(1, 6):
        some = dict(list(tables.items())[:count])
        result = Study.from_dict({**given, "policies": some}).run(store=place)
        record = study_record(place)
        assert record is not None
        store = StudyResults(record, place)
        for i, label in enumerate(record["policies"]):
            assert folders.setdefault(label, store.place_of((0, i, 0))) == store.place_of((0, i, 0))
    assert len(set(folders.values())) == 5
    assert_whole(place, result, Study.from_dict({**given, "policies": tables}).run())


@pytest.mark.slow
def test_what_does_not_grow(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    study().run(store=place, replicates=1)
    before = study_record(place)
    changed = {**FILE["policies"], "UCB": {"type": "IGPUCB", "delta": 0.2}}
    noisy = {"policies": {"noise": 2.0, "regularization": 0.5}}
    for changes, line in (
        ({"policies": changed}, r"specification.policies.UCB.delta: stored 0.1, given 0.2"),
        ({"shared": noisy}, r"specification.shared.policies.noise: stored 1.0, given 2.0"),
        ({"seed": 1}, "seed: stored 0, given 1"),
        ({"name": "other"}, "study: stored 'growing', given 'other'"),
        ({"family": "line"}, "family: stored nothing, given 'line'"),
    ):
        with pytest.raises(SpecificationDiffers, match=line):
            study(**changes).run(store=place)
    assert study_record(place) == before
    study(title="Other words", source="of another page").run(store=place, replicates=1)


@pytest.mark.slow
def test_a_policy_that_depends_on_the_horizon(tmp_path: Path) -> None:
    """Its runs cannot go on: the store says so before it changes, also if others are to go on."""
    shared = {"policies": {**FILE["shared"]["policies"], "rkhs_norm": 1.0}}
    tables = {"random": FILE["policies"]["random"], "pi": {"type": "PiGPUCB", "horizon": "study"}}
    given = {**FILE, "policies": tables, "shared": shared}
    given["environments"] = {"rough": FILE["environments"]["rough"]}
    made = Study.from_dict(given)
    made.run(store=tmp_path / "runs", replicates=1)
    before = study_record(tmp_path / "runs")
    refusal = r"(?s)^horizon: got 40; allowed: 30, as in .*rough, pi.horizon: stored 30, given 40"
    for policies in (None, ["random"]):
        with pytest.raises(ValueError, match=refusal):
            made.run(store=tmp_path / "runs", horizon=40, replicates=1, policies=policies)
    assert study_record(tmp_path / "runs") == before
    made.run(store=tmp_path / "others", replicates=1, policies=["random"])
    result = made.run(store=tmp_path / "others", horizon=40, replicates=1, policies=["random"])
    assert np.isfinite(result["regret"]).all()


@pytest.mark.slow
def test_a_study_made_in_python_needs_few_words(tmp_path: Path) -> None:
    made = Study("mine", ("one", "two"), arms, 10, 2)
    assert (made.title, made.source, made.duration) == ("mine", "", "")
    made.run(store=tmp_path / "runs", policies=["random"])
    result = made.run(store=tmp_path / "runs", horizon=20)
    assert_whole(tmp_path / "runs", result, made.run(horizon=20))


def build_more(replicate: Replicate) -> Problem:
    """The same policies on other arms, which only their space shows."""
    return arms(replicate, count=7)


def test_spaces_of_a_study_made_in_python_stay(tmp_path: Path) -> None:
    """Also where nothing is left to play, and no run would be opened."""
    Study("mine", ("one",), arms, 10, 1).run(store=tmp_path / "runs", policies=["random"])
    refusal = r"(?s)another study.* Differences:.*one, random.space.count: stored 6, given 7"
    with pytest.raises(SpecificationDiffers, match=refusal):
        Study("mine", ("one",), build_more, 10, 1).run(store=tmp_path / "runs")


def valley(x: Any) -> float:
    return float((x[0] - 0.3) ** 2)


def peak(x: Any) -> float:
    return -valley(x)


@pytest.mark.parametrize("changes", [{}, {"replicates": 4}, {"horizon": 20}, {"policies": ["random"]}])
def test_a_refused_function_changes_nothing(changes: dict[str, Any], tmp_path: Path) -> None:
    """Results of two functions are not mixed, and those that are there stay."""
    environment = {"type": "FunctionEnvironment", "space": LINE, "noise": {"type": "GaussianNoise", "scale": 0.1}}
    given = {"name": "mine", "horizon": 10, "replicates": 2, "environments": {"one": environment}}
    tables = {"policies": {"random": {"type": "RandomSearch"}, "UCB1": {"type": "UCB1"}}}

    def made(function: Callable[[Any], float], part: str | None = None) -> Study:
        names = {"policies": {part: tables["policies"][part]}} if part else tables
        return Study.from_dict({**given, **names}, function=function)

    before = made(peak, "random").run(store=tmp_path / "runs").load()
    with pytest.raises(SpecificationDiffers, match=r"(?s)one, environment.function.function: stored .*peak.*valley"):
        made(valley).run(store=tmp_path / "runs", **changes)
    xarray.testing.assert_identical(made(peak, "random").run(store=tmp_path / "runs").load(), before)


def test_priors_are_in_the_order_of_the_policies(tmp_path: Path) -> None:
    def prior(name: str, lengthscale: float) -> dict[str, Any]:
        return {"type": "Prior", "name": name, "kernel": {"type": "RBF", "lengthscale": lengthscale}}

    policies = {
        "first": {"type": "PEGPUCB", "priors": [prior("b", 0.2), prior("a", 0.1)]},
        "second": {"type": "MLEGPUCB", "priors": [prior("d", 0.2), prior("c", 0.1)]},
    }
    made = study(policies=policies, environments={"smooth": FILE["environments"]["smooth"]}, replicates=1)
    made.run(store=tmp_path / "runs", policies=["second"])
    found, whole = made.run(store=tmp_path / "runs"), made.run()
    assert whole["prior"].values.tolist() == ["b", "a", "d", "c"]
    xarray.testing.assert_identical(found["plays"].load(), whole["plays"])


def test_a_family_has_the_same_functions() -> None:
    """Under other names, with other policies and other horizons."""
    one, other = part("random", name="one", family="line"), part("random", "EI", name="two", family="line", horizon=50)
    mine = one.run()
    xarray.testing.assert_equal(mine["uniform_regret"], other.run()["uniform_regret"])
    xarray.testing.assert_equal(mine["regret"], other.run(horizon=30)["regret"].sel(policy=["random"]))
    assert (part("random", name="one").run()["uniform_regret"] != mine["uniform_regret"]).all()
    assert one.to_dict()["family"] == "line"


@pytest.mark.slow
def test_killed_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notes of the larger study are there, its attributes not yet."""
    place = tmp_path / "runs"
    part("random").run(store=place)
    studies = sys.modules["scalable_bandits.studies.stored"]
    location = type(studies.locate(place))
    put = location.put_document

    def killed(self: Any, path: str, document: Any) -> None:
        if path == "":
            raise KeyboardInterrupt
        put(self, path, document)

    with monkeypatch.context() as patch:
        patch.setattr(location, "put_document", killed)
        with pytest.raises(KeyboardInterrupt):
            study().run(store=place, horizon=40)
    assert np.isfinite(Study.open(place)["regret"]).sum() == 2 * 3 * 30
    assert_whole(place, study().run(store=place, horizon=40), study(horizon=40).run())


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_by_the_command(tmp_path: Path) -> None:
    """`run --store` adds, on worker processes too; `resume` completes what was added."""

    def succeeds(*words: Any) -> None:
        done = command(*words)
        assert done.exit_code == 0, done.output

    file, place = tmp_path / "growing.toml", tmp_path / "runs"
    file.write_text(text(FILE))
    succeeds("run", file, "--store", place, "--policy", "random", "--out", tmp_path / "a")
    succeeds("run", file, "--store", place, "--horizon", 45, "--on", "local:2", "--out", tmp_path / "b")
    whole = study(horizon=45).run()
    xarray.testing.assert_identical(Study.open(place).load(), whole)
    (place / "smooth" / "ucb" / "0001").rename(tmp_path / "lost")
    succeeds("resume", place, "--out", tmp_path / "c")
    xarray.testing.assert_identical(Study.open(place).load(), whole)


# ---- what is said of a study that is not complete


@pytest.mark.slow
def test_status_says_how_to_go_on(tmp_path: Path) -> None:
    study().run(store=tmp_path / "file", policies=["random"])
    said = "runs are complete"
    assert said not in command("status", tmp_path / "file").stdout
    (tmp_path / "file" / "rough" / "random" / "0001").rename(tmp_path / "lost")
    shown = command("status", tmp_path / "file")
    assert f"5 of 6 {said}; continue with: scalable-bandits resume {tmp_path / 'file'}" in shown.stdout
    assert command("status", tmp_path / "file" / "rough").exit_code == 0  # a part of a study


@pytest.mark.slow
def test_a_study_made_in_python_is_continued_by_its_script(tmp_path: Path) -> None:
    made = Study("mine", ("one",), arms, 10, 2)
    made.run(store=tmp_path / "runs")
    (tmp_path / "runs" / "one" / "ucb" / "0001").rename(tmp_path / "lost")
    again = f"to continue it, run your script again (the one that has {arms.__module__}:arms)"
    assert f"3 of 4 runs are complete; {again}" in command("status", tmp_path / "runs").stdout
    refused = command("resume", tmp_path / "runs")
    assert refused.exit_code == 2
    assert f"has the study 'mine', made in Python: {again}" in refused.stderr
    made.run(store=tmp_path / "runs")
    assert "of 4 runs" not in command("status", tmp_path / "runs").stdout


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.slow
def test_interrupted(stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line: what is kept, and how to go on."""
    runs = sys.modules["scalable_bandits.studies.runs"]
    simulate, count = runs.simulate, []

    def interrupted(*given: Any, **options: Any) -> Any:
        count.append(1)
        if len(count) == 5:
            raise KeyboardInterrupt
        return simulate(*given, **options)

    monkeypatch.setattr(runs, "simulate", interrupted)
    file, place = tmp_path / "growing.toml", tmp_path / "runs"
    file.write_text(text(FILE))
    done = command("run", file, "--out", tmp_path / "out", *(["--store", place] if stored else []))
    assert done.exit_code == 130
    lines = done.stderr.strip().splitlines()
    if stored:
        kept = "4 of 18 runs are complete, and the others are kept as far as they got"
        assert lines == [f"interrupted; {kept}; continue with: scalable-bandits resume {place}"]
    else:
        assert lines == ["interrupted; nothing was kept: with --store FOLDER every run is"]
