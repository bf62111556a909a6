"""Models of whole boxes and of spaces of named parameters, which maximise indices over all points; `make_model`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import Top
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.search import LEARNED_SIZES, LONG_SIZES, PATH_SIZES, SIZES, Sizes, top_of_box
from scalable_bandits.posteriors.box.settings import top_of_settings
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex, Surface, constant_mean, differenced
from scalable_bandits.posteriors.engine import Acquisition
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.learned.prior import LearnedPrior
from scalable_bandits.posteriors.model import MEAN, Model
from scalable_bandits.posteriors.model_prior import MakeEngine, ModelPrior
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.spaces import Domain, Indices, Mask
from scalable_bandits.spaces.domain import WholeBox, WholeSearchSpace

MOST_NEAR = 16  # number of the best points of a learned prior among which the searches choose those to look around
MANY_OBSERVATIONS = 200  # of a learned prior, from which its searches begin with fewer settings
NO_POINTS = np.empty(0, dtype=np.int64)
SETTINGS, FEW_SETTINGS = 2048, 512  # number of random settings at which an index is computed first


class BoxModel(Model):
    """Model of a whole box, which maximises indices over all points, not over candidates."""

    def _empty_engine(self) -> BoxEngine:
        constant, bounds = self.constant_mean, self._bounds
        mean = differenced(self.prior_mean, bounds) if constant is None else constant_mean(constant)
        engine = BoxEngine(self.kernel, len(bounds), mean, appends=self.learned is not None)
        engine.points = self.domain.coordinates()
        return engine

    @property
    def _bounds(self) -> Floats:
        bounds = self.domain.space.cube
        assert bounds is not None
        return bounds

    def extended(self, domain: Domain) -> Model:
        grown = self._without_engine(domain)
        if self.prior.constant is None and self.learned is None:  # the function may raise at new points
            added = domain.points(np.arange(self.domain.size, domain.size))
            self.prior_mean(added[~np.isnan(added[:, 0])])
        engine = self._engine if self.learned is not None else self.engine
        if engine is not None:
            engine.points = domain.coordinates()
        grown._engine, grown._regression = engine, self._regression
        return grown

    def maximize(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int],
        draws: Draws | None = None,
    ) -> Floats:  # fmt: skip
        return self.top(index, pending, key, draws, self.settled(pending)).x

    def best_mean(
        self, salt: int, queried: Mask, otherwise: Mask | None, key: tuple[int, int], draws: Draws | None = None
    ) -> tuple[Any, float]:
        if queried.any():
            return super().best_mean(salt, queried, otherwise, key, draws)
        found = self.top(MEAN, (), key)
        return found.x, found.value

    def largest(self, index: Acquisition, key: tuple[int, int]) -> float:
        return self.top(index, (), key).value

    @one_thread
    def top(
        self, index: Acquisition, pending: Sequence[int], key: tuple[int, int], draws: Draws | None = None,
        settled: Indices = NO_POINTS,
    ) -> Top:  # fmt: skip
        """Return the maximum of an index over the box, given pending points; other arguments as in `maximize`.

        On a space of named parameters it is not at one of the points with numbers `settled` (k,), if there are others.
        """
        surface = self._surface(pending, draws)
        near, sizes = np.flatnonzero(self._queried), SIZES
        if self.learned is not None:
            many = len(self.learned) >= MANY_OBSERVATIONS
            near, sizes = (self.learned.best_points(MOST_NEAR), LONG_SIZES) if many else (near, LEARNED_SIZES)
        if draws is not None:  # a drawn value may be the best of all, and the maximum near it
            near = np.concatenate([near, draws.points])
        return self._top(surface, cast(SmoothIndex, index), near, key, sizes, settled)

    def _surface(self, pending: Sequence[int], draws: Draws | None) -> Surface:
        """Return the posterior given pending points, of which the first have drawn values, if any have."""
        engine, noise = self.engine, self.regularization
        assert isinstance(engine, BoxEngine)
        if draws is None:
            return engine.surface(self.domain.coordinates(list(pending)), noise)
        others = list(pending)[int(draws.counts.sum()) :]
        points = self.domain.coordinates([*draws.points.tolist(), *others])
        return engine.surface(points, np.append(noise / draws.counts, np.full(len(others), noise)), draws.values)

    @one_thread
    def top_of_path(self, path: PathSurface, near: Indices, key: tuple[int, int]) -> Top:
        """Return the maximum of a sample path, searched also near the points with numbers `near` (k,)."""
        return self._top(path, MEAN, near, key, PATH_SIZES)

    def _top(
        self, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int], sizes: Sizes = SIZES,
        settled: Indices = NO_POINTS,
    ) -> Top:  # fmt: skip
        return top_of_box(surface, index, self._bounds, self.domain.coordinates(near), key, sizes)


class SettingsModel(BoxModel):
    """Model of a space of named parameters, which maximises indices over all settings."""

    domain: WholeSearchSpace

    @property
    def _settings_scan(self) -> int:
        """Number of random settings at which an index is computed first."""
        return FEW_SETTINGS if self.learned is not None and len(self.learned) >= MANY_OBSERVATIONS else SETTINGS

    def _top(
        self, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int], sizes: Sizes = SIZES,
        settled: Indices = NO_POINTS,
    ) -> Top:  # fmt: skip
        space = self.domain.space
        if not space.smooth:
            points, without = self.domain.points(near), self.domain.points(settled)
            return top_of_settings(surface, index, space, points, key, self._settings_scan, without)
        found = super()._top(surface, index, near, key, sizes)
        return found._replace(x=space.decode(found.x[None])[0])


# Domains that are not listed have a `Model`.
MODELS: dict[type[Domain], type[Model]] = {WholeBox: BoxModel, WholeSearchSpace: SettingsModel}


def make_model(
    prior: ModelPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
    schedule: HyperparameterSchedule | None = None, learned: LearnedPrior | None = None,
) -> Model:  # fmt: skip
    """Make the model of a domain: parameters as in `Model`."""
    return MODELS.get(type(domain), Model)(prior, domain, make_engine, regularization, schedule, learned)
