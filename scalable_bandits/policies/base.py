"""The interface of policies: ask for a point, tell its value, in any order, with points pending in between."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.best import Best as Best
from scalable_bandits.policies.best import Observations
from scalable_bandits.policies.measurements import Noise, measured
from scalable_bandits.policies.pending import PendingPoints, PointNotPending
from scalable_bandits.policies.recorder import Recorder
from scalable_bandits.posteriors.placement import Executor, executor
from scalable_bandits.posteriors.state import Field, Stateful, number
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Domain, Indices, Mask, Space, make_domain
from scalable_bandits.spaces.domain import CANDIDATES
from scalable_bandits.specification import Specification


@attrs.define(eq=False, kw_only=True, slots=False)
class Policy(Stateful, AbstractContextManager[Any], Specification):
    """A bandit algorithm: `ask` returns the next point, `tell` takes its value.

    Parameters
    ----------
    space
        Domain D of the function.
    noise
        R, the sub-Gaussian constant of the noise, in units of y.
    regularization
        lambda, the variance of the noise in the posterior, in squared units of y.
    delta
        Failure probability of the guarantees.
    horizon
        Number of rounds, for policies whose parameters depend on it.
    seed
        Seed of the policy's draws, ties and candidate sets.
    candidates
        Number of Sobol points through which a box is played. If not given, policies that maximise an index maximise it
        over the whole box, `GPTS` a sample path, and the others take 1024. Not used on a finite space.
    on
        Executor of the policy's shards: None (this process), "threads:4" (threads of this process), "local:4" (worker
        processes on this machine), the address of a Dask scheduler, a `distributed.Client`, or a recipe. The numbers
        are the same for all. A cluster that was started for the policy ends with it, or with `close`. A copy of the
        policy, also by pickle, has the address of a client's scheduler.

    Attributes
    ----------
    rounds : int
        Number of observations told so far; read only.
    continuous : bool
        Whether policies of this very class play a whole box; a subclass, whose posterior may differ, says so itself.
    sharded : bool
        Whether an executor can hold shards of the policy (`on`).

    Raises
    ------
    ValueError
        If a number is not finite or not in its range; the message names the argument, what was given, what is allowed.
    TypeError
        If the space is not a space, or the kernel not a kernel.
    """

    STATE: ClassVar[tuple[Field, ...]] = (  # pending points are no part of it
        number("rounds", int),
        Field("added", "(k, d)", float, lambda self: self.domain.added(), lambda self, x: self._restore_added(x)),
    )
    continuous: ClassVar[bool] = False
    sharded: ClassVar[bool] = False

    space: Space = attrs.field(kw_only=False, validator=checks.instance_of(Space, "a space: Box, Grid, Points or Arms"))
    noise: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    regularization: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    delta: float = attrs.field(default=0.1, converter=checks.to_float, validator=checks.probability)
    horizon: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    seed: int = attrs.field(default=0, converter=checks.to_int, validator=checks.whole(0, below=2**64))
    candidates: int | None = attrs.field(
        default=None, converter=checks.to_int, validator=checks.whole(1, optional=True)
    )
    on: Any = attrs.field(default=None, repr=False)
    rounds: int = attrs.field(default=0, init=False, on_setattr=attrs.setters.NO_OP)
    _domain: Domain = attrs.field(init=False, repr=False)
    _executor: Executor = attrs.field(init=False, repr=False)
    _noise_floor: float = attrs.field(default=0.0, init=False, repr=False)
    _pending: PendingPoints = attrs.field(init=False, factory=PendingPoints, repr=False)
    _recorder: Recorder | None = attrs.field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.candidates is None and not (self.space.finite is None and self._takes_whole_boxes()):
            self.candidates = CANDIDATES
        self._domain = make_domain(self.space, self.candidates, self.seed)
        self._salt = derived_seed(self.seed, "ties")
        if self.on is not None and not self.sharded:
            checks.refuse("on", self.on, f"None: {type(self).__name__} has no shards")
        self._executor = executor(self.on)

    def _takes_whole_boxes(self) -> bool:
        return bool(vars(type(self)).get("continuous", False))

    # ---- the algorithm

    @abstractmethod
    def choose(self, allowed: Mask | None = None) -> int | Floats:
        """Choose what to play next, given the observations and the pending points.

        Parameters
        ----------
        allowed
            (size,) candidates to choose from; all if not given.

        Returns
        -------
        int or ndarray
            Number of a candidate; on a whole box a point (d,).
        """

    @abstractmethod
    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Take in an observation of a candidate; `noise_variance` in the posterior's terms (lambda)."""

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and variance of f at points (k, d) of the space's box, two (k,) arrays."""

    @abstractmethod
    def best(self) -> Best:
        """Recommendation after the observations so far."""

    def precheck(self, count: int) -> None:
        """Evaluate the user's functions for the next `count` rounds: one that fails does so before anything changes."""

    def extend(self, grown: Domain) -> None:
        """Prepare for the domain with more points of a box, or for the one before an `ask` that failed; may raise."""

    @property
    def width(self) -> float:
        """Confidence width beta of the next round; NaN for a policy without one."""
        return float("nan")

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the next round's width; NaN for a policy without one."""
        return float("nan")

    @property
    def round(self) -> int:
        """t of the next round: 1 plus the numbers of points told and pending."""
        return self.rounds + len(self._pending.numbers) + 1

    def posterior(self, x: ArrayLike) -> tuple[Any, Any]:
        """Posterior mean and standard deviation of f at x; before the first `tell`, the prior's.

        Parameters
        ----------
        x
            (d,) or (k, d), anywhere, not only at candidates; for `Arms` an arm number or (k,) of them.

        Returns
        -------
        mean, std : float, or ndarray (k,)
            In units of y.

        Raises
        ------
        ValueError
            If x is not finite, not of the space's dimension, or not an arm.
        """
        return self._described(x, self.moments)

    def _described(self, x: ArrayLike, moments: Callable[[Floats], tuple[Floats, Floats]]) -> tuple[Any, Any]:
        """Return mean and standard deviation at x, in its shape, from mean and variance at points (k, d)."""
        points, single = self.space.parse(x)
        if not self.space.has_coordinates:
            self.space.check(x)
        mean, variance = moments(points)
        std = np.sqrt(variance)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    @property
    def observations(self) -> Observations | None:
        """Observations that the posterior is made of; None if the policy keeps no list of them or forgets gradually."""
        return None

    # ---- ask and tell

    @property
    def finite_space(self) -> Any:
        """Points by number: `space` itself if it is finite, the candidate set of a box, or the points visited."""
        return self._domain.numbered

    @property
    def domain(self) -> Domain:
        """Numbered points that may be played or told."""
        return self._domain

    @property
    def pending_points(self) -> PendingPoints:
        """Pending points by number."""
        return self._pending

    @property
    def recorded(self) -> bool:
        """Whether a recorder records what is asked and told."""
        return self._recorder is not None

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        """Mask (size,) of the candidates that may be chosen, None if all may; arguments and ValueError as of `ask`."""
        return self._domain.allowed(available, context)

    @property
    def pending(self) -> list[Any]:
        """Points asked for whose value has not been told, in the order of asking."""
        return [self._domain.value(c) for c in self._pending.numbers]

    def ask(
        self, n: int | None = None, *, available: ArrayLike | None = None, context: Mapping[int, float] | None = None
    ) -> Any:
        """Choose the next point, or the next `n` points. They stay pending until told.

        Parameters
        ----------
        n
            Number of points; one point, without a leading axis, if not given.
        available
            X_t, the candidates that may be chosen: a mask (size,) or candidates' numbers.
        context
            Coordinates that are given in this round, not chosen, by dimension from 0: ``{1: 0.5}`` chooses among the
            candidates whose second coordinate is 0.5 (contextual bandits, Krause & Ong 2011). On a grid or points.

        Returns
        -------
        ndarray or int
            A point (d,) float64, or (n, d); for `Arms` an arm number, or (n,) of them.

        Raises
        ------
        ValueError
            If n < 1, or the availability set is empty or not of the space, or no candidate has the context. Nothing
            has changed then.
        """
        count = 1 if n is None else checks.integer("n", n, 1)
        allowed = self.allowed(available, context)
        pending, domain, asked = self._pending.copy(), self._domain, []
        try:
            for _ in range(count):
                chosen = self._pending.next_reissue(allowed)
                if chosen is None:
                    with self._pending.choosing():
                        chosen = self.propose(allowed)
                    self._pending.add(chosen)
                asked.append(chosen)
            if self._recorder is not None:
                self._recorder.asked(self._pending.numbers)
        except BaseException:
            self._pending = pending
            if self._domain is not domain:
                self._enter(domain)
            raise
        points = [self._domain.value(candidate) for candidate in asked]
        return points[0] if n is None else np.array(points)

    def propose(self, allowed: Mask | None = None) -> int:
        """Return the number of what `choose` chooses from a mask (size,), or from all: the step of a simulation."""
        chosen = self.choose(allowed)
        if isinstance(chosen, np.ndarray):
            return int(self._locate(chosen[None])[0])
        return self._domain.canonical(int(chosen))

    def tell(self, x: ArrayLike, y: ArrayLike, *, noise: ArrayLike | None = None) -> None:
        """Report one observation or many, of asked points in any order or of any other points.

        Parameters
        ----------
        x
            (d,) or (k, d); for `Arms` an arm number or (k,) of them.
        y
            A number, or (k,), in units of y.
        noise
            Standard deviation of each measurement's own noise, in units of y, where it is known; a number or (k,). A
            measurement of noise s counts with variance lambda (s / R)^2.

        Raises
        ------
        ValueError
            If a point is not in the space, a value not finite, a noise not positive, or the lengths differ. Nothing has
            changed then.
        """
        usual = Noise(self.noise, self.regularization, self._noise_floor)
        points, values, own, variances = measured(self.space, x, y, noise, usual)
        before = self.__dict__.copy()
        candidates = self._locate(points)
        try:
            self.precheck(len(values))
            if self._recorder is not None:
                self._recorder.tells(candidates, points, values, own)
        except BaseException:
            self.__dict__.update(before)  # without the points that were added to a box
            raise
        for candidate, value, variance in zip(candidates.tolist(), values.tolist(), variances.tolist(), strict=True):
            self.observe(candidate, value, variance)
        if self._recorder is not None:
            self._recorder.told()

    def observe(self, candidate: int, y: float, noise_variance: float | None = None) -> None:
        """`tell` by a candidate's number, unchecked: the step of a simulation; noise variance lambda if not given."""
        pending = None
        if candidate in self._pending.numbers:
            pending = self._pending.copy()
            self._pending.settle(candidate)
        try:
            self.learn(candidate, y, self.regularization if noise_variance is None else noise_variance)
        except BaseException:  # workers are gone, or somebody pressed Ctrl-C: the value can be told again
            if pending is not None:
                self._pending = pending
            raise
        self.rounds += 1

    def abandon(self, x: ArrayLike | None = None) -> None:
        """Give up on pending points: all of them, or those at `x`; ValueError, and no change, if one is not pending.

        Parameters
        ----------
        x
            (d,) or (k, d); for `Arms` an arm number or (k,) of them. A point pending twice is to be named twice.
        """
        left: list[int] = []
        if x is not None:
            try:
                left = self._pending.without(self._domain.find(self.space.parse(x)[0]).tolist())
            except PointNotPending:
                checks.refuse("x", x, f"a pending point; pending: {self.pending}")
        if self._recorder is not None:
            self._recorder.asked(left)
        self._pending.keep(left)

    def _locate(self, points: Floats) -> Indices:
        """Return the numbers (k,) of points (k, d); points of a box that have none get the next ones."""
        found = self._domain.find(points)
        if (found >= 0).all():
            return found
        self._enter(self._domain.grown(np.unique(points[found < 0], axis=0)))
        return self._domain.find(points)

    def _enter(self, domain: Domain) -> None:
        self.extend(domain)
        self._domain = domain

    # ---- recorded, resumed, copied

    def record_to(self, recorder: Recorder | None) -> None:
        """Pass everything asked and told from now on to a recorder; None ends it."""
        self._recorder = recorder

    def __getstate__(self) -> dict[str, Any]:
        """State of copies, which no recorder records: a store has one writer."""
        return {**vars(self), "_recorder": None, "on": self._executor.portable}

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "on"}

    def close(self) -> None:
        """Delete what workers hold for this policy, and end a cluster that was started for it.

        If the policy goes on, both are made again. ``with sb.PEGPUCB(..., on="local:4") as policy:`` closes it at the
        end. Your own client stays open.
        """
        self._executor.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def introduce(self, candidates: Indices, points: Floats) -> None:
        """Give points (k, d) of a whole box the numbers (k,) of an earlier process; other domains have their own."""
        placed = self._domain.placed(candidates, points)
        if placed is not self._domain:
            self._enter(placed)

    def untold(self) -> Indices:
        """Numbers (k,) of a whole box's points that were asked for and not told; none on other domains."""
        return np.empty(0, dtype=np.int64)

    @property
    def ask_is_stateful(self) -> bool:
        """Whether asking leaves traces in later rounding, so that an exact replay has to ask too."""
        return False

    def _restore_added(self, points: Floats) -> None:
        """Replace the points (k, d) that were told beside the candidates."""
        if self._domain.size > self._domain.choosable:
            self._domain = make_domain(self.space, self.candidates, self.seed)
        if len(points):
            self._domain = self._domain.grown(points)
