"""The largest index over a box: a scrambled Sobol set, the best of it refined, many starts at once.

    scan:    n Sobol points, points around the likely ones, and these points themselves   one block
    starts:  the best of them, no two within a neighbourhood of the Sobol set
    climb:   projected quasi-Newton ascent with exact gradients, all starts in one block a step
    finish:  the best by L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995; scipy)

All of it is a function of the posterior, the bounds and the seed.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box import _numba_ascent as numba_ascent
from scalable_bandits.posteriors.box.surface import Searched, SmoothIndex
from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Box, Indices

SCAN, STARTS = 1024, 12
STEPS = 30  # evaluations of a start, at the most
REACH = 0.25  # of the box' sides: the longest step
PRECISION = 1e-11  # relative gain under which a start has arrived
FLAT = 1e-5  # projected slope, in units of the index over a side, that needs no finish
HOPE = 10.0  # times the rise that the slope promises for the next step: a start that falls short of the best gives up
TRIALS = 5  # before it may
SPREADS = (0.1, 0.03, 0.01, 0.003)  # of the box' sides: standard deviations around the likely points
AROUND = 16  # points around each, for every spread


class Top(NamedTuple):
    """Where an index is largest."""

    x: Floats  # (d,)
    value: float  # the index there
    evaluations: int  # points at which the index was computed


def maximize_over_box(
    surface: Searched,
    index: SmoothIndex,
    bounds: Floats,
    seed: int,
    near: Floats | None = None,
    scan: int = SCAN,
    starts: int = STARTS,
) -> Top:
    """Find the point of a box where an index is largest.

    Parameters
    ----------
    surface
        The posterior.
    index
        Of mean and variance.
    bounds
        (d, 2): the whole box, or a part of it.
    seed
        Of the Sobol set and the points around `near`.
    near
        (k, d) points around which to look too, where the index may have narrow peaks; of several points of equal
        index, one of these is preferred, the first.
    scan, starts
        Sobol points, and how many points are refined.

    Returns
    -------
    Top
        Point, index, and how many points that took.
    """
    low, high = bounds.T
    likely = np.empty((0, len(low))) if near is None else near[((near >= low) & (near <= high)).all(axis=1)]
    cube = _scan(bounds, seed, (likely - low) / (high - low), scan)
    points = np.concatenate([likely, _outside(cube[len(likely) :], bounds)])
    values = index(*surface.predict(points))
    chosen = _starts(cube, values, starts, scan)
    u, value, slope, used = _climb(surface, index, bounds, cube[chosen])
    first = int(np.argmax(value))
    x, best = _outside(u[[first]], bounds)[0], float(value[first])
    if not _flat(u, value, slope)[first]:
        x, best, more = _finish(surface, index, bounds, u[first], best)
        used += more
    # What was there before goes first among equals, so that a point asked for again is the same point.
    every, indices = np.concatenate([likely, x[None]]), np.append(values[: len(likely)], best)
    floor = indices.max() - TIE_TOLERANCE * abs(indices.max())
    winner = int(np.flatnonzero(indices >= floor)[0])
    return Top(every[winner], float(indices[winner]), len(points) + used)


def _scan(bounds: Floats, seed: int, likely: Floats, count: int) -> Floats:
    """Likely points, points around them, and Sobol points, in the unit cube."""
    d = len(bounds)
    sobol = (_sobol(d, count) + generator(seed, "scan").random(d)) % 1.0  # moved round the cube as a whole
    if not len(likely):
        return sobol
    rng = generator(seed, "around")
    clouds = [likely]
    for spread in SPREADS:
        clouds.append((likely[:, None] + spread * rng.standard_normal((len(likely), AROUND, d))).reshape(-1, d))
    return np.concatenate([*(np.clip(cloud, 0.0, 1.0) for cloud in clouds), sobol])


@functools.lru_cache(maxsize=4)
def _sobol(dimension: int, count: int) -> Floats:
    """A scrambled Sobol set in the unit cube, the same for all seeds."""
    return Box([[0.0, 1.0]] * dimension).candidates(count, 0).array


def _outside(cube: Floats, bounds: Floats) -> Floats:
    """Points of the box from points of the unit cube; the upper end is the end itself, whatever rounding says."""
    low, high = bounds.T
    return np.ascontiguousarray(np.where(cube >= 1.0, high, np.clip(low + cube * (high - low), low, high)))


def _starts(cube: Floats, values: Floats, count: int, scan: int) -> Indices:
    """Points of largest index, each at some distance from the better ones; then the best of the others."""
    order = np.argsort(-values, kind="stable")[: 16 * count]
    chosen = np.empty(min(count, len(order)), dtype=np.int64)
    numba_ascent.spread_out(cube, order, 0.5 * scan ** (-1.0 / cube.shape[1]), chosen)
    return chosen


def _climb(surface: Searched, index: SmoothIndex, bounds: Floats, u: Floats) -> tuple[Floats, Floats, Floats, int]:
    """Ascend from all of u (k, d): points in the unit cube, indices, their slopes, and the number of evaluations."""
    k, d = u.shape
    sides = bounds[:, 1] - bounds[:, 0]
    value, slope = surface.index(index, _outside(u, bounds))
    slope = slope * sides
    inverse, direction, trial = np.empty((k, d, d)), np.empty((k, d)), np.empty((k, d))
    step, calm, left = np.empty(k), np.zeros(k, dtype=np.int64), np.full(k, STEPS)
    u = np.ascontiguousarray(u)
    numba_ascent.begin(u, slope, inverse, direction, step, trial, calm, left, 0.05, REACH)
    used = k
    trial_value, trial_slope = value.copy(), slope.copy()
    while left.any():
        open_ = np.flatnonzero(left)
        found, gradient = surface.index(index, _outside(trial[open_], bounds))
        used += len(open_)
        trial_value[open_], trial_slope[open_] = found, gradient * sides
        numba_ascent.advance(
            u, value, slope, inverse, direction, step, trial, trial_value, trial_slope, calm, left, REACH, PRECISION
        )
        hopeless = value + HOPE * np.einsum("ij,ij->i", slope, direction) < value.max()
        left[_flat(u, value, slope) | (hopeless & (left < STEPS - TRIALS))] = 0
    return u, value, slope, used


def _flat(u: Floats, value: Floats, slope: Floats) -> NDArray[np.bool_]:
    """Which points (k,) of the unit cube have no slope left but out of it."""
    uphill = np.minimum(np.maximum(u + slope, 0.0), 1.0) - u
    return np.asarray(np.abs(uphill).max(axis=1) <= FLAT * np.maximum(1.0, np.abs(value)))


def _finish(
    surface: Searched, index: SmoothIndex, bounds: Floats, u: Floats, value: float
) -> tuple[Floats, float, int]:
    """The last digits, by L-BFGS-B, from a point u of the unit cube."""
    from scipy.optimize import minimize

    sides = bounds[:, 1] - bounds[:, 0]

    def descent(at: Floats) -> tuple[float, Floats]:
        found, gradient = surface.index(index, _outside(at[None], bounds))
        return -float(found[0]), -gradient[0] * sides

    found = minimize(
        descent, u, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(u),
        options={"maxiter": 30, "ftol": 1e-14, "gtol": 1e-9},
    )  # fmt: skip
    end, top = (found.x, -float(found.fun)) if -found.fun > value else (u, value)
    return _outside(end[None], bounds)[0], top, int(found.nfev)
