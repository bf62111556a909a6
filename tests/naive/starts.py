"""Oracle of multi-level single linkage, written out from its definition."""

import math


def next_start(points, values, used):
    """Position of the best point, at which no search began or ended, without a better one within the distance."""
    n, d = len(points), len(points[0])
    reach = math.pi**-0.5 * (math.gamma(1.0 + d / 2.0) * 4.0 * math.log(n) / n) ** (1.0 / d)
    ranks = {position: rank for rank, position in enumerate(sorted(range(n), key=lambda i: (-values[i], i)))}
    free = [
        i
        for i in range(n)
        if i not in used and not any(ranks[j] < ranks[i] and math.dist(points[i], points[j]) <= reach for j in range(n))
    ]
    return min(free, key=lambda i: ranks[i], default=None)
