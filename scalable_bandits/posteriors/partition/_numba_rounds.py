"""Rounds of a partition in one loop, as long as they only change posteriors that are in memory.

The posteriors of cells are arrays of different sizes; `CellArrays` has the addresses of their memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import carray, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors.partition._numba_cells import (
    GAIN,
    LAST,
    VALID_UNTIL,
    VISITS,
    evaluate,
    observe,
    rebuild_ahead,
    select,
    splits,
    width_of,
)

AVAILABLE = not config.DISABLE_JIT  # addresses mean nothing to plain Python

# Columns of `CellArrays.cells`: eight addresses (`FinitePosterior.addresses`, then the parent's index) and six numbers.
# A cell of SIZE 0 is unknown to the loop.
FIELDS, ROWS, MATRICES, VECTORS, NUMBERS, ROW_OF, PRIOR, PARENT_INDEX = range(8)
PARENT_INDEX_SIZE, SIZE, CAPACITY, RANK, COUNT, MAXIMIZER = range(8, 14)
COLUMNS = 14

# Why a loop ended.
DONE = 0  # all rounds were played
UNKNOWN_CELL = 1  # a cell is unknown
UNKNOWN_CANDIDATE = 2  # the cells that hold a candidate are unknown
OTHER_ROUND = 3  # the round needs more than the loop can do: a new cell, a split, a new point in a large cell
NOTES_FULL = 4  # no more observations can be noted


class CellArrays(NamedTuple):
    """Cells by slot of the tree, and what the loop notes about them."""

    cells: NDArray[np.int64]  # (slots, COLUMNS)
    split_thresholds: NDArray[np.float64]  # (slots,) a cell splits when its number of observations plus one exceeds it
    used: NDArray[np.bool_]  # (slots,) whether the loop used the cell
    noted_slots: NDArray[np.int64]  # (notes,) slots of the cells that got observations
    noted_observations: NDArray[np.int64]  # (notes,) numbers of these observations
    noted: NDArray[np.int64]  # (1,) number of observations noted


class TreeArrays(NamedTuple):
    """Arrays of the tree of maxima."""

    tree: NDArray[np.float64]  # (2 slots,) upper bounds: maxima of pairs, with the root at 1, then the leaves' own
    leaves: NDArray[np.float64]  # (slots, 5) as in `_numba_cells.py`
    hashes: NDArray[np.uint64]  # (slots,) seeded hashes of the cells
    visited: NDArray[np.int64]  # (slots,) scratch space
    values: NDArray[np.float64]  # (slots,) scratch space
    schedule: NDArray[np.float64]  # (4,) as in `_numba_cells.py`


class CandidateArrays(NamedTuple):
    """Cells by candidate."""

    first: NDArray[np.int32]  # (n,) position in `entries` of the entry of each candidate, -1 for none
    entries: NDArray[np.int64]  # (k,) entries, one after the other: how many cells hold a candidate, and their slots


class LoopConstants(NamedTuple):
    """Numbers that stay the same during a loop."""

    log_delta: float  # log(4 / delta)
    growth: float  # b d
    norm: float  # B
    noise: float  # R
    prior_mean: float
    prior_std: float
    tolerance: float  # relative distance from the largest index within which candidates are tied
    empty: bool  # whether the first cover has a cube that is no cell
    empty_hash: np.uint64  # seeded hash of the first such cube
    slot_count: int  # number of slots of the tree in use


@intrinsic
def pointer(context, address):
    """Turn an address into a pointer."""
    convert = lambda target, builder, signature, given: builder.inttoptr(  # noqa: E731 - compiled, not called
        given[0], target.get_value_type(signature.return_type)
    )
    return types.voidptr(types.int64), convert


# The functions below take the arrays, not the tuples: every access to a field of a tuple costs some nanoseconds.


@njit(cache=True, nogil=True)
def update_maximizer(cells, leaves, tree, valid_until, slot, log_term, constants, salt):
    """Find the maximizer of a cell, as `evaluate` does."""
    n = cells[slot, SIZE]
    fields = carray(pointer(cells[slot, FIELDS]), (3, n), np.float64)
    parent_index = carray(pointer(cells[slot, PARENT_INDEX]), (cells[slot, PARENT_INDEX_SIZE],), np.float64)
    members = carray(pointer(cells[slot, NUMBERS]), (n,), np.int64)
    cells[slot, MAXIMIZER] = evaluate(
        fields, parent_index, leaves[slot, GAIN], log_term, constants.norm, constants.noise, members, salt,
        leaves, slot, tree, valid_until,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def row_of(cells, slot, candidate):
    """Return position and row of a candidate in a cell; the row is -1 if it was not observed there."""
    n = cells[slot, SIZE]
    p = np.searchsorted(carray(pointer(cells[slot, NUMBERS]), (n,), np.int64), candidate)
    return p, carray(pointer(cells[slot, ROW_OF]), (n,), np.int64)[p]


@njit(cache=True, nogil=True)
def observe_in_cell(cells, leaves, slot, candidate, y, noise_variance):
    """Condition a cell on an observation."""
    n, capacity, rank = cells[slot, SIZE], cells[slot, CAPACITY], cells[slot, RANK]
    p, row = row_of(cells, slot, candidate)
    fields = carray(pointer(cells[slot, FIELDS]), (3, n), np.float64)
    rows = carray(pointer(cells[slot, ROWS]), (capacity, n), np.float64)
    matrices = carray(pointer(cells[slot, MATRICES]), (2, capacity, capacity), np.float64)
    vectors = carray(pointer(cells[slot, VECTORS]), (3, capacity), np.float64)
    if row < 0:
        prior = carray(pointer(cells[slot, PRIOR]), (n, n), np.float64)
        for i in range(n):
            fields[2, i] = prior[p, i]
        carray(pointer(cells[slot, ROW_OF]), (n,), np.int64)[p] = rank
        cells[slot, RANK] += 1
    leaves[slot, GAIN] += observe(p, row, y, noise_variance, matrices, vectors, rows, rank, fields)
    cells[slot, COUNT] += 1


@njit(cache=True, nogil=True)
def obstacle(cells, split_thresholds, slot, candidate):
    """Return why the loop cannot add an observation of a candidate to a cell; DONE if it can."""
    if cells[slot, SIZE] == 0:
        return UNKNOWN_CELL
    if splits(cells[slot, COUNT], split_thresholds[slot]):
        return OTHER_ROUND
    new = row_of(cells, slot, candidate)[1] < 0
    return OTHER_ROUND if new and (cells[slot, PRIOR] == 0 or cells[slot, RANK] == cells[slot, CAPACITY]) else DONE


@njit(cache=True, nogil=True)
def play(cell_arrays, tree_arrays, candidate_arrays, constants, game, columns, first):
    """Play rounds from position `first` on.

    Returns why the loop ended, the slot or the candidate that is the reason, and the position of the first round that
    was not played. That round has added no observation.
    """
    salt, table, noise, noise_variance = np.uint64(game.salt), game.table, game.noise, game.noise_variance
    cells, split_thresholds, used, noted_slots, noted_observations, noted = cell_arrays
    tree, leaves, hashes, visited, values, schedule = tree_arrays
    entry_of, entries = candidate_arrays
    candidates, ys, widths, gains = columns
    norm, deviation, tolerance = constants.norm, constants.noise, constants.tolerance
    for i in range(first, noise.shape[0]):
        log_term = constants.log_delta + constants.growth * math.log(game.first + i + 1)
        if log_term < schedule[LAST]:
            return OTHER_ROUND, -1, i
        if log_term > schedule[VALID_UNTIL]:
            rebuild_ahead(tree, leaves, constants.slot_count, log_term, schedule, norm, deviation)
        schedule[LAST], valid_until, outside_index = log_term, schedule[VALID_UNTIL], -np.inf
        if constants.empty:
            outside_index = constants.prior_mean + width_of(0.0, log_term, norm, deviation) * constants.prior_std
        while True:
            slot, index, outdated, seen = select(
                tree, leaves, hashes, constants.slot_count, log_term, norm, deviation, outside_index, tolerance,
                visited, values,
            )  # fmt: skip
            if outdated and cells[slot, SIZE] == 0:
                return UNKNOWN_CELL, slot, i
            if not outdated:
                break
            schedule[VISITS] += seen
            used[slot] = True
            update_maximizer(cells, leaves, tree, valid_until, slot, log_term, constants, salt)
        ahead = not constants.empty or index > outside_index + tolerance * abs(index)
        if slot < 0 or not (ahead or hashes[slot] < constants.empty_hash):
            return OTHER_ROUND, slot, i
        x = cells[slot, MAXIMIZER]
        if cells[slot, SIZE] == 0 or x < 0:
            return UNKNOWN_CELL, slot, i
        entry = entry_of[x]
        if entry < 0:
            return UNKNOWN_CANDIDATE, x, i
        begin, end = entry + 1, entry + 1 + entries[entry]
        if noted[0] + entries[entry] > noted_slots.shape[0]:
            return NOTES_FULL, -1, i
        for k in range(begin, end):
            holding = entries[k]
            reason = obstacle(cells, split_thresholds, holding, x)
            if reason != DONE:
                return reason, holding, i
        schedule[VISITS] += seen
        y, gain = table[x] + noise[i], leaves[slot, GAIN]
        candidates[i], ys[i], gains[i], widths[i] = x, y, gain, width_of(gain, log_term, norm, deviation)
        for k in range(begin, end):
            holding = entries[k]
            used[holding] = True
            observe_in_cell(cells, leaves, holding, x, y, noise_variance)
            update_maximizer(cells, leaves, tree, valid_until, holding, log_term, constants, salt)
            noted_slots[noted[0]], noted_observations[noted[0]] = holding, game.first + i - 1
            noted[0] += 1
    return DONE, -1, noise.shape[0]
