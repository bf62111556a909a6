"""Gaussian process that is a sum over groups of dimensions: every group's posterior, from the formulas.

mu_j(x) = k_j(x)' (K + N)^-1 (y - m), s_j^2(x) = k_j(x, x) - k_j(x)' (K + N)^-1 k_j(x), K the sum of the K_j
"""

import numpy as np

from naive.gp import GP
from naive.kernels import matrix


class AdditiveGP(GP):
    """Posterior of the sum and of each of its parts, pairs of a kernel of two points and the dimensions it is of."""

    def __init__(self, parts, points, prior_mean=0.0):
        self.parts = parts
        super().__init__(lambda x, z: sum(self._of_group(j, x, z) for j in range(len(parts))), points, prior_mean)

    def _of_group(self, j, x, z):
        kernel, dimensions = self.parts[j]
        return kernel([x[k] for k in dimensions], [z[k] for k in dimensions])

    def with_fantasies(self, numbers, noise_variance):
        mean, _ = self.mean_covariance()
        copy = AdditiveGP(self.parts, self.points, self.prior_mean)
        copy.observations = [*self.observations, *((i, mean[i], noise_variance) for i in numbers)]
        return copy

    def group(self, j, X):
        """Posterior mean and standard deviation of the function of group j at points X (k, d)."""

        def kernel(x, z):
            return self._of_group(j, x, z)

        variance = np.array([kernel(x, x) for x in np.asarray(X).tolist()])
        if not self.observations:
            return np.zeros(len(X)), np.sqrt(variance)
        numbers, residuals, gram, noise = self._system()
        cross = matrix(kernel, self.points[numbers], X)
        solved = np.linalg.solve(gram + np.diag(noise), np.column_stack([residuals, cross]))
        variance = variance - np.einsum("ij,ij->j", cross, solved[:, 1:])
        return cross.T @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))

    def sum_of_bounds(self, widths):
        """The index of Kandasamy et al. 2015 at all points: sum over j of mu_j + width_j s_j, plus the prior mean."""
        total = np.array(self.prior_mean)
        for j, width in enumerate(widths):
            mean, std = self.group(j, self.points)
            total += mean + width * std
        return total

    def joint(self, places):
        """Mean and covariance of the functions of the groups, at points (k, d) for each, one after the other."""
        at = [(j, x) for j, points in enumerate(places) for x in np.asarray(points).tolist()]
        prior = np.array([[self._of_group(j, x, z) if i == j else 0.0 for i, z in at] for j, x in at])
        numbers, residuals, gram, noise = self._system()
        seen = self.points[numbers].tolist()
        cross = np.array([[self._of_group(j, x, z) for z in seen] for j, x in at])
        inverse = np.linalg.inv(gram + np.diag(noise))
        return cross @ inverse @ residuals, prior - cross @ inverse @ cross.T
