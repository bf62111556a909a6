"""Arithmetic of the partition's cells: posteriors of small candidate sets, and the tree of their largest indices."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import tie_hash
from scalable_bandits.posteriors.exact._numba_window import add_rows, apply, project, record


@njit(cache=True, nogil=True)
def observe(p, slot, y, noise, small, rows, rank, fields):
    """Condition on one observation and return the information gain; for a new point (slot -1) fields[2] is its prior
    column.

    `small` has gram and inverse (room, room), then shift, precision and weights (room,) of the window; `fields` (3, n)
    has mean, variance and column.
    """
    room = rows.shape[0]
    square = room * room
    gram = small[:square].reshape(room, room)
    inverse = small[square : 2 * square].reshape(room, room)
    lines = small[2 * square :].reshape(3, room)
    shift, precision, weights = lines[0], lines[1], lines[2]
    mean, variance, column = fields[0], fields[1], fields[2]
    project(gram, inverse, precision, rank, slot, rows[:, p], weights)
    if slot >= 0:
        column[:] = 0.0
    add_rows(column, rows, rank, weights)
    if slot < 0:
        column[p] = variance[p]  # which has lost less to rounding
    before = max(column[p], 0.0)
    total = before + noise
    residual = y - mean[p]
    record(gram, inverse, shift, precision, rank, slot, weights, residual, total, noise)
    apply(column, rows, rank, slot, residual, total, mean, variance)
    variance[p] = before * (noise / total)
    return 0.5 * math.log1p(before / noise)


@njit(cache=True, nogil=True)
def rows_of(positions, row_of, rank):
    """Return the rows of positions, where those of new ones follow the first `rank`, and the new ones."""
    slots, new = np.empty(positions.shape[0], dtype=np.int64), np.empty(positions.shape[0], dtype=np.int64)
    count = 0
    for i in range(positions.shape[0]):
        p = positions[i]
        if row_of[p] < 0:
            row_of[p] = rank + count
            new[count] = p
            count += 1
        slots[i] = row_of[p]
    return slots, new[:count]


@njit(cache=True, nogil=True)
def observe_all(positions, slots, ys, noises, columns, small, rows, rank, fields):
    """Condition on observations in turn; `slots` from the rank on are those of new points, with prior columns in
    `columns`.

    Returns the new rank and the information gain of these observations.
    """
    gain = 0.0
    new = 0
    for i in range(positions.shape[0]):
        slot = slots[i] if slots[i] < rank else -1
        if slot < 0:
            fields[2] = columns[new]
            new += 1
        gain += observe(positions[i], slot, ys[i], noises[i], small, rows, rank, fields)
        if slot < 0:
            rank += 1
    return rank, gain


@njit(cache=True, nogil=True)
def summit(mean, variance, std, caps, width, numbers, salt, tolerance):
    """Find the largest index mean + width std of a cell, bounded by its caps if it has any.

    Returns its position (of ties the one of smallest hash), the index, mean and std there, the largest width up to
    which no other candidate has a larger index, and the largest std. The standard deviations are written to `std` (n,).
    """
    n = mean.shape[0]
    for i in range(n):
        std[i] = math.sqrt(variance[i])
    capped = caps.shape[0] > 0
    best = -np.inf
    most = 0.0
    for i in range(n):
        index = mean[i] + width * std[i]
        if capped and caps[i] < index:
            index = caps[i]
        best = max(best, index)
        most = max(most, std[i])
    floor = best - tolerance * abs(best)
    chosen = -1
    smallest = np.uint64(0)
    for i in range(n):
        index = mean[i] + width * std[i]
        if capped and caps[i] < index:
            index = caps[i]
        if index >= floor:
            h = tie_hash(numbers[i], salt)
            if chosen < 0 or h < smallest or (h == smallest and numbers[i] < numbers[chosen]):
                chosen = i
                smallest = h
    if capped:
        return chosen, best, best, 0.0, width, most
    top_mean = mean[chosen]
    top_std = std[chosen]
    limit = np.inf
    for i in range(n):
        more = std[i] - top_std
        if more > 1e-12 * top_std:
            limit = min(limit, max((top_mean - mean[i]) / more, width))
    return chosen, top_mean + width * top_std, top_mean, top_std, limit, most


@njit(cache=True, nogil=True)
def first_by_hash(numbers, salt):
    """Return the position of the candidate of smallest hash."""
    chosen = 0
    smallest = tie_hash(numbers[0], salt)
    for i in range(1, numbers.shape[0]):
        h = tie_hash(numbers[i], salt)
        if h < smallest or (h == smallest and numbers[i] < numbers[chosen]):
            chosen = i
            smallest = h
    return chosen


@njit(cache=True, nogil=True)
def width_of(gain, log_term, norm, noise):
    """Return the width B + R sqrt(2 (g + 1 + log(N_t / delta)))."""
    return norm + noise * math.sqrt(2.0 * (gain + 1.0 + log_term))


@njit(cache=True, nogil=True)
def reach(leaf, i, width):
    """Return an upper bound of a cell's index at a width not below that of its summit; it is exact up to the limit."""
    mean, std, limit, most = leaf[i, 0], leaf[i, 1], leaf[i, 2], leaf[i, 3]
    if width <= limit:
        return mean + width * std
    return mean + limit * std + (width - limit) * most


