"""Confidence widths: how many standard deviations a policy looks up. Free functions of numbers.

Parameters
----------
t
    Round, from 1.
gain
    g, information gain of the observations so far, in nats.
delta
    Failure probability, between 0 and 1.
rkhs_norm
    B, bound on the RKHS norm of f.
noise
    R, sub-Gaussian constant of the noise, in units of y.
regularization
    lambda, the noise variance that the posterior takes, in squared units of y.
size
    |D|, number of candidates.
dimension
    d, of the points.
a, b
    Partial derivatives of f exceed L with probability at most a exp(-(L / b)^2).
side
    Longest side of the box.
horizon
    T, number of rounds.
priors
    |U|, how many candidate priors.

Raises
------
ValueError
    From every function, if delta is not between 0 and 1, or t or another count is below 1.
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import nearest


def _check(delta: float, **counts: float) -> None:
    if not 0.0 < delta < 1.0:
        checks.refuse("delta", delta, "a number between 0 and 1, both excluded")
    for name, count in counts.items():
        if not count >= 1:
            checks.refuse(name, count, "a positive integer")


def srinivas_finite(t: int, size: int, delta: float) -> float:
    """beta_t = 2 log(|D| t^2 pi^2 / (6 delta)) of a finite space; the width is its square root.

    Source: Srinivas et al. 2010, Theorem 1.

    Examples
    --------
    >>> round(srinivas_finite(t=1, size=1000, delta=0.1), 3)
    19.416
    """
    _check(delta, t=t, size=size)
    return 2.0 * math.log(size * t**2 * math.pi**2 / (6.0 * delta))


def srinivas_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """beta_t of a box [0, side]^d, for f with derivatives above L at a rate a exp(-(L / b)^2).

    2 log(2 t^2 pi^2 / (3 delta)) + 2 d log(t^2 d b side sqrt(log(4 d a / delta))).
    Source: Srinivas et al. 2010, Theorem 2.

    Raises
    ------
    ValueError
        If a is not above delta / (4 d), below which the formula has no value; and as all of these functions.
    """
    _check(delta, t=t, dimension=dimension)
    d = dimension
    if not a > delta / (4.0 * d):
        checks.refuse("a", a, f"a number above delta / (4 d) = {delta / (4.0 * d):.3g}")
    root = math.sqrt(math.log(4.0 * d * a / delta))
    return 2.0 * math.log(2.0 * t**2 * math.pi**2 / (3.0 * delta)) + 2.0 * d * math.log(t**2 * d * b * side * root)


def srinivas_rkhs(t: int, gain: float, delta: float, rkhs_norm: float) -> float:
    """beta_t = 2 B^2 + 300 g log^3(t / delta) of an RKHS function. Source: Srinivas et al. 2010, Theorem 3."""
    _check(delta, t=t)
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
    _check(delta, horizon=horizon)
    return rkhs_norm + noise / math.sqrt(regularization) * math.sqrt(2.0 * gain + 2.0 * math.log(horizon / delta))


def improved(gain: float, delta: float, rkhs_norm: float, noise: float) -> float:
    """B + R sqrt(2 (g + 1 + log(1 / delta))), the width itself, not its square.

    Source: Chowdhury & Gopalan 2017, Theorem 2 (IGP-UCB; GP-TS with delta / 2).

    Examples
    --------
    >>> improved(gain=1.0, delta=math.exp(-6), rkhs_norm=2.0, noise=1.0)
    6.0
    """
    _check(delta)
    return rkhs_norm + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))


def independent(intervals: int, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """B + R / sqrt(lambda) sqrt(2 log(2 n / delta)): of n intervals on observations whose noise is independent given x.

    The bias at x is at most B s(x), the weights of the observations have the norm s(x) / sqrt(lambda) at the most.
    Source: Valko et al. 2013, Lemma 1 and Theorem 1 (R = 1 there), n = |D| T S.

    Parameters
    ----------
    intervals
        n, how many are to hold at once.
    delta, rkhs_norm, noise, regularization
        As of all of these functions.

    Examples
    --------
    >>> independent(intervals=1, delta=2 * math.exp(-8), rkhs_norm=2.0, noise=1.0, regularization=4.0)
    4.0
    """
    _check(delta, intervals=intervals)
    return rkhs_norm + noise * math.sqrt(2.0 * math.log(2.0 * intervals / delta) / regularization)


def largest_loss(t: int, rkhs_norm: float, noise: float, regularization: float, delta: float) -> float:
    """B^2 + R^2 / lambda (t + 2 sqrt(t u) + 2 u), u = log(t^2 pi^2 / (6 delta)): more contradicts B.

    What it bounds is the least sum of squared residuals over lambda plus squared norm, min over g of
    |y - g(X)|^2 / lambda + |g|^2 = y'(K + lambda I)^-1 y = sum_i (y_i - mu_{i-1}(x_i))^2 / (lambda + s_{i-1}^2(x_i)):
    f itself has no less, and with probability 1 - delta, for all t, the squared noise sums to at most R^2 times the
    bracket (Laurent & Massart 2000, Lemma 1, whose moment bound holds for R-sub-Gaussian noise).
    """
    _check(delta, t=t)
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
    _check(delta, t=t, size=size)
    return math.sqrt(2.0 * math.log(2.0 * size * math.pi**2 * t**2 / delta))


def unknown_prior_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """beta_t of a box [0, side]^d, for f with derivatives above L at a rate a exp(-(L / b)^2); the width itself.

    sqrt(2 log(3 pi^2 t^2 / (2 delta)) + 2 d log(d t^2 side b sqrt(log(3 d a / (2 delta))))), for a > 2 delta / (3 d).
    Source: Ziomek et al. 2025, Theorem 4.1 (B).

    Raises
    ------
    ValueError
        If a is not above 2 delta / (3 d), below which the formula has no value; and as all of these functions.
    """
    _check(delta, t=t, dimension=dimension)
    d = dimension
    if not a > 2.0 * delta / (3.0 * d):
        checks.refuse("a", a, f"a number above 2 delta / (3 d) = {2.0 * delta / (3.0 * d):.3g}")
    root = math.sqrt(math.log(3.0 * d * a / (2.0 * delta)))
    first = 2.0 * math.log(3.0 * math.pi**2 * t**2 / (2.0 * delta))
    return math.sqrt(first + 2.0 * d * math.log(d * t**2 * side * b * root))


def error_allowance(t: int, priors: int, delta: float, noise: float) -> float:
    """xi_t = 2 R^2 log(|U| pi^2 t^2 / delta): noise alone adds up to less than sqrt(xi_t n) over n plays of a prior.

    Source: Ziomek et al. 2025, Lemma 5.1 and Theorem 4.1.
    """
    _check(delta, t=t, priors=priors)
    return 2.0 * noise**2 * math.log(priors * math.pi**2 * t**2 / delta)


def regularised(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """B + R / sqrt(lambda) sqrt(2 (g + log(1 / delta))), for any lambda > 0.

    With lambda = 1 it is `improved` without the 1 under the root, which that proof pays for a kernel matrix that may be
    singular. Below lambda = 1 this one holds and is wider; `improved` was proven for lambda >= 1.

    Source: Whitehouse, Ramdas & Wu 2023, a self-normalised bound in Hilbert space with the regulariser lambda (there
    rho), which goes back to Abbasi-Yadkori 2013: Flynn & Reeb 2024 compare with it as AY-GP-UCB,
    sqrt(c log det(I + K / lambda) + 2 c log(1 / delta)) + B with c = R^2 / lambda.

    Examples
    --------
    >>> regularised(gain=1.0, delta=math.exp(-7), rkhs_norm=2.0, noise=1.0, regularization=4.0)
    4.0
    """
    _check(delta)
    return rkhs_norm + noise * math.sqrt(2.0 * (gain + math.log(1.0 / delta)) / regularization)


def martingale_mixture(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """sqrt(B^2 + R^2 / lambda 2 (g + log(1 / delta))): never above `regularised`, for any lambda > 0.

    The set of functions of norm at most B whose values fit y within a radius (a tail bound for a mixture of
    martingales, with a Gaussian mixture of covariance R^2 / lambda K) is an intersection of two ellipsoids; the
    largest value in it at x has a convex dual over one number alpha, in closed form at alpha = lambda, where the
    terms of y cancel.

    Source: Flynn & Reeb 2024, the analytic mixture bound (AMM-UCB) with c = R^2 / lambda, as the authors compute it:
    sqrt(c log det(I + K / lambda) + 2 c log(1 / delta) + B^2). See also `mixture_bounds` for the minimum over alpha.

    Examples
    --------
    >>> martingale_mixture(gain=1.0, delta=math.exp(-7), rkhs_norm=3.0, noise=1.0, regularization=1.0)
    5.0
    """
    _check(delta)
    return math.sqrt(rkhs_norm**2 + noise**2 * 2.0 * (gain + math.log(1.0 / delta)) / regularization)


def mixture_bounds(
    gram: Floats,
    cross: Floats,
    variance: Floats,
    y: Floats,
    *,
    delta: float,
    rkhs_norm: float,
    noise: float,
    regularization: float,
    ratios: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Lower and upper bounds of f at k points, by the dual of the convex problem of which `martingale_mixture` is one
    value.

    The largest f(x) among functions of norm at most B with |f(X) - y|^2 <= r^2 is the minimum over alpha > 0 of
    mu_alpha(x) + s_alpha(x) sqrt((r^2 - alpha y'(K + alpha I)^-1 y) / alpha + B^2), where mu_alpha and s_alpha are the
    posterior's with regularization alpha and r^2 = lambda y'(K + lambda I)^-1 y + R^2 (2 g + 2 log(1 / delta)).

    Source: Flynn & Reeb 2024 (DMM-UCB; all alpha hold at once, so that the smallest may be taken).

    Parameters
    ----------
    gram, cross, variance, y
        (n, n) and (n, k) covariances of the observed points, (k,) prior variances, (n,) observations less the prior
        mean.
    delta, rkhs_norm, noise, regularization
        As of all of these functions.
    ratios
        (j,) alpha / lambda to take the minimum over; 97 of them from 1e-4 to 1e4 if not given, 1 among them.

    Returns
    -------
    lower, upper : ndarray
        (k,), in units of y.
    """
    _check(delta)
    eigenvalues, vectors = np.linalg.eigh(gram)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    rotated, projected = vectors.T @ y, vectors.T @ cross
    lam = regularization
    spread = noise**2 * (np.log1p(eigenvalues / lam).sum() + 2.0 * math.log(1.0 / delta))
    radius = lam * float(rotated**2 @ (1.0 / (eigenvalues + lam))) + spread
    lower, upper = np.full(len(variance), -np.inf), np.full(len(variance), np.inf)
    for ratio in np.logspace(-4, 4, 97) if ratios is None else ratios:
        alpha = ratio * lam
        inverse = 1.0 / (eigenvalues + alpha)
        mean = (rotated * inverse) @ projected
        std = np.sqrt(np.maximum(variance - inverse @ projected**2, 0.0))
        room = radius - alpha * float(rotated**2 @ inverse)
        wide = std * math.sqrt(max(room / alpha + rkhs_norm**2, 0.0))
        lower, upper = np.maximum(lower, mean - wide), np.minimum(upper, mean + wide)
    return lower, upper


