"""Posteriors: engines that keep mean and standard deviation of the candidates, and refits at any points."""

from __future__ import annotations

import functools
from collections.abc import Callable

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.autoregression import AutoregressiveEngine
from scalable_bandits.posteriors.blocked import BlockedEngine
from scalable_bandits.posteriors.dense import DenseEngine
from scalable_bandits.posteriors.engine import Acquisition, Engine, ForgettingEngine
from scalable_bandits.posteriors.features import FeaturePosterior, Features, quadrature_features, random_features
from scalable_bandits.posteriors.observations import Observations
from scalable_bandits.posteriors.pathwise import PathwiseEngine
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.sketched import Sketch, SketchedEngine
from scalable_bandits.posteriors.sliding import SlidingEngine
from scalable_bandits.posteriors.state import State, arrays, nested, part
from scalable_bandits.posteriors.weighted import WeightedEngine

DENSE_LIMIT = 6_000  # candidates; at 4,900 the full covariance was still twice as fast (benchmarks, "engines")
DENSE_MAXIMUM = 20_000  # candidates: 3.2 GB of covariance
AUTOREGRESSIVE_MAXIMUM = 10_000  # candidates: prior and gained covariance, 1.6 GB
BLOCKED_MAXIMUM = 2_000_000  # candidates: 2 GB of window and columns, before the first fold
PATHWISE_MAXIMUM = 20_000_000  # candidates

__all__ = [
    "DENSE_MAXIMUM",
    "PATHWISE_MAXIMUM",
    "Acquisition",
    "AutoregressiveEngine",
    "BlockedEngine",
    "DenseEngine",
    "Engine",
    "FeaturePosterior",
    "Features",
    "ForgettingEngine",
    "Observations",
    "PathwiseEngine",
    "Regression",
    "Sketch",
    "SketchedEngine",
    "SlidingEngine",
    "State",
    "WeightedEngine",
    "arrays",
    "check_engine",
    "check_size",
    "make_engine",
    "nested",
    "part",
    "quadrature_features",
    "random_features",
]


def check_engine(name: str, size: int, epsilon: float = 0.0) -> str:
    """Name of the engine for a space of `size` candidates: "auto" is resolved, too large a space refused.

    Parameters
    ----------
    name
        As asked for.
    size
        Candidates.
    epsilon
        Of the kernel: one that forgets (`TemporalDecay`) has an engine of its own.

    Raises
    ------
    ValueError
        If the name is unknown, the space too large for the engine, or the engine one that cannot forget.
    """
    maximum = {"dense": DENSE_MAXIMUM, "blocked": BLOCKED_MAXIMUM, "sketched": BLOCKED_MAXIMUM}
    maximum["autoregressive"] = AUTOREGRESSIVE_MAXIMUM
    if name not in (*maximum, "auto"):
        checks.refuse("engine", name, "'auto', 'dense', 'blocked', 'sketched' or 'autoregressive'")
    if epsilon and name not in ("auto", "autoregressive"):
        checks.refuse("engine", name, "'auto' or 'autoregressive' for a kernel with TemporalDecay")
    static = "dense" if size <= DENSE_LIMIT else "blocked"
    chosen = name if name != "auto" else "autoregressive" if epsilon else static
    check_size(chosen, size, maximum[chosen])
    return chosen


def check_size(name: str, size: int, maximum: int = BLOCKED_MAXIMUM) -> None:
    """Refuse a space too large for an engine.

    Parameters
    ----------
    name
        Of the engine, for the message.
    size
        Candidates of the space.
    maximum
        That the engine takes.

    Raises
    ------
    ValueError
        If there are more.
    """
    if size > maximum:
        checks.refuse("space", f"{size:,} candidates", f"at most {maximum:,} for the engine {name!r}")


def make_engine(name: str, kernel: Kernel, points: Floats, prior_mean: Floats, sketch: Sketch | None = None) -> Engine:
    """Build an engine, by kernel and size where the name is "auto".

    Parameters
    ----------
    name
        As of `check_engine`.
    kernel, points, prior_mean
        As of `Engine`.
    sketch
        How, where the engine is the sketched one.
    """
    engines: dict[str, Callable[[Kernel, Floats, Floats], Engine]]
    engines = {"dense": DenseEngine, "blocked": BlockedEngine, "autoregressive": AutoregressiveEngine}
    engines["sketched"] = functools.partial(SketchedEngine, sketch=sketch or Sketch())
    return engines[check_engine(name, len(points), kernel.epsilon)](kernel, points, prior_mean)
