"""Finite spaces without names: regular grids, lists of points, and arms without coordinates."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import MOST, SPREAD, Axis, Bounds, FiniteSpace, Indices, choice_axis, frozen_bounds
from scalable_bandits.spaces.sobol import sobol

ROUNDING = 4.0 * float(np.finfo(float).eps)  # relative error of a coordinate
MOST_ALONG = 2**52  # largest number of points along a side: coordinates differ
MOST_COORDINATES = 2**16  # largest number of coordinates along all sides of a grid that are cached
MOST_NUMBERED = 2**62 - 1  # largest number of candidates that have numbers
MOST_ENUMERATED = 2_000_000  # largest number of candidates of a grid that pictures and policies enumerate by default


def _frozen_shape(value: Any) -> int | tuple[int, ...]:
    numbers = np.asarray(value)
    whole = numbers.ndim <= 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 1 or numbers.max() > MOST_ALONG:
        checks.refuse("shape", value, "a positive integer up to 2^52, or one for each dimension")
    return int(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def _along(bounds: tuple[float, float], side: int, steps: Indices) -> Floats:
    """Return the coordinates of points by number along a side; the last one is exactly the upper end."""
    low, high = bounds
    coordinates = low + steps * ((high - low) / max(side - 1, 1))
    return np.where((steps == side - 1) & (side > 1), high, coordinates)


@functools.lru_cache(maxsize=256)
def _side(bounds: tuple[float, float], side: int) -> Floats:
    """Return the coordinates (side,) of all points along a side."""
    return _along(bounds, side, np.arange(side))


@functools.lru_cache(maxsize=256)
def _frame(bounds: Bounds, sides: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Return first coordinates, distances of neighbours and largest numbers along the dimensions, (d,) arrays."""
    low, high = np.array(bounds).T
    last = np.array(sides) - 1.0
    return low, (high - low) / np.maximum(last, 1.0), last


@functools.lru_cache(maxsize=256)
def _strides(sides: tuple[int, ...]) -> Indices:
    """Return how much a step along each dimension adds to the number of a candidate, (d,), if it has one."""
    size = math.prod(sides)
    if size > MOST_NUMBERED:
        checks.refuse("space", f"{counted(size)} candidates", "fewer than 2^62 where they are numbered")
    return np.array([math.prod(sides[j + 1 :]) for j in range(len(sides))], dtype=np.int64)


def counted(size: int) -> str:
    """Return a number of candidates as text: "2,000,000", or "10^62.3" from 10^15 on."""
    return f"{size:,}" if size < 10**15 else f"10^{math.log10(size):.3g}"


