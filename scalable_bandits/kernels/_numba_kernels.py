"""Loops over pairs of points: blocks of covariances, and weighted sums of a kernel's derivatives.

The inner loop runs along a row of the block, which compilers turn into vector instructions if they see that no index is
below 0, which would count from the end: that of `row[j]`, not of `row[start + j]`. So do they with the exponential
function here, for arguments x <= 0:

    k = round(x / log 2),  r = x - k log 2,  |r| <= log(2) / 2          log 2 in two parts, so that r keeps all digits
    exp(x) = 2^k (1 + r + r^2 p(r))                                      p: exponential series up to r^13 / 13!

The `exp` of the C library takes one number at a time and would dominate the time of a block of covariances. Products
and sums may be fused ("contract"), which only makes them more accurate; nothing else is rearranged, so the result for a
number does not depend on its neighbours in the array.
"""

import math

import numpy as np

from scalable_bandits._numba_compile import njit

FEW = 4  # with fewer rows or columns, rearranging the points costs more than it saves
BLOCK = 1024  # columns computed together, so that their part of a row stays in the first-level cache
LARGEST = np.finfo(np.float64).max

_PER_LOG2 = 1.0 / math.log(2.0)
_LOG2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # leading 40 bits of log 2: products with k are exact
_LOG2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")  # the rest of log 2
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
LEAST = -708.0  # exp of smaller numbers is below the smallest normal number and becomes 0

_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(2, 14))


# ---- the exponential function


@njit(cache=True, nogil=True, fastmath={"contract"})
def exponential(x):
    """Compute exp(x) for x <= 0, with an error of at most 0.7 units in the last place; NaN for NaN."""
    return 0.0 if x < LEAST else bounded_exponential(x)


@njit(cache=True, nogil=True, fastmath={"contract"})
def bounded_exponential(x):
    """Compute exp(max(x, LEAST)) for x <= 0; for loops that set a whole product to 0 below LEAST."""
    within = LEAST if x < LEAST else x  # keeps NaN
    shifted = within * _PER_LOG2 + _ROUND
    k = shifted - _ROUND
    whole = within - k * _LOG2_HIGH
    r = whole - k * _LOG2_LOW
    rest = (whole - r) - k * _LOG2_LOW  # rounding error of r
    p = _C13
    p = p * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    exponent = np.float64(shifted).view(np.int64) + 1023
    power = np.int64(exponent << 52).view(np.float64)
    head = 1.0 + r
    tail = (r - (head - 1.0)) + (rest + r * r * p)
    return power * (head + tail)


# ---- covariances


@njit(cache=True, nogil=True)
def squared_distances(X, Z, inverse_lengthscale, out):
    """Set out[i, j] = |(X[i] - Z[j]) / lengthscale|^2, from differences: no cancellation for pairs of close points."""
    if Z.shape[0] < FEW:
        for i in range(X.shape[0]):
            for j in range(Z.shape[0]):
                total = 0.0
                for k in range(X.shape[1]):
                    difference = (X[i, k] - Z[j, k]) * inverse_lengthscale[k]
                    total += difference * difference
                out[i, j] = total
        return
    for start in range(0, Z.shape[0], BLOCK):
        columns = Z[start : start + BLOCK].T
        if X.shape[0] < FEW:
            _squared_distances(X, columns, inverse_lengthscale, start, out)
        else:
            _squared_distances(X, np.ascontiguousarray(columns), inverse_lengthscale, start, out)


@njit(cache=True, nogil=True)
def _squared_distances(X, columns, inverse_lengthscale, start, out):
    """Set the columns of `out` from `start` on to the scaled squared distances of X (n, d) and columns (d, m)."""
    for i in range(X.shape[0]):
        row = out[i, start : start + columns.shape[1]]
        row[:] = 0.0
        for k in range(X.shape[1]):
            for j in range(columns.shape[1]):
                difference = (X[i, k] - columns[k, j]) * inverse_lengthscale[k]
                row[j] += difference * difference


