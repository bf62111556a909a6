"""Kernels from data: type-II maximum likelihood (Rasmussen & Williams 2006, section 5.4.1), with exact gradients.

    log p(y) = -1/2 r'(K + N)^-1 r - 1/2 log det(K + N) - m/2 log(2 pi),   r = y - prior mean       eq. 5.8
    d/dtheta = 1/2 tr((a a' - (K + N)^-1) dK/dtheta),   a = (K + N)^-1 r                            eq. 5.9

Values are averages of the observations at distinct points. Where the noise is learned, the scatter of the observations
around these is the other factor of the likelihood (`posteriors.collapsed`).

The maximum in the logarithms of the hyperparameters is found by L-BFGS-B from several starts. A constant prior mean, if
it is learned, has its optimal value given the kernel (generalised least squares), so that the gradient is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels.base import Hyperparameter, Kernel, Product, Scaled
from scalable_bandits.posteriors.collapsed import Scatter
from scalable_bandits.posteriors.hyperparameters import _numba_likelihood as numba_likelihood
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.randomness import generator
from scalable_bandits.specification import Specification, is_own

REACH = 1e4  # largest factor between a hyperparameter and its initial value, or a factor and the variance of y
FEW, STEP, NEAR = 8, 1e-4, 1e-2  # points, relative step and accuracy of differences that check an own kernel
AROUND = 10.0  # largest factor between random starts and the initial value, for hyperparameters without a prior


def _medians(value: Any) -> float | tuple[float, ...]:
    return checks.lengths("median", value)


@attrs.frozen
class LogNormal(Specification):
    """Log-normal prior on lengthscales, or on factors of a kernel.

    Parameters
    ----------
    median
        Median: of lengthscales in units of x, one number or one for each dimension; of factors in squared units of y.
    spread
        Standard deviation of the logarithm.

    Raises
    ------
    ValueError
        If a median or the spread is not positive.
    """

    median: float | tuple[float, ...] = attrs.field(converter=_medians)
    spread: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)

    @classmethod
    def of_sides(cls, sides: ArrayLike) -> LogNormal:
        """Return a wide prior on lengthscales that grow with the root of the dimension.

        The median is sqrt(d) exp(sqrt 2 - 3) of each side (0.29 for d = 2, 0.50 for d = 6), the mode of the density
        LogNormal(sqrt 2 + log(d) / 2, sqrt 3) of Hvarfner, Hellsten & Nardi 2024. The spread is sqrt 3.

        Parameters
        ----------
        sides
            (d,) lengths of the box's sides, in units of x.
        """
        scale = np.asarray(sides, dtype=np.float64)
        return cls(math.exp(math.sqrt(2.0) - 3.0) * math.sqrt(len(scale)) * scale, math.sqrt(3.0))

    def check(self, dimension: int) -> None:
        """Raise ValueError unless there is one median, or one for each dimension."""
        if isinstance(self.median, tuple) and len(self.median) not in (1, dimension):
            checks.refuse("median", self.median, f"one number, or {dimension} (the points' dimension)")

    def log_median(self, parameter: Hyperparameter) -> float:
        """Return the logarithm of the median of a lengthscale; their average for one that several dimensions share."""
        medians, own = np.log(np.atleast_1d(self.median)), parameter.dimensions
        return float(medians.mean() if own is None or len(medians) == 1 else medians[list(own)].mean())


def factor_shares(kernel: Kernel, share: float = 1.0) -> list[float]:
    """Return the share (p,) of each factor in the logarithm of the prior variance, in the order of hyperparameters.

    Of factors that multiply each other, the outer one has all, and those of a product's kernels have equal parts; those
    of a sum have all, each. Of other hyperparameters it means nothing.
    """
    parts = kernel.parts
    inner = [part.hyperparameters for part in parts]
    found = [share] * (len(kernel.hyperparameters) - sum(map(len, inner)))
    if isinstance(kernel, Scaled):
        share = 0.0
    elif isinstance(kernel, Product):
        share /= max(sum(any(p.name == "factor" for p in each) for each in inner), 1)
    for part in parts:
        found += factor_shares(part, share)
    return found


class Learned(NamedTuple):
    """Result of `learn_kernel`."""

    kernel: Kernel
    prior_mean: float  # in units of y
    log_likelihood: float  # log density of the observations, without the priors
    evaluations: int  # number of evaluations of the likelihood


class Likelihood:
    """Log marginal likelihood of observations, plus the log priors, as a function of log hyperparameters.

    Parameters
    ----------
    kernel
        Kernel whose hyperparameters vary.
    x
        (m, d) points.
    y
        (m,) observed values, in units of y.
    noise_variance
        (m,) noise variance of each value, in squared units of y.
    prior_mean
        Prior mean, in units of y; None: a constant is learned.
    lengthscale_prior, factor_prior
        Priors on lengthscales, and on factors: on the product of those that multiply each other; None: flat.
    noise_prior
        Prior on a factor of the noise variances, which is the last hyperparameter then; None: they are known.
    scatter
        Scatter of the observations of which the values are averages; None: each is one observation.

    Attributes
    ----------
    evaluations : int
        Number of evaluations so far.
    mean : float
        Prior mean, or its optimal value at the last evaluation, in units of y.
    """

    def __init__(
        self, kernel: Kernel, x: Floats, y: Floats, noise_variance: Floats, prior_mean: float | None = None,
        lengthscale_prior: LogNormal | None = None, factor_prior: LogNormal | None = None,
        noise_prior: LogNormal | None = None, scatter: Scatter | None = None,
    ):  # fmt: skip
        self.kernel, self.x, self.y, self.noise, self.prior_mean = kernel, x, y, noise_variance, prior_mean
        self._scatter = scatter or Scatter()
        self._learns_noise = noise_prior is not None
        names = [*kernel.hyperparameters, *([Hyperparameter("noise", 1.0)] if self._learns_noise else [])]
        by_name = {"lengthscale": lengthscale_prior, "factor": factor_prior, "noise": noise_prior}
        self._centers, self._precision = np.zeros((2, len(names)))  # of flat priors the precision is 0
        shares = [*factor_shares(kernel), 1.0]
        for i, parameter in enumerate(names):
            if (prior := by_name.get(parameter.name)) is not None:
                share = shares[i] if parameter.name == "factor" else 1.0
                self._centers[i] = share * prior.log_median(parameter)
                self._precision[i] = 1.0 / (prior.spread**2 * (share or 1.0))
        self.evaluations = 0
        self.mean = 0.0 if prior_mean is None else prior_mean

    def at(self, logs: Floats) -> tuple[Kernel, Floats]:
        """Return the kernel and the noise variances (m,) of log hyperparameters (p,)."""
        values = np.exp(logs).tolist()
        noise = self.noise * values.pop() if self._learns_noise else self.noise
        return self.kernel.with_hyperparameters(values), noise

    @property
    def least_precision(self) -> float:
        """Precision of the widest prior on a log hyperparameter; 0 if one is flat."""
        return float(self._precision.min())

    def __call__(self, logs: Floats) -> tuple[float, Floats]:
        """Return the log posterior density and its gradient (p,); -inf where rounding makes K + N indefinite."""
        value, gradient = self.likelihood(logs)
        away = logs - self._centers
        return value - 0.5 * float(self._precision @ away**2), gradient - self._precision * away

    def likelihood(self, logs: Floats) -> tuple[float, Floats]:
        """Return the log likelihood, without the priors, and its gradient (p,)."""
        self.evaluations += 1
        kernel, noise = self.at(logs)
        matrix = covariances(kernel, self.x, self.x)
        matrix.ravel()[:: len(matrix) + 1] += noise
        value, self.mean, pulls = gaussian_density(matrix, self.y, self.prior_mean)
        if pulls is None:
            return value, np.zeros(len(logs))
        gradient = kernel.sensitivity(self.x, pulls)
        around, slope = self._scatter.log_density(math.exp(logs[-1]) if self._learns_noise else 1.0)
        if self._learns_noise:
            gradient = np.append(gradient, pulls.diagonal() @ noise + slope)
        return value + around, gradient


def gaussian_density(matrix: Floats, y: Floats, prior_mean: float | None) -> tuple[float, float, Floats | None]:
    """Return the log density of values with some covariances, and its derivatives in these.

    Parameters
    ----------
    matrix
        Covariances (m, m), noise included; it is overwritten.
    y
        Values (m,).
    prior_mean
        Mean of the values; None: the one of largest density.

    Returns
    -------
    value, mean : float
        Log density, -inf where rounding makes the matrix indefinite; mean.
    pulls : ndarray or None
        Derivatives (m, m) in the covariances; None where the matrix is indefinite.
    """
    factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
    if failed or not np.isfinite(factor[-1, -1]):
        return -math.inf, 0.0 if prior_mean is None else prior_mean, None
    solved, _ = dpotrs(factor, np.column_stack([y, np.ones(len(y))]), lower=1)
    mean = float(solved[:, 0].sum() / solved[:, 1].sum()) if prior_mean is None else prior_mean
    weights = solved[:, 0] - mean * solved[:, 1]
    value = -0.5 * float((y - mean) @ weights) - float(np.log(factor.diagonal()).sum())
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    return value - 0.5 * len(y) * math.log(2.0 * math.pi), mean, numba_likelihood.pulls(inverse, weights)


def learn_kernel(
    kernel: Kernel, x: ArrayLike, y: ArrayLike, noise_variance: ArrayLike, *, prior_mean: float | None = 0.0,
    lengthscale_prior: LogNormal | None = None, factor_prior: LogNormal | None = None, restarts: int = 4,
    seed: int = 0, also: tuple[Kernel, ...] = (), precision: float = 1e-10,
) -> Learned:  # fmt: skip
    """Find the hyperparameters of largest posterior density given observations.

    Parameters
    ----------
    kernel
        Kernel with the initial values. All hyperparameters are learned but for the smoothness of a Matern kernel, each
        within a factor of 10^4 of its initial value, and output scales also of the variance of y.
    x
        (m, d) points.
    y
        (m,) observed values, in units of y.
    noise_variance
        Noise variance of the observations in squared units of y, a number or (m,).
    prior_mean
        Prior mean, in units of y; None: a constant is learned with the kernel.
    lengthscale_prior, factor_prior
        Priors on lengthscales, and on factors: on the product of those that multiply each other; None: flat.
    restarts
        Number of random starts, beside the initial values.
    seed
        Seed of the random starts.
    also
        More kernels of the same form whose values are starts.
    precision
        Relative gain of the log density below which a climb ends.

    Returns
    -------
    Learned
        Kernel, prior mean, and log likelihood of the observations.

    Raises
    ------
    ValueError
        If the numbers of points, values and noise variances differ, the kernel has no hyperparameters, or another
        number of them than of derivatives (`sensitivity`), a kernel of `also` has another form, or the precision is not
        positive.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> found = learn_kernel(1.0 * sb.RBF(1.0), x, np.sin(8.0 * x), 1e-4)
    >>> found.kernel.kernel.lengthscale < 0.4
    True
    """
    points, values, noise = _checked(kernel, x, y, noise_variance)
    _check_options(kernel, points.shape[1], prior_mean, (lengthscale_prior, factor_prior), also, precision)
    target = Likelihood(kernel, points, values, noise, prior_mean, lengthscale_prior, factor_prior)
    starts = [np.log([p.value for p in k.hyperparameters]) for k in (kernel, *also)]
    rng = generator(checks.integer("seed", seed, 0), "learn", len(values))
    around = _around_variance(kernel, starts[0], values)
    low, high = np.minimum(starts[0], around) - math.log(REACH), np.maximum(starts[0], around) + math.log(REACH)
    more = range(checks.integer("restarts", restarts, 0))
    starts += [_start(kernel, starts[0], around, lengthscale_prior, rng) for _ in more]
    best = likeliest(target, starts, low, high, precision)
    likelihood, _ = target.likelihood(best)
    return Learned(kernel.with_hyperparameters(np.exp(best).tolist()), target.mean, likelihood, target.evaluations)


def _checked(kernel: Kernel, x: ArrayLike, y: ArrayLike, noise_variance: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Check the observations; returns points (m, d), values (m,) and noise variances (m,)."""
    checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
    points = checks.finite("x", x)
    if points.ndim not in (1, 2) or not points.size:
        checks.refuse("x", f"shape {points.shape}", "(m, d) or (m,), at least one point")
    points = np.ascontiguousarray(points.reshape(len(points), -1))
    values = checks.finite("y", y, ndim=1)
    noise = checks.finite("noise_variance", noise_variance)
    if len(values) != len(points):
        checks.refuse("y", f"shape {values.shape}", f"({len(points)},), one for each point")
    if noise.shape not in ((), values.shape) or (noise <= 0).any():
        checks.refuse("noise_variance", noise_variance, f"a positive number, or {len(values)} of them")
    kernel.check(points.shape[1])
    check_learnable(kernel, points)
    return points, values, np.broadcast_to(noise, values.shape)


