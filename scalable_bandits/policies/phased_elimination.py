"""Batched pure exploration with elimination. Source: Li & Scarlett 2022, Algorithm 1.

    input: candidates D, prior GP(m, k), T, parameters B, R, lambda, delta;   C_1 = D, N_0 = 1
    for batch i = 1, 2, ...:
        N_i = ceil(sqrt(T N_{i-1})), at most the rounds that are left                                  (1)
        for j = 1, ..., N_i: play x_j = argmax of s_{j-1}(x) over C_i, s of the j - 1 points before    (2)
        observe the values of the batch: mu_i, s_i of this batch alone
        C_{i+1} = {x in C_i: mu_i(x) + beta s_i(x) >= max over C_i of mu_i - beta s_i}                 (3)

No point depends on a value of its own batch: all may be evaluated at once, and values are waited for O(log log T)
times. Hence also beta without the information gain.

With a fixed number n of batches, N_i = ceil(T^((1 - q^i) / (1 - q^n))) with q = (1 - c) / 2, if the information gain
grows as T^c. That makes the bound of the regret the same for all batches.                              (4)

Late values (after Vakili, Ahmed, Bernacchia & Pike-Burke 2023): a batch ends although a share of its values is missing.
What comes later belongs to the next batch, whose candidates do not depend on it.                       (5)

Repetition (after Calandriello et al. 2022): x_j is played max(1, floor((C^2 - 1) lambda / s_{j-1}^2(x_j))) times, by
when no deviation anywhere is smaller by more than the factor C. The cost then follows the distinct points.  (6)

Differs from the paper in: beta = sqrt(B^2 + 2 R^2 / lambda log(2 |D| n / delta)) for n batches and both sides, which is
smaller than the sum of its two parts (`formulas.fixed_design`). (4) is without factors of log T. Points told
that were not asked for belong to the batch and count as its rounds. A point asked for after the N_i-th of a batch that
still waits for values makes the batch longer by one, and what is pending at its end is late. Of an availability set
without a point of C_i all are candidates. After T rounds the last batch goes on.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.fixed_design import fixed_points
from scalable_bandits.formulas.information_gain import gain_exponent
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.batch_points import BatchPoints
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import State
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.lazy import LazyModel
from scalable_bandits.posteriors.model import DEVIATION, ModelPrior
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import Field, group, member, number, value
from scalable_bandits.spaces import Domain, Indices, Mask

BLOCK = 4096  # candidates whose posterior is computed at a time, at the end of a batch


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
    while (left := horizon - sum(found)) > 0:
        i, previous = len(found) + 1, found[-1] if found else 1
        if batches is None:
            length = math.ceil(math.sqrt(horizon * previous))  # (1)
        else:
            q = (1.0 - growth) / 2.0
            length = math.ceil(horizon ** ((1.0 - q**i) / (1.0 - q**batches)))  # (4)
            length = left if i == batches else min(length, left - (batches - i))  # of the others at least a round each
        found.append(min(length, left))
    return tuple(found)


@attrs.define(eq=False, kw_only=True, slots=False)
class PhasedElimination(GaussianProcessPolicy):
    """Pure exploration in a few batches, after each of which candidates are eliminated; for a known horizon.

    It buys few synchronisations, long horizons and many workers: in 10^4 rounds its regret is larger than that of
    `IGPUCB`. `posterior` and `best` use all observations; the elimination uses a batch's own, and `information_gain` is
    that of a batch's points, with those asked for.

    Parameters
    ----------
    rkhs_norm
        Bound B on the RKHS norm of f.
    batches
        Number of batches; None for the lengths (1), whose number grows as log log T.
    delay
        Share of a batch's values, from 0 to below 1, that may be missing when it ends.
    shrinkage
        Factor C of (6), at least 1; 1: a point is chosen anew in every round. With 1.1, a million rounds of 1000
        candidates take a few thousand choices.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. A box is played on candidates.

    Raises
    ------
    ValueError
        If there is no horizon, more batches than rounds, the kernel forgets or is to be learned, or the engine is not
        exact.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> options = {"noise": 0.1, "regularization": 0.01, "rkhs_norm": 0.5}
    >>> policy = sb.PhasedElimination(sb.Grid([[0, 1]], 30), sb.RBF(0.2), horizon=400, **options)
    >>> policy.lengths
    (20, 90, 190, 100)
    >>> points = policy.ask(policy.missing)  # a whole batch, for as many workers as there are
    >>> policy.tell(points, -4 * (points[:, 0] - 0.3) ** 2)
    >>> policy.batch, len(policy.surviving) < 30
    (2, True)
    """

    STATE: ClassVar[tuple[Field, ...]] = (
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
        member("_seen"),
        group("points", lambda self: self._points.state(), lambda self, state: self._restore_points(state)),
    )  # fmt: skip
    _model: LazyModel = attrs.field(init=False, repr=False)

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    batches: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    delay: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.below_one)
    shrinkage: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.at_least_one)
    batch: int = attrs.field(default=1, init=False)
    lengths: tuple[int, ...] = attrs.field(init=False, repr=False)
    _told: int = attrs.field(default=0, init=False, repr=False)  # values of the batch's own points
    _late: Counter[int] = attrs.field(init=False, factory=Counter, repr=False)  # pending points of earlier batches
    _surviving: Indices = attrs.field(init=False, repr=False)  # C_i, ascending
    _mask: Mask = attrs.field(init=False, repr=False)  # of the surviving candidates, (n,)
    _seen: CollapsedObservations = attrs.field(init=False, factory=CollapsedObservations, repr=False)  # of the batch
    _points: BatchPoints = attrs.field(init=False, repr=False)  # of the batch

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: batches do not forget")
        if self.engine == "sketched":
            checks.refuse("engine", self.engine, "'auto', 'dense' or 'tiled', which are exact")
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the points of a batch are chosen before its values are known")
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the lengths of the batches depend on it")
        growth = gain_exponent(self.prior_kernel, self.space.model_dimension)
        self.lengths = batch_lengths(self.horizon, self.batches, growth)
        intervals = self.domain.choosable * len(self.lengths)
        self._width = fixed_points(intervals, self.delta, self.rkhs_norm, self.noise, self.regularization)
        self._set_surviving(np.arange(self.domain.choosable))
        self._points = self._no_points()

    # ---- the algorithm

    @property
    def width(self) -> float:
        """Confidence width beta of all batches."""
        return self._width

    @property
    def surviving(self) -> Indices:
        """Numbers (m,) of the candidates that no batch has eliminated, ascending."""
        return self._surviving

    @property
    def missing(self) -> int:
        """Number of points of the present batch that have not been asked for."""
        return max(0, self._left_of(len(self._pending.asked)))

    def _left_of(self, pending: int) -> int:
        """Return the rounds of the batch that are left, if so many points are pending, with late ones."""
        return self.lengths[self.batch - 1] - self._told - max(0, pending - self._late.total())

    def choose(self, allowed: Mask | None = None) -> int:
        points = self._points_so_far()
        again = points.unfinished()
        if again is not None and (allowed is None or allowed[again]):
            return again  # (6)
        mask = self._mask if allowed is None else self._mask & allowed
        return points.engine.maximize(DEVIATION, self._salt, mask if mask.any() else allowed)[0]  # (2)

    def observe(self, candidate: int, y: float, noise_variance: float | None = None) -> None:
        self._points_so_far()
        super().observe(candidate, y, noise_variance)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        pending, late = len(self._pending.asked), self._late[candidate] > 0  # (5)
        asked = pending < self._points.pending
        if not asked:
            self._points.add(candidate, noise_variance, max(1, self.missing))
        told, survivors = self._told + (not late), None
        waiting = pending - self._late.total() + late
        if self._ends(told, waiting):
            seen = copy.deepcopy(self._seen)
            seen.add(candidate, y, noise_variance)
            survivors = self._survivors(seen)  # before anything changes: it may be interrupted
        self._model.observe(candidate, y, noise_variance)
        self._points.pending -= asked
        self._late -= Counter([candidate] if late else [])
        self._told = told
        if survivors is None:
            self._seen.add(candidate, y, noise_variance)
        else:
            self._begin(survivors)

    def _ends(self, told: int, waiting: int) -> bool:
        """Return whether the batch ends with so many of its points told, and so many asked for and not told."""
        length = self.lengths[self.batch - 1]
        enough = told >= length - math.floor(self.delay * length) and told + waiting >= length
        return enough and self.batch < len(self.lengths)

    def _survivors(self, seen: CollapsedObservations) -> Indices:
        """Return the candidates that the observations of the batch do not eliminate."""
        mean, variance = self._posterior_of_batch(seen)
        half = self._width * np.sqrt(variance)
        return self._surviving[mean + half >= np.max(mean - half)]  # (3)

    def _posterior_of_batch(self, seen: CollapsedObservations) -> tuple[Floats, Floats]:
        """Return mean and variance of the surviving candidates given the observations of the batch: two (m,) arrays."""
        numbers, averages, noise_variances = seen.collapsed()
        x = self.domain.coordinates(numbers)
        prior_mean, kernel = self._model.prior_mean, self._model.kernel
        regression = Regression(kernel, x, noise_variances, averages - prior_mean(x))
        known = self._points.are_those_of(seen)
        mean = np.empty(len(self._surviving))
        variance = self._points.engine.at(self._surviving)[1] if known else np.empty_like(mean)
        for start in range(0, len(mean), BLOCK):
            some = slice(start, start + BLOCK)
            x = self.domain.coordinates(self._surviving[some])
            if known:
                mean[some] = regression.mean(x)
            else:
                mean[some], variance[some] = regression.predict(x)
            mean[some] += prior_mean(x)
        return mean, variance

    def _begin(self, survivors: Indices) -> None:
        """Begin the next batch."""
        self._set_surviving(survivors)
        self.batch, self._told, self._late = self.batch + 1, 0, Counter(self._pending.asked)
        self._seen, self._points = CollapsedObservations(), self._no_points()

    # ---- the points of the batch

    def make_model(self, schedule: HyperparameterSchedule | None = None) -> LazyModel:
        direction = -1 if self.minimize else 1
        prior = ModelPrior(self.prior_kernel, self._given_mean_at, self._constant_mean, direction)
        return LazyModel(prior, self._domain, self.make_engine, self.regularization)

    def _no_points(self) -> BatchPoints:
        return BatchPoints(self.make_model(), self.shrinkage)

    def _points_so_far(self) -> BatchPoints:
        """Return the points of the batch, with all that were asked for and without those given up."""
        pending, excluded = self._pending.asked, self._pending.excluded
        if not self._points.up_to_date(pending, excluded):
            self._points = self._no_points()
            self._points.add_observed(self._seen)
            self._points.add_excluded(excluded)
        self._points.add_pending(pending, self._left_of(self._points.pending))
        return self._points

    def abandon(self, x: ArrayLike | None = None) -> None:
        super().abandon(x)
        self._late &= Counter(self._pending.asked)

    def learn_failure(self, candidate: int) -> None:
        super().learn_failure(candidate)
        self._late &= Counter(self._pending.asked)

    def _set_surviving(self, candidates: Indices) -> None:
        self._surviving = candidates
        self._mask = np.zeros(self.domain.size, dtype=np.bool_)
        self._mask[candidates] = True

    # ---- results and state

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) of the points of the batch, with those asked for."""
        return self._points_so_far().model.information_gain

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; without observations, of best prior mean."""
        numbers = np.flatnonzero(self.queried)
        if not len(numbers):
            return super().recommend()
        mean, variance = self._model.predict(self.domain.coordinates(numbers))
        place, _ = choose(mean, self._salt, numbers=numbers)
        return Best(self._domain.value(int(numbers[place])), float(mean[place]), float(np.sqrt(variance[place])))

    def extend(self, grown: Domain) -> None:
        super().extend(grown)
        self._points.model = self._points.model.extended(grown)
        self._mask = np.append(self._mask, np.zeros(grown.size - len(self._mask), dtype=np.bool_))

    @property
    def ask_is_stateful(self) -> bool:
        return self._points.engine.ask_is_stateful

    def state(self) -> State:
        self._points_so_far()
        return super().state()

    def _restore_points(self, state: State) -> None:
        self._points = self._no_points()
        self._points.restore(state)
