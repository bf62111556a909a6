"""Philox, a counter-based random number generator, for loops over rounds: the numbers of numpy's generator.

Source: Salmon, Moraes, Dror & Shaw 2011, Philox4x64-10; the reduction to a range: Lemire 2019, as numpy does it.
"""

import numpy as np

from scalable_bandits._numba_compile import njit

M0, M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)  # multipliers
W0, W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)  # steps of the key
LOW, HALF, ONE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1)


@njit(cache=True, nogil=True)
def product(a, b):
    """Return upper and lower word of a product of two words; nothing exceeds 64 bits on the way."""
    al, ah, bl, bh = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, one, other = al * bl, ah * bl, al * bh
    middle = (low >> HALF) + (one & LOW) + (other & LOW)
    return ah * bh + (one >> HALF) + (other >> HALF) + (middle >> HALF), ((middle & LOW) << HALF) | (low & LOW)


@njit(cache=True, nogil=True)
def total(a, b):
    """Return the lower word of a sum of two words."""
    low = (a & LOW) + (b & LOW)
    return ((((a >> HALF) + (b >> HALF) + (low >> HALF)) & LOW) << HALF) | (low & LOW)


@njit(cache=True, nogil=True)
def words(key0, key1, c0, c3):
    """Return the four random words of the counter (c0, 0, 0, c3)."""
    x0, x1, x2, x3 = c0, np.uint64(0), np.uint64(0), c3
    for _ in range(10):
        upper0, lower0 = product(M0, x0)
        upper1, lower1 = product(M1, x2)
        x0, x1, x2, x3 = upper1 ^ x1 ^ key0, lower1, upper0 ^ x3 ^ key1, lower0
        key0, key1 = total(key0, W0), total(key1, W1)
    return x0, x1, x2, x3


@njit(cache=True, nogil=True)
def integers(key0, key1, first, size, out):
    """Draw, for each counter from `first` on, what `generator(seed, purpose, counter).integers(size)` draws first.

    `size` is below 2^32.
    """
    span, threshold = np.uint64(size), np.uint64((2**32 - size) % size)
    for i in range(out.shape[0]):
        t, step, scaled = np.uint64(first + i), np.uint64(0), np.uint64(0)
        done = size == 1  # one value: nothing is drawn
        while not done:
            step += ONE
            for word in words(key0, key1, step, t):
                for half in (word & LOW, word >> HALF):
                    if not done:
                        scaled = half * span
                        done = (scaled & LOW) >= threshold
        out[i] = scaled >> HALF
