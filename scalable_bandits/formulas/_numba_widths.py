"""Formulas of widths, each written once, of numbers alone; `confidence.py` has their sources and checks arguments.

Loops call a formula of round t (a float) and gain (nats) by its number, with its constants as an array; Python
runs the same functions uncompiled. Both round alike.
"""

import math

from scalable_bandits._numba_compile import njit

# ---- betas of Srinivas et al. 2010, squares of widths


@njit(cache=True, nogil=True)
def beta_finite(t, size, delta):
    """Compute beta of a finite set with `size` arms at round t."""
    return 2.0 * math.log(size * t**2 * math.pi**2 / (6.0 * delta))


@njit(cache=True, nogil=True)
def beta_continuous(t, d, delta, a, b, side):
    """Compute beta of a compact set of d dimensions at round t."""
    root = math.sqrt(math.log(4.0 * d * a / delta))
    return 2.0 * math.log(2.0 * t**2 * math.pi**2 / (3.0 * delta)) + 2.0 * d * math.log(t**2 * d * b * side * root)


@njit(cache=True, nogil=True)
def beta_rkhs(t, gain, delta, norm):
    """Compute beta of an RKHS ball of radius `norm` at round t and a gain in nats."""
    return 2.0 * norm**2 + 300.0 * gain * math.pow(math.log(t / delta), 3.0)


# ---- formulas by number


@njit(cache=True, nogil=True)
def constant(t, gain, width):
    """Return a width that never changes."""
    return width


@njit(cache=True, nogil=True)
def finite(t, gain, size, delta, scale):
    """Compute the width of a finite set, `beta_finite` divided by `scale`."""
    return math.sqrt(max(beta_finite(t, size, delta), 0.0) / scale)


@njit(cache=True, nogil=True)
def continuous(t, gain, d, delta, a, b, side, scale):
    """Compute the width of a compact set, `beta_continuous` divided by `scale`."""
    return math.sqrt(max(beta_continuous(t, d, delta, a, b, side), 0.0) / scale)


@njit(cache=True, nogil=True)
def rkhs(t, gain, delta, norm, scale):
    """Compute the width of GP-UCB in an RKHS ball, `beta_rkhs` divided by `scale`."""
    return math.sqrt(max(beta_rkhs(t, gain, delta, norm), 0.0) / scale)


@njit(cache=True, nogil=True)
def improved(t, gain, delta, norm, noise):
    """Compute the width of IGP-UCB (Chowdhury & Gopalan 2017)."""
    return norm + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))


@njit(cache=True, nogil=True)
def regularised(t, gain, delta, norm, noise, regularization):
    """Compute the width of Whitehouse et al.; see `confidence.regularised`."""
    return norm + noise * math.sqrt(2.0 * (gain + math.log(1.0 / delta)) / regularization)


@njit(cache=True, nogil=True)
def mixture(t, gain, delta, norm, noise, regularization):
    """Compute the width of Flynn & Reeb; see `confidence.martingale_mixture`."""
    return math.sqrt(norm**2 + noise**2 * 2.0 * (gain + math.log(1.0 / delta)) / regularization)


@njit(cache=True, nogil=True)
def sliding(t, gain, delta, norm, noise, regularization, horizon):
    """Compute the width of a window or block until a horizon (Zhou & Shroff 2021)."""
    return norm + noise / math.sqrt(regularization) * math.sqrt(2.0 * gain + 2.0 * math.log(horizon / delta))


FORMULAS = (constant, finite, continuous, rkhs, improved, regularised, mixture, sliding)
CONSTANT, FINITE, CONTINUOUS, RKHS, IMPROVED, REGULARISED, MIXTURE, SLIDING = range(len(FORMULAS))


@njit(cache=True, nogil=True)
def width(number, p, t, gain):
    """Compute the formula with a number and constants p."""
    if number == FINITE:
        return finite(t, gain, p[0], p[1], p[2])
    if number == CONTINUOUS:
        return continuous(t, gain, p[0], p[1], p[2], p[3], p[4], p[5])
    if number == RKHS:
        return rkhs(t, gain, p[0], p[1], p[2])
    if number == IMPROVED:
        return improved(t, gain, p[0], p[1], p[2])
    if number == REGULARISED:
        return regularised(t, gain, p[0], p[1], p[2], p[3])
    if number == MIXTURE:
        return mixture(t, gain, p[0], p[1], p[2], p[3])
    if number == SLIDING:
        return sliding(t, gain, p[0], p[1], p[2], p[3], p[4])
    return p[0]


# ---- several priors (Ziomek et al. 2025)


@njit(cache=True, nogil=True)
def unknown_prior(t, size, delta):
    """Compute the width of PE-GP-UCB for `size` priors at round t."""
    return math.sqrt(2.0 * math.log(2.0 * size * math.pi**2 * t**2 / delta))


@njit(cache=True, nogil=True)
def error_allowance(t, priors, delta, noise):
    """Compute xi_t in squared units of y; see `confidence.error_allowance`."""
    return 2.0 * noise**2 * math.log(priors * math.pi**2 * t**2 / delta)
