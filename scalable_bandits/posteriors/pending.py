"""Effect of pending points on the posterior, by the values that stand for theirs.

Values that are the posterior means lower variances and change no mean (GP-BUCB, Desautels, Krause & Burdick 2014,
section 3). Values that are drawn from the posterior also shift the means, each time in another direction (randomised
kriging believer, Sugiura, Takeuchi & Takeno 2026, arXiv 2603.01470). With m and C the mean and the covariance of the
noisy values at the q pending points, and k(x) the posterior covariances of f(x) with f at these,

    v = m + L z,  L L' = C,  z standard normal                                   (1)
    mean(x) changes by k(x)' C^-1 (v - m) = k(x)' L^-T z                          (2)
    variance(x) is lowered by k(x)' C^-1 k(x)                                     (3)

Of Sugiura et al. only the abstract was compared. Whether their draws include the noise could not be checked. Ours do,
so that the observations together with the drawn values have the law of observations. Where the kernel is learned, the
noise of pending points is next to none for (1) to (3) alike (`PENDING_NOISE` in `models/learned.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.regression import positive_factor
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices


def distinct(pending: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the distinct pending points (q,), ascending, and how often each is pending (q,)."""
    return np.unique(np.array(pending, dtype=np.int64), return_counts=True)


class Draws(NamedTuple):
    """Values drawn at pending points, and their effect on the means."""

    points: Indices  # (q,) distinct pending points, ascending
    counts: Indices  # (q,) how often each is pending
    values: Floats  # (q,) drawn value at each, for several the average of as many, in units of the engine's y
    shift: Floats  # (n,) change of the posterior mean of every candidate


def drawn(engine: Engine, pending: Sequence[int], columns: Floats, covariance: Floats, key: tuple[int, int]) -> Draws:
    """Draw noisy values at pending points, jointly from the posterior.

    Parameters
    ----------
    engine
        Engine of the candidates.
    pending
        Numbers of the pending points.
    columns, covariance
        Posterior covariances (q, n) of the q distinct pending points with all candidates, and the covariance (q, q) of
        their noisy values.
    key
        Policy's seed and the round, on which alone the normal numbers z depend.
    """
    points, counts = distinct(pending)
    factor = _factor(covariance)
    normals = generator(key[0], "pending", key[1]).standard_normal(len(points))
    shift = solve_triangular(factor, normals, lower=True, trans=1) @ columns  # (2)
    return Draws(points, counts, engine.at(points)[0] + factor @ normals, shift)  # (1)


def _factor(covariance: Floats) -> Floats:
    """Return the Cholesky factor (q, q) of a covariance that differences of nearly equal numbers may have spoilt."""
    try:
        return positive_factor(covariance, np.zeros(len(covariance)))
    except LinAlgError:
        jitter = 1e-7 * float(covariance.diagonal().max())
        return positive_factor(0.5 * (covariance + covariance.T), np.full(len(covariance), jitter))
