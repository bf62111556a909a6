"""Posteriors: engines that keep mean and standard deviation of the candidates, and refits at any points."""

from __future__ import annotations

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.blocked import BlockedEngine
from scalable_bandits.posteriors.dense import DenseEngine
from scalable_bandits.posteriors.engine import Acquisition, Engine
from scalable_bandits.posteriors.observations import Observations
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import State, arrays, nested, part

DENSE_LIMIT = 6_000  # candidates; at 4,900 the full covariance was still twice as fast (benchmarks, "engines")
DENSE_MAXIMUM = 20_000  # candidates: 3.2 GB of covariance
BLOCKED_MAXIMUM = 2_000_000  # candidates: 2 GB of window and columns, before the first fold

__all__ = [
    "Acquisition",
    "BlockedEngine",
    "DenseEngine",
    "Engine",
    "Observations",
    "Regression",
    "State",
    "arrays",
    "check_engine",
    "make_engine",
    "nested",
    "part",
]


def check_engine(name: str, size: int) -> str:
    """Name of the engine for a space of `size` candidates: "auto" is resolved, too large a space refused.

    Raises
    ------
    ValueError
        If the name is unknown or the space too large for the engine.
    """
    maximum = {"dense": DENSE_MAXIMUM, "blocked": BLOCKED_MAXIMUM}
    if name not in (*maximum, "auto"):
        checks.refuse("engine", name, "'auto', 'dense' or 'blocked'")
    chosen = name if name != "auto" else "dense" if size <= DENSE_LIMIT else "blocked"
    if size > maximum[chosen]:
        checks.refuse("space", f"{size:,} candidates", f"at most {maximum[chosen]:,} for the exact engine {chosen!r}")
    return chosen


def make_engine(name: str, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
    """Build an engine, by size where the name is "auto"; see `Engine` for the parameters."""
    kind = {"dense": DenseEngine, "blocked": BlockedEngine}[check_engine(name, len(points))]
    return kind(kernel, points, prior_mean)
