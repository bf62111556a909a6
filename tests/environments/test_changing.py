"""Environments that change over rounds, availability by round and context, and the regret measured there."""

from __future__ import annotations

import numpy as np
import pytest
from cases.policies import EVERY_POLICY, PROBLEMS, on
from naive import kernels as naive

import scalable_bandits as sb

SPACE = sb.Grid([[0.0, 1.0], [0.0, 1.0]], 5)
KERNEL = sb.Matern(0.3, nu=1.5)


def drifting(slow: bool, **options) -> sb.DriftingFunction:
    return sb.DriftingFunction.sparse(
        SPACE, KERNEL, sb.GaussianNoise(0.1), knots=(1, 40, 55, 120), slow=slow, seed=4, **options
    )


def weights_at(function: sb.DriftingFunction, t: int) -> np.ndarray:
    """The weights of round t, from the definition."""
    knots, w = list(function.knots), function.weights
    last = max(i for i in range(len(knots)) if knots[i] <= t)
    if not function.slow or last == len(knots) - 1:
        return w[last]
    share = (t - knots[last]) / (knots[last + 1] - knots[last])
    return w[last] + share * (w[last + 1] - w[last])


@pytest.mark.parametrize("slow", [False, True])
def test_the_variation_budget_is_the_sum_of_the_moves(slow):
    """P_T and the norm, round by round from the weights; f_t at every candidate from the sum over centers."""
    function = drifting(slow)
    gram = naive.matrix(naive.matern32(0.3), function.centers)
    cross = naive.matrix(naive.matern32(0.3), SPACE.points(), function.centers)
    total = largest = 0.0
    for t in range(1, 151):
        w, after = weights_at(function, t), weights_at(function, t + 1)
        assert function.variation(t) == pytest.approx(total, abs=1e-9)
        np.testing.assert_allclose(function.table(t), cross @ w, atol=1e-12)
        assert function.optimum(t) == function.table(t).max()
        total += np.sqrt((after - w) @ gram @ (after - w))
        largest = max(largest, np.sqrt(w @ gram @ w))
    assert function.variation_budget == pytest.approx(total, rel=1e-9)
    assert function.rkhs_norm == pytest.approx(largest, rel=1e-9)
    assert function.mean([0.25, 1.0], 47) == pytest.approx(function.table(47)[9])
    again = sb.DriftingFunction.from_dict(function.to_dict())
    np.testing.assert_array_equal(again.table(47), function.table(47))


def test_scaled_knots_have_the_norm_asked_for():
    function = drifting(False, rkhs_norm=2.0)
    gram = KERNEL.block(function.centers)
    assert [np.sqrt(w @ gram @ w) for w in function.weights] == pytest.approx([2.0] * 4)


def test_the_process_is_a_first_order_autoregression():
    """Fresh draws have the prior's covariance and no memory: 20,000 rounds, each moment within five standard errors."""
    points, epsilon, rounds = sb.Points([0.0, 0.2, 0.7]), 0.3, 20_000
    process = sb.AutoregressiveProcess(points, sb.RBF(0.3) * sb.TemporalDecay(epsilon), seed=5)
    f = np.array([process.table(t) for t in range(1, rounds + 1)])
    fresh = (f[1:] - np.sqrt(1 - epsilon) * f[:-1]) / np.sqrt(epsilon)
    white = np.linalg.solve(np.linalg.cholesky(naive.matrix(naive.rbf(0.3), points.points())), fresh.T).T
    error = 5 / np.sqrt(rounds)
    assert np.abs(white.mean(axis=0)).max() < error
    assert np.abs(white.T @ white / len(white) - np.eye(3)).max() < error * np.sqrt(2)
    assert np.abs(white[1:].T @ white[:-1] / len(white)).max() < error
    assert np.abs(white.T @ f[:-1] / len(white)).max() < 2 * error  # nor with where the function stood


