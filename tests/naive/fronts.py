"""Oracle of fronts, hypervolumes and indices of several objectives, from the definitions. Values: larger is better."""

import itertools
import math
from statistics import NormalDist

NORMAL = NormalDist()


def dominates(one, other):
    return all(a >= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def front(points):
    """Points that no other dominates."""
    return [point for point in points if not any(dominates(other, point) for other in points)]


def hypervolume(points, reference):
    """Volume of the union of boxes from the reference point, by inclusion and exclusion."""
    boxes = [p for p in front([tuple(p) for p in points]) if all(a > r for a, r in zip(p, reference, strict=True))]
    boxes, total = list(dict.fromkeys(boxes)), 0.0
    for count in range(1, len(boxes) + 1):
        for some in itertools.combinations(boxes, count):
            shared = math.prod(min(values) - r for values, r in zip(zip(*some, strict=True), reference, strict=True))
            total += (-1) ** (count + 1) * shared
    return total


def partial(mean, std, low, high):
    """Integral of P[Y > y] over y from low to high, of a normal variable Y, in closed form."""

    def beyond(at):  # E[(Y - at)+]
        z = (mean - at) / std
        return 0.0 if math.isinf(at) else (mean - at) * NORMAL.cdf(z) + std * NORMAL.pdf(z)

    return beyond(low) - beyond(high)


def expected_improvement(first, second, points, reference):
    """Expected growth of the hypervolume, given pairs of mean and standard deviation of both objectives.

    A cell of the grid of all coordinates grows where no point of the front dominates it and the new point does; the
    outputs are independent, so that its expected part is a product of two integrals.
    """
    lines = [[*sorted({r, *(p[i] for p in points if p[i] > r)}), math.inf] for i, r in enumerate(reference)]
    total = 0.0
    for left, right in itertools.pairwise(lines[0]):
        for low, high in itertools.pairwise(lines[1]):
            if not any(p[0] >= right and p[1] >= high for p in points):
                total += partial(*first, left, right) * partial(*second, low, high)
    return total


def scalarized(moments, width, reference, direction):
    """Smallest of the upper confidence bounds of the objectives beyond the reference point, over the direction."""
    uppers = [mean + width * std for mean, std in moments]
    return min((upper - r) / w for upper, r, w in zip(uppers, reference, direction, strict=True))
