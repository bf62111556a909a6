"""Widths of confidence intervals, as free functions of numbers.

A width is the number of posterior standard deviations between the mean and an end of the interval. The functions
`srinivas_finite`, `srinivas_continuous` and `srinivas_rkhs` return beta_t of their paper, the square of the width.

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
    lambda, noise variance assumed by the posterior, in squared units of y.
size
    |D|, number of candidates.
dimension
    d, dimension of the space.
a, b
    Constants of a bound on the partial derivatives of f: each exceeds L with probability at most a exp(-(L / b)^2).
side
    Longest side of the box.
horizon
    T, number of rounds.
priors
    |U|, number of candidate priors.
intervals
    n, number of intervals that hold simultaneously.

Raises
------
ValueError
    From every function, if delta is not between 0 and 1, or if t or another count is below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits._numba_compile import plain
from scalable_bandits.checks import Floats
from scalable_bandits.formulas import _numba_widths as formulas
from scalable_bandits.specification import check_name


def check_counts(delta: float, **counts: float) -> None:
    """Check a failure probability, and numbers that count something.

    Parameters
    ----------
    delta
        Failure probability.
    counts
        Numbers by the name of the argument, each at least 1.

    Raises
    ------
    ValueError
        If delta is not between 0 and 1, or a count is below 1.
    """
    if not 0.0 < delta < 1.0:
        checks.refuse("delta", delta, "a number between 0 and 1, both excluded")
    for name, count in counts.items():
        if not count >= 1:
            checks.refuse(name, count, "a positive integer")


def srinivas_finite(t: int, size: int, delta: float) -> float:
    """Compute beta_t for a finite space and f drawn from the prior; the width is its square root.

    beta_t = 2 log(|D| t^2 pi^2 / (6 delta)). Source: Srinivas et al. 2010, Theorem 1.

    Examples
    --------
    >>> round(srinivas_finite(t=1, size=1000, delta=0.1), 3)
    19.416
    """
    check_counts(delta, t=t, size=size)
    return float(plain(formulas.beta_finite)(t, size, delta))


def srinivas_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """Compute beta_t for a box [0, side]^d and f drawn from the prior; the width is its square root.

    beta_t = 2 log(2 t^2 pi^2 / (3 delta)) + 2 d log(t^2 d b side sqrt(log(4 d a / delta))).
    Source: Srinivas et al. 2010, Theorem 2.

    Raises
    ------
    ValueError
        If a is at most delta / (4 d), where the formula is undefined; or as for every function of this module.
    """
    check_counts(delta, t=t, dimension=dimension)
    if not a > delta / (4.0 * dimension):
        checks.refuse("a", a, f"a number above delta / (4 d) = {delta / (4.0 * dimension):.3g}")
    return float(plain(formulas.beta_continuous)(t, dimension, delta, a, b, side))


def srinivas_rkhs(t: int, gain: float, delta: float, rkhs_norm: float) -> float:
    """Compute beta_t for f of bounded RKHS norm; the width is its square root.

    beta_t = 2 B^2 + 300 g log^3(t / delta). Source: Srinivas et al. 2010, Theorem 3, whose B is the squared norm.
    """
    check_counts(delta, t=t)
    return float(plain(formulas.beta_rkhs)(t, gain, delta, rkhs_norm))


def sliding_theorem(
    gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float, horizon: int
) -> float:
    """Compute the width of SW-GP-UCB, with the gain g of the observations in the window.

    B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta)). Source: Zhou & Shroff 2021, Theorem 2.

    Examples
    --------
    >>> sliding_theorem(gain=3.0, delta=100 * math.exp(-5), rkhs_norm=2.0, noise=1.0, regularization=4.0, horizon=100)
    4.0
    """
    check_counts(delta, horizon=horizon)
    return float(plain(formulas.sliding)(1.0, gain, delta, rkhs_norm, noise, regularization, horizon))


def improved(gain: float, delta: float, rkhs_norm: float, noise: float) -> float:
    """Compute the width of IGP-UCB; GP-TS has delta / 2 in place of delta.

    B + R sqrt(2 (g + 1 + log(1 / delta))). Source: Chowdhury & Gopalan 2017, Theorem 2, for lambda = 1 + 2 / T.

    Examples
    --------
    >>> improved(gain=1.0, delta=math.exp(-6), rkhs_norm=2.0, noise=1.0)
    6.0
    """
    check_counts(delta)
    return float(plain(formulas.improved)(1.0, gain, delta, rkhs_norm, noise))


def independent(intervals: int, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width for n intervals at once, if the choice of the points does not depend on the noise.

    B + R / sqrt(lambda) sqrt(2 log(2 n / delta)). The bias at x is at most B s(x), and the weights of the observations
    have at most the norm s(x) / sqrt(lambda), where s is the posterior standard deviation.
    Source: Valko et al. 2013, Lemma 1 and Theorem 1 (there R = 1 and n = |D| T S).

    Examples
    --------
    >>> independent(intervals=1, delta=2 * math.exp(-8), rkhs_norm=2.0, noise=1.0, regularization=4.0)
    4.0
    """
    check_counts(delta, intervals=intervals)
    return rkhs_norm + noise * math.sqrt(2.0 * math.log(2.0 * intervals / delta) / regularization)


