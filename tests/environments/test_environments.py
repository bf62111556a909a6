"""Environments: declared optima, functions of known norm, noise by round, measured data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.measured import DATA, needs_data
from naive import kernels
from scipy.optimize import differential_evolution

import scalable_bandits as sb
from scalable_bandits.environments import (
    empirical_covariance,
    load_intel_raw,
    load_light,
    load_temperature,
    load_traffic,
)
from scalable_bandits.environments.benchmark import FUNCTIONS
from scalable_bandits.environments.noise import Noise

# ---- benchmark functions, written again from the literature (for minimisation there, with the sign turned here)


def branin(x: Sequence[float]) -> float:
    a, b, c, r, s, t = 1.0, 5.1 / (4 * math.pi**2), 5 / math.pi, 6.0, 10.0, 1 / (8 * math.pi)
    return -(a * (x[1] - b * x[0] ** 2 + c * x[0] - r) ** 2 + s * (1 - t) * math.cos(x[0]) + s)


def camel(x: Sequence[float]) -> float:
    return -((4 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] + (-4 + 4 * x[1] ** 2) * x[1] ** 2)


def rosenbrock(x: Sequence[float]) -> float:
    return -sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (x[i] - 1) ** 2 for i in range(len(x) - 1))


def hartmann(x: Sequence[float], rows: str, places: str) -> float:
    total = 0.0
    for alpha, row, place in zip((1.0, 1.2, 3.0, 3.2), rows.split(";"), places.split(";"), strict=True):
        pairs = zip(x, map(float, row.split()), map(float, place.split()), strict=True)
        total += alpha * math.exp(-sum(a * (xj - 1e-4 * p) ** 2 for xj, a, p in pairs))
    return total


def hartmann3(x: Sequence[float]) -> float:
    places = "3689 1170 2673; 4699 4387 7470; 1091 8732 5547; 381 5743 8828"
    return hartmann(x, "3 10 30; 0.1 10 35; 3 10 30; 0.1 10 35", places)


def hartmann6(x: Sequence[float]) -> float:
    rows = "10 3 17 3.50 1.7 8; 0.05 10 17 0.1 8 14; 3 3.5 1.7 10 17 8; 17 8 0.05 10 0.1 14"
    places = (
        "1312 1696 5569 124 8283 5886; 2329 4135 8307 3736 1004 9991; "
        "2348 1451 3522 2883 3047 6650; 4047 8828 8732 5743 1091 381"
    )
    return hartmann(x, rows, places)


def ackley(x: Sequence[float]) -> float:
    d = len(x)
    first = -20 * math.exp(-0.2 * math.sqrt(sum(v * v for v in x) / d))
    return -(first - math.exp(sum(math.cos(2 * math.pi * v) for v in x) / d) + 20 + math.e)


def eggholder(x: Sequence[float]) -> float:
    y = x[1] + 47
    return y * math.sin(math.sqrt(abs(y + x[0] / 2))) + x[0] * math.sin(math.sqrt(abs(x[0] - y)))


def schaffer2(x: Sequence[float]) -> float:
    a, b = x[0] ** 2, x[1] ** 2
    return -(0.5 + (math.sin(a - b) ** 2 - 0.5) / (1 + 0.001 * (a + b)) ** 2)


def bukin6(x: Sequence[float]) -> float:
    return -(100 * math.sqrt(abs(x[1] - 0.01 * x[0] ** 2)) + 0.01 * abs(x[0] + 10))


def michalewicz(x: Sequence[float]) -> float:
    return sum(math.sin(v) * math.sin(i * v * v / math.pi) ** 20 for i, v in enumerate(x, start=1))


def forrester(x: Sequence[float]) -> float:
    return -((6 * x[0] - 2) ** 2) * math.sin(12 * x[0] - 4)


def cosines(x: Sequence[float]) -> float:
    u = [1.6 * v - 0.5 for v in x]
    return 1 - sum(v**2 - 0.3 * math.cos(3 * math.pi * v) for v in u)


ORACLES: dict[str, Callable[[Sequence[float]], float]] = {
    f.__name__: f
    for f in (
        branin, camel, rosenbrock, hartmann3, hartmann6, ackley, eggholder, schaffer2, bukin6, michalewicz, forrester,
        cosines,
    )
}  # fmt: skip


class TestBenchmark:
    """The twelve functions."""

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_equals_the_formula(self, name: str) -> None:
        """At random points of the usual box, as many at once and one by one."""
        environment = sb.Benchmark(name)
        low, high = np.array(environment.space.bounds).T
        points = low + np.random.default_rng(0).random((40, len(low))) * (high - low)
        expected = [ORACLES[name](point) for point in points.tolist()]
        np.testing.assert_allclose(environment.mean(points), expected, rtol=1e-11, atol=1e-11)
        assert environment.mean(points[0]) == pytest.approx(expected[0], rel=1e-11)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_declared_optimum_is_reached(self, name: str) -> None:
        environment, function = sb.Benchmark(name), FUNCTIONS[name]
        assert environment.mean(function.maximizer) == pytest.approx(environment.optimum(), abs=1e-6)
        assert environment.optimum() == function.optimum

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.sampled(4)
    def test_declared_optimum_is_not_exceeded(self, name: str) -> None:
        """By differential evolution from several seeds, each polished; the search is strong enough to come near."""
        environment = sb.Benchmark(name)
        bounds = environment.space.bounds
        found = max(
            -differential_evolution(
                lambda x: -environment.evaluate(np.atleast_2d(x.T)), bounds, rng=seed, maxiter=150, popsize=25,
                vectorized=True, updating="deferred", polish=False, tol=1e-12,
            ).fun
            for seed in range(3)
        )  # fmt: skip
        assert found <= environment.optimum() + 1e-6
        assert found >= environment.optimum() - (0.05 if name == "bukin6" else 1e-5)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_unit_cube(self, name: str) -> None:
        """The same function and optimum in coordinates of [0, 1]^d."""
        usual, unit = sb.Benchmark(name), sb.Benchmark(name, unit_cube=True)
        low, high = np.array(usual.space.bounds).T
        points = np.random.default_rng(1).random((20, len(low)))
        assert unit.space == sb.Box([[0, 1]] * len(low))
        np.testing.assert_allclose(unit.mean(points), usual.mean(low + points * (high - low)), rtol=1e-12, atol=1e-12)
        assert unit.optimum() == usual.optimum()

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("unit_cube", [False, True])
    def test_scaled_exactly_on_a_finite_space(self, name: str, unit_cube: bool) -> None:
        """Extremes are -1 and 1 to the last bits, and the map is linear."""
        bounds = [(0, 1)] * len(FUNCTIONS[name].bounds) if unit_cube else FUNCTIONS[name].bounds
        grid = sb.Grid(bounds, {1: 101, 2: 21, 3: 9}.get(len(bounds), 4))
        plain, scaled = (sb.Benchmark(name, grid, unit_cube=unit_cube, scaled=flag).table() for flag in (False, True))
        assert scaled.min() == pytest.approx(-1.0, abs=1e-14)
        assert scaled.max() == pytest.approx(1.0, abs=1e-14)
        expected = 2 * (plain - plain.min()) / np.ptp(plain) - 1
        np.testing.assert_allclose(scaled, expected, atol=1e-12)
        environment = sb.Benchmark(name, grid, unit_cube=unit_cube, scaled=True)
        assert environment.optimum() == scaled.max()
        assert environment.optimum(available=[0, 1]) == scaled[:2].max()

    @pytest.mark.parametrize("name", ["branin", "camel", "rosenbrock", "cosines", "forrester"])
    def test_scaled_by_search_on_a_box(self, name: str) -> None:
        """The optimum is 1, and nothing of many random points lies outside [-1, 1]."""
        environment = sb.Benchmark(name, scaled=True)
        low, high = np.array(environment.space.bounds).T
        values = environment.mean(low + np.random.default_rng(2).random((20_000, len(low))) * (high - low))
        assert environment.optimum() == pytest.approx(1.0, abs=1e-9)
        assert values.max() <= 1 + 1e-6
        assert -1 - 1e-6 <= values.min() <= -0.85

    @pytest.mark.parametrize("dimension", [2, 3, 5])
    @pytest.mark.parametrize("name", ["rosenbrock", "ackley", "michalewicz"])
    def test_any_dimension(self, name: str, dimension: int) -> None:
        environment = sb.Benchmark(name, dimension=dimension)
        assert environment.space.dimension == dimension
        low, high = np.array(environment.space.bounds).T
        points = low + np.random.default_rng(3).random((10, dimension)) * (high - low)
        expected = [ORACLES[name](point) for point in points.tolist()]
        np.testing.assert_allclose(environment.mean(points), expected, rtol=1e-11, atol=1e-11)
        if name != "michalewicz":
            maximizer = np.ones(dimension) if name == "rosenbrock" else np.zeros(dimension)
            assert environment.optimum() == pytest.approx(0.0, abs=1e-12)
            assert environment.mean(maximizer) == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.parametrize(("dimension", "value"), [(2, 1.801303), (3, 2.760395), (5, 4.687658)])
    def test_michalewicz_optimum(self, dimension: int, value: float) -> None:
        """The literature's values: what is played must not exceed what regret is measured against."""
        assert sb.Benchmark("michalewicz", dimension=dimension).optimum() == pytest.approx(value, abs=1e-5)

    def test_searched_optimum(self) -> None:
        """On boxes that leave the literature's maximiser out."""
        assert sb.Benchmark("forrester", sb.Box([[0.0, 0.5]])).optimum() == pytest.approx(0.986325, abs=1e-5)
        assert sb.Benchmark("rosenbrock", sb.Box([[-2, 0], [-1, 0]])).optimum() == pytest.approx(-1.0, abs=1e-6)

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("branim", {}, r"^name: got 'branim'; allowed: did you mean 'branin'\?"),
            ("branin", {"dimension": 3}, r"^dimension: got 3; allowed: 2, for branin$"),
            ("ackley", {"dimension": 1}, r"^dimension: got 1; allowed: 2, for ackley any above 1"),
            ("ackley", {"dimension": 3, "space": sb.Box([[0, 1]] * 2)}, "^dimension: got "),
            ("hartmann3", {"space": sb.Grid([[0, 1]] * 2, 3)}, "^dimension: got 2"),
        ],
        ids=str,
    )
    def test_refusals(self, name: str, options: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            sb.Benchmark(name, **options)  # type: ignore[arg-type]


# ---- functions of known norm, and draws


KERNELS = [(sb.RBF(0.3), kernels.rbf(0.3)), (sb.Matern(0.3, nu=1.5), kernels.matern32(0.3))]


class TestRKHSFunction:
    """f = sum of weights times kernel functions."""

    @pytest.mark.parametrize(("kernel", "naive"), KERNELS)
    def test_norm_and_values(self, kernel: sb.Kernel, naive: Callable[..., float]) -> None:
        """By double loops over the centers."""
        rng = np.random.default_rng(0)
        centers, weights, points = rng.random((7, 2)), rng.normal(size=7), rng.random((5, 2))
        environment = sb.RKHSFunction(sb.Box([[0, 1]] * 2), kernel, centers, weights)
        square = sum(weights[i] * weights[j] * naive(centers[i], centers[j]) for i in range(7) for j in range(7))
        assert environment.rkhs_norm == pytest.approx(math.sqrt(square), rel=1e-12)
        values = [sum(weights[i] * naive(centers[i], x) for i in range(7)) for x in points]
        np.testing.assert_allclose(environment.mean(points), values, rtol=1e-12)

    def test_centers_that_cancel(self) -> None:
        """The zero function has norm 0, not the root of a rounding error below it."""
        environment = sb.RKHSFunction(sb.Box([[0, 1]]), sb.RBF(), np.array([[0.3], [0.3]]), np.array([1.0, -1.0]))
        assert environment.rkhs_norm == 0.0

    @pytest.mark.parametrize("space", [sb.Box([[-2, 0], [5, 6]]), sb.Grid([[-2, 0], [5, 6]], 4)], ids=repr)
    def test_sparse(self, space: sb.Box | sb.Grid) -> None:
        """30 d centers uniform on the bounds, weights uniform on [-1, 1]; a function of the seed."""
        draws = [sb.RKHSFunction.sparse(space, sb.RBF(0.2), seed=seed) for seed in range(40)]
        centers = np.concatenate([draw.centers for draw in draws])
        weights = np.concatenate([draw.weights for draw in draws])
        low, high = np.array(space.bounds).T
        assert draws[0].centers.shape == (60, 2)
        unit = (centers - low) / (high - low)
        for uniform in (*unit.T, (weights + 1) / 2):
            assert 0 <= uniform.min() < 0.01
            assert 0.99 < uniform.max() <= 1
            assert uniform.mean() == pytest.approx(0.5, abs=5 / math.sqrt(12 * 2400))
        again = sb.RKHSFunction.sparse(space, sb.RBF(0.2), seed=3)
        np.testing.assert_array_equal(again.weights, draws[3].weights)
        np.testing.assert_array_equal(again.centers, draws[3].centers)
        assert sb.RKHSFunction.sparse(space, sb.RBF(0.2), seed=3, count=5).weights.shape == (5,)

    def test_sparse_on_explicit_candidates(self) -> None:
        """Centers are candidates; arms too."""
        points = sb.Points([[0.1, 0.2], [0.3, 0.4], [5.0, 6.0]])
        points.index(sb.RKHSFunction.sparse(points, sb.RBF()).centers)
        arms, covariance = sb.Arms(4), np.diag([1.0, 2.0, 3.0, 4.0])
        environment = sb.RKHSFunction.sparse(arms, sb.Covariance(covariance), count=20)
        centers = arms.index(environment.centers)
        expected = [environment.weights[centers == arm].sum() * covariance[arm, arm] for arm in range(4)]
        np.testing.assert_allclose(environment.table(), expected)

    @pytest.mark.slow
    def test_posterior_mean(self) -> None:
        """f = K (K + rho I)^-1 y at the candidates, y ~ N(0, K): so y = f + rho w, with covariance K over seeds."""
        space, kernel, rho, seeds = sb.Points([0.0, 0.1, 0.4, 0.9]), sb.RBF(0.3), 0.5, 3000
        covariance = kernels.matrix(kernels.rbf(0.3), space.points())
        drawn = np.empty((seeds, 4))
        for seed in range(seeds):
            f = sb.RKHSFunction.posterior_mean(space, kernel, seed=seed, regularization=rho)
            drawn[seed] = f.table() + rho * f.weights
        np.testing.assert_allclose(f.table(), covariance @ f.weights, atol=1e-12)
        assert f.rkhs_norm == pytest.approx(math.sqrt(f.weights @ covariance @ f.weights))
        np.testing.assert_allclose(drawn.T @ drawn / seeds, covariance, atol=5 * math.sqrt(2 / seeds))
        np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=5 / math.sqrt(seeds))