@attrs.frozen
class Grid(FiniteSpace):
    """Regular grid that includes both ends; candidates are numbered with the last dimension fastest.

    Only bounds and shape are stored: a grid of 30^100 points takes no more memory than a grid of two. The candidates of
    a grid of 2^62 points or more have no numbers: it is `finite` only where these are needed.

    Parameters
    ----------
    bounds
        Lower and upper ends (d, 2) of the dimensions, in units of x.
    shape
        Number of points along each dimension: one integer for all, or one for each. In a dimension of one point, that
        is the lower end.

    Attributes
    ----------
    sides : tuple of int
        Number of points along each dimension.

    Raises
    ------
    ValueError
        If a lower end is not below its upper end, `bounds` and `shape` have different dimensions, or a side has more
        than 2^52 points; from methods that number candidates, if there are 2^62 of them or more.

    Examples
    --------
    >>> grid = Grid([[0, 1], [0, 1]], shape=3)
    >>> grid.size, grid.points([1]).tolist(), grid.index([0.0, 0.5]).tolist()
    (9, [[0.0, 0.5]], [1])
    """

    bounds: Bounds = attrs.field(converter=frozen_bounds)
    shape: int | tuple[int, ...] = attrs.field(converter=_frozen_shape)
    sides: tuple[int, ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.shape, tuple) and len(self.shape) != len(self.bounds):
            checks.refuse("shape", self.shape, f"one number, or {len(self.bounds)} (the number of bounds)")
        sides = self.shape if isinstance(self.shape, tuple) else (self.shape,) * len(self.bounds)
        object.__setattr__(self, "sides", sides)
        if len(set(self.sides)) == 1:
            object.__setattr__(self, "shape", self.sides[0])  # so that equal grids compare equal

    @property
    def dimension(self) -> int:
        return len(self.bounds)

    @property
    def box(self) -> Floats:
        return np.array(self.bounds)

    @property
    def lattice(self) -> tuple[int, ...]:
        return self.sides

    @property
    def size(self) -> int:
        return math.prod(self.sides)

    @property
    def finite(self) -> FiniteSpace | None:
        """The space itself if its candidates have numbers, else None."""
        return self if self.size <= MOST_NUMBERED else None

    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        """Return the space itself, or of more than two million candidates `count` that are spread over it."""
        if self.size <= max(count, MOST_ENUMERATED):
            return self
        return Points(self.spread(sobol(self.dimension, count, seed)))

    def check(self, x: ArrayLike) -> Floats:
        points, _ = self.parse(x)
        if (outside := (self.steps(points) < 0).any(axis=1)).any():
            self.refuse_point(points[outside][0])
        return points

    def sample(self, seed: int) -> Floats:
        return super().sample(seed) if self.finite is not None else self.spread(sobol(self.dimension, SPREAD, seed))

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        _strides(self.sides)  # ValueError if they have no numbers
        numbers = np.arange(self.size) if candidates is None else np.asarray(candidates, dtype=np.int64)
        return self._at(np.unravel_index(numbers, self.sides), numbers.shape)

    def at(self, steps: Indices) -> Floats:
        """Return the points (k, d) at numbers of steps (k, d) along the sides, from 0."""
        return self._at(steps.T, steps.shape[:-1])

    def _at(self, steps: Iterable[Indices], shape: tuple[int, ...]) -> Floats:
        """Return the points (*shape, d) at numbers of steps along each of the sides, d arrays of this shape."""
        points, short = np.empty((*shape, len(self.sides))), sum(self.sides) <= MOST_COORDINATES
        for j, (bounds, side, k) in enumerate(zip(self.bounds, self.sides, steps, strict=True)):
            points[..., j] = _side(bounds, side)[k] if short else _along(bounds, side, k)
        return points

    def steps(self, points: Floats) -> Indices:
        """Return the numbers of steps (k, d) along the sides to points (k, d); -1 where a coordinate is of none."""
        nearest, on_grid = self._nearest(points)
        return np.where(on_grid, nearest, -1)

    def _fixed(self, key: Any, value: Any) -> tuple[int, float]:
        dimension, number = super()._fixed(key, value)
        point = self.box[:, 0].copy()
        point[dimension] = number
        steps = self.steps(point[None])
        if (steps < 0).any():
            checks.refuse(f"context[{key!r}]", value, f"a coordinate of the grid, of {self.sides[dimension]:,}")
        return dimension, float(self.at(steps)[0, dimension])

    def _nearest(self, points: Floats) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the nearest numbers of steps (k, d) to points (k, d), and which coordinates are the grid's."""
        low, distance, last = _frame(self.bounds, self.sides)
        with np.errstate(over="ignore", invalid="ignore"):  # points far outside overflow
            steps = (points - low) / distance
            nearest = np.rint(steps)
            rounding = ROUNDING * np.abs(points) / distance
            on_grid = (np.abs(steps - nearest) <= 1e-6 + rounding) & (nearest >= 0) & (nearest <= last)
            return nearest.astype(np.int64), on_grid

    @property
    def axes(self) -> tuple[Axis, ...]:
        found = []
        for i, ((low, high), side) in enumerate(zip(self.bounds, self.sides, strict=True)):
            steps = np.unique(np.linspace(0, side - 1, min(side, MOST)).astype(np.int64))
            listed = _along((low, high), side, steps)
            found.append(Axis(f"x{i}", low, high if side > 1 else low, values=listed))
        return tuple(found)

    def spread(self, uniform: Floats) -> Floats:
        columns = [
            _along(bounds, side, np.minimum((column * side).astype(np.int64), side - 1))
            for bounds, side, column in zip(self.bounds, self.sides, uniform.T, strict=True)
        ]
        return np.column_stack(columns)

    def _coordinate(self, dimension: int, coordinate: float) -> NDArray[np.bool_]:
        axis = Grid([self.bounds[dimension]], self.sides[dimension])
        along = np.arange(self.sides[dimension]) == axis.find(np.array([[coordinate]]))
        shape = [-1 if k == dimension else 1 for k in range(self.dimension)]
        return np.broadcast_to(along.reshape(shape), self.sides).ravel()

    def find(self, points: Floats) -> Indices:
        nearest, on_grid = self._nearest(points)
        return np.where(on_grid.all(axis=1), nearest @ _strides(self.sides), -1)

    def refuse_point(self, point: Floats) -> NoReturn:
        sides = "x".join(map(str, self.sides))
        checks.refuse("x", point.tolist(), f"a point of the grid of {sides} points in {self.bounds}")


