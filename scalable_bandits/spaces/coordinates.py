"""Coordinates of settings: what a model sees of named parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.spaces.parameters import Parameter

ABSENT = 0.5  # coordinate of an ordered parameter that does not exist in a setting
NO_POSITION = -1.0  # coordinate of an unordered one


class Column(NamedTuple):
    """One coordinate."""

    parameter: int  # position of the parameter
    activity: bool  # whether the coordinate is 1 if the parameter exists and 0 if not, instead of its value
    ordered: bool  # whether distances mean something; else only equality does


class Coordinates:
    """Coordinates of p parameters: the value of each that has several, and for each with a condition whether it exists.

    Values are from 0 to 1, but for unordered parameters, whose coordinate is the position of the value. A parameter
    that does not exist in a setting is at the middle, or, if it is unordered, at -1.

    Parameters
    ----------
    kinds
        Parameters.
    conditional
        Whether each of them exists only under a condition.

    Attributes
    ----------
    columns : tuple of Column
        Description of the D coordinates.
    """

    def __init__(self, kinds: Sequence[Parameter], conditional: Sequence[bool]):
        self._kinds = kinds
        values = [Column(i, False, kind.ordered) for i, kind in enumerate(kinds) if kind.count != 1]
        values = values or [Column(0, False, True)]  # a model has at least one coordinate
        self._values = len(values)  # number of coordinates that are values
        self.columns = (*values, *(Column(i, True, True) for i, each in enumerate(conditional) if each))
        self._alike: dict[Parameter, list[int]] = {}  # numbers of the coordinates of equal parameters, encoded together
        for k, column in enumerate(values):
            self._alike.setdefault(kinds[column.parameter], []).append(k)

    @property
    def bounds(self) -> Floats:
        """Smallest and largest value (D, 2) of each coordinate."""
        low = [0.0 if ordered else NO_POSITION for _, _, ordered in self.columns]
        high = [1.0 if ordered else (self._kinds[i].count or 1) - 1.0 for i, _, ordered in self.columns]
        return np.column_stack([low, high])

    @property
    def parameters(self) -> NDArray[np.int64]:
        """Position (D,) of the parameter to which each coordinate belongs."""
        return np.array([column.parameter for column in self.columns], dtype=np.int64)

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Mask (D,) of the coordinates that are values of continuous parameters."""
        mask = [not activity and self._kinds[i].count is None for i, activity, _ in self.columns]
        return np.array(mask, dtype=np.bool_)

    def encode(self, points: Floats, exist: NDArray[np.bool_]) -> Floats:
        """Return the coordinates (k, D) of points (k, p), in which the parameters of a mask (k, p) exist."""
        parameters = self.parameters
        found = np.empty((len(points), len(parameters)))
        found[:, self._values :] = exist.take(parameters[self._values :], axis=1)
        for kind, columns in self._alike.items():
            places = parameters[columns]
            there = exist.take(places, axis=1)
            values = kind.encode(points.take(places, axis=1).ravel()).reshape(there.shape)
            absent = ABSENT if kind.ordered else NO_POSITION
            found[:, columns] = values if there.all() else np.where(there, values, absent)
        return found

    def decode(self, coordinates: Floats) -> Floats:
        """Return the points (k, p) of the allowed values nearest to coordinates (k, D)."""
        points = np.tile([kind.first for kind in self._kinds], (len(coordinates), 1))
        for column, (i, activity, _) in zip(coordinates.T, self.columns, strict=True):
            if not activity:
                points[:, i] = self._kinds[i].decode(column)
        return points
