"""Ripples beside noise, from the formulas, point by point."""

import math
import statistics

from scipy.optimize import brentq
from scipy.stats import binom, chi2, norm


def low_median(k):
    """What the median of k (odd) values of chi^2_1 exceeds with a probability of 95 %."""

    def below(q):  # more than half of the values are below q
        return binom.sf(k // 2, k, chi2.cdf(q, 1)) - 0.05

    return brentq(below, 0.0, 10.0, xtol=1e-16, rtol=1e-14)


def estimates(points, z, counts, means, noise):
    """Estimates at measured points; None where nothing is seen of ripples."""
    n = len(z)

    def distance(i, j):
        return max(abs(a - b) for a, b in zip(points[i], points[j], strict=True))

    nearest = {tuple(sorted((i, min((j for j in range(n) if j != i), key=lambda j: distance(i, j))))) for i in range(n)}
    closest = sorted(nearest, key=lambda pair: (distance(*pair), pair))[:31]
    closest = [pair for pair in closest if distance(*pair) < 0.01]
    while len(closest) % 2 == 0 and closest:
        closest.pop()
    if n < 4 or len(closest) < 3:
        return None
    between = statistics.median((z[i] - z[j]) ** 2 / 2 for i, j in closest)
    epsilon, highest = between / chi2.ppf(0.5, 1), between / low_median(len(closest))
    spread = statistics.median(abs(a - m) for a, m in zip(z, means, strict=True)) / norm.ppf(0.75)
    total = min(spread**2, noise)
    if total <= highest:
        return None
    rho = total - epsilon
    found = []
    for a, m, count in zip(z, means, counts, strict=True):
        outlier = abs(a - m) > 3 * math.sqrt(total)
        found.append(m if outlier else m + rho / (rho + epsilon / count) * (a - m))
    return found
