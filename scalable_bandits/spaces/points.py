"""Finite spaces given by a list: of points, or of arms without coordinates."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import Axis, FiniteSpace, Indices, choice_axis


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