def test_a_round_of_the_process_is_the_same_whatever_was_asked_before():
    make = lambda: sb.AutoregressiveProcess(SPACE, KERNEL * sb.TemporalDecay(0.1), seed=1)  # noqa: E731
    forward, straight = make(), make()
    seen = {t: forward.table(t).copy() for t in (1, 2, 1024, 1025, 3000)}
    for t in (3000, 1025, 2, 1, 1024):
        np.testing.assert_array_equal(straight.table(t), seen[t])
    for t, block in ((1025, 1), (2, 0)):  # the recursion goes on from block to block
        np.testing.assert_allclose(np.corrcoef(forward.table(t), forward.table(t - 1))[0, 1], 0.95, atol=0.1)
        assert (t - 1) // sb.AutoregressiveProcess.BLOCK == block


def test_a_panel_moves_on_row_by_row():
    panel = sb.SensorPanel([[1.0, 2.0], [5.0, 3.0], [0.0, 7.0]], sb.GaussianNoise(0.0), hold=2)
    assert [panel.optimum(t) for t in range(1, 9)] == [2, 2, 5, 5, 7, 7, 2, 2]
    assert panel.mean([0, 1, 0], 3).tolist() == [5.0, 3.0, 5.0]
    assert panel.observe([0, 1, 0], 4).tolist() == [5.0, 7.0, 0.0]  # of rounds 4, 5 and 6
    assert sb.SensorPanel.from_dict(panel.to_dict()).optimum(5) == 7


@pytest.mark.parametrize("name", ["abrupt", "process", "moving"])
def test_an_environment_is_made_again_from_its_dict(name):
    environment = ENVIRONMENTS[name]()
    again = sb.Environment.from_dict(environment.to_dict())
    for t in (1, 47, 1100):
        np.testing.assert_array_equal(again.table(t), environment.table(t))
        np.testing.assert_array_equal(again.available(t), environment.available(t))
        assert again.noise_at(t) == environment.noise_at(t)


# ---- simulate


ENVIRONMENTS = {
    "abrupt": lambda: drifting(False),
    "slow": lambda: drifting(True),
    "process": lambda: sb.AutoregressiveProcess(
        SPACE, KERNEL * sb.TemporalDecay(0.1), sb.GaussianNoise(0.1), seed=2
    ),
    "moving": lambda: sb.MovingSearchSpace(drifting(True), np.random.default_rng(0).random((7, 25)) < 0.4),
    "moving-static": lambda: sb.MovingSearchSpace(
        sb.GPSample(SPACE, KERNEL, sb.GaussianNoise(0.1), seed=3), lambda t: [t % 25, (3 * t) % 25]
    ),
}  # fmt: skip


def window() -> sb.SWGPUCB:
    return sb.SWGPUCB(SPACE, KERNEL, noise=0.1, regularization=0.01, memory=15, seed=1)


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.sampled(3)
@pytest.mark.slow
def test_regret_is_dynamic(name):
    """A simulation is the loop of ask, observe and tell, and its regret the distance from each round's own optimum."""
    run = sb.simulate(window(), ENVIRONMENTS[name](), 130)
    policy, environment = window(), ENVIRONMENTS[name]()
    for t in range(1, 131):
        own = environment.available(t)
        x = policy.ask(available=own)
        number = int(SPACE.index(x)[0])
        assert run.candidate[t - 1] == number
        y = environment.observe(x, t)
        assert run.y[t - 1] == pytest.approx(y, abs=1e-12)
        values = np.array([environment.mean(point, t) for point in SPACE.points()])
        best = values.max() if own is None else values[own].max()
        assert run.regret[t - 1] == pytest.approx(best - values[number], abs=1e-12)
        policy.tell(x, run.y[t - 1])


def test_both_availabilities_hold():
    """The environment's and the caller's; where nothing is left, the round is refused."""
    environment = sb.MovingSearchSpace(drifting(True), [[i < 12 for i in range(25)], [i >= 10 for i in range(25)]])
    run = sb.simulate(window(), environment, 40, available=lambda t: np.arange(8, 14))
    odd, even = set(run.candidate[::2].tolist()), set(run.candidate[1::2].tolist())
    assert odd <= set(range(8, 12))
    assert even <= set(range(10, 14))
    for t, regret in enumerate(run.regret, start=1):
        left = np.arange(8, 12) if t % 2 else np.arange(10, 14)
        assert regret == pytest.approx(environment.table(t)[left].max() - run.value[t - 1])
    with pytest.raises(ValueError, match="available: got"):
        sb.simulate(window(), environment, 2, available=lambda t: np.arange(12, 14))