def check_learnable(kernel: Kernel, x: Floats) -> None:
    """Refuse a kernel without hyperparameters, or whose `sensitivity` at some of the points (m, d) is no gradient."""
    if not (given := [p.value for p in kernel.hyperparameters]):
        checks.refuse("kernel", kernel, "a kernel with hyperparameters")
    some = np.ascontiguousarray(x[np.linspace(0, len(x) - 1, min(FEW, len(x))).astype(np.int64)])
    weights = np.cos(np.subtract.outer(np.arange(len(some)), np.arange(len(some))))
    found = np.asarray(kernel.sensitivity(some, weights))
    if found.shape != (len(given),):
        allowed = f"a kernel whose `sensitivity` is ({len(given)},), a derivative for each parameter that is learned"
        checks.refuse("kernel", f"{kernel}, whose `sensitivity` has the shape {found.shape}", allowed)
    if _is_of_package(kernel):
        return
    for i, value in enumerate(given):
        ends = ((*given[:i], value * (1.0 + sign * STEP), *given[i + 1 :]) for sign in (1.0, -1.0))
        above, below = ((weights * kernel.with_hyperparameters(end).block(some)).sum() for end in ends)
        slope = float(above - below) / (2.0 * STEP)
        if not abs(found[i] - slope) <= NEAR * max(abs(slope), float(np.abs(kernel.block(some)).sum()) * 1e-3):
            name = kernel.hyperparameters[i].name
            text = f"{kernel}, whose `sensitivity` has {found[i]:.4g} for the logarithm of {name}"
            checks.refuse("kernel", text, f"the derivative, which is {slope:.4g} by differences")


