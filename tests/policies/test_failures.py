"""Evaluations that failed: told, avoided, recorded, and told again on resume."""

import numpy as np
import pytest
from cases.policies import EVERY_POLICY, PROBLEMS, on
from cases.store import damaged_row

import scalable_bandits as sb
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.posteriors.state import copied
from scalable_bandits.store import ObservationStore

pytest_plugins = ["cases.store_fixtures"]
GRID = sb.Grid([[0, 1]], 6)
COLOURS = sb.SearchSpace({"colour": ["red", "green", "blue"], "on": sb.Boolean()})
SETTINGS = {"noise": 0.1, "regularization": 0.01}


def test_is_not_pending_and_not_asked_for_again():
    policy = sb.GPEI(GRID, sb.RBF(0.3), **SETTINGS)
    failed = []
    for left in range(5, -1, -1):
        x = policy.ask()
        policy.tell_failure(x, "no such instrument")
        failed.append(float(x[0]))
        assert policy.pending == []
        assert (len(set(failed)), policy.rounds, policy.failures) == (6 - left, 0, 6 - left)
    with pytest.raises(AllFailed, match=r"^ask: the evaluation of every candidate"):
        policy.ask()
    policy.tell(0.4, 1.0)  # it works again
    assert policy.ask() == policy.ask() == [0.4]


def test_no_value_is_made_up():
    policy, untouched = (sb.GPEI(GRID, sb.RBF(0.3), **SETTINGS) for _ in range(2))
    policy.tell_failure(0.4)
    points = GRID.points()
    np.testing.assert_array_equal(policy.posterior(points), untouched.posterior(points))
    assert policy.best() == untouched.best()
    assert len(policy.observations.y) == 0


def test_only_one_of_several_pending_is_removed():
    policy = sb.RandomSearch(sb.Arms(2))
    policy._restore_pending([1, 0, 1], reissue=False)
    policy.tell_failure(1)
    assert policy.pending == [0, 1]


def test_availability_sets_go_without_it():
    policy = sb.GPEI(GRID, sb.RBF(0.3), **SETTINGS)
    policy.tell_failure(0.2)
    assert policy.ask(available=[1, 3])[0] == pytest.approx(0.6)
    with pytest.raises(AllFailed):
        policy.ask(available=[1])
    assert len(policy.pending) == 1


def test_equal_points_fail_together():
    policy = sb.GPEI(sb.Points([0.1, 0.9, 0.9, 0.9]), sb.RBF(0.3), **SETTINGS)
    policy.tell_failure(0.9)
    assert [policy.ask()[0] for _ in range(3)] == [0.1] * 3


@pytest.mark.parametrize("kind", ["GPEI", "GPUCB", "RandomSearch", "MeanOnly"])
def test_of_a_space_with_names(kind):
    """Nothing there is enumerated; all the same no setting comes twice."""
    given = {} if kind == "RandomSearch" else {"rkhs_norm": 1.0, "theorem": 3} if kind == "GPUCB" else {}
    policy = getattr(sb, kind)(COLOURS, sb.Matern(0.5), **SETTINGS, **given)
    failed = []
    for _ in range(6):
        setting = policy.ask()
        assert setting not in failed
        failed.append(setting)
        policy.tell_failure(setting)
    with pytest.raises(AllFailed, match="100 random settings"):
        policy.ask()


def test_nearby_points_of_a_box_are_avoided():
    """It counts as pending: what is near it is less uncertain."""
    policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), **SETTINGS)
    for _ in range(4):
        x = policy.ask()
        policy.tell(x, float(x[0])) if x[0] < 0.7 else policy.tell_failure(x)
    assert policy.failures
    assert min(abs(policy.ask() - policy.domain.points([c]))[0, 0] for c in policy.pending_points.excluded) > 0.1


@on(["points"], EVERY_POLICY)
@pytest.mark.sampled(4)
def test_every_policy(name, space):
    """It is left out, and the state has it."""
    policy = EVERY_POLICY[name].make(PROBLEMS[space])
    for number in range(8):
        x = policy.ask()
        policy.tell_failure(x) if number % 2 else policy.tell(x, PROBLEMS[space].truth(x))
    left_out = set(policy.pending_points.excluded)
    twin = EVERY_POLICY[name].make(PROBLEMS[space])
    twin.restore(copied(policy.state()))
    assert set(twin.pending_points.excluded) == left_out
    assert twin.failures == policy.failures == 4
    asked = policy.ask(4)
    assert not set(policy.domain.numbered.index(asked).tolist()) & left_out
    np.testing.assert_array_equal(twin.ask(4), asked)


def test_a_recording_that_fails():
    class Full:
        def asked(self, pending): ...

        def failed(self, *_):
            raise OSError("disk full")

    policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), **SETTINGS)
    x = policy.ask()
    policy._record_to(Full())
    with pytest.raises(OSError, match="disk full"):
        policy.tell_failure(x)
    with pytest.raises(OSError, match="disk full"):
        policy.tell_failure([0.123])
    assert policy.domain.size == len(policy.pending) == 1
    assert policy.failures == 0


