"""The interface of spaces, and how tables and pictures show one: its axes.

A finite space numbers its candidates 0 .. size-1. Engines work on these numbers and request coordinates a block at a
time, so that a grid never needs an array of all its points. Other parts of the package use this interface alone and
never depend on the class of a space.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import Specification

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


def availability(available: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Return the mask of an availability set.

    Parameters
    ----------
    available
        Mask (size,), or numbers (k,) of candidates.
    size
        Number of candidates.

    Returns
    -------
    ndarray
        Mask (size,) with at least one True.

    Raises
    ------
    ValueError
        If the set is empty, or has other elements than candidates.
    """
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


SPREAD = 256  # number of points in a sample of an infinite space
Bounds = tuple[tuple[float, float], ...]


def frozen_bounds(value: ArrayLike) -> Bounds:
    """Convert bounds (d, 2), a lower and an upper end for each dimension; ValueError if a lower end is not below."""
    array = checks.finite("bounds", value)
    if array.ndim != 2 or array.shape[1] != 2 or not array.size or (array[:, 0] >= array[:, 1]).any():
        checks.refuse("bounds", value, "(d, 2): a lower and a larger upper end for each dimension")
    return tuple((low, high) for low, high in array.tolist())


MOST = 201  # largest number of values that an axis lists


class Axis(NamedTuple):
    """One parameter of a space, or one coordinate of its points.

    Numbers are those of points (k, d) of the space: values in the user's units or, where there are `labels`, positions.
    """

    name: str  # name of the parameter; "x0", "x1", ... for coordinates
    low: float  # smallest number
    high: float  # largest number
    log: bool = False  # whether ratios matter, not differences
    values: Floats | None = None  # (k,) numbers, all or `MOST` of them; None if all from low to high are possible
    labels: tuple[str, ...] | None = None  # (k,) names of the values, where these are not numbers
    ordered: bool = True  # whether numbers near each other are alike

    def places(self, numbers: Floats) -> Floats:
        """Return the places of numbers (...,) on the axis' scale, from 0 to 1; 0.5 if the axis has one number."""
        if self.low == self.high:
            return np.full(np.shape(numbers), 0.5)
        if self.log:
            return np.asarray(np.log(numbers / self.low) / np.log(self.high / self.low))
        return (numbers - self.low) / (self.high - self.low)

    def drawn(self, most: int) -> Floats:
        """Return the numbers (k,) at which to draw a function: the values, or `most` that are even on the scale."""
        if self.values is not None:
            return self.values
        even = np.geomspace if self.log else np.linspace
        return np.asarray(even(self.low, self.high, most))


def choice_axis(name: str, labels: Sequence[str], ordered: bool = False) -> Axis:
    """Return the axis of values that are no numbers: of positions with labels."""
    return Axis(name, 0.0, len(labels) - 1.0, False, np.arange(float(len(labels))), tuple(labels), ordered)


def _check_context(given: Any) -> None:
    """Raise ValueError unless a context is a dict with something in it."""
    if not isinstance(given, Mapping) or not given:
        allowed = "coordinates by dimension, such as {0: 0.5}, or values by the name of the parameter"
        checks.refuse("context", given, allowed)


