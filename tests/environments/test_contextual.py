"""Environments that give a context in every round, and the regret relative to the best response to it."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.store import SpecificationDiffers

SPACE = sb.Grid([[0.0, 1.0], [0.0, 3.0]], (5, 4))
KERNEL = sb.RBF([0.3, 1.0])
SETTINGS = sb.Settings({"user": ["ann", "bob", "cy"], "film": sb.Integer(1, 4)})
LISTED = sb.Settings(
    {"model": ["net", "tree"], "depth": sb.Integer(1, 3, when={"model": "net"})},
    [{"model": "net", "depth": 1}, {"model": "net", "depth": 3}, {"model": "tree"}],
)


def function(space: sb.Grid | sb.Points | sb.Settings = SPACE, seed: int = 4) -> sb.TableEnvironment:
    values = np.random.default_rng(0).standard_normal(space.size)
    return sb.TableEnvironment(space, values, sb.GaussianNoise(0.1), seed=seed)


def policy(space: sb.Grid = SPACE) -> sb.IGPUCB:
    return sb.IGPUCB(space, KERNEL, noise=0.1, regularization=1.0, seed=1)


def test_a_simulation_is_a_loop_over_ask_with_the_context() -> None:
    """The table's rows in turn, around its end; regret against the best response, computed here from coordinates."""
    rows = [2.0, 0.0, 0.0, 3.0, 1.0, 2.0, 3.0]
    environment = sb.ContextualEnvironment(function(), [1], rows)
    run = sb.simulate(policy(), environment, 30)
    alone, points, values = policy(), SPACE.points(), function().table()
    for t in range(1, 31):
        z = rows[(t - 1) % 7]
        x = alone.ask(context={1: z})
        y = environment.observe(x, t)
        alone.tell(x, y)
        number = int(SPACE.index(x)[0])
        assert (run.candidate[t - 1], run.y[t - 1]) == (number, y)
        best = max(value for point, value in zip(points, values, strict=True) if point[1] == z)
        assert run.regret[t - 1] == best - values[number]
        assert environment.context(t) == {1: z}
        assert environment.optimum(t) == best


def test_contexts_are_drawn_uniformly_and_of_each_round_alone() -> None:
    """Counts of 40,000 draws within five standard deviations; pairs of rounds as if independent."""
    environment = sb.ContextualEnvironment(function(), [1])
    drawn = np.array([environment.context(t)[1] for t in range(1, 2001)])
    for t in (1500, 3, 777):
        assert environment.context(t) == {1: drawn[t - 1]}
    run = sb.simulate(sb.RandomSearch(SPACE), environment, 40_000)
    z = SPACE.points(run.candidate)[:, 1]
    np.testing.assert_array_equal(z[:2000], drawn)
    deviation = np.sqrt(40_000 * 0.25 * 0.75)
    assert np.abs(np.array([(z == each).sum() for each in range(4)]) - 10_000).max() < 5 * deviation
    pairs = np.array([[((z[:-1] == a) & (z[1:] == b)).sum() for b in range(4)] for a in range(4)])
    assert np.abs(pairs - 2500).max() < 5 * np.sqrt(40_000 / 16 * 15 / 16)
    other = sb.ContextualEnvironment(function(seed=5), [1])
    assert (np.array([other.context(t)[1] for t in range(1, 101)]) != drawn[:100]).any()


def test_contexts_of_several_dimensions_and_of_points() -> None:
    """Each distinct pair of values is one context, however many candidates have it."""
    array = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 0], [2, 1, 1], [2, 1, 2]], dtype=float)
    environment = sb.ContextualEnvironment(function(sb.Points(array)), dimensions=[1, 0])
    run = sb.simulate(sb.RandomSearch(environment.space), environment, 6000)
    pairs = array[run.candidate][:, [1, 0]]
    for t in range(1, 50):
        assert environment.context(t) == {1: pairs[t - 1, 0], 0: pairs[t - 1, 1]}
    counts = [(pairs == each).all(axis=1).sum() for each in ([0, 0], [1, 0], [1, 2])]
    assert np.abs(np.array(counts) - 2000).max() < 5 * np.sqrt(6000 * 2 / 9)
    given = sb.ContextualEnvironment(function(sb.Points(array)), [1, 0], [[1, 2], [0, 0]])
    assert [np.flatnonzero(given.available(t)).tolist() for t in (1, 2, 3)] == [[3, 4, 5], [0, 1], [3, 4, 5]]