@pytest.mark.parametrize(
    "available", [[[i >= 8 for i in range(25)]], lambda t: np.arange(8, 25)], ids=["masks", "function"]
)
def test_what_an_environment_takes_away_stays_away_in_another(available):
    inner = sb.MovingSearchSpace(drifting(True), [[i < 12 for i in range(25)]])
    outer = sb.MovingSearchSpace(inner, available)
    assert np.flatnonzero(outer.available(3)).tolist() == list(range(8, 12))
    assert outer.optimum(3) == outer.table(3)[8:12].max()
    with pytest.raises(ValueError, match="available: got"):
        sb.MovingSearchSpace(inner, [[i >= 12 for i in range(25)]]).available(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.DriftingFunction(SPACE, KERNEL, [[0, 0]], [[1.0], [2.0]], (1, 1)), "knots: got"),
        (lambda: sb.DriftingFunction(SPACE, KERNEL, [[0, 0]], [[1.0], [2.0]], (2, 3)), "knots: got"),
        (lambda: sb.DriftingFunction(SPACE, KERNEL, [[0, 0]], [[1.0]], (1, 3)), "weights: got"),
        (lambda: sb.DriftingFunction(SPACE, KERNEL, [[0]], [[1.0]], (1,)), "centers: got"),
        (lambda: sb.DriftingFunction.sparse(sb.Box([[0, 1]]), KERNEL, knots=(1,)), "space: got"),
        (lambda: sb.AutoregressiveProcess(SPACE, KERNEL), "kernel: got"),
        (lambda: sb.SensorPanel([1.0, 2.0]), "readings: got"),
        (lambda: sb.SensorPanel([[1.0, 2.0]], hold=0), "hold: got"),
        (lambda: sb.MovingSearchSpace(drifting(True), [[True] * 24]), "available: got"),
        (lambda: sb.MovingSearchSpace(drifting(True), [[False] * 25]), "available: got"),
        (lambda: sb.MovingSearchSpace(drifting(True), [[True] * 25, [True] * 24]), "available: got"),
        (lambda: sb.MovingSearchSpace(sb.Benchmark("branin"), lambda t: [0]), "environment: got"),
    ],
)
def test_bad_environments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("t", [0, -1, 1.5, 2.0, True, "2", None])
def test_rounds_that_are_none_are_refused(t):
    """Rounds 0 and before, and between two, would be answered from other rounds' functions and masks."""
    masks = np.eye(25, dtype=bool)
    for environment in (
        drifting(slow=True),
        drifting(slow=False),
        sb.SensorPanel([[1.0, 2.0], [5.0, 3.0]], hold=2),
        sb.AutoregressiveProcess(SPACE, KERNEL * sb.TemporalDecay(0.1)),
        sb.MovingSearchSpace(drifting(slow=True), masks),
        sb.MovingSearchSpace(drifting(slow=True), lambda t: [t]),
    ):
        for method in (environment.optimum, environment.table):
            with pytest.raises(ValueError, match=r"^t: got .*; allowed: a positive integer"):
                method(t)
    with pytest.raises(ValueError, match=r"^t: got .*; allowed: a positive integer"):
        sb.MovingSearchSpace(sb.TableEnvironment(SPACE, np.zeros(25)), masks).optimum(t)
    with pytest.raises(ValueError, match=r"^horizon: got .*; allowed: a positive integer"):
        drifting(slow=True).variation(t)


# ---- context


def test_matching_is_a_comparison_of_coordinates():
    """On a grid by arithmetic, ends included; on points exactly."""
    grid = sb.Grid([[0, 1], [-1, 2], [0, 0.3]], (4, 7, 2))
    coordinates = grid.points()
    for context in ({0: 1 / 3}, {1: 2.0, 2: 0.3}, {0: 0.0, 1: 0.5, 2: 0.0}):
        wanted = np.all([np.isclose(coordinates[:, k], value) for k, value in context.items()], axis=0)
        assert wanted.any()
        np.testing.assert_array_equal(grid.matching(context), wanted)
        points = sb.Points(coordinates)
        exact = {k: coordinates[wanted][0, k] for k in context}
        np.testing.assert_array_equal(points.matching(exact), wanted)


