"""Ripples beside noise, from the formulas, point by point."""

import math
import statistics

from scipy.stats import chi2, norm


def estimates(points, z, counts, means, noise):
    """Estimates at measured points; None where nothing is seen of ripples."""
    n = len(z)

    def distance(i, j):
        return max(abs(a - b) for a, b in zip(points[i], points[j], strict=True))

    nearest = {tuple(sorted((i, min((j for j in range(n) if j != i), key=lambda j: distance(i, j))))) for i in range(n)}
    closest = sorted(nearest, key=lambda pair: (distance(*pair), pair))[:5]
    closest = [pair for pair in closest if distance(*pair) < 0.01]
    if n < 6 or len(closest) < 3:
        return None
    epsilon = statistics.median((z[i] - z[j]) ** 2 / 2 for i, j in closest) / chi2.ppf(0.5, 1)
    spread = statistics.median(abs(a - m) for a, m in zip(z, means, strict=True)) / norm.ppf(0.75)
    rho = min(spread**2, noise) - epsilon
    if rho <= 0:
        return None
    found = []
    for a, m, count in zip(z, means, counts, strict=True):
        outlier = abs(a - m) > 3 * math.sqrt(rho + epsilon)
        found.append(m if outlier else m + rho / (rho + epsilon / count) * (a - m))
    return found