def _is_of_package(kernel: Kernel) -> bool:
    return is_own(type(kernel)) and all(map(_is_of_package, kernel.parts))


def _check_options(
    kernel: Kernel, dimension: int, prior_mean: float | None, priors: tuple[LogNormal | None, ...], also: Any,
    precision: float,
) -> None:  # fmt: skip
    """Check the options of `learn_kernel`."""
    if not checks.finite("precision", precision, ndim=0) > 0.0:
        checks.refuse("precision", precision, "a positive number")
    if prior_mean is not None:
        checks.finite("prior_mean", prior_mean, ndim=0)
    for name, prior in zip(("lengthscale_prior", "factor_prior"), priors, strict=True):
        if prior is not None:
            checks.kind(name, prior, LogNormal, "a LogNormal, or None")
            prior.check(dimension if name == "lengthscale_prior" else 1)
    if not isinstance(also, tuple | list) or [type(other) for other in also] != [type(kernel)] * len(also):
        checks.refuse("also", also, f"kernels of the form of {kernel}")


def _around_variance(kernel: Kernel, begin: Floats, y: Floats) -> Floats:
    """Return log hyperparameters (p,) with the factors that the variance of y (m,) suggests, if it has any."""
    if not y.var() > 0.0:
        return begin
    which = [parameter.name == "factor" for parameter in kernel.hyperparameters]
    return np.where(which, math.log(y.var()) * np.array(factor_shares(kernel)), begin)


