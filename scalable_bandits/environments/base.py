"""Interface of an environment: noisy observations, and the mean and optimum from which regret is computed."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.randomness import RoundStream
from scalable_bandits.spaces import AvailabilitySets, FiniteSpace, Space, availability
from scalable_bandits.spaces.finite import counted
from scalable_bandits.specification import Specification, is_own

TABLE_LIMIT = 10_000_000  # largest number of candidates whose values are kept in a table
MOST_EVALUATED = 50_000_000  # largest number of candidates that are all evaluated to find the optimum
AT_ONCE = 1_000_000  # candidates evaluated at a time where there is no table
IN_ADVANCE = 100_000  # largest number of candidates at which f is evaluated one by one before they are played


@functools.lru_cache(maxsize=64)
def _foreign(kind: type, *methods: str) -> str:
    """Return the first of some methods of a class that is not of this package; empty if all are."""
    return next((name for name in methods if not is_own(getattr(kind, name))), "")


class Environment(Specification):
    """A function on a space, observed with noise. Larger is better.

    Parameters
    ----------
    space
        The domain D.
    noise
        Noise distribution; standard normal if not given.
    seed
        Seed of the noise. The noise of round t is a function of the seed and t alone.

    Attributes
    ----------
    tabulated : bool
        Whether f may be evaluated once for each candidate and looked up afterwards.
    one_by_one : bool
        Whether f is evaluated point by point, so that a simulation of fewer rounds than candidates evaluates it only at
        those that are played.
    changing : bool
        Whether f may differ from round to round.
    same_noise_everywhere : bool
        Whether the noise of a round is the same at all points.

    Raises
    ------
    ValueError
        If the space, the noise or the seed is invalid. Every method raises it for points outside the space.
    """

    tabulated = True
    one_by_one = False
    changing = False
    same_noise_everywhere = True

    def __init__(self, space: Space, noise: Noise | None = None, seed: int = 0):
        checks.kind("space", space, Space, "a Box, a Grid, Points or Arms")
        self.space = space
        self.seed = checks.integer("seed", seed, 0)
        self.set_noise(GaussianNoise() if noise is None else noise)
        self._table: Floats | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(space={self.space!r}, noise={self.noise!r}, seed={self.seed})"

    def set_noise(self, noise: Noise) -> None:
        """Replace the noise distribution, for example by one scaled to the range of f; ValueError if it is invalid."""
        checks.kind("noise", noise, Noise, "a noise distribution, such as GaussianNoise(0.1)")
        self.noise = noise
        self._stream = RoundStream(self.seed, "noise", noise.draw)

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that construct this environment: its attributes of the same names."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    @abstractmethod
    def evaluate(self, points: Floats) -> Floats:
        """Return f at points (k, d), shape (k,), in units of y."""

    def evaluate_at(self, points: Floats, t: int) -> Floats:
        """Return f of round t at points (k, d), shape (k,), in units of y."""
        return self.evaluate(points)

    def values_at(self, points: Floats, t: int = 1) -> Floats:
        """Return what `evaluate_at` returns, (k,), in units of y; ValueError unless it is a number for each point."""
        values = self.evaluate_at(points, t)
        method = _foreign(type(self), "evaluate_at", "evaluate")
        return self._checked(method, values, len(points), "point") if method else values

    def table_at(self, t: int = 1) -> Floats:
        """Return what `table` returns, (size,), in units of y; ValueError unless it is a number for each candidate."""
        values, method = self.table(t), _foreign(type(self), "table")
        return self._checked(method, values, self.space.size or 0, "candidate") if method else values

    def _checked(self, method: str, values: Any, count: int, what: str) -> Floats:
        """Return the values (count,) of a method of another package as an array of numbers."""
        name = f"{type(self).__name__}.{method}"
        found = checks.finite(name, values)
        if found.shape != (count,):
            checks.refuse(name, f"values of shape {found.shape}", f"({count},), one for each {what}")
        return found

    def available(self, t: int) -> NDArray[np.bool_] | None:
        """Return the mask (size,) of the candidates available in round t; None if all are."""
        return None

    def offered(self, first: int, count: int) -> AvailabilitySets | None:
        """Return what `available` returns in the `count` rounds from `first` on, for compiled loops.

        None if that is not known without a call of `available` in each round.
        """
        return None

    def _inside(self, x: ArrayLike) -> tuple[Floats, bool]:
        points, single = self.space.parse(x)
        self.space.check(x)
        return points, single

    def mean(self, x: ArrayLike, t: int = 1) -> Any:
        """Return f(x) in round t >= 1, without noise: a number for one point, (k,) for k points, in units of y."""
        points, single = self._inside(x)
        values = self.values_at(points, checks.integer("t", t, 1))
        return float(values[0]) if single else values

    def noise_at(self, t: int) -> float:
        """Return the noise of round t, in units of y."""
        return self._stream[t]

    @property
    def sub_gaussian(self) -> float:
        """Sub-Gaussian constant R of the noise, in units of y; infinite for noise that is not sub-Gaussian."""
        return self.noise.sub_gaussian

    def measured(self, point: Floats, value: float, t: int) -> float:
        """Return what is observed in round t at a point (d,) with this value of f: f plus noise, in units of y."""
        return value + self.noise_at(t)

    def noise_of(self, first: int, count: int) -> Floats:
        """Return the noise (count,) of the rounds from `first` on, in units of y; each as `noise_at` returns it."""
        if type(self).noise_at is not Environment.noise_at:
            return np.array([self.noise_at(t) for t in range(first, first + count)])
        return self._stream.numbers(first, count)

    def observe(self, x: ArrayLike, t: int = 1) -> Any:
        """Observe f(x) plus noise, in units of y.

        One point in round t >= 1 gives a number; k points give (k,), one for each of the rounds t, ..., t + k - 1.
        """
        points, single = self._inside(x)
        t = checks.integer("t", t, 1)
        if self.changing:
            values = np.concatenate([self.values_at(points[[i]], t + i) for i in range(len(points))])
        else:
            values = self.values_at(points, t)
        observed = np.array([self.measured(points[i], float(values[i]), t + i) for i in range(len(points))])
        return float(observed[0]) if single else observed

    def table(self, t: int = 1) -> Floats:
        """Return f at every candidate of a finite space, (size,), in units of y.

        Raises
        ------
        ValueError
            If the space is a box, or has more than ten million candidates.
        """
        if self.changing:
            return checks.frozen(self.values_at(tabulated(self.space).points(), checks.integer("t", t, 1)))
        if self._table is None:
            self._table = checks.frozen(self.values_at(tabulated(self.space).points()))
        return self._table

    def in_advance(self, candidates: int, rounds: int) -> bool:
        """Return whether f is evaluated at so many candidates before a simulation of so many rounds."""
        return not self.one_by_one or self._table is not None or candidates <= min(rounds, IN_ADVANCE)

    def restricted(self, available: ArrayLike | None, t: int) -> ArrayLike | None:
        """Restrict candidates, a mask (size,) or numbers, to those available in round t; ValueError if none is left."""
        own = self.available(t)
        if own is None or available is None:
            return own if available is None else available
        both: NDArray[np.bool_] = availability(available, len(own)) & own
        if not both.any():
            checks.refuse("available", available, f"at least one candidate that the environment offers in round {t}")
        return both

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Return the largest f in round t over the given candidates that the environment offers.

        The value is exact on a finite space, of which all candidates are evaluated; of more than fifty million only an
        environment that knows its optimum has one. On a box it is the result of a search: the best 20 of 2^14 Sobol
        points are refined.

        Parameters
        ----------
        t
            Round, from 1.
        available
            Mask (size,) or numbers of candidates; all candidates if not given.

        Returns
        -------
        float
            Largest value, in units of y.

        Raises
        ------
        ValueError
            If no candidate is available, `available` is given on a box, or there are too many candidates.
        """
        space = self.space.finite
        if space is not None:
            available = self.restricted(available, t)
            if available is None and space.size > TABLE_LIMIT:
                return extreme(self, sign=1.0)
            values = self.table_at(t)
            return float((values if available is None else values[availability(available, len(values))]).max())
        if available is not None:
            checks.refuse("available", available, "None on a box")
        return extreme(self, sign=1.0)


