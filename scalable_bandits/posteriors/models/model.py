"""The Gaussian-process model of a policy, of one of its priors, or of one of its stages.

| class | prior | file |
| --- | --- | --- |
| `Model` | given | this one |
| `RefittedModel` | hyperparameters of a given kernel, learned anew every few rounds | `refitted.py` |
| `LearnedModel` | learned with a transform of y, where no kernel is given | `learned.py` |
| `PriorShard` | given, with a mean that may change from round to round | `policies/prior_model.py` |

A model has a prior, an engine with the posterior on the numbered points of a domain, the observations, and a search
that finds the point of largest index: among all candidates (`Candidates`), or on a whole box, in a space of named
parameters, or on a large grid (`search.py`).

There are three y. The user's has the user's units and sign. In units of y, a model's is the user's, or where the policy
minimises its negative. In units of the engine's y, it is transformed as well, where a model learns (`LearnedModel`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.beliefs import Beliefs, beliefs_of
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Acquisition, Engine, ForgettingEngine, choose
from scalable_bandits.posteriors.hyperparameters.transform import Transform
from scalable_bandits.posteriors.pending import Draws, distinct, drawn
from scalable_bandits.posteriors.pool.chunks import Passes
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.posteriors.state import State, StateEntry, Stateful, member, part
from scalable_bandits.spaces import Domain, Indices, Mask
from scalable_bandits.spaces.pool import Available

MakeEngine = Callable[[Kernel, Floats, Floats], Engine]  # arguments: kernel, candidates (n, d), prior means (n,)
# Arguments: posterior, numbers (k,) of the candidates that are not chosen, ascending, what scores; returns numbers.
ChunksOf = Callable[[Surface, Indices, Passes], Indices]
NO_POINTS = np.empty(0, dtype=np.int64)
MEAN = UpperConfidence(width=0.0)
DEVIATION = UpperConfidence(width=1.0, mean_weight=0.0)


class GivenPrior(NamedTuple):
    """Prior of a model as it was given; subclasses of `Model` learn another."""

    kernel: Kernel
    mean: Callable[[Floats], Floats]  # prior mean (k,) at points (k, d), in units of y; not called if it is constant
    constant: float | None = None  # value of a constant mean, in units of y
    direction: int = 1  # -1 if the model's y is the negative of the user's, which `Model.describe` reports


class Query(NamedTuple):
    """Arguments of a search for the largest index."""

    salt: int = 0  # seed of the hash that breaks ties, the same in all rounds
    key: tuple[int, int] = (0, 0)  # (policy's seed, round), from which a search draws
    allowed: Mask | None = None  # (n,) candidates to choose from; None for all
    pending: Sequence[int] = ()  # numbers of the pending candidates, first those of `draws`
    draws: Draws | None = None  # values drawn at pending points; a point without one has its posterior mean
    measured: bool = False  # whether the point will be measured: then `settled` points are left out
    excluded: Sequence[int] = ()  # numbers of the last of the pending candidates, whose evaluation has failed
    batch: int = 1  # number of points that are asked for together
    available: Available | None = None  # mask of a pool's candidates to choose from, by number; None for all
    chunks: ChunksOf | None = None  # what chooses the chunks of a pool that are scored; None for all
    near: Sequence[int] = ()  # numbers of points near which a search has more points, whatever they are worth
    fixed: Floats | None = None  # (d,) coordinates of the point on a whole box, NaN where free; None if all are
    beside: Sequence[Model] = ()  # models of further outputs; the index has their moments in rows after the model's own


class Candidates:
    """Search of a model that computes the index at all candidates."""

    def engine(self, model: Model) -> Engine:
        """Return a new engine of a model's prior, without observations."""
        points = model.domain.coordinates()
        return model.make_engine(model.kernel, points, model.prior_mean(points))

    def extended(self, engine: Engine, model: Model) -> Engine | None:
        """Return an engine like another, on a model's larger domain; None if it has to be rebuilt."""
        if not isinstance(engine, ForgettingEngine):  # which the model rebuilds from its observations
            return None
        points = model.domain.coordinates()
        return engine.extended(points, model.prior_mean(points))

    def argmax(self, model: Model, index: Acquisition, query: Query) -> tuple[Any, float]:
        """Return the candidate of largest index, and that index."""
        engine = model.engine
        if query.beside:
            found = [_moments(each, query.pending) for each in (model, *query.beside)]
            means, variances = np.stack([mean for mean, _ in found]), np.stack([variance for _, variance in found])
            means[0] += 0.0 if query.draws is None else query.draws.shift
            return choose(index(means, variances), query.salt, query.allowed)
        reduction = model.reduction(query.pending) if query.pending else None
        if query.draws is None:
            return engine.argmax(index, query.salt, query.allowed, reduction)
        variance = engine.variance() if reduction is None else np.maximum(engine.variance() - reduction, 0.0)
        return choose(index(engine.mean() + query.draws.shift, variance), query.salt, query.allowed)

    def draw(self, model: Model, pending: Sequence[int], key: tuple[int, int]) -> Draws:
        """Draw values at pending points by a key."""
        return drawn(model.engine, pending, *model.pending_covariance(pending), key)

    @property
    def activity(self) -> str:
        """Text of what takes long at present, for a progress bar."""
        return ""

    def describe(self, domain: Domain) -> str:
        """Say where the largest index is looked for."""
        return f"computed at each of {domain.choosable:,} candidates"


