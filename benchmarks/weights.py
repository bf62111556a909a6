"""Kernels of few features: the engine of weights beside the engines of candidates and of observed points."""

from __future__ import annotations

import time
from collections.abc import Iterator

import attrs
import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line
from scalable_bandits.checks import Floats

NOISE = 0.5


@attrs.frozen
class WithoutFeatures(sb.Linear):
    """Linear kernel that says nothing of its features, as other kernels."""

    def features(self, X: Floats) -> None:  # type: ignore[override]
        """Return None, whatever the points X (n, d)."""


def policy(space: sb.Points | sb.Box, kernel: sb.Kernel, engine: str = "auto") -> sb.IGPUCB:
    """Return OFUL: IGP-UCB with the width "whitehouse"."""
    given = {"noise": NOISE, "regularization": NOISE**2, "rkhs_norm": 1.0, "confidence": "whitehouse"}
    return sb.IGPUCB(space, kernel, engine=engine, **given)


def arms(count: int, dimension: int) -> sb.TableEnvironment:
    """Return a linear function of unit norm on random points of the unit sphere."""
    x, theta = np.random.default_rng(0).standard_normal((count, dimension)), np.ones(dimension) / dimension**0.5
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return sb.TableEnvironment(sb.Points(x), x @ theta, sb.GaussianNoise(NOISE))


def seconds(
    kernel: sb.Kernel, environment: sb.environments.Environment, rounds: int, engine: str = "auto"
) -> tuple[float, sb.Trajectory, sb.IGPUCB]:  # fmt: skip
    """Return seconds, trajectory and policy of a run, after some rounds that compile."""
    sb.simulate(policy(environment.space, kernel, engine), environment, 3)
    played, started = policy(environment.space, kernel, engine), time.perf_counter()
    run = sb.simulate(played, environment, rounds)
    return time.perf_counter() - started, run, played


def weights(quick: bool) -> Iterator[Line]:
    """Rounds on 1,000 candidates in 20 dimensions, and on boxes of 20 and 200 dimensions."""
    rounds, environment = (2_000 if quick else 1_000_000), arms(100 if quick else 1_000, 20)
    ours, run, first = seconds(sb.Linear(), environment, rounds, "weights")
    dense, other, second = seconds(sb.Linear(), environment, rounds, "dense")
    yield Line(
        f"OFUL, {environment.space.size:,} arms, d = 20, T = {rounds:,}", f"{ours:.1f} s", f"dense {dense:.1f} s",
        f"{dense / ours:.1f}", "< 60 s",
    )  # fmt: skip
    same, found, expected = bool((run.candidate == other.candidate).all()), first.model.engine, second.model.engine
    apart = max(np.abs(found.mean() - expected.mean()).max(), np.abs(found.variance() - expected.variance()).max())
    yield Line("... choices, posteriors", f"{'the same' if same else 'others'}, {apart:.0e} apart", "", "", "")
    yield Line("... regret over random play's", f"{run.regret.sum() / _random(environment, rounds):.4f}", "", "", "")
    for dimension in (20, 200):
        box, rounds = sb.Box([[-1.0, 1.0]] * dimension), 20 if quick else 10_000
        few = min(rounds, 300)
        for name, kernel in {"Linear": sb.Linear(), "SphericalLinear": sb.SphericalLinear(box.bounds)}.items():
            function = sb.FunctionEnvironment(box, _linear, sb.GaussianNoise(NOISE), optimum=1.0)
            ours, run, _ = seconds(kernel, function, rounds)
            late, early = run.regret[-rounds // 10 :].mean(), run.regret[: rounds // 10].mean()
            beside = ""
            if name == "Linear":
                other_seconds, _, _ = seconds(WithoutFeatures(), function, few)
                beside = f"without features {1e3 * other_seconds / few:.1f} ms a round until {few}"
            took = f"{ours:.1f} s, {1e3 * ours / rounds:.2f} ms a round"
            yield Line(f"OFUL, box, d = {dimension}, T = {rounds:,}, {name}", took, beside, "", "< 60 s")
            yield Line("... mean regret, first and last tenth", f"{early:.3f}, {late:.3f}", "random play 1", "", "")


def _linear(x: Floats) -> float:
    return float(np.mean(x))


def _random(environment: sb.TableEnvironment, rounds: int) -> float:
    """Return the expected regret of random play."""
    table = environment.table()
    return rounds * float(table.max() - table.mean())