MAKERS = {
    "grid": lambda: sb.GPEI(sb.Grid([[0, 1], [0, 1]], 12), sb.RBF(0.3), **SETTINGS),
    "tiles": lambda: sb.GPEI(sb.Grid([[0, 1], [0, 1]], 12), sb.RBF(0.3), engine="tiled", **SETTINGS),
    "cells": lambda: sb.PiGPUCB(sb.Grid([[0, 1], [0, 1]], 12), sb.Matern(0.3, nu=1.5), **SETTINGS),
    "box": lambda: sb.GPEI(sb.Box([[0, 1], [0, 1]]), sb.RBF(0.3), **SETTINGS),
    "cells of a box": lambda: sb.PiGPUCB(sb.Box([[0, 1], [0, 1]]), sb.Matern(0.3, nu=1.5), **SETTINGS),
    "candidates": lambda: sb.GPTS(sb.Box([[0, 1], [0, 1]]), sb.RBF(0.3), candidates=40, **SETTINGS),
    "no kernel": lambda: sb.GPEI(sb.Box([[0, 1], [0, 1]]), minimize=True),
    "no kernel on a grid": lambda: sb.GPEI(sb.Grid([[0, 1], [0, 1]], 5)),
    "learned": lambda: sb.GPEI(sb.Box([[0, 1], [0, 1]]), sb.RBF(0.3), refit=3, **SETTINGS),
    "arms": lambda: sb.GPTS(sb.Arms(30), sb.Covariance(np.eye(30) + 0.5), **SETTINGS),
    "names": lambda: sb.GPEI(COLOURS, sb.Matern(0.5), minimize=True, **SETTINGS),
    "random": lambda: sb.RandomSearch(sb.Box([[0, 1], [0, 1]]), candidates=40),
}


def step(policy, number):
    """One evaluation, of which every third fails; returns the point."""
    x = policy.ask()
    if number % 3 == 1 and not (isinstance(x, dict) and number > 6):
        policy.tell_failure(x, f"failure {number}")
    else:
        values = [len(str(v)) for v in x.values()] if isinstance(x, dict) else np.ravel(x)
        policy.tell(x, float(np.sin(3.0 * np.sum(values))))
    return x


@pytest.mark.usefixtures("small")
class TestRecorded:
    @pytest.mark.parametrize("often", [False, True], ids=["replayed", "checkpoints"])
    @pytest.mark.parametrize("name", MAKERS)
    @pytest.mark.sampled(10)
    @pytest.mark.slow
    def test_resumed_anywhere_as_if_never_stopped(self, name, often, tmp_path, request):
        """The process dies after every evaluation, some of them failures."""
        if often:
            request.getfixturevalue("often")
        count = 14
        whole = MAKERS[name]()
        expected = [step(whole, number) for number in range(count)]
        place = tmp_path / "run.zarr"
        for number in range(count):
            policy = MAKERS[name]()
            held = sb.record(policy, place)
            np.testing.assert_array_equal(step(policy, number), expected[number])
            held.close(orderly=number % 2 == 0)
        assert policy.failures == whole.failures
        stored = ObservationStore.open(place)
        assert [each.error for each in stored.failures] == [
            f"failure {number}" for number in range(count) if number % 3 == 1 and not (name == "names" and number > 6)
        ]
        assert len(stored) + len(stored.failures) == count
        assert stored.pending == []

    def test_a_failure_that_was_pending_is_not_asked_for_again(self, tmp_path):
        policy = MAKERS["grid"]()
        held = sb.record(policy, tmp_path / "run.zarr")
        first, second = policy.ask(2)
        policy.tell_failure(first, "broken")
        held.close(orderly=False)
        again = MAKERS["grid"]()
        with sb.record(again, tmp_path / "run.zarr"):
            np.testing.assert_array_equal(again.ask(), second)
            assert again.failures == 1

    @pytest.mark.parametrize("durability", ["round", "block"])
    @pytest.mark.sampled(2)
    def test_through_whole_chunks(self, durability, tmp_path):
        """Failures stay, whose rounds are in the arrays."""
        place = tmp_path / "run.zarr"
        policy = MAKERS["random"]()
        with sb.record(policy, place, durability=durability):
            for number in range(100):  # chunks have 16 rounds
                step(policy, number) if number in (4, 31) else policy.tell([0.5, number / 100], 1.0)
        stored = ObservationStore.open(place)
        assert [(each.round, each.error) for each in stored.failures] == [(4, "failure 4"), (30, "failure 31")]
        again = MAKERS["random"]()
        with sb.record(again, place):
            assert again.pending_points.excluded == policy.pending_points.excluded

    def test_keep_their_places_in_a_recovery(self, tmp_path):
        """Of rounds in the arrays too, of which a chunk is lost."""
        place = tmp_path / "run.zarr"
        policy = MAKERS["random"]()
        with sb.record(policy, place):
            for number in range(100):  # chunks have 16 rounds
                step(policy, number) if number in (4, 31, 97) else policy.tell([0.5, number / 100], 1.0)
        chunk = place / "y" / "c.3"
        chunk.write_bytes(chunk.read_bytes()[:-9])
        with pytest.warns(UserWarning, match=r"16 round\(s\) are lost"):
            ObservationStore.open(place, "a", recover=True).close()
        assert [each.round for each in ObservationStore.open(place).failures] == [4, 30, 95 - 16]

    def test_all_but_a_damaged_one_survive_a_recovery(self, tmp_path):
        place = tmp_path / "run.zarr"
        policy = MAKERS["grid"]()
        with sb.record(policy, place):
            for number in range(8):
                step(policy, number)
        (place / "committed" / "run.sqlite").write_bytes(damaged_row(place, "failure 4"))
        with pytest.warns(UserWarning, match=r"original files"):
            ObservationStore.open(place, "a", recover=True).close()
        assert [each.error for each in ObservationStore.open(place).failures] == ["failure 1", "failure 7"]
