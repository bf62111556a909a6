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
from typing import ClassVar, NamedTuple, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.models.model import Model
from scalable_bandits.posteriors.state import State, StateEntry, value
from scalable_bandits.spaces import Domain, Indices


class Repeats(NamedTuple):
    """Observations of one point."""

    point: int = -1  # number of the point
    precision: float = 0.0  # sum of one over the noise variances
    weighted: float = 0.0  # sum of the values over their noise variances

    def added(self, point: int, y: float, noise_variance: float) -> Repeats:
        """Return them with another observation of the same point."""
        return Repeats(point, self.precision + 1.0 / noise_variance, self.weighted + y / noise_variance)

    @property
    def noise_variance(self) -> float:
        """Noise variance of the average."""
        return 1.0 / self.precision

    @property
    def average(self) -> float:
        """Average of the values, each with weight one over its noise variance."""
        return self.weighted / self.precision


NONE = Repeats()


class ConditionedEngine(Engine):
    """View of an engine, given observations of one point that the engine does not have.

    Parameters
    ----------
    engine
        The engine, which has no other observations as long as the view is used.
    repeats
        The observations.
    """

    def __init__(self, engine: Engine, repeats: Repeats):
        self.kernel, self.points, self.size = engine.kernel, engine.points, engine.size
        self._engine, self._repeats = engine, repeats
        mean, variance = engine.at(np.array([repeats.point]))
        self._residual = repeats.average - float(mean[0])
        self._before = float(variance[0])
        self._total = repeats.noise_variance + self._before
        self.totals = engine.totals

    @cached_property
    def _column(self) -> Floats:
        """Covariances (n,) of the point with all candidates, without the observations."""
        return self._engine.columns(np.array([self._repeats.point]))[0]

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
        return self._engine.information_gain + 0.5 * math.log1p(self._before / self._repeats.noise_variance)

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        raise TypeError("a view of an engine takes no observations")

    def state(self) -> State:
        """Return the state of the engine."""
        return self._engine.state()


class RepeatedModel(Model):
    """Model whose engine gets observations of one point, made in succession, when `settle` is called."""

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value(
            "repeats", "(3,)", float, lambda model: np.array(model.repeats, dtype=np.float64),
            lambda model, values: model._restore_repeats(values),
        ),
    )  # fmt: skip

    repeats = NONE  # observations that the engine does not have
    _view: ConditionedEngine | None = None

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, or a view of it with the observations that it does not have yet."""
        if self.repeats is NONE:
            return super().engine
        if self._view is None:
            self._view = ConditionedEngine(super().engine, self.repeats)
        return self._view

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if candidate != self.repeats.point:
            self.settle()
        _ = super().engine  # is made without this observation
        self.repeats = self.repeats.added(candidate, y, noise_variance)
        self.observations.add(candidate, y, noise_variance)
        self._queried[candidate] = True
        self._view = None
        self._changed()

    def settle(self) -> None:
        """Condition the engine on the observations that it does not have yet."""
        repeats, self.repeats, self._view = self.repeats, NONE, None
        if repeats is not NONE:
            super().engine.observe(repeats.point, repeats.average, repeats.noise_variance)
            self._columns.clear()

    def _on(self, domain: Domain) -> Self:
        model = super()._on(domain)
        model.repeats, model._view = NONE, None  # an engine that is made again has all observations
        return model

    def before_restore(self, state: State) -> None:
        super().before_restore(state)
        self.repeats, self._view = NONE, None

    def _restore_repeats(self, values: Floats) -> None:
        point, precision, weighted = values.tolist()
        if point >= 0:
            self.repeats, self._view = Repeats(int(point), precision, weighted), None