CANDIDATES = Candidates()


def _moments(model: Model, pending: Sequence[int]) -> tuple[Floats, Floats]:
    """Return mean and variance (n,) of the candidates given pending points, in units of the engine's y."""
    mean, variance = model.engine.mean(), model.engine.variance()
    return mean, np.maximum(variance - model.reduction(pending), 0.0) if pending else variance


class Model(Stateful):
    """Model with a given prior: engine and observations on the numbered points of a domain.

    Parameters
    ----------
    prior
        Kernel and mean.
    domain
        Numbered points of the space.
    make_engine
        Function that makes an engine without observations.
    regularization
        Noise variance lambda of a pending point, in squared units of the engine's y.
    search
        Search for the point of largest index.

    Attributes
    ----------
    observations : CollapsedObservations
        Observations by point; empty if the engine forgets, since such an engine has its own observations.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("engine"), member("observations", name="observed"))
    plays: ClassVar[bool] = True  # whether compiled loops may play rounds on the engine
    appends: ClassVar[bool] = False  # whether a box's factor is extended at every observation, or made at a search
    transform = Transform(np.zeros(1), np.zeros(1), 1.0, 1.0)  # function from y to units of the engine's y
    effort = "usual"  # of a search: "usual", "learned" where a model learns, "hurried" where it has many observations
    batched_columns = True  # whether the columns of several pending points are computed together

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
        search: Candidates = CANDIDATES,
    ):  # fmt: skip
        self.prior, self.domain, self.search = prior, domain, search
        self.make_engine, self.regularization = make_engine, regularization
        self.observations = CollapsedObservations()
        self._engine: Engine | None = None
        self._queried = np.zeros(domain.size, dtype=np.bool_)
        self._regression: Regression | None = None
        self._columns: dict[int, Floats] = {}  # posterior covariances (n,) of pending points with all candidates

    # ---- the prior

    @property
    def kernel(self) -> Kernel:
        """Kernel of the posterior: that of the prior, or the last one that was learned."""
        return self.prior.kernel

    @property
    def constant_mean(self) -> float | None:
        """Constant prior mean, given or learned, in units of the engine's y; None if the mean is not constant."""
        return self.prior.constant

    def prior_mean(self, points: Floats) -> Floats:
        """Return the prior mean (k,) at points (k, d), in units of the engine's y."""
        constant = self.constant_mean
        return self.prior.mean(points) if constant is None else np.full(len(points), constant)

    # ---- the engine

    @property
    def engine(self) -> Engine:
        """Engine of the numbered points, made from the observations at its first use."""
        if self._engine is None:
            self._engine = self.rebuilt_engine()
        return self._engine

    def rebuilt_engine(self) -> Engine:
        """Return a new engine with the observations."""
        engine = self.search.engine(self)
        if len(self.observations):
            engine.observe_all(*self.observations.collapsed())
        return engine

    @property
    def queried(self) -> Mask:
        """Mask (n,) of the candidates with observations that are not forgotten."""
        return self._engine.observed if isinstance(self._engine, ForgettingEngine) else self._queried

    @property
    def forgets(self) -> bool:
        """Whether the engine forgets and has its own observations."""
        return self._engine is not None and self._engine.forgets

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        """Condition on an observation y of a candidate, and advance the engine by a round."""
        engine = self.engine
        engine.observe(candidate, y, noise_variance)
        if engine.forgets:
            engine.advance()
        else:
            self.observations.add(candidate, y, noise_variance)
            self._queried[candidate] = True
        self._changed()

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        """Condition on observations (k,) of candidates (k,), one after the other, as `observe` does."""
        engine = self.engine
        if engine.forgets:
            for observation in zip(candidates.tolist(), ys.tolist(), noise_variances.tolist(), strict=True):
                self.observe(*observation)
            return
        engine.observe_all(candidates, ys, noise_variances)
        self._add_observed(candidates, ys, noise_variances)

    def add_played(self, columns: Columns, noise_variance: float) -> None:
        """Add observations that a compiled loop gave to the engine."""
        self._add_observed(columns.candidates, columns.ys, noise_variance)

    def _add_observed(self, candidates: Indices, ys: Floats, noise_variances: float | Floats) -> None:
        """Add observations (k,) that the engine has."""
        if not self.forgets:
            self.observations.add_all(candidates, ys, noise_variances)
            self._queried[candidates] = True
        self._changed()

    def _changed(self) -> None:
        """Drop what was computed from the observations before."""
        self._regression = None
        self._columns.clear()

    def after_round(self, rounds: int) -> None:
        """Do what is due after so many rounds: a model that learns its hyperparameters may fit them."""

    def fail(self, candidate: int) -> None:
        """Take note that the function failed at a candidate; only a model without a given prior uses it."""

    def forget(self) -> None:
        """Forget all observations."""
        self._engine, self.observations = None, CollapsedObservations()
        self._queried[:] = False
        self._changed()

    def extended(self, domain: Domain) -> Self:
        """Return the model on a larger domain, with the same observations."""
        grown = self._on(domain)
        grown._engine = self.search.extended(self.engine, grown) or grown.rebuilt_engine()
        return grown

    def take(self, state: State, size: int) -> None:
        """Restore from the state of a model of the same prior on the first `size` candidates."""
        self.observations.restore(part(state, "observed"))
        self._engine = None
        if not self.engine.forgets:
            return
        points = self.domain.coordinates()
        smaller = self.make_engine(self.kernel, points[:size], self.prior_mean(points[:size]))
        smaller.restore(part(state, "engine"))
        assert isinstance(smaller, ForgettingEngine)
        self._engine = smaller.extended(points, self.prior_mean(points))

    def _on(self, domain: Domain) -> Self:
        """Return a model with the same observations on another domain, whose engine is not yet made."""
        model, shared = copy.copy(self), min(domain.size, len(self._queried))
        model.domain, model._engine, model._columns = domain, None, {}
        model._queried = np.zeros(domain.size, dtype=np.bool_)
        model._queried[:shared] = self._queried[:shared]
        return model

    # ---- pending points

    def reduction(self, pending: Sequence[int]) -> Floats:
        """Return the reduction (n,) of the variances by pending points, at least one, in squared units of y."""
        columns, covariance = self.pending_covariance(pending)
        return np.einsum("ij,ij->j", columns, np.linalg.solve(covariance, columns))  # (3) in `pending.py`

    def pending_covariance(self, pending: Sequence[int]) -> tuple[Floats, Floats]:
        """Return covariances of the distinct pending points with all candidates (q, n), and of their values (q, q)."""
        points, counts = distinct(pending)
        missing = [c for c in points.tolist() if c not in self._columns]
        for some in [missing] if self.batched_columns and missing else [[c] for c in missing]:
            self._columns.update(zip(some, self.engine.columns(np.array(some)), strict=True))
        columns = np.array([self._columns[c] for c in points.tolist()])
        return columns, columns[:, points] + np.diag(self.regularization / counts)

    def draw(self, pending: Sequence[int], key: tuple[int, int]) -> Draws | None:
        """Draw values at pending points by a key, the policy's seed and the round; None without any."""
        return self.search.draw(self, pending, key) if pending else None

    # ---- maximisation, prediction

    def argmax(self, index: Acquisition, query: Query) -> tuple[Any, float]:
        """Return the point of largest index, and that index in units of the engine's y.

        The point is the number of a candidate; on a whole box, where no mask is given, a point (d,).
        """
        return self.search.argmax(self, index, query)

    def settled(self, pending: Sequence[int]) -> Indices:
        """Return the numbers (k,) of points that are not worth another measurement."""
        return NO_POINTS

    @property
    def exhausted(self) -> bool:
        """Whether no measurement would tell anything new."""
        return False

    def likely(self) -> Indices:
        """Return the numbers (k,) of the best points, near which a search looks more closely."""
        return np.flatnonzero(self._queried)

    def highest(self, width: float, key: tuple[int, int]) -> float:
        """Return the largest upper confidence bound, in units of y, given the key of a search."""
        _, bound = self.argmax(UpperConfidence(width), Query(key=key))
        return float(self.transform.inverse(np.array([bound]))[0])

    def in_units(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Convert means and variances (k,) of the engine to units of y."""
        return mean, variance

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean and variance at points (k, d), not only candidates, in units of y: two (k,) arrays."""
        return self.in_units(*self.believed(points))

    def means(self, points: Floats) -> Floats:
        """Return the means (k,) of `predict`, without what the variances take."""
        mean, variance = self.deviation(points)
        return self.in_units(mean + self.prior_mean(points), variance)[0]

    def believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (k,) at points (k, d), in units of the engine's y."""
        mean, variance = self.deviation(points)
        return mean + self.prior_mean(points), variance

    def bounds(self, points: Floats, deviations: float) -> tuple[Floats, Floats]:
        """Return values (k,) in units of y, so many standard deviations below and above the mean at points (k, d)."""
        mean, variance = self.believed(points)
        half = deviations * np.sqrt(variance)
        return self.transform.inverse(mean - half), self.transform.inverse(mean + half)

    def deviation(self, points: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at points (k, d): two (k,) arrays."""
        engine = self.engine
        if engine.predicts:
            return engine.predict(points)
        if self._regression is None:
            queried, averages, noise_variances = self.observations.collapsed()
            x = self.domain.coordinates(queried)
            self._regression = Regression(self.kernel, x, noise_variances, averages - self.prior_mean(x))
        return self._regression.predict(points)

    def averages(self) -> tuple[Indices, Floats, Floats]:
        """Return distinct points, averages of y and their noise variances, in units of y: three (m,) arrays."""
        return self.observations.collapsed()

    @property
    def noise(self) -> float:
        """Noise variance of a measurement, in squared units of the engine's y."""
        return self.regularization

    def describe(self) -> Beliefs:
        """Return what the model believes of the function: lengthscales, scale, noise and mean, in the user's units."""
        return beliefs_of(self)

    # ---- state

    def before_restore(self, state: State) -> None:
        """Drop engine and observations, so that a new engine is made with the hyperparameters of the state."""
        self.forget()

    def after_restore(self) -> None:
        """Recompute what follows from the observations."""
        self._queried = np.zeros(self.domain.size, dtype=np.bool_)
        self._queried[self.averages()[0]] = True
        self._changed()


class LazyModel(Model):
    """Model that has an engine only after its first use, which is not part of its state.

    The parameters are those of `Model`.
    """

    @classmethod
    def state_fields(cls) -> tuple[StateEntry, ...]:
        return tuple(field for field in super().state_fields() if field.name != "engine")

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._engine is not None:
            super().observe(candidate, y, noise_variance)
            return
        self.observations.add(candidate, y, noise_variance)
        self._queried[candidate] = True
        self._regression = None

    def extended(self, domain: Domain) -> Self:
        grown = self._on(domain)
        grown._engine = None if self._engine is None else self.search.extended(self._engine, grown)
        return grown
