"""Exponential function for arguments x <= 0, in a form that compilers turn into vector instructions.

    k = round(x / log 2),  r = x - k log 2,  |r| <= log(2) / 2          log 2 in two parts, so that r keeps all digits
    exp(x) = 2^k (1 + r + r^2 p(r))                                      p: exponential series up to r^13 / 13!

The `exp` of the C library takes one number at a time and would dominate the time of a block of covariances. Products
and sums may be fused ("contract"), which only makes them more accurate; nothing else is rearranged, so the result for a
number does not depend on its neighbours in the array.
"""

import math

import numpy as np

from scalable_bandits._numba_compile import njit

_PER_LOG2 = 1.0 / math.log(2.0)
_LOG2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # leading 40 bits of log 2: products with k are exact
_LOG2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")  # the rest of log 2
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
LEAST = -708.0  # exp of smaller numbers is below the smallest normal number and becomes 0

_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(2, 14))


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
