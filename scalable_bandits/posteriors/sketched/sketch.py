"""Sketches: all observations, compressed onto a random dictionary of the observed points.

Formulas (1) to (5) are those of `engine.py`. A sketch is a triangular matrix T for which the rows T^-1 k_S(x) have the
products z(x)' (I - V^-1) z(x'), and their weights in the mean: as if the points S had been observed with the covariance
T T' of values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, qr
from scipy.linalg.blas import dsyrk, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.spaces import Indices

SPAN = 1e-12  # smallest variance of a dictionary point given the others, as a fraction of the largest prior variance
RIDGES = (0.0, 1e-15, 1e-14, 1e-13)  # numbers added to the diagonal of the gram matrix, tried in turn


def drawn(leverage: Floats, prior: Floats, oversampling: float, start: float) -> Indices:
    """Draw some of k points, in an order in which neighbours are near each other; return their positions.

    Systematic sampling: a point is drawn where the sum of chances, begun at a random number, passes an integer.

    Parameters
    ----------
    leverage
        Posterior variances (k,) of the points over their noise variances.
    prior
        Prior variances (k,) of the points; the largest is drawn if all is known so well that no other is.
    oversampling
        Factor qbar of the chances.
    start
        Random number from 0 to 1.
    """
    chance = np.minimum(1.0, np.maximum(leverage, 1e-300) * oversampling)  # (1)
    found = np.flatnonzero(np.diff(np.floor(np.cumsum(chance) + start), prepend=0.0) > 0)  # (2)
    return found if len(found) else np.array([np.argmax(prior)])


def independent(kernel: Kernel, points: Floats) -> tuple[Indices, Floats]:
    """Return the positions (m,) of a subset of points (k, d) whose covariance has full rank, and its factor."""
    matrix = covariances(kernel, points, points)
    tolerance = SPAN * float(matrix.diagonal().max())
    lower, pivots, rank, _ = dpstrf(matrix.T, tol=tolerance, lower=1, overwrite_a=1)
    return pivots[:rank] - 1, np.asfortranarray(np.tril(lower[:rank, :rank]))


def compressed(coordinates: Floats, cross: Floats, residuals: Floats, noise_variances: Floats) -> tuple[Floats, Floats]:
    """Compress observations onto a dictionary; return the triangular matrix T (m, m), and the rows' weights (m,).

    Parameters
    ----------
    coordinates
        Cholesky factor (m, m) of the dictionary's covariance.
    cross
        Prior covariances (k, m) of the observed points with the dictionary; overwritten.
    residuals, noise_variances
        Averages (k,) at the observed points minus the prior mean, and their noise variances, in (squared) units of y.
    """
    features = np.asarray(dtrsm(1.0, coordinates, cross.T, lower=1, overwrite_b=1))  # (3), (m, k)
    features *= 1.0 / np.sqrt(noise_variances)
    gram, root = _gram(features)
    shift = features @ (residuals / np.sqrt(noise_variances))
    for transposed in (0, 1):
        shift = np.asarray(dtrsv(root, shift, lower=1, trans=transposed))  # (4)
    # Rows gram' L^-1 k_S, rotated so that one triangular matrix gives them: L gram^-T = turned Q, Q'Q = I.
    turned = qr(dtrsm(1.0, gram, coordinates, side=1, lower=1, trans_a=1).T, mode="r", overwrite_a=True)[0].T
    return np.asarray(turned, dtype=np.float64), np.asarray(
        turned.T @ dtrsv(coordinates, shift, lower=1, trans=1), dtype=np.float64
    )


def _gram(features: Floats) -> tuple[Floats, Floats]:
    """Return the lower Cholesky factors (m, m) of I - V^-1 and of V = I + F F', for features F (m, k)."""
    size = len(features)
    root, failed = dpotrf(dsyrk(1.0, features, lower=1, beta=1.0, c=np.eye(size, order="F")), lower=1, clean=1)
    inverse, also = dpotri(root, lower=1)
    for ridge in RIDGES:
        factor, indefinite = dpotrf(np.eye(size) * (1.0 + ridge) - np.tril(inverse), lower=1, clean=1)
        if not (failed or also or indefinite):
            return np.asarray(factor), np.asarray(root)
    raise LinAlgError("the gram matrix of a sketch is indefinite by more than rounding errors")