def test_contexts_that_are_words() -> None:
    environment = sb.ContextualEnvironment(function(SETTINGS), ["user"], ["bob", "ann", "bob"])
    assert [environment.context(t) for t in (1, 2, 3, 4)] == [
        {"user": "bob"}, {"user": "ann"}, {"user": "bob"}, {"user": "bob"}
    ]  # fmt: skip
    assert [SETTINGS.value(i)["user"] for i in np.flatnonzero(environment.available(2))] == ["ann"] * 4
    again = sb.Environment.from_dict(json.loads(json.dumps(environment.to_dict())))
    assert again.context(3) == {"user": "bob"}
    drawn = sb.ContextualEnvironment(function(SETTINGS), ["user", "film"])
    assert drawn.available(5).sum() == 1


CASES = {
    "drawn": lambda: sb.ContextualEnvironment(function(), [1]),
    "table": lambda: sb.ContextualEnvironment(function(), [0], np.random.default_rng(1).integers(5, size=90) / 4),
    "changing": lambda: sb.ContextualEnvironment(
        sb.DriftingFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.1), knots=(1, 20), seed=4), [1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_made_again_from_its_dict_and_from_pickle(name: str) -> None:
    environment = CASES[name]()
    copies = sb.Environment.from_dict(json.loads(json.dumps(environment.to_dict()))), pickle.loads(
        pickle.dumps(environment)
    )  # fmt: skip
    for again in copies:
        for t in (1, 47, 1100):
            assert again.context(t) == environment.context(t)
            np.testing.assert_array_equal(again.available(t), environment.available(t))
            assert again.noise_at(t) == environment.noise_at(t)
            assert again.optimum(t) == environment.optimum(t)


@pytest.mark.parametrize("name", CASES)
def test_a_stored_run_goes_on_as_if_it_had_not_stopped(name: str, tmp_path) -> None:
    whole = sb.simulate(policy(), CASES[name](), 60)
    sb.simulate(policy(), CASES[name](), 25, store=tmp_path / "run")
    run = sb.simulate(policy(), CASES[name](), 60, store=tmp_path / "run")
    for column in ("candidate", "y", "regret", "cumulative_regret"):
        np.testing.assert_array_equal(getattr(run, column), getattr(whole, column))
    with pytest.raises(SpecificationDiffers, match=r"environment\.dimensions|environment\.contexts|environment"):
        sb.simulate(policy(), sb.ContextualEnvironment(function(), [1], [0.0]), 60, store=tmp_path / "run")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.ContextualEnvironment(sb.Benchmark("branin"), [1]), "environment: got"),
        (lambda: sb.ContextualEnvironment(sb.TableEnvironment(sb.Arms(2), [0.0, 1.0]), [0]), "environment: got"),
        (lambda: sb.ContextualEnvironment(function(), [2]), "dimensions: got 2; allowed: an integer, at most 1"),
        (lambda: sb.ContextualEnvironment(function(), [-1]), "dimensions: got -1"),
        (lambda: sb.ContextualEnvironment(function(), []), r"dimensions: got \[\]"),
        (lambda: sb.ContextualEnvironment(function(), [1, 1]), r"dimensions: got \[1, 1\]; allowed: distinct"),
        (lambda: sb.ContextualEnvironment(function(SETTINGS), ["usr"]), "dimensions: got 'usr'; allowed: names of"),
        (lambda: sb.ContextualEnvironment(function(LISTED), ["depth"]), "allowed: parameters that all settings have"),
        (lambda: sb.ContextualEnvironment(function(), [1], []), r"contexts: got \[\]"),
        (lambda: sb.ContextualEnvironment(function(), [1], [np.nan]), "contexts: got"),
        (lambda: sb.ContextualEnvironment(function(), [1], [[1.0, 2.0]]), "contexts: got .*rows of 1 values"),
        (lambda: sb.ContextualEnvironment(function(), [0, 1], [0.5]), "contexts: got .*rows of 2 values"),
        (lambda: sb.ContextualEnvironment(function(), [1], [1.0, 0.7]), "context: got {1: 0.7}"),
        (lambda: sb.ContextualEnvironment(function(SETTINGS), ["user"], ["dan"]), "context"),
        (lambda: sb.ContextualEnvironment(function(SETTINGS), ["user"], [[["ann"]]]), "contexts: got"),
        (lambda: sb.ContextualEnvironment(function(), [1]).context(0), "t: got 0; allowed: a positive integer"),
    ],
)
def test_bad_input(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
