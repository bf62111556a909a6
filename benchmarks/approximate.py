"""The approximate model of more than 2,000 observations beside an exact model of all of them.

A quarter of the observations are near the maximum, as in a run of tuning, the others uniform over the box. Both
models are asked at other points: 1,000 uniform ones, and 200 around the maximum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line
from scalable_bandits.posteriors.models import learned as prior

FUNCTIONS = {"hartmann6": 6, "rosenbrock": 4, "ackley": 5}
NEAR = 0.05  # standard deviation of the points around the maximum, in sides of the box


def draw(function: sb.Benchmark, count: int, near: int, seed: int) -> np.ndarray:
    """Draw points, the last of which are near the maximum."""
    rng, (low, high) = np.random.default_rng(seed), np.transpose(function.space.bounds)
    top = np.resize(function.function.maximizer, len(low))
    x = low + (high - low) * rng.random((count, len(low)))
    x[count - near :] = top + NEAR * (high - low) * rng.standard_normal((near, len(low)))
    return np.clip(x, low, high)


def predictions(
    function: sb.Benchmark, x: np.ndarray, y: np.ndarray, at: np.ndarray, reach: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return means and standard deviations of a model that is exact up to a number of observations, and seconds."""
    with mock.patch.object(prior, "REACH", reach), warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ApproximateModel)
        policy = sb.GPPI(function.space, seed=0)  # GPEI has fewer, and a trust region beside them
        started = time.process_time()
        policy.tell(x, y)
        mean, deviation = policy.posterior(at)
        return mean, deviation, time.process_time() - started


def approximate(quick: bool) -> Iterator[Line]:
    """The subset of 2,000 observations beside all 4,000."""
    reach, count = (60, 120) if quick else (prior.REACH, 2 * prior.REACH)
    for name, dimension in FUNCTIONS.items():
        function = sb.Benchmark(name, dimension=dimension)
        x = draw(function, count, count // 4, 0)[np.random.default_rng(1).permutation(count)]
        at = draw(function, 1200, 200, 2)
        y, truth = function.mean(x), function.mean(at)
        found = [predictions(function, x, y, at, limit) for limit in (reach, count)]
        for what, rows in (("over the box", slice(1000)), ("near the maximum", slice(1000, None))):
            spread = float(truth[rows].std())
            errors = [float(np.sqrt(np.mean((mean[rows] - truth[rows]) ** 2))) / spread for mean, _, _ in found]
            apart = float(np.sqrt(np.mean((found[0][0][rows] - found[1][0][rows]) ** 2))) / spread
            wider = float(np.median(found[0][1][rows] / found[1][1][rows]))
            yield Line(
                f"{name}, {dimension}-d, {reach:,} of {count:,}, {what}: error over spread", f"{errors[0]:.2g}",
                f"exact {errors[1]:.2g}", f"{errors[0] / errors[1]:.2f}", "",
            )  # fmt: skip
            yield Line("... means apart, over spread; sds' ratio", f"{apart:.2g}", "", f"{wider:.2f}", "")
        yield Line("... s of processor", f"{found[0][2]:.1f}", f"exact {found[1][2]:.1f}", "", "")
