"""What pending points will teach: their values are taken for the posterior means, which leaves all means as they are.

Source: GP-BUCB, Desautels, Krause & Burdick 2014, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices


def distinct(waiting: Sequence[int]) -> tuple[Indices, Indices]:
    """Distinct pending points (q,), ascending, and how often each is pending (q,)."""
    return np.unique(np.array(waiting, dtype=np.int64), return_counts=True)


def covariance_of_values(columns: Floats, points: Indices, noise_variances: Floats) -> Floats:
    """Covariance (q, q) of the values to come at `points`, from their posterior covariances with all (q, n)."""
    return columns[:, points] + np.diag(noise_variances)


def reduction(columns: Floats, covariance: Floats) -> Floats:
    """Variance (n,) that values of this covariance (q, q) will take off, having covariances (q, n) with all."""
    return np.einsum("ij,ij->j", columns, np.linalg.solve(covariance, columns))