class TestGPSample:
    """Functions drawn from the prior."""

    @pytest.mark.slow
    def test_covariance_over_seeds(self) -> None:
        """Mean 0 and covariance K within five standard errors; normal fourth moment."""
        space, kernel, seeds = sb.Grid([[0, 1]], 5), 4.0 * sb.Matern(0.3, nu=1.5), 4000
        drawn = np.array([sb.GPSample(space, kernel, seed=seed).table() for seed in range(seeds)])
        expected = 4.0 * kernels.matrix(kernels.matern32(0.3), space.points())
        error = np.sqrt((expected**2 + 16.0) / seeds)
        assert (np.abs(drawn.T @ drawn / seeds - expected) < 5 * error).all()
        assert (np.abs(drawn.mean(axis=0)) < 5 * 2 / math.sqrt(seeds)).all()
        np.testing.assert_allclose((drawn**4).mean(axis=0), 3 * 16, rtol=5 * math.sqrt(96 / 9 / seeds))

    def test_singular_covariance(self) -> None:
        """Arms that are one and the same get one and the same value."""
        environment = sb.GPSample(sb.Arms(3), sb.Covariance(np.ones((3, 3))), seed=1)
        np.testing.assert_allclose(environment.table(), environment.table()[0], atol=1e-7)


# ---- noise


