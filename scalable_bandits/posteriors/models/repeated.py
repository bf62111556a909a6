"""Model that conditions its engine on observations of one point, made in succession, all at once.

To the engine they are one observation of their average. Until then it is seen through a view, so that whatever is read
from the model is the posterior given all observations: with K_l, mu_l of the engine, and the average y of observations
of p with noise variance v in all,

    mu(x) = mu_l(x) + K_l(x, p) (y - mu_l(p)) / (v + K_l(p, p))
    K(x, x') = K_l(x, x') - K_l(x, p) K_l(p, x') / (v + K_l(p, p))

Reading changes nothing, so that a run does not depend on what is looked at.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.models.model import GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import State, StateEntry, member
from scalable_bandits.spaces import Domain, Indices


class ConditionedEngine(Engine):
    """View of an engine, given observations of one point that the engine does not have.

    Parameters
    ----------
    engine
        The engine, which has no other observations as long as the view is used.
    repeats
        The observations.
    """

    def __init__(self, engine: Engine, repeats: CollapsedObservations):
        self.kernel, self.points, self.size, self._engine = engine.kernel, engine.points, engine.size, engine
        self._point, averages, noise_variances = repeats.collapsed()
        mean, variance = engine.at(self._point)
        self._residual, self._before = float(averages[0]) - float(mean[0]), float(variance[0])
        self._noise = float(noise_variances[0])
        self._total = self._noise + self._before
        self.gain = engine.gain

    @cached_property
    def _column(self) -> Floats:
        """Covariances (n,) of the point with all candidates, without the observations."""
        return self._engine.columns(self._point)[0]

    @cached_property
    def _mean(self) -> Floats:  # type: ignore[override]
        return self._engine.mean() + self._column * (self._residual / self._total)

    @cached_property
    def _variance(self) -> Floats:  # type: ignore[override]
        return np.maximum(self._engine.variance() - self._column**2 / self._total, 0.0)

    def columns(self, candidates: Indices) -> Floats:
        column = self._column
        return self._engine.columns(candidates) - np.outer(column[candidates], column) / self._total

    @property
    def information_gain(self) -> float:
        return self._engine.information_gain + 0.5 * math.log1p(self._before / self._noise)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        raise TypeError("a view of an engine takes no observations")

    def state(self) -> State:
        """Return the state of the engine."""
        return self._engine.state()


class RepeatedModel(Model):
    """Model whose engine gets observations of one point, made in succession, when `settle` is called."""

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("repeats"),)

    def __init__(self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float):
        super().__init__(prior, domain, make_engine, regularization)
        self.repeats = CollapsedObservations()  # of one point at most, those that the engine does not have
        self._view: ConditionedEngine | None = None

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, or a view of it with the observations that it does not have yet."""
        engine = super().engine
        if not len(self.repeats):
            return engine
        if self._view is None:
            self._view = ConditionedEngine(engine, self.repeats)
        return self._view

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if candidate not in self.repeats:
            self.settle()
        _ = super().engine  # is made without this observation
        self.repeats.add(candidate, y, noise_variance)
        self.observations.add(candidate, y, noise_variance)
        self._queried[candidate] = True
        self._view = None
        self._changed()

    def settle(self) -> None:
        """Condition the engine on the observations that it does not have yet."""
        if not len(self.repeats):
            return
        (point,), (average,), (noise_variance,) = (each.tolist() for each in self.repeats.collapsed())
        super().engine.observe(point, average, noise_variance)
        self.repeats, self._view = CollapsedObservations(), None
        self._columns.clear()

    def forget(self) -> None:
        super().forget()
        self.repeats, self._view = CollapsedObservations(), None

    def _on(self, domain: Domain) -> Self:
        model = super()._on(domain)
        model.repeats, model._view = CollapsedObservations(), None  # an engine that is made again has all observations
        return model
