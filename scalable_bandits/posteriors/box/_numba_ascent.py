"""Projected quasi-Newton ascent from many points of the unit cube at once, one step of all points at a time."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit


class Climbers(NamedTuple):
    """Points (k, d) that ascend, each with the next point that it tries."""

    u: NDArray[np.float64]  # (k, d)
    value: NDArray[np.float64]  # (k,) index
    slope: NDArray[np.float64]  # (k, d) slope of the index
    trial: NDArray[np.float64]  # (k, d) points to try
    trial_value: NDArray[np.float64]  # (k,)
    trial_slope: NDArray[np.float64]  # (k, d)
    inverse: NDArray[np.float64]  # (k, d, d) inverse curvature
    direction: NDArray[np.float64]  # (k, d)
    step: NDArray[np.float64]  # (k,) length of the trial's step, in units of the direction
    calm: NDArray[np.int64]  # (k,) number of small gains in succession; -1 without a curvature yet
    left: NDArray[np.int64]  # (k,) number of evaluations left; 0 for points that have converged


@njit(cache=True, nogil=True)
def spread_out(cube, order, apart, chosen):
    """Choose rows in an order, farther than `apart` from each other (maximum norm), then the first of the others.

    Return the number of the former.
    """
    count = number = 0
    for only_far in (True, False):
        for i in order:
            if count == chosen.shape[0]:
                return number
            far = True
            taken = False
            for c in range(count):
                taken = taken or chosen[c] == i
                distance = 0.0
                for a in range(cube.shape[1]):
                    distance = max(distance, abs(cube[chosen[c], a] - cube[i, a]))
                far = far and distance > apart
            if not taken and (far or not only_far):
                chosen[count] = i
                count += 1
                number += only_far
    return number


@njit(cache=True, nogil=True)
def aim(u, slope, inverse, reach, direction):
    """Set the uphill direction of one point, at most `reach` long in any coordinate, 0 in coordinates at a bound."""
    d = u.shape[0]
    longest = 0.0
    for a in range(d):
        direction[a] = 0.0
        if not ((u[a] <= 0.0 and slope[a] <= 0.0) or (u[a] >= 1.0 and slope[a] >= 0.0)):
            for b in range(d):
                if not ((u[b] <= 0.0 and slope[b] <= 0.0) or (u[b] >= 1.0 and slope[b] >= 0.0)):
                    direction[a] += inverse[a, b] * slope[b]
        longest = max(longest, abs(direction[a]))
    if longest > reach:
        for a in range(d):
            direction[a] *= reach / longest


@njit(cache=True, nogil=True)
def steepest(slope, length, inverse):
    """Set the inverse curvature so that the first step along the slope has a given length."""
    d = slope.shape[0]
    largest = 1e-300
    for a in range(d):
        largest = max(largest, abs(slope[a]))
    for a in range(d):
        for b in range(d):
            inverse[a, b] = length / largest if a == b else 0.0


@njit(cache=True, nogil=True)
def learn_curvature(move, change, inverse, first):
    """Update the inverse curvature (BFGS) by a move and the decrease of the slope; return whether that was possible."""
    d = move.shape[0]
    curvature = 0.0
    squares = 0.0
    moved = 0.0
    for a in range(d):
        curvature += move[a] * change[a]
        squares += change[a] * change[a]
        moved += move[a] * move[a]
    if not (curvature > 1e-10 * math.sqrt(squares * moved) and curvature > 1e-150 and squares > 1e-150):
        return False
    if first:
        for a in range(d):
            for b in range(d):
                inverse[a, b] = curvature / squares if a == b else 0.0
    twice = 0.0
    for a in range(d):
        for b in range(d):
            twice += change[a] * inverse[a, b] * change[b]
    factor = (1.0 + twice / curvature) / curvature
    product = change.copy()
    for a in range(d):
        product[a] = 0.0
        for b in range(d):
            product[a] += inverse[a, b] * change[b]
    for a in range(d):
        for b in range(d):
            inverse[a, b] += factor * move[a] * move[b] - (product[a] * move[b] + move[a] * product[b]) / curvature
    return True


@njit(cache=True, nogil=True)
def set_trial(u, direction, step, trial):
    """Set the trial one step along the direction, clipped to the cube; return its distance from u."""
    farthest = 0.0
    for a in range(u.shape[0]):
        trial[a] = min(max(u[a] + step * direction[a], 0.0), 1.0)
        farthest = max(farthest, abs(trial[a] - u[a]))
    return farthest


@njit(cache=True, nogil=True)
def begin(climbers, length, reach):
    """Set the first trial of every point."""
    u, _, slope, trial, _, _, inverse, direction, step, calm, left = climbers
    for j in range(u.shape[0]):
        steepest(slope[j], length, inverse[j])
        aim(u[j], slope[j], inverse[j], reach, direction[j])
        step[j] = 1.0
        calm[j] = -1
        if set_trial(u[j], direction[j], 1.0, trial[j]) == 0.0:
            left[j] = 0


@njit(cache=True, nogil=True)
def advance(climbers, reach, precision):
    """Accept or reject the trials, and set the next ones."""
    u, value, slope, trial, trial_value, trial_slope, inverse, direction, step, calm, left = climbers
    d = u.shape[1]
    for j in range(u.shape[0]):
        if left[j] == 0:
            continue
        left[j] -= 1
        rise = 0.0
        for a in range(d):
            rise += slope[j, a] * (trial[j, a] - u[j, a])
        if rise > 0.0 and trial_value[j] >= value[j] + 1e-4 * rise:
            gain = trial_value[j] - value[j]
            for a in range(d):
                direction[j, a] = trial[j, a] - u[j, a]
                u[j, a] = trial[j, a]
                trial[j, a] = slope[j, a] - trial_slope[j, a]
                slope[j, a] = trial_slope[j, a]
            value[j] = trial_value[j]
            if learn_curvature(direction[j], trial[j], inverse[j], calm[j] < 0) and calm[j] < 0:
                calm[j] = 0
            if gain > precision * max(1.0, abs(value[j])):
                calm[j] = min(calm[j], 0)
            elif calm[j] >= 0:
                calm[j] += 1
                if calm[j] == 2:
                    left[j] = 0
                    continue
            aim(u[j], slope[j], inverse[j], reach, direction[j])
            step[j] = 1.0
        else:
            short = 0.1  # factor of the step, to the maximum of the interpolating parabola within limits
            bend = trial_value[j] - value[j] - rise
            if bend < 0.0 and rise > 0.0:
                short = min(max(-0.5 * rise / bend, 0.1), 0.5)
            step[j] *= short
            if rise <= 0.0 or step[j] < 1e-5:
                if calm[j] < 0 and step[j] < 1e-9:
                    left[j] = 0
                    continue
                if calm[j] >= 0:
                    calm[j] = -1
                    steepest(slope[j], 1e-3, inverse[j])
                    aim(u[j], slope[j], inverse[j], reach, direction[j])
                    step[j] = 1.0
        if set_trial(u[j], direction[j], step[j], trial[j]) == 0.0:
            left[j] = 0
