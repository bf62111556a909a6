"""Model whose engine is made from the observations when it is needed.

Observations cost nothing until then, and an engine that was interrupted can be dropped: the next use makes another.
"""

from __future__ import annotations

from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.model import Model
from scalable_bandits.posteriors.state import Field, State
from scalable_bandits.spaces import Domain


class LazyModel(Model):
    """Model that has an engine only after its first use, which is not part of its state.

    The parameters are those of `Model`, without learned ones.
    """

    @classmethod
    def state_fields(cls) -> tuple[Field, ...]:
        return tuple(field for field in super().state_fields() if field.name != "engine")

    @property
    def engine(self) -> Engine:
        """Engine of the candidates, made from the observations at its first use."""
        if self._engine is None:
            self._engine = self._rebuilt_engine()
        return self._engine

    @property
    def information_gain(self) -> float:
        """Realised information gain of the observations, in nats."""
        return self.engine.information_gain

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._engine is not None:
            super().observe(candidate, y, noise_variance)
            return
        self.observations.add(candidate, y, noise_variance)
        self._queried[candidate] = True
        self._regression = None

    def extended(self, domain: Domain) -> LazyModel:
        grown = self._without_engine(domain)
        assert isinstance(grown, LazyModel)
        return grown

    def restore_engine(self, state: State) -> None:
        """Restore the engine, with its last digits, from the arrays that its `state` returned."""
        self._engine = self._empty_engine()
        self._engine.restore(state)

    def drop_engine(self) -> None:
        """Drop the engine, which may have been interrupted; the observations stay."""
        self._engine = None
        self._columns.clear()
