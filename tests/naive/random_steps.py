"""Oracle of random steps whose length and directions are learned: (1+1)-CMA-ES, from the formulas of the paper."""

import math

import numpy as np


class OnePlusOne:
    """Length, share of gains, path and covariance after each step."""

    def __init__(self, d):
        self.d, self.sigma, self.p = d, 0.01, 2.0 / 11.0
        self.c = [0.0] * d
        self.C = [[float(i == j) for j in range(d)] for i in range(d)]

    def step(self, z):
        """The step of a standard normal z."""
        root = np.linalg.cholesky(np.array(self.C))
        return [self.sigma * sum(root[i][k] * z[k] for k in range(self.d)) for i in range(self.d)]

    def learn(self, step, gained):
        d, before = self.d, self.sigma
        self.p = (1.0 - 1.0 / 12.0) * self.p + (1.0 / 12.0 if gained else 0.0)
        damping, target = 1.0 + d / 2.0, 2.0 / 11.0
        self.sigma *= math.exp((self.p - target) / (1.0 - target) / damping)
        if not gained:
            return
        cc, cv = 2.0 / (d + 2.0), 2.0 / (d**2 + 6.0)
        small = self.p < 0.44
        self.c = [(1.0 - cc) * c + (math.sqrt(cc * (2.0 - cc)) * s / before if small else 0.0)
                  for c, s in zip(self.c, step, strict=True)]  # fmt: skip
        kept = 0.0 if small else cc * (2.0 - cc)
        self.C = [[(1.0 - cv) * self.C[i][j] + cv * (self.c[i] * self.c[j] + kept * self.C[i][j]) for j in range(d)]
                  for i in range(d)]  # fmt: skip
