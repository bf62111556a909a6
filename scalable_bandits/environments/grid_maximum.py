"""The largest value of a function of an RKHS on a grid too large for a table, by branch and bound.

On a block of the grid every kernel function with a positive weight is at most its value at the point of the block that
is nearest to its center, every other one at most that at the farthest. Blocks whose bound is below the largest value
found so far are left out, the others are cut in two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels.stationary import Stationary
from scalable_bandits.spaces import Grid, Indices

AT_ONCE = 4096  # blocks that are cut in one step
SLACK = 1e-11  # of the sum of the weights: more than the rounding of a bound


def grid_maximum(
    evaluate: Callable[[Floats], Floats], space: Grid, kernel: Stationary, centers: Floats, weights: Floats
) -> float:
    """Return the largest value of f = sum over i of weights_i k(centers_i, .) on a grid, in units of y.

    Parameters
    ----------
    evaluate
        Function from points (k, d) to f (k,).
    space
        Grid.
    kernel
        Stationary kernel, which decreases with the distance.
    centers, weights
        Centers (m, d), in units of x, and weights (m,) of the kernel functions.
    """
    sides = zip(space.bounds, space.sides, strict=True)
    axes = [Grid([bounds], side).points()[:, 0] for bounds, side in sides]
    scale = kernel.inverse(space.dimension)
    slack = SLACK * float(np.abs(weights).sum())
    first = np.zeros((1, len(axes)), dtype=np.int64)
    last = np.array([[len(axis) - 1 for axis in axes]], dtype=np.int64)
    bounds, best = np.array([np.inf]), -np.inf
    while len(bounds):
        order = np.argsort(-bounds, kind="stable")
        now, later = order[:AT_ONCE], order[AT_ONCE:]
        low, high = _halves(first[now], last[now], axes, scale)
        middle = np.stack([axis[(low[:, j] + high[:, j]) // 2] for j, axis in enumerate(axes)], axis=1)
        best = max(best, float(evaluate(middle).max()))
        found = _bounds(low, high, axes, scale, kernel, centers, weights)
        open_ = (found > best - slack) & (low < high).any(axis=1)
        first, last = np.concatenate([first[later], low[open_]]), np.concatenate([last[later], high[open_]])
        bounds = np.concatenate([bounds[later], found[open_]])
        left = bounds > best - slack
        first, last, bounds = first[left], last[left], bounds[left]
    return best


def _halves(first: Indices, last: Indices, axes: list[Floats], scale: Floats) -> tuple[Indices, Indices]:
    """Cut blocks (n, d) in two, along the longest side."""
    lengths = np.stack([(axis[last[:, j]] - axis[first[:, j]]) * scale[j] for j, axis in enumerate(axes)], axis=1)
    along, rows = lengths.argmax(axis=1), np.arange(len(first))
    middle = (first[rows, along] + last[rows, along]) // 2
    high, low = last.copy(), first.copy()
    high[rows, along] = middle
    low[rows, along] = np.minimum(middle + 1, last[rows, along])
    return np.concatenate([first, low]), np.concatenate([high, last])


def _bounds(
    low: Indices, high: Indices, axes: list[Floats], scale: Floats, kernel: Stationary, centers: Floats, weights: Floats
) -> Floats:
    """Return upper bounds (n,) of f on blocks."""
    near = np.zeros((len(low), len(centers)))
    far = np.zeros_like(near)
    for j, axis in enumerate(axes):
        start, end = axis[low[:, j], None], axis[high[:, j], None]
        center = centers[None, :, j]
        near += (scale[j] * np.maximum(np.maximum(start - center, center - end), 0.0)) ** 2
        far += (scale[j] * np.maximum(np.abs(start - center), np.abs(center - end))) ** 2
    squared = np.ascontiguousarray(np.where(weights > 0.0, near, far))
    kernel.radial(squared)
    return np.asarray(squared @ weights)
