"""The interface of policies: ask for a point, tell its value, in any order, with points pending in between."""

from __future__ import annotations

import copy
import functools
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.measurements import Measuring
from scalable_bandits.policies.outputs import Margin, Outputs, Told
from scalable_bandits.policies.pending import AllFailed, PendingPoints, PointNotPending
from scalable_bandits.posteriors.placement import Executor, executor
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.posteriors.state import StateEntry, Stateful, number, value
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Domain, Indices, Mask, Pool, Space, make_domain
from scalable_bandits.spaces.domain import CANDIDATES, numbers_all
from scalable_bandits.spaces.finite import MOST_NUMBERED, counted
from scalable_bandits.spaces.pool import Available, NoCandidateLeft, mask_of
from scalable_bandits.specification import Specification, arguments_of, is_own


class Best(NamedTuple):
    """Recommendation of a policy."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f at x, in units of y
    std: float  # standard deviation of the estimate, in units of y

    @property
    def value(self) -> float:
        """The mean, by the name that it has in a `TuningResult`, too."""
        return self.mean


class Observations(NamedTuple):
    """Observations of a policy, averaged at each distinct point."""

    x: Floats  # (m, d) distinct points; for `Arms` (m, 1) arm numbers
    y: Floats  # (m,) precision-weighted averages, in units of y
    noise_variance: Floats  # (m,) in squared units of y, noise variances of the averages


class Recorder(Protocol):
    """Object that records a policy's pending points and observations.

    Errors that it raises leave the policy unchanged; `told` comes after the change, and raises none.
    """

    def asked(self, pending: Sequence[int]) -> None:
        """Record the candidates that are pending after an `ask`, or after points were abandoned."""

    def tells(
        self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None, beside: Floats | None
    ) -> None:  # fmt: skip
        """Record observations, before the policy learns them.

        `noise` is as the user gave it, standard deviations; `beside` has the values (k, J) of further outputs.
        """

    def failed(self, candidate: int, point: Floats, error: str) -> None:
        """Record that the evaluation of a candidate, at a point (d,), failed, before the policy learns it."""

    def told(self) -> None:
        """Note that the policy has learned the observations of the last `tells`."""


MOST_DRAWS = 100  # random points that are tried where the chosen one is excluded: its evaluation has failed
A_SPACE = "a space: SearchSpace({name: parameter}), Settings, Box, Grid, Points, Arms or Pool"
_UNCHECKED = attrs.setters.NO_OP  # no validator and converter for attributes that are set in every round


@attrs.define(eq=False, kw_only=True, slots=False)  # after an error `vars(self)` are those before
class Policy(Specification, Stateful, AbstractContextManager[Any]):
    """Bandit algorithm: `ask` returns the next point, `tell` takes its value; several threads may share one.

    One act has a name on each level:

    ==================  =========================  ========================  =====================
    users' points       numbers of points          the algorithm             the model
    ==================  =========================  ========================  =====================
    `ask`               `propose` (simulations)    `choose`                  `argmax`
    `tell`              `observe` (simulations)    `learn`                   `observe`
    ==================  =========================  ========================  =====================

    Threads may share `ask`, `tell`, `tell_failure`, `abandon`, `best`, `posterior`, `interval` and `observations`.

    Parameters
    ----------
    space
        Domain D of the function.
    noise
        Sub-Gaussian constant R of the noise, in units of y.
    regularization
        Noise variance lambda of the posterior, in squared units of y.
    delta
        Failure probability of the guarantees.
    horizon
        Number of rounds, for policies whose parameters depend on it.
    seed
        Seed of the policy's draws, ties and candidate sets.
    minimize
        Whether smaller values are better. Values told, recommendations, posteriors and a given prior mean are in units
        of y all the same; the policy maximises -y.
    candidates
        Number of Sobol points that stand for a box, or for a grid of more candidates than the policy enumerates. If not
        given, policies whose class is `continuous` search the whole of both; on a box the others use 1024 points. Not
        used on other finite spaces.
    on
        Executor of the policy's shards, or of the chunks of a pool: None (this process), "threads:4" (threads of this
        process), "local:4" (worker processes on this machine), the address of a Dask scheduler, a `distributed.Client`,
        or a recipe (``cluster/``). All compute the same numbers. A cluster is started when it is first needed, and ends
        when the policy is closed or deleted. A copy of a policy with a client, also a pickled one, has the address of
        the client's scheduler instead.

    Attributes
    ----------
    domain : Domain
        Numbered points that may be played or told; read only.
    rounds : int
        Number of observations told so far; read only.
    failures : int
        Number of failures told so far; read only.
    continuous : bool
        Whether policies of this class can play a whole box, and a grid that they do not enumerate.
    sharded : bool
        Whether policies of this class have shards that an executor (`on`) can hold.
    pools : bool
        Whether policies of this class can play a `Pool`, whose chunks an executor (`on`) scores.

    Raises
    ------
    ValueError, TypeError
        If a number is not finite or not in its range; if the space is not a space, or the kernel not a kernel.
    """

    # Besides those of subclasses. Without the pending points: a store has these, and calls `_restore_pending`.
    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("rounds", int),
        number("failures", int),
        value(
            "excluded", "(k,)", np.int64, lambda self: self._pending.excluded,
            lambda self, found: setattr(self, "_pending", attrs.evolve(self._pending, excluded=found.tolist())),
        ),
        StateEntry("added", "(k, d)", float, lambda self: self.domain.added(), lambda self, x: self._restore_added(x)),
    )  # fmt: skip
    _not_in_data: ClassVar[frozenset[str]] = frozenset({"on"})  # parameters that `to_dict` leaves out
    continuous: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    _foreign: ClassVar[bool] = False  # whether the class is from outside the package
    _repeats: ClassVar[bool] = False  # whether a candidate of a pool may be chosen again, unless the pool says
    _takes_contexts: ClassVar[bool] = True  # where points have no numbers

    space: Space = attrs.field(kw_only=False, validator=checks.instance_of(Space, A_SPACE))
    noise: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    regularization: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    delta: float = attrs.field(default=0.1, converter=checks.to_float, validator=checks.probability)
    horizon: int | None = checks.optional_count()
    seed: int = attrs.field(default=0, converter=checks.to_int, validator=checks.whole(0, below=2**64))
    minimize: bool = attrs.field(
        default=False, validator=checks.instance_of(bool, "True or False"), on_setattr=attrs.setters.frozen
    )
    candidates: int | None = checks.optional_count()
    on: Any = attrs.field(default=None, repr=False)
    rounds: int = attrs.field(default=0, init=False, on_setattr=_UNCHECKED)
    failures: int = attrs.field(default=0, init=False, repr=False)
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False, repr=False)
    domain: Domain = attrs.field(init=False, repr=False)
    _executor: Executor = attrs.field(init=False, repr=False)
    _measuring: Measuring = attrs.field(init=False, repr=False)
    _pending: PendingPoints = attrs.field(factory=PendingPoints, init=False, repr=False, on_setattr=_UNCHECKED)
    _recorder: Recorder | None = attrs.field(default=None, init=False, repr=False)
    # Number of points that the present `ask` is for.
    _batch_size: int = attrs.field(default=1, init=False, repr=False, on_setattr=_UNCHECKED)
    # Candidates of a pool among which the present `ask` chooses; None for all.
    _available: Available | None = attrs.field(default=None, init=False, repr=False, on_setattr=_UNCHECKED)
    # Coordinates (d,) that the present `ask`, or `best`, fixes where points have no numbers, NaN where one is free.
    _fixed: Floats | None = attrs.field(default=None, init=False, repr=False, on_setattr=_UNCHECKED)
    # Whether the point that `learn` gets was asked for; and the values (J,) of its further outputs.
    _asked: bool = attrs.field(default=True, init=False, repr=False, on_setattr=_UNCHECKED)
    _beside: Floats | None = attrs.field(default=None, init=False, repr=False, on_setattr=_UNCHECKED)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._foreign = not is_own(cls)

    def __attrs_post_init__(self) -> None:
        if self.minimize and type(self).best is not Policy.best:  # which turns the sign of what `recommend` returns
            checks.refuse("minimize", True, f"False: {type(self).__name__} defines `best`, not `recommend`")
        if self.space.scanned and not self.pools:
            playing = "GPUCB, IGPUCB, GPEI, GPTS, PIMS, BKB, BBKB, PartitionedUCB, MeanOnly, VarianceOnly, RandomSearch"
            checks.refuse("space", self.space, f"no pool for {type(self).__name__}; policies that play one: {playing}")
        large = not numbers_all(self.space, self._most_numbered)
        if self.candidates is None and not (large and (self.space.scanned or self._takes_boxes())):
            if large and self.space.lattice is not None:
                allowed = f"at most {self._most_numbered:,} for {type(self).__name__}, or candidates= to choose from"
                checks.refuse("space", f"{counted(self.space.size or 0)} candidates", allowed)
            self.candidates = CANDIDATES
        self.domain = self._fresh_domain()
        self._measuring = Measuring(type(self).__name__, self.noise, self.regularization)
        self._salt = derived_seed(self.seed, "ties")
        if self.on is not None and not (self.sharded or self.space.scanned):
            checks.refuse("on", self.on, f"None: {type(self).__name__} has no shards")
        self._executor = executor(self.on)

    def _takes_boxes(self) -> bool:
        """Return whether the policy plays whole boxes; of a `continuous` class a parameter may decide otherwise."""
        return self.continuous

    @property
    def _most_numbered(self) -> int:
        """Number of candidates beyond which a grid is played as a box is."""
        return MOST_NUMBERED

    def _fresh_domain(self) -> Domain:
        return make_domain(self.space, self.candidates, self.seed, self._most_numbered)

    # ---- what a class defines; values are oriented (larger is better) in all of it but `_play`

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
            Number of a candidate; on a whole box, where no mask is given, a point (d,).
        """

    @abstractmethod
    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Add an observation of a candidate, which is no longer pending, to the model.

        Parameters
        ----------
        candidate
            Number of the candidate, or of a point that was told only.
        y
            Value, oriented: larger is better.
        noise_variance
            Noise variance, in squared units of y.
        """

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return oriented posterior mean and variance of f at any points (k, d), of arms (k, 1): two (k,) arrays."""

    def _means(self, points: Floats) -> Floats:
        """Return the oriented means (k,) of `moments`, in less time where variances take more."""
        return self.moments(points)[0]

    def _bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        """Return oriented values (k,), `deviations` standard deviations below and above the mean at points (k, d)."""
        mean, variance = self.moments(points)
        half = deviations * np.sqrt(variance)
        return mean - half, mean + half

    def recommend(self) -> Best:
        """Return the recommendation after the observations so far, with its oriented mean, for `best`."""
        raise NotImplementedError(f"{type(self).__name__} has no `recommend`")

    def _learned_observations(self) -> Observations | None:
        """Return the observations in the posterior, oriented; None if the policy keeps no list of them."""
        return None

    def _after_tell(self) -> None:
        """Do what follows a `tell`, such as a warning; simulations do not call it."""

    def _precheck(self, count: int) -> None:
        """Call the user's functions of the round (such as moving prior means) for the next `count` rounds.

        Errors that they raise then come before any change.
        """

    def _extend(self, grown: Domain) -> None:
        """Adapt to a domain with more points, or after an `ask` that failed to the previous one; may raise.

        Parts are replaced, not changed: after a `tell` that failed the policy has its earlier parts again.
        """

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        """Play rounds in a compiled loop, for simulations: the same as `propose` and `observe` round by round.

        Parameters
        ----------
        table
            Values (size,) of f at the candidates, in units of y.
        noise
            Noise (count,) of the rounds, in units of y.
        available
            Candidates that may be chosen in each of the rounds.

        Returns
        -------
        Columns or None
            What was played, columns (count,) or shorter, by which `rounds` has grown; None if the policy has no such
            loop, or not now: then nothing has changed.
        """
        return None

    @property
    def width(self) -> float:
        """Confidence width beta of the next round; NaN for a policy without one."""
        return float("nan")

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the next round's width; NaN for a policy without one."""
        return float("nan")

    # ---- ask and tell

    @property
    def round(self) -> int:
        """Number t of the next round: one more than there are points that were told or are pending."""
        return self.rounds + len(self._pending.numbers) + 1

    @property
    def activity(self) -> str:
        """Text of what takes long in the present choice, such as the chunks of a pool; for a progress bar."""
        return ""

    @property
    def pending_points(self) -> PendingPoints:
        """Pending points by number."""
        return self._pending

    @property
    def pending(self) -> list[Any]:
        """Points asked for whose value has not been told, in the order of asking."""
        return self.domain.values(self._pending.numbers)

    def ask(
        self, n: int | None = None, *, available: ArrayLike | Available | None = None,
        context: Mapping[Any, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Choose the next point, or the next `n` points, which stay pending until told.

        Parameters
        ----------
        n
            Number of points; one point, without a leading axis, if not given.
        available
            Candidates X_t that may be chosen: a mask (size,) or their numbers; for a `Pool` a function that returns a
            mask (k,) of some candidates, given their numbers (k,), which may be called in other processes.
        context
            Fixed coordinates of this round by dimension, counted from 0: ``{1: 0.5}`` chooses among the points whose
            second coordinate is 0.5 (contextual bandits, Krause & Ong 2011); on spaces of named parameters by name:
            ``{"load": 0.7}``. On a `Pool` with contexts the values of all of them by name, in every round:
            ``{"temperature": 80.0}``; a pool without contexts takes none.

        Returns
        -------
        ndarray, int, str, dict or list
            Point (d,) or points (n, d), float64; for `Arms` an arm number or (n,) arm numbers, for a `Pool` numbers of
            candidates likewise, or a label or n labels. On spaces of named parameters and pools with contexts a dict,
            or a list of n dicts.

        Raises
        ------
        ValueError
            If n < 1, no candidate is available or has the context, the space or the policy has no contexts, or a
            context is missing on a pool that has contexts; the policy is unchanged then.
        """
        count = 1 if n is None else checks.integer("n", n, 1)
        with self._lock:
            fixed = None if context is None and not self.space.scanned else self._checked_context(context)
            # Another function in each call, as what it returns may have changed: masks are not taken from earlier ones.
            some = functools.partial(available) if self.space.scanned and callable(available) else None
            allowed = self.domain.allowed(None if some else available, context)  # type: ignore[arg-type]
            self._fixed, self._available = fixed, some
            domain, pending, asked, self._batch_size = self.domain, self._pending, [], count
            try:
                asked_again = allowed
                if self._pending.reissue and not (some is None and fixed is None):
                    visited = self.domain.points()
                    asked_again = (self.space.within(visited, fixed) == visited).all(axis=1)
                    if some is not None:
                        asked_again &= mask_of(some, visited[:, 0].astype(np.int64))
                for _ in range(count):
                    chosen = self._pending.next_reissue(asked_again) if self._pending.reissue else None
                    if chosen is None:
                        chosen = self.propose(allowed)
                        self._pending = self._pending.added(chosen)
                    else:
                        self._pending = self._pending.reissued(chosen)
                    asked.append(chosen)
                # Before the end of the block that undoes the choice: labels of a pool are read, and may be damaged.
                found = self.domain.value(asked[0]) if n is None else self.space.gather(self.domain.values(asked))
                if self._recorder is not None:
                    self._recorder.asked(self._pending.numbers)
            except BaseException as error:
                self._pending = pending
                if self.domain is not domain:
                    self._replace_domain(domain)
                if asked and isinstance(error, NoCandidateLeft):  # its text counts those of this call, too
                    most = f"at most {len(asked)}: no more candidates of the pool are left and available"
                    raise NoCandidateLeft(f"n: got {count}; allowed: {most}", len(asked)) from None
                raise
            finally:
                self._available = self._fixed = None
            return found

    def _checked_context(self, context: Mapping[Any, Any] | None) -> Floats | None:
        """Return the coordinates (d,) that a context fixes where points have no numbers; ValueError if it cannot be."""
        if context is not None and self.domain.by_visit and not self._takes_contexts:
            allowed = (
                f"None for {type(self).__name__} where candidates are not enumerated; on a Grid of fewer it is taken"
            )
            checks.refuse("context", context, allowed)
        return self.domain.fixed(context)

    def in_context(self, points: Floats, context: Mapping[Any, Any]) -> Mask:
        """Return the mask (k,) of the points (k, d) that have a context; ValueError for one that `ask` refuses."""
        fixed, allowed = self._checked_context(context), self.domain.allowed(None, context)
        if allowed is None:
            return np.asarray((self.space.within(points, fixed) == points).all(axis=1))
        return allowed[self.domain.find(points)]

    def propose(self, allowed: Mask | None = None) -> int:
        """Return the number of the next point, from a mask (size,) or all; simulations call it instead of `ask`."""
        if self._pending.excluded:
            return self._propose_another(allowed)
        return self._number(self.choose(allowed), allowed)

    def _number(self, chosen: int | Floats, allowed: Mask | None = None) -> int:
        """Return the number of a chosen point; a new point (d,) of a whole box gets the next one."""
        if isinstance(chosen, np.ndarray):
            point = self.space.within(chosen[None], self._fixed)  # exactly the context: a logarithm changes last bits
            return int(self._number_points(point)[0])
        if self._foreign:
            self._check_chosen(chosen, allowed)
        return self.domain.numbered.canonical(int(chosen))

    def _check_chosen(self, chosen: Any, allowed: Mask | None) -> None:
        what, size = f"{type(self).__name__}.choose", self.domain.size
        if not isinstance(chosen, int | np.integer) or not 0 <= chosen < size:
            checks.refuse(what, chosen, f"the number of a candidate, from 0 to {size - 1}")
        if allowed is not None and not allowed[chosen]:
            checks.refuse(what, chosen, "a candidate that the mask `allowed` has as available")

    @property
    def _may_repeat(self) -> bool:
        """Whether a candidate of a pool may be chosen again that is pending or was measured."""
        assert isinstance(self.space, Pool)
        return self._repeats if self.space.repeats is None else self.space.repeats

    def _random_candidate(self, taken: Indices) -> Floats:
        """Return the point (1 + c,) of a random candidate of a pool; not one of those with numbers (k,), by visit."""
        assert isinstance(self.space, Pool)
        others = np.array(self._pending.excluded, dtype=np.int64) if self._may_repeat else taken
        rng, pool = generator(self.seed, "draws", self.round), self.space.at(self._fixed)
        numbers = pool.numbers(self.domain.points(others))
        return pool.point(int(self.space.draw_other(rng, numbers[numbers >= 0], self._available)[0]))

    def _propose_another(self, allowed: Mask | None) -> int:
        """Return the number of the next point, which is not an excluded one."""
        domain, pending, excluded = self.domain, self._pending, self._pending.excluded
        allowed = domain.without(excluded, allowed)
        if allowed is not None and not allowed.any():
            raise AllFailed("ask: the evaluation of every candidate that may be chosen has failed")
        self._pending = pending.choosing()
        try:
            number, rng = self._number(self.choose(allowed), allowed), generator(self.seed, "excluded", self.round)
        finally:
            self._pending = pending
        left = MOST_DRAWS
        while number in excluded:  # of a whole box, where no mask leaves it out
            if not left:  # a box of named parameters may have few points
                raise AllFailed(f"ask: the evaluation of each of {MOST_DRAWS} random settings has failed")
            number, left = self._number(domain.draw_uniform(rng, allowed, self._fixed)), left - 1
        return number

    def tell(self, x: ArrayLike, y: ArrayLike | Told, *, noise: ArrayLike | None = None) -> None:
        """Add one observation or several, of pending points in any order or of any other points.

        Parameters
        ----------
        x
            Point (d,) or points (k, d); for `Arms` an arm number or (k,) arm numbers.
        y
            Value, or values (k,), in units of y; of a policy with several `outputs` a dict of values by output, or k.
        noise
            Standard deviation of each measurement's noise, in units of y, if known; a number or (k,). A measurement of
            noise s has the variance lambda (s / R)^2 in the posterior.

        Raises
        ------
        ValueError
            If a point, a value or a noise is invalid, or the lengths differ; the policy is unchanged then.
        """
        with self._lock:
            if self.outputs is None:
                self._tell(None, x, cast(ArrayLike, y), noise)
            else:
                values, beside = self.outputs.split(y, "y")
                self._tell(None, x, values, noise, beside)

    @property
    def outputs(self) -> Outputs | None:
        """Outputs of the function, of a policy that is told several; None where values are plain numbers."""
        return None

    def margins(self, x: Any) -> list[Margin]:
        """Return what is believed of each constraint at a point; empty without constraints.

        Parameters
        ----------
        x
            Point (d,).

        Returns
        -------
        list of Margin
            Mean, standard deviation and probability of each output. Where its values are exact and it was measured at
            x, its value is the mean, and the probability is 0 or 1. Of one that was never measured, mean and standard
            deviation are NaN, and the probability is 1/2.

        Raises
        ------
        ValueError
            If x is not one point of the space.
        """
        if self.outputs is None:
            return []
        points, _ = self._described_points(x)
        if len(points) != 1:
            checks.refuse("x", x, "one point")
        with self._lock:
            return self._margins_at(points)

    def _margins_at(self, points: Floats) -> list[Margin]:
        """Return what is believed of each constraint at one point (1, d), in the order of the limits."""
        return []

    def _tell(
        self, asked: bool | Mask | None, x: ArrayLike, y: ArrayLike, noise: ArrayLike | None,
        beside: Floats | None = None,
    ) -> None:  # fmt: skip
        """Tell as `tell` does; the caller holds the lock, or has the policy for itself.

        `asked` says whether the points were asked for, for all or (k,); None: those that are pending were. `beside` has
        the values (k, J) of further outputs.
        """
        points, values, given, variances = self._measuring.measurements(self.space, x, y, noise, beside)
        parts = vars(self).copy()
        try:
            candidates = self._number_points(points)
            self._precheck(len(values))
            if self._recorder is not None:
                self._recorder.tells(candidates, points, values, given, beside)
        except BaseException:  # new points gave the policy a new domain and a new model; the old ones are as they were
            vars(self).update(parts)
            raise
        told = zip(candidates.tolist(), values.tolist(), variances.tolist(), strict=True)
        before = None if asked is None else np.broadcast_to(asked, len(values)).tolist()
        for i, (candidate, each, variance) in enumerate(told):
            self._asked = candidate in self._pending.numbers if before is None else before[i]
            if beside is not None:
                self._beside = beside[i]
            self.observe(candidate, each, variance)
        if self._recorder is not None:
            self._recorder.told()
        self._after_tell()
        self._measuring.expect_rounds(self.rounds)

    @property
    def _forgets(self) -> bool:
        """Whether observations count for some rounds only, or ever less."""
        return False

    def observe(self, candidate: int, y: float, noise_variance: float | None = None) -> None:
        """Add an observation without checks, of noise variance lambda by default; simulations call it, not `tell`."""
        pending = self._pending
        if pending.asked or pending.excluded:
            self._pending = pending.settled(candidate)
        try:
            variance = self.regularization if noise_variance is None else noise_variance
            self.learn(candidate, 0.0 - y if self.minimize else y, variance)
        except BaseException:  # lost workers or Ctrl-C: the point stays pending, for another `tell`
            self._pending = pending
            raise
        self.rounds += 1

    def tell_failure(self, x: ArrayLike, error: str = "") -> None:
        """Tell that the evaluation of a point failed: it is no longer pending, and is not chosen again.

        An observation told later lifts that.

        Parameters
        ----------
        x
            Point (d,), pending or not; for `Arms` an arm number.
        error
            Text of the error, which a recording stores.

        Raises
        ------
        ValueError
            If x is not one point of the space, or the error is not text; the policy is unchanged then.
        """
        with self._lock:
            points, _ = self.space.parse(x)
            if len(points) != 1:
                checks.refuse("x", x, "one point")
            checks.kind("error", error, str, "text")
            parts = vars(self).copy()
            try:
                candidate = int(self._number_points(points)[0])
                left = self._pending.settled(candidate)
                if self._recorder is not None:
                    self._recorder.failed(candidate, points[0], error)
            except BaseException:
                vars(self).update(parts)
                raise
            self._pending = left
            self.failures += 1
            self._learn_failure(candidate)

    def _learn_failure(self, candidate: int) -> None:
        """Avoid a candidate whose evaluation failed: it is pending while others are chosen, and is not chosen."""
        self._pending = self._pending.failed(candidate)

    def abandon(self, x: ArrayLike | None = None) -> None:
        """Remove pending points: all, or those at `x`; if one of these is not pending, ValueError and no change.

        Parameters
        ----------
        x
            Point (d,) or points (k, d); for `Arms` an arm number or (k,) arm numbers. Each occurrence removes one.
        """
        with self._lock:
            numbers = self._pending.asked if x is None else self.domain.find(self.space.parse(x)[0]).tolist()
            try:
                left = self._pending.without(numbers)
            except PointNotPending:
                checks.refuse("x", x, f"a pending point; pending: {self.pending}")
            if self._recorder is not None:
                self._recorder.asked(left.numbers)
            self._pending = left

    def _restore_pending(self, numbers: list[int], reissue: bool) -> None:
        """Replace the pending candidates by those of an earlier process, which `ask` returns again if `reissue`."""
        self._pending = PendingPoints(numbers, numbers if reissue else [], self._pending.excluded)

    def _number_points(self, points: Floats) -> Indices:
        """Return the numbers (k,) of points (k, d); new points of a box get the next numbers."""
        found = self.domain.find(points)
        if (found >= 0).all():
            return found
        new = points[found < 0]
        # Of several columns `unique` is slow: a millisecond for one point in 200 dimensions.
        self._replace_domain(self.domain.grown(new if len(new) == 1 else np.unique(new, axis=0)))
        return self.domain.find(points)

    def _replace_domain(self, domain: Domain) -> None:
        self._extend(domain)
        self.domain = domain

    # ---- results, in units of y

    def _oriented(self, values: Any) -> Any:
        """Turn values (...,) in units of y into those that the model has, where larger is better; or back."""
        return 0.0 - values if self.minimize else values  # 0 stays 0, not -0

    def best(self, *, context: Mapping[Any, Any] | None = None) -> Best:
        """Return the recommendation after the observations so far.

        Parameters
        ----------
        context
            Fixed coordinates, as in `ask`: the point of best posterior mean that has them is recommended, whether it
            was measured or not; with several outputs, or safety, one of the points measured in the context. On a
            `Pool` with contexts the best one of all its candidates in the context; without one, of all points measured.

        Raises
        ------
        ValueError
            If no point has the context, with several outputs no measured one, or the space or the policy has no
            contexts.
        """
        with self._lock:
            found = self.recommend() if context is None else self._recommend_in(context)
        return found._replace(mean=self._oriented(found.mean))

    def _recommend_in(self, context: Mapping[Any, Any]) -> Best:
        """Return the recommendation in a context, with its oriented mean."""
        fixed, allowed = self._checked_context(context), self.domain.allowed(None, context)
        found = self._largest_mean(allowed, fixed)
        point = found if isinstance(found, np.ndarray) else self.domain.points([found])[0]
        point = self.space.within(point[None], fixed)[0]
        mean, variance = self.moments(point[None])
        return Best(self.space.argument(point), float(mean[0]), float(np.sqrt(variance[0])))

    def _measured_in(self, measured: Mask, context: Mapping[Any, Any]) -> Mask:
        """Return the mask (n,) of the measured numbered points that have a context; ValueError if none has."""
        found = np.zeros_like(measured)
        found[measured] = self.in_context(self.domain.points(np.flatnonzero(measured)), context)
        if not found.any():
            allowed = "with several outputs one in which a point was measured; ask(context=...) chooses the first one"
            checks.refuse("context", dict(context), allowed)
        return found

    def _largest_mean(self, allowed: Mask | None, fixed: Floats | None) -> int | Floats:
        """Return the candidate of a mask (size,), or the point (d,) with fixed coordinates, of largest mean."""
        if allowed is None:
            checks.refuse("context", "one where candidates are not enumerated", f"None for {type(self).__name__}")
        numbers = np.flatnonzero(allowed)
        means = self._means(self.domain.points(numbers))
        return int(numbers[np.argmax(np.where(np.isnan(means), -np.inf, means))])

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
        with self._lock:
            return self._described(x, self.moments)

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
        points, single = self._described_points(x)
        with self._lock:
            ends = [self._oriented(end) for end in self._bounds(points, float(ndtri(0.5 + 0.5 * level)))]
        low, high = ends[::-1] if self.minimize else ends
        return (float(low[0]), float(high[0])) if single else (low, high)

    def _described_points(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Return any points (k, d), and whether x is a single one; ValueError for an arm that does not exist."""
        if not self.space.has_coordinates:
            self.space.check(x)
        return self.space.parse(x)

    def _described(self, x: ArrayLike, moments: Callable[[Floats], tuple[Floats, Floats]]) -> tuple[Any, Any]:
        """Return mean and standard deviation in the shape of x, given a function from points (k, d) to moments."""
        points, single = self._described_points(x)
        mean, variance = moments(points)
        mean, std = self._oriented(mean), np.sqrt(variance)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    @property
    def observations(self) -> Observations | None:
        """Observations in the posterior; None if the policy keeps no list of them or forgets gradually."""
        with self._lock:
            found = self._learned_observations()
        return None if found is None else found._replace(y=self._oriented(found.y))

    # ---- as data: its parameters, and its state

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make a policy of this specification, by name.

        Those of a class with an `__init__` of its own are its attributes of the same names.
        """
        fields = [field for field in attrs.fields(type(self)) if field.init and field.alias not in self._not_in_data]
        found = {field.alias: getattr(self, field.name) for field in fields}
        own = [name for name in arguments_of(type(self)) if name not in self._not_in_data]
        return {**found, **{name: getattr(self, name) for name in own if name not in found and hasattr(self, name)}}

    # ---- recorded, resumed, copied

    def _record_to(self, recorder: Recorder | None) -> None:
        """Report every `ask` and `tell` from now on to a recorder; None stops it."""
        self._recorder = recorder

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy: without the recorder, since a store has one writer, and without the lock."""
        return {**vars(self), "_recorder": None, "_lock": None, "on": self._executor.portable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def __copy__(self) -> Self:
        """Return a copy that shares nothing: two policies with one model would mislead each other."""
        return copy.deepcopy(self)

    def close(self) -> None:
        """Delete the policy's shards on workers, and stop a cluster that was started for it.

        The next `ask` or `tell` makes both again. ``with sb.PEGPUCB(..., on="local:4") as policy:`` closes it at the
        end. Your own client stays open.
        """
        self._executor.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _introduce(self, candidates: Indices, points: Floats) -> None:
        """Give points (k, d) of a whole box the numbers (k,) that they had in the run that is resumed."""
        placed = self.domain.placed(candidates, points)
        if placed is not self.domain:
            self._replace_domain(placed)

    def _restore_added(self, points: Floats) -> None:
        """Replace the points (k, d) that were told and are not candidates."""
        if self.domain.size > self.domain.choosable:  # it has other points that were only told
            self.domain = self._fresh_domain()
        if len(points):
            self.domain = self.domain.grown(points)
