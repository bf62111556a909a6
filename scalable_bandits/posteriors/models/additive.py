"""Search for the largest sum of functions of groups of dimensions: group by group.

On a grid each group's function is compared at all points of the group, which is exact also on a grid of 30^100
candidates; messages pass between groups that overlap. A mask of candidates, and a list of points, are honoured by the
sum at each of these. On a box each group is searched as a box is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors.additive.ascent import Ascent
from scalable_bandits.posteriors.additive.engine import AdditiveEngine
from scalable_bandits.posteriors.additive.tree import highest
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.lattice import GridPoints
from scalable_bandits.posteriors.box.maximization import Sizes, maximize_over_box, promising
from scalable_bandits.posteriors.box.surface import Surface, constant_mean
from scalable_bandits.posteriors.engine import Acquisition, Engine, choose
from scalable_bandits.posteriors.models.model import Candidates, Model, Query
from scalable_bandits.posteriors.models.search import bounds_of, search_of, surface_of
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Domain, FiniteSpace, Grid, Indices, Points

MOST_TABLED = 50_000  # largest number of points of a group
SIZES = Sizes(scan=256, starts=4, likely=2)  # of the search of a group on a box, which has few dimensions


def group_space(domain: Domain, dimensions: tuple[int, ...]) -> FiniteSpace:
    """Return the points of a group of dimensions: a grid's own, or the distinct ones of a list of points.

    Raises
    ------
    ValueError
        If they are too many to be compared.
    """
    space = domain.space
    if space.lattice is None or not isinstance(space, Grid):
        return Points(np.unique(domain.points()[:, dimensions], axis=0))
    own = Grid([space.bounds[k] for k in dimensions], [space.sides[k] for k in dimensions])
    if own.size > MOST_TABLED:
        allowed = f"groups of at most {MOST_TABLED:,} points, all of which are compared"
        checks.refuse("groups", f"{list(dimensions)} of {own.size:,} points", allowed)
    return own


class AdditiveSearch(Candidates):
    """Search of a sum over groups; the maximum of an index of the sum as a whole is searched for as usual.

    Parameters
    ----------
    domain
        Numbered points of the space.
    """

    def __init__(self, domain: Domain):
        self._usual = search_of(domain, 0)
        self._numbered = not domain.by_visit

    def engine(self, model: Model) -> AdditiveEngine:
        domain, constant = model.domain, model.constant_mean
        assert constant is not None
        box = domain.by_visit and domain.space.lattice is None
        space_of = None if box else functools.partial(group_space, domain)
        engine = AdditiveEngine(model.kernel, domain.space.dimension, constant_mean(constant), space_of)
        on_demand = self._numbered and domain.space.lattice is not None
        engine.points = cast(Floats, GridPoints(domain)) if on_demand else domain.coordinates()
        return engine

    def extended(self, engine: Engine, model: Model) -> Engine | None:
        return None if self._numbered else self._usual.extended(engine, model)  # a list's groups have more points then

    def argmax(self, model: Model, index: Acquisition, query: Query) -> tuple[Any, float]:
        return self._usual.argmax(model, index, query)

    # ---- sums

    @one_thread
    def highest_bounds(self, model: Model, widths: Sequence[float], query: Query) -> int | Floats:
        """Return the candidate, or the point (d,) of a whole box, of the largest sum of the groups' confidence bounds.

        Parameters
        ----------
        model
            Model whose search this is.
        widths
            Width of each group's upper bound, in standard deviations.
        query
            Mask, pending points and seeds.
        """
        engine = _engine(model)
        if not engine.tables:
            summands = engine.surfaces(cast(Surface, surface_of(model, query)))
            return self._of_bounds_on_box(model, summands, widths, query)
        _, moments = _moments(model, query)
        bounds = [UpperConfidence(width)(*each) for width, each in zip(widths, moments, strict=True)]
        return self.highest_sum(model, bounds, query)

    def _of_bounds_on_box(
        self, model: Model, surfaces: Sequence[Surface], widths: Sequence[float], query: Query
    ) -> Floats:
        box, seen = bounds_of(model), model.domain.points(model.likely())
        found = np.empty(len(box))
        for i, (surface, group, width) in enumerate(zip(surfaces, _engine(model).groups, widths, strict=True)):
            index, own = UpperConfidence(width), list(group.dimensions)
            near = np.unique(seen[:, own], axis=0)
            near = near[promising(surface, index, near, SIZES.likely)]
            seed = derived_seed(query.key[0], f"group {i}", query.key[1])
            found[own] = maximize_over_box(surface, index, box[own], seed, near, SIZES).x
        return found

    @one_thread
    def highest_bound(self, model: Model, width: float, query: Query) -> int | Floats:
        """Return the candidate, or the point (d,) of a whole box, of the largest confidence bound of the sum found.

        A list, and the candidates of a mask, are searched as usual. A grid is climbed group by group from two points,
        those of the largest sum of the groups' bounds and of their means; a box along gradients, also from these.

        Parameters
        ----------
        model
            Model whose search this is.
        width
            Width of the sum's upper bound, in standard deviations.
        query
            Mask, pending points and seeds.
        """
        engine, space = _engine(model), model.domain.space
        if query.allowed is not None or (engine.tables and space.lattice is None):
            return cast("int | Floats", self.argmax(model, UpperConfidence(width), query)[0])
        groups = len(engine.groups)
        if not engine.tables:
            surface = cast(Surface, surface_of(model, query))
            summands, box = engine.surfaces(surface), bounds_of(model)
            near = np.array([self._of_bounds_on_box(model, summands, [w] * groups, query) for w in (width, 0.0)])
            seed = derived_seed(query.key[0], "box", query.key[1])
            return maximize_over_box(surface, UpperConfidence(width), box, seed, near, SIZES).x
        pending, moments = _moments(model, query)
        values = ([UpperConfidence(w)(*each) for each in moments] for w in (width, 0.0))
        starts = [_by_groups(engine, cast(Grid, space), each, query.salt) for each in values]
        ascent = Ascent(engine, width, pending, model.regularization)
        return self._chosen(model, max(map(ascent.climb, starts), key=lambda end: end[1])[0])

    def highest_sum(self, model: Model, values: Sequence[Floats], query: Query) -> int | Floats:
        """Return the candidate, or the point (d,) of a whole grid, of the largest sum of the groups' values.

        Parameters
        ----------
        model
            Model whose search this is.
        values
            Function (n,) of each group at its points.
        query
            Mask, and the seed that breaks ties.
        """
        engine, domain = _engine(model), model.domain
        if query.allowed is not None or domain.space.lattice is None:
            numbers = np.arange(domain.size) if query.allowed is None else np.flatnonzero(query.allowed)
            return int(numbers[choose(_sums(engine, values, domain.points(numbers)), query.salt, None, numbers)[0]])
        return self._chosen(model, _by_groups(engine, cast(Grid, domain.space), values, query.salt))

    def _chosen(self, model: Model, x: Floats) -> int | Floats:
        """Return the number of a point (d,) of a numbered grid; of a grid without numbers the point."""
        return int(model.domain.find(x[None])[0]) if self._numbered else x


def _engine(model: Model) -> AdditiveEngine:
    engine = model.engine
    assert isinstance(engine, AdditiveEngine)
    return engine


def _moments(model: Model, query: Query) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Return the pending points (q, d), and mean and variance (n,) of every group at its points given these."""
    pending = model.domain.coordinates(list(query.pending))
    return pending, _engine(model).moments(pending, np.full(len(pending), model.regularization))


def _by_groups(engine: AdditiveEngine, grid: Grid, values: Sequence[Floats], salt: int) -> Floats:
    """Return the point (d,) of a grid at which the sum of the groups' values (n,) is largest."""
    groups = tuple(group.dimensions for group in engine.groups)
    return grid.at(highest(groups, values, dict(enumerate(grid.sides)), salt)[None])[0]


def _sums(engine: AdditiveEngine, values: Sequence[Floats], points: Floats) -> Floats:
    """Return the sums over groups of values (n,) of each at points (k, d)."""
    total = np.zeros(len(points))
    for table in engine.tables:
        numbers: Indices = table.find(points)
        for group, at in zip(table.members, numbers, strict=True):
            total += values[group][at]
    return total