@njit(cache=True, nogil=True)
def squared_sines(X, Z, inverse_lengthscale, frequency, out):
    """Set out[i, j] = |sin(frequency (X[i] - Z[j])) / lengthscale|^2, frequency = pi / period."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            total = 0.0
            for k in range(X.shape[1]):
                sine = math.sin((X[i, k] - Z[j, k]) * frequency) * inverse_lengthscale[k]
                total += sine * sine
            out[i, j] = total


@njit(cache=True, nogil=True)
def mismatches(X, Z, inverse_lengthscale, out):
    """Set out[i, j] = the sum over k of [X[i, k] != Z[j, k]] / lengthscale[k]."""
    columns = np.ascontiguousarray(Z.T)
    for i in range(X.shape[0]):
        row = out[i]
        row[:] = 0.0
        for k in range(X.shape[1]):
            category, inverse = X[i, k], inverse_lengthscale[k]
            for j in range(Z.shape[0]):
                row[j] += inverse if columns[k, j] != category else 0.0


@njit(cache=True, nogil=True)
def inner_products(X, Z, inverse_lengthscale, bias, out):
    """Set out[i, j] = bias + sum over k of X[i, k] Z[j, k] / lengthscale[k]^2."""
    columns = np.ascontiguousarray(Z.T)
    for i in range(X.shape[0]):
        row = out[i]
        row[:] = bias
        for k in range(X.shape[1]):
            scaled, inverse = X[i, k] * inverse_lengthscale[k], inverse_lengthscale[k]
            for j in range(Z.shape[0]):
                row[j] += scaled * (columns[k, j] * inverse)


@njit(cache=True, nogil=True)
def rbf(block):
    """Replace squared distances s by exp(-s / 2)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-0.5 * block[i, j])


@njit(cache=True, nogil=True)
def matern12(block):
    """Replace squared distances r^2 by exp(-r)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = exponential(-math.sqrt(block[i, j]))


@njit(cache=True, nogil=True)
def matern32(block):
    """Replace squared distances r^2 by (1 + a) exp(-a), a = sqrt(3) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(3.0 * block[i, j])
            value = (1.0 + a) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def matern52(block):
    """Replace squared distances r^2 by (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(5.0 * block[i, j])
            value = (1.0 + a + a * a / 3.0) * bounded_exponential(-a)
            block[i, j] = 0.0 if -a < LEAST else value  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def rational_quadratic(block, alpha):
    """Replace squared distances s by (1 + s / (2 alpha))^-alpha."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = math.exp(-alpha * math.log1p(block[i, j] / (2.0 * alpha)))


@njit(cache=True, nogil=True)
def lookup(matrix, rows, columns, out):
    """Set out[i, j] = matrix[rows[i], columns[j]]."""
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            out[i, j] = matrix[rows[i], columns[j]]


# ---- derivatives, in the second point and in the hyperparameters


@njit(cache=True, nogil=True)
def slope_of_squared_distances(X, Z, inverse_lengthscale, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] d|(X[i] - Z[j]) / lengthscale|^2 / dZ[j, k]."""
    columns = np.ascontiguousarray(Z.T)
    sums = np.zeros_like(columns)
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            for j in range(Z.shape[0]):
                sums[k, j] += weights[i, j] * (columns[k, j] - X[i, k])
    for j in range(Z.shape[0]):
        for k in range(X.shape[1]):
            if sums[k, j] != 0.0:  # 0 times an infinite square of the inverse lengthscale would be NaN
                out[j, k] += 2.0 * inverse_lengthscale[k] * inverse_lengthscale[k] * sums[k, j]


@njit(cache=True, nogil=True)
def slope_of_squared_sines(X, Z, inverse_lengthscale, frequency, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] d|sin(frequency (X[i] - Z[j])) / lengthscale|^2 / dZ[j, k]."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            w = frequency * weights[i, j]
            for k in range(X.shape[1]):
                scale = inverse_lengthscale[k] * inverse_lengthscale[k]
                out[j, k] += w * scale * math.sin(2.0 * frequency * (Z[j, k] - X[i, k]))


@njit(cache=True, nogil=True)
def slope_of_inner_products(X, Z, inverse_lengthscale, weights, out):
    """Add to out[j, k] the sum over i of weights[i, j] X[i, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            for k in range(X.shape[1]):
                out[j, k] += weights[i, j] * X[i, k] * inverse_lengthscale[k] * inverse_lengthscale[k]


@njit(cache=True, nogil=True)
def squared_distances_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] ((X[i, k] - X[j, k]) / lengthscale[k])^2; weights symmetric."""
    columns = np.ascontiguousarray(X.T)
    sums = np.zeros_like(columns)
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            for j in range(i):
                difference = (X[i, k] - columns[k, j]) * inverse_lengthscale[k]
                sums[k, j] += weights[i, j] * min(difference * difference, LARGEST)  # infinity times 0 would be NaN
    for k in range(X.shape[1]):
        out[k] += 2.0 * sums[k].sum()


@njit(cache=True, nogil=True)
def squared_sines_by_dimension(X, inverse_lengthscale, frequency, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] (sin(frequency (X[i, k] - X[j, k])) / lengthscale[k])^2.

    Add to out[d] half the derivative of the sum over i, j and k in -log(period). The weights are symmetric.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        for j in range(i):
            w = 2.0 * weights[i, j]
            for k in range(d):
                angle = (X[i, k] - X[j, k]) * frequency
                sine = math.sin(angle) * inverse_lengthscale[k]
                out[k] += w * sine * sine
                out[d] += w * sine * math.cos(angle) * inverse_lengthscale[k] * angle


@njit(cache=True, nogil=True)
def mismatches_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] [X[i, k] != X[j, k]] / lengthscale[k]; symmetric weights."""
    for i in range(X.shape[0]):
        for j in range(i):
            for k in range(X.shape[1]):
                if X[i, k] != X[j, k]:
                    out[k] += 2.0 * weights[i, j] * inverse_lengthscale[k]


