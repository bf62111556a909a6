"""Environments on finite spaces that change from round to round."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import Environment, tabulated
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.synthetic import norm_of, sparse_centers
from scalable_bandits.kernels import Kernel
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Arms, AvailabilitySets, FiniteSpace, Indices, Space, availability


class ChangingEnvironment(Environment):
    """Base class of environments whose function f_t changes from round to round.

    See `Environment` for the parameters; the space is finite.

    Raises
    ------
    ValueError
        If the space is not finite, or has too many candidates for a table in every round.
    """

    changing = True

    def __init__(self, space: Space, noise: Noise | None = None, seed: int = 0):
        checks.kind("space", space, Space, "a finite space")
        self._candidates: FiniteSpace = tabulated(space)
        super().__init__(space, noise, seed)

    @abstractmethod
    def table(self, t: int = 1) -> Floats:
        """Return f_t at every candidate, (size,), in units of y."""

    def evaluate(self, points: Floats) -> Floats:
        """Return f_1 at points (k, d), shape (k,), in units of y."""
        return self.evaluate_at(points, 1)

    def evaluate_at(self, points: Floats, t: int) -> Floats:
        return self.table_at(t)[self._candidates.index(points)]


class DriftingFunction(ChangingEnvironment):
    """Functions of an RKHS whose weights change at knots: f_t = sum over i of w_i(t) k(centers_i, .).

    Parameters
    ----------
    space, kernel
        Finite domain and kernel of the RKHS.
    centers
        Centers (m, d) of the kernel functions, in units of x.
    weights
        Weights (k, m) at the knots, in units of y over units of k.
    knots
        Rounds (k,), strictly increasing from 1.
    slow
        Whether the weights move linearly between knots (True), or are constant and jump at each knot (False). After
        the last knot nothing changes.
    noise, seed
        Noise distribution and its seed; see `Environment`.

    Attributes
    ----------
    rkhs_norm : float
        Largest RKHS norm of any f_t.
    variation_budget : float
        Variation P_T: exact sum of the RKHS norms of f_{t+1} - f_t over all rounds.

    Raises
    ------
    ValueError
        If centers or weights are not finite, their shapes do not fit each other, the knots and the space, or the knots
        do not increase from 1.
    """

    def __init__(
        self,
        space: Space,
        kernel: Kernel,
        centers: Floats,
        weights: Floats,
        knots: Sequence[int],
        slow: bool = False,
        noise: Noise | None = None,
        seed: int = 0,
    ):
        super().__init__(space, noise, seed)
        checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
        self.kernel, self.slow = kernel, checks.flag("slow", slow)
        self.centers = checks.frozen(checks.finite("centers", centers, ndim=2))
        self.weights = checks.frozen(checks.finite("weights", weights, ndim=2))
        self.knots = _checked(knots)
        if self.centers.shape[1] != space.dimension:
            checks.refuse("centers", f"shape {self.centers.shape}", f"(m, {space.dimension})")
        if self.weights.shape != (len(self.knots), len(self.centers)) or not self.weights.size:
            allowed = f"({len(self.knots)}, {len(self.centers)}), one row for each knot and one column for each center"
            checks.refuse("weights", f"shape {self.weights.shape}", allowed)
        gram = kernel.block(self.centers)
        kernel.check_values(self.centers)
        self.rkhs_norm = max(norm_of(gram, w) for w in self.weights)
        self._steps = [norm_of(gram, step) for step in np.diff(self.weights, axis=0)]
        self.variation_budget = float(sum(self._steps))
        # Without BLAS, whose last bits depend on the number of points.
        self._tables = np.einsum("ij,kj->ki", kernel.block(self._candidates.points(), self.centers), self.weights)

    @classmethod
    def sparse(
        cls,
        space: FiniteSpace,
        kernel: Kernel,
        noise: Noise | None = None,
        *,
        knots: Sequence[int],
        slow: bool = False,
        rkhs_norm: float | None = None,
        seed: int = 0,
        count: int | None = None,
    ) -> DriftingFunction:
        """Draw a function like `RKHSFunction.sparse` at every knot; all functions have the same centers.

        Parameters
        ----------
        space, kernel, noise
            Finite domain, kernel of the RKHS and noise distribution.
        knots, slow
            Rounds of the knots and kind of change; see the class.
        rkhs_norm
            RKHS norm to which the function at each knot is scaled; not scaled if not given.
        seed
            Seed of the function and of the noise.
        count
            Number of centers; 30 d if not given.

        Raises
        ------
        ValueError
            If there are no knots, the norm is not positive, or the class refuses an argument.
        """
        checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
        knots = _checked(knots)
        rng = generator(checks.integer("seed", seed, 0), "function")
        centers = sparse_centers(space, count, rng)
        weights = rng.uniform(-1.0, 1.0, (len(knots), len(centers)))
        if rkhs_norm is not None:
            if not checks.finite("rkhs_norm", rkhs_norm, ndim=0) > 0.0:
                checks.refuse("rkhs_norm", rkhs_norm, "a positive number")
            gram = kernel.block(centers)
            weights *= np.array([rkhs_norm / norm_of(gram, w) for w in weights])[:, None]
        return cls(space, kernel, centers, weights, knots, slow, noise, seed)

    def variation(self, horizon: int) -> float:
        """Compute P_T of the first T = `horizon` rounds: the sum over t < T of the RKHS norm of f_{t+1} - f_t."""
        total, horizon = 0.0, checks.integer("horizon", horizon, 1)
        for start, stop, step in zip(self.knots[:-1], self.knots[1:], self._steps, strict=True):
            if self.slow:
                total += step * min(max(horizon - start, 0) / (stop - start), 1.0)
            elif horizon >= stop:
                total += step
        return total

    def table(self, t: int = 1) -> Floats:
        t = checks.integer("t", t, 1)
        i = int(np.searchsorted(self.knots, t, side="right")) - 1
        if not self.slow or i == len(self.knots) - 1 or t == self.knots[i]:
            return self._tables[i]
        share = (t - self.knots[i]) / (self.knots[i + 1] - self.knots[i])
        return (1.0 - share) * self._tables[i] + share * self._tables[i + 1]


def _checked(knots: Sequence[int]) -> tuple[int, ...]:
    given = knots if isinstance(knots, Sequence | np.ndarray) else ()
    found = tuple(checks.integer("knots", knot, 1) for knot in given)
    if not found or found[0] != 1 or (np.diff(found) < 1).any():
        checks.refuse("knots", knots, "increasing rounds, the first one 1")
    return found


class AutoregressiveProcess(ChangingEnvironment):
    """Autoregressive Gaussian process: f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g_{t+1}.

    Every g_t is an independent draw from GP(0, k), so every f_t is distributed as GP(0, k). The function of round t
    does not depend on the order in which rounds are evaluated.

    Source: Bogunovic, Scarlett & Cevher 2016, section 2.

    Parameters
    ----------
    space
        Finite domain.
    kernel
        Kernel ``k * TemporalDecay(epsilon)``.
    noise, seed
        Noise distribution, and seed of the noise and of the process.

    Raises
    ------
    ValueError
        If the kernel has no `TemporalDecay` factor with epsilon > 0.
    """

    BLOCK = 1024  # rounds computed at a time

    def __init__(self, space: Space, kernel: Kernel, noise: Noise | None = None, *, seed: int = 0):
        super().__init__(space, noise, seed)
        checks.kind("kernel", kernel, Kernel, "a kernel, such as RBF(0.2)")
        if not kernel.epsilon:
            checks.refuse("kernel", kernel, "a kernel times TemporalDecay(epsilon), with 0 < epsilon <= 1")
        self.kernel = kernel
        points = self._candidates.points()
        covariance = kernel.block(points)
        kernel.check_values(points)
        values, vectors = eigh(covariance)
        self._root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        self._last: list[Floats] = []  # f in the last round of each computed block
        self._block_number = -1
        self._block = np.empty((0, self._candidates.size))

    def table(self, t: int = 1) -> Floats:
        number, offset = divmod(checks.integer("t", t, 1) - 1, self.BLOCK)
        if number != self._block_number:
            for earlier in range(len(self._last), number):
                self._compute(earlier)
            self._compute(number)
        return self._block[offset]

    def _compute(self, number: int) -> None:
        """Compute a block of rounds and keep it; the blocks before it have been computed."""
        fresh = generator(self.seed, "process", number).standard_normal((self.BLOCK, len(self._root))) @ self._root
        keep, share = (1.0 - self.kernel.epsilon) ** 0.5, self.kernel.epsilon**0.5
        f = self._last[number - 1] if number else fresh[0]
        for i in range(self.BLOCK):
            f = keep * f + share * fresh[i] if number or i else f
            fresh[i] = f
        fresh.flags.writeable = False
        self._block_number, self._block = number, fresh
        if number == len(self._last):
            self._last.append(fresh[-1].copy())


class SensorPanel(ChangingEnvironment):
    """Readings of sensors over time: each arm is a sensor, and later rounds have later readings.

    Parameters
    ----------
    readings
        Readings (times, n) of n sensors, in units of y. The first row follows the last one.
    hold
        Number of rounds for which each row is used.
    noise, seed
        Noise distribution and its seed; see `Environment`.

    Raises
    ------
    ValueError
        If there are no readings, or a reading is not finite.
    """

    def __init__(self, readings: ArrayLike, noise: Noise | None = None, seed: int = 0, hold: int = 1):
        self.readings = checks.frozen(checks.finite("readings", readings, ndim=2))
        if not self.readings.size:
            checks.refuse("readings", f"shape {self.readings.shape}", "(times, n), both at least 1")
        self.hold = checks.integer("hold", hold, 1)
        super().__init__(Arms(self.readings.shape[1]), noise, seed)

    def table(self, t: int = 1) -> Floats:
        return self.readings[((checks.integer("t", t, 1) - 1) // self.hold) % len(self.readings)]


class MovingSearchSpace(Environment):
    """Environment in which the set of available candidates changes from round to round.

    Parameters
    ----------
    environment
        Environment on a finite space. It may change too, and may restrict the candidates itself.
    available
        Masks (k, size), used in turn: round t has row (t - 1) mod k. Or a function that maps t to a mask (size,) or
        to candidates' numbers.

    Raises
    ------
    ValueError
        If the environment is on a box, or a mask has the wrong shape or is empty.
    """

    def __init__(self, environment: Environment, available: ArrayLike | Callable[[int], ArrayLike]):
        checks.kind("environment", environment, Environment, "an environment on a finite space")
        if environment.space.finite is None:
            checks.refuse("environment", f"space {environment.space}", "an environment on a finite space")
        self.environment = environment
        self._size = tabulated(environment.space).size
        self._available = available if callable(available) else _masks(available, self._size)
        self.changing, self.tabulated = environment.changing, environment.tabulated
        self.one_by_one = environment.one_by_one
        self.same_noise_everywhere = environment.same_noise_everywhere
        super().__init__(environment.space, environment.noise, environment.seed)

    def parameters(self) -> dict[str, Any]:
        return {"environment": self.environment, "available": self._available}

    def set_noise(self, noise: Noise) -> None:
        super().set_noise(noise)
        self.environment.set_noise(noise)

    def available(self, t: int) -> NDArray[np.bool_] | None:
        t = checks.integer("t", t, 1)
        given = self._available
        own = availability(given(t), self._size) if callable(given) else given[(t - 1) % len(given)]
        return np.asarray(self.environment.restricted(own, t))

    def offered(self, first: int, count: int) -> AvailabilitySets | None:
        inner = type(self.environment).available is not Environment.available  # which takes candidates away
        if inner or type(self).available is not MovingSearchSpace.available or self._sets is None:
            return None
        return self._sets._replace(numbers=self._numbers(first, count))

    @functools.cached_property
    def _sets(self) -> AvailabilitySets | None:
        """All availability sets, of no round; None if only a function of the round knows them."""
        return None if callable(self._available) else AvailabilitySets.of_masks(self._available)

    def _numbers(self, first: int, count: int) -> Indices:
        """Return the numbers (count,) of the availability sets of the rounds from `first` on."""
        return np.arange(first - 1, first - 1 + count) % len(self._available)  # type: ignore[arg-type]

    def evaluate(self, points: Floats) -> Floats:
        return self.environment.values_at(points)

    def evaluate_at(self, points: Floats, t: int) -> Floats:
        return self.environment.values_at(points, t)

    def table(self, t: int = 1) -> Floats:
        return self.environment.table_at(t)

    def noise_at(self, t: int) -> float:
        return self.environment.noise_at(t)

    def noise_of(self, first: int, count: int) -> Floats:
        return self.environment.noise_of(first, count)

    def measured(self, point: Floats, value: float, t: int) -> float:
        return self.environment.measured(point, value, t)

    @property
    def sub_gaussian(self) -> float:
        return self.environment.sub_gaussian


def _masks(available: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Check masks (k, size) of candidates."""
    try:
        masks = np.asarray(available)
    except ValueError:  # rows of different lengths
        checks.refuse("available", available, f"masks (k, {size})")
    if masks.ndim != 2 or masks.shape[1] != size or not masks.size or not np.isin(masks, (0, 1)).all():
        checks.refuse("available", f"an array of shape {masks.shape}", f"masks (k, {size})")
    return np.array([availability(mask, size) for mask in masks.astype(np.bool_)])
