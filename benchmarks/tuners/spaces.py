"""Spaces of the package as other packages' tuners see them: intervals, and lists of numbers or strings."""

from __future__ import annotations

from typing import Any

import numpy as np

import scalable_bandits as sb
from benchmarks.tuners.intervals import Interval, Parameter, Parameters, Setting
from scalable_bandits.spaces import Space
from scalable_bandits.spaces.parameters import Parameter as Kind


class PeerSpace:
    """The parameters of a space of the package, and the points of the space that settings of these stand for.

    `Real` and `Integer` become intervals, `Ordinal` a list of numbers, `Categorical` and `Boolean` a list of strings;
    the coordinates of a box are x0, x1, .... Peers know neither a list of settings nor a list of points. In such a
    space the nearest listed one is measured instead of the setting that was asked for: in the encoded unit cube, where
    coordinates without an order differ by 1 if they are not equal. The tuner is told its value under the setting that
    it asked for.

    Parameters
    ----------
    space
        Space of an environment: a box or a finite space with coordinates, a `SearchSpace` or `Settings`.

    Raises
    ------
    ValueError
        If the space has arms without coordinates, or a `where` and no list of settings.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.search = space.space if isinstance(space, sb.Settings) else space if space.named else None
        if not space.has_coordinates:
            raise ValueError("space: got arms without coordinates; allowed: a space with parameters or coordinates")
        self.parameters: Parameters
        if self.search is not None:
            self.parameters = {
                n: parameter_of(kind) for n, kind in zip(self.search.names, self.search.kinds, strict=True)
            }
        else:
            self.parameters = {f"x{i}": _side(low, high) for i, (low, high) in enumerate(self._bounds())}
        self._listed = None if self._is_product else self._encoded(self.space.finite.points())
        if self._listed is None and self.search is not None and self.search.where is not None:
            raise ValueError("space: got a `where`, which peers do not know; allowed: none, or a list of settings")

    def _bounds(self) -> np.ndarray:
        """Return the smallest and the largest coordinate of the points, (d, 2)."""
        if self.space.box is not None:
            return self.space.box
        points = self.space.finite.points()
        return np.stack([points.min(axis=0), points.max(axis=0)], axis=1)

    @property
    def _is_product(self) -> bool:
        """Whether every setting of the parameters is in the space."""
        finite = self.space.finite
        if finite is None:
            return True
        return self.search is not None and finite.distinct and finite.size == self.search.size

    def _encoded(self, points: np.ndarray) -> np.ndarray:
        """Return points (k, d) as coordinates (k, D) from 0 to 1; those without an order are positions."""
        if self.search is not None:
            return self.search.encode(points)
        low, high = self._bounds().T
        return (points - low) / np.where(high > low, high - low, 1.0)

    def point(self, asked: Setting) -> Any:
        """Return the x of the environment that a setting stands for: a dict of named parameters, or a point (d,)."""
        if self.search is None:
            numbers = np.array([asked[name] for name in self.parameters], dtype=float)
        else:
            each = zip(self.search.names, self.search.kinds, strict=True)
            numbers = np.array([_number(kind, self.parameters[name], name, asked[name]) for name, kind in each])
        if self._listed is not None:
            numbers = self.space.finite.points([self._nearest(numbers)])[0]
        return self.space.argument(numbers)

    def _nearest(self, numbers: np.ndarray) -> int:
        """Return the number of the listed setting nearest to a point (d,); the first, if there are several."""
        away = self._listed - self._encoded(numbers[None])
        unordered = list(self.space.unordered)
        away[:, unordered] = away[:, unordered] != 0.0
        return int(np.argmin((away**2).sum(axis=1)))


def parameter_of(kind: Kind) -> Parameter:
    """Return a parameter of the package as peers see it; an order of other things than numbers is one of positions."""
    if isinstance(kind, sb.Real | sb.Integer):
        if kind.low == kind.high:
            return [kind.low]
        return Interval(kind.low, kind.high, kind.log, isinstance(kind, sb.Integer))
    values = list(kind.values)
    if isinstance(kind, sb.Ordinal):
        return values if all(isinstance(value, int | float) for value in values) else list(range(len(values)))
    words = [str(value) for value in values]
    return words if len(set(words)) == len(words) else [f"{i}: {word}" for i, word in enumerate(words)]


def _side(low: float, high: float) -> Parameter:
    return Interval(float(low), float(high)) if low < high else [float(low)]


def _number(kind: Kind, parameter: Parameter, name: str, value: Any) -> float:
    """Return the package's number of a value that a peer asked for."""
    return kind.number(name, value) if isinstance(parameter, tuple) else kind.first + parameter.index(value)