# ---- lists


def frozen_points(value: ArrayLike) -> Floats:
    """Convert points (n, d), or (n,) for dimension 1, to a read-only array (n, d); ValueError if there are none."""
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
    """Finite space given by a list of candidates.

    Parameters
    ----------
    array
        Coordinates (n, d) of the candidates, in units of x; (n,) for dimension 1. Candidates with equal rows are the
        same point.

    Raises
    ------
    ValueError
        If the array is empty, not finite, or has neither one nor two dimensions.
    """

    array: Floats = attrs.field(converter=frozen_points, repr=False)
    _rows: dict[bytes, int] = attrs.field(init=False, factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Points) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.array,)  # since unpickled arrays would be writable

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
        if not self._rows:
            for i in range(self.size - 1, -1, -1):
                self._rows[self.array[i].tobytes()] = i
        return np.array([self._rows.get(row.tobytes(), -1) for row in points + 0.0], dtype=np.int64)

    @property
    def side_lengths(self) -> Floats:
        lengths = np.ptp(self.array, axis=0)
        lengths[lengths == 0.0] = 1.0
        return np.asarray(lengths)

    def grown(self, points: Floats) -> Points:
        """Return the space with more points (k, d) after the candidates."""
        return Points(np.concatenate([self.array, points]))

    @functools.cached_property
    def distinct(self) -> bool:
        return len(np.unique(self.array, axis=0)) == self.size

    def canonical(self, candidate: int) -> int:
        return int(self.find(self.array[[candidate]])[0])

    def equal_to(self, candidate: int) -> Indices:
        return np.flatnonzero((self.array == self.array[candidate]).all(axis=1))


@attrs.frozen
class Arms(FiniteSpace):
    """Finite space of arms without coordinates, such as sensors: x is an arm number, the kernel a `Covariance`.

    Parameters
    ----------
    count
        Number of arms, which are numbered from 0.

    Raises
    ------
    ValueError
        If the number is not a positive integer.
    """

    has_coordinates: ClassVar[bool] = False
    dimension: ClassVar[int] = 1

    count: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))

    @property
    def size(self) -> int:
        return self.count

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        numbers = np.arange(self.count) if candidates is None else np.asarray(candidates)
        return numbers.astype(np.float64)[:, None]

    def find(self, points: Floats) -> Indices:
        arms = points[:, 0]
        known = (arms == np.floor(arms)) & (arms >= 0) & (arms < self.count)
        return np.where(known, arms, -1.0).astype(np.int64)

    def refuse_point(self, point: Floats) -> NoReturn:
        checks.refuse("x", point.item(), f"an arm number from 0 to {self.count - 1}")

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (choice_axis("arm", [str(arm) for arm in range(self.count)]),)

    def matching(self, context: Mapping[Any, Any]) -> NDArray[np.bool_]:
        """Raise ValueError, since arms have no coordinates from which to make a mask (size,)."""
        checks.refuse("context", context, "none on arms: they have no coordinates")

    def x_of(self, candidates: ArrayLike | None = None) -> Indices:
        return np.arange(self.count) if candidates is None else np.asarray(candidates, dtype=np.int64)

    def argument(self, point: Floats) -> int:
        return int(point[0])
