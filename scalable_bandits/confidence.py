"""Confidence widths: how many standard deviations a policy looks up. Free functions of numbers.

Notation: t round, g information gain (nats) of the observations so far, delta failure probability, B rkhs_norm,
R noise, |D| size, d dimension.
"""

from __future__ import annotations

import math


def srinivas_finite(t: int, size: int, delta: float) -> float:
    """beta_t = 2 log(|D| t^2 pi^2 / (6 delta)) of a finite space; the width is its square root.

    Source: Srinivas et al. 2010, Theorem 1.

    Examples
    --------
    >>> round(srinivas_finite(t=1, size=1000, delta=0.1), 3)
    19.416
    """
    return 2.0 * math.log(size * t**2 * math.pi**2 / (6.0 * delta))


def srinivas_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """beta_t of a box [0, side]^d, for f with derivatives above L at a rate a exp(-(L / b)^2).

    2 log(2 t^2 pi^2 / (3 delta)) + 2 d log(t^2 d b side sqrt(log(4 d a / delta))).
    Source: Srinivas et al. 2010, Theorem 2.
    """
    d = dimension
    root = math.sqrt(math.log(4.0 * d * a / delta))
    return 2.0 * math.log(2.0 * t**2 * math.pi**2 / (3.0 * delta)) + 2.0 * d * math.log(t**2 * d * b * side * root)


def srinivas_rkhs(t: int, gain: float, delta: float, rkhs_norm: float) -> float:
    """beta_t = 2 B^2 + 300 g log^3(t / delta) of an RKHS function. Source: Srinivas et al. 2010, Theorem 3."""
    return 2.0 * rkhs_norm**2 + 300.0 * gain * math.log(t / delta) ** 3


def sliding_theorem(
    gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float, horizon: int
) -> float:
    """B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta)). Source: Zhou & Shroff 2021, Theorem 2.

    Examples
    --------
    >>> sliding_theorem(gain=3.0, delta=100 * math.exp(-5), rkhs_norm=2.0, noise=1.0, regularization=4.0, horizon=100)
    4.0
    """
    return rkhs_norm + noise / math.sqrt(regularization) * math.sqrt(2.0 * gain + 2.0 * math.log(horizon / delta))


def improved(gain: float, delta: float, rkhs_norm: float, noise: float) -> float:
    """B + R sqrt(2 (g + 1 + log(1 / delta))), the width itself, not its square.

    Source: Chowdhury & Gopalan 2017, Theorem 2 (IGP-UCB; GP-TS with delta / 2).

    Examples
    --------
    >>> improved(gain=1.0, delta=math.exp(-6), rkhs_norm=2.0, noise=1.0)
    6.0
    """
    return rkhs_norm + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))


def independent(intervals: int, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """B + R / sqrt(lambda) sqrt(2 log(2 n / delta)): of n intervals on observations whose noise is independent given x.

    The bias at x is at most B s(x), the weights of the observations have the norm s(x) / sqrt(lambda) at the most.
    Source: Valko et al. 2013, Lemma 1 and Theorem 1 (R = 1 there), n = |D| T S.

    Examples
    --------
    >>> independent(intervals=1, delta=2 * math.exp(-8), rkhs_norm=2.0, noise=1.0, regularization=4.0)
    4.0
    """
    return rkhs_norm + noise * math.sqrt(2.0 * math.log(2.0 * intervals / delta) / regularization)


def largest_loss(t: int, rkhs_norm: float, noise: float, regularization: float, delta: float) -> float:
    """B^2 + R^2 / lambda (t + 2 sqrt(t u) + 2 u), u = log(t^2 pi^2 / (6 delta)): more contradicts B.

    What it bounds is the least sum of squared residuals over lambda plus squared norm, min over g of
    |y - g(X)|^2 / lambda + |g|^2 = y'(K + lambda I)^-1 y = sum_i (y_i - mu_{i-1}(x_i))^2 / (lambda + s_{i-1}^2(x_i)):
    f itself has no less, and with probability 1 - delta, for all t, the squared noise sums to at most R^2 times the
    bracket (Laurent & Massart 2000, Lemma 1, whose moment bound holds for R-sub-Gaussian noise).
    """
    u = math.log(t**2 * math.pi**2 / (6.0 * delta))
    return rkhs_norm**2 + noise**2 / regularization * (t + 2.0 * math.sqrt(t * u) + 2.0 * u)


def unknown_prior_finite(t: int, size: int, delta: float) -> float:
    """beta_t = sqrt(2 log(2 |D| pi^2 t^2 / delta)) of a finite space; the width itself, not its square.

    Source: Ziomek et al. 2025, Theorem 4.1 (A).

    Examples
    --------
    >>> round(unknown_prior_finite(t=1, size=50, delta=0.1), 3)
    4.289
    """
    return math.sqrt(2.0 * math.log(2.0 * size * math.pi**2 * t**2 / delta))


def unknown_prior_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """beta_t of a box [0, side]^d, for f with derivatives above L at a rate a exp(-(L / b)^2); the width itself.

    sqrt(2 log(3 pi^2 t^2 / (2 delta)) + 2 d log(d t^2 side b sqrt(log(3 d a / (2 delta))))), for a > 2 delta / (3 d).
    Source: Ziomek et al. 2025, Theorem 4.1 (B).
    """
    d = dimension
    root = math.sqrt(math.log(3.0 * d * a / (2.0 * delta)))
    first = 2.0 * math.log(3.0 * math.pi**2 * t**2 / (2.0 * delta))
    return math.sqrt(first + 2.0 * d * math.log(d * t**2 * side * b * root))


def error_allowance(t: int, priors: int, delta: float, noise: float) -> float:
    """xi_t = 2 R^2 log(|U| pi^2 t^2 / delta): noise alone adds up to less than sqrt(xi_t n) over n plays of a prior.

    Source: Ziomek et al. 2025, Lemma 5.1 and Theorem 4.1.
    """
    return 2.0 * noise**2 * math.log(priors * math.pi**2 * t**2 / delta)