NOISES: list[tuple[Noise, float]] = [
    (sb.GaussianNoise(0.7), 0.7),
    (sb.UniformNoise(2.0), 2.0 / math.sqrt(3)),
    (sb.RademacherNoise(1.5), 1.5),
    (sb.StudentTNoise(df=5.0, scale=0.5), 0.5 * math.sqrt(5 / 3)),
]


def log_moment(noise: Noise, s: float) -> float:
    """Logarithm of E exp(s e), in closed form."""
    if isinstance(noise, sb.GaussianNoise):
        return 0.5 * s**2 * noise.scale**2
    if isinstance(noise, sb.RademacherNoise):
        return math.log(math.cosh(s * noise.scale))
    assert isinstance(noise, sb.UniformNoise)
    return math.log(math.sinh(s * noise.half_width) / (s * noise.half_width))


class TestNoise:
    """Distributions and their constants."""

    @pytest.mark.parametrize(("noise", "spread"), NOISES, ids=str)
    def test_mean_and_spread(self, noise: Noise, spread: float) -> None:
        drawn = noise.draw(np.random.default_rng(0), 200_000)
        assert drawn.shape == (200_000,)
        assert drawn.mean() == pytest.approx(0.0, abs=5 * spread / math.sqrt(200_000))
        assert drawn.std() == pytest.approx(spread, rel=0.02)

    def test_ranges(self) -> None:
        rng = np.random.default_rng(0)
        assert np.abs(sb.UniformNoise(2.0).draw(rng, 10_000)).max() == pytest.approx(2.0, rel=1e-3)
        assert set(sb.RademacherNoise(1.5).draw(rng, 100).tolist()) == {-1.5, 1.5}

    @pytest.mark.parametrize(("noise", "spread"), NOISES[:3], ids=str)
    def test_sub_gaussian_inequality(self, noise: Noise, spread: float) -> None:
        """E exp(s e) <= exp(s^2 R^2 / 2) for all s, and for no smaller R: it is the standard deviation."""
        R = noise.sub_gaussian
        for s in np.geomspace(1e-3, 100, 60):
            assert log_moment(noise, float(s)) <= 0.5 * s**2 * R**2 * (1 + 1e-9)
        assert log_moment(noise, 0.01) > 0.5 * 0.01**2 * (0.99 * R) ** 2
        assert pytest.approx(spread) == R

    def test_student_t_has_no_constant(self) -> None:
        assert sb.StudentTNoise(df=5.0).sub_gaussian == math.inf
        assert sb.StudentTNoise(df=5.0, scale=0.0).sub_gaussian == 0.0

    @pytest.mark.parametrize("noise", [sb.GaussianNoise(0), sb.UniformNoise(0), sb.RademacherNoise(0)], ids=str)
    def test_none(self, noise: Noise) -> None:
        assert noise.sub_gaussian == 0.0
        assert not noise.draw(np.random.default_rng(0), 10).any()

    @pytest.mark.parametrize(("noise", "spread"), NOISES, ids=str)
    def test_round_decides(self, noise: Noise, spread: float) -> None:
        """Round t's noise is the same in any order, at any point, alone or among many."""
        space = sb.Grid([[0, 1]], 3)
        rounds = [1, 2, 3, 1023, 1024, 1025, 5000]
        first, second = (sb.TableEnvironment(space, [1.0, 2.0, 4.0], noise, seed=9) for _ in range(2))
        expected = [first.observe(0.0, t) - 1.0 for t in rounds]
        np.testing.assert_allclose([second.observe(1.0, t) - 4.0 for t in rounds[::-1]], expected[::-1], atol=1e-12)
        np.testing.assert_allclose([second.noise_at(t) for t in rounds], expected, atol=1e-12)
        many = first.observe([0.5, 0.5, 0.0], 1023)
        np.testing.assert_allclose(many - [2.0, 2.0, 1.0], expected[3:6], atol=1e-12)
        other = sb.TableEnvironment(space, [1.0, 2.0, 4.0], noise, seed=10)
        assert [other.noise_at(t) for t in rounds] != [first.noise_at(t) for t in rounds]
        assert len({first.noise_at(t) for t in range(2000)}) == (2 if isinstance(noise, sb.RademacherNoise) else 2000)


