"""First points of a policy that learns its kernel: spread over the space, before there is anything to learn from.

They go on for as long as all values are equal, such as a yield that is 0 outside a window: a model of a constant is
surest near what was measured, so that its index is largest in the corners of the space, again and again.

On a whole box or a space of named parameters they are points of a scrambled Sobol sequence (Owen 1998), without those
that `where` rules out; on a finite space the candidates nearest to such points.
"""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Domain, Grid, Mask, SearchSpace
from scalable_bandits.spaces.sobol import sobol

FIRST = 10  # number of first points, unless all their values are equal
DRAWN = 128  # number of Sobol points among which those of a space of named parameters are


def first_point(
    domain: Domain, position: int, free: Mask, seed: int, context: Floats | None = None, ignorant: bool = False
) -> int | Floats | None:  # fmt: skip
    """Return a first point: a candidate's number, or a point (d,) of a whole box; None if there are no more.

    Parameters
    ----------
    domain
        Numbered points of the space.
    position
        Number of points asked for or told so far.
    free
        Mask (size,) of the numbered points to choose from: those that are neither pending nor observed, and did not
        fail. On a whole box points without a number may be chosen too.
    seed
        Seed of the sequence.
    context
        Coordinates (d,) that are fixed on a whole box, NaN where one is free; None if all are.
    ignorant
        Whether there are more of them than usual, because nothing tells one point from another yet.
    """
    if position >= FIRST and not ignorant:
        return None
    count = max(FIRST, position + 1)
    if domain.by_visit:
        points, played = _first_points(domain, free, seed, context, count)
        return None if played.all() else points[np.argmin(played)]
    if not free.any():
        return None
    if sides := domain.finite.lattice:
        target, last = _sobol(len(sides), count, seed)[position], np.array(sides) - 1
        nearest = int(np.ravel_multi_index(tuple(np.rint(target * last).astype(np.int64)), sides))
        if free[nearest]:
            return nearest
    coordinates, numbers = domain.coordinates(), np.flatnonzero(free)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    scaled = (coordinates[numbers] - low) / np.where(high > low, high - low, 1.0)
    target = _sobol(scaled.shape[1], count, seed)[position]
    return int(numbers[np.argmin(((scaled - target) ** 2).sum(axis=1))])


def _first_points(
    domain: Domain, free: Mask, seed: int, context: Floats | None, count: int
) -> tuple[Floats, Mask]:  # fmt: skip
    """Return the first points (k, d) of a whole box in a context (d,), and which (k,) were played, in whatever context.

    Those of other contexts have other coordinates, of the same points of the sequence.
    """
    space = domain.space
    settings = space.lattice is None and isinstance(space, SearchSpace)
    if settings or space.lattice is not None:
        drawn = space.spread(_sobol(space.dimension, DRAWN * -(-count // FIRST) if settings else count, seed))
    else:
        low, high = np.array(space.box).T
        drawn = np.clip(low + _sobol(len(low), count, seed) * (high - low), low, high)
    points = space.within(drawn, context)
    if isinstance(space, SearchSpace) and settings:
        kept = np.sort(np.unique(points, axis=0, return_index=True)[1])
        kept = kept[space.first_fulfilled(points[kept], count)]
        points, drawn = points[kept], drawn[kept]
    played = np.zeros(len(drawn), dtype=np.bool_)
    for point in domain.points(np.flatnonzero(~free)):
        there = points if context is None else space.within(drawn, np.where(np.isnan(context), np.nan, point))
        played |= ((space.at(space.steps(there)) if isinstance(space, Grid) else there) == point).all(axis=1)
    return points, played


def _sobol(dimension: int, count: int, seed: int) -> Floats:
    """Return scrambled Sobol points (count, dimension) in the unit cube."""
    return sobol(dimension, count, derived_seed(seed, "first"))
