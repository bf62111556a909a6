"""What a policy's class defines, how it chooses, learns and recommends; and the results that follow from it.

Values are *oriented* in what a class defines: larger is better. With ``minimize=True`` the class learns -y, and the
results (`best`, `posterior`, `observations`) are turned into units of y again.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.rounds import Columns, Rule
from scalable_bandits.spaces import Domain, Indices, Mask, Space

P = ParamSpec("P")
Owner = TypeVar("Owner", bound=Any)  # has a `_lock`
Result = TypeVar("Result")


class Lock:
    """Reentrant lock of one object; a deep or pickled copy of it is a lock of its own.

    Attributes
    ----------
    held : RLock
        The lock, a context manager.
    """

    def __init__(self) -> None:
        self.held = threading.RLock()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return type(self), ()


def locked(method: Callable[Concatenate[Owner, P], Result]) -> Callable[Concatenate[Owner, P], Result]:
    """Let one thread at a time call the methods of an object that are decorated so."""

    def alone(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with self._lock.held:
            return method(self, *args, **kwargs)

    functools.update_wrapper(alone, method)
    return alone


class Best(NamedTuple):
    """Recommendation of a policy."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f at x, in units of y
    std: float  # standard deviation of the estimate, in units of y

    @property
    def value(self) -> float:
        """The mean, under the name that results have for it."""
        return self.mean


class Observations(NamedTuple):
    """Observations of a policy, averaged at each distinct point."""

    x: Floats  # (m, d) distinct points; for `Arms` (m, 1) arm numbers
    y: Floats  # (m,) precision-weighted averages, in units of y
    noise_variance: Floats  # (m,) in squared units of y, noise variances of the averages


class Algorithm(ABC):
    """Part of a policy that its class defines, and the results."""

    space: Space
    minimize: bool

    @abstractmethod
    def choose(self, allowed: Mask | None = None) -> int | Floats:
        """Choose the next point, given the observations and the pending points.

        Parameters
        ----------
        allowed
            Mask (size,) of the candidates to choose from; all if not given.

        Returns
        -------
        int or ndarray
            Number of a candidate; on a whole box a point (d,).
        """

    @abstractmethod
    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add an observation of a candidate to the model.

        Parameters
        ----------
        candidate
            Number of the candidate.
        y
            Value, oriented: larger is better.
        noise_variance
            Noise variance, in squared units of y.
        """

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return oriented posterior mean and variance of f at points (k, d) of the space's box, two (k,) arrays."""

    def bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        """Return oriented values (k,) that many standard deviations below and above the mean at points (k, d)."""
        mean, variance = self.moments(points)
        half = deviations * np.sqrt(variance)
        return mean - half, mean + half

    def recommend(self) -> Best:
        """Return the recommendation after the observations so far, with its oriented mean."""
        raise NotImplementedError(f"{type(self).__name__} has no `recommend`")

    def learned_observations(self) -> Observations | None:
        """Return the observations in the posterior, oriented; None if the policy keeps no list of them."""
        return None

    def after_tell(self) -> None:  # noqa: B027 - most policies have nothing to look at
        """Look at the observations after a `tell`; simulations do not call it."""

    def precheck(self, count: int) -> None:  # noqa: B027 - most policies have no such functions
        """Evaluate the user's functions for the next `count` rounds, so that their errors come before any change."""

    def extend(self, grown: Domain) -> None:  # noqa: B027 - not every policy has arrays of this size
        """Adapt to a domain with more points, or (after an `ask` that failed) to the previous one; may raise."""

    def untold(self) -> Indices:
        """Return the numbers (k,) of points of a whole box that were asked for and not told; empty on other domains."""
        return np.empty(0, dtype=np.int64)

    def play(self, table: Floats, noise: Floats) -> Columns | None:
        """Play rounds in a compiled loop, for simulations: the same as `propose` and `observe` round by round.

        Parameters
        ----------
        table
            Values (size,) of f at the candidates, all of which may be chosen, in units of y.
        noise
            Noise (count,) of the rounds, in units of y.

        Returns
        -------
        Columns or None
            What was played, columns (count,) or shorter; None if the policy has no such loop, or not now: then nothing
            has changed.
        """
        return None

    def rule(self) -> Rule | None:
        """Return the index of the next rounds in the form that compiled loops take; None if it has none."""
        return None

    @property
    def rounds_alike(self) -> int:
        """Number of rounds until `learn` does more than condition the model on an observation."""
        return sys.maxsize

    def after_play(self) -> None:  # noqa: B027 - most policies have nothing to do
        """Do what else `learn` does, after `rounds_alike` rounds or fewer in a compiled loop."""

    @property
    def width(self) -> float:
        """Confidence width beta of the next round; NaN for a policy without one."""
        return float("nan")

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the next round's width; NaN for a policy without one."""
        return float("nan")

    # ---- results, in units of y

    def oriented(self, values: Any) -> Any:
        """Turn values (...,) in units of y into those that the model has, where larger is better; or back."""
        return 0.0 - values if self.minimize else values  # 0 stays 0, not -0

    @locked
    def best(self) -> Best:
        """Return the recommendation after the observations so far."""
        found = self.recommend()
        return found._replace(mean=self.oriented(found.mean))

    @locked
    def posterior(self, x: ArrayLike) -> tuple[Any, Any]:
        """Return posterior mean and standard deviation of f at x; before the first `tell`, those of the prior.

        Parameters
        ----------
        x
            Point (d,) or points (k, d), not only candidates; for `Arms` an arm number or (k,) arm numbers.

        Returns
        -------
        mean, std : float, or ndarray (k,)
            In units of y.

        Raises
        ------
        ValueError
            If x is not finite, has another dimension than the space, or is not an arm.
        """
        return self._described(x, self.moments)

    @locked
    def interval(self, x: ArrayLike, level: float = 0.95) -> tuple[Any, Any]:
        """Return the central interval of the posterior of f at x.

        Where y is transformed (policies without a kernel), the interval is not symmetric about the mean.

        Parameters
        ----------
        x
            Point (d,) or points (k, d), not only candidates; for `Arms` an arm number or (k,) arm numbers.
        level
            Probability of the interval.

        Returns
        -------
        low, high : float, or ndarray (k,)
            In units of y.

        Raises
        ------
        ValueError
            If x is not valid, as in `posterior`, or the level is not between 0 and 1.
        """
        from scipy.special import ndtri

        level = checks.to_float(level)
        if not (isinstance(level, float) and 0.0 < level < 1.0):
            checks.refuse("level", level, "a number between 0 and 1, both excluded")
        points, single = self.space.parse(x)
        if not self.space.has_coordinates:
            self.space.check(x)
        ends = [self.oriented(end) for end in self.bounds(points, float(ndtri(0.5 + 0.5 * level)))]
        low, high = ends[::-1] if self.minimize else ends
        return (float(low[0]), float(high[0])) if single else (low, high)

    def _described(self, x: ArrayLike, moments: Callable[[Floats], tuple[Floats, Floats]]) -> tuple[Any, Any]:
        """Return mean and standard deviation in the shape of x, given a function from points (k, d) to moments."""
        points, single = self.space.parse(x)
        if not self.space.has_coordinates:
            self.space.check(x)
        mean, variance = moments(points)
        mean, std = self.oriented(mean), np.sqrt(variance)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    @property
    @locked
    def observations(self) -> Observations | None:
        """Observations in the posterior; None if the policy keeps no list of them or forgets gradually."""
        found = self.learned_observations()
        return None if found is None else found._replace(y=self.oriented(found.y))