KNOWN = (
    f"a box, or at most {MOST_EVALUATED:,} candidates, where the optimum, which regret requires, can be found; else an "
    "environment that knows it: FunctionEnvironment(..., optimum=...), AdditiveFunction, RKHSFunction.planted, or a "
    "subclass of Environment with an `optimum` of its own"
)


def tabulated(space: Space) -> FiniteSpace:
    """Return a finite space if all its candidates can be evaluated.

    Parameters
    ----------
    space
        Any space.

    Raises
    ------
    ValueError
        If the space is not finite, or has too many candidates for a table.
    """
    size = space.size
    if size is None:
        checks.refuse("space", space, "a finite space: a box has no table of candidates")
    if space.finite is None or size > TABLE_LIMIT:
        checks.refuse("space", f"{counted(size)} candidates", f"at most {TABLE_LIMIT:,}, whose values fit in a table")
    return space.finite


def extreme(environment: Environment, sign: float, starts: Floats | None = None) -> float:
    """Find the largest (sign 1) or smallest (sign -1) value of f: exactly on a finite space, on a box by a search.

    Parameters
    ----------
    environment
        Environment, which does not change.
    sign
        1 or -1.
    starts
        Points (k, d) of a box from which to search, besides the best of a Sobol sequence.

    Raises
    ------
    ValueError
        If there are too many candidates to evaluate them all.
    """
    from scipy.optimize import minimize

    space, candidates = environment.space, environment.space.finite
    if candidates is not None and candidates.size <= MOST_EVALUATED:
        parts = (np.arange(i, min(i + AT_ONCE, candidates.size)) for i in range(0, candidates.size, AT_ONCE))
        return sign * max(float((sign * environment.values_at(candidates.points(part))).max()) for part in parts)
    if space.size is not None or space.box is None:
        given = "a space of named parameters" if space.box is None else f"{counted(space.size or 0)} candidates"
        checks.refuse("space", given, KNOWN)

    def negated(x: Floats) -> float:
        return -sign * float(environment.values_at(x[None])[0])

    drawn = space.candidate_set(2**14, 0).points()
    values = sign * environment.values_at(drawn)
    best = float(values.max())
    for start in [*drawn[np.argsort(-values)[:20]], *([] if starts is None else starts)]:
        found = minimize(negated, start, bounds=[(low, high) for low, high in space.box.tolist()])
        best = max(best, -float(found.fun))
    return sign * best