def _start(
    kernel: Kernel, begin: Floats, around: Floats, prior: LogNormal | None, rng: np.random.Generator
) -> Floats:  # fmt: skip
    """Draw log hyperparameters (p,): lengthscales from their prior, others around some values (p,)."""
    normal, uniform = rng.standard_normal(len(begin)), rng.uniform(-1.0, 1.0, len(begin)) * math.log(AROUND)
    start = around + uniform
    for i, parameter in enumerate(kernel.hyperparameters):
        if parameter.name == "lengthscale" and prior is not None:
            start[i] = prior.log_median(parameter) + prior.spread * normal[i]
    return start


def likeliest(
    target: Callable[[Floats], tuple[float, Floats]], starts: Iterable[Floats], low: Floats, high: Floats,
    precision: float,
) -> Floats:  # fmt: skip
    """Find the largest of the local maxima of a log posterior density that L-BFGS-B finds from some starts.

    Parameters
    ----------
    target
        Function that returns the log posterior density and its gradient (p,), such as a `Likelihood`.
    starts
        (p,) logarithms of the hyperparameters to begin with; those outside the bounds are moved there.
    low, high
        (p,) bounds of the logarithms.
    precision
        Relative gain of the density below which a climb ends.

    Returns
    -------
    ndarray
        (p,) logarithms of the hyperparameters at the maximum.
    """
    from scipy.optimize import Bounds, minimize

    def descent(logs: Floats) -> tuple[float, Floats]:
        value, gradient = target(logs)
        return (-value, -gradient) if math.isfinite(value) else (1e25, np.zeros(len(logs)))

    best, lowest = low, math.inf
    for start in starts:
        found = minimize(
            descent, np.clip(start, low, high), jac=True, method="L-BFGS-B", bounds=Bounds(low, high),
            options={"maxiter": 200, "ftol": precision, "gtol": 1e-6},
        )  # fmt: skip
        if found.fun < lowest:
            best, lowest = np.asarray(found.x), found.fun
    return best
