"""SupKernelUCB from the paper: stages refitted from scratch in every round.

Valko, Korda, Munos, Flaounas & Cristianini 2013, Algorithm 2; the width is
(B + R / sqrt(lambda) sqrt(2 log(2 N T S / delta))) s.
"""

from math import ceil, log, sqrt

import numpy as np

from naive.gp import GP


class Phased:
    """The stages, each the list of its observations. `own`: what (4) of the package's docstring adds to the paper."""

    def __init__(self, kernel, points, *, horizon, norm, noise, regularization, delta, scale=1.0, own=False):
        self.empty = GP(kernel, points)
        self.horizon, self.regularization, self.scale, self.own = horizon, regularization, scale, own
        count = len(points) * horizon * max(1, ceil(log(horizon)))
        self.beta = norm + noise / sqrt(regularization) * sqrt(2 * log(2 * count / delta))
        self.joined = {}  # stage to its observations

    def bounds(self, stage, pending=()):
        """Mean and width of all points in a stage."""
        gp = GP(self.empty.kernel, self.empty.points, 0.0, self.empty.gram)
        gp.observations = list(self.joined.get(stage, []))
        if pending:
            gp = gp.with_fantasies(pending, self.regularization)
        mean, variance = gp.mean_variance()
        return mean, self.beta * np.sqrt(np.maximum(variance, 0))

    def round(self, allowed, pending=()):
        """Points left, what is maximised over them, and the stage (0 where the widths are all small)."""
        left, s = list(allowed), 1
        while True:
            mean, width = self.bounds(s)
            threshold = self.scale / 2**s
            if all(width[left] <= self.scale / sqrt(self.horizon)):
                return left, (mean + width)[left], 0
            if all(width[left] <= threshold):
                best = max((mean + width)[left])
                left = [i for i in left if mean[i] + width[i] >= best - 2 * threshold]
                s += 1
                continue
            left = [i for i in left if width[i] > threshold]
            waiting = [i for i in pending if self.own_stage(i) == s]
            return left, self.bounds(s, waiting)[1][left], s

    def own_stage(self, i):
        """First stage that does not know a point to its threshold; 0 if all do."""
        s = 1
        while self.bounds(s)[1][i] <= self.scale / 2**s:
            if self.scale / 2**s <= self.scale / sqrt(self.horizon):
                return 0
            s += 1
        return s

    def tell(self, i, y, stage, noise_variance=None):
        """An observation of a point played in a stage."""
        joins = self.own_stage(i) if self.own else stage
        if joins:
            row = (i, y, self.regularization if noise_variance is None else noise_variance)
            self.joined.setdefault(joins, []).append(row)
