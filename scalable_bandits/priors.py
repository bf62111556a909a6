"""What somebody believes about the function before it is measured: a mean, a kernel, and a name for them.

Experts give such priors, or they are estimated from earlier readings of the same sensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import empirical_covariance
from scalable_bandits.kernels import Covariance, Kernel, TemporalDecay
from scalable_bandits.spaces import FiniteSpace, Space
from scalable_bandits.specification import Specification

Mean = float | Floats | Callable[[Floats, int], ArrayLike]


def _named(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not value:
        checks.refuse(field.name, value, "a name: text, not empty")


def _same(one: Mean, other: Mean) -> bool:
    return one == other if callable(one) or callable(other) else np.array_equal(one, other)


@attrs.frozen
class Prior(Specification):
    """A Gaussian-process prior with a name: a candidate, where nobody is sure which prior is right.

    Parameters
    ----------
    name
        What it is called in reports; distinct within a set of priors.
    kernel
        Prior covariance, in squared units of y; static, or one times `TemporalDecay`.
    mean
        In units of y: a number; one for each candidate of a finite space (size,); or a function m(points (k, d), t)
        of points and the round t >= 1, with values (k,).

    Raises
    ------
    ValueError, TypeError
        If the name is empty, the mean not finite; the kernel is no kernel.

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
        if callable(self.mean):
            return
        means = self._finite(self.mean)
        if means.ndim > 1 or not means.size:
            self._refuse(f"shape {means.shape}", "a number, (size,) numbers, or a function of points and round")
        object.__setattr__(self, "mean", checks.frozen(means) if means.ndim else float(means))

    def _finite(self, mean: ArrayLike) -> Floats:
        try:
            return checks.finite("mean", mean)
        except ValueError as error:  # a policy may have several priors: the error says which
            raise ValueError(f"{error} (prior {self.name!r})") from None

    def _refuse(self, given: str, allowed: str) -> NoReturn:
        checks.refuse("mean", f"{given} (prior {self.name!r})", allowed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.kernel, self.mean)  # unpickled arrays would be writable

    @property
    def moving(self) -> bool:
        """Whether the mean may change from round to round."""
        return callable(self.mean)

    def check(self, space: Space) -> None:
        """Raise ValueError unless kernel and mean fit a space."""
        self.kernel.check(space.dimension)
        if isinstance(self.mean, np.ndarray):
            sizes = [] if space.finite is None else [(space.finite.size,)]
            if self.mean.shape not in sizes:
                allowed = "a number, or a function; on a finite space also one number a candidate"
                self._refuse(f"shape {self.mean.shape}", allowed)

    def mean_at(self, points: Floats, t: int, space: FiniteSpace) -> Floats:
        """Prior mean in a round.

        Parameters
        ----------
        points
            (k, d); a mean given by candidate is known at candidates alone.
        t
            Round, from 1.
        space
            Whose candidates.

        Returns
        -------
        ndarray
            (k,) in units of y.

        Raises
        ------
        ValueError
            If the given function returns what is not finite or not one mean a point.
        """
        if callable(self.mean):
            means = self._finite(self.mean(points, t))
        else:
            given = np.asarray(self.mean)
            means = given[space.index(points)] if given.ndim else given
        if means.shape not in ((), (len(points),)):
            self._refuse(f"values of shape {means.shape}", f"({len(points)},)")
        return np.broadcast_to(means, (len(points),)).astype(np.float64)


EPSILONS = np.geomspace(1e-6, 1.0, 61)  # where the search for the best epsilon begins


def decay_log_likelihood(readings: Floats, covariance: Floats, epsilon: ArrayLike, noise_variance: float) -> Floats:
    """Log likelihood of a panel under a zero-mean first-order autoregression observed with noise.

    The rows are rounds: f_1 ~ N(0, C), f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) N(0, C), y_t = f_t + noise. In
    the coordinates of C's eigenvectors the sensors are independent, and each takes a scalar Kalman filter.

    Parameters
    ----------
    readings
        (times, n), in units of y.
    covariance
        C (n, n), in squared units.
    epsilon
        One, or (k,) of them.
    noise_variance
        In squared units.

    Returns
    -------
    ndarray
        (k,), one for each epsilon, in nats.
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
    """Estimate a prior on `Arms` from earlier readings of the same sensors, one row a round.

    The kernel is the empirical covariance of the sensors about their means times `TemporalDecay(epsilon)`, with the
    epsilon of largest likelihood.

    Parameters
    ----------
    readings
        (times, n), in units of y, evenly spaced: one row a round.
    name
        Of the prior.
    standardised
        In units in which the readings have mean 0 and, on average over the sensors, variance 1; without, in
        units of y.
    zero_mean
        The prior's mean is 0; without, the sensors' means.
    noise_variance
        Of a reading, in squared units of the prior; 5 % of the average variance if not given. It decides what
        change from one row to the next counts as forgetting.

    Raises
    ------
    ValueError
        If there are fewer than 3 rows, or no columns, a reading is not finite, or no reading ever changes.

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
        checks.refuse("readings", "readings that never change", "readings that do")
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
    """Nearest positive semi-definite matrix to a symmetric one: negative eigenvalues become 0.

    Parameters
    ----------
    matrix
        (n, n), symmetric.

    Returns
    -------
    ndarray
        (n, n), in the units of the given one.
    """
    spectrum, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    if spectrum[0] >= 0.0:
        return matrix
    clipped = (vectors * np.maximum(spectrum, 0.0)) @ vectors.T
    result: Floats = 0.5 * (clipped + clipped.T)
    return result