# ---- what all environments do


class TestEnvironment:
    """Means, tables and optima on every kind of space."""

    @pytest.mark.parametrize("space", [sb.Points([[0.0, 1.0], [1.0, 2.0], [3.0, -4.0]]), sb.Arms(3)], ids=repr)
    def test_table(self, space: sb.Points | sb.Arms) -> None:
        values = np.array([1.0, 5.0, 3.0])
        environment = sb.TableEnvironment(space, values)
        values[:] = 0.0
        assert environment.table().tolist() == [1.0, 5.0, 3.0]
        with pytest.raises(ValueError, match="read-only"):
            environment.table()[0] = 2.0
        assert environment.mean(space.value(2)) == 3.0
        assert environment.mean([space.value(2), space.value(1)]).tolist() == [3.0, 5.0]
        assert environment.optimum() == 5.0

    @pytest.mark.parametrize(("available", "best"), [([0, 2], 3.0), ([True, False, False], 1.0), (np.array([1]), 5.0)])
    def test_optimum_of_the_available(self, available: object, best: float) -> None:
        environment = sb.TableEnvironment(sb.Arms(3), [1.0, 5.0, 3.0])
        assert environment.optimum(7, available) == best

    @pytest.mark.parametrize(
        ("space", "seen"),
        [
            (sb.Box([[0, 1]] * 2), np.ndarray),
            (sb.Grid([[0, 1]] * 2, 3), np.ndarray),
            (sb.Points([[0.5, 1.0]]), np.ndarray),
            (sb.Arms(2), int),
        ],
        ids=repr,
    )
    def test_function(self, space: sb.Box, seen: type) -> None:
        """A user's function is given a point (d,), or an arm number; no noise is added unasked."""
        kinds = set()

        def function(x: object) -> float:
            kinds.add(type(x))
            assert seen is int or np.shape(x) == (2,)
            return float(np.sum(x)) + 1.0

        environment = sb.FunctionEnvironment(space, function)
        x = 1 if seen is int else [0.5, 1.0]
        assert environment.mean(x) == environment.observe(x, 4) == np.sum(x) + 1.0
        assert environment.mean([x, x]).shape == (2,)
        assert kinds == {seen}
        noisy = sb.FunctionEnvironment(space, function, sb.GaussianNoise(1.0), seed=3)
        assert noisy.observe(x, 4) == pytest.approx(noisy.mean(x) + noisy.noise_at(4))

    @pytest.mark.parametrize(("optimum", "rounds"), [(None, 5), (None, 300), (9.0, 5), (9.0, 300)])
    def test_function_is_called_once_an_arm_at_most(self, optimum: float | None, rounds: int) -> None:
        """Where there are no more arms than rounds, or all are needed, in advance; else in the order of play."""
        space, calls = sb.Arms(10), []
        environment = sb.FunctionEnvironment(
            space, lambda arm: calls.append(arm) or float(arm), sb.GaussianNoise(0.1), seed=2, optimum=optimum
        )
        made = [sb.IGPUCB(space, sb.Covariance(np.eye(10)), noise=0.1, rkhs_norm=9.0) for _ in range(2)]
        run = sb.simulate(made[0], environment, rounds)
        given = sb.TableEnvironment(space, np.arange(10.0), sb.GaussianNoise(0.1), seed=2)
        expected = sb.simulate(made[1], given, rounds)
        for name in ("candidate", "y", "regret"):
            np.testing.assert_array_equal(getattr(run, name), getattr(expected, name))
        in_order = list(dict.fromkeys(expected.candidate.tolist()))
        assert calls == (in_order if optimum and rounds < 10 else list(range(10)))

    def test_function_on_a_box_has_its_optimum_searched(self) -> None:
        environment = sb.FunctionEnvironment(
            sb.Box([[-1, 2], [0, 3]]), lambda x: -((x[0] - 0.7) ** 2) - (x[1] - 1) ** 2
        )
        assert environment.optimum() == pytest.approx(0.0, abs=1e-6)

    @pytest.mark.parametrize("space", [sb.Grid([[0, 1]], 5), sb.Box([[0, 1]])], ids=str)
    def test_without_a_largest_value_there_is_no_regret(self, space):
        """A function that is NaN somewhere: refused, where its optimum is asked for and is not given."""
        function = lambda x: math.nan if x[0] > 0.9 else float(x[0])  # noqa: E731
        with pytest.raises(ValueError, match=r"^function: got 'nan .*; allowed: "):
            sb.FunctionEnvironment(space, function).optimum()
        assert sb.FunctionEnvironment(space, function, optimum=0.9).optimum() == 0.9

    def test_a_function_returns_a_number(self):
        environment = sb.FunctionEnvironment(sb.Grid([[0, 1]], 3), lambda x: [1.0, 2.0])
        with pytest.raises(
            ValueError, match=r"^function: got \[1\.0, 2\.0\]; allowed: a function that returns a number"
        ):
            environment.mean([0.0])

    def test_function_on_a_grid_has_its_optimum_listed(self) -> None:
        environment = sb.FunctionEnvironment(sb.Grid([[0, 1]], 3), lambda x: -((x[0] - 0.4) ** 2))
        assert environment.optimum() == pytest.approx(-0.01)
        assert environment.optimum(available=[0, 2]) == pytest.approx(-0.16)