class Space(Specification):
    """Domain D of the function.

    Attributes
    ----------
    has_coordinates : bool
        Whether x is a point; False for arms, whose x is a number.
    named : bool
        Whether x is a dict of named values, which models see as coordinates (`encode`).
    scanned : bool
        Whether its candidates are read chunk by chunk, in passes, and never held: a pool.
    """

    __slots__ = ()

    has_coordinates: ClassVar[bool] = True
    named: ClassVar[bool] = False
    scanned: ClassVar[bool] = False

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point; 1 for arms."""

    @property
    def cube(self) -> NDArray[np.float64] | None:
        """Bounds (D, 2) of the coordinates that a model sees; None for spaces without bounds."""
        return self.box

    def encode(self, points: Floats) -> Floats:
        """Return the coordinates (k, D) that a model sees of points (k, d): the points themselves, but for names."""
        return points

    @property
    def model_dimension(self) -> int:
        """Number D of the coordinates that a model sees."""
        return self.dimension

    @property
    def unordered(self) -> tuple[int, ...]:
        """Coordinates that a model sees of which only equality means something, counted from 0."""
        return ()

    @property
    def finite(self) -> FiniteSpace | None:
        """The space itself if it has numbered candidates, else None."""
        return None

    @property
    def lattice(self) -> tuple[int, ...] | None:
        """Numbers of points along each dimension of a regular grid; None for other spaces."""
        return None

    @property
    def size(self) -> int | None:
        """Number of its elements; None if there are infinitely many."""
        return None

    @abstractmethod
    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        """Return the space itself if it is finite, else `count` points spread over it; a seed selects them."""

    @abstractmethod
    def check(self, x: ArrayLike) -> Floats:
        """Return x as points (k, d); ValueError if one is not in the space."""

    def sample(self, seed: int) -> Floats:
        """Return some points (k, d) of the space, or all points of a small finite one."""
        return self.candidate_set(SPREAD, seed).points()

    @property
    def box(self) -> NDArray[np.float64] | None:
        """Bounds (d, 2) of a box or a regular grid; None for other spaces."""
        return None

    @property
    def ends(self) -> Floats | None:
        """Smallest and largest coordinate along each dimension, (d, 2), in units of x; None for arms."""
        return self.box

    @property
    def side_lengths(self) -> Floats | None:
        """Extent of the space along each dimension, (d,), in units of x; None for arms."""
        return None if self.ends is None else self.ends[:, 1] - self.ends[:, 0]

    def drawn(self, side: int) -> FiniteSpace:
        """Return points at which to draw a function: a finite space itself; a grid of `side` points a side of a box."""
        return self.candidate_set(side**self.dimension, 0)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Parameters of the space, or coordinates of its points, as tables and pictures show them."""
        ends = self.ends
        assert ends is not None
        return tuple(Axis(f"x{i}", low, high) for i, (low, high) in enumerate(ends.tolist()))

    def spread(self, uniform: Floats) -> Floats:
        """Return points (k, d) that are uniform on the axes' scales, from uniform numbers (k, d) in [0, 1).

        Raises
        ------
        ValueError
            If the space is not a product of its axes: points in no order, or arms.
        """
        if self.box is None:
            checks.refuse("space", self, "a box, a grid or a search space, whose coordinates can be chosen one by one")
        return np.asarray(self.box[:, 0] + uniform * (self.box[:, 1] - self.box[:, 0]))

    def draw(self, count: int, rng: np.random.Generator, context: Floats | None = None) -> Floats:
        """Draw points (count, d) in a context (d,) uniformly on the axes' scales; ValueError as of `spread`."""
        return self.within(self.spread(rng.random((count, self.dimension))), context)

    def context(self, given: Mapping[Any, Any] | None) -> Floats | None:
        """Return fixed coordinates (d,), NaN where a coordinate is free, of a context; None without one.

        Parameters
        ----------
        given
            Coordinates by dimension, counted from 0; of named spaces values by the name of the parameter. None where
            all coordinates are chosen.

        Raises
        ------
        ValueError
            If a dimension, a parameter or a value does not exist, or none is free.
        """
        if given is None:
            return None
        _check_context(given)
        found = np.full(self.dimension, np.nan)
        for key, value in given.items():
            place, number = self._fixed(key, value)
            found[place] = number
        if not np.isnan(found).any():
            checks.refuse("context", dict(given), "fewer coordinates, so that one can be chosen")
        return found

    def _fixed(self, key: Any, value: Any) -> tuple[int, float]:
        """Return number and coordinate of a dimension that a context fixes."""
        dimension, number = self._dimension_of(key), float(checks.finite("context", value, ndim=0))
        low, high = self.ends[dimension].tolist()  # type: ignore[index]  # spaces without coordinates have no contexts
        if not low <= number <= high:
            checks.refuse(f"context[{key!r}]", value, f"a number from {low:.6g} to {high:.6g}")
        return dimension, number

    def _dimension_of(self, key: Any) -> int:
        """Return the dimension that a key of a context names."""
        dimension = checks.integer("context", key, 0)
        if dimension >= self.dimension:
            checks.refuse("context", f"dimension {dimension}", f"dimensions from 0 to {self.dimension - 1}")
        return dimension

    def within(self, points: Floats, context: Floats | None) -> Floats:
        """Return points (k, d) with the coordinates that a context (d,) fixes."""
        return points if context is None else np.where(np.isnan(context), points, context)

    def active(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k, d) of the parameters that exist at points (k, d)."""
        return np.ones(points.shape, dtype=np.bool_)

    def fulfilled(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k,) of the points (k, d) that fulfil the space's constraints."""
        return np.ones(len(points), dtype=np.bool_)

    def argument(self, point: Floats) -> Any:
        """Return what a user's function is called with at a point (d,): the point, an arm number, or a dict."""
        return point

    def arguments(self, points: NDArray[Any]) -> list[Any]:
        """Return what a user's function was called with at stored points (k, d), or arm numbers (k,)."""
        return list(points)

    def gather(self, values: list[Any]) -> Any:
        """Return several values of `ask` as one: an array (k, d) or (k,), or a list of k dicts."""
        return np.array(values)

    def parse(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Check the shape of one point or several.

        Parameters
        ----------
        x
            Point (d,) or points (k, d); if d = 1, also a number or numbers (k,).

        Returns
        -------
        points : ndarray
            Points (k, d).
        single : bool
            Whether `x` is one point: (d,), or a number if d = 1.

        Raises
        ------
        ValueError
            If x is not finite, empty, or of another shape.
        """
        array, d = checks.finite("x", x), self.dimension
        if not array.size:
            checks.refuse("x", x, "at least one point")
        single = array.shape in ((), (d,))
        points = array.reshape(1, -1) if single else array.reshape(len(array), -1)
        if array.ndim > 2 or points.shape[1] != d:
            checks.refuse("x", f"shape {array.shape}", f"({d},) or (k, {d})")
        return points, single


SAMPLE = 100_000  # largest number of candidates of a finite space in a sample


class FiniteSpace(Space):
    """Space of numbered candidates."""

    __slots__ = ()

    @property
    def finite(self) -> FiniteSpace | None:
        return self

    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        return self

    def check(self, x: ArrayLike) -> Floats:
        self.index(x)
        return self.parse(x)[0]

    def sample(self, seed: int) -> Floats:
        count = min(self.size, SAMPLE)
        return self.points(np.linspace(0, self.size - 1, count).astype(np.int64))

    @property
    def ends(self) -> Floats | None:
        if self.box is not None or not self.has_coordinates:
            return self.box
        return np.stack([self.points().min(axis=0), self.points().max(axis=0)], axis=1)

    def x_of(self, candidates: ArrayLike | None = None) -> NDArray[Any]:
        """Return x of some candidates, or all: points (k, d), or arm numbers (k,)."""
        return self.points(candidates)

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of candidates |D|."""

    @abstractmethod
    def points(self, candidates: ArrayLike | None = None) -> Floats:
        """Return the coordinates (k, d), float64, of some candidates, or of all, in units of x."""

    @abstractmethod
    def find(self, points: Floats) -> Indices:
        """Return the numbers (k,) of the candidates at points (k, d), the first at each; -1 for other points."""

    def index(self, x: ArrayLike) -> Indices:
        """Return the numbers (k,) of the candidates at points x; ValueError for a point that is not a candidate."""
        points, _ = self.parse(x)
        found = self.find(points)
        if (found < 0).any():
            self.refuse_point(points[found < 0][0])
        return found

    def refuse_point(self, point: Floats) -> NoReturn:
        """Raise a ValueError for a point (d,) that is not a candidate."""
        checks.refuse("x", point.tolist(), f"one of the {self.size:,} candidates of the space, exactly")

    def matching(self, context: Mapping[Any, Any]) -> NDArray[np.bool_]:
        """Return the mask of the candidates that have given coordinates, or values of parameters.

        Parameters
        ----------
        context
            Coordinates by dimension, counted from 0; values by the name of the parameter for `Settings`.

        Returns
        -------
        ndarray
            Mask (size,) of the matching candidates.

        Raises
        ------
        ValueError
            If a dimension, a parameter or a value does not exist, or no candidate has all of these.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> sb.Grid([[0, 1], [0, 1]], shape=3).matching({1: 0.5}).nonzero()[0].tolist()
        [1, 4, 7]
        """
        _check_context(context)
        mask = np.ones(self.size, dtype=np.bool_)
        for key, value in context.items():
            mask &= self._having(key, value)
        if not mask.any():
            checks.refuse("context", dict(context), "coordinates that a candidate of the space has, or values")
        return mask

    def _having(self, key: Any, value: Any) -> NDArray[np.bool_]:
        """Return the mask (size,) of the candidates with a coordinate in a dimension, or a value of a parameter."""
        return self._coordinate(self._dimension_of(key), float(checks.finite("context", value, ndim=0)))

    def _coordinate(self, dimension: int, coordinate: float) -> NDArray[np.bool_]:
        """Return the mask (size,) of the candidates with this coordinate in one dimension."""
        return self.points()[:, dimension] == coordinate

    def value(self, candidate: int) -> Any:
        """Return the value of `ask` for a candidate: its point (d,), an arm number, or a dict."""
        return self.argument(self.points([candidate])[0])

    @property
    def distinct(self) -> bool:
        """Whether no two candidates are at the same point."""
        return True

    def canonical(self, candidate: int) -> int:
        """Return the first candidate at the same point as a candidate."""
        return candidate

    def equal_to(self, candidate: int) -> Indices:
        """Return the numbers (k,) of all candidates at the same point as a candidate."""
        return np.array([candidate])
