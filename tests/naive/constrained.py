"""Oracle of expected improvement under constraints, from the formulas: no logarithms, one point at a time.

Values are oriented: larger is better, and an output keeps its limit if it is at least that.
"""

import math
from statistics import NormalDist, median, pstdev

NORMAL = NormalDist()


def around_limit(ys, limit):
    """Function from y to z: asinh of the distance from the limit over the median distance, standardised."""
    distances = [abs(y - limit) for y in ys]
    spread = median(distances) or median([each for each in distances if each] or [1.0])
    bent = [math.asinh((y - limit) / spread) for y in ys]
    center, deviation = sum(bent) / len(bent), pstdev(bent)
    return lambda y: (math.asinh((y - limit) / spread) - center) / deviation


def improvement(mean, std, best):
    """Expected improvement of a normal variable over a number."""
    z = (mean - best) / std
    return (mean - best) * NORMAL.cdf(z) + std * NORMAL.pdf(z)


def constrained_improvement(objective, others, best, limits):
    """Expected improvement times the probability of all limits, given pairs of mean and standard deviation.

    Without a best value the probability alone.
    """
    chance = math.prod(NORMAL.cdf((mean - limit) / std) for (mean, std), limit in zip(others, limits, strict=True))
    return chance if best is None else chance * improvement(*objective, best)


def best_feasible(values, outputs, limits):
    """Position of the best value whose outputs keep all limits; None if there is none."""
    kept = [i for i, row in enumerate(outputs) if all(v >= limit for v, limit in zip(row, limits, strict=True))]
    return max(kept, key=lambda i: values[i]) if kept else None