@njit(cache=True, nogil=True)
def inner_products_by_dimension(X, inverse_lengthscale, weights, out):
    """Add to out[k] the sum over i, j of weights[i, j] X[i, k] X[j, k] / lengthscale[k]^2."""
    for i in range(X.shape[0]):
        for j in range(X.shape[0]):
            for k in range(X.shape[1]):
                scaled = (X[i, k] * inverse_lengthscale[k]) * (X[j, k] * inverse_lengthscale[k])
                out[k] += weights[i, j] * scaled


@njit(cache=True, nogil=True)
def rbf_slope(block):
    """Replace squared distances s by the derivative of exp(-s / 2) in s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -0.5 * exponential(-0.5 * block[i, j])


@njit(cache=True, nogil=True)
def matern12_slope(block):
    """Replace squared distances s by the derivative of exp(-sqrt(s)) in s; by 0 at s = 0, where it does not exist."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            r = math.sqrt(block[i, j])
            block[i, j] = -0.5 * exponential(-r) / r if r > 0.0 else 0.0


@njit(cache=True, nogil=True)
def matern32_slope(block):
    """Replace squared distances s by the derivative of (1 + a) exp(-a) in s, a = sqrt(3 s)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -1.5 * exponential(-math.sqrt(3.0 * block[i, j]))


@njit(cache=True, nogil=True)
def matern52_slope(block):
    """Replace squared distances s by the derivative of (1 + a + a^2 / 3) exp(-a) in s, a = sqrt(5 s)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            a = math.sqrt(5.0 * block[i, j])
            slope = -5.0 / 6.0 * (1.0 + a) * bounded_exponential(-a)
            block[i, j] = -0.0 if -a < LEAST else slope  # infinity times 0 would be NaN


@njit(cache=True, nogil=True)
def rational_quadratic_slope(block, alpha):
    """Replace squared distances s by the derivative of (1 + s / (2 alpha))^-alpha in s."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = -0.5 * math.exp(-(alpha + 1.0) * math.log1p(block[i, j] / (2.0 * alpha)))


@njit(cache=True, nogil=True)
def rational_quadratic_shape(block, alpha):
    """Replace squared distances s by the derivative of (1 + s / (2 alpha))^-alpha in log(alpha)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            u = block[i, j] / (2.0 * alpha)
            growth = math.log1p(u)
            slope = alpha * math.exp(-alpha * growth) * (u / (1.0 + u) - growth)
            block[i, j] = 0.0 if u == math.inf else slope


