"""Models of whole boxes, of spaces of named parameters, and of large grids, which search for the largest index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors import pending as pending_values
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.lattice import GridPoints, top_of_grid
from scalable_bandits.posteriors.box.maximization import (
    LEARNED_SIZES,
    LONG_SIZES,
    PATH_SIZES,
    SIZES,
    Sizes,
    Top,
    maximize_over_box,
    promising,
)
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.settings import top_of_settings
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex, Surface, constant_mean, differenced
from scalable_bandits.posteriors.engine import Acquisition, choose
from scalable_bandits.posteriors.hyperparameters.schedule import HyperparameterSchedule
from scalable_bandits.posteriors.learned.prior import LearnedPrior
from scalable_bandits.posteriors.model import MEAN, MakeEngine, Model, ModelPrior
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Domain, Indices, Mask
from scalable_bandits.spaces.domain import WholeBox, WholeSearchSpace

MOST_NEAR = 16  # number of the best points of a learned prior among which the searches choose those to look around
MANY_OBSERVATIONS = 200  # of a learned prior, from which its searches begin with fewer settings
NO_POINTS = np.empty(0, dtype=np.int64)
MOST_ENUMERATED = 20_000  # number of candidates of a grid above which a model that is learned searches it
BLOCK = 2048  # number of candidates at which an index is computed together
SETTINGS, FEW_SETTINGS = 2048, 512  # number of random settings at which an index is computed first


class BoxModel(Model):
    """Model of a whole box, which maximises indices over all points, not over candidates."""

    def _empty_engine(self) -> BoxEngine:
        constant, bounds = self.constant_mean, self._bounds
        mean = differenced(self.prior_mean, bounds) if constant is None else constant_mean(constant)
        engine = BoxEngine(self.kernel, len(bounds), mean, appends=self.learned is not None)
        engine.points = self._points()
        return engine

    def _points(self) -> Floats:
        """Return the coordinates (n, d) of the numbered points."""
        return self.domain.coordinates()

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
    ) -> int | Floats:  # fmt: skip
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
        surface, sizes = self._surface(pending, draws), SIZES
        if self.learned is not None:
            sizes = LONG_SIZES if self._many else LEARNED_SIZES
        return self._top(surface, cast(SmoothIndex, index), self._near(draws), key, sizes, settled)

    @property
    def _many(self) -> bool:
        """Whether the searches of a learned prior are short ones."""
        return self.learned is not None and len(self.learned) >= MANY_OBSERVATIONS

    def _near(self, draws: Draws | None) -> Indices:
        """Return the numbers (k,) of the points around the best of which a search has more points."""
        near = np.flatnonzero(self._queried)
        if self.learned is not None and self._many:
            near = self.learned.best_points(MOST_NEAR)
        # A drawn value may be the best of all, and the maximum near it.
        return near if draws is None else np.concatenate([near, draws.points])

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
        points, seed = self.domain.coordinates(near), derived_seed(key[0], "box", key[1])
        likely = points[promising(surface, index, points, sizes.likely)]
        return maximize_over_box(surface, index, self._bounds, seed, likely, sizes)


class SettingsModel(BoxModel):
    """Model of a space of named parameters, which maximises indices over all settings."""

    domain: WholeSearchSpace

    def _top(
        self, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int], sizes: Sizes = SIZES,
        settled: Indices = NO_POINTS,
    ) -> Top:  # fmt: skip
        space = self.domain.space
        if not space.smooth:
            points, without = self.domain.points(near), self.domain.points(settled)
            scan = FEW_SETTINGS if self._many else SETTINGS
            return top_of_settings(surface, index, space, points, key, scan, without)
        found = super()._top(surface, index, near, key, sizes)
        return found._replace(x=space.decode(found.x[None])[0])


class GridModel(BoxModel):
    """Model of a large grid with a learned prior, which searches the grid for the largest index.

    An engine of all candidates would be made anew after every fit. The index of few candidates, those of a mask, is
    computed at each.
    """

    def _points(self) -> Floats:
        return cast(Floats, GridPoints(self.domain))

    def maximize(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int],
        draws: Draws | None = None,
    ) -> int:  # fmt: skip
        return self._best(index, salt, allowed, pending, key, draws)[0]

    def best_mean(
        self, salt: int, queried: Mask, otherwise: Mask | None, key: tuple[int, int], draws: Draws | None = None
    ) -> tuple[int, float]:
        return self._best(MEAN, salt, queried if queried.any() else otherwise, (), key, draws)

    def largest(self, index: Acquisition, key: tuple[int, int]) -> float:
        return self._best(index, 0, None, (), key, None)[1]

    @one_thread
    def _best(
        self, index: Acquisition, salt: int, allowed: Mask | None, pending: Sequence[int], key: tuple[int, int],
        draws: Draws | None,
    ) -> tuple[int, float]:  # fmt: skip
        """Return the candidate of largest index, and that index; arguments as in `maximize`."""
        surface = self._surface(pending, draws)
        if allowed is None or np.count_nonzero(allowed) > MOST_ENUMERATED:
            grid, scan = self.domain.finite, FEW_SETTINGS if self._many else SETTINGS
            return top_of_grid(surface, cast(SmoothIndex, index), grid, self._near(draws), allowed, key, scan)
        numbers = np.flatnonzero(allowed)
        blocks = [numbers[start : start + BLOCK] for start in range(0, len(numbers), BLOCK)]
        values = [index(*surface.predict(self.domain.coordinates(block))) for block in blocks]
        position, largest = choose(np.concatenate(values), salt, None, numbers)
        return int(numbers[position]), largest

    def draw(self, pending: Sequence[int], key: tuple[int, int]) -> Draws | None:
        if not pending:
            return None
        points, counts = pending_values.distinct(pending)
        engine, x = self.engine, self.domain.coordinates(points)
        assert isinstance(engine, BoxEngine)
        among = engine.covariance(x, x)  # the changes of the means elsewhere follow from the values (`_surface`)
        return pending_values.draw(engine, pending, among, among + np.diag(self.regularization / counts), key)


# Domains that are not listed have a `Model`.
MODELS: dict[type[Domain], type[Model]] = {WholeBox: BoxModel, WholeSearchSpace: SettingsModel}


def make_model(
    prior: ModelPrior, domain: Domain, make_engine: MakeEngine, regularization: float,
    schedule: HyperparameterSchedule | None = None, learned: LearnedPrior | None = None, searches: bool = False,
) -> Model:  # fmt: skip
    """Make the model of a domain: parameters as in `Model`; `searches`: whether it may search a large grid."""
    kind = MODELS.get(type(domain), Model)
    if searches and not domain.whole_box and domain.finite.lattice and domain.size > MOST_ENUMERATED:
        kind = GridModel
    return kind(prior, domain, make_engine, regularization, schedule, learned)
