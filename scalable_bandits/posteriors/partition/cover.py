"""Covers of a space by closed cubes: the candidates in a cube, and the cubes that a candidate is in.

The space is mapped to [0, 1]^d and divided into equal cubes, `divisions` along each side. The place of a cube is d
integers from 0 to divisions - 1. A candidate on a shared face is in every cube that has this face.
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Box, FiniteSpace, Grid, Indices

Place = tuple[int, ...]
PointsAt = Callable[[Indices | None], Floats]


class Cover(ABC):
    """Cubes over a space.

    Parameters
    ----------
    space
        Space that is covered.
    low, high
        (d,) bounds of the cubes.
    """

    def __init__(self, space: FiniteSpace | Box, low: Floats, high: Floats):
        self.space, self.dimension = space, len(low)
        self._low, self._high = low, high

    @abstractmethod
    def filled(self, divisions: int) -> NDArray[np.bool_]:
        """Return a mask (divisions,) * d of the cubes that hold a candidate."""

    def is_filled(self, divisions: int, place: Place) -> bool:
        """Return whether a cube holds a candidate."""
        return True

    @abstractmethod
    def places(self, divisions: int, candidate: int) -> list[Place]:
        """Return the places of the cubes that hold a candidate, in lexical order."""

    def holds(self, divisions: int, place: Place, candidates: Indices) -> NDArray[np.bool_]:
        """Return a mask (k,) of the candidates (k,) that a filled cube holds."""
        return np.array([place in self.places(divisions, candidate) for candidate in candidates.tolist()], dtype=bool)

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
        first = np.where(on_face, nearest - 1, np.floor(unit)).clip(0, divisions - 1).astype(int)
        last = np.where(on_face, nearest, np.floor(unit)).clip(0, divisions - 1).astype(int)
        return _from_to(first, last)


class FiniteCover(Cover):
    """Cubes over a finite space."""

    space: FiniteSpace

    def is_filled(self, divisions: int, place: Place) -> bool:
        return len(self.members(divisions, place)) > 0

    def holds(self, divisions: int, place: Place, candidates: Indices) -> NDArray[np.bool_]:
        members = self.members(divisions, place)
        return np.asarray(members[members.searchsorted(candidates).clip(max=len(members) - 1)] == candidates)

    @abstractmethod
    def members(self, divisions: int, place: Place) -> Indices:
        """Return the numbers (k,) of the candidates in a closed cube, ascending."""


class GridCover(FiniteCover):
    """Cubes over a grid, by integer arithmetic alone: point i of n along a side is at exactly i / (n - 1)."""

    def __init__(self, space: Grid):
        super().__init__(space, *np.array(space.bounds).T)
        self._sides = space.sides
        self._last = [max(side - 1, 1) for side in self._sides]  # a single point is at the lower end
        self._strides: list[int] = np.cumprod([1, *self._sides[:0:-1]])[::-1].tolist()

    def _span(self, divisions: int, j: int, k: int) -> tuple[int, int]:
        """Return the first and the last point in cube k along dimension j."""
        last = self._last[j]
        return -(-k * last // divisions), min((k + 1) * last // divisions, self._sides[j] - 1)

    def members(self, divisions: int, place: Place) -> Indices:
        numbers = np.zeros(1, dtype=np.int64)
        for j, k in enumerate(place):
            first, last = self._span(divisions, j, k)
            numbers = np.add.outer(numbers, np.arange(first, last + 1) * self._strides[j]).ravel()
        return numbers

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        sides = []
        for j in range(self.dimension):
            spans = (self._span(divisions, j, k) for k in range(divisions))
            sides.append(np.array([first <= last for first, last in spans]))
        return np.asarray(functools.reduce(np.logical_and.outer, sides))

    def places(self, divisions: int, candidate: int) -> list[Place]:
        cubes = []  # along each dimension, those that hold the candidate: two, if it is on a face between cubes
        for stride, side, last in zip(self._strides, self._sides, self._last, strict=True):
            k, rest = divmod(candidate // stride % side * divisions, last)
            cubes.append(range(k if rest else max(k - 1, 0), min(k, divisions - 1) + 1))
        return list(itertools.product(*cubes))


class PointsCover(FiniteCover):
    """Cubes over explicit candidates, in their bounding box."""

    def __init__(self, space: FiniteSpace):
        points = space.points()
        super().__init__(space, points.min(axis=0), points.max(axis=0))
        self._unit = (points - self._low) / np.where(self._high > self._low, self._high - self._low, 1.0)
        self._members: dict[int, dict[Place, Indices]] = {}  # candidates in each cube, by divisions and place

    def _cubes(self, divisions: int) -> dict[Place, Indices]:
        """Return the numbers (k,) of the candidates in each cube that holds any, ascending."""
        if divisions not in self._members:
            lowest, highest = _between(divisions, self._unit, self._unit, lambda corner: corner / divisions)
            numbers, places = [], []
            for offset in itertools.product((0, 1), repeat=self.dimension):
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

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        filled = np.zeros((divisions,) * self.dimension, dtype=np.bool_)
        for place in self._cubes(divisions):
            filled[place] = True
        return filled

    def places(self, divisions: int, candidate: int) -> list[Place]:
        unit = self._unit[candidate]
        return _from_to(*_between(divisions, unit, unit, lambda corner: corner / divisions))


class BoxCover(Cover):
    """Cubes over a box.

    Parameters
    ----------
    box
        Space that is covered.
    points
        Function from the numbers (k,) of visited points to the points (k, d); from None to all of them.
    """

    def __init__(self, box: Box, points: PointsAt):
        super().__init__(box, *np.array(box.bounds).T)
        self.points = points

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        return np.ones((divisions,) * self.dimension, dtype=np.bool_)

    def places(self, divisions: int, candidate: int) -> list[Place]:
        point = self.points(np.array([candidate]))[0]
        unit = (point - self._low) / (self._high - self._low)
        # The same edges as those between which a cube is maximised, so that an observed corner is in its own cube.
        return _from_to(*_between(divisions, unit, point, functools.partial(self._edges, divisions)))


def _from_to(lowest: Indices, highest: Indices) -> list[Place]:
    """Return the places of the cubes between a lowest and a highest place along each dimension, both included."""
    return list(itertools.product(*(range(a, b + 1) for a, b in zip(lowest.tolist(), highest.tolist(), strict=True))))


def _between(
    divisions: int, unit: Floats, points: Floats, edges: Callable[[Indices], Floats]
) -> tuple[Indices, Indices]:
    """Return the lowest and the highest cube along each dimension that hold points; they differ on a face.

    `unit` are the points' coordinates in [0, 1]^d, up to rounding; `edges` returns the lower ends of cubes by place.
    """
    highest = np.clip((unit * divisions).astype(np.int64), 0, divisions - 1)
    highest -= points < edges(highest)
    highest += (highest + 1 < divisions) & (points >= edges(highest + 1))
    return highest - ((highest > 0) & (points == edges(highest))), highest


def make_cover(space: FiniteSpace | Box, points: PointsAt) -> Cover:
    """Make the cover of a space; for `points` see `BoxCover`, other covers do not call it."""
    if isinstance(space, Box):
        return BoxCover(space, points)
    return GridCover(space) if isinstance(space, Grid) else PointsCover(space)
