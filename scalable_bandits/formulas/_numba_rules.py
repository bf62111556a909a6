"""Arithmetic of widths, for loops over rounds; `confidence.py` has their sources and checks their arguments.

A width is named by a number, and its parameters are an array. Each equals the free function to the last bit.
"""

import math

from scalable_bandits._numba_compile import njit

# Numbers of widths, and their parameters.
CONSTANT = 0  # the width
FINITE = 1  # |D|, delta, scale
CONTINUOUS = 2  # d, delta, a, b, side, scale
RKHS = 3  # delta, B, scale
IMPROVED = 4  # delta, B, R
REGULARISED = 5  # delta, B, R, lambda
MIXTURE = 6  # delta, B, R, lambda
SLIDING = 7  # delta, B, R, lambda, T
UNKNOWN_PRIOR = 8  # |D|, delta, scale


@njit(cache=True, nogil=True)
def width(rule, p, t, gain):
    """Compute the width with number `rule` and parameters p, in round t after a gain in nats."""
    if rule == FINITE:
        return math.sqrt(max(2.0 * math.log(p[0] * t**2 * math.pi**2 / (6.0 * p[1])), 0.0) / p[2])
    if rule == CONTINUOUS:
        d = p[0]
        root = math.sqrt(math.log(4.0 * d * p[2] / p[1]))
        first = 2.0 * math.log(2.0 * t**2 * math.pi**2 / (3.0 * p[1]))
        beta = first + 2.0 * d * math.log(t**2 * d * p[3] * p[4] * root)
        return math.sqrt(max(beta, 0.0) / p[5])
    if rule == RKHS:
        beta = 2.0 * p[1] ** 2 + 300.0 * gain * math.pow(math.log(t / p[0]), 3.0)
        return math.sqrt(max(beta, 0.0) / p[2])
    if rule == IMPROVED:
        return p[1] + p[2] * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / p[0])))
    if rule == REGULARISED:
        return p[1] + p[2] * math.sqrt(2.0 * (gain + math.log(1.0 / p[0])) / p[3])
    if rule == MIXTURE:
        return math.sqrt(p[1] ** 2 + p[2] ** 2 * 2.0 * (gain + math.log(1.0 / p[0])) / p[3])
    if rule == SLIDING:
        return p[1] + p[2] / math.sqrt(p[3]) * math.sqrt(2.0 * gain + 2.0 * math.log(p[4] / p[0]))
    if rule == UNKNOWN_PRIOR:
        return math.sqrt(2.0 * math.log(2.0 * p[0] * math.pi**2 * t**2 / p[1])) / math.sqrt(p[2])
    return p[0]


@njit(cache=True, nogil=True)
def error_allowance(t, priors, delta, noise):
    """Compute xi_t as the free function does, of floats."""
    return 2.0 * noise**2 * math.log(priors * math.pi**2 * t**2 / delta)


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
