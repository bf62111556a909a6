"""Oracle of CMA-ES, from figure 6 and table 1 of Hansen 2016 (arXiv 1604.00772), one coordinate at a time."""

import math

import numpy as np


def spread(points, values):
    """Step size and covariance at the start, from the better third of some points that are .01 apart, best first."""
    places, d = [], len(points[0])
    for i in sorted(range(len(values)), key=lambda i: (-values[i], i)):
        if all(max(abs(a - b) for a, b in zip(points[i], other, strict=True)) >= 0.01 for other in places):
            places.append(points[i])
    best, *others = places[: math.ceil(len(places) / 3)]
    matrix = np.array([[sum((p[a] - best[a]) * (p[b] - best[b]) for p in others) for b in range(d)] for a in range(d)])
    matrix = matrix / (len(others) + 1) + (0.003 * d) ** 2 * np.eye(d)
    longest = max(np.linalg.eigvals(matrix).real)
    return min(0.2, math.sqrt(longest)), matrix / longest


class CMAES:
    """Mean, step size, covariance and paths, after each generation; values are maximised."""

    def __init__(self, mean, sigma, size, covariance=None):
        self.n, self.size, self.g = len(mean), size, 0
        self.mean, self.sigma = list(mean), sigma
        self.C = np.eye(self.n) if covariance is None else covariance
        self.p_sigma, self.p_c = np.zeros(self.n), np.zeros(self.n)
        n = self.n
        raw = [math.log((size + 1) / 2) - math.log(i) for i in range(1, size + 1)]
        mu = self.mu = size // 2
        mu_eff = self.mu_eff = sum(raw[:mu]) ** 2 / sum(w * w for w in raw[:mu])
        mu_minus = sum(raw[mu:]) ** 2 / sum(w * w for w in raw[mu:])
        self.c_sigma = (mu_eff + 2) / (n + mu_eff + 5)
        self.d_sigma = 1 + 2 * max(0, math.sqrt((mu_eff - 1) / (n + 1)) - 1) + self.c_sigma
        self.c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
        self.c_1 = 2 / ((n + 1.3) ** 2 + mu_eff)
        self.c_mu = min(1 - self.c_1, 2 * (1 / 4 + mu_eff + 1 / mu_eff - 2) / ((n + 2) ** 2 + 2 * mu_eff / 2))
        a_mu, a_eff = 1 + self.c_1 / self.c_mu, 1 + 2 * mu_minus / (mu_eff + 2)
        a_posdef = (1 - self.c_1 - self.c_mu) / (n * self.c_mu)
        positive, negative = sum(w for w in raw if w > 0), -sum(w for w in raw if w < 0)
        self.w = [w / positive if w >= 0 else min(a_mu, a_eff, a_posdef) * w / negative for w in raw]

    def inverse_root(self):
        """C to the power -1/2."""
        values, vectors = np.linalg.eigh(self.C)
        return vectors @ np.diag(1 / np.sqrt(values)) @ vectors.T

    def root(self):
        values, vectors = np.linalg.eigh(self.C)
        return vectors @ np.diag(np.sqrt(values)) @ vectors.T

    def learn(self, points, values):
        """Learn from a generation; steps longer than those of Hansen 2011 (table 1) are shortened."""
        n, inverse, ys = self.n, self.inverse_root(), []
        for i in sorted(range(self.size), key=lambda i: -values[i]):
            y = [(points[i][k] - self.mean[k]) / self.sigma for k in range(n)]
            length = math.sqrt(sum(v * v for v in inverse @ y))
            longest = math.sqrt(n) + 2 * n / (n + 2)
            ys.append([v * min(1.0, longest / length) if length else 0.0 for v in y])
        y_w = np.array([sum(self.w[i] * ys[i][k] for i in range(self.mu)) for k in range(n)])
        self.mean = [self.mean[k] + self.sigma * y_w[k] for k in range(n)]
        c, m = self.c_sigma, self.mu_eff
        self.p_sigma = (1 - c) * self.p_sigma + math.sqrt(c * (2 - c) * m) * (inverse @ y_w)
        self.g += 1
        length = math.sqrt(sum(v * v for v in self.p_sigma))
        expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        h = float(length / math.sqrt(1 - (1 - c) ** (2 * self.g)) < (1.4 + 2 / (n + 1)) * expected)
        self.p_c = (1 - self.c_c) * self.p_c + h * math.sqrt(self.c_c * (2 - self.c_c) * m) * y_w
        C = np.zeros((n, n))
        for i in range(self.size):
            w = self.w[i]
            if w < 0:
                w *= n / (sum(v * v for v in inverse @ ys[i]) or 1.0)
            for j in range(n):
                for k in range(n):
                    C[j, k] += self.c_mu * w * ys[i][j] * ys[i][k]
        kept = 1 + self.c_1 * (1 - h) * self.c_c * (2 - self.c_c) - self.c_1 - self.c_mu * sum(self.w)
        self.C = kept * self.C + self.c_1 * np.outer(self.p_c, self.p_c) + C
        self.sigma *= math.exp(min(1.0, c / self.d_sigma * (length / expected - 1)))
