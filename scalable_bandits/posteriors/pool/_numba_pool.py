"""Signs of fingerprints and of counts, whose products estimate kernels of sets, and the best values of many draws."""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.posteriors._numba_choice import TIE_TOLERANCE, tie_hash


@njit(cache=True, nogil=True)
def signs(words, priorities, out):
    """Fill out (n, m) with 1 and -1: the last bits of the smallest priorities (32 w + 1, m) of the bits that are 1.

    `words` (n, w) are whole numbers of 32 bits; the last row of the priorities is that of a fingerprint without bits.
    """
    smallest = np.empty(priorities.shape[1], dtype=np.uint32)
    for i in range(words.shape[0]):
        empty = True
        for k in range(words.shape[1]):
            word = np.uint64(words[i, k])
            for b in range(32):
                if (word >> np.uint64(b)) & np.uint64(1):
                    row = priorities[32 * k + b]
                    if empty:
                        smallest[:] = row
                    else:
                        for j in range(row.shape[0]):
                            smallest[j] = min(smallest[j], row[j])
                    empty = False
        if empty:
            smallest[:] = priorities[priorities.shape[0] - 1]
        for j in range(out.shape[1]):
            out[i, j] = 1.0 if smallest[j] & np.uint32(1) else -1.0


@njit(cache=True, nogil=True)
def signs_of_counts(counts, rates, costs, shifts, salts, out):
    """Fill out (n, m) with 1 and -1: hashes of consistent weighted samples of counts (n, d) (Ioffe 2010, Algorithm 1).

    `rates` and `costs` (d, m) are gamma distributed with shape 2, `shifts` (d, m) uniform, and `salts` (m,) seeds of
    the hashes. Of two points the samples are equal with a probability that is the kernel `MinMax`.
    """
    d = counts.shape[1]
    for i in range(counts.shape[0]):
        for j in range(out.shape[1]):
            least, place, level = np.inf, d, 0
            for k in range(d):
                if counts[i, k] > 0.0:
                    steps = math.floor(math.log(counts[i, k]) / rates[k, j] + shifts[k, j])
                    cost = costs[k, j] * math.exp(-rates[k, j] * (steps - shifts[k, j] + 1.0))
                    if cost < least:
                        least, place, level = cost, k, int(steps)
            own = salts[j] ^ tie_hash(place, salts[j])
            out[i, j] = 1.0 if tie_hash(level + 2**31, own) & np.uint64(1) else -1.0


@njit(cache=True, nogil=True)
def tied_with(value, other):
    """Return whether two finite values are tied."""
    return abs(value - other) <= TIE_TOLERANCE * max(abs(value), abs(other))


@njit(cache=True, nogil=True)
def insert(value, number, salt, row, row_numbers):
    """Insert a value into a row (r,) in descending order, tied ones by the hashes of their numbers; drop the last."""
    low, high = 0, row.shape[0]
    while low < high:  # the first place of a smaller value
        middle = (low + high) // 2
        if row[middle] >= value:
            low = middle + 1
        else:
            high = middle
    while low < row.shape[0] and row[low] > -np.inf and tied_with(value, row[low]):
        low += 1
    place, own = low, tie_hash(number, salt)
    while place > 0 and tied_with(value, row[place - 1]) and own <= tie_hash(row_numbers[place - 1], salt):
        place -= 1
    if place < row.shape[0]:
        for j in range(row.shape[0] - 1, place, -1):
            row[j], row_numbers[j] = row[j - 1], row_numbers[j - 1]
        row[place], row_numbers[place] = value, number


@njit(cache=True, nogil=True)
def keep_largest(values, numbers, allowed, salt, kept, kept_numbers):
    """Keep the largest of each row of values (q, k) of allowed candidates (k,) in rows of `kept` (q, r).

    They are in descending order, -inf where there are fewer; of tied ones the numbers of smallest hashes come first.
    """
    for draw in range(values.shape[0]):
        row = kept[draw]
        for i in range(values.shape[1]):
            value, last = values[draw, i], row[row.shape[0] - 1]
            if allowed[i] and (value >= last or tied_with(value, last)):
                insert(value, numbers[i], salt, row, kept_numbers[draw])


@njit(cache=True, nogil=True)
def merge_largest(values, numbers, salt, kept, kept_numbers):
    """Keep the largest of each row of values (q, k) of candidates (q, k), -1 for none, in rows of `kept` (q, r)."""
    for draw in range(values.shape[0]):
        for i in range(values.shape[1]):
            if numbers[draw, i] >= 0:
                insert(values[draw, i], numbers[draw, i], salt, kept[draw], kept_numbers[draw])


@njit(cache=True, nogil=True)
def continue_rows(rows, places, known, cross, first, factor, observed, count):
    """Compute elements `observed + known` to `observed + count` of some rows of a factor, in place.

    `places` (k,) are the rows, `cross` (k, count - first) prior covariances with the pending points from `first` on,
    whose own rows are `factor`.
    """
    for i in range(places.shape[0]):
        row = rows[places[i]]
        for j in range(known[i], count):
            width = observed + j
            row[width] = (cross[i, j - first] - np.dot(row[:width], factor[j, :width])) / factor[j, width]