# ---- environments of other packages


class Lines(sb.Environment):
    """f(x) = x in one dimension, or what else a function of the points returns."""

    def __init__(self, space: sb.Space, values: Callable[..., Any]):
        super().__init__(space, sb.GaussianNoise(0.0))
        self.values = values

    def evaluate(self, points: np.ndarray) -> Any:
        return self.values(points)


class Changing(sb.environments.ChangingEnvironment):
    """The same, in every round."""

    def __init__(self, space: sb.Space, values: Callable[..., Any]):
        super().__init__(space, sb.GaussianNoise(0.0))
        self.values = values

    def table(self, t: int = 1) -> Any:
        return self.values(self.space.finite.points())


class TestOwnEnvironments:
    """What they return is one finite number for each point, of any type."""

    LINE = sb.Grid([[0, 1]], 30)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (lambda x: x, r"got 'values of shape \(\d+, 1\)'; allowed: \(\d+,\), one for each (point|candidate)"),
            (lambda x: 1.0, r"got 'values of shape \(\)'; allowed: \(\d+,\), one for each"),
            (lambda x: np.where(x[:, 0] > 0.9, np.nan, x[:, 0]), "got .*nan.*; allowed: finite numbers"),
            (lambda x: ["a"] * len(x), "got .*; allowed: numbers"),
        ],
        ids=["column", "scalar", "nan", "text"],
    )
    def test_refused_by_name(self, values: Callable[..., Any], message: str) -> None:
        one, changing = Lines(self.LINE, values), Changing(self.LINE, values)
        kernel = {"kernel": sb.RBF(0.2), "noise": 0.1}
        for method, call in (
            ("Lines.evaluate", one.table),
            ("Lines.evaluate", lambda: one.mean([1.0])),
            ("Lines.evaluate", lambda: one.observe([1.0])),
            ("Lines.evaluate", lambda: sb.simulate(sb.GPUCB(self.LINE, **kernel), one, 5)),
            ("Lines.evaluate", lambda: Lines(sb.Box([[0, 1]]), values).optimum()),
            ("Lines.evaluate", lambda: sb.MovingSearchSpace(one, [[True] * 30]).table()),
            ("Lines.evaluate", lambda: sb.AdditiveFunction(self.LINE, [one], [[0]]).mean([1.0])),
            ("Changing.table", lambda: changing.observe([1.0])),
            ("Changing.table", changing.optimum),
            ("Changing.table", lambda: sb.simulate(sb.GPUCB(self.LINE, **kernel), changing, 5)),
        ):
            with pytest.raises(ValueError, match=f"^{method}: {message}"):
                call()

    @pytest.mark.parametrize(
        "values", [lambda x: x[:, 0].tolist(), lambda x: x[:, 0].astype(np.float32), lambda x: x[:, 0] > 0.5]
    )
    def test_converted(self, values: Callable[..., Any]) -> None:
        for kind in (Lines, Changing):
            environment = kind(self.LINE, values)
            assert environment.mean(self.LINE.points()).dtype == np.float64
            run = sb.simulate(sb.RandomSearch(self.LINE), environment, 20)
            expected = np.asarray(values(self.LINE.points()), dtype=np.float64)[run.candidate]
            np.testing.assert_array_equal(run.y, expected)

    def test_a_table_is_a_copy(self) -> None:
        kept = np.arange(30.0)
        environment = Lines(self.LINE, lambda x: kept)
        assert not environment.table().flags.writeable
        kept += 1.0
        assert environment.table()[0] == 0.0


