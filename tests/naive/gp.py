"""Gaussian-process regression from the list of all observations, solved from scratch at every question.

mu(x) = m(x) + k(x)' (K + N)^-1 (y - m(X)),  k(x, z) - k(x)' (K + N)^-1 k(z),  1/2 log det(I + N^-1/2 K N^-1/2)
with N the diagonal matrix of the observations' noise variances.
"""

import numpy as np

from naive.kernels import matrix


class GP:
    """Posterior on numbered points; observations are kept one by one, repeated points or not."""

    def __init__(self, kernel, points, prior_mean=0.0, gram=None):
        self.kernel = kernel
        self.points = np.asarray(points, dtype=float)
        self.gram = matrix(kernel, self.points) if gram is None else gram
        self.prior_mean = np.zeros(len(self.points)) + prior_mean
        self.observations = []  # (number of the point, y, noise variance)

    def observe(self, number, y, noise_variance):
        """Append one observation."""
        self.observations.append((number, y, noise_variance))

    def add_point(self, x, prior_mean):
        """Take in one more point; its number."""
        column = matrix(self.kernel, self.points, [x])
        corner = matrix(self.kernel, [x])
        self.gram = np.block([[self.gram, column], [column.T, corner]])
        self.points = np.vstack([self.points, x])
        self.prior_mean = np.append(self.prior_mean, prior_mean)
        return len(self.points) - 1

    def with_fantasies(self, numbers, noise_variance):
        """Copy in which pending points have been observed at their posterior means."""
        mean, _ = self.mean_covariance()
        copy = GP(self.kernel, self.points, self.prior_mean, self.gram)
        copy.observations = [*self.observations, *((i, mean[i], noise_variance) for i in numbers)]
        return copy

    def collapsed(self):
        """Copy in which the observations of a point are one: their precision-weighted average."""
        held = {}
        for number, y, noise in self.observations:
            precision, weighted = held.get(number, (0.0, 0.0))
            held[number] = (precision + 1 / noise, weighted + y / noise)
        copy = GP(self.kernel, self.points, self.prior_mean, self.gram)
        copy.observations = [(i, weighted / precision, 1 / precision) for i, (precision, weighted) in held.items()]
        return copy

    def _system(self):
        numbers = [number for number, _, _ in self.observations]
        residuals = np.array([y - self.prior_mean[number] for number, y, _ in self.observations])
        noise = np.array([variance for _, _, variance in self.observations])
        return numbers, residuals, self.gram[np.ix_(numbers, numbers)], noise

    def mean_variance(self):
        """Posterior mean and variance at all points, two (n,) arrays."""
        mean, covariance = self.mean_covariance()
        return mean, covariance.diagonal().copy()

    def mean_covariance(self):
        """Posterior mean (n,) and covariance (n, n) of all points."""
        if not self.observations:
            return self.prior_mean.copy(), self.gram.copy()
        numbers, residuals, gram, noise = self._system()
        cross = self.gram[numbers]
        solved = np.linalg.solve(gram + np.diag(noise), np.column_stack([residuals, cross]))
        return self.prior_mean + cross.T @ solved[:, 0], self.gram - cross.T @ solved[:, 1:]

    def predict(self, X, prior_mean=0.0):
        """Posterior mean and standard deviation at any points X (k, d)."""
        mean = np.zeros(len(X)) + prior_mean
        variance = np.array([self.kernel(x, x) for x in np.asarray(X, dtype=float).tolist()])
        if self.observations:
            numbers, residuals, gram, noise = self._system()
            cross = matrix(self.kernel, self.points[numbers], X)
            mean = mean + cross.T @ np.linalg.solve(gram + np.diag(noise), residuals)
            variance = variance - np.einsum("ij,ij->j", cross, np.linalg.solve(gram + np.diag(noise), cross))
        return mean, np.sqrt(variance)

    def information_gain(self):
        """In nats."""
        if not self.observations:
            return 0.0
        _, _, gram, noise = self._system()
        root = np.sqrt(noise)
        _, logdet = np.linalg.slogdet(np.eye(len(noise)) + gram / root[:, None] / root[None, :])
        return logdet / 2


def greedy_information_gain(kernel, points, regularization, count):
    """Gains of 0 .. count observations, each at the point of largest variance, over 1 - 1/e."""
    gp = GP(kernel, points)
    gains = [0.0]
    for _ in range(count):
        _, variance = gp.mean_variance()
        gp.observe(int(np.argmax(variance)), 0.0, regularization)
        gains.append(gp.information_gain())
    return np.array(gains) / (1 - np.exp(-1))
