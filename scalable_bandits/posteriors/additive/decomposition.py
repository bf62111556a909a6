"""Groups of dimensions learned from observations: the likeliest of some random decompositions.

Source: Kandasamy, Schneider & Poczos 2015, section on unknown decompositions; their program compares 5 random ones
(`decompOptPartial.m`).

    candidates: the present decomposition, and random permutations of the dimensions cut into groups of equal size   (1)
    take the candidate of largest marginal likelihood                                                             (2)
    repeat: exchange two random dimensions of different groups if that makes the observations likelier             (3)

Differs from the source in: the present decomposition is a candidate, so that the likelihood does not fall; (3), since
of 10 dimensions there are 945 decompositions into pairs, and of 30 more than 10^15.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.additive.groups import additive_kernel
from scalable_bandits.posteriors.regression import covariances

RANDOM = 5  # number of random decompositions that are compared with the present one
TRIALS = 20  # number of exchanges that are tried, for each dimension
Groups = tuple[tuple[int, ...], ...]


def random_groups(dimension: int, size: int, rng: np.random.Generator) -> Groups:
    """Return a random permutation of the dimensions cut into groups of a size; the last may be smaller."""
    order = rng.permutation(dimension).tolist()
    return tuple(tuple(sorted(order[k : k + size])) for k in range(0, dimension, size))


class Decomposition:
    """Decomposition of the dimensions, with the likelihood of observations under the sum of a kernel of each group.

    Parameters
    ----------
    kernel
        Prior covariance of each group's function.
    x
        Observed points (m, d), in units of x.
    residuals
        Averages (m,) at these minus the prior mean, in units of y.
    noise_variances
        Noise variances (m,) of the averages, in squared units of y.
    groups
        Dimensions of each group.
    """

    def __init__(self, kernel: Kernel, x: Floats, residuals: Floats, noise_variances: Floats, groups: Groups):
        self._kernel, self._x, self._residuals = kernel, x, residuals
        self.groups = list(groups)
        self._parts = [self._part(group) for group in groups]
        self._matrix = np.diag(noise_variances) + np.add.reduce(self._parts)
        self.log_likelihood = self._log_likelihood(self._matrix)

    def _part(self, group: Sequence[int]) -> Floats:
        kernel = additive_kernel(self._kernel, [group])
        return covariances(kernel, self._x, self._x)

    def _log_likelihood(self, matrix: Floats) -> float:
        """Return the logarithm of the density of the averages, but for a constant."""
        factor, failed = dpotrf(matrix, lower=1)
        if failed:
            return -np.inf
        solved, _ = dtrtrs(factor, self._residuals, lower=1)
        return float(-0.5 * solved @ solved - np.log(factor.diagonal()).sum())

    def exchange(self, rng: np.random.Generator) -> None:
        """Exchange two random dimensions of different groups if the observations are likelier then."""
        i, j = rng.choice(len(self.groups), 2, replace=False).tolist()
        one, other = self.groups[i], self.groups[j]
        a, b = one[rng.integers(len(one))], other[rng.integers(len(other))]
        changed = [tuple(sorted({*one, b} - {a})), tuple(sorted({*other, a} - {b}))]
        parts = [self._part(group) for group in changed]
        matrix = self._matrix - self._parts[i] - self._parts[j] + parts[0] + parts[1]
        found = self._log_likelihood(matrix)
        if found > self.log_likelihood:
            self.log_likelihood, self._matrix = found, matrix
            (self.groups[i], self.groups[j]), (self._parts[i], self._parts[j]) = changed, parts


def likelier_groups(
    kernel: Kernel, x: Floats, residuals: Floats, noise_variances: Floats, groups: Groups, size: int,
    rng: np.random.Generator,
) -> Groups:  # fmt: skip
    """Return groups under which observations are at least as likely as under the present ones.

    Parameters
    ----------
    kernel, x, residuals, noise_variances
        Parameters of `Decomposition`.
    groups
        Dimensions (d in all) of each group, at present.
    size
        Number of dimensions of a group; the last may have fewer.
    rng
        Random generator.
    """
    others = [random_groups(x.shape[1], size, rng) for _ in range(RANDOM)]
    compared = [Decomposition(kernel, x, residuals, noise_variances, each) for each in (groups, *others)]  # (1)
    best = max(compared, key=lambda each: each.log_likelihood)  # (2)
    for _ in range(TRIALS * x.shape[1] if len(groups) > 1 else 0):
        best.exchange(rng)  # (3)
    return tuple(best.groups)
