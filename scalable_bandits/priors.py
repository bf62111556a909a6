"""Named Gaussian-process priors, given by an expert or estimated from earlier readings of the same sensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import empirical_covariance
from scalable_bandits.kernels import Covariance, Kernel, TemporalDecay
from scalable_bandits.kernels.structured import with_categories
from scalable_bandits.spaces import FiniteSpace, Space
from scalable_bandits.spaces.domain import NumberedPoints
from scalable_bandits.specification import Specification

Mean = float | Floats | Callable[[Floats, int], ArrayLike]


def _named(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not value:
        checks.refuse(field.name, value, "a name: text that is not empty")


def _same(one: Mean, other: Mean) -> bool:
    return one == other if callable(one) or callable(other) else np.array_equal(one, other)


def _negative(mean: Callable[[Floats, int], ArrayLike], points: Floats, t: int) -> Floats:
    return -np.asarray(mean(points, t), dtype=np.float64)


def check_mean(name: str, mean: float | Floats, space: Space) -> None:
    """Raise ValueError if a prior mean is neither a number nor an array of one number for each candidate of a space.

    Parameters
    ----------
    name
        Name of the argument, for messages.
    mean
        Prior mean, in units of y: a number, or an array (size,).
    space
        Space of the function.
    """
    sizes = [()] if space.finite is None else [(), (space.finite.size,)]
    if np.shape(mean) not in sizes:
        allowed = "a number, or a function; on a finite space also one number for each candidate"
        checks.refuse(name, f"shape {np.shape(mean)}", allowed)


def mean_values(
    name: str, mean: float | Floats | Callable[[Floats], ArrayLike], points: Floats, numbered: NumberedPoints
) -> Floats:  # fmt: skip
    """Compute a prior mean (k,), in units of y, at points (k, d).

    Parameters
    ----------
    name
        Name of the argument, for messages.
    mean
        Prior mean, in units of y: a number, an array (size,) by number of the point, or a function of points (k, d).
    points
        Points (k, d), in units of x; numbered ones if the mean is an array.
    numbered
        Points by number.

    Raises
    ------
    ValueError
        If the function returns values that are not finite or of the wrong shape.
    """
    if not len(points):
        return np.empty(0)
    if callable(mean):
        means = checks.finite(name, mean(points))
    else:
        given = np.asarray(mean)
        means = given[numbered.index(points)] if given.ndim else given
    if means.shape not in ((), (len(points),)):
        checks.refuse(name, f"values of shape {means.shape}", f"({len(points)},), one for each point")
    return np.broadcast_to(means, (len(points),)).astype(np.float64)


@attrs.frozen
class Prior(Specification):
    """Gaussian-process prior with a name, one of several among which a policy chooses.

    Parameters
    ----------
    name
        Name in reports; unique within a set of priors.
    kernel
        Prior covariance, in squared units of y; a static kernel, or one times `TemporalDecay`.
    mean
        Prior mean, in units of y: a number; an array (size,), one number for each candidate of a finite space; or a
        function m(points, t) of points (k, d) and the round t >= 1 that returns (k,).

    Raises
    ------
    ValueError, TypeError
        If the name is empty or the mean is not finite; if the kernel is invalid.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Prior("flat", sb.RBF(0.2), mean=1.5).to_dict()["mean"]
    1.5
    """

    name: str = attrs.field(validator=_named)
    kernel: Kernel = attrs.field(validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))
    mean: Mean = attrs.field(default=0.0, eq=attrs.cmp_using(eq=_same), hash=False)

    def __attrs_post_init__(self) -> None:
        with self._named():
            if callable(self.mean):
                checks.takes("mean", self.mean, "points", "t")
                return
            means = checks.finite("mean", self.mean)
            if means.ndim > 1 or not means.size:
                allowed = "a number, an array (size,), or a function of points and round"
                checks.refuse("mean", f"shape {means.shape}", allowed)
        object.__setattr__(self, "mean", checks.frozen(means) if means.ndim else float(means))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Have errors of the mean name the prior: a policy may have several."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{error} (prior {self.name!r})") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.kernel, self.mean)  # default unpickling would make the array writable

    @property
    def moving(self) -> bool:
        """Whether the mean may change from round to round."""
        return callable(self.mean)

    def on(self, space: Space) -> Prior:
        """Return the prior of a model on a space, which has a `Hamming` kernel of its unordered parameters."""
        return attrs.evolve(self, kernel=with_categories(self.kernel, space.unordered, space.model_dimension))

    def negated(self) -> Prior:
        """Return the prior of -f."""
        mean = functools.partial(_negative, self.mean) if callable(self.mean) else -np.asarray(self.mean)
        return attrs.evolve(self, mean=mean)

    def check(self, space: Space) -> None:
        """Raise ValueError unless kernel and mean fit the space."""
        self.on(space).kernel.check(space.model_dimension)
        if not callable(self.mean):
            with self._named():
                check_mean("mean", self.mean, space)

    def mean_at(self, points: Floats, t: int, space: FiniteSpace) -> Floats:
        """Compute the prior mean in a round.

        Parameters
        ----------
        points
            Points (k, d), in units of x; candidates if the mean is given as an array.
        t
            Round, at least 1.
        space
            Space of the candidates.

        Returns
        -------
        ndarray
            Prior means (k,), in units of y.

        Raises
        ------
        ValueError
            If the mean's function returns values that are not finite or of the wrong shape.
        """
        mean = self.mean
        with self._named():
            return mean_values("mean", (lambda x: mean(x, t)) if callable(mean) else mean, points, space)


EPSILONS = np.geomspace(1e-6, 1.0, 61)  # starting grid of the search for the likeliest epsilon


def decay_log_likelihood(readings: Floats, covariance: Floats, epsilon: ArrayLike, noise_variance: float) -> Floats:
    """Compute the log likelihood of readings under a zero-mean first-order autoregression observed with noise.

    Each row is a round: f_1 ~ N(0, C), f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) N(0, C), y_t = f_t + noise. In
    the basis of C's eigenvectors the coordinates are independent, so that scalar Kalman filters suffice.

    Parameters
    ----------
    readings
        Readings (times, n) of n sensors, in units of y.
    covariance
        Covariance C (n, n), in squared units of y.
    epsilon
        One rate of change, or (k,) of them.
    noise_variance
        Variance of the noise, in squared units of y.

    Returns
    -------
    ndarray
        Log likelihoods (k,), one for each epsilon, in nats.
    """
    spectrum, vectors = np.linalg.eigh(covariance)
    prior = np.maximum(spectrum, 0.0)
    forgotten = np.asarray(epsilon, dtype=np.float64)[..., None]
    kept = np.sqrt(1.0 - forgotten)
    mean, variance = np.zeros((*forgotten.shape[:-1], len(prior))), prior
    total = np.zeros(forgotten.shape[:-1])
    for row in readings @ vectors:
        predicted = variance + noise_variance
        error = row - mean
        total = total - 0.5 * (np.log(2.0 * np.pi * predicted) + error**2 / predicted).sum(axis=-1)
        mean = kept * (mean + variance / predicted * error)
        variance = (1.0 - forgotten) * (variance * noise_variance / predicted) + forgotten * prior
    return total


def prior_from_panel(
    readings: ArrayLike,
    name: str = "panel",
    *,
    standardised: bool = False,
    zero_mean: bool = False,
    noise_variance: float | None = None,
) -> Prior:
    """Estimate a prior on `Arms` from earlier readings of the same sensors.

    The kernel is the empirical covariance of the sensors about their means, times `TemporalDecay(epsilon)` with the
    epsilon of largest likelihood.

    Parameters
    ----------
    readings
        Readings (times, n) of n sensors, in units of y; one row a round, at equal intervals.
    name
        Name of the prior.
    standardised
        Whether the readings are first shifted and scaled to mean 0 and, averaged over the sensors, variance 1. If
        False, the prior is in units of y.
    zero_mean
        Whether the prior mean is 0. If False, it is the mean reading of each sensor.
    noise_variance
        Noise variance of a reading, in squared units of the prior; 5 % of the average variance if not given. A larger
        value attributes more of the change between rows to noise and less to forgetting.

    Raises
    ------
    ValueError
        If there are fewer than 3 rows or no columns, a reading is not finite, or no sensor's readings change.

    References
    ----------
    Bogunovic, Scarlett & Cevher 2016, section 5; Ziomek et al. 2025, section 7 (zero mean).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> prior = prior_from_panel(rng.standard_normal((50, 3)).cumsum(axis=0), "walk")
    >>> prior.kernel.epsilon < 0.5
    True
    """
    from scipy.optimize import minimize_scalar

    standardised, zero_mean = checks.flag("standardised", standardised), checks.flag("zero_mean", zero_mean)
    panel = checks.finite("readings", readings, ndim=2)
    if len(panel) < 3 or not panel.size:
        checks.refuse("readings", f"an array of shape {panel.shape}", "at least 3 rows (times), 1 column (sensor)")
    spread = float(panel.var(axis=0).mean())
    if not spread:
        checks.refuse("readings", "readings that never change", "readings that change over time")
    if standardised:
        panel = (panel - panel.mean()) / spread**0.5
    means = panel.mean(axis=0)
    centered, covariance = panel - means, semidefinite(empirical_covariance(panel))
    noise = 0.05 * float(covariance.diagonal().mean()) if noise_variance is None else checks.to_float(noise_variance)
    if not isinstance(noise, float) or not 0.0 < noise < np.inf:
        checks.refuse("noise_variance", noise_variance, "a positive number")
    found = int(np.argmax(decay_log_likelihood(centered, covariance, EPSILONS, noise)))
    low, high = np.log(EPSILONS[[max(found - 1, 0), min(found + 1, len(EPSILONS) - 1)]])
    refined = minimize_scalar(
        lambda u: -float(decay_log_likelihood(centered, covariance, np.exp(u), noise)),
        bounds=(low, high),
        method="bounded",
    )
    kernel = Covariance(covariance) * TemporalDecay(min(1.0, float(np.exp(refined.x))))
    return Prior(name, kernel, 0.0 if zero_mean else means)


def semidefinite(matrix: Floats) -> Floats:
    """Return the nearest positive semi-definite matrix: negative eigenvalues become 0.

    Parameters
    ----------
    matrix
        Symmetric matrix (n, n), in any unit.

    Returns
    -------
    ndarray
        Positive semi-definite matrix (n, n), in the same unit.
    """
    spectrum, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    if spectrum[0] >= 0.0:
        return matrix
    clipped = (vectors * np.maximum(spectrum, 0.0)) @ vectors.T
    result: Floats = 0.5 * (clipped + clipped.T)
    return result
