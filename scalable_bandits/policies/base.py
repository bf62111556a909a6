"""What a policy is: ask for a point, tell its value, in any order, with points pending in between."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.candidates import Mask as Mask
from scalable_bandits.policies.candidates import Played
from scalable_bandits.policies.measurements import ROUNDING, Noise, measured
from scalable_bandits.policies.recorder import Recorder
from scalable_bandits.posteriors import State, arrays
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Arms, FiniteSpace, Points, Space, Visited


class Best(NamedTuple):
    """A policy's recommendation."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f there, in units of y
    std: float  # its standard deviation


class Observations(NamedTuple):
    """Observations of a policy, those of one point collapsed into one."""

    x: Floats  # (m, d) distinct points; for `Arms` (m, 1) arm numbers
    y: Floats  # (m,) precision-weighted averages, in units of y
    noise_variance: (
        Floats  # (m,) of the averages, in squared units of y: lambda / k after k observations of usual noise
    )


def check_fresh(policy: Policy) -> None:
    """ValueError unless it is a policy that was neither asked nor told: whoever plays it brings it up to date."""
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.rounds or policy.pending:
        given = f"one that was told {policy.rounds} rounds and has {len(policy.pending)} pending"
        checks.refuse("policy", given, "a fresh one, neither asked nor told")


def check_unrecorded(policy: Policy) -> None:
    """ValueError if a recording of the policy is open: what another one keeps, or a simulation plays, it would miss."""
    if policy._recorder is not None:
        checks.refuse("policy", "one that an open recording keeps", "one without: close the recording first")


