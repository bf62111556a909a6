"""Rounds of a partition in one loop, as long as they touch posteriors that are in memory and have room.

The posteriors of cells are arrays of different sizes, which `Hot` has by the addresses of their memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import carray, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import tie_hash
from scalable_bandits.posteriors.partition._numba_cells import (
    LAST,
    VALID_UNTIL,
    VISITS,
    evaluate,
    observe,
    reach_ahead,
    select,
    width_of,
)

AVAILABLE = not config.DISABLE_JIT  # addresses mean nothing to plain Python

# Columns of `Hot.cells`: addresses, then sizes. A cell of size 0 is unknown to the loop.
FIELDS, ROWS, SMALL, NUMBERS, ROW_OF, PRIOR, CAPS, CAPS_SIZE, SIZE, CAPACITY, RANK, HELD, SUMMIT = range(13)
COLUMNS = 13

# Why a loop ended.
DONE = 0  # all rounds were played
COLD = 1  # a cell is unknown
HOMES = 2  # the cells of a candidate are unknown
ROUND = 3  # the round needs more than the loop can do: a new cell, a split, a new point in a large cell
FULL = 4  # no more observations can be noted


class Hot(NamedTuple):
    """Cells by slot of the tree, and what the loop notes about them."""

    cells: NDArray[np.int64]  # (slots, COLUMNS)
    room: NDArray[np.float64]  # (slots,) bound on the number of observations plus one
    used: NDArray[np.int64]  # (slots,) position of the last use among all of the loop, -1 for none
    touched: NDArray[np.int64]  # (slots,) slots that were used, in the order of their first use
    homes: NDArray[np.int64]  # (notes,) slots of the observations noted
    numbers: NDArray[np.int64]  # (notes,) their numbers
    counts: NDArray[np.int64]  # (3,) how many slots are touched, observations noted, and uses


class Tree(NamedTuple):
    """Arrays of the tree of maxima."""

    tree: NDArray[np.float64]
    leaf: NDArray[np.float64]
    order: NDArray[np.uint64]
    visited: NDArray[np.int64]
    values: NDArray[np.float64]
    pace: NDArray[np.float64]  # (4,) as in `_numba_cells.py`


class Places(NamedTuple):
    """Cells by candidate: a hash table with open addresses."""

    keys: NDArray[np.int64]  # (m,) candidates, -1 for none; m is a power of two
    first: NDArray[np.int64]  # (m,) where the numbers of their cells begin
    count: NDArray[np.int64]  # (m,) how many there are
    cells: NDArray[np.int64]  # (k,) numbers of cells
    slot_of: NDArray[np.int64]  # (cells,) slots of cells in the tree by number, -1 after a split


class Numbers(NamedTuple):
    """Numbers that stay the same during a loop."""

    log_delta: float
    growth: float
    norm: float
    noise: float
    prior_mean: float
    prior_std: float
    tolerance: float
    free: int  # first cube of the first cover that is no cell, -1 without one
    free_order: np.uint64
    slots: int  # number of slots of the tree in use


@intrinsic
def pointer(context, address):
    """Turn an address into a pointer."""
    convert = lambda target, builder, signature, given: builder.inttoptr(  # noqa: E731 - compiled, not called
        given[0], target.get_value_type(signature.return_type)
    )
    return types.voidptr(types.int64), convert


@njit(cache=True, nogil=True)
def find(keys, candidate):
    """Return the position of a candidate, or the free one that it may have."""
    mask = keys.shape[0] - 1
    i = np.int64(tie_hash(candidate, np.uint64(0))) & mask
    while keys[i] != candidate and keys[i] != -1:
        i = (i + 1) & mask
    return i


@njit(cache=True, nogil=True)
def insert(keys, first, count, candidates, firsts, counts):
    """Add candidates to a hash table in which they are not."""
    for k in range(candidates.shape[0]):
        i = find(keys, candidates[k])
        keys[i], first[i], count[i] = candidates[k], firsts[k], counts[k]


@njit(cache=True, nogil=True)
def position(numbers, candidate):
    """Return the position of a candidate among those of its cell, ascending."""
    low, high = 0, numbers.shape[0]
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < candidate:
            low = middle + 1
        else:
            high = middle
    return low


# Functions below take arrays rather than the tuples of them: every access to a field of a tuple costs some nanoseconds.


@njit(cache=True, nogil=True)
def use(used, touched, counts, slot):
    """Note that a cell is used."""
    if used[slot] < 0:
        touched[counts[0]] = slot
        counts[0] += 1
    used[slot] = counts[2]
    counts[2] += 1


@njit(cache=True, nogil=True)
def climb(cells, leaf, tree, valid_until, slot, log_term, numbers, salt):
    """Find the summit of a cell, as `evaluate` does."""
    n = cells[slot, SIZE]
    fields = carray(pointer(cells[slot, FIELDS]), (3, n), np.float64)
    caps = carray(pointer(cells[slot, CAPS]), (cells[slot, CAPS_SIZE],), np.float64)
    members = carray(pointer(cells[slot, NUMBERS]), (n,), np.int64)
    cells[slot, SUMMIT] = evaluate(
        fields, caps, leaf[slot, 4], log_term, numbers.norm, numbers.noise, members, salt, numbers.tolerance, leaf,
        slot, tree, valid_until,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def row_of(cells, slot, candidate):
    """Return position and row of a candidate in a cell; the row is -1 if it was not observed there."""
    n = cells[slot, SIZE]
    p = position(carray(pointer(cells[slot, NUMBERS]), (n,), np.int64), candidate)
    return p, carray(pointer(cells[slot, ROW_OF]), (n,), np.int64)[p]


@njit(cache=True, nogil=True)
def learn(cells, leaf, slot, candidate, y, noise_variance):
    """Condition a cell on an observation."""
    n, capacity, rank = cells[slot, SIZE], cells[slot, CAPACITY], cells[slot, RANK]
    p, row = row_of(cells, slot, candidate)
    fields = carray(pointer(cells[slot, FIELDS]), (3, n), np.float64)
    rows = carray(pointer(cells[slot, ROWS]), (capacity, n), np.float64)
    small = carray(pointer(cells[slot, SMALL]), (2 * capacity * capacity + 3 * capacity,), np.float64)
    if row < 0:
        prior = carray(pointer(cells[slot, PRIOR]), (n, n), np.float64)
        for i in range(n):
            fields[2, i] = prior[p, i]
        carray(pointer(cells[slot, ROW_OF]), (n,), np.int64)[p] = rank
        cells[slot, RANK] += 1
    leaf[slot, 4] += observe(p, row, y, noise_variance, small, rows, rank, fields)
    cells[slot, HELD] += 1


@njit(cache=True, nogil=True)
def obstacle(cells, room, slot, candidate):
    """Return why an observation of a candidate in a cell needs more than the loop can do; DONE if it does not."""
    if cells[slot, SIZE] == 0:
        return COLD
    if room[slot] < cells[slot, HELD] + 2:
        return ROUND
    new = row_of(cells, slot, candidate)[1] < 0
    return ROUND if new and (cells[slot, PRIOR] == 0 or cells[slot, RANK] == cells[slot, CAPACITY]) else DONE


@njit(cache=True, nogil=True)
def play(hot, argmax, places, numbers, game, columns, first):
    """Play rounds from position `first` on.

    Returns why the loop ended, the slot or the candidate concerned, and the number of rounds played in all. What is not
    played has changed nothing.
    """
    salt, table, noise, noise_variance = np.uint64(game.salt), game.table, game.noise, game.noise_variance
    cells, room, used, touched, homes, observed, counts = hot
    tree, leaf, order, visited, values, pace = argmax
    keys, begin, many, at, slot_of = places
    candidates, ys, widths, gains = columns
    norm, deviation, tolerance = numbers.norm, numbers.noise, numbers.tolerance
    for i in range(first, noise.shape[0]):
        log_term = numbers.log_delta + numbers.growth * math.log(game.first + i + 1)
        if log_term < pace[LAST]:
            return ROUND, -1, i
        if log_term > pace[VALID_UNTIL]:
            reach_ahead(tree, leaf, numbers.slots, log_term, pace, norm, deviation)
        pace[LAST], valid_until, elsewhere = log_term, pace[VALID_UNTIL], -np.inf
        if numbers.free >= 0:
            elsewhere = numbers.prior_mean + width_of(0.0, log_term, norm, deviation) * numbers.prior_std
        while True:
            slot, index, stale, seen = select(
                tree, leaf, order, numbers.slots, log_term, norm, deviation, elsewhere, tolerance, visited, values
            )
            if stale and cells[slot, SIZE] == 0:
                return COLD, slot, i
            if not stale:
                break
            pace[VISITS] += seen
            use(used, touched, counts, slot)
            climb(cells, leaf, tree, valid_until, slot, log_term, numbers, salt)
        ahead = numbers.free < 0 or index > elsewhere + tolerance * abs(index)
        if slot < 0 or not (ahead or order[slot] < numbers.free_order):
            return ROUND, slot, i
        x = cells[slot, SUMMIT]
        if cells[slot, SIZE] == 0 or x < 0:
            return COLD, slot, i
        h = find(keys, x)
        if keys[h] != x:
            return HOMES, x, i
        if counts[1] + many[h] > homes.shape[0]:
            return FULL, -1, i
        for k in range(begin[h], begin[h] + many[h]):
            home = slot_of[at[k]]
            if home < 0:
                return HOMES, x, i
            reason = obstacle(cells, room, home, x)
            if reason != DONE:
                return reason, home, i
        pace[VISITS] += seen
        y, gain = table[x] + noise[i], leaf[slot, 4]
        candidates[i], ys[i], gains[i], widths[i] = x, y, gain, width_of(gain, log_term, norm, deviation)
        for k in range(begin[h], begin[h] + many[h]):
            home = slot_of[at[k]]
            use(used, touched, counts, home)
            learn(cells, leaf, home, x, y, noise_variance)
            climb(cells, leaf, tree, valid_until, home, log_term, numbers, salt)
            homes[counts[1]], observed[counts[1]] = home, game.first + i - 1
            counts[1] += 1
    return DONE, -1, noise.shape[0]
