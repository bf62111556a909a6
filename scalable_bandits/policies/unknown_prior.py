"""Base class of the policies with several candidate priors.

These are the words of this file, of its policies and of the files beside it:

    prior       mean and kernel of a Gaussian process; U is the set of all priors, |U| their number
    number      place of a prior in `priors`; its model has the same number
    model       posterior under one prior: a shard, which may be on a worker (`prior_model.py`)
    moving      a moving prior has a mean that changes from round to round
    in play     a prior is in play until it is rejected, the last one for ever; models in play propose and learn
    proposal    candidate that a prior would play, with the candidate's upper confidence bound
    turn        decides, when a value is told, which prior is credited with the observation
    credit      adds an observation to the counts and sums of a prior
    play        an observation that was credited to a prior
    tally       evidence, counts and sums of all priors, and the rejections (`tally.py`)
    evidence    log marginal likelihood of all observations under a prior
    width       beta_t, of the upper confidence bound mu + beta_t s
    slack       beta_t s at a play: error of the mean that the width allows
    share       noise variance of an observation over lambda; 1 unless a measurement has noise of its own
    allowance   xi_t: the noise of n plays with share 1 adds up to at most sqrt(xi_t n)
    rejection   takes a prior out of play, because its plays contradict it
    belief      weights of the priors in `posterior` and `best`
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Concatenate

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import error_allowance, unknown_prior_finite
from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.base import Best, Policy
from scalable_bandits.policies.prior_model import PriorShard, PriorSource, Proposal, Setup
from scalable_bandits.policies.tally import ARRAYS, Rejection, Tally
from scalable_bandits.posteriors import check_engine
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.exact.dense import DenseEngine, in_step, stacked
from scalable_bandits.posteriors.placement import Arguments, Returned, Shards
from scalable_bandits.posteriors.rounds import Columns, Game
from scalable_bandits.posteriors.state import State, StateEntry, array, copied, group, nested, part, value
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Domain, FiniteSpace, Mask


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
    """Base class of policies with several priors: those in play learn every observation, and a subclass chooses one.

    An observation counts as a play of the prior whose turn it is when the value is told, whether or not that prior
    proposed the point: the policy's state is a function of the observations alone.

    Parameters
    ----------
    priors
        Candidate priors U.
    engine
        Name of the priors' engine, one of `GaussianProcessPolicy` except "sketched".
    scale
        Number by which beta_t^2 is divided. The guarantees hold for 1; larger values explore less.

    Other parameters are those of `Policy` (`on`: executor of the priors' models).

    Raises
    ------
    ValueError
        If two priors have the same name, a prior or the engine does not fit the space, or the regularization is lost in
        the rounding of the prior variance.

    Attributes
    ----------
    plays : dict
        Number of observations credited to each prior (`FullyBayesianGPUCB`: sum of its probabilities), by name.
    surviving : tuple
        Names of the priors that have not been rejected.
    rejections : dict
        `Rejection` of each rejected prior, by name.
    tally : Tally
        Plays, sums and rejections, as arrays.
    log_likelihoods : dict
        Logarithm of the marginal likelihood of each prior, by name; for a rejected prior, as of its rejection.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        *(array(f"tally.{field}", "(|U|, ...)", dtype) for field, dtype in ARRAYS.items()),
        value(
            "queried", "(n,)", bool, lambda self: self._queried,
            lambda self, mask: setattr(self, "_queried", mask.copy()),
        ),
        group("shards", lambda self: self._shard_states(), lambda self, states: self._restore_shards(states)),
    )  # fmt: skip
    sharded: ClassVar[bool] = True
    compiled_rule: ClassVar[int | None] = None  # number of the policy in `_numba_priors.py`; None: no compiled loop

    priors: tuple[Prior, ...] = attrs.field(kw_only=False, converter=_priors)
    engine: str = "auto"
    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    _source: PriorSource = attrs.field(init=False, repr=False)
    _shards: Shards[PriorShard] = attrs.field(init=False, repr=False)
    tally: Tally = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        some = self.space.encode(self.domain.sample(self.seed))
        for prior in self.priors:
            prior.check(self.space)
            check_engine(self.engine, self.domain.size, prior.kernel.epsilon, exact=True)
            prior.mean_at(some[:1], 1, self.domain.model_space)
        kernels = [prior.on(self.space).kernel for prior in self.priors]
        for kernel in kernels:
            kernel.check_values(some)
        largest = max(float(kernel.diagonal(some).max()) for kernel in kernels)
        self.tally = Tally.of(len(self.priors), self._salt)
        self._queried = np.zeros(self.domain.size, dtype=np.bool_)
        self._make_shards(self.domain.model_space, {})
        self._measuring.expect_variance(largest, self._forgets, self.horizon)

    def _make_shards(self, space: FiniteSpace, setups: Mapping[int, Setup]) -> None:
        """Make the models on a space, some of them with a function that restores or extends their state."""
        makers = [self._maker(prior, space) for prior in self.priors]
        self._source = PriorSource(makers, self.rounds, self._executor.remote)
        for number, setup in setups.items():
            self._source.start_from(number, setup)
        self._shards = self._executor.shards(self._source, len(makers), f"priors of {type(self).__name__}")
        self._gains: dict[int, float] = {}  # information gains of models as far as they are known here, in nats
        self._means_evaluated_for = 0  # round for which the moving priors in play have evaluated their means; 0: none

    def _maker(self, prior: Prior, space: FiniteSpace) -> functools.partial[PriorShard]:
        """Return the function that makes a prior's model, without observations."""
        oriented = self._oriented_prior(prior)
        return functools.partial(PriorShard, oriented, space, self.engine, self.regularization, self._salt)

    def _oriented_prior(self, prior: Prior) -> Prior:
        """Return the prior of a model on the space, whose mean is that of -f if the policy minimises."""
        return (prior.negated() if self.minimize else prior).on(self.space)

    @property
    def _playing(self) -> list[int]:
        """Numbers of the priors in play."""
        numbers: list[int] = np.flatnonzero(self.tally.playing).tolist()
        return numbers

    def _moving_priors(self) -> list[int]:
        """Return the numbers of the moving priors in play."""
        return [number for number in self._playing if self.priors[number].moving]

    def _evaluate_means(self) -> None:
        """Evaluate the means of moving priors for this round, so that their errors come before any model changes."""
        if self._means_evaluated_for != self.rounds + 1 and (moving := self._moving_priors()):
            self._shards.ask(moving, PriorShard.evaluate_mean, self.rounds + 1)
        self._means_evaluated_for = self.rounds + 1

    def _precheck(self, count: int) -> None:
        if count > 1 and (moving := self._moving_priors()):
            for t in range(self.rounds + count, self.rounds + 1, -1):  # this round last, since models cache one round
                self._shards.ask(moving, PriorShard.evaluate_mean, t)
            self._means_evaluated_for = 0
        self._evaluate_means()

    # ---- for subclasses

    def credit(self, t: int, y: float, share: float, mean: Floats, std: Floats) -> None:
        """Credit an observation to the prior whose turn it is, and reject the priors that it contradicts.

        Information gains, as `_gain_of` returns them, are still those before the observation. By default the policy's
        `compiled_rule` credits and rejects.

        Parameters
        ----------
        t
            Round of the observation.
        y
            Value, in units of y.
        share
            Noise variance of the observation over lambda.
        mean, std
            Posterior means and standard deviations (|U|,) of the candidate before the observation, in units of y; NaN
            for a prior that is not in play.
        """
        width, allowance = self.width_of(t), self.allowance(t)
        numba_priors.credit(self.compiled_rule, self.tally, t, y, share, mean, std, width, allowance)

    def width_of(self, t: int) -> float:
        """Return the confidence width beta_t of a round, the same for all priors unless a subclass says otherwise."""
        return unknown_prior_finite(t, self.domain.choosable, self.delta) / math.sqrt(self.scale)

    def allowance(self, t: int) -> float:
        """Return xi_t of a round, in squared units of y; see `confidence.error_allowance`."""
        return error_allowance(t, len(self.priors), self.delta, self.noise)

    def proposals(self, priors: Sequence[int], allowed: Mask | None) -> list[Proposal]:
        """Return the proposals of some priors for the next round, from a mask (size,) or all candidates."""
        return self._ask_in_round(priors, PriorShard.propose, allowed, self._pending.numbers)

    def _ask_in_round(
        self, priors: Sequence[int], method: Callable[Concatenate[PriorShard, float, int, Arguments], Returned],
        *arguments: Arguments.args, **named: Arguments.kwargs,
    ) -> list[Returned]:  # fmt: skip
        """Call a method of some priors' models with width and number of the next round; return the answers."""
        width, ask = self.width_of(self.round), self._shards.ask
        answers: list[Returned] = ask(priors, method, width, self.rounds + 1, *arguments, **named)
        if set(priors) >= set(self._playing):
            self._means_evaluated_for = self.rounds + 1
        return answers

    def add_play(self, prior: int, amount: float, slack: float, share: float) -> None:
        """Add a play to the sums of a prior.

        Parameters
        ----------
        prior
            Number of the prior.
        amount
            Error of the prior's mean, or y, in units of y.
        slack
            Width times standard deviation, beta s, in units of y.
        share
            Noise variance of the observation over lambda.
        """
        numba_priors.add_play(self.tally, prior, amount, slack, share)

    def pick(self, scores: Floats) -> int:
        """Return the prior in play of largest score (|U|,), ties broken by the seeded hash."""
        return int(numba_priors.pick(self.tally, scores))

    def turn_after_pending(self, turn: Callable[[Floats], int]) -> int:
        """Return the prior whose turn it is after the pending points, by a function of numbers of plays (|U|,)."""
        counts = self.tally.counts.copy()
        for _ in self._pending.asked:  # without failed points: no prior is credited with them
            counts[turn(counts)] += 1.0
        return turn(counts)

    # ---- results

    @property
    def width(self) -> float:
        """Confidence width beta_t of the next round."""
        return self.width_of(self.round)

    @property
    def plays(self) -> dict[str, float]:
        """Observations credited to each prior."""
        return {prior.name: int(count) for prior, count in zip(self.priors, self.tally.counts, strict=True)}

    @property
    def surviving(self) -> tuple[str, ...]:
        """Names of the priors that have not been rejected."""
        rejected = self.tally.out
        return tuple(prior.name for number, prior in enumerate(self.priors) if number not in rejected)

    @property
    def rejections(self) -> dict[str, Rejection]:
        """Rejections by name of the prior, in their order."""
        return {self.priors[number].name: rejection for number, rejection in self.tally.out.items()}

    @property
    def log_likelihoods(self) -> dict[str, float]:
        """Log marginal likelihood of each prior; for a rejected prior, as of its rejection."""
        return {prior.name: float(value) for prior, value in zip(self.priors, self.tally.evidence, strict=True)}

    def belief(self) -> Floats:
        """Return the weights (|U|,) of the priors in `posterior` and `best`: 1 for the likeliest in play, else 0."""
        weights = np.zeros(len(self.priors))
        weights[numba_priors.likeliest(self.tally)] = 1.0
        return weights

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) under the likeliest prior in play; no width uses it."""
        return self._gain_of(int(numba_priors.likeliest(self.tally)))

    def _gain_of(self, number: int) -> float:
        """Return the information gain (nats) of a prior in play, from its model if not known yet."""
        if number not in self._gains:
            found = self._shards.ask(self._playing, PriorShard.information_gain)
            self._gains.update(zip(self._playing, found, strict=True))
        return self._gains[number]

    def _mixture(
        self, weights: Floats, method: Callable[Concatenate[PriorShard, Arguments], tuple[Floats, Floats]],
        *arguments: Arguments.args, **named: Arguments.kwargs,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Return mean and variance of the mixture of the priors' posteriors, arrays of shape (k,)."""
        numbers = np.flatnonzero(weights).tolist()
        parts = self._shards.ask(numbers, method, *arguments, **named)
        positive, means, variances = weights[numbers], *map(np.array, zip(*parts, strict=True))
        mean = positive @ means
        return mean, positive @ (variances + (means - mean) ** 2)

    def posterior(self, x: ArrayLike, prior: str | None = None) -> tuple[Any, Any]:
        """Return posterior mean and standard deviation of f at x in the next round.

        Parameters
        ----------
        x
            Point (d,) or points (k, d), not only candidates; for `Arms` an arm number or (k,) arm numbers.
        prior
            Name of a prior in play; if not given, the likeliest (`FullyBayesianGPUCB`: all, by their probabilities).

        Returns
        -------
        mean, std : float, or ndarray (k,)
            In units of y.

        Raises
        ------
        ValueError
            If x is not finite, has another dimension than the space, or is not an arm, or the prior is not in play.
        """
        if prior is None:
            return super().posterior(x)
        names = [self.priors[number].name for number in self._playing]
        if prior not in names:
            checks.refuse("prior", prior, f"a prior in play: {', '.join(names)}")
        weights = np.array([float(p.name == prior) for p in self.priors])
        return self._described(x, functools.partial(self.moments, weights=weights))

    def moments(self, points: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        weights = self.belief() if weights is None else weights
        return self._mixture(weights, PriorShard.predict_round, self.space.encode(points), self.rounds + 1)

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; before the first `tell`, of best prior mean."""
        mean, variance = self._mixture(self.belief(), PriorShard.moments, self.rounds + 1)
        candidate, _ = choose(mean, self._salt, self._queried if self._queried.any() else self.domain.allowed(None))
        return Best(self.domain.value(candidate), float(mean[candidate]), float(np.sqrt(variance[candidate])))

    # ---- observations

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        t, playing = self.rounds + 1, self._playing
        self._evaluate_means()
        for number in playing:
            self._gain_of(number)  # `credit` uses the gains before the observation
        self._source.observe(candidate, y, noise_variance)
        self._shards.tell(playing, PriorShard.observe_round, candidate, y, noise_variance, t)
        try:
            found = self._shards.ask(playing, PriorShard.last_observation)
        except BaseException:  # some models may have the observation, others not
            if self._source.may_be_lost:
                self._source.forget_last()
                self._shards.renew()
            raise
        means, variances = np.full((2, len(self.priors)), np.nan)
        means[playing], variances[playing], gains = np.array(found).T
        self.credit(t, y, noise_variance / self.regularization, means, np.sqrt(variances))
        self._gains = dict(zip(playing, gains.tolist(), strict=True))
        numba_priors.add_evidence(self.tally, np.array(playing), y, means, variances, noise_variance)
        self._queried[candidate] = True

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        rule, models = vars(type(self)).get("compiled_rule"), self._shards.here()  # a subclass may choose differently
        if rule is None or models is None or self._moving_priors() or self._pending.numbers or self._pending.excluded:
            return None
        playing = self._playing
        engines = [engine for model in models if type(engine := model.engine) is DenseEngine]
        if len(engines) < len(models) or not in_step([engines[p] for p in playing]):
            return None
        constants = float(self.domain.choosable), self.delta, self.scale, self.noise
        game = Game(self.rounds + 1, table, noise, self.regularization, self._salt, available)
        stack, columns = stacked(engines), Columns.empty(len(noise))
        learned = np.zeros(len(engines), dtype=np.int64)  # rounds; a prior that is rejected learns no more
        done, full = numba_priors.play(rule, constants, self.tally, stack, learned, game, columns, 0)
        while full:
            for p in self._playing:
                engines[p].fold()
            done, full = numba_priors.play(rule, constants, self.tally, stack, learned, game, columns, done)
        for p in playing:
            models[p].add_played(columns.part(0, int(learned[p])), self.regularization)
        played = columns.part(0, done)
        self.rounds += done
        self._queried[played.candidates] = True
        self._gains = {}
        return played

    def _extend(self, grown: Domain) -> None:
        """Replace the shards by shards on the larger candidate set."""
        states, size = self._shards.ask(self._playing, PriorShard.state), self.domain.size
        setups = [functools.partial(PriorShard.take, state=state, size=size) for state in states]
        self._make_shards(grown.model_space, dict(zip(self._playing, setups, strict=True)))
        self._queried = np.append(self._queried, np.zeros(grown.size - len(self._queried), dtype=np.bool_))

    def _shard_states(self) -> State:
        states = self._shards.ask(self._playing, PriorShard.state)
        for number, state in zip(self._playing, states, strict=True):
            if self.priors[number].kernel.epsilon:  # other models are made sooner from the observations
                self._source.checkpoint(number, state)
        return nested(**{str(number): state for number, state in zip(self._playing, states, strict=True)})

    def _restore_shards(self, states: State) -> None:
        parts = {number: part(states, str(number)) for number in self._playing}
        self._make_shards(
            self.domain.model_space,
            {number: functools.partial(PriorShard.restore, state=copied(state)) for number, state in parts.items()},
        )
