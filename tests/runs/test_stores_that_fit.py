"""A store is continued by a run of equal meaning, and by no other: parameters, values, conditions, constraints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.command import command
from cases.drawn_spaces import VALUES, Colour, Kind, Plan, changed, kinds_with, plans, values
from cases.paths import TESTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

import scalable_bandits as sb
from scalable_bandits.identity import code_of, identity_of, undescribed
from scalable_bandits.integrations.sklearn import BanditSearchCV
from scalable_bandits.specification import differences, plain
from scalable_bandits.store import ObservationStore
from scalable_bandits.studies import Problem, Replicate, Study

PLANS = plans()
PAIRS = PLANS.flatmap(lambda plan: st.tuples(st.just(plan), changed(plan) | PLANS))


def compare(stored: Plan, given: Plan) -> None:
    """Compare two spaces as a store does: they fit where they mean the same."""
    one = json.loads(json.dumps(plain({"space": stored.make()}, named=True)))
    other = plain({"space": given.make()}, named=True)
    assert undescribed(other) is None
    assert (differences(one, other) == []) == (stored == given)


@settings(max_examples=100)
@given(PAIRS)
def test_spaces_are_compared_by_meaning(pair: tuple[Plan, Plan]) -> None:
    compare(*pair)


@pytest.mark.long
@settings(max_examples=5_000)
@given(PAIRS)
def test_many_spaces_are_compared_by_meaning(pair: tuple[Plan, Plan]) -> None:
    compare(*pair)


@pytest.mark.slow
def test_values_are_described_alike_in_another_process() -> None:
    """Whatever the order of its sets is, and wherever its objects lie."""
    code = "import json; from cases.drawn_spaces import described_values; print(json.dumps(described_values()))"
    found = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=TESTS, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert len(json.loads(found[0])) == len(VALUES)


# ---- every way in

TWO = 2  # evaluations before, and after


class Free(BaseEstimator):
    """Estimator whose parameters may be anything."""

    def __init__(self, a: Any = None, b: Any = None, rate: Any = None):
        self.a, self.b, self.rate = a, b, rate

    def fit(self, X: Any, y: Any = None) -> Free:
        return self

    def score(self, X: Any, y: Any = None) -> float:
        return 1.0


def drawn(space: Any) -> sb.RandomSearch:
    return sb.RandomSearch(space, seed=3)


def value_of(setting: dict[str, Any]) -> float:
    return float(len(setting))


def by_minimize(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    policy = sb.RandomSearch(space, seed=3, minimize=True)
    return sb.minimize(value_of, policy, budget, store=place).x


def by_record(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    with sb.record(drawn(space), place) as recording:
        while recording.policy.rounds < budget:
            recording.policy.tell(recording.policy.ask(), 1.0)
        return space.arguments(recording.store.read(names=["x"])["x"])


def by_settings(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    found = sb.Settings(space, list(space.arguments(space.draw(9, np.random.default_rng(0)))))
    with sb.record(drawn(found), place) as recording:
        while recording.policy.rounds < budget:
            recording.policy.tell(recording.policy.ask(), 1.0)
        return space.arguments(recording.store.read(names=["x"])["x"])


def by_search(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    kinds: Any = dict(zip(space.names, space.kinds, strict=True)) if space.where is None else space
    search = BanditSearchCV(
        Free(), kinds, n_iter=budget, cv=2, policy=sb.RandomSearch, random_state=3, store=place, refit=False
    )
    return search.fit(np.arange(4.0)[:, None], np.arange(4.0)).cv_results_["params"]


def by_command(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    file = place.with_suffix(".toml")
    space.to_toml(file)
    words = " ".join(f"{{{name}}}" for name in space.names)
    line = f"sh -c 'echo 1' {words}"
    asked = ["tune", "--space", file, "--command", line, "--store", place, "--budget", budget, "--minimize", "--json"]
    done = command(*asked)
    if done.exit_code:
        raise sb.SpecificationDiffers(done.output)
    return space.arguments(ObservationStore.open(place).read(names=["x"])["x"])


def by_study(space: sb.SearchSpace, place: Path, budget: int) -> Any:
    """Play a study that was made in Python; the domain of its policies are some settings of the space."""
    found = sb.Settings(space, list(space.arguments(space.draw(9, np.random.default_rng(0)))))

    def build(replicate: Replicate) -> Problem:
        environment = sb.FunctionEnvironment(found, lambda _: 0.0, sb.GaussianNoise(0.1), optimum=0.0)
        return Problem(environment, {"random": sb.RandomSearch(found, seed=3)})

    Study("drawn", ("one",), build, budget, 1).run(store=place, progress=False)
    run = ObservationStore.open(place / "one" / "random" / "0000")
    return space.arguments(found.points(run.read(names=["candidate"])["candidate"]))


WAYS: dict[str, Callable[[sb.SearchSpace, Path, int], Any]] = {
    "minimize": by_minimize, "record": by_record, "Settings": by_settings, "BanditSearchCV": by_search,
    "study": by_study,
}  # fmt: skip
FIRST = Plan(
    (
        ("a", Kind("Real", (1, 4, False))),
        ("b", Kind("Real", (1, 4, False))),
        ("rate", Kind("Categorical", ("Colour.RED", "Colour.BLUE", "other path", "1"))),
    )
)
OTHERS = {
    "the order a, b, rate; given: b, a, rate": FIRST._replace(kinds=(FIRST.kinds[1], FIRST.kinds[0], FIRST.kinds[2])),
    "a.log": FIRST._replace(kinds=(("a", Kind("Real", (1, 4, True))), *FIRST.kinds[1:])),
    "a.type": FIRST._replace(kinds=(("a", Kind("Integer", (1, 4, False))), *FIRST.kinds[1:])),
    "rate": FIRST._replace(
        kinds=(*FIRST.kinds[:2], ("rate", Kind("Categorical", ("Colour.BLUE", "Colour.RED", "other path", "1"))))
    ),
    "where": FIRST._replace(limit=9),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(5)
def test_a_store_is_continued_by_a_run_that_fits(way: str, tmp_path: Path) -> None:
    """Values come back under the names that they had; a run that does not fit is refused, and changes nothing."""
    run, place = WAYS[way], tmp_path / "run"
    before = run(FIRST.make(), place, TWO)
    for named, other in OTHERS.items():
        with pytest.raises(sb.SpecificationDiffers, match=named):
            run(other.make(), place, 2 * TWO)
    after = run(FIRST.make(), place, 2 * TWO)
    assert after[:TWO] == before
    assert len(after) == 2 * TWO
    assert {type(setting["rate"]) for setting in after} <= {Colour, str, int, type(Path())}


def test_the_command_refuses_a_store_that_it_does_not_fit(tmp_path: Path) -> None:
    """It reads its space from a file, whose tables may have been moved."""
    plain = Plan((("a", Kind("Real", (1, 4, False))), ("b", Kind("Integer", (1, 4, False)))))
    before = by_command(plain.make(), tmp_path / "run", TWO)
    with pytest.raises(sb.SpecificationDiffers, match="stored in the order a, b; given: b, a"):
        by_command(plain._replace(kinds=plain.kinds[::-1]).make(), tmp_path / "run", 2 * TWO)
    assert by_command(plain.make(), tmp_path / "run", 2 * TWO)[:TWO] == before


OF_ANY, OF_FILES = kinds_with(values()), kinds_with(values(("'red'", "'blue'", "1", "2", "3", "True", "2.0")))


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "tune"])
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_two_spaces_by_every_way(way: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds = OF_FILES if way == "tune" else OF_ANY
    run, free = {**WAYS, "tune": by_command}[way], st.just(("a", "b", "rate"))
    names = data.draw(free.flatmap(lambda all_names: st.lists(st.sampled_from(all_names), min_size=1, unique=True)))
    first = Plan(tuple((name, data.draw(kinds)) for name in names))
    second = data.draw(changed(first, kinds))
    place = tmp_path_factory.mktemp("runs") / "run"
    before = run(first.make(), place, 1)
    if first == second:
        assert plain(run(second.make(), place, 1), named=True) == plain(before, named=True)
        return
    with pytest.raises(sb.SpecificationDiffers):
        run(second.make(), place, 1)


# ---- what cannot be told apart


@pytest.mark.parametrize("given", [[threading.Lock()], [object(), object()], [Path.iterdir(Path())]])
def test_values_that_cannot_be_told_apart_have_no_store(given: list[Any], tmp_path: Path) -> None:
    """They are refused by name before there is a store; in memory they are as good as others."""
    space = sb.SearchSpace({"a": sb.Categorical(given), "b": [1, 2]})
    with pytest.raises(ValueError, match=r"^policy\.space\.parameters\.a\.values.*; allowed: with a store, values"):
        sb.record(drawn(space), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert drawn(space).ask()["a"] in given


LIMIT = 3


class TestIdentity:
    """Text that tells values from each other, or says that there is none."""

    def test_of_all_values(self) -> None:
        texts = {name: (identity_of(make()), code_of(make())) for name, make in VALUES.items()}
        assert None not in [identity for identity, _ in texts.values()]
        assert len(set(texts.values())) == len(VALUES)
        assert texts == {name: (identity_of(make()), code_of(make())) for name, make in VALUES.items()}

    def test_a_function_is_its_code_and_what_it_refers_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def made() -> Any:
            return lambda setting: setting["a"] < LIMIT

        first = code_of(made())
        assert first
        assert code_of(made()) == first
        assert code_of(lambda setting: setting["a"] <= LIMIT) != first
        monkeypatch.setattr(sys.modules[__name__], "LIMIT", 4)
        assert code_of(made()) != first
        lock = threading.Lock()
        assert code_of(lambda setting: lock.locked()) == ""  # it refers to what cannot be described

    def test_what_has_only_a_name_is_found_under_it(self) -> None:
        """A function of numpy has the name that it was made with, whether or not it can be found under it."""
        assert identity_of(np.tanh) == "numpy:tanh"
        assert identity_of(np.frompyfunc(lambda x: x, 1, 1)) is None

    def test_values_inside_themselves(self) -> None:
        inside: list[Any] = [1]
        inside.append(inside)
        assert identity_of(inside) == "list[1, <0>]"
