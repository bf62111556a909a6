"""Oracle of the trust region: its model, its turns and its searches, written out from the formulas."""

import math

import numpy as np

from naive import starts


def covariance(a, b, variances, lengthscale):
    """Covariance of two points: RBF process, linear form and quadratic form, of some variances."""
    process, linear, quadratic = variances
    inner = sum(p * q for p, q in zip(a, b, strict=True))
    squared = sum((p - q) ** 2 for p, q in zip(a, b, strict=True))
    return process * math.exp(-0.5 * squared / lengthscale**2) + linear * inner + quadratic * inner**2


def posterior(points, values, variances, lengthscale, noise):
    """Function that gives the posterior mean at a point, and the log likelihood; the best constant mean is used."""
    n = len(points)
    matrix = np.array([[covariance(a, b, variances, lengthscale) for b in points] for a in points]) + noise * np.eye(n)
    ones = np.ones(n)
    mean = ones @ np.linalg.solve(matrix, values) / (ones @ np.linalg.solve(matrix, ones))
    weights = np.linalg.solve(matrix, np.asarray(values) - mean)
    likelihood = -0.5 * (np.asarray(values) - mean) @ weights - 0.5 * np.linalg.slogdet(matrix)[1]

    def at(x):
        return mean + sum(w * covariance(x, p, variances, lengthscale) for w, p in zip(weights, points, strict=True))

    return at, likelihood - 0.5 * n * math.log(2.0 * math.pi)


def even_axes(at, points, step=1e-3):
    """Rows in whose coordinates the mean `at` is equally curved in all directions at 0, from second differences."""
    d = len(points[0])

    def shifted(*moves):
        x = np.zeros(d)
        for i, sign in moves:
            x[i] += sign * step
        return at(x)

    curvature = np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            signs = [(a, b) for a in (1, -1) for b in (1, -1)]
            curvature[i, j] = -sum(a * b * shifted((i, a), (j, b)) for a, b in signs) / (4.0 * step**2)
    strengths, directions = np.linalg.eigh(curvature)
    most = max(abs(strengths))
    axes = [
        math.sqrt(max(abs(s), 1e-6 * most)) * direction for s, direction in zip(strengths, directions.T, strict=True)
    ]
    lengths = [sum(float(row @ p) ** 2 for row in axes) for p in points]
    return np.array(axes) * math.sqrt(sum(float(p @ p) for p in points) / sum(lengths))


def nearest(x, y, sides, radius):
    """Positions of the observations that the model has, nearest to the best one first."""
    d, best = len(sides), max(range(len(y)), key=lambda i: (y[i], -i))
    q = (d + 1) * (d + 2) // 2

    def away(i):
        return max(abs(a - b) / side for a, b, side in zip(x[i], x[best], sides, strict=True))

    order = sorted(range(len(y)), key=lambda i: (away(i), -y[i], i))[: min(100, 3 * q + d)]
    near = [i for i in order if away(i) <= 10.0 * radius]
    return order[: max(2 * q, len(near))]


class Turns:
    """Radius, turns and searches of the region, given what happened to each point."""

    def __init__(self, exact, pause):
        self.radius, self.pause, self.wait, self.streak, self.exact = 0.1, pause, 0, 0, exact
        self.other, self.narrow, self.searches = None, 0.1, []  # position of the best point of a search elsewhere

    def centre(self, y):
        return max(range(len(y)), key=lambda i: (y[i], -i)) if self.other is None else self.other

    def step(self, gain, predicted, distance, y):
        """Whether the whole space's model gets the best point."""
        if self.other is not None and gain > 0.0:
            self.other = None if y[-1] > max(y[:-1]) else len(y) - 1
        if gain > 0.0 and gain >= 0.1 * predicted:
            self.pause, self.wait = 1, 0
            self.streak += 1
            self.exact = self.exact or self.streak == 5
            if gain > 0.7 * predicted and distance > 0.8 * self.radius:
                self.radius = min(0.5, 2.0 * self.radius)
            return False
        self.streak, self.wait = 0, self.pause
        self.pause = min(4, 2 * self.pause)
        self.radius = max(1e-13, self.radius / 2.0)
        return True

    def elsewhere(self, distance, offered, x, y):
        if y[-1] > max(y[:-1]):
            if self.other is not None or distance > 4.0 * self.radius:
                self.other, self.radius = None, 0.1
            self.pause, self.wait = 1, 0
        elif self.wait > 0:
            self.wait -= 1
        elif not offered:
            again, self.pause, self.wait = self.pause == 4, 4, 4
            if again and self.exact:
                self.turn_elsewhere(x, y)

    def turn_elsewhere(self, x, y):
        self.searches += [self.centre(y)] if self.centre(y) not in self.searches else []
        if self.other is not None:
            self.other, self.radius, self.pause, self.wait = None, self.narrow, 1, 1
        elif (start := starts.next_start(x, y, self.searches)) is not None:
            self.searches.append(start)
            self.narrow = self.radius
            self.other, self.radius, self.pause, self.wait = start, 0.1, 1, 1
