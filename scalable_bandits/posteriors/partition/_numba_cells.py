"""Arithmetic of the partition's cells: posteriors, the tree of their largest indices, and rounds in one loop.

The loop goes on as long as rounds only change posteriors that are in memory. The posteriors of cells are arrays of
different sizes; `CellArrays` has the addresses of their memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import carray, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import ALL, choose
from scalable_bandits.posteriors.exact._numba_window import WindowArrays, window_observe

# Columns of `leaves` (slots, 5), the leaves of the tree of maxima: mean and std at the cell's maximizer, the width up
# to which it is the maximizer, the largest std in the cell, and the cell's information gain.
MEAN, STD, WIDTH_LIMIT, LARGEST_STD, GAIN = range(5)

# Entries of `schedule` (4,), by which the tree's bounds are computed again: the log term of the last round; the largest
# log term for which the bounds are valid; the difference of the two when the bounds were computed; and the number of
# cells visited since then.
LAST, VALID_UNTIL, LEAD, VISITS = range(4)

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
    leaves: NDArray[np.float64]  # (slots, 5) mean, std, width limit, largest std and information gain of each cell
    hashes: NDArray[np.uint64]  # (slots,) seeded hashes of the cells
    visited: NDArray[np.int64]  # (slots,) scratch space
    values: NDArray[np.float64]  # (slots,) scratch space
    schedule: NDArray[np.float64]  # (4,) when the bounds are computed again


class LoopConstants(NamedTuple):
    """Numbers that stay the same during a loop."""

    log_delta: float  # log(4 / delta)
    growth: float  # b d
    norm: float  # B
    noise: float  # R
    tolerance: float  # relative distance from the largest index within which candidates are tied
    slot_count: int  # number of slots of the tree in use


@njit(cache=True, nogil=True)
def observe(p, row, y, noise, matrices, vectors, rows, rank, fields):
    """Condition on an observation at position p, whose row in the window is `row`, and return the information gain.

    For a point that was not observed before, `row` is -1 and fields[2] is its prior covariance with all candidates.
    `matrices` (2, capacity, capacity) has gram and inverse of the window, `vectors` (3, capacity) shift, precision and
    weights; `fields` (3, n) has mean, variance and column.
    """
    window = WindowArrays(matrices[0], matrices[1], vectors[0], vectors[1], vectors[2])
    before = window_observe(window, rank, row, p, y, noise, fields[2], rows, fields[0], fields[1])
    return 0.5 * math.log1p(before / noise)


@njit(cache=True, nogil=True)
def observe_all(positions, rows_at, ys, noises, columns, matrices, vectors, rows, rank, fields):
    """Condition on observations in turn, and return the new rank and the information gain.

    `rows_at` are the rows of the observed positions; a row that the window does not have yet is that of a new point,
    whose prior covariance with all candidates is the next one of `columns`.
    """
    gain = 0.0
    new = 0
    for i in range(positions.shape[0]):
        row = rows_at[i] if rows_at[i] < rank else -1
        if row < 0:
            fields[2] = columns[new]
            new += 1
        gain += observe(positions[i], row, ys[i], noises[i], matrices, vectors, rows, rank, fields)
        if row < 0:
            rank += 1
    return rank, gain


@njit(cache=True, nogil=True)
def width_of(gain, log_term, norm, noise):
    """Return the width B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
    return norm + noise * math.sqrt(2.0 * (gain + 1.0 + log_term))


@njit(cache=True, nogil=True)
def splits(count, split_threshold):
    """Return whether a cell A with `count` observations splits at the next one: threshold < |D_A| + 1 counting that."""
    return split_threshold < (count + 1) + 1


@njit(cache=True, nogil=True)
def upper_bound(leaves, i, width):
    """Return an upper bound of a cell's index at a width not below the one of its leaf; exact up to the width limit."""
    mean, std, width_limit = leaves[i, MEAN], leaves[i, STD], leaves[i, WIDTH_LIMIT]
    if width <= width_limit:
        return mean + width * std
    return mean + width_limit * std + (width - width_limit) * leaves[i, LARGEST_STD]


