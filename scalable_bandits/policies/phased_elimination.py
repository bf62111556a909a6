"""Batched pure exploration with elimination. Source: Li & Scarlett 2022, Algorithm 1.

    input: candidates D, prior GP(m, k), T, parameters B, R, lambda, delta;   C_1 = D, N_0 = 1
    for batch i = 1, 2, ...:
        N_i = ceil(sqrt(T N_{i-1})), at most the rounds that are left                                  (1)
        for j = 1, ..., N_i: play x_j = argmax of s_{j-1}(x) over C_i, s of the j - 1 points before    (2)
        observe the values of the batch: mu_i, s_i of this batch alone
        C_{i+1} = {x in C_i: mu_i(x) + beta s_i(x) >= max over C_i of mu_i - beta s_i}                 (3)

No point depends on a value of its own batch: all may be evaluated at once, and values are waited for O(log log T)
times. Hence also beta without the information gain. A fixed number of batches and late values: `BatchedElimination`.

Repetition (after Calandriello et al. 2022): x_j is played max(1, floor((C^2 - 1) lambda / s_{j-1}^2(x_j))) times, by
when no deviation anywhere is smaller by more than the factor C. The cost then follows the distinct points.  (4)
Deviations are those of the plays made or pending, not of those planned. The next point is chosen anew, before all plays
are made, when x_j is not available, and after a value that was not asked for, a failure or a point given up.

Differs from the paper in: beta = sqrt(B^2 + 2 R^2 / lambda log(2 |D| n / delta)) for n batches and both sides, which is
smaller than the sum of its two parts (`formulas.confidence.fixed_points`); and as `BatchedElimination` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.whole import number_of_plays
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.batched_elimination import BatchedElimination
from scalable_bandits.posteriors import State
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.models.model import DEVIATION, Model
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import StateEntry, Stateful, group, member, number
from scalable_bandits.posteriors.tiled.design import DesignEngine
from scalable_bandits.spaces import Domain, Indices, Mask

BLOCK = 4096  # candidates whose posterior is computed at a time, at the end of a batch


class BatchPoints(Stateful):
    """Model of the points of a batch: those observed, pending, or excluded after a failure.

    Plays of one point in succession reach the engine at once, as one of their average, when another point is added or
    chosen. A pending play has the noise variance lambda, and an observed one its own.

    Parameters
    ----------
    model
        Model without observations. Only its variances are used: it is given 0 for every value of y.
    shrinkage
        Factor C, by which deviations may shrink before another point is chosen; 1: each point is
        chosen by itself.

    Attributes
    ----------
    pending, excluded : int
        Numbers of the pending and of the excluded points that are among the points.
    last : int
        Point that was added last; -1 without any.
    more : int
        Number of times that the last point is to be asked for again.
    stale : bool
        Whether the points have to be added anew: one that the engine has as pending was observed with another noise, or
        a change was interrupted.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        member("model", prefix=False),
        number("pending", int),
        number("excluded", int),
        number("more", int),
        number("last", int),
        number("_precision", float),
        number("_waiting", int),
    )

    def __init__(self, model: Model, shrinkage: float):
        self.model, self._shrinkage = model, shrinkage
        self.pending, self.excluded, self.stale = 0, 0, False
        self.last, self.more = -1, 0
        self._precision, self._waiting = 0.0, 0  # what the engine lacks of its plays: observed ones, and pending ones
        self._before: float | None = None  # variance of that point in the engine, once it is known

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) of all points."""
        gain, lacking = self.model.engine.information_gain, self._lacking
        if lacking and self._before is None:
            self._before = self._variance_of(self.last)
        # By the expression of the engines, to the last bit.
        return gain if self._before is None else gain + 0.5 * math.log1p(self._before / (1.0 / lacking))

    def largest(self, salt: int, allowed: Mask | None) -> int:
        """Return the candidate of largest deviation among those of a mask (n,); ties are broken by a seeded hash."""
        self._settle()
        return self.model.engine.argmax(DEVIATION, salt, allowed)[0]

    def variances(self, candidates: Indices) -> Floats:
        """Return the variances (k,) of candidates (k,), given all points."""
        self._settle()
        return self.model.engine.at(candidates)[1]

    # ---- points

    def play(self, candidate: int) -> None:
        """Add a pending play of a chosen point: one of those planned, or the first of a new choice."""
        if not (self.more and candidate == self.last):
            self._settle()
            self.more = self._plays_of(candidate)
        self.wait(candidate)
        self.more -= 1

    def wait(self, candidate: int) -> None:
        """Add a pending play of a point, without planning others."""
        self._move_to(candidate)
        self.pending, self._waiting = self.pending + 1, self._waiting + 1

    def told(self, candidate: int, noise_variance: float) -> None:
        """Replace a pending play of a point by an observation."""
        if candidate == self.last and self._waiting:
            self._waiting, self._precision = self._waiting - 1, self._precision + 1.0 / noise_variance
        elif noise_variance != self.model.regularization:
            self.stale = True
        self.pending -= 1

    def add(self, candidate: int, noise_variance: float) -> None:
        """Add an observation of a point that was not asked for. The next point is then chosen anew."""
        self._move_to(candidate)
        self._precision, self.more = self._precision + 1.0 / noise_variance, 0

    def add_all(self, observed: CollapsedObservations, excluded: Sequence[int], pending: Sequence[int]) -> None:
        """Add points, to none so far: observed ones, whatever their values, excluded ones, and pending ones."""
        points, _, noise_variances = observed.collapsed()
        for point, variance in zip(points.tolist(), noise_variances.tolist(), strict=True):
            self.model.observe(point, 0.0, variance)
        for candidate in excluded:
            self.model.observe(candidate, 0.0, self.model.regularization)
        self.excluded = len(excluded)
        for candidate in pending:
            self.wait(candidate)

    def go_on(self, earlier: BatchPoints) -> None:
        """Play the point that earlier points planned to play again as often as they did."""
        self._move_to(earlier.last)
        self.more = earlier.more

    def _move_to(self, candidate: int) -> None:
        """Make a point the one that was added last."""
        if candidate != self.last:
            self._settle()
            self.last = candidate

    @property
    def _lacking(self) -> float:
        """Precision (one over noise variance) of the plays that the engine lacks."""
        return self._precision + self._waiting / self.model.regularization

    def _settle(self) -> None:
        """Condition the engine on the plays that it lacks."""
        if lacking := self._lacking:
            self.model.observe(self.last, 0.0, 1.0 / lacking)
            self._precision, self._waiting, self._before = 0.0, 0, None

    def _variance_of(self, candidate: int) -> float:
        """Return the variance of a candidate in the engine."""
        return float(self.model.engine.at(np.array([candidate]))[1][0])

    def _plays_of(self, candidate: int) -> int:
        """Return how often a point is played if it is chosen now."""
        if self._shrinkage == 1.0:
            return 1
        return number_of_plays(self._shrinkage, self.model.regularization, self._variance_of(candidate))


@attrs.define(eq=False, kw_only=True, slots=False)
class PhasedElimination(BatchedElimination):
    """Pure exploration in a few batches, after each of which candidates are eliminated; for a known horizon.

    It buys few synchronisations, long horizons and many workers: in 10^4 rounds its regret is larger than that of
    `IGPUCB`. `information_gain` is that of the points of the batch, with those asked for.

    Parameters
    ----------
    shrinkage
        Factor C of (4), at least 1; 1: a point is chosen anew in every round. With 1.1, a million rounds of 1000
        candidates take a few thousand choices.

    Other parameters are those of `BatchedElimination`, `GaussianProcessPolicy` and `Policy` (`on`: executor of the
    tiles of a large space, where variances are computed).

    Notes
    -----
    With the engine "tiled" (more than 6000 candidates) a batch takes 8 bytes of memory for each candidate and choice: a
    thousand choices among a million candidates take 8 GB, in all processes together.

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

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        member("_seen"),
        group("points", lambda self: self._points.state(), lambda self, state: self._restore_points(state)),
    )

    shrinkage: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.at_least_one)
    # Observations of the batch.
    _seen: CollapsedObservations = attrs.field(init=False, factory=CollapsedObservations, repr=False)
    _points: BatchPoints = attrs.field(init=False, repr=False)  # model of the points of the batch
    _chosen: bool = attrs.field(init=False, default=False, repr=False)  # whether a point was chosen since the last one

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._points = self._no_points()

    # ---- the algorithm

    def choose(self, allowed: Mask | None = None) -> int:
        self._chosen = True
        with self._points_so_far() as points:
            if points.more and (allowed is None or allowed[points.last]):
                return points.last  # (4)
            return points.largest(self._salt, self._choosable(allowed))  # (2)

    def survivors(self, candidate: int, y: float, noise_variance: float) -> Indices:
        mean, variance = self._posterior_of_batch(self._seen.plus(candidate, y, noise_variance))
        half = self.width * np.sqrt(variance)
        return self._surviving[mean + half >= np.max(mean - half)]  # (3)

    def _posterior_of_batch(self, seen: CollapsedObservations) -> tuple[Floats, Floats]:
        """Return mean and variance of the surviving candidates given the observations of the batch: two (m,) arrays."""
        numbers, averages, noise_variances = seen.collapsed()
        x = self.domain.coordinates(numbers)
        prior_mean, kernel = self.model.prior_mean, self.model.kernel
        regression = Regression(kernel, x, noise_variances, averages - prior_mean(x))
        points = self._points
        known = not (points.pending or points.excluded or points.stale)  # all observed: variances have been computed
        mean = np.empty(len(self._surviving))
        variance = points.variances(self._surviving) if known else np.empty_like(mean)
        for start in range(0, len(mean), BLOCK):
            some = slice(start, start + BLOCK)
            x = self.domain.coordinates(self._surviving[some])
            if known:
                mean[some] = regression.mean(x)
            else:
                mean[some], variance[some] = regression.predict(x)
            mean[some] += prior_mean(x)
        return mean, variance

    # ---- the points of the batch

    def abandon(self, x: ArrayLike | None = None) -> None:
        with self._lock:
            super().abandon(x)
            self._points.stale = True  # there may be as many as before: the last one enters at the next call
            with self._points_so_far():
                pass

    def observe(self, candidate: int, y: float, noise_variance: float | None = None) -> None:
        with self._points_so_far():
            super().observe(candidate, y, noise_variance)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        asked, self._asked = self._asked, True
        if asked and len(self._pending.asked) == self._points.pending:  # proposed in a simulation, or in a run before
            if not self._chosen:
                self.choose()  # as before the run was resumed, since it decides what is computed together
            self._points.play(candidate)
        self._chosen = False
        (self._points.told if asked else self._points.add)(candidate, noise_variance)
        super().learn(candidate, y, noise_variance)

    def add_value(self, candidate: int, y: float, noise_variance: float) -> None:
        self._seen.add(candidate, y, noise_variance)

    def begin(self, eliminated: Indices) -> None:
        self._seen, self._points = CollapsedObservations(), self._no_points()
        self._points.stale = True  # late points are pending, and are not played again

    def _no_points(self) -> BatchPoints:
        make = self._design_engine if self.engine == "tiled" else self._make_engine
        return BatchPoints(Model(self._prior, self.domain, make, self.regularization), self.shrinkage)

    def _design_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> DesignEngine:
        executor = None if self.on is None else self._executor
        space = self.domain.model_space if self.domain.size == len(points) else None
        return DesignEngine(kernel, points, prior_mean, executor, space)

    @contextmanager
    def _points_so_far(self) -> Iterator[BatchPoints]:
        """Bring the points of the batch up to date: all that were asked for, without those given up.

        After lost workers or Ctrl-C, which may leave half of a point in the engine, they are added anew.
        """
        pending, excluded = self._pending.asked, self._pending.excluded
        points = self._points
        same = len(pending) >= points.pending and len(excluded) == points.excluded  # no point has been removed
        try:
            if points.stale or not same:
                self._points = self._no_points()
                self._points.add_all(self._seen, excluded, pending)
                if same:
                    self._points.go_on(points)
            for candidate in pending[self._points.pending :]:
                self._points.play(candidate)
            yield self._points
        except BaseException:
            self._points.stale = True
            raise

    # ---- results and state

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) of the points of the batch, with those asked for."""
        with self._points_so_far() as points:
            return points.information_gain

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._points.model = self._points.model.extended(grown)

    def state(self) -> State:
        with self._points_so_far():
            return super().state()

    def _restore_points(self, state: State) -> None:
        self._points = self._no_points()
        self._points.restore(state)