def budgeted_gain(t: int, variances: float, largest: float) -> float:
    """a log(kappa^2 t) times the sum over the points played of their present variances, a = 3.

    The sum is the effective dimension; times the logarithm it bounds 2 g. Source: Calandriello et al. 2019,
    Theorem 2, where sketched variances are within a factor a = (1 + e) / (1 - e) of the exact ones, e = 1/2. The
    authors' program (`bkb_lib.py` of batch-bkb) sums the same variances, without the factors a and 2, with log t, and
    with sqrt(lambda) B alone.

    Parameters
    ----------
    t
        Round, from 1.
    variances
        Sum of s^2, in units of lambda.
    largest
        kappa^2, the largest prior variance, in units of lambda.
    """
    return 3.0 * math.log(max(largest * t, 1.0)) * variances


def budgeted(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """2 R / sqrt(lambda) sqrt(g + log(1 / delta)) + (1 + sqrt(2)) B, where g is the `budgeted_gain`.

    Source: Calandriello et al. 2019, Theorem 2, 1 / sqrt(1 - e) = sqrt(2).

    Examples
    --------
    >>> round(budgeted(gain=1.0, delta=math.exp(-3), rkhs_norm=1.0, noise=1.0, regularization=1.0), 4)
    6.4142
    """
    _check(delta)
    spread = 2.0 * noise / math.sqrt(regularization)
    return spread * math.sqrt(gain + math.log(1.0 / delta)) + (1.0 + math.sqrt(2.0)) * rkhs_norm


WIDTHS = ("improved", "whitehouse", "flynn-reeb")


def width(name: str, gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Width that a policy's `confidence` names.

    Parameters
    ----------
    name
        "improved" (`improved`), "whitehouse" (`regularised`) or "flynn-reeb" (`martingale_mixture`).
    gain, delta, rkhs_norm, noise, regularization
        As of all of these functions.

    Raises
    ------
    ValueError
        If there is no width of that name; and as all of these functions.
    """
    if name == "improved":
        return improved(gain, delta, rkhs_norm, noise)
    if name not in WIDTHS:
        checks.refuse("name", name, nearest(name, WIDTHS))
    bound = {"whitehouse": regularised, "flynn-reeb": martingale_mixture}[name]
    return bound(gain, delta, rkhs_norm, noise, regularization)