@njit(cache=True, nogil=True)
def rebuild_ahead(tree, leaves, count, log_term, schedule, norm, noise):
    """Compute the bounds of all cells, and the maxima of pairs up to the root, node 1, for a larger log term.

    It is much larger if few cells were visited since the last time.
    """
    many = 100 + count / 8  # a visit takes about as long as the bounds of eight cells, a call as a hundred visits
    change = 1.0
    if schedule[VISITS] > many:
        change = 0.5
    elif schedule[VISITS] < 0.5 * many:
        change = 2.0
    schedule[LEAD] = min(max(schedule[LEAD] * change, 1e-9), 1.0)
    valid_until = log_term + schedule[LEAD]
    schedule[VISITS], schedule[VALID_UNTIL] = 0.0, valid_until
    size = tree.shape[0] // 2
    for i in range(size):
        if i < count:
            tree[size + i] = upper_bound(leaves, i, width_of(leaves[i, GAIN], valid_until, norm, noise))
        else:
            tree[size + i] = -np.inf
    for node in range(size - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])


@njit(cache=True, nogil=True)
def update_bound(tree, leaves, i, log_term, norm, noise):
    """Compute the bound of one cell, and the maxima above it."""
    node = tree.shape[0] // 2 + i
    tree[node] = upper_bound(leaves, i, width_of(leaves[i, GAIN], log_term, norm, noise))
    node //= 2
    while node:
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
        node //= 2


@njit(cache=True, nogil=True)
def evaluate(fields, parent_index, gain, log_term, norm, noise, numbers, salt, leaves, i, tree, valid_until):
    """Find a cell's maximizer, write its leaf and its bound in the tree, and return the maximizer's number.

    The index is mean + width std, bounded by `parent_index` unless that is empty. With a parent's index, the mean in
    the leaf is the index, the std is 0, and the width limit is the present width. The standard deviations are written
    to fields[2]. `valid_until` is the log term of the tree's bounds, -inf if all of them have to be computed again
    anyway.
    """
    width = width_of(gain, log_term, norm, noise)
    n, tightened = numbers.shape[0], parent_index.shape[0] > 0
    mean, variance, std, index = fields[0], fields[1], fields[2], np.empty(n)
    largest_std = 0.0
    for k in range(n):
        std[k] = math.sqrt(variance[k])
        largest_std = max(largest_std, std[k])
        index[k] = mean[k] + width * std[k]
        if tightened and parent_index[k] < index[k]:
            index[k] = parent_index[k]
    chosen, best = choose(index, ALL, numbers, salt)
    if tightened:
        leaves[i, MEAN], leaves[i, STD], width_limit = best, 0.0, width
    else:
        leaves[i, MEAN], leaves[i, STD], width_limit = mean[chosen], std[chosen], np.inf
        for k in range(n):
            more = std[k] - std[chosen]
            if more > 1e-12 * std[chosen]:
                width_limit = min(width_limit, max((mean[chosen] - mean[k]) / more, width))
    leaves[i, WIDTH_LIMIT], leaves[i, LARGEST_STD], leaves[i, GAIN] = width_limit, largest_std, gain
    if valid_until > -np.inf:
        update_bound(tree, leaves, i, valid_until, norm, noise)
    return numbers[chosen]


@njit(cache=True, nogil=True)
def larger_child(tree, node):
    """Return the child of a node whose bound is the larger one."""
    return 2 * node if tree[2 * node] > tree[2 * node + 1] else 2 * node + 1


