"""Interface of engines: the posterior on the candidates of a finite space, kept up to date."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.rounds import MOST_PLAYED, Columns, Game, Rule
from scalable_bandits.posteriors.state import StateEntry, Stateful, array
from scalable_bandits.spaces import FiniteSpace, Indices, Mask

TIE_TOLERANCE = numba_choice.TIE_TOLERANCE
FAR = 1e20  # factor of the noise variance: an observation with so much noise changes the mean, but no variance


class Acquisition(Protocol):
    """Index of candidates from mean and variance, elementwise."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        """Return the index (k,) at means (k,) and variances (k,)."""


class EngineOptions(NamedTuple):
    """Settings that a policy passes to the engine that it makes; each engine uses those that concern it."""

    oversampling: float = 1.5  # qbar of the sketched engine; infinite: keep every observed point
    seed: int = 0  # seed of the random dictionary of the sketched engine
    executor: Executor | None = None  # executor that holds the tiles of a tiled engine; None: this thread
    space: FiniteSpace | None = None  # space of the candidates, a short description of them for workers


class Engine(Stateful, ABC):
    """Posterior of a Gaussian process on n numbered candidates, kept up to date.

    Parameters
    ----------
    kernel
        Prior covariance.
    points
        (n, d) coordinates of the candidates.
    prior_mean
        (n,) prior mean at the candidates, in units of y.

    Attributes
    ----------
    limit : int
        Largest number of candidates.
    exact : bool
        Whether the posterior is exact up to rounding.
    forgets : bool
        Whether the engine takes kernels with `TemporalDecay`.
    sharded : bool
        Whether an executor can hold the engine's tiles (`EngineOptions`).
    predicts : bool
        Whether the engine has a `predict` of its own; else predictions are refitted from the observations.
    draws : bool
        Whether the engine can `draw` the function at all candidates.
    plays : bool
        Whether the engine can `play` rounds in a compiled loop.
    gain : ndarray
        (1,) information gain, in nats, to which compiled functions add.
    """

    limit: ClassVar[int] = 2_000_000
    exact: ClassVar[bool] = True
    forgets: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    predicts: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    plays: ClassVar[bool] = False

    STATE: ClassVar[tuple[StateEntry, ...]] = (array("gain", "(1,)"),)

    @classmethod
    def build(cls, kernel: Kernel, points: Floats, prior_mean: Floats, options: EngineOptions) -> Self:
        """Make an engine without observations from a policy's options.

        Parameters
        ----------
        kernel, points, prior_mean
            Prior covariance, (n, d) candidates and their (n,) prior means, as for `Engine`.
        options
            Settings; an engine uses those that concern it.
        """
        return cls(kernel, points, prior_mean)

    @classmethod
    def check_kernel(cls, kernel: Kernel, dimension: int) -> None:
        """Raise ValueError if the engine does not take the kernel at points of this dimension."""

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats):
        self.kernel = kernel
        self.points = points
        self.size = len(points)
        self.gain = np.zeros(1)
        self._mean = prior_mean.copy()
        self._variance = kernel.diagonal(points).astype(np.float64)

    @abstractmethod
    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition on y observed at a candidate with Gaussian noise of this variance."""

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        """Condition on values (k,) observed at candidates (k,) with noise variances (k,), in this order."""
        for candidate, y, noise in zip(candidates.tolist(), ys.tolist(), noise_variances.tolist(), strict=True):
            self.observe(candidate, y, noise)

    def revise(self, candidates: Indices, changes: Floats, noise_variances: Floats) -> None:
        """Change observed values by `changes` (k,), at candidates and with noise variances as observed, both (k,)."""
        for x, change, noise in zip(candidates.tolist(), changes.tolist(), noise_variances.tolist(), strict=True):
            mean, _ = self.at(np.array([x]))
            self.observe(x, float(mean[0]) + FAR * change, FAR * noise)

    def mean(self) -> Floats:
        """Return the posterior mean of every candidate, (n,), in units of y; read only."""
        return self._mean

    def variance(self) -> Floats:
        """Return the posterior variance of every candidate, (n,); read only."""
        return self._variance

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Return posterior mean and variance of some candidates, two (k,) arrays."""
        return self.mean()[candidates], self.variance()[candidates]

    @abstractmethod
    def columns(self, candidates: Indices) -> Floats:
        """Return the posterior covariances of some candidates with all, (k, n)."""

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""
        raise NotImplementedError(f"{type(self).__name__} does not predict")

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw f minus its posterior mean at all candidates jointly, (n,), in units of y."""
        raise NotImplementedError(f"{type(self).__name__} does not draw")

    def argmax(
        self, acquisition: Acquisition, salt: int, allowed: Mask | None = None, reduction: Floats | None = None
    ) -> tuple[int, float]:
        """Find the candidate of largest index.

        Parameters
        ----------
        acquisition
            Index as a function of mean and variance.
        salt
            Seed of the tie-breaking hash.
        allowed
            (n,) mask of the candidates to choose from; all if not given.
        reduction
            (n,) amount that is subtracted from the variances first, for pending points.

        Returns
        -------
        candidate : int
            Number of the candidate.
        index : float
            Largest index; the candidate's own is within a relative 1e-10 of it.
        """
        mean, variance = self.mean(), self.variance()
        if reduction is not None:
            variance = np.maximum(variance - reduction, 0.0)
        return choose(acquisition(mean, variance), salt, allowed)

    def advance(self, rounds: int = 1) -> None:
        """Move the time forward by some rounds; only engines that forget change."""

    def play(self, rule: Rule, game: Game, columns: Columns) -> None:
        """Play rounds: `argmax` the rule's index, `observe` the value of the game, `advance`; the same numbers.

        Parameters
        ----------
        rule
            Index, with its width.
        game
            Values at the candidates, and noise of the rounds.
        columns
            Columns (count,) of these rounds, which are filled.
        """
        raise NotImplementedError(f"{type(self).__name__} plays no rounds")

    @property
    def information_gain(self) -> float:
        """Realised gain, sum of 1/2 log(1 + s^2 / noise) over the observations that count, in nats."""
        return float(self.gain[0])

    def _add_gain(self, variance_before: float, noise_variance: float) -> None:
        self.gain[0] += 0.5 * math.log1p(variance_before / noise_variance)


