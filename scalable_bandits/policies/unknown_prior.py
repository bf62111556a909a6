"""Policies with several priors, of which nobody knows which is right."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import error_allowance, unknown_prior_finite
from scalable_bandits.policies.base import Best, Policy
from scalable_bandits.policies.measurements import noise_floor
from scalable_bandits.policies.prior_model import PriorModel, Proposal
from scalable_bandits.posteriors import State, arrays, check_engine, nested, part
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.placement import Shards
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import Domain, FiniteSpace, Mask


class Rejection(NamedTuple):
    """When a prior was rejected, and by how much."""

    round: int  # whose observation decided it
    statistic: float  # what was compared, in units of y
    bound: float  # what it should not have exceeded, in units of y

    @property
    def excess(self) -> float:
        """By how much the bound was exceeded, in units of y."""
        return self.statistic - self.bound


class Outcome(NamedTuple):
    """An observation, and what the priors still in play had thought of it."""

    round: int
    y: float
    share: float  # noise variance over lambda: 1, but for measurements with a noise of their own
    mean: Floats  # (|U|,) posterior means of the candidate before it; NaN for a prior that is out of play
    std: Floats  # (|U|,)


def _priors(value: Any) -> tuple[Prior, ...]:
    given = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not given or not all(isinstance(prior, Prior) for prior in given):
        checks.refuse("priors", value, "a sequence of Prior, at least one")
    names = [prior.name for prior in given]
    if len(set(names)) < len(names):
        checks.refuse("priors", names, "names that differ")
    return given


@attrs.define(eq=False, kw_only=True, slots=False)
class UnknownPriorPolicy(Policy):
    """A policy whose priors all learn every observation; subclasses say which of them plays.

    An observation is credited to the prior whose turn it was, whether or not its point was asked for: what a policy
    knows is a function of what it was told.

    Parameters
    ----------
    priors
        U, the candidate priors.
    engine
        As in `GaussianProcessPolicy`, without "sketched".

    Other parameters are those of `Policy` (`on`: executor of the priors' models).

    Raises
    ------
    ValueError
        If two priors have one name, a prior does not fit the space, the engine is not one for it, or the regularization
        is lost in rounding beside the prior variance.

    Attributes
    ----------
    plays : dict
        Name of each prior to the number of observations credited to it (`FullyBayesianGPUCB`: by probability).
    surviving : tuple
        Names of the priors that have not been rejected.
    rejections : dict
        Name of each rejected prior to its `Rejection`.
    log_likelihoods : dict
        Name of each prior to the logarithm of its marginal likelihood, of a rejected one as it was then.
    """

    sharded: ClassVar[bool] = True

    priors: tuple[Prior, ...] = attrs.field(kw_only=False, converter=_priors)
    engine: str = attrs.field(default="auto")
    _shards: Shards = attrs.field(init=False, repr=False)
    _playing: list[int] = attrs.field(init=False, repr=False)  # priors that learn and may play
    _rejected: dict[int, Rejection] = attrs.field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        some = self._domain.sample(self.seed)
        for prior in self.priors:
            prior.check(self.space)
            check_engine(self.engine, self._domain.numbered.size, prior.kernel.epsilon, exact=True)
            prior.mean_at(some[:1], 1, self._domain.numbered)
        self._noise_floor = noise_floor(
            self.regularization, max(float(prior.kernel.diagonal(some).max()) for prior in self.priors)
        )
        count = len(self.priors)
        self._playing = list(range(count))
        self._queried = np.zeros(self._domain.numbered.size, dtype=np.bool_)
        # Of each prior: log marginal likelihood; and over its plays how many there were, the sum of the errors (or of
        # y), of beta s, and of the shares.
        self._evidence, self._counts, self._sums, self._slacks, self._weights = np.zeros((5, count))
        self._asked = 0  # round whose means all priors in play have evaluated
        self._shards = self._make_shards(self._domain.numbered)
        self._reports: dict[int, tuple[float, bool]] = {}

    def _make_shards(self, space: FiniteSpace) -> Shards:
        return self._executor.shards(
            [
                functools.partial(PriorModel, prior, space, self.engine, self.regularization, self._salt)
                for prior in self.priors
            ],
            f"priors of {type(self).__name__}",
        )

    def _prepare(self, shards: Shards) -> None:
        """Have the means that move evaluated for the present round: one that fails does so before anything changes."""
        moving = [number for number in self._playing if self.priors[number].moving]
        if moving and (shards is not self._shards or self._asked != self.rounds + 1):
            shards.ask(moving, "prepare", self.rounds + 1)
        self._asked = self.rounds + 1

    def precheck(self, count: int) -> None:
        moving = [number for number in self._playing if self.priors[number].moving]
        if moving and count > 1:
            for t in range(self.rounds + count, self.rounds + 1, -1):  # the present round last: its means are kept
                self._shards.ask(moving, "prepare", t)
            self._asked = 0
        self._prepare(self._shards)

    # ---- for subclasses

    @abstractmethod
    def credit(self, told: Outcome) -> None:
        """Book an observation on the prior whose turn it was, and reject what it speaks against."""

    def width_of(self, t: int) -> float:
        """beta_t of a round, in standard deviations; the same for all priors."""
        return unknown_prior_finite(t, self.domain.choosable, self.delta)

    def allowance(self, t: int) -> float:
        """xi_t of a round, in squared units of y; see `confidence.error_allowance`."""
        return error_allowance(t, len(self.priors), self.delta, self.noise)

    def proposals(self, priors: Sequence[int], allowed: Mask | None) -> list[Proposal]:
        """What some priors would play in the round to come, of a mask (size,) or of all."""
        found: list[Proposal] = self._ask(priors, "propose", allowed, self._pending.numbers)
        return found

    def _ask(self, priors: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Ask priors about the round to come, given its width."""
        answers = self._shards.ask(priors, method, self.width, self.rounds + 1, *arguments)
        if set(priors) >= set(self._playing):
            self._asked = self.rounds + 1
        return answers

    def prefetch_next(self) -> None:
        """Say what will be asked of the priors once the present round is told, as far as that is known before."""
        self._prefetch(self._playing, "propose", None, self._pending.numbers)

    def _prefetch(self, priors: Sequence[int], method: str, *arguments: Any) -> None:
        t = self.rounds + 2
        self._shards.prefetch(priors, method, self.width_of(t + len(self._pending.numbers)), t, *arguments)

    def book(self, prior: int, amount: float, slack: float, share: float) -> None:
        """Credit a prior with a play.

        Parameters
        ----------
        prior
            Its number.
        amount
            Added to its sum, in units of y.
        slack
            Added to its sum of beta s, in units of y.
        share
            Of an observation that it counts for: its noise variance over lambda.
        """
        self._counts[prior] += 1.0
        self._sums[prior] += amount
        self._slacks[prior] += slack
        self._weights[prior] += share

    def reject(self, prior: int, rejection: Rejection) -> None:
        """Take a prior out of play; the last one stays, for whoever goes on regardless."""
        self._rejected[prior] = rejection
        if len(self._playing) > 1:
            self._playing.remove(prior)

    def pick(self, scores: Floats) -> int:
        """Of the priors in play the one of largest score (|U|,), ties broken by the seeded hash."""
        playing = np.array(self._playing)
        return self._playing[choose(scores[playing], self._salt, numbers=playing)[0]]

    def largest(self, proposals: Sequence[Proposal]) -> int:
        """Candidate of the proposal of largest index, ties broken by the seeded hash of the candidates."""
        candidates, indices = zip(*proposals, strict=True)
        return candidates[choose(np.array(indices), self._salt, numbers=np.array(candidates))[0]]

    # ---- what is known

    @property
    def width(self) -> float:
        """beta_t of the round to come."""
        return self.width_of(self.round)

    @property
    def plays(self) -> dict[str, float]:
        """Observations credited to each prior."""
        return {prior.name: int(count) for prior, count in zip(self.priors, self._counts, strict=True)}

    @property
    def surviving(self) -> tuple[str, ...]:
        """Names of the priors that have not been rejected."""
        return tuple(prior.name for number, prior in enumerate(self.priors) if number not in self._rejected)

    @property
    def rejections(self) -> dict[str, Rejection]:
        """When each rejected prior was, in that order, and by how much."""
        return {self.priors[number].name: rejection for number, rejection in self._rejected.items()}

    @property
    def log_likelihoods(self) -> dict[str, float]:
        """Log marginal likelihood of each prior; a rejected one's as it was then."""
        return {prior.name: float(value) for prior, value in zip(self.priors, self._evidence, strict=True)}

    def belief(self) -> Floats:
        """Weights (|U|,) of the priors in `posterior` and `best`: all on the likeliest of those in play."""
        weights = np.zeros(len(self.priors))
        weights[self._playing[int(np.argmax(self._evidence[self._playing]))]] = 1.0
        return weights

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) under the likeliest prior in play; no width uses it."""
        leader = self._playing[int(np.argmax(self._evidence[self._playing]))]
        return self._report(leader)[0]

    def _report(self, number: int) -> tuple[float, bool]:
        """Information gain of a prior in play, and whether its asks matter; it is asked if it did not say."""
        if number not in self._reports:
            self._reports.update(zip(self._playing, self._shards.ask(self._playing, "report"), strict=True))
        return self._reports[number]

    def _mixture(self, method: str, weights: Floats, *arguments: Any) -> tuple[Floats, Floats]:
        """Mean and variance of the mixture of the priors' posteriors."""
        numbers = np.flatnonzero(weights).tolist()
        parts = self._shards.ask(numbers, method, *arguments)
        if len(numbers) == 1:
            mean, variance = parts[0]
            return mean, variance
        share = weights[numbers]
        means, variances = np.array([p[0] for p in parts]), np.array([p[1] for p in parts])
        mean = share @ means
        return mean, share @ (variances + (means - mean) ** 2)

    def posterior(self, x: ArrayLike, prior: str | None = None) -> tuple[Any, Any]:
        """Posterior mean and standard deviation of f at x in the round to come; before the first `tell`, the prior's.

        Parameters
        ----------
        x
            (d,) or (k, d), anywhere, not only at candidates; for `Arms` an arm number or (k,) of them.
        prior
            Name of a prior in play; if not given, the likeliest (`FullyBayesianGPUCB`: all, by their probabilities).

        Returns
        -------
        mean, std : float, or ndarray (k,)
            In units of y.

        Raises
        ------
        ValueError
            If x is not finite, not of the space's dimension, or not an arm; if the prior is not in play.
        """
        if prior is None:
            return super().posterior(x)
        names = [self.priors[number].name for number in self._playing]
        if prior not in names:
            checks.refuse("prior", prior, f"a prior in play: {', '.join(names)}")
        weights = np.array([float(p.name == prior) for p in self.priors])
        return self._described(x, functools.partial(self.moments, weights=weights))

    def moments(self, points: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        return self._mixture("predict", self.belief() if weights is None else weights, points, self.rounds + 1)

    def best(self) -> Best:
        """Queried point of largest posterior mean; before the first `tell`, the candidate of largest prior mean."""
        mean, variance = self._mixture("moments", self.belief(), self.rounds + 1)
        candidate, _ = choose(mean, self._salt, self._queried if self._queried.any() else self.allowed(None))
        return Best(self._domain.value(candidate), float(mean[candidate]), float(np.sqrt(variance[candidate])))

    # ---- what is told

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        t, playing = self.rounds + 1, list(self._playing)
        self._prepare(self._shards)
        matter = {number: self._report(number)[1] for number in playing}
        self.prefetch_next()
        before = self._shards.ask(playing, "observe", candidate, y, noise_variance, t)
        means, variances = np.full((2, len(self.priors)), np.nan)
        means[playing], variances[playing], gains = np.array(before).T
        self._reports = {n: (gain, matter[n]) for n, gain in zip(playing, gains.tolist(), strict=True)}
        self.credit(Outcome(t, y, noise_variance / self.regularization, means, np.sqrt(variances)))
        mean, total = means[playing], variances[playing] + noise_variance
        self._evidence[playing] -= 0.5 * (np.log(2.0 * math.pi * total) + (y - mean) ** 2 / total)
        self._queried[candidate] = True

    def extend(self, grown: Domain) -> None:
        """Make the shards again on the larger candidate set."""
        rebuilt = self._make_shards(grown.numbered)
        self._prepare(rebuilt)
        for number, state in zip(self._playing, self._shards.ask(self._playing, "state"), strict=True):
            rebuilt.ask([number], "take", state, self._domain.numbered.size)
        self._shards, self._reports = rebuilt, {}
        self._queried = np.append(self._queried, np.zeros(grown.size - len(self._queried), dtype=np.bool_))

    @property
    def ask_is_stateful(self) -> bool:
        return any(self._report(number)[1] for number in self._playing)

    def state(self) -> State:
        shards = self._shards.ask(self._playing, "state")
        held = {str(number): state for number, state in zip(self._playing, shards, strict=True)}
        rejected = np.array([(number, *rejection) for number, rejection in self._rejected.items()]).reshape(-1, 4)
        sums = np.array([self._evidence, self._counts, self._sums, self._slacks, self._weights])
        own = arrays(playing=np.array(self._playing), rejected=rejected, sums=sums, queried=self._queried)
        return {**super().state(), **own, **nested(shards=nested(**held))}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._playing = state["playing"].tolist()
        self._rejected = {
            int(number): Rejection(int(t), statistic, bound)
            for number, t, statistic, bound in state["rejected"].tolist()
        }
        self._evidence, self._counts, self._sums, self._slacks, self._weights = state["sums"].copy()
        self._queried = state["queried"].copy()
        self._shards, self._reports, self._asked = self._make_shards(self._domain.numbered), {}, 0
        held = part(state, "shards")
        self._shards.restore({number: part(held, str(number)) for number in self._playing})