@njit(cache=True, nogil=True)
def spherical_points(X, centre, scale, out):
    """Set out[i, : d + 1] to P(z) = (2 z, |z|^2 - 1) / (|z|^2 + 1), for z = (X[i] - centre) scale."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        squares = 0.0
        for k in range(d):
            z = (X[i, k] - centre[k]) * scale[k]
            out[i, k] = 2.0 * z
            squares += z * z
        out[i, d] = squares - 1.0
        for k in range(d + 1):
            out[i, k] /= squares + 1.0


@njit(cache=True, nogil=True)
def spherical_peaks(weights, low, high, out):
    """Set out[i] to the z in a box where (2 v'z + u (|z|^2 - 1)) / (|z|^2 + 1) is largest, (v, u) = weights[i]."""
    d = low.shape[0]
    for i in range(out.shape[0]):
        u, best = weights[i, d], -np.inf
        for k in range(d):
            out[i, k] = min(max(0.0, low[k]), high[k])
        for _ in range(100):  # converges faster than linearly
            along, squares = 0.0, 0.0
            for k in range(d):
                along += weights[i, k] * out[i, k]
                squares += out[i, k] * out[i, k]
            quotient = (2.0 * along + u * (squares - 1.0)) / (squares + 1.0)
            if not quotient > best + 1e-15 * abs(quotient):
                break
            best, bend = quotient, u - quotient
            for k in range(d):
                v = weights[i, k]
                if bend < 0.0:
                    out[i, k] = min(max(-v / bend, low[k]), high[k])
                elif v * (high[k] - low[k]) + 0.5 * bend * (high[k] ** 2 - low[k] ** 2) < 0.0:
                    out[i, k] = low[k]
                else:
                    out[i, k] = high[k]


# ---- sets, as bits or as counts


@njit(cache=True, nogil=True)
def ones(word):
    """Return the number of bits that are 1 in a word of 64; compilers know it as one instruction."""
    pairs = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bytes_ * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True, nogil=True)
def bit_words(X, words, counts):
    """Join numbers of 32 bits, X (n, d), two by two to words (ceil(d / 2), n), whose numbers of ones are counts (n,).

    Returns whether all are whole numbers from 0 to 2^32 - 1; others are undefined in the words.
    """
    valid = True
    for i in range(X.shape[0]):
        count = np.uint64(0)
        for k in range(words.shape[0]):
            low = X[i, 2 * k]
            high = X[i, 2 * k + 1] if 2 * k + 1 < X.shape[1] else 0.0
            within = 0.0 <= low < 4294967296.0 and 0.0 <= high < 4294967296.0
            if not within or low != math.floor(low) or high != math.floor(high):
                valid, low, high = False, 0.0, 0.0
            word = np.uint64(low) | (np.uint64(high) << np.uint64(32))
            words[k, i] = word
            count += ones(word)
        counts[i] = np.float64(count)
    return valid


@njit(cache=True, nogil=True)
def shared_bits(X, Z, out):
    """Set out[i, j] to the number of bits that are 1 in both X[:, i] and Z[:, j], of words (w, n) and (w, m)."""
    both = np.empty(Z.shape[1], dtype=np.uint64)
    for i in range(X.shape[1]):
        both[:] = np.uint64(0)
        for k in range(X.shape[0]):
            word = X[k, i]
            for j in range(Z.shape[1]):
                both[j] += ones(word & Z[k, j])
        for j in range(Z.shape[1]):
            out[i, j] = np.float64(both[j])


@njit(cache=True, nogil=True)
def shared_counts(X, Z, out):
    """Set out[i, j] to the sum over k of min(X[i, k], Z[j, k])."""
    columns = np.ascontiguousarray(Z.T)
    for i in range(X.shape[0]):
        row = out[i]
        row[:] = 0.0
        for k in range(X.shape[1]):
            for j in range(Z.shape[0]):
                row[j] += min(X[i, k], columns[k, j])


@njit(cache=True, nogil=True)
def share_of_union(x_size, z_size, block):
    """Replace the sizes of intersections by their shares of the unions' sizes; two empty sets are equal."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            union = (x_size[i] + z_size[j]) - block[i, j]
            block[i, j] = block[i, j] / union if union > 0.0 else 1.0


@njit(cache=True, nogil=True)
def slope_of_shares(X, Z, weights, out):
    """Add to out[j] the sum over i of weights[i, j] times the gradient in Z[j] of their share of the union."""
    for i in range(X.shape[0]):
        for j in range(Z.shape[0]):
            both, union = 0.0, 0.0
            for k in range(X.shape[1]):
                both += min(X[i, k], Z[j, k])
                union += max(X[i, k], Z[j, k])
            if union > 0.0:
                for k in range(X.shape[1]):
                    if Z[j, k] < X[i, k]:
                        out[j, k] += weights[i, j] / union
                    elif Z[j, k] > X[i, k]:
                        out[j, k] -= weights[i, j] * both / (union * union)
