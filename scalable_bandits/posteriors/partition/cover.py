"""Closed cubes over the candidates: which candidates a cube holds, and which cubes hold a candidate.

The space is mapped to [0, 1]^d and divided into equal cubes, `divisions` along each side; a cube is named by its
place (d integers). A candidate on a shared face is in every cube that touches it.
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

HELD = 4096  # points along a side of a cube, up to which they are kept at hand


class Cover(ABC):
    """Cubes over a space."""

    dimension: int

    @abstractmethod
    def filled(self, divisions: int) -> NDArray[np.bool_]:
        """Which cubes hold a candidate, (divisions,) * d."""

    @abstractmethod
    def _touched(self, divisions: int, candidate: int) -> list[list[int]]:
        """Places along each dimension of the cubes that hold a candidate."""

    def places(self, divisions: int, candidate: int) -> list[Place]:
        """Cubes that hold a candidate, in lexical order."""
        return list(itertools.product(*self._touched(divisions, candidate)))

    def bounds(self, divisions: int, place: Place) -> tuple[Floats, Floats]:
        """Lower and upper corner of a cube, two (d,) arrays, in the space's coordinates."""
        corner = np.array(place, dtype=np.int64)
        return self._edges(divisions, corner), self._edges(divisions, corner + 1)

    def _edges(self, divisions: int, corner: Indices) -> Floats:
        """Coordinates (d,) of a corner by its place; the last edge is the box's own, whatever rounding says."""
        low, high = self._box()
        return np.where(corner == divisions, high, low + (high - low) * corner / divisions)

    def places_at(self, divisions: int, point: Floats) -> list[Place]:
        """Cubes that hold any point (d,) of the box."""
        low, high = self._box()
        unit = np.clip((point - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0) * divisions
        nearest = np.rint(unit)
        on_face = np.abs(unit - nearest) < 1e-9
        first = np.where(on_face, nearest - 1, np.floor(unit)).clip(0, divisions - 1).astype(int)
        last = np.where(on_face, nearest, np.floor(unit)).clip(0, divisions - 1).astype(int)
        return list(itertools.product(*(range(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True))))

    @abstractmethod
    def _box(self) -> tuple[Floats, Floats]:
        """Bounds of the space, two (d,) arrays."""


class FiniteCover(Cover):
    """Cubes over a finite space."""

    @abstractmethod
    def members(self, divisions: int, place: Place) -> Indices:
        """Numbers of the candidates in a closed cube, ascending."""


class GridCover(FiniteCover):
    """Cubes over a grid, by whole numbers alone: point i of n along a side stands at i / (n - 1), exactly."""

    def __init__(self, space: Grid):
        self.space = space
        self.dimension = space.dimension
        self._last = [max(side - 1, 1) for side in space.sides]  # of a single point: at the lower end
        self._strides: list[int] = np.cumprod([1, *space.sides[:0:-1]])[::-1].tolist()
        self._along: dict[int, list[_Along]] = {}  # by divisions, one a dimension
        self._steps: dict[tuple[int, int, int], Indices] = {}

    def _span(self, divisions: int, j: int, k: int) -> tuple[int, int]:
        """First and last point along dimension j in cube k."""
        last = self._last[j]
        return -(-k * last // divisions), min((k + 1) * last // divisions, self.space.sides[j] - 1)

    def members(self, divisions: int, place: Place) -> Indices:
        spans = (self._multiples(divisions, j, k) for j, k in enumerate(place))
        return np.asarray(functools.reduce(np.add.outer, spans)).ravel()

    def _multiples(self, divisions: int, j: int, k: int) -> Indices:
        """What the points along dimension j in cube k add to a candidate's number."""
        held = self._steps.get((divisions, j, k))
        if held is None:
            first, last = self._span(divisions, j, k)
            held = np.arange(first, last + 1) * self._strides[j]
            if len(held) <= HELD:
                self._steps[divisions, j, k] = held
        return held

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        sides = []
        for j in range(self.dimension):
            spans = (self._span(divisions, j, k) for k in range(divisions))
            sides.append(np.array([first <= last for first, last in spans]))
        return np.asarray(functools.reduce(np.logical_and.outer, sides))

    def _touched(self, divisions: int, candidate: int) -> list[list[int]]:
        along = self._along.get(divisions)
        if along is None:
            sizes = zip(self._strides, self.space.sides, self._last, strict=True)
            along = self._along[divisions] = [_Along(divisions, *size) for size in sizes]
        return [cubes[candidate // cubes.stride % cubes.side] for cubes in along]

    def _box(self) -> tuple[Floats, Floats]:
        low, high = np.array(self.space.bounds).T
        return low, high


class _Along(dict[int, list[int]]):
    """From a point's place along a dimension of a grid to the cubes, along it, that hold the point.

    Parameters
    ----------
    divisions
        Cubes along the dimension.
    stride, side, last
        Of candidates' numbers, and points along the dimension; where the last of them stands, at least 1.
    """

    def __init__(self, divisions: int, stride: int, side: int, last: int):
        self.stride, self.side = stride, side
        self._divisions, self._last = divisions, last

    def __missing__(self, i: int) -> list[int]:
        k, rest = divmod(i * self._divisions, self._last)
        cubes = self[i] = [k] if rest or k == 0 else [k - 1] if k == self._divisions else [k - 1, k]
        return cubes


class PointsCover(FiniteCover):
    """Cubes over explicit candidates, in the smallest box around them."""

    def __init__(self, space: FiniteSpace):
        points = space.points()
        self.dimension = space.dimension
        self._low, self._high = points.min(axis=0), points.max(axis=0)
        self._unit = (points - self._low) / np.where(self._high > self._low, self._high - self._low, 1.0)
        self._held: dict[int, dict[Place, Indices]] = {}

    def _cubes(self, divisions: int) -> dict[Place, Indices]:
        if divisions not in self._held:
            lowest, highest = _between(divisions, self._unit, self._unit, lambda corner: corner / divisions)
            numbers, places = [], []
            for offset in itertools.product((0, 1), repeat=self.dimension):
                here = (lowest + offset <= highest).all(axis=1)
                numbers.append(np.flatnonzero(here))
                places.append((lowest + offset)[here])
            every, number = np.concatenate(places), np.concatenate(numbers)
            order = np.lexsort((number, *every.T[::-1]))
            every, number = every[order], number[order]
            starts = np.flatnonzero(np.r_[True, (np.diff(every, axis=0) != 0).any(axis=1)])
            groups = np.split(number, starts[1:])
            self._held[divisions] = {tuple(every[s].tolist()): g for s, g in zip(starts, groups, strict=True)}
        return self._held[divisions]

    def members(self, divisions: int, place: Place) -> Indices:
        return self._cubes(divisions).get(place, np.empty(0, dtype=np.int64))

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        held = np.zeros((divisions,) * self.dimension, dtype=np.bool_)
        for place in self._cubes(divisions):
            held[place] = True
        return held

    def _touched(self, divisions: int, candidate: int) -> list[list[int]]:
        unit = self._unit[candidate]
        lowest, highest = _between(divisions, unit, unit, lambda corner: corner / divisions)
        return [list(range(a, b + 1)) for a, b in zip(lowest.tolist(), highest.tolist(), strict=True)]

    def _box(self) -> tuple[Floats, Floats]:
        return self._low, self._high


class BoxCover(Cover):
    """Cubes over a box.

    Parameters
    ----------
    box
        The space.
    points
        From numbers (k,) of points that were visited to the points (k, d).
    """

    def __init__(self, box: Box, points: Callable[[Indices], Floats]):
        self.dimension = box.dimension
        self._low, self._high = np.array(box.bounds).T
        self._points = points

    def filled(self, divisions: int) -> NDArray[np.bool_]:
        return np.ones((divisions,) * self.dimension, dtype=np.bool_)

    def _touched(self, divisions: int, candidate: int) -> list[list[int]]:
        point = self._points(np.array([candidate]))[0]
        unit = (point - self._low) / (self._high - self._low)
        # By the very edges that a cube is maximised between: a corner that is played is to fall into its own cube.
        lowest, highest = _between(divisions, unit, point, functools.partial(self._edges, divisions))
        return [list(range(a, b + 1)) for a, b in zip(lowest.tolist(), highest.tolist(), strict=True)]

    def _box(self) -> tuple[Floats, Floats]:
        return self._low, self._high


def _between(
    divisions: int, unit: Floats, points: Floats, edges: Callable[[Indices], Floats]
) -> tuple[Indices, Indices]:
    """Lowest and highest cube, along each dimension, that holds points; they differ on a face.

    `unit` are the points' coordinates in [0, 1]^d, up to rounding; `edges` where the cubes of these places begin.
    """
    highest = np.clip((unit * divisions).astype(np.int64), 0, divisions - 1)
    highest -= points < edges(highest)
    highest += (highest + 1 < divisions) & (points >= edges(highest + 1))
    return highest - ((highest > 0) & (points == edges(highest))), highest


def make_cover(space: FiniteSpace) -> FiniteCover:
    """Cover of a grid, or of explicit candidates."""
    return GridCover(space) if isinstance(space, Grid) else PointsCover(space)
