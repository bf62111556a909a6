"""Covers of a space by cubes: the candidates in a cube, and the cubes that a candidate is in.

The space is mapped to [0, 1]^d and divided into equal cubes, `divisions` along each side. The place of a cube is d
integers from 0 to divisions - 1. In up to `FEW_DIMENSIONS` dimensions cubes are closed: a candidate on a shared face is
in every cube that has this face. In more dimensions such a candidate could be in 2^d cubes, and is in the last of them
alone: cubes contain their lower faces, and the upper ones only where the space ends.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Box, FiniteSpace, Grid, Indices

Place = tuple[int, ...]
PointsAt = Callable[[Indices | None], Floats]

FEW_DIMENSIONS = 6  # number of dimensions up to which cubes are closed, and all empty ones of a split are looked at


class Cubes:
    """Places of cubes of one size: all combinations of numbers along each dimension, in lexical order.

    Parameters
    ----------
    along
        Numbers along each dimension, ascending.

    Attributes
    ----------
    count : int
        Number of cubes, which may exceed what `len` can return.
    """

    def __init__(self, along: Sequence[Sequence[int]]):
        self._along = along
        self.count = math.prod(map(len, along))

    def place(self, number: int) -> Place:
        """Return the place of a cube by its number in lexical order."""
        place = []
        for numbers in reversed(self._along):
            number, k = divmod(number, len(numbers))
            place.append(numbers[k])
        return tuple(reversed(place))

    def places(self) -> list[Place]:
        """Return all places."""
        return list(itertools.product(*self._along))


class ListedCubes(Cubes):
    """Places of cubes of one size, in a list.

    Parameters
    ----------
    places
        Places, in lexical order.
    """

    def __init__(self, places: list[Place]):
        self._places, self.count = places, len(places)

    def place(self, number: int) -> Place:
        return self._places[number]

    def places(self) -> list[Place]:
        return self._places


class Cover(ABC):
    """Cubes over a space.

    Parameters
    ----------
    space
        Space that is covered.
    low, high
        (d,) bounds of the cubes.

    Attributes
    ----------
    closed : bool
        Whether cubes are closed.
    lists_cubes : bool
        Whether there are few enough cubes of one size in a larger one to look at all of them.
    visited : bool
        Whether candidates are numbers of visited points; then `points` returns these.
    """

    visited = False
    points: PointsAt

    def __init__(self, space: FiniteSpace | Box, low: Floats, high: Floats):
        self.space, self.dimension = space, len(low)
        self._low, self._high = low, high
        self.closed = self.lists_cubes = self.dimension <= FEW_DIMENSIONS

    @abstractmethod
    def filled(self, divisions: int, within: Place | None = None) -> Cubes:
        """Return the cubes that hold a candidate: all, or those within a cube of twice the side, given by its place."""

    @abstractmethod
    def places(self, divisions: int, candidate: int) -> list[Place]:
        """Return the places of the cubes that hold a candidate, in lexical order."""

    def places_of(self, divisions: int, candidates: Indices) -> list[list[Place]]:
        """Return what `places` returns of candidates (k,)."""
        return [self.places(divisions, candidate) for candidate in candidates.tolist()]

    def holds(self, divisions: int, place: Place, candidates: Indices) -> NDArray[np.bool_]:
        """Return a mask (k,) of the candidates (k,) that a filled cube holds."""
        return np.array([place in places for places in self.places_of(divisions, candidates)], dtype=bool)

    def bounds(self, divisions: int, place: Place) -> tuple[Floats, Floats]:
        """Return the lower and upper corner of a cube, two (d,) arrays, in the space's coordinates."""
        corner = np.array(place, dtype=np.int64)
        return self._edges(divisions, corner), self._edges(divisions, corner + 1)

    def _edges(self, divisions: int, corner: Indices) -> Floats:
        """Return the coordinates (d,) of a corner by its place; the last edge is exactly the box's."""
        low, high = self._low, self._high
        return np.where(corner == divisions, high, low + (high - low) * corner / divisions)

    def places_at(self, divisions: int, point: Floats) -> list[Place]:
        """Return the places of the cubes that hold a point (d,) of the box, a candidate or not."""
        low, high = self._low, self._high
        unit = np.clip((point - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0) * divisions
        nearest = np.rint(unit)
        on_face = np.abs(unit - nearest) < 1e-9
        last = np.where(on_face, nearest, np.floor(unit)).clip(0, divisions - 1).astype(int)
        first = np.where(on_face & self.closed, nearest - 1, last).clip(0, divisions - 1).astype(int)
        return _from_to(first, last)


class FiniteCover(Cover):
    """Cubes over a finite space."""

    space: FiniteSpace

    @abstractmethod
    def members(self, divisions: int, place: Place) -> Indices:
        """Return the numbers (k,) of the candidates in a cube, ascending."""


class GridCover(FiniteCover):
    """Cubes over a grid, by integer arithmetic alone: point i of n along a side is at exactly i / (n - 1)."""

    space: Grid

    def __init__(self, space: Grid):
        super().__init__(space, *np.array(space.bounds).T)
        self._sides = space.sides
        self._last = [max(side - 1, 1) for side in self._sides]  # a single point is at the lower end
        self._strides = [math.prod(self._sides[j + 1 :]) for j in range(self.dimension)]

    def span(self, divisions: int, j: int, k: int) -> tuple[int, int]:
        """Return the first and the last point in cube k along dimension j; the first is larger if there is none."""
        last, side = self._last[j], self._sides[j]
        first = -(-k * last // divisions)
        if self.closed or k + 1 == divisions:
            return first, min((k + 1) * last // divisions, side - 1)
        return first, min(-(-(k + 1) * last // divisions), side) - 1

    def ends(self, divisions: int, place: Place) -> tuple[Indices, Indices]:
        """Return the first and the last point in a filled cube along each dimension, two (d,) arrays."""
        first, last = np.array([self.span(divisions, j, k) for j, k in enumerate(place)]).T
        return first, last

    def members(self, divisions: int, place: Place) -> Indices:
        numbers = np.zeros(1, dtype=np.int64)
        for j, k in enumerate(place):
            first, last = self.span(divisions, j, k)
            numbers = np.add.outer(numbers, np.arange(first, last + 1) * self._strides[j]).ravel()
        return numbers

    def filled(self, divisions: int, within: Place | None = None) -> Cubes:
        along = _halves(divisions, self.dimension, within)
        spans = [[(k, *self.span(divisions, j, k)) for k in numbers] for j, numbers in enumerate(along)]
        return Cubes([[k for k, first, last in each if first <= last] for each in spans])

    def places(self, divisions: int, candidate: int) -> list[Place]:
        steps = (candidate // stride % side for stride, side in zip(self._strides, self._sides, strict=True))
        return self._places(divisions, steps)

    def _places(self, divisions: int, steps: Iterable[int]) -> list[Place]:
        """Return the places of the cubes that hold a candidate, given by its number of steps along each side."""
        cubes = []  # along each dimension, those that hold the candidate: two, if it is on a face between closed cubes
        for i, last in zip(steps, self._last, strict=True):
            k, rest = divmod(i * divisions, last)
            end = min(k, divisions - 1)
            cubes.append(range(end if rest or not self.closed else max(k - 1, 0), end + 1))
        return list(itertools.product(*cubes))


class PointsCover(FiniteCover):
    """Cubes over explicit candidates, in their bounding box."""

    def __init__(self, space: FiniteSpace):
        points = space.points()
        super().__init__(space, points.min(axis=0), points.max(axis=0))
        self.lists_cubes = True  # there are not more of them than points, but for those on faces
        self._unit = (points - self._low) / np.where(self._high > self._low, self._high - self._low, 1.0)
        self._members: dict[int, dict[Place, Indices]] = {}  # candidates in each cube, by divisions and place
        self._filled: dict[tuple[int, Place | None], ListedCubes] = {}

    def _between(self, divisions: int, unit: Floats) -> tuple[Indices, Indices]:
        return _between(divisions, unit, unit, lambda corner: corner / divisions, self.closed)

    def _cubes(self, divisions: int) -> dict[Place, Indices]:
        """Return the numbers (k,) of the candidates in each cube that holds any, ascending."""
        if divisions not in self._members:
            lowest, highest = self._between(divisions, self._unit)
            numbers, places = [], []
            for offset in itertools.product((0, 1) if self.closed else (0,), repeat=self.dimension):
                here = (lowest + offset <= highest).all(axis=1)
                numbers.append(np.flatnonzero(here))
                places.append((lowest + offset)[here])
            every, number = np.concatenate(places), np.concatenate(numbers)
            by_place = np.lexsort((number, *every.T[::-1]))
            every, number = every[by_place], number[by_place]
            starts = np.flatnonzero(np.r_[True, (np.diff(every, axis=0) != 0).any(axis=1)])
            groups = np.split(number, starts[1:])
            self._members[divisions] = {tuple(every[s].tolist()): g for s, g in zip(starts, groups, strict=True)}
        return self._members[divisions]

    def members(self, divisions: int, place: Place) -> Indices:
        return self._cubes(divisions).get(place, np.empty(0, dtype=np.int64))

    def filled(self, divisions: int, within: Place | None = None) -> Cubes:
        if (divisions, within) not in self._filled:
            self._filled[divisions, within] = self._listed(divisions, within)
        return self._filled[divisions, within]

    def _listed(self, divisions: int, within: Place | None) -> ListedCubes:
        if within is None:
            return ListedCubes(list(self._cubes(divisions)))
        if self.closed:
            cubes = self._cubes(divisions)
            halves = itertools.product(*_halves(divisions, self.dimension, within))
            return ListedCubes([place for place in halves if place in cubes])
        lowest, _ = self._between(divisions, self._unit[self.members(divisions // 2, within)])
        return ListedCubes(list(map(tuple, np.unique(lowest, axis=0).tolist())))

    def places(self, divisions: int, candidate: int) -> list[Place]:
        return _from_to(*self._between(divisions, self._unit[candidate]))


class BoxCover(Cover):
    """Cubes over a box.

    Parameters
    ----------
    box
        Space that is covered.
    points
        Function from the numbers (k,) of visited points to the points (k, d); from None to all of them.
    """

    visited = True

    def __init__(self, box: Box, points: PointsAt):
        super().__init__(box, *np.array(box.bounds).T)
        self.points = points

    def filled(self, divisions: int, within: Place | None = None) -> Cubes:
        return Cubes(_halves(divisions, self.dimension, within))

    def places(self, divisions: int, candidate: int) -> list[Place]:
        return self.places_of(divisions, np.array([candidate]))[0]

    def places_of(self, divisions: int, candidates: Indices) -> list[list[Place]]:
        points = self.points(candidates)
        unit = (points - self._low) / (self._high - self._low)
        # The same edges as those between which a cube is maximised, so that an observed corner is in its own cube.
        edges = functools.partial(self._edges, divisions)
        lowest, highest = _between(divisions, unit, points, edges, self.closed)
        return [_from_to(first, last) for first, last in zip(lowest, highest, strict=True)]

    def searched(self, divisions: int, place: Place) -> Floats:
        """Return the bounds (d, 2) of the points that a cube contains, in the space's coordinates."""
        low, high = self.bounds(divisions, place)
        if not self.closed:
            inner = np.array(place) + 1 < divisions
            high = np.where(inner, np.nextafter(high, low), high)
        return np.stack([low, high], axis=-1)


class VisitedGridCover(GridCover):
    """Cubes over a grid of which only visited points have numbers.

    Parameters
    ----------
    space
        Space that is covered.
    points
        Function from the numbers (k,) of visited points to the points (k, d); from None to all of them.
    """

    visited = True

    def __init__(self, space: Grid, points: PointsAt):
        super().__init__(space)
        self.points = points

    def places(self, divisions: int, candidate: int) -> list[Place]:
        return self.places_of(divisions, np.array([candidate]))[0]

    def places_of(self, divisions: int, candidates: Indices) -> list[list[Place]]:
        steps = self.space.steps(self.points(candidates))
        if self.closed:
            return [self._places(divisions, each) for each in steps.tolist()]
        return [[tuple(place)] for place in np.minimum(steps * divisions // self._last, divisions - 1).tolist()]


def _halves(divisions: int, dimension: int, within: Place | None) -> list[range]:
    """Return the numbers of cubes along each dimension: all, or those within a cube of twice the side."""
    if within is None:
        return [range(divisions)] * dimension
    return [range(2 * k, 2 * k + 2) for k in within]


def _from_to(lowest: Indices, highest: Indices) -> list[Place]:
    """Return the places of the cubes between a lowest and a highest place along each dimension, both included."""
    return list(itertools.product(*(range(a, b + 1) for a, b in zip(lowest.tolist(), highest.tolist(), strict=True))))


def _between(
    divisions: int, unit: Floats, points: Floats, edges: Callable[[Indices], Floats], closed: bool
) -> tuple[Indices, Indices]:
    """Return the lowest and the highest cube along each dimension that hold points; they differ on a face.

    `unit` are the points' coordinates in [0, 1]^d, up to rounding; `edges` returns the lower ends of cubes by place.
    """
    highest = np.clip((unit * divisions).astype(np.int64), 0, divisions - 1)
    highest -= points < edges(highest)
    highest += (highest + 1 < divisions) & (points >= edges(highest + 1))
    return highest - (closed & (highest > 0) & (points == edges(highest))), highest


def make_cover(space: FiniteSpace | Box, points: PointsAt | None) -> Cover:
    """Make the cover of a space; for `points`, which is None where all candidates have numbers, see `BoxCover`."""
    if isinstance(space, Box):
        assert points is not None
        return BoxCover(space, points)
    if isinstance(space, Grid):
        return GridCover(space) if points is None else VisitedGridCover(space, points)
    return PointsCover(space)
