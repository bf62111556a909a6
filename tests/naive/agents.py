"""Distributed uniform exploration (Pavlovic, Salgia & Zhao 2024) from every single observation, nothing averaged.

Random numbers come from outside: the places of the draws, and one number in [0, 1) for each distinct point.
"""

from math import log, sqrt

import numpy as np

from naive.batched import lengths
from naive.kernels import matrix


class Agents:
    """What each agent has seen in a batch, and which candidates are left."""

    def __init__(
        self, kernel, points, *, agents, horizon, norm, noise, regularization, delta, oversampling, growth=0.0
    ):
        self.gram, self.count = matrix(kernel, np.asarray(points)), agents
        self.lengths, self.norm, self.noise, self.lam = lengths(horizon, None, growth), norm, noise, regularization
        self.factor = sqrt(2 * log(2 * len(points) * len(self.lengths) / delta))
        self.oversampling = oversampling
        self.left, self.batch, self.told, self.rounds, self.sent = list(range(len(points))), 1, 0, 0, 0
        self.data = [[] for _ in range(agents)]  # (candidate, y, noise variance)
        self.order = []  # distinct points of the batch, as they came

    def tell(self, candidate, y, noise_variance=None, late=False):
        """A value of the agent whose turn it is."""
        variance = self.lam if noise_variance is None else noise_variance
        self.data[self.rounds % self.count].append((candidate, y, variance))
        self.order += [candidate] * (candidate not in self.order)
        self.rounds, self.told = self.rounds + 1, self.told + (not late)

    def end(self, uniform):
        """End the batch, with one number in [0, 1) for each of its distinct points."""
        every = [each for held in self.data for each in held]
        x = [i for i, _, _ in every]
        noise = np.diag([variance for _, _, variance in every])
        inner = self.gram[np.ix_(x, x)]
        inducing = []
        for number, point in zip(uniform, self.order, strict=True):
            cross = self.gram[point, x]
            variance = self.gram[point, point] - cross @ np.linalg.solve(inner + noise, cross)
            precision = sum(1 / each for i, _, each in every if i == point)
            if number < self.oversampling * variance * precision:
                inducing.append(point)
        zz, zx = self.gram[np.ix_(inducing, inducing)], self.gram[np.ix_(inducing, x)]
        total = np.zeros(len(inducing))
        for held in self.data:  # each agent's own sum
            for i, y, variance in held:
                total += self.gram[inducing, i] * y / variance
        middle = zz + zx @ np.linalg.solve(noise, zx.T)
        upper, lower = {}, {}
        for i in self.left:
            solved = np.linalg.solve(middle, self.gram[inducing, i])
            weights = np.linalg.solve(noise, zx.T @ solved)
            bias = self.gram[i, i] - 2 * weights @ self.gram[x, i] + weights @ inner @ weights
            spread = weights @ noise @ weights
            half = self.norm * sqrt(max(bias, 0)) + self.noise / sqrt(self.lam) * sqrt(spread) * self.factor
            upper[i], lower[i] = solved @ total + half, solved @ total - half
        kept = [i for i in self.left if upper[i] >= max(lower.values())]
        self.sent += self.count * (2 * len(inducing) + len(self.left) - len(kept))
        self.left, self.batch, self.told = kept, self.batch + 1, 0
        self.data, self.order = [[] for _ in range(self.count)], []
