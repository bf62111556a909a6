"""Base class of the policies that eliminate candidates after a batch of rounds. Source: Li & Scarlett 2022.

N_i = ceil(sqrt(T N_{i-1})), N_0 = 1, at most the rounds that are left; O(log log T) batches                  (1)
N_i = ceil(T^((1 - q^i) / (1 - q^n))), q = (1 - c) / 2, for n batches and an information gain that grows as T^c  (2)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from decimal import Decimal, localcontext
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.formulas.confidence import fixed_points
from scalable_bandits.formulas.information_gain import gain_exponent
from scalable_bandits.formulas.whole import DIGITS, as_fraction, ceiling
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.models.model import LazyModel
from scalable_bandits.posteriors.state import StateEntry, number, value
from scalable_bandits.spaces import Domain, Indices, Mask


def batch_lengths(horizon: int, batches: int | None = None, growth: float = 0.0) -> tuple[int, ...]:
    """Return the numbers of rounds N_1, N_2, ... of the batches, which sum to the horizon.

    Parameters
    ----------
    horizon
        Number T of rounds.
    batches
        Number n of batches; None for (1), which has O(log log T).
    growth
        Exponent c from 0 to below 1 of the growth T^c of the information gain, for a given number of batches.

    Raises
    ------
    ValueError
        If there are more batches than rounds.

    Examples
    --------
    >>> batch_lengths(1_000_000)
    (1000, 31623, 177829, 421698, 367850)
    >>> batch_lengths(1_000_000, batches=2)
    (10000, 990000)
    """
    if batches is not None and batches > horizon:
        checks.refuse("batches", batches, f"at most the number of rounds, {horizon}")
    found: list[int] = []
    c = as_fraction(growth)
    while (left := horizon - sum(found)) > 0:
        i, previous = len(found) + 1, found[-1] if found else 1
        if batches is None:
            length = math.isqrt(horizon * previous - 1) + 1  # (1)
        else:
            with localcontext(DIGITS):
                q = (1 - Decimal(c.numerator) / c.denominator) / 2
                length = ceiling(Decimal(horizon) ** ((1 - q**i) / (1 - q**batches)))  # (2)
            length = left if i == batches else min(length, left - (batches - i))  # leaves a round for each later batch
        found.append(min(length, left))
    return tuple(found)


@attrs.define(eq=False, kw_only=True, slots=False)
class BatchedElimination(GaussianProcessPolicy):
    """Base class of policies whose points of a batch depend on no value of the batch; for a known horizon.

    At the end of a batch candidates are eliminated by its values. `posterior` and `best` use all observations.

    Parameters
    ----------
    rkhs_norm
        Bound B on the RKHS norm of f.
    batches
        Number n of batches; None for lengths N_i = ceil(sqrt(T N_{i-1})), N_0 = 1, whose number grows as log log T.
        With n given, N_i = ceil(T^((1 - q^i) / (1 - q^n))) with q = (1 - c) / 2, if the information gain of the kernel
        grows as T^c: the bound of the regret is then the same for all batches (Li & Scarlett 2022).
    delay
        Share of a batch's values, from 0 to below 1, that may be missing when it ends. What comes later belongs to the
        next batch, whose candidates do not depend on it (after Vakili, Ahmed, Bernacchia & Pike-Burke 2023).

    Attributes
    ----------
    batch : int
        Number of the present batch, from 1 on; read only.
    lengths : tuple of int
        Rounds of each batch.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. A box is played on candidates.

    Raises
    ------
    ValueError
        If there is no horizon, more batches than rounds, the kernel forgets or is to be learned, or the engine is not
        exact.

    Notes
    -----
    Points told that were not asked for belong to the batch and count as its rounds. A point asked for after the last of
    a batch that still waits for values makes the batch longer by one, and what is pending at its end is late. Of an
    availability set without a surviving candidate all are candidates. After T rounds the last batch goes on.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("batch", int),
        number("_told", int),
        value(
            "late", "(k,)", np.int64, lambda self: sorted(self._late.elements()),
            lambda self, numbers: setattr(self, "_late", Counter(numbers.tolist())),
        ),
        value(
            "surviving", "(m,)", np.int64, lambda self: self.surviving,
            lambda self, numbers: self._set_surviving(numbers.copy()),
        ),
    )  # fmt: skip
    model: LazyModel = attrs.field(init=False, repr=False)

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    batches: int | None = checks.optional_count()
    delay: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.below_one)
    batch: int = attrs.field(default=1, init=False)
    lengths: tuple[int, ...] = attrs.field(init=False, repr=False)
    _enough: list[int] = attrs.field(init=False, repr=False)  # values with which each batch but the last may end
    _told: int = attrs.field(default=0, init=False, repr=False)  # values of the batch's own points
    _late: Counter[int] = attrs.field(init=False, factory=Counter, repr=False)  # pending points of earlier batches
    _surviving: Indices = attrs.field(init=False, repr=False)  # C_i, ascending
    _mask: Mask = attrs.field(init=False, repr=False)  # (n,) mask of the surviving candidates
    _width: float = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: batches do not forget")
        if self.engine == "sketched":
            checks.refuse("engine", self.engine, "'auto', 'dense' or 'tiled', which are exact")
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the points of a batch are chosen before its values are known")
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the lengths of the batches depend on it")
        growth = gain_exponent(self._prior_kernel, self.space.model_dimension)
        self.lengths, delay = batch_lengths(self.horizon, self.batches, growth), as_fraction(self.delay)
        self._enough = [length - math.floor(delay * length) for length in self.lengths[:-1]]
        self._set_surviving(np.arange(self.domain.choosable))
        self._width = fixed_points(self.intervals, self.delta, self.rkhs_norm, self.noise, self.regularization)

    # ---- for subclasses

    @abstractmethod
    def survivors(self, candidate: int, y: float, noise_variance: float) -> Indices:
        """Return the candidates (m,) that the values of the batch, and a last one, do not eliminate."""

    @abstractmethod
    def add_value(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add a value that does not end the batch."""

    @abstractmethod
    def begin(self, eliminated: Indices) -> None:
        """Begin the next batch; candidates (k,) have been eliminated."""

    # ---- batches

    @property
    def intervals(self) -> int:
        """Number of confidence intervals of all batches."""
        return self.domain.choosable * len(self.lengths)

    @property
    def width(self) -> float:
        """Confidence width beta of the posterior of a batch, the same for all."""
        return self._width

    @property
    def surviving(self) -> Indices:
        """Numbers (m,) of the candidates that no batch has eliminated, ascending."""
        return self._surviving

    @property
    def missing(self) -> int:
        """Number of points of the present batch that have not been asked for."""
        return max(0, self.lengths[self.batch - 1] - self.asked_of_batch)

    @property
    def asked_of_batch(self) -> int:
        """Number of points of the present batch that are told or pending."""
        return self._told + max(0, len(self._pending.asked) - self._late.total())

    def _choosable(self, allowed: Mask | None) -> Mask | None:
        """Return the mask (n,) of the surviving candidates that are allowed; of all allowed ones if none survives."""
        if len(self._surviving) == self.domain.size:
            return allowed
        mask = self._mask if allowed is None else self._mask & allowed
        return mask if mask.any() else allowed

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        late = self._late[candidate] > 0
        told, waiting = self._told + (not late), len(self._pending.asked) - self._late.total() + late
        i, found = self.batch - 1, None
        if i < len(self._enough) and told >= self._enough[i] and told + waiting >= self.lengths[i]:
            found = self.survivors(candidate, y, noise_variance)  # before anything changes: it may be interrupted
        self.model.observe(candidate, y, noise_variance)
        self._late -= Counter([candidate] if late else [])
        self._told = told
        if found is None:
            self.add_value(candidate, y, noise_variance)
            return
        eliminated = np.setdiff1d(self._surviving, found, assume_unique=True)
        self._set_surviving(found)
        self.batch, self._told, self._late = self.batch + 1, 0, Counter(self._pending.asked)
        self.begin(eliminated)

    def _set_surviving(self, candidates: Indices) -> None:
        self._surviving = candidates
        self._mask = np.zeros(self.domain.size, dtype=np.bool_)
        self._mask[candidates] = True

    def abandon(self, x: ArrayLike | None = None) -> None:
        with self._lock:
            super().abandon(x)
            self._late &= Counter(self._pending.asked)

    def _learn_failure(self, candidate: int) -> None:
        super()._learn_failure(candidate)
        self._late &= Counter(self._pending.asked)

    # ---- the model of all observations

    def _make_model(self) -> LazyModel:
        return LazyModel(self._prior, self.domain, self._make_engine, self.regularization)

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; without observations, of best prior mean."""
        numbers = np.flatnonzero(self.model.queried) if self.model.queried.any() else np.arange(self.domain.choosable)
        mean, variance = self.model.predict(self.domain.coordinates(numbers))
        place, _ = choose(mean, self._salt, numbers=numbers)
        return Best(self.domain.value(int(numbers[place])), float(mean[place]), float(np.sqrt(variance[place])))

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._mask = np.append(self._mask, np.zeros(grown.size - len(self._mask), dtype=np.bool_))