@attrs.define(eq=False, kw_only=True, slots=False)
class Policy(Played):
    """A bandit algorithm on a finite space, or on a box: on all of it, or through a candidate set.

    Parameters
    ----------
    space
        The domain D.
    noise
        R, the sub-Gaussian constant of the noise, in units of y.
    regularization
        lambda: the variance that the posterior takes the noise to have, in squared units of y.
    delta
        Failure probability of the guarantees.
    horizon
        Number of rounds, for policies that need to know it.
    seed
        Of all that is random in the policy: draws, ties, the candidates of a box.
    candidates
        Play a box through a set of so many Sobol points. If not given, policies that maximise an index maximise it over
        the whole box, `GPTS` a sample path, and the others take 1024. Not used on a finite space.

    Attributes
    ----------
    rounds : int
        Observations told so far; read only.
    continuous : bool
        Whether policies of this very class play a whole box; a subclass, whose posterior may differ, says so itself.

    Raises
    ------
    ValueError
        If a number is not finite or not in its range; the message names the argument, what was given, what is allowed.
    TypeError
        If the space is no space, or the kernel no kernel.
    """

    continuous: ClassVar[bool] = False

    space: Space = attrs.field(kw_only=False, validator=checks.instance_of(Space, "a space: Box, Grid, Points or Arms"))
    noise: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    regularization: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    delta: float = attrs.field(default=0.1, converter=checks.to_float, validator=checks.probability)
    horizon: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    seed: int = attrs.field(default=0, converter=checks.to_int, validator=checks.whole(0, below=2**64))
    candidates: int | None = attrs.field(
        default=None, converter=checks.to_int, validator=checks.whole(1, optional=True)
    )
    rounds: int = attrs.field(default=0, init=False, on_setattr=attrs.setters.NO_OP)
    _finite: FiniteSpace = attrs.field(init=False, repr=False)
    _choosable: int = attrs.field(init=False, repr=False)
    _noise_floor: float = attrs.field(default=0.0, init=False, repr=False)
    _pending: list[int] = attrs.field(init=False, factory=list, repr=False)
    _reissue: list[int] = attrs.field(init=False, factory=list, repr=False)  # waiting, to be asked for again
    _excluded: list[int] = attrs.field(init=False, factory=list, repr=False)  # chosen around as if they were waiting
    _recorder: Recorder | None = attrs.field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        self._settle()
        self._salt = derived_seed(self.seed, "ties")

    def _check_rounding(self, prior_variance: float) -> None:
        """Refuse, here and in `tell`, a noise variance that is lost in the rounding of the largest prior variance."""
        self._noise_floor = ROUNDING * prior_variance
        if self.regularization < self._noise_floor:
            lost = f"less is lost in the rounding of the prior variance {prior_variance:.3g}"
            checks.refuse("regularization", self.regularization, f"at least {self._noise_floor:.3g}: {lost}")

    # ---- the algorithm

    @abstractmethod
    def choose(self, allowed: Mask | None = None) -> int:
        """Number of the candidate to play next, given the observations and the pending points.

        Parameters
        ----------
        allowed
            (size,) candidates to choose from; all if not given.
        """

    def propose(self, allowed: Mask | None = None) -> int:
        """`choose` of a mask (size,), or all; of equal points the first: the step of a simulation."""
        return self._finite.canonical(self.choose(allowed))

    @abstractmethod
    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Take in an observation of a candidate; `noise_variance` in the posterior's terms (lambda)."""

    def precheck(self, count: int) -> None:
        """Evaluate what so many rounds to come need of the user's functions, which may fail: before any is learned."""

    @abstractmethod
    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and variance of f at points (k, d) of the space's box, two (k,) arrays."""

    @abstractmethod
    def best(self) -> Best:
        """The recommendation after the observations so far."""

    @property
    def width(self) -> float:
        """Confidence width beta of the next round; NaN for a policy without one."""
        return float("nan")

    @property
    def information_gain(self) -> float:
        """Information gain (nats) that the next round's width uses; NaN for a policy without one."""
        return float("nan")

    @property
    def round(self) -> int:
        """t of the round to come: 1 plus the points told and pending."""
        return self.rounds + len(self._pending) + 1

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
        """Mean and standard deviation at x, in its shape, from mean and variance at points (k, d)."""
        points, single = self.space.parse(x)
        if isinstance(self.space, Arms):
            self.space.index(x)
        mean, variance = moments(points)
        std = np.sqrt(variance)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    @property
    def observations(self) -> Observations | None:
        """Observations that the posterior is made of; None if the policy keeps no list of them or forgets gradually."""
        return None

    # ---- ask and tell

    @property
    def finite_space(self) -> FiniteSpace:
        """The space whose candidates are played: `space` itself, the candidate set of a box, or its points visited."""
        return self._finite

    @property
    def pending(self) -> list[Any]:
        """Points asked for whose value has not been told, in the order of asking."""
        return [self._finite.value(c) for c in self._pending]

    def ask(
        self, n: int | None = None, *, available: ArrayLike | None = None, context: Mapping[int, float] | None = None
    ) -> Any:
        """Choose the next point, or the next `n` points. They stay pending until told.

        Parameters
        ----------
        n
            How many; one point, without a leading axis, if not given.
        available
            X_t: only these may be chosen. A mask (size,) or candidates' numbers.
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
        waiting, owed, before = list(self._pending), list(self._reissue), self._finite
        asked = []
        try:
            for _ in range(count):
                again = next((c for c in self._reissue if allowed is None or allowed[c]), None)
                if again is None:
                    self._pending.extend(self._excluded)
                    chosen = self.propose(allowed)
                    self._pending[len(self._pending) - len(self._excluded) :] = [chosen]
                    asked.append(chosen)
                else:
                    asked.append(again)
                    self._reissue.remove(again)
            if self._recorder is not None:
                self._recorder.asked(self._pending)
        except BaseException:
            self._pending[:], self._reissue[:] = waiting, owed
            if isinstance(before, Visited) and self._finite is not before:
                self._extend_to(before)
            raise
        points = [self._finite.value(candidate) for candidate in asked]
        return points[0] if n is None else np.array(points)

    def tell(self, x: ArrayLike, y: ArrayLike, *, noise: ArrayLike | None = None) -> None:
        """Report one observation or many, of asked points in any order or of any other points.

        Parameters
        ----------
        x
            (d,) or (k, d); for `Arms` an arm number or (k,) of them.
        y
            A number, or (k,), in units of y.
        noise
            The measurements' own noise, in units of y, where it is known; a number or (k,). A measurement
            of noise s counts with variance lambda (s / R)^2.

        Raises
        ------
        ValueError
            If a point is not in the space, a value not finite, a noise not positive, or the
            lengths differ. Nothing has changed then.
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
        """`tell` for a candidate by its number, unchecked: the step of a simulation.

        Parameters
        ----------
        candidate
            Number of a candidate of `finite_space`.
        y
            In units of y.
        noise_variance
            That the posterior takes the measurement to have; lambda if not given.
        """
        held = None
        if self._pending and candidate in self._pending:
            held = self._pending.copy(), self._reissue.copy()
            self._pending.remove(candidate)
            if candidate in self._reissue and self._reissue.count(candidate) > self._pending.count(candidate):
                self._reissue.remove(candidate)
        try:
            self.learn(candidate, y, self.regularization if noise_variance is None else noise_variance)
        except BaseException:  # workers are gone, or somebody pressed Ctrl-C: it can be told again
            if held is not None:
                self._pending[:], self._reissue[:] = held
            raise
        self.rounds += 1

    def abandon(self, x: ArrayLike | None = None) -> None:
        """Give up on pending points: those at `x`, or all of them.

        Parameters
        ----------
        x
            (d,) or (k, d); for `Arms` an arm number or (k,) of them. A point pending twice is to be named twice.

        Raises
        ------
        ValueError
            If one is not pending. Nothing has changed then.
        """
        left = [] if x is None else self._pending.copy()
        for candidate in [] if x is None else self._find(self.space.parse(x)[0]).tolist():
            if candidate not in left:
                checks.refuse("x", x, f"a pending point; pending: {self.pending}")
            left.remove(candidate)
        if self._recorder is not None:
            self._recorder.asked(left)
        self._pending[:] = left
        self._reissue = [c for i, c in enumerate(self._reissue) if self._reissue[: i + 1].count(c) <= left.count(c)]

    # ---- kept and taken up again

    def record_to(self, recorder: Recorder | None) -> None:
        """Have a recorder keep everything asked and told from now on; None ends it."""
        self._recorder = recorder

    def __getstate__(self) -> dict[str, Any]:
        """Of copies, which no recorder keeps: a store has one writer."""
        return {**vars(self), "_recorder": None}

    def wait_for(self, candidates: Sequence[int], again: bool) -> None:
        """Take up pending candidates of an earlier process; `again`: `ask` gives these first."""
        self._pending[:] = candidates
        self._reissue[:] = candidates if again else []

    def give_up(self, candidates: Sequence[int]) -> None:
        """Choose from now on as if the values of these candidates, and no others, were on their way; they never come.

        So a policy that plays a whole box, which can be told of no availability set, looks elsewhere.
        """
        self._excluded = list(candidates)

    @property
    def ask_is_stateful(self) -> bool:
        """Whether asking leaves traces in later rounding, so that an exact replay has to ask too."""
        return False

    def state(self) -> State:
        """What was learned, as arrays: `restore` on a policy of the same specification goes on to the last bit.

        The arrays may be the policy's own, which change as it goes on: copy what is to be kept.
        """
        return arrays(rounds=self.rounds, added=self._finite.points(np.arange(self._choosable, self._finite.size)))

    def restore(self, state: State) -> None:
        """Know what the policy knew whose `state` is given; pending points are not part of it."""
        self.rounds = int(state["rounds"])
        if self._finite.size > self._choosable:  # points of a box that came up since
            self._settle()
        if len(state["added"]):
            assert isinstance(self._finite, Points | Visited)
            self._finite = self._finite.grown(state["added"])
