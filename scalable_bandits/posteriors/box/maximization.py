"""Maximisation of an index over a box, by a scrambled Sobol set and ascent from its best points.

    scan:    index at n Sobol points, at the points `near`, and at random points around those
    starts:  the points of largest index at some distance from each other
    climb:   projected quasi-Newton ascent with exact gradients, from all starts at once
    finish:  L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995; scipy) from the best end

The result depends only on the posterior, the bounds, the points `near` and the seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box import _numba_ascent as numba_ascent
from scalable_bandits.posteriors.box._numba_ascent import Climbers
from scalable_bandits.posteriors.box.slice import OnCube
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices, Mask
from scalable_bandits.spaces.sobol import sobol

MOST_STEPS = 30  # largest number of evaluations of a start
REACH = 0.25  # longest step, as a fraction of the box's sides
PRECISION = 1e-11  # relative gain below which a start has converged
SLOPE_TOLERANCE = 1e-5  # projected slope, in units of the index over a side, below which a point has converged
OPTIMISM = 10.0  # a start ends if the best is more than this many times the expected gain of its next step away
LEAST_STEPS = 5  # number of evaluations of a start before it may end in this way
SPREADS = (0.1, 0.03, 0.01, 0.003)  # standard deviations around the points `near`, as fractions of the box's sides
POINTS_AROUND = 16  # number of points around each of them, for every spread


class Sizes(NamedTuple):
    """Size of a search."""

    scan: int = 1024  # number of Sobol points at which the index is computed first
    starts: int = 12  # number of points from which it is climbed
    precision: float = PRECISION  # relative gain below which a climb has ended
    finish: bool = True  # whether the best end is refined as far as rounding allows
    likely: int = 3  # number of points of largest index, and of largest mean, around which the search has more points
    slope: float = SLOPE_TOLERANCE  # projected slope below which the best end is not refined


SIZES = Sizes()
LEARNED_SIZES = Sizes(512, 5)  # for learned priors
LONG_SIZES = Sizes(256, 3, precision=1e-4, finish=False, likely=1)  # the same with many observations
PATH_SIZES = Sizes(4096, 24)  # a path has more local maxima than an index


class Top(NamedTuple):
    """Maximum of an index."""

    x: Floats  # (d,) point of largest index
    value: float  # index at the point
    evaluations: int  # number of points at which the index was computed


def promising(surface: SearchSurface, index: SmoothIndex, near: Floats, likely: int = 3) -> list[int]:
    """Return the rows of `near` (k, d) of largest index and of largest mean, `likely` of each."""
    if not len(near):
        return []
    mean, variance = surface.predict(near)
    first = np.atleast_2d(mean)[0]  # of several outputs
    best = np.argsort(-np.stack([index(mean, variance), first]), axis=1, kind="stable")[:, :likely]
    return list(dict.fromkeys(best.ravel().tolist()))


def maximize_over_box(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, seed: int, near: Floats | None = None,
    sizes: Sizes = SIZES,
) -> Top:  # fmt: skip
    """Find the point of a box where an index is largest.

    Parameters
    ----------
    surface
        Posterior or sample path.
    index
        Index of mean and variance.
    bounds
        Bounds (d, 2) of the box, or of a part of it, in units of x.
    seed
        Seed of the Sobol set's shift and of the points around `near`.
    near
        Points (k, d) near which the index may have narrow peaks, in units of x. The first of them is preferred among
        points of equal index.
    sizes
        Size of the search.
    """
    low, high = bounds.T
    likely = np.empty((0, len(low))) if near is None else near[((near >= low) & (near <= high)).all(axis=1)]
    cube = _scan(bounds, seed, (likely - low) / (high - low), sizes.scan)
    points = np.concatenate([likely, _to_box(cube[len(likely) :], bounds)])
    values = index(*surface.predict(points))
    chosen = _starts(cube, values, sizes.starts, sizes.scan)
    sides = bounds[:, 1] - bounds[:, 0]

    def evaluate(u: Floats, rows: Indices) -> tuple[Floats, Floats]:
        found, gradient = surface.index(index, _to_box(u, bounds))
        return found, gradient * sides

    u, value, slope, used = climb(evaluate, cube[chosen], precision=sizes.precision)
    first = int(np.argmax(value))
    top = Top(_to_box(u[[first]], bounds)[0], float(value[first]), len(points) + used)
    if sizes.finish and not _converged(u, value, slope, sizes.slope)[first]:
        top = finish(surface, index, bounds, u[first], top)
    # Points `near` are first among equals, so that a point that is asked for again gets the same number.
    every, indices = np.concatenate([likely, top.x[None]]), np.append(values[: len(likely)], top.value)
    floor = indices.max() - TIE_TOLERANCE * abs(indices.max())
    winner = int(np.flatnonzero(indices >= floor)[0])
    return Top(every[winner], float(indices[winner]), top.evaluations)


def maximize_over_slice(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, seed: int, near: Floats, sizes: Sizes, fixed: Floats
) -> Top:  # fmt: skip
    """Find the point of a box where an index is largest, of those with some coordinates.

    Parameters
    ----------
    surface, index, bounds, seed, near, sizes
        Parameters of `maximize_over_box`.
    fixed
        Coordinates (d,) of the points, NaN where one is free.
    """
    free = np.flatnonzero(np.isnan(fixed))
    low, sides = bounds[free, 0], bounds[free, 1] - bounds[free, 0]
    cut = OnCube(surface, np.where(np.isnan(fixed)[:, None], bounds, fixed[:, None]), free)
    cube = np.tile([0.0, 1.0], (len(free), 1))
    found = maximize_over_box(cut, index, cube, seed, (near[:, free] - low) / sides, sizes)
    return found._replace(x=np.clip(cut.at(found.x[None])[0], *bounds.T))


def _scan(bounds: Floats, seed: int, likely: Floats, count: int) -> Floats:
    """Return likely points, points around them, and Sobol points, in the unit cube."""
    d = len(bounds)
    spread = (_sobol(d, count) + generator(seed, "scan").random(d)) % 1.0  # shifted, modulo 1
    if not len(likely):
        return spread
    rng = generator(seed, "around")
    clouds = [likely]
    for reach in SPREADS:
        clouds.append((likely[:, None] + reach * rng.standard_normal((len(likely), POINTS_AROUND, d))).reshape(-1, d))
    return np.concatenate([*(np.clip(cloud, 0.0, 1.0) for cloud in clouds), spread])


@functools.lru_cache(maxsize=4)
def _sobol(dimension: int, count: int) -> Floats:
    """Return a scrambled Sobol set in the unit cube, the same for all seeds."""
    return sobol(dimension, count, 0)


def _to_box(cube: Floats, bounds: Floats) -> Floats:
    """Map points of the unit cube to the box, with the upper ends exact."""
    low, high = bounds.T
    return np.ascontiguousarray(np.where(cube >= 1.0, high, np.clip(low + cube * (high - low), low, high)))


def _starts(cube: Floats, values: Floats, count: int, scan: int) -> Indices:
    """Return points of largest index at some distance from each other, then the best of the others."""
    order = np.argsort(-values, kind="stable")[: 16 * count]
    chosen = np.empty(min(count, len(order)), dtype=np.int64)
    numba_ascent.spread_out(cube, order, 0.5 * scan ** (-1.0 / cube.shape[1]), chosen)
    return chosen


def climb(
    evaluate: Callable[[Floats, Indices], tuple[Floats, Floats]], u: Floats, steps: int = MOST_STEPS,
    precision: float = PRECISION,
) -> tuple[Floats, Floats, Floats, int]:  # fmt: skip
    """Ascend in the unit cube from several points at once.

    Parameters
    ----------
    evaluate
        Function that returns the indices (j,) and their slopes (j, d) at points (j, d) of the cube, which are those of
        the starts with numbers (j,).
    u
        Starts (k, d).
    steps
        Largest number of evaluations of a start.
    precision
        Relative gain below which a start has converged.

    Returns
    -------
    u, value, slope : ndarray
        Ends (k, d), with their indices (k,) and slopes (k, d).
    used : int
        Number of evaluations.
    """
    k, d = u.shape
    value, slope = evaluate(u, np.arange(k))
    found = Climbers(
        np.ascontiguousarray(u), value, slope, np.empty((k, d)), value.copy(), slope.copy(), np.empty((k, d, d)),
        np.empty((k, d)), np.empty(k), np.zeros(k, dtype=np.int64), np.full(k, steps),
    )  # fmt: skip
    numba_ascent.begin(found, 0.05, REACH)
    u, left, used = found.u, found.left, k
    while left.any():
        active = np.flatnonzero(left)
        found.trial_value[active], found.trial_slope[active] = evaluate(found.trial[active], active)
        used += len(active)
        numba_ascent.advance(found, REACH, precision)
        inferior = value + OPTIMISM * np.einsum("ij,ij->i", slope, found.direction) < value.max()
        left[_converged(u, value, slope) | (inferior & (left < steps - LEAST_STEPS))] = 0
    return u, value, slope, used


def _converged(u: Floats, value: Floats, slope: Floats, tolerance: float = SLOPE_TOLERANCE) -> Mask:
    """Return the mask (k,) of the points whose projected slope is small."""
    uphill = np.minimum(np.maximum(u + slope, 0.0), 1.0) - u
    return np.asarray(np.abs(uphill).max(axis=1) <= tolerance * np.maximum(1.0, np.abs(value)))


def finish(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, u: Floats, top: Top, gain: float = 1e-14
) -> Top:  # fmt: skip
    """Refine a maximum by L-BFGS-B.

    Parameters
    ----------
    surface, index, bounds
        Parameters of `maximize_over_box`.
    u
        Point (d,) of the unit cube where the maximum is.
    top
        The maximum, which is returned if no step is one.
    gain
        Relative gain of a step below which the steps end.
    """
    from scipy.optimize import minimize

    sides = bounds[:, 1] - bounds[:, 0]

    def descent(at: Floats) -> tuple[float, Floats]:
        found, gradient = surface.index(index, _to_box(at[None], bounds))
        return -float(found[0]), -gradient[0] * sides

    found = minimize(
        descent, u, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(u),
        options={"maxiter": 30, "ftol": gain, "gtol": 1e-9},
    )  # fmt: skip
    used = top.evaluations + int(found.nfev)
    rises = -found.fun > top.value
    return Top(_to_box(found.x[None], bounds)[0], -float(found.fun), used) if rises else top._replace(evaluations=used)