@on(["grid"], EVERY_POLICY)
@pytest.mark.sampled(4)
def test_a_context_is_an_availability_set(name, space):
    """Asking within a context is asking among the candidates that have it, in every policy."""
    problem = PROBLEMS[space]
    given, among = EVERY_POLICY[name].make(problem), EVERY_POLICY[name].make(problem)
    coordinates = problem.space.points()
    rng = np.random.default_rng(8)
    for t in range(12):
        context = {1: coordinates[rng.integers(len(coordinates)), 1]}
        mask = np.isclose(coordinates[:, 1], context[1], rtol=0, atol=1e-12)
        some = mask | (np.arange(len(mask)) % 3 == t % 3)
        x = given.ask(context=context, available=some)
        assert x[1] == context[1]
        assert x.tolist() == among.ask(available=mask).tolist()
        for policy in (given, among):
            policy.tell(x, problem.truth(x))


@pytest.mark.parametrize(
    ("space", "context", "message"),
    [
        ("grid", {2: 0.0}, "context: got 'dimension 2'; allowed: dimensions from 0 to 1"),
        ("grid", {-1: 0.0}, "context: got -1"),
        ("grid", {0: 0.03}, "allowed: coordinates that a candidate of the space has"),
        ("grid", {0: np.nan}, "context: got nan"),
        ("grid", {}, "context: got {}; allowed: coordinates by dimension"),
        ("grid", [0.5], "allowed: coordinates by dimension"),
        ("points", {0: 0.5}, "allowed: coordinates that a candidate of the space has"),
        ("arms", {0: 1}, "allowed: none on arms"),
        ("box", {0: 0.5}, "allowed: None with candidates= of a box"),
    ],
)
def test_a_context_that_nothing_has_is_refused(space, context, message):
    policy = EVERY_POLICY["igpucb"].make(PROBLEMS[space])
    with pytest.raises(ValueError, match=message):
        policy.ask(context=context)
    assert policy.pending == []


class Moving(sb.Environment):
    """Changing values of one's own, by `evaluate_at` alone."""

    changing = True

    def evaluate(self, points):
        return self.evaluate_at(points, 1)

    def evaluate_at(self, points, t):
        return -((points[:, 0] - (0.2 if t <= 20 else 0.8)) ** 2)


def test_an_environment_of_ones_own_that_changes():
    """Its values were those of round 1 in all rounds."""
    environment = Moving(sb.Grid([[0, 1]], 11), sb.GaussianNoise(0.01))
    run = sb.simulate(sb.RandomSearch(environment.space), environment, 40)
    points = environment.space.points(run.candidate)
    expected = [float(environment.mean(x, t)) for t, x in enumerate(points, 1)]
    np.testing.assert_allclose(run.value, expected, atol=1e-15)
    np.testing.assert_allclose(run.regret, -np.array(expected), atol=1e-12)
    assert [environment.optimum(t) for t in (1, 21)] == pytest.approx([0.0, 0.0], abs=1e-30)
    assert environment.table(21).argmax() == 8
    with pytest.raises(ValueError, match=r"environment: got 'one that changes, on Box.*allowed: a finite space"):
        sb.simulate(sb.RandomSearch(box := sb.Box([[0, 1]])), Moving(box, sb.GaussianNoise(0.01)), 3)


class Bursts(sb.Environment):
    """Noise of one's own: large in every tenth round."""

    def evaluate(self, points):
        return points[:, 0]

    def noise_at(self, t):
        return 0.0 if t % 10 else 5.0


@pytest.mark.parametrize("wrapped", [lambda e: sb.ContextualEnvironment(e, [1], contexts=[0.0, 1.0]),
                                     lambda e: sb.MovingSearchSpace(e, np.ones((1, 10), bool))])  # fmt: skip
def test_noise_of_a_wrapped_environment(wrapped):
    environment = Bursts(sb.Grid([[0, 1], [0, 1]], (5, 2)), sb.GaussianNoise(0.0))
    whole = wrapped(environment)
    run = sb.simulate(sb.RandomSearch(environment.space), whole, 20)
    np.testing.assert_allclose(run.y - run.value, [environment.noise_at(t) for t in range(1, 21)], atol=1e-12)
    np.testing.assert_array_equal(whole.noise_of(5, 7), environment.noise_of(5, 7))
