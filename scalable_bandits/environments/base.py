"""What an environment is: it answers, with noise; its mean and optimum are known for measuring regret."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.randomness import RoundStream
from scalable_bandits.spaces import Space, availability
from scalable_bandits.specification import Specification

TABLE_LIMIT = 10_000_000  # candidates; f of a larger space is not tabulated


class Environment(Specification):
    """A function on a space, observed with noise. Larger is better.

    Parameters
    ----------
    space
        The domain D.
    noise
        Its distribution; standard normal if not given.
    seed
        Of the noise: round t's is a function of the seed and t alone.

    Attributes
    ----------
    tabulated : bool
        Whether f may be evaluated once a candidate and looked up from then on.
    changing : bool
        Whether f differs from round to round.

    Raises
    ------
    ValueError
        If the space is no space, the noise no noise, or the seed negative; and from every method, for points outside
        the space.
    """

    tabulated = True
    changing = False

    def __init__(self, space: Space, noise: Noise | None = None, seed: int = 0):
        checks.kind("space", space, Space, "a Box, a Grid, Points or Arms")
        self.space = space
        self.seed = checks.integer("seed", seed, 0)
        self.set_noise(GaussianNoise() if noise is None else noise)
        self._table: Floats | None = None

    def set_noise(self, noise: Noise) -> None:
        """Replace the noise, by one whose size follows from the function's range, say; ValueError for what is none."""
        checks.kind("noise", noise, Noise, "a noise, such as GaussianNoise(0.1)")
        self.noise = noise
        self._stream = RoundStream(self.seed, "noise", noise.draw)

    def parameters(self) -> dict[str, Any]:
        """Arguments that would make this environment anew; a subclass adds its own."""
        return {"space": self.space, "noise": self.noise, "seed": self.seed}

    @abstractmethod
    def evaluate(self, points: Floats) -> Floats:
        """f at points (k, d), shape (k,), in units of y."""

    def evaluate_at(self, points: Floats, t: int) -> Floats:
        """f of round t at points (k, d), shape (k,)."""
        return self.evaluate(points)

    def available(self, t: int) -> NDArray[np.bool_] | None:
        """Which candidates may be chosen in round t, (size,); None if all may."""
        return None

    def _inside(self, x: ArrayLike) -> tuple[Floats, bool]:
        points, single = self.space.parse(x)
        self.space.check(x)
        return points, single

    def mean(self, x: ArrayLike, t: int = 1) -> Any:
        """f(x) without noise in round t, from 1: a number for one point, (k,) for many, in units of y."""
        points, single = self._inside(x)
        values = self.evaluate_at(points, checks.integer("t", t, 1))
        return float(values[0]) if single else values

    def noise_at(self, t: int) -> float:
        """Noise of round t, in units of y."""
        return self._stream[t]

    def observe(self, x: ArrayLike, t: int = 1) -> Any:
        """f(x) plus noise, in units of y: a number in round t, from 1; for many points (k,), in rounds t, t+1, ..."""
        points, single = self._inside(x)
        t = checks.integer("t", t, 1)
        if self.changing:
            values = np.concatenate([self.evaluate_at(points[[i]], t + i) for i in range(len(points))])
        else:
            values = self.evaluate(points)
        values = values + np.array([self._stream[t + i] for i in range(len(points))])
        return float(values[0]) if single else values

    def table(self, t: int = 1) -> Floats:
        """f at every candidate of a finite space, (size,), in units of y; ValueError on a box."""
        if self.space.finite is None:
            checks.refuse("space", self.space, "a finite space: a box has no table of candidates")
        if self._table is None:
            self._table = self.evaluate(self.space.finite.points())
            self._table.flags.writeable = False
        return self._table

    def restricted(self, available: ArrayLike | None, t: int) -> ArrayLike | None:
        """Availability set, a mask (size,) or numbers, without what round t has not; ValueError if none is left."""
        own = self.available(t)
        if own is None or available is None:
            return own if available is None else available
        both: NDArray[np.bool_] = availability(available, len(own)) & own
        if not both.any():
            checks.refuse("available", available, f"a set with a candidate that the environment has in round {t}")
        return both

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Largest f in round t, over the available candidates (mask or numbers): those given, of those there are.

        On a finite space it is exact. On a box it is searched: 2^14 Sobol points, the best 20 refined.

        Parameters
        ----------
        t
            Round, from 1.
        available
            A mask (size,) or candidates' numbers; all if not given.

        Returns
        -------
        float
            In units of y.

        Raises
        ------
        ValueError
            If nothing is available, or something is said to be on a box.
        """
        space = self.space.finite
        if space is not None:
            available = self.restricted(available, t)
            if available is None and space.size > TABLE_LIMIT:
                starts = range(0, space.size, TABLE_LIMIT)
                parts = (np.arange(i, min(i + TABLE_LIMIT, space.size)) for i in starts)
                return max(float(self.evaluate(space.points(part)).max()) for part in parts)
            values = self.table(t)
            return float((values if available is None else values[availability(available, len(values))]).max())
        if available is not None:
            checks.refuse("available", available, "None on a box")
        return extreme(self, sign=1.0)


def extreme(environment: Environment, sign: float) -> float:
    """Largest (sign 1) or smallest (sign -1) value of f on a box, by search."""
    from scipy.optimize import minimize

    space = environment.space
    assert space.box is not None

    def descent(x: Floats) -> float:
        return -sign * float(environment.evaluate(x[None])[0])

    starts = space.candidate_set(2**14, 0).points()
    values = sign * environment.evaluate(starts)
    best = float(values.max())
    for start in starts[np.argsort(-values)[:20]]:
        found = minimize(descent, start, bounds=[(low, high) for low, high in space.box.tolist()])
        best = max(best, -float(found.fun))
    return sign * best
