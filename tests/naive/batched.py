"""Batched pure exploration from the formulas, refitted from scratch for every choice.

Li & Scarlett 2022, Algorithm 1, with late values as in Vakili, Ahmed, Bernacchia & Pike-Burke 2023.
"""

import itertools
from fractions import Fraction
from math import log, sqrt

import numpy as np

from naive.gp import GP


def smallest(holds):
    """Smallest k >= 1 for which a statement holds that, once it does, holds for all larger k."""
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2  # does not hold, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def lengths(horizon, count=None, growth=Fraction(0)):
    """Rounds of every batch; `count` batches if given, for an information gain of T^growth. All in whole numbers."""
    found = []
    for i in itertools.count(1):
        left = horizon - sum(found)
        if not left:
            return found
        if count is None:
            product = horizon * (found[-1] if found else 1)
            n = smallest(lambda k: k**2 >= product)  # noqa: B023
        elif i == count:
            n = left
        else:  # a round is left for each of the later batches
            ratio = (1 - growth) / 2
            power = (1 - ratio**i) / (1 - ratio**count)
            n = smallest(lambda k: k**power.denominator >= horizon**power.numerator)  # noqa: B023
            n = min(n, left - (count - i))
        found.append(min(n, left))


class Batched:
    """What a batch has seen, what is still in the race, and what is late."""

    def __init__(
        self, kernel, points, *, horizon, norm, noise, regularization, delta, count=None, delay=0.0, growth=Fraction(0)
    ):  # fmt: skip
        self.empty = GP(kernel, points)
        self.lengths, self.regularization = lengths(horizon, count, growth), regularization
        self.delay = Fraction(str(delay))
        intervals = len(points) * len(self.lengths)
        self.beta = sqrt(norm**2 + noise**2 / regularization * 2 * log(2 * intervals / delta))
        self.left, self.batch, self.told, self.seen, self.late = list(range(len(points))), 1, 0, [], []

    def posterior(self, pending=()):
        """Mean and standard deviation of all points, from the batch alone."""
        gp = GP(self.empty.kernel, self.empty.points, 0.0, self.empty.gram)
        gp.observations = list(self.seen)
        if pending:
            gp = gp.with_fantasies(list(pending), self.regularization)
        mean, variance = gp.mean_variance()
        return mean, np.sqrt(np.maximum(variance, 0))

    def gain(self, pending=()):
        """Information gain of the points of the batch and of the pending ones, in nats."""
        gp = GP(self.empty.kernel, self.empty.points, 0.0, self.empty.gram)
        gp.observations = [*self.seen, *((i, 0.0, self.regularization) for i in pending)]
        return gp.information_gain()

    def choices(self, allowed, pending=()):
        """Points that may be chosen, and their standard deviations."""
        chosen = [i for i in self.left if i in set(allowed)] or list(allowed)
        return chosen, self.posterior(pending)[1][chosen]

    def tell(self, i, y, pending, noise_variance=None):
        """A value; `pending` are the points that are still waited for."""
        self.seen.append((i, y, self.regularization if noise_variance is None else noise_variance))
        if i in self.late:
            self.late.remove(i)
        else:
            self.told += 1
        n, waiting = self.lengths[self.batch - 1], list(pending)
        for each in self.late:
            if each in waiting:
                waiting.remove(each)
        last = self.batch == len(self.lengths)
        if last or self.told < n - int(self.delay * n) or self.told + len(waiting) < n:
            return
        mean, std = self.posterior()
        lowest = max((mean - self.beta * std)[self.left])
        self.left = [i for i in self.left if mean[i] + self.beta * std[i] >= lowest]
        self.batch, self.told, self.seen, self.late = self.batch + 1, 0, [], list(pending)