@njit(cache=True, nogil=True)
def following(tree, node):
    """Return the node that is visited after a node and those below it, larger children first; 0 after the last."""
    while node > 1 and node != larger_child(tree, node // 2):
        node //= 2
    return node ^ 1 if node > 1 else 0


@njit(cache=True, nogil=True)
def select(tree, leaves, hashes, log_term, norm, noise, tolerance, visited, values):
    """Find the cell of largest index; of ties the one of smallest seeded hash.

    Cells whose bounds reach the largest index are visited, those of large bounds first. Returns the cell's slot, its
    index, whether it is outdated, and the number of cells visited. An outdated cell is one whose maximizer may be
    another at the present width: the caller evaluates the cell and calls again.
    """
    size = tree.shape[0] // 2
    found, best = 0, -np.inf
    node = 1
    while node:
        if tree[node] < best - tolerance * abs(best) or tree[node] == -np.inf:
            node = following(tree, node)
            continue
        if node < size:
            node = larger_child(tree, node)
            continue
        i = node - size
        node = following(tree, node)
        width = width_of(leaves[i, GAIN], log_term, norm, noise)
        value = upper_bound(leaves, i, width)
        if value < best - tolerance * abs(best):
            continue
        if width > leaves[i, WIDTH_LIMIT]:
            return i, value, True, found
        best = max(best, value)
        visited[found] = i
        values[found] = value
        found += 1
    floor = best - tolerance * abs(best)
    chosen = -1
    for k in range(found):
        if values[k] >= floor and (chosen < 0 or hashes[visited[k]] < hashes[chosen]):
            chosen = visited[k]
    return chosen, best, False, found


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
def play(cell_arrays, tree_arrays, slots_of, constants, game, columns, first):
    """Play rounds from position `first` on.

    `slots_of` (n, w) are the slots of the cells that hold each candidate, and then -1. Returns why the loop ended, the
    slot or the candidate that is the reason, and the position of the first round that was not played. That round has
    added no observation.
    """
    salt, table, noise, noise_variance = np.uint64(game.salt), game.table, game.noise, game.noise_variance
    cells, split_thresholds, used, noted_slots, noted_observations, noted = cell_arrays
    tree, leaves, hashes, visited, values, schedule = tree_arrays
    candidates, ys, widths, gains = columns
    norm, deviation, tolerance = constants.norm, constants.noise, constants.tolerance
    for i in range(first, noise.shape[0]):
        log_term = constants.log_delta + constants.growth * math.log(game.first + i + 1)
        if log_term < schedule[LAST]:
            return OTHER_ROUND, -1, i
        if log_term > schedule[VALID_UNTIL]:
            rebuild_ahead(tree, leaves, constants.slot_count, log_term, schedule, norm, deviation)
        schedule[LAST], valid_until = log_term, schedule[VALID_UNTIL]
        while True:
            slot, _, outdated, seen = select(
                tree, leaves, hashes, log_term, norm, deviation, tolerance, visited, values
            )
            if outdated and cells[slot, SIZE] == 0:
                return UNKNOWN_CELL, slot, i
            if not outdated:
                break
            schedule[VISITS] += seen
            used[slot] = True
            update_maximizer(cells, leaves, tree, valid_until, slot, log_term, constants, salt)
        x = cells[slot, MAXIMIZER]
        if cells[slot, SIZE] == 0 or x < 0:
            return UNKNOWN_CELL, slot, i
        count = 0
        while count < slots_of.shape[1] and slots_of[x, count] >= 0:
            count += 1
        if not count:
            return UNKNOWN_CANDIDATE, x, i
        if noted[0] + count > noted_slots.shape[0]:
            return NOTES_FULL, -1, i
        for k in range(count):
            holding = slots_of[x, k]
            reason = obstacle(cells, split_thresholds, holding, x)
            if reason != DONE:
                return reason, holding, i
        schedule[VISITS] += seen
        y, gain = table[x] + noise[i], leaves[slot, GAIN]
        candidates[i], ys[i], gains[i], widths[i] = x, y, gain, width_of(gain, log_term, norm, deviation)
        for k in range(count):
            holding = slots_of[x, k]
            used[holding] = True
            observe_in_cell(cells, leaves, holding, x, y, noise_variance)
            update_maximizer(cells, leaves, tree, valid_until, holding, log_term, constants, salt)
            noted_slots[noted[0]], noted_observations[noted[0]] = holding, game.first + i - 1
            noted[0] += 1
    return DONE, -1, noise.shape[0]
