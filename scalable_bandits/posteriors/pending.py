"""Effect of pending points on variances: their values are taken to be the posterior means, so that no mean changes.

Source: GP-BUCB, Desautels, Krause & Burdick 2014, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices


def distinct(pending: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the distinct pending points (q,), ascending, and how often each is pending (q,)."""
    return np.unique(np.array(pending, dtype=np.int64), return_counts=True)


def covariance_of_values(columns: Floats, points: Indices, noise_variances: Floats) -> Floats:
    """Return the covariance (q, q) of noisy values at points (q,), from their posterior covariances with all (q, n)."""
    return columns[:, points] + np.diag(noise_variances)


def reduction(columns: Floats, covariance: Floats) -> Floats:
    """Return by how much values of a covariance (q, q), with covariances (q, n) with all, lower the variances (n,)."""
    return np.einsum("ij,ij->j", columns, np.linalg.solve(covariance, columns))