# What `pace` has of a tree: the log term of the last round, and that up to which the bounds are valid; how much later
# than the present one that is when they are computed; and the number of cells visited since then.
LAST, VALID_UNTIL, LEAD, VISITS = range(4)


@njit(cache=True, nogil=True)
def reach_ahead(tree, leaf, count, log_term, pace, norm, noise):
    """Compute the bounds for a later log term: much later if few cells were visited since the last time."""
    many = 100 + count / 8  # a visit takes about as long as the bounds of eight cells, a call as a hundred visits
    change = 1.0
    if pace[VISITS] > many:
        change = 0.5
    elif pace[VISITS] < 0.5 * many:
        change = 2.0
    pace[LEAD] = min(max(pace[LEAD] * change, 1e-9), 1.0)
    pace[VISITS], pace[VALID_UNTIL] = 0.0, log_term + pace[LEAD]
    rebuild_tree(tree, leaf, count, pace[VALID_UNTIL], norm, noise)


@njit(cache=True, nogil=True)
def rebuild_tree(tree, leaf, count, log_term, norm, noise):
    """Compute the bounds of all cells at a later log term, and the maxima of pairs up to the root, node 1."""
    size = tree.shape[0] // 2
    for i in range(size):
        tree[size + i] = reach(leaf, i, width_of(leaf[i, 4], log_term, norm, noise)) if i < count else -np.inf
    for node in range(size - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])


@njit(cache=True, nogil=True)
def renew(tree, leaf, i, log_term, norm, noise):
    """Compute the bound of one cell, and the maxima above it."""
    node = tree.shape[0] // 2 + i
    tree[node] = reach(leaf, i, width_of(leaf[i, 4], log_term, norm, noise))
    node //= 2
    while node:
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
        node //= 2


@njit(cache=True, nogil=True)
def evaluate(fields, caps, gain, log_term, norm, noise, numbers, salt, tolerance, leaf, i, tree, ahead):
    """Find a cell's summit, write it to its leaf and the tree, and return the candidate there."""
    width = width_of(gain, log_term, norm, noise)
    chosen, _, top_mean, top_std, limit, most = summit(
        fields[0], fields[1], fields[2], caps, width, numbers, salt, tolerance
    )
    leaf[i, 0], leaf[i, 1], leaf[i, 2], leaf[i, 3], leaf[i, 4] = top_mean, top_std, limit, most, gain
    if ahead > -np.inf:
        renew(tree, leaf, i, ahead, norm, noise)
    return numbers[chosen]


FEW = 64  # cells among which a look at all is faster than a search in the tree


@njit(cache=True, nogil=True)
def select(tree, leaf, order, count, log_term, norm, noise, best, tolerance, visited, values):
    """Find the cell of largest index among `count`, ties broken by the cells' order.

    `best` is the largest index outside of the tree (-inf without one). Returns the cell, the largest index, whether the
    cell's summit has to be computed anew first because it may have moved, and how many cells of the tree were visited.
    The cell is -1 if no index reaches `best`.
    """
    if count <= FEW:
        return select_of_few(leaf, order, count, log_term, norm, noise, best, tolerance, values)
    return search(tree, leaf, order, log_term, norm, noise, best, tolerance, visited, values)


@njit(cache=True, nogil=True)
def select_of_few(leaf, order, count, log_term, norm, noise, best, tolerance, values):
    """Do what `select` does by a look at all cells."""
    for i in range(count):
        values[i] = reach(leaf, i, width_of(leaf[i, 4], log_term, norm, noise))
    for i in range(count):
        best = max(best, values[i])
    floor = best - tolerance * abs(best) if best < np.inf else best  # infinite: not computed yet
    chosen = -1
    for i in range(count):
        if values[i] >= floor:
            if width_of(leaf[i, 4], log_term, norm, noise) > leaf[i, 2]:
                return i, values[i], True, 0
            if chosen < 0 or order[i] < order[chosen]:
                chosen = i
    return chosen, best, False, 0


@njit(cache=True, nogil=True)
def search(tree, leaf, order, log_term, norm, noise, best, tolerance, visited, values):
    """Do what `select` does by visiting the cells whose bounds reach the largest index, the largest bounds first."""
    size = tree.shape[0] // 2
    stack = np.empty(128, dtype=np.int64)
    stack[0] = 1
    depth = 1
    found = 0
    while depth:
        depth -= 1
        node = stack[depth]
        if tree[node] < best - tolerance * abs(best) or tree[node] == -np.inf:
            continue
        if node < size:
            low, high = 2 * node, 2 * node + 1
            if tree[low] > tree[high]:
                low, high = high, low
            stack[depth] = low
            stack[depth + 1] = high
            depth += 2
            continue
        i = node - size
        width = width_of(leaf[i, 4], log_term, norm, noise)
        value = reach(leaf, i, width)
        if value < best - tolerance * abs(best):
            continue
        if width > leaf[i, 2]:
            return i, value, True, found
        best = max(best, value)
        visited[found] = i
        values[found] = value
        found += 1
    floor = best - tolerance * abs(best)
    chosen = -1
    for k in range(found):
        if values[k] >= floor and (chosen < 0 or order[visited[k]] < order[chosen]):
            chosen = visited[k]
    return chosen, best, False, found