def noise_factor(intervals: int, delta: float) -> float:
    """Compute how many deviations R |w| the noise of n estimates at once has at most: sqrt(2 log(2 n / delta)).

    An estimate sum_i w_i y_i of f(x) at points whose choice does not depend on the noise has a bias of at most
    B |k(x, .) - sum_i w_i k(x_i, .)| and, with probability 1 - delta, noise of at most R |w| sqrt(2 log(2 / delta)).

    Examples
    --------
    >>> noise_factor(intervals=1, delta=2 * math.exp(-8))
    4.0
    """
    check_counts(delta, intervals=intervals)
    return math.sqrt(2.0 * math.log(2.0 * intervals / delta))


def fixed_points(intervals: int, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width for n intervals at once, if the choice of the points does not depend on the noise.

    sqrt(B^2 + 2 R^2 / lambda log(2 n / delta)), never above `independent`, which adds the two parts. For the
    posterior mean, |k(x, .) - sum_i w_i k(x_i, .)|^2 + lambda |w|^2 = s^2(x), the posterior variance; the rest is the
    inequality of Cauchy and Schwarz.

    Examples
    --------
    >>> fixed_points(intervals=1, delta=2 * math.exp(-8), rkhs_norm=3.0, noise=2.0, regularization=4.0)
    5.0
    """
    return math.hypot(rkhs_norm, noise * noise_factor(intervals, delta) / math.sqrt(regularization))


def largest_loss(t: int, rkhs_norm: float, noise: float, regularization: float, delta: float) -> float:
    """Compute the largest regularized loss of t observations that is consistent with the norm bound B.

    B^2 + R^2 / lambda (t + 2 sqrt(t u) + 2 u) with u = log(t^2 pi^2 / (6 delta)). The loss is the minimum over h of
    |y - h(X)|^2 / lambda + |h|^2, which is y'(K + lambda I)^-1 y and also
    sum_i (y_i - mu_{i-1}(x_i))^2 / (lambda + s_{i-1}^2(x_i)). The minimum is at most the value at h = f. With
    probability 1 - delta, for all t, the squared noise sums to at most R^2 times the bracket.
    Source: Laurent & Massart 2000, Lemma 1, whose moment bound also holds for R-sub-Gaussian noise.
    """
    check_counts(delta, t=t)
    u = math.log(t**2 * math.pi**2 / (6.0 * delta))
    return rkhs_norm**2 + noise**2 / regularization * (t + 2.0 * math.sqrt(t * u) + 2.0 * u)


def unknown_prior_finite(t: int, size: int, delta: float) -> float:
    """Compute the width for a finite space and f drawn from one of several candidate priors.

    sqrt(2 log(2 |D| pi^2 t^2 / delta)). Source: Ziomek et al. 2025, Theorem 4.1 (A).

    Examples
    --------
    >>> round(unknown_prior_finite(t=1, size=50, delta=0.1), 3)
    4.289
    """
    check_counts(delta, t=t, size=size)
    return float(plain(formulas.unknown_prior)(t, size, delta))


def unknown_prior_continuous(t: int, dimension: int, delta: float, a: float, b: float, side: float) -> float:
    """Compute the width for a box [0, side]^d and f drawn from one of several candidate priors.

    sqrt(2 log(3 pi^2 t^2 / (2 delta)) + 2 d log(d t^2 side b sqrt(log(3 d a / (2 delta))))).
    Source: Ziomek et al. 2025, Theorem 4.1 (B).

    Raises
    ------
    ValueError
        If a is at most 2 delta / (3 d), where the formula is undefined; or as for every function of this module.
    """
    check_counts(delta, t=t, dimension=dimension)
    d = dimension
    if not a > 2.0 * delta / (3.0 * d):
        checks.refuse("a", a, f"a number above 2 delta / (3 d) = {2.0 * delta / (3.0 * d):.3g}")
    root = math.sqrt(math.log(3.0 * d * a / (2.0 * delta)))
    first = 2.0 * math.log(3.0 * math.pi**2 * t**2 / (2.0 * delta))
    return math.sqrt(first + 2.0 * d * math.log(d * t**2 * side * b * root))


def error_allowance(t: int, priors: int, delta: float, noise: float) -> float:
    """Compute xi_t, in squared units of y: the noise of n rounds that used one prior sums to at most sqrt(xi_t n).

    xi_t = 2 R^2 log(|U| pi^2 t^2 / delta). Source: Ziomek et al. 2025, Lemma 5.1 and Theorem 4.1.
    """
    check_counts(delta, t=t, priors=priors)
    return float(plain(formulas.error_allowance)(t, priors, delta, noise))


def regularised(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width of Whitehouse et al., which holds for any lambda > 0.

    B + R / sqrt(lambda) sqrt(2 (g + log(1 / delta))). With lambda = 1 this is `improved` without the 1 under the root,
    which is the price of that proof for kernel matrices that may be singular. For lambda < 1 this width is valid and
    larger; the proof of `improved` needs lambda >= 1.

    Source: Whitehouse, Ramdas & Wu 2023, a self-normalised bound in Hilbert space with regulariser lambda (there rho).
    It goes back to Abbasi-Yadkori 2013; Flynn & Reeb 2024 call it AY-GP-UCB and write it as
    sqrt(c log det(I + K / lambda) + 2 c log(1 / delta)) + B with c = R^2 / lambda.

    Examples
    --------
    >>> regularised(gain=1.0, delta=math.exp(-7), rkhs_norm=2.0, noise=1.0, regularization=4.0)
    4.0
    """
    check_counts(delta)
    return float(plain(formulas.regularised)(1.0, gain, delta, rkhs_norm, noise, regularization))


def martingale_mixture(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width of Flynn & Reeb, which holds for any lambda > 0 and is never above `regularised`.

    sqrt(B^2 + 2 R^2 / lambda (g + log(1 / delta))). Two ellipsoids contain f: the functions of norm at most B, and
    those whose values at X are within a radius of y. The radius is a tail bound for a mixture of martingales, with a
    Gaussian mixture of covariance R^2 / lambda K. The largest value at x in the intersection has a convex dual problem
    in one number alpha. At alpha = lambda the terms of y cancel, which gives this closed form; `mixture_bounds`
    computes the minimum over alpha.

    Source: Flynn & Reeb 2024, the analytic mixture bound (AMM-UCB) with c = R^2 / lambda, as the authors compute it:
    sqrt(c log det(I + K / lambda) + 2 c log(1 / delta) + B^2).

    Examples
    --------
    >>> martingale_mixture(gain=1.0, delta=math.exp(-7), rkhs_norm=3.0, noise=1.0, regularization=1.0)
    5.0
    """
    check_counts(delta)
    return float(plain(formulas.mixture)(1.0, gain, delta, rkhs_norm, noise, regularization))


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
    """Compute lower and upper bounds of f at k points, never wider than those of `martingale_mixture`.

    The largest f(x) among functions of norm at most B with |f(X) - y|^2 <= r^2 is the minimum over alpha > 0 of
    mu_alpha(x) + s_alpha(x) sqrt((r^2 - alpha y'(K + alpha I)^-1 y) / alpha + B^2). Here mu_alpha and s_alpha are
    posterior mean and standard deviation with regularization alpha, and
    r^2 = lambda y'(K + lambda I)^-1 y + R^2 (2 g + 2 log(1 / delta)).

    Source: Flynn & Reeb 2024 (DMM-UCB). The bounds of all alpha hold simultaneously, so the smallest one is valid.

    Parameters
    ----------
    gram, cross
        (n, n) prior covariance of the observed points, and (n, k) that between observed points and the k points; in
        squared units of y.
    variance
        (k,) prior variance at the k points, in squared units of y.
    y
        (n,) observations minus the prior mean, in units of y.
    delta, rkhs_norm, noise, regularization
        Failure probability, B, R and lambda, as in the other functions of this module.
    ratios
        (j,) values of alpha / lambda over which to minimise. Default: 97 values from 1e-4 to 1e4, including 1, at
        which the bounds are those of `martingale_mixture`.

    Returns
    -------
    lower, upper : ndarray
        (k,) bounds, in units of y.
    """
    check_counts(delta)
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
    """Compute the bound on the information gain, in nats, that BKB derives from sketched variances.

    a log(kappa^2 t) sum_i s_t^2(x_i) with a = 3. The sum of the current posterior variances at all observed points is
    the effective dimension; the exact sum times the logarithm bounds 2 g. Sketched variances are within a factor
    a = (1 + eps) / (1 - eps) of the exact ones, with eps = 1/2. Source: Calandriello et al. 2019, Theorem 2. The
    authors' program (`bkb_lib.py` of batch-bkb) has the same sum, but not the factors a and 2, log t in place of
    log(kappa^2 t), and sqrt(lambda) B alone in place of (1 + sqrt(2)) sqrt(lambda) B.

    Parameters
    ----------
    t
        Round, from 1.
    variances
        Sum of the posterior variances s_t^2(x_i), in units of lambda.
    largest
        Largest prior variance kappa^2, in units of lambda.
    """
    return 3.0 * math.log(max(largest * t, 1.0)) * variances


def budgeted(gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width of BKB, with the `budgeted_gain` as g.

    2 R / sqrt(lambda) sqrt(g + log(1 / delta)) + (1 + sqrt(2)) B.
    Source: Calandriello et al. 2019, Theorem 2, where sqrt(2) is 1 / sqrt(1 - eps) for eps = 1/2.

    Examples
    --------
    >>> round(budgeted(gain=1.0, delta=math.exp(-3), rkhs_norm=1.0, noise=1.0, regularization=1.0), 4)
    6.4142
    """
    check_counts(delta)
    spread = 2.0 * noise / math.sqrt(regularization)
    return spread * math.sqrt(gain + math.log(1.0 / delta)) + (1.0 + math.sqrt(2.0)) * rkhs_norm


def additive_practical(t: int, dimension: int) -> float:
    """Compute the width of Add-GP-UCB for a group of so many dimensions; no theorem holds for it.

    sqrt(0.2 d log(2 t)). Source: the program of Kandasamy, Schneider & Poczos 2015 (`getUCBUtility.m`).

    Examples
    --------
    >>> round(additive_practical(t=50, dimension=2), 4)
    1.3572
    """
    check_counts(0.5, t=t, dimension=dimension)
    return math.sqrt(0.2 * dimension * math.log(2.0 * t))


# ---- widths as values, and by name

_FORMULAS = tuple(map(plain, formulas.FORMULAS))

# Width as a function of gain, delta, rkhs_norm, noise and regularization.
GivenWidth = Callable[[float, float, float, float, float], float]


@attrs.frozen
class Width:
    """Confidence width of a policy: a formula and its constants.

    Parameters
    ----------
    formula
        Number of the formula in `_numba_widths.py`; or a function of gain and constants, which loops do not take.
    constants
        Arguments of the formula after round and gain.
    """

    formula: int | GivenWidth
    constants: tuple[float, ...]

    @classmethod
    def constant(cls, width: float) -> Width:
        """Return the width that is the same in all rounds, in standard deviations."""
        return cls(formulas.CONSTANT, (width,))

    def at(self, t: int, gain: float) -> float:
        """Return the width, in standard deviations, of round t after observations with a gain in nats."""
        if callable(self.formula):
            return self.formula(gain, *self.constants)
        return float(_FORMULAS[self.formula](t, gain, *self.constants))


WIDTHS: dict[str, int | GivenWidth] = {  # formulas that the parameter `confidence` of policies can name
    "improved": formulas.IMPROVED, "whitehouse": formulas.REGULARISED, "flynn-reeb": formulas.MIXTURE,
}  # fmt: skip


def register_width(name: str, function: GivenWidth) -> None:
    """Make a width available to policies as ``confidence=name``.

    Parameters
    ----------
    name
        Name of the width. A name that is registered already is replaced.
    function
        Width from g (nats), failure probability, B, R and lambda.

    Raises
    ------
    ValueError
        If the name is empty.
    """
    if not name:
        checks.refuse("name", name, "text that is not empty")
    WIDTHS[name] = function


def named_width(name: str, delta: float, rkhs_norm: float, noise: float, regularization: float) -> Width:
    """Return the width that a policy's `confidence` parameter selects by name.

    Parameters
    ----------
    name
        Name of the width: "improved" (`improved`), "whitehouse" (`regularised`), "flynn-reeb" (`martingale_mixture`),
        or one that was registered (`register_width`).
    delta, rkhs_norm, noise, regularization
        Failure probability, B, R and lambda, as in the other functions of this module.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    check_name("name", name, WIDTHS)
    known = (delta, rkhs_norm, noise, regularization)
    return Width(WIDTHS[name], known[:3] if WIDTHS[name] == formulas.IMPROVED else known)


def width(name: str, gain: float, delta: float, rkhs_norm: float, noise: float, regularization: float) -> float:
    """Compute the width that a policy's `confidence` parameter selects by name.

    Parameters
    ----------
    name
        Name of the width, as in `named_width`.
    gain, delta, rkhs_norm, noise, regularization
        g, failure probability, B, R and lambda, as in the other functions of this module.

    Raises
    ------
    ValueError
        If the name is unknown; or as for every function of this module.
    """
    check_counts(delta)
    return named_width(name, delta, rkhs_norm, noise, regularization).at(1, gain)