class OnDemandEngine(Engine):
    """Engine that computes the posterior of the candidates it is asked for, and stores none."""

    @abstractmethod
    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        """Return posterior mean and variance of some candidates, two (k,) arrays."""

    def mean(self) -> Floats:
        return self.at(np.arange(len(self.points)))[0]

    def variance(self) -> Floats:
        return self.at(np.arange(len(self.points)))[1]

    def argmax(
        self, acquisition: Acquisition, salt: int, allowed: Mask | None = None, reduction: Floats | None = None
    ) -> tuple[int, float]:
        numbers = np.arange(len(self.points)) if allowed is None else np.flatnonzero(allowed)
        mean, variance = self.at(numbers)
        if reduction is not None:
            variance = np.maximum(variance - reduction[numbers], 0.0)
        position, index = choose(acquisition(mean, variance), salt, None, numbers)
        return int(numbers[position]), index


class ForgettingEngine(Engine):
    """Engine in which observations count less as time passes.

    The time is 1 at first and is moved forward by `advance`. The posterior is that of the function at the present time;
    it cannot be computed from collapsed observations, only by the engine.
    """

    forgets: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    @property
    def plays(self) -> bool:  # type: ignore[override]
        """Whether the kernel matrix is small enough to be in memory."""
        return self.size <= MOST_PLAYED

    @functools.cached_property
    def gram(self) -> Floats:
        """Kernel matrix (n, n)."""
        return self.kernel.block(self.points)

    @property
    @abstractmethod
    def observed(self) -> Mask:
        """Mask (n,) of the candidates with observations that still count."""

    @abstractmethod
    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""

    @abstractmethod
    def extended(self, points: Floats, prior_mean: Floats) -> Engine:
        """Return an engine with the same posterior on points (n, d), the present candidates first; prior means (n,)."""


def choose(
    index: Floats, salt: int, allowed: Mask | None = None, numbers: Indices = numba_choice.SAME
) -> tuple[int, float]:
    """Return the position of the largest index, ties broken by a hash of the candidates' numbers, and the index.

    Returns -1 and -inf if there are no candidates. Raises ValueError if the index is NaN at all of them.
    """
    return numba_choice.choose(index, numba_choice.ALL if allowed is None else allowed, numbers, np.uint64(salt))


def order_of_ties(numbers: Indices, salt: int) -> Indices:
    """Return the positions (k,) of candidates, by number (k,), in the order in which `choose` breaks ties."""
    return np.lexsort((numbers, numba_choice.tie_hashes(numbers, np.uint64(salt))))


def finalists(index: Floats, salt: int, numbers: Indices) -> Indices:
    """Return the positions (k,) of the candidates that `choose` could return if more candidates were added.

    In the order in which `choose` breaks ties, these are the tied ones of a larger index than all before.
    """
    tied = np.flatnonzero(index >= numba_choice.smallest_tied(index.max(initial=-np.inf)))
    tied = tied[order_of_ties(numbers[tied], salt)]
    return tied[np.unique(np.maximum.accumulate(index[tied]), return_index=True)[1]]
