"""Argmax of an index with ties broken by a seeded hash of the candidate."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.formulas._numba_widths import width as width_of

# Relative distance from the largest index within which candidates are tied. Rounding differs by less between engines
# and between block sizes, so that all of them find the same ties (a symmetric grid has many).
TIE_TOLERANCE = 1e-10
ALL = np.zeros(0, dtype=np.bool_)  # mask that allows all candidates
SAME = np.zeros(0, dtype=np.int64)  # numbers that are the positions
ALL.flags.writeable = SAME.flags.writeable = False  # as compiled functions see them


@njit(cache=True, nogil=True)
def tie_hash(candidate, salt):
    """Return a 32-bit hash of a candidate's number (Wellons' lowbias32); no product exceeds 64 bits."""
    h = np.uint64(candidate) ^ np.uint64(salt)
    h = (h ^ (h >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)
    return h ^ (h >> np.uint64(16))


@njit(cache=True, nogil=True)
def tie_hashes(candidates, salt):
    """Return the hashes of some candidates' numbers."""
    found = np.empty(candidates.shape[0], dtype=np.uint64)
    for i in range(candidates.shape[0]):
        found[i] = tie_hash(candidates[i], salt)
    return found


@njit(cache=True, nogil=True)
def smallest_tied(best):
    """Return the smallest index that is tied with the best."""
    return best - TIE_TOLERANCE * abs(best) if math.isfinite(best) else best


@njit(cache=True, nogil=True)
def choose(index, allowed, numbers, salt):
    """Return the position of the largest allowed index, and the index; -1 and -inf if nothing is allowed.

    Of tied candidates it is the one whose number has the smallest hash. An empty `allowed` allows all, and with empty
    `numbers` these are the positions. ValueError if the index is NaN wherever it is allowed.
    """
    best = -np.inf
    for i in range(index.shape[0]):
        if index[i] > best and (allowed.shape[0] == 0 or allowed[i]):
            best = index[i]
    floor, chosen = smallest_tied(best), -1
    smallest, first = np.uint64(0), 0
    for i in range(index.shape[0]):
        if index[i] >= floor and (allowed.shape[0] == 0 or allowed[i]):
            number = numbers[i] if numbers.shape[0] else i
            h = tie_hash(number, salt)
            if chosen < 0 or h < smallest or (h == smallest and number < first):
                chosen, smallest, first = i, h, number
    if chosen < 0 and (allowed.any() if allowed.shape[0] else index.shape[0] > 0):
        raise ValueError("index: got NaN at every candidate; allowed: numbers, from a finite kernel and prior mean")
    return chosen, best


@njit(cache=True, nogil=True)
def upper_confidence(mean, variance, width, mean_weight, index):
    """Compute mean_weight mu + width s, candidate by candidate, as `acquisition.UpperConfidence` does."""
    for i in range(index.shape[0]):
        if width == 0.0:
            index[i] = mean_weight * mean[i]
        elif mean_weight == 0.0:
            index[i] = math.sqrt(variance[i]) * width
        else:
            index[i] = math.sqrt(variance[i]) * width + mean_weight * mean[i]


@njit(cache=True, nogil=True)
def choose_available(index, i, game):
    """Return the candidate of largest index (n,) among those available in round i of a `Game`, and the index."""
    salt, available = np.uint64(game.salt), game.available
    if available.numbers.shape[0] == 0:
        return choose(index, ALL, SAME, salt)
    number = available.numbers[i]
    candidates = available.candidates[available.starts[number] : available.starts[number + 1]]
    position, best = choose(index[candidates], ALL, candidates, salt)
    return candidates[position], best


@njit(cache=True, nogil=True)
def play_round(i, mean, variance, gain, rule, game, columns, index):
    """Choose the candidate of largest bound in round i of a `Game`, record it, and return it with its value.

    The bound is that of a `Rule`, `gain` is the realised information gain, and `index` (n,) is scratch space.
    """
    shown = rule.gain if rule.gain >= 0.0 else gain
    width = width_of(rule.width, rule.constants, float(game.first + i), shown)
    upper_confidence(mean, variance, width, rule.mean_weight, index)
    p = choose_available(index, i, game)[0]
    y = game.table[p] + game.noise[i]
    columns.candidates[i], columns.ys[i], columns.widths[i], columns.gains[i] = p, y, width, shown
    return p, y
