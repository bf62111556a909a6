"""Spaces: what x is.

A finite space numbers its candidates 0 .. size-1; engines work on those numbers and ask for
coordinates a block at a time, so that a grid is arithmetic and never an array of all its points.
"""

from __future__ import annotations

import contextlib
import functools
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed
from scalable_bandits.specification import Specification

Indices = NDArray[np.int64]

MOST_COORDINATES = 2**16  # along the sides of a grid, up to which they are kept at hand


def availability(available: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Mask (size,) of an availability set given as a mask or as candidates' numbers; an empty one is refused."""
    given = np.asarray(available)
    if given.dtype == np.bool_ and given.shape == (size,) and given.any():
        return given
    whole = np.issubdtype(given.dtype, np.integer) and given.ndim == 1 and given.size > 0
    if not whole or given.min() < 0 or given.max() >= size:
        allowed = f"a mask of shape ({size},) with a True in it, or numbers from 0 to {size - 1}, at least one"
        checks.refuse("available", available, allowed)
    mask = np.zeros(size, dtype=np.bool_)
    mask[given] = True
    return mask


class Space(Specification):
    """The domain D of the function."""

    __slots__ = ()

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point; 1 for arms."""

    def parse(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Check the shape of one point or many.

        Returns
        -------
        points : ndarray
            (k, d).
        single : bool
            Whether `x` was one point: (d,), or a number where d = 1.
        """
        array = checks.finite("x", x)
        if not array.size:
            checks.refuse("x", x, "at least one point")
        single = array.ndim == 0 or (array.ndim == 1 and array.shape == (self.dimension,) and self.dimension > 1)
        single = single or (array.shape == (1,) and self.dimension == 1)
        points = array.reshape(1, -1) if single else array.reshape(len(array), -1)
        if array.ndim > 2 or points.shape[1] != self.dimension:
            checks.refuse("x", f"shape {array.shape}", f"({self.dimension},) or (k, {self.dimension})")
        return points, single


class FiniteSpace(Space):
    """A space of numbered candidates."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of candidates |D|."""

    @abstractmethod
    def points(self, candidates: ArrayLike | None = None) -> Floats:
        """Coordinates of some candidates (of all, if none are named), (k, d) float64."""

    @abstractmethod
    def index(self, x: ArrayLike) -> Indices:
        """Numbers (k,) of the candidates at points x; ValueError for a point that is none."""

    def matching(self, context: Mapping[int, float]) -> NDArray[np.bool_]:
        """Candidates whose coordinates are the given ones in some dimensions: what a given context leaves to choose.

        Parameters
        ----------
        context
            From a dimension's number, from 0, to the coordinate there.

        Returns
        -------
        ndarray
            Mask (size,), an availability set.

        Raises
        ------
        ValueError
            If a dimension is not one of the space's, or no candidate has these coordinates.

        Examples
        --------
        >>> Grid([[0, 1], [0, 1]], shape=3).matching({1: 0.5}).nonzero()[0].tolist()
        [1, 4, 7]
        """
        if not isinstance(context, Mapping) or not context:
            checks.refuse("context", context, "coordinates by dimension, such as {0: 0.5}")
        mask = np.ones(self.size, dtype=np.bool_)
        for dimension, coordinate in context.items():
            k = checks.integer("context", dimension, 0)
            if k >= self.dimension:
                checks.refuse("context", f"dimension {k}", f"dimensions from 0 to {self.dimension - 1}")
            mask &= self._coordinate(k, float(checks.finite("context", coordinate, ndim=0)))
        if not mask.any():
            checks.refuse("context", dict(context), "coordinates that a candidate of the space has")
        return mask

    def _coordinate(self, dimension: int, coordinate: float) -> NDArray[np.bool_]:
        """Candidates (size,) with this coordinate in one dimension."""
        return self.points()[:, dimension] == coordinate

    def value(self, candidate: int) -> Any:
        """What `ask` gives for a candidate: its point (d,); for arms the arm number."""
        return self.points([candidate])[0]

    def canonical(self, candidate: int) -> int:
        """The candidate, or the first one at the same point."""
        return candidate


def _frozen_points(value: ArrayLike) -> Floats:
    array = checks.finite("array", value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        checks.refuse("array", f"shape {array.shape}", "(n, d) with n >= 1 and d >= 1")
    array = np.ascontiguousarray(array) + 0.0  # a copy, and -0.0 becomes 0.0: rows compare by their bytes
    array.flags.writeable = False
    return array


@attrs.frozen(eq=False, slots=False)
class Points(FiniteSpace):
    """Explicit candidates.

    Parameters
    ----------
    array
        (n, d) coordinates; (n,) is n points of dimension 1. Equal rows are one and the same point.

    Raises
    ------
    ValueError
        If the array is empty, not finite, or not of one or two dimensions.
    """

    array: Floats = attrs.field(converter=_frozen_points, repr=False)
    _rows: dict[bytes, int] = attrs.field(init=False, factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Points) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.array,)  # unpickled arrays would be writable

    def __repr__(self) -> str:
        return f"Points(size={self.size}, dimension={self.dimension})"

    @property
    def dimension(self) -> int:
        return int(self.array.shape[1])

    @property
    def size(self) -> int:
        return len(self.array)

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        return self.array if candidates is None else self.array[np.asarray(candidates, dtype=np.int64)]

    def find(self, points: Floats) -> Indices:
        """Numbers (k,) of the candidates equal to the rows of `points`; -1 for those that are none."""
        if not self._rows:
            for i in range(self.size - 1, -1, -1):
                self._rows[self.array[i].tobytes()] = i
        return np.array([self._rows.get(row.tobytes(), -1) for row in points + 0.0], dtype=np.int64)

    def grown(self, points: Floats) -> Points:
        """These candidates, and more points after them."""
        return Points(np.concatenate([self.array, points]))

    def canonical(self, candidate: int) -> int:
        return int(self.find(self.array[[candidate]])[0])

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        found = self.find(points)
        if (found < 0).any():
            missing = points[found < 0][0]
            checks.refuse("x", missing.tolist(), f"one of the {self.size} candidates of the space, exactly")
        return found


@attrs.frozen
class Arms(FiniteSpace):
    """Arms without coordinates (sensors, say): x is an arm number, the kernel a `Covariance`."""

    count: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))

    @property
    def dimension(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return self.count

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        numbers = np.arange(self.count) if candidates is None else np.asarray(candidates)
        return numbers.astype(np.float64)[:, None]

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        arms = points[:, 0]
        bad = (arms != np.floor(arms)) | (arms < 0) | (arms >= self.count)
        if bad.any():
            checks.refuse("x", arms[bad][0].item(), f"an arm number from 0 to {self.count - 1}")
        return arms.astype(np.int64)

    def matching(self, context: Mapping[int, float]) -> NDArray[np.bool_]:
        checks.refuse("context", context, "none on arms: they have no coordinates")

    def value(self, candidate: int) -> int:
        return int(candidate)


def _frozen_bounds(value: ArrayLike) -> tuple[tuple[float, float], ...]:
    array = checks.finite("bounds", value)
    if array.ndim != 2 or array.shape[1] != 2 or not array.size or (array[:, 0] >= array[:, 1]).any():
        checks.refuse("bounds", value, "(d, 2): a lower and a larger upper end for each dimension")
    return tuple((low, high) for low, high in array.tolist())


@attrs.frozen
class Box(Space):
    """A continuous box.

    Policies that maximise an index maximise it over the whole box; others, and all if asked to (`candidates=`), play a
    box through a set of candidates. Observations anywhere in the box are welcome.

    Parameters
    ----------
    bounds
        (d, 2), lower and upper end of each dimension.
    """

    bounds: tuple[tuple[float, float], ...] = attrs.field(converter=_frozen_bounds)

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    def check(self, x: ArrayLike) -> Floats:
        """Points (k, d) inside the box; ValueError for one outside."""
        points, _ = self.parse(x)
        low, high = np.array(self.bounds).T
        outside = ((points < low) | (points > high)).any(axis=1)
        if outside.any():
            checks.refuse("x", points[outside][0].tolist(), f"a point inside the bounds {self.bounds}")
        return points

    def candidates(self, count: int, seed: int = 0) -> Points:
        """`count` points of a scrambled Sobol sequence, spread evenly over the box.

        Source: Owen 1998 (scrambling), by `scipy.stats.qmc`.
        """
        from scipy.stats import qmc

        count = checks.integer("count", count, 1)
        rng = np.random.default_rng(derived_seed(seed, "candidates"))  # Sobol spawns from it: Philox by key cannot
        sobol = qmc.Sobol(self.dimension, scramble=True, rng=rng)
        unit = sobol.random_base2(max(0, int(np.ceil(np.log2(count)))))[:count]
        low, high = np.array(self.bounds).T
        return Points(np.clip(low + unit * (high - low), low, high))


def _frozen_shape(value: Any) -> int | tuple[int, ...]:
    numbers = np.asarray(value)
    if numbers.ndim > 1 or not numbers.size or not np.issubdtype(numbers.dtype, np.integer) or (numbers < 1).any():
        checks.refuse("shape", value, "a positive integer, or one a dimension")
    return int(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def _along(bounds: tuple[float, float], side: int, steps: Indices) -> Floats:
    """Coordinates of points by their number along a side; the last is the upper end itself, whatever rounding says."""
    low, high = bounds
    coordinates = low + steps * ((high - low) / max(side - 1, 1))
    return np.where((steps == side - 1) & (side > 1), high, coordinates)


@functools.lru_cache(maxsize=256)
def _side(bounds: tuple[float, float], side: int) -> Floats:
    """Coordinates of all points along a side, (side,)."""
    return _along(bounds, side, np.arange(side))


@attrs.frozen
class Grid(FiniteSpace):
    """Regular grid, both ends included; candidates are numbered with the last dimension fastest.

    Nothing is stored but bounds and shape: a 30^6 grid costs as much as one of two points.

    Parameters
    ----------
    bounds
        (d, 2), lower and upper end of each dimension.
    shape
        Points along each dimension: one number, or one a dimension. A dimension of one point
        stands at its lower end.

    Examples
    --------
    >>> grid = Grid([[0, 1], [0, 1]], shape=3)
    >>> grid.size, grid.points([1]).tolist(), grid.index([0.0, 0.5]).tolist()
    (9, [[0.0, 0.5]], [1])
    """

    bounds: tuple[tuple[float, float], ...] = attrs.field(converter=_frozen_bounds)
    shape: int | tuple[int, ...] = attrs.field(converter=_frozen_shape)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.shape, tuple) and len(self.shape) != len(self.bounds):
            checks.refuse("shape", self.shape, f"one number, or {len(self.bounds)} (the number of bounds)")
        if len(set(self.sides)) == 1:
            object.__setattr__(self, "shape", self.sides[0])  # equal grids compare equal however they were written
        if self.size >= 2**62:
            checks.refuse("shape", self.shape, "fewer than 2^62 points")

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    @property
    def sides(self) -> tuple[int, ...]:
        """Points along each dimension."""
        return self.shape if isinstance(self.shape, tuple) else (self.shape,) * len(self.bounds)

    @property
    def size(self) -> int:
        size = 1
        for side in self.sides:
            size *= side
        return size

    def _frame(self) -> tuple[Floats, Floats, Indices]:
        low, high = np.array(self.bounds).T
        sides = np.array(self.sides, dtype=np.int64)
        return low, (high - low) / np.maximum(sides - 1, 1), sides

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        numbers = np.arange(self.size) if candidates is None else np.asarray(candidates, dtype=np.int64)
        sides = self.sides
        steps = np.unravel_index(numbers, sides)
        points = np.empty((*numbers.shape, len(sides)))
        short = sum(sides) <= MOST_COORDINATES
        for j, (bounds, side) in enumerate(zip(self.bounds, sides, strict=True)):
            points[..., j] = _side(bounds, side)[steps[j]] if short else _along(bounds, side, steps[j])
        return points

    def _coordinate(self, dimension: int, coordinate: float) -> NDArray[np.bool_]:
        axis = Grid([self.bounds[dimension]], self.sides[dimension])
        along = np.zeros(self.sides[dimension], dtype=np.bool_)
        with contextlib.suppress(ValueError):  # no candidate has it
            along[axis.index(coordinate)] = True
        shape = [-1 if k == dimension else 1 for k in range(self.dimension)]
        return np.broadcast_to(along.reshape(shape), self.sides).ravel()

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        low, step, sides = self._frame()
        steps = (points - low) / step
        nearest = np.rint(steps)
        rounding = 4.0 * np.finfo(float).eps * np.abs(points) / step
        bad = ((np.abs(steps - nearest) > 1e-6 + rounding) | (nearest < 0) | (nearest > sides - 1)).any(axis=1)
        if bad.any():
            allowed = f"a point of the grid of {'x'.join(map(str, self.sides))} points in {self.bounds}"
            checks.refuse("x", points[bad][0].tolist(), allowed)
        return np.ravel_multi_index(tuple(nearest.astype(np.int64).T), self.sides).astype(np.int64)