# ---- measured data


@needs_data
class TestSensors:
    """The files as they are described beside them."""

    def test_light(self) -> None:
        data = load_light(DATA)
        assert data.train.shape == (601, 41)
        assert data.test.shape == (192, 41)
        assert data.coordinates is not None
        assert data.coordinates.shape == (41, 2)
        for array in (data.train, data.test, data.coordinates):
            assert np.isfinite(array).all()

    def test_temperature(self) -> None:
        """Files have a row a sensor; readings a row a time."""
        data = load_temperature(DATA)
        assert data.train.shape == (144, 50)
        assert data.test.shape == (96, 50)
        assert data.unit == "degrees Celsius"
        first = [float(line.split(",")[0]) for line in (DATA / "intel_temperature_train.csv").read_text().split()]
        assert data.train[0].tolist() == first
        assert 5 < data.train.min() < data.train.max() < 50

    def test_traffic(self) -> None:
        """Five working days, 60 five-minute slots each, two thirds to train on; no detector reports 0."""
        data = load_traffic(DATA)
        assert data.train.shape == (200, 207)
        assert data.test.shape == (100, 207)
        assert min(data.train.min(), data.test.min()) > 0
        assert max(data.train.max(), data.test.max()) <= 80

    def test_folder_from_the_environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """SCALABLE_BANDITS_DATA, unless a folder is given."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("SCALABLE_BANDITS_DATA", str(DATA.resolve()))
        assert load_temperature().test.shape == (96, 50)
        with pytest.raises(sb.DataMissing):
            load_temperature(tmp_path)


@pytest.mark.parametrize(
    ("load", "name", "origin"),
    [
        (load_light, "light_sensors.mat", "cs.cmu.edu"),
        (load_temperature, "intel_temperature_train.csv", "csail.mit.edu"),
        (load_traffic, "traffic_speed_la.csv.gz", "METR-LA"),
    ],
)
def test_missing_file(
    load: Callable[..., object], name: str, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file, where it was looked for, how to say where it is, and its public origin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_BANDITS_DATA", raising=False)
    for folder, looked in ((tmp_path, tmp_path), (None, tmp_path / "../shared/data")):
        with pytest.raises(sb.DataMissing) as missing:
            load(folder)
        assert isinstance(missing.value, FileNotFoundError)
        for part in (name, str(looked.resolve()), "SCALABLE_BANDITS_DATA", "--data", origin):
            assert part in str(missing.value)


class TestIntelRaw:
    """The lab's file as published: blanks between eight columns, and everything that is wrong with it."""

    GOOD = (
        "2004-03-31 03:38:15.757551 2 1 122.153 -3.91901 11.04 2.03397\n"  # hot: two readings of one span
        "2004-03-31 03:59:59.999999 3 1 20.153 36.0 11.04 2.0\n"
        "2004-03-31 03:40:00 3 2 19.5 37.0 45.08 2.69964\n"  # no fraction of a second
        "2004-03-31 05:02:56.839597 4 1 21.0 38.0 43.24 2.67\n"  # the span from 4:30 is empty
        "2004-03-31 04:02:56.839597 5 58 18.0 39.0 43.24 2.67\n"  # out of order
    )
    BAD = (
        "2004-03-31 03:41:00.1 6 65407 99.0 40.0 43.24 2.67\n"  # impossible mote
        "2004-03-31 03:41:00.1 6 0 99.0 40.0 43.24 2.67\n"  # impossible mote
        "2004-03-31 03:42:00.1 7\n"  # no readings
        "2004-03-31 03:43:00.1 8 2\n"
        "\n"
        "2004-03-31 03:44:00.1 8 2 99.0 40.0 43.24 2.67 1.0 2.0\n"  # two lines in one
        "2004-03-31 garbage 8 2 99.0 40.0 43.24 2.67\n"
        "2004-03-31 03:45:00.1 9 2 nan 40.0 43.24 2.67\n"
    )

    def test_reads(self, tmp_path: Path) -> None:
        """Averages over half hours, a row a span also where nothing was reported, a column a mote."""
        path = tmp_path / "data.txt"
        path.write_text(self.GOOD + self.BAD)
        panel = load_intel_raw(path)
        assert panel.dims == ("time", "mote")
        assert panel.name == "temperature"
        assert panel["mote"].values.tolist() == [1, 2, 58]
        times = np.array(["2004-03-31T03:30", "2004-03-31T04:00", "2004-03-31T04:30", "2004-03-31T05:00"])
        assert (panel["time"].values == times.astype("datetime64[ns]")).all()
        nan = math.nan
        expected = [[71.153, 19.5, nan], [nan, nan, 18.0], [nan, nan, nan], [21.0, nan, nan]]
        np.testing.assert_allclose(panel.values, expected)

    def test_other_quantities_and_spans(self, tmp_path: Path) -> None:
        path = tmp_path / "data.txt"
        path.write_text(self.GOOD)
        panel = load_intel_raw(path, "voltage", every="1h")
        nan = math.nan
        np.testing.assert_allclose(panel.values, [[2.016985, 2.69964, nan], [nan, nan, 2.67], [2.67, nan, nan]])

    @pytest.mark.parametrize(
        "line",
        [
            "2004-03-31 03:50:00.1 9 2 1",  # torn inside the temperature
            "2004-03-31 03:50:00.1 9 2 19.9 4",
            "2004-03-31 03:50:00.1 9 2 19.9 40.0 43.24",
        ],
    )
    def test_torn_lines_are_left_out(self, tmp_path: Path, line: str) -> None:
        """A line without all its columns may end inside a number, which is then another number."""
        path = tmp_path / "data.txt"
        path.write_text(self.GOOD + line)
        assert load_intel_raw(path).sel(mote=2).values[0] == 19.5

    def test_refusals(self, tmp_path: Path) -> None:
        path = tmp_path / "data.txt"
        with pytest.raises(sb.DataMissing, match=r"data\.txt is missing.*csail\.mit\.edu"):
            load_intel_raw(path)
        path.write_text(self.GOOD)
        with pytest.raises(ValueError, match=r"^quantity: got 'heat'; allowed: temperature, humidity, light, voltage"):
            load_intel_raw(path, "heat")
        for every in ("-1min", "0min", "soon", "", "1ME", None):
            with pytest.raises(ValueError, match=r"^every: got .*; allowed: a span of time as pandas writes it"):
                load_intel_raw(path, every=every)

    @pytest.mark.parametrize("text", ["", "no readings\n", "2004-03-31 03:38:15.7 2 99 122.153 -3.9 11.04 2.03\n"])
    def test_a_file_without_readings(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "data.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match=r"^path: got .*data\.txt'; allowed: a file with readings of temperature"):
            load_intel_raw(path)


@pytest.mark.parametrize("estimate", [empirical_covariance, sb.prior_from_panel])
def test_a_panel_without_sensors(estimate: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"^readings: got 'an array of shape \(5, 0\)'; allowed: at least .*1 column"):
        estimate(np.zeros((5, 0)))


def test_empirical_covariance() -> None:
    """About the means, divided by the number of readings; constant sensors have variance 0."""
    readings = np.array([[1.0, 2.0, 7.0], [3.0, 2.0, 7.0], [5.0, 8.0, 7.0]])
    expected = [[8 / 3, 4.0, 0.0], [4.0, 8.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(empirical_covariance(readings), expected, atol=1e-15)
    sb.Covariance(empirical_covariance(readings))
    for bad in ([[1.0, 2.0]], [1.0, 2.0], [[1.0, math.nan], [2.0, 3.0]]):
        with pytest.raises(ValueError, match=r"^readings: got"):
            empirical_covariance(bad)
