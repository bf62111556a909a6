"""Searches for the largest index where it is not computed at every point: whole boxes, named spaces, large grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.joint import JointSurface
from scalable_bandits.posteriors.box.lattice import GridPoints, top_of_grid
from scalable_bandits.posteriors.box.maximization import (
    LEARNED_SIZES,
    LONG_SIZES,
    PATH_SIZES,
    SIZES,
    Sizes,
    Top,
    maximize_over_box,
    maximize_over_slice,
    promising,
)
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.settings import EFFORT, top_of_settings
from scalable_bandits.posteriors.box.sketched import QueriedSketch, Sketch
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex, constant_mean, differenced
from scalable_bandits.posteriors.engine import Acquisition, Engine, choose
from scalable_bandits.posteriors.models.model import CANDIDATES, MEAN, NO_POINTS, Candidates, Model, Query
from scalable_bandits.posteriors.pending import Draws, distinct, drawn
from scalable_bandits.posteriors.weights.box import WeightsBoxEngine, top_of_weights
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import Domain, Grid, Indices, Mask, SearchSpace, Space
from scalable_bandits.spaces.finite import MOST_ENUMERATED, counted

FEW_ALLOWED = 20_000  # number of candidates of a mask up to which each of them is looked at
SAME = 1e-9  # distance below which points are the same, as a share of each side
SCATTERED = 512  # number of random points of which the most uncertain is taken
BLOCK = 2048  # number of candidates at which an index is computed together
EFFORTS = {"usual": SIZES, "learned": LEARNED_SIZES, "hurried": LONG_SIZES}
SETTINGS = {"usual": 2048, "learned": 2048, "hurried": 512}  # numbers of random settings


class BoxSearch(Candidates):
    """Search of a whole box, of all settings of a space of named parameters, or of a grid that is not enumerated.

    Parameters
    ----------
    sketch
        Settings of a sketched engine of queried points; None for an exact one.
    """

    def __init__(self, sketch: Sketch | None = None):
        self._sketch = sketch

    def engine(self, model: Model) -> QueriedEngine:
        bounds, constant = bounds_of(model), model.constant_mean
        mean = differenced(model.prior_mean, bounds) if constant is None else constant_mean(constant)
        engine: QueriedEngine
        if self._sketch is not None:
            engine = QueriedSketch(model.kernel, len(bounds), mean, *self._sketch)
        elif model.kernel.feature_count(len(bounds)):
            engine = WeightsBoxEngine(model.kernel, len(bounds), mean)
        else:
            engine = BoxEngine(model.kernel, len(bounds), mean, appends=model.appends)
        engine.points = self._points(model)
        return engine

    def _points(self, model: Model) -> Floats:
        """Return the coordinates (n, d) of the numbered points."""
        return model.domain.coordinates()

    def extended(self, engine: Engine, model: Model) -> Engine:
        added = model.domain.points(np.arange(len(engine.points), model.domain.size))
        model.prior.mean(added[~np.isnan(added[:, 0])])  # a function of the user's may raise at new points
        engine.points = model.domain.coordinates()
        return engine

    def describe(self, domain: Domain) -> str:
        among = "in the whole box" if domain.count is None else f"among {counted(domain.count)} candidates"
        return f"searched for {among}"

    def argmax(self, model: Model, index: Acquisition, query: Query) -> tuple[Any, float]:
        """Return the point (d,) of largest index; given a mask, the candidate."""
        if query.allowed is not None:
            return super().argmax(model, index, query)
        with one_thread:
            surface, near = _surface(model, query), _near(model, query)
            settled = model.settled(query.pending) if query.measured else NO_POINTS
            effort = EFFORTS[model.effort]
            top = self._top(
                model, surface, cast(SmoothIndex, index), near, query.key, effort, settled, fixed=query.fixed
            )
        return top.x, top.value

    @one_thread
    def top_of_path(
        self, model: Model, path: SearchSurface, near: Indices, key: tuple[int, int], allowed: Mask | None = None,
        fixed: Floats | None = None,
    ) -> Top:  # fmt: skip
        """Return the maximum of a sample path, searched also near the points with numbers `near` (k,).

        Of a grid with numbered candidates, `allowed` is a mask (n,) of those to choose from; where points have no
        numbers, `fixed` are the coordinates (d,) of a context.
        """
        return self._top(model, path, MEAN, near, key, PATH_SIZES, allowed=allowed, fixed=fixed)

    def _top(
        self, model: Model, surface: SearchSurface, index: SmoothIndex, near: Indices, key: tuple[int, int],
        sizes: Sizes, settled: Indices = NO_POINTS, allowed: Mask | None = None, fixed: Floats | None = None,
    ) -> Top:  # fmt: skip
        domain, space, scan = model.domain, model.domain.space, SETTINGS[model.effort]
        points = space.within(domain.points(near), fixed)
        if space.lattice is not None:
            without = domain.points(settled)
            effort = EFFORT if index is MEAN else None  # a path is cheaper, and has more local maxima, than an index
            return top_of_grid(surface, index, cast(Grid, space), points, key, scan, allowed, without, effort, fixed)
        if isinstance(space, SearchSpace) and not space.smooth:
            return top_of_settings(surface, index, space, points, key, scan, domain.points(settled), fixed)
        seed, bounds = derived_seed(key[0], "box", key[1]), bounds_of(model)
        top = None if fixed is not None else top_of_weights(surface, index, bounds, seed)
        if top is None:
            points = space.encode(points)
            likely = points[promising(surface, index, points, sizes.likely)]
            if fixed is None:
                top = maximize_over_box(surface, index, bounds, seed, likely, sizes)
            else:
                top = maximize_over_slice(surface, index, bounds, seed, likely, sizes, _coordinates_of(space, fixed))
        known = space.encode(domain.points(settled))
        if (np.abs(known - top.x) <= SAME * np.ptp(bounds, axis=1)).all(axis=1).any():
            return _most_uncertain(surface, index, space, key, fixed)
        return top._replace(x=space.decode(top.x[None])[0]) if isinstance(space, SearchSpace) else top


class GridSearch(BoxSearch):
    """Search of a grid with numbered candidates, which are not enumerated.

    The index of few candidates, those of a mask, is computed at each.
    """

    def _points(self, model: Model) -> Floats:
        return cast(Floats, GridPoints(model.domain))

    @one_thread
    def argmax(self, model: Model, index: Acquisition, query: Query) -> tuple[int, float]:
        """Return the candidate of largest index, and that index."""
        surface, domain, allowed = _surface(model, query), model.domain, query.allowed
        if allowed is None or np.count_nonzero(allowed) > FEW_ALLOWED:
            near, smooth = _near(model, query), cast(SmoothIndex, index)
            top = self._top(model, surface, smooth, near, query.key, EFFORTS[model.effort], allowed=allowed)
            return int(domain.find(top.x[None])[0]), top.value
        numbers = np.flatnonzero(allowed)
        blocks = [numbers[start : start + BLOCK] for start in range(0, len(numbers), BLOCK)]
        values = [index(*surface.predict(domain.coordinates(block))) for block in blocks]
        position, largest = choose(np.concatenate(values), query.salt, None, numbers)
        return int(numbers[position]), largest

    def draw(self, model: Model, pending: Sequence[int], key: tuple[int, int]) -> Draws:
        points, counts = distinct(pending)
        engine, x = model.engine, model.domain.coordinates(points)
        assert isinstance(engine, QueriedEngine)
        among = engine.covariance(x, x)  # the changes of the means elsewhere follow from the values (`surface_of`)
        return drawn(engine, pending, among, among + np.diag(model.regularization / counts), key)


def _most_uncertain(
    surface: SearchSurface, index: SmoothIndex, space: Space, key: tuple[int, int], fixed: Floats | None
) -> Top:  # fmt: skip
    """Return the one of some random points that the model knows least of, and its index.

    It is measured where the model expects to gain most at a point that is known, as in a corner that is best: another
    measurement there would tell nothing, and one next to it hardly more.
    """
    points = space.draw(SCATTERED, generator(key[0], "uncertain", key[1]), fixed)
    x = space.encode(points)
    mean, variance = surface.predict(x)
    best = int(np.argmax(np.atleast_2d(variance).sum(axis=0)))
    return Top(points[best], float(index(mean, variance)[best]), SCATTERED)


def _coordinates_of(space: Space, fixed: Floats) -> Floats:
    """Return the coordinates (D,) of a context (d,) of a space whose coordinates are all continuous, NaN where free."""
    free, middle = np.isnan(fixed), space.spread(np.full((1, len(fixed)), 0.5))
    found = space.encode(space.within(middle, fixed))[0]
    if isinstance(space, SearchSpace):
        free = free[space.coordinates.parameters]
    return np.where(free, np.nan, found)


def bounds_of(model: Model) -> Floats:
    """Return the bounds (D, 2) of the coordinates that a model sees."""
    bounds = model.domain.space.cube
    assert bounds is not None
    return bounds


def _near(model: Model, query: Query) -> Indices:
    """Return the numbers (k,) of the points around the best of which a search has more points."""
    near = model.likely()
    if query.near:
        near = np.union1d(near, np.array(query.near, dtype=np.int64))
    # A drawn value may be the best of all, and the maximum near it.
    return near if query.draws is None else np.concatenate([near, query.draws.points])


def _surface(model: Model, query: Query) -> SearchSurface:
    """Return the posterior that an index is computed from, of all outputs that it has."""
    own = surface_of(model, query)
    among = query._replace(draws=None)  # values are drawn of the model's own output
    return JointSurface([own, *(surface_of(each, among) for each in query.beside)]) if query.beside else own


def surface_of(model: Model, query: Query) -> SearchSurface:
    """Return the posterior given pending points, of which the first have drawn values, if any have."""
    engine, noise, draws = model.engine, model.regularization, query.draws
    assert isinstance(engine, QueriedEngine)
    if draws is None:
        return engine.surface(model.domain.coordinates(list(query.pending)), noise)
    others = list(query.pending)[int(draws.counts.sum()) :]
    points = model.domain.coordinates([*draws.points.tolist(), *others])
    return engine.surface(points, np.append(noise / draws.counts, np.full(len(others), noise)), draws.values)


def search_of(domain: Domain, enumerated: int = MOST_ENUMERATED, sketch: Sketch | None = None) -> Candidates:
    """Return the search of a domain.

    Parameters
    ----------
    domain
        Numbered points of the space.
    enumerated
        Number of candidates of a grid beyond which it is searched.
    sketch
        Settings of a sketched engine; None for an exact one.
    """
    if domain.by_visit:
        return BoxSearch(sketch)
    if domain.finite.lattice and domain.size > enumerated:
        return GridSearch(sketch)
    return CANDIDATES
