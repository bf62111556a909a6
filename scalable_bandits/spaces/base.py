"""What a space is.

A finite space numbers its candidates 0 .. size-1; engines work on those numbers and ask for
coordinates a block at a time, so that a grid is arithmetic and never an array of all its points.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import Specification

Indices = NDArray[np.int64]


def availability(available: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Mask of an availability set.

    Parameters
    ----------
    available
        A mask (size,), or candidates' numbers.
    size
        Number of candidates.

    Returns
    -------
    ndarray
        (size,), with a True in it.

    Raises
    ------
    ValueError
        If it is empty, or no set of the candidates.
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


class Space(Specification):
    """The domain D of the function."""

    __slots__ = ()

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point; 1 for arms."""

    def parse(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Check the shape of one point or many.

        Parameters
        ----------
        x
            (d,) or (k, d); where d = 1 also a number, or (k,) of them.

        Returns
        -------
        points : ndarray
            (k, d).
        single : bool
            Whether `x` was one point: (d,), or a number where d = 1.

        Raises
        ------
        ValueError
            If x is not finite, empty, or of another shape.
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
        """Coordinates of some candidates (of all, if none are named), (k, d) float64, in units of x."""

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
        >>> import scalable_bandits as sb
        >>> sb.Grid([[0, 1], [0, 1]], shape=3).matching({1: 0.5}).nonzero()[0].tolist()
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

    def equal_to(self, candidate: int) -> Indices:
        """Numbers (k,) of the candidates at the same point, the candidate among them."""
        return np.array([candidate])
