"""Spaces whose x is a dict of named values, and the three forms in which the package has such an x.

    setting             {"rate": 0.01, "model": "tree"}    what users give, get and see
       | parse  ^ setting
    point (p,)          [0.01, 2.0, 1.0]                  what is compared, numbered, told and stored
       | encode ^ decode
    coordinates (D,)    [0.67, 2.0, 0.5, 0.0]             what a model sees

Here "rate" is a `Real` from 1e-4 to 1e-1 on a logarithmic scale, "model" is "linear", "net" or "tree", and "depth", an
`Integer` from 1 to 12, exists for "net" alone. In a finite space, a setting also has the number of its candidate.

A setting has the values of the parameters that exist in it. A point has a number for every parameter: the value of a
real or whole number, the position of any other value in its list, and the first number where the parameter does not
exist, so that equal settings are equal points. `Coordinates` describes the coordinates.
"""

from __future__ import annotations

import functools
import graphlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import Axis, Indices, Space
from scalable_bandits.spaces.parameters import Parameter, is_nothing
from scalable_bandits.specification import nearest

ABSENT = 0.5  # coordinate of an ordered parameter that does not exist in a setting
NO_POSITION = -1.0  # coordinate of an unordered one


class Coordinates(NamedTuple):
    """Table of the D coordinates that a model sees: the value of each parameter with several, then conditions.

    Values are from 0 to 1, but for unordered parameters, whose coordinate is the position of the value. A parameter
    that does not exist in a setting is at the middle, or, if it is unordered, at -1. For each parameter with a
    condition there is another coordinate, 1 if it exists and 0 if not.
    """

    parameters: Indices  # (D,) position of the parameter to which each coordinate belongs
    values: int  # number of the coordinates that are values
    alike: dict[Parameter, list[int]]  # numbers of the coordinates of equal parameters, which are encoded together
    ordered: NDArray[np.bool_]  # (D,) whether distances mean something; else only equality does
    continuous: NDArray[np.bool_]  # (D,) whether it is the value of a continuous parameter
    bounds: Floats  # (D, 2) smallest and largest value


class NamedSpace(Space):
    """Space whose x is a dict of named, typed values, of which some may exist only under values of others.

    Base class of `SearchSpace` and `Settings`, which call `_describe`.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters.
    kinds : tuple of Parameter
        Parameters, in the order of `names`.
    counts : list of int or None
        Numbers of their values, None for continuous ones.
    """

    named: ClassVar[bool] = True
    names: tuple[str, ...]
    kinds: tuple[Parameter, ...]
    counts: list[int | None]
    _places: dict[str, int]  # positions of the parameters by name
    _first: Floats  # (p,) numbers of parameters that do not exist in a setting, so that equal settings are equal points

    def _describe(self, parameters: Mapping[str, Parameter]) -> None:
        """Set what follows from the parameters; instances are frozen otherwise."""
        names, kinds = tuple(parameters), tuple(parameters.values())
        places, first = dict(zip(names, range(len(names)), strict=True)), np.array([kind.first for kind in kinds])
        counts = [kind.count for kind in kinds]
        vars(self).update(names=names, kinds=kinds, counts=counts, _places=places, _first=first)

    @property
    def dimension(self) -> int:
        return len(self.names)

    @functools.cached_property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(kind.axis(name) for name, kind in zip(self.names, self.kinds, strict=True))

    @functools.cached_property
    def _conditions(self) -> dict[int, list[tuple[int, Floats]]]:
        """Conditions (`Parameter.when`) by the position of the parameter, after those of parameters that they name.

        A condition is a list of pairs: the position of another parameter, and its numbers (k,) under which the
        parameter exists.
        """
        found: dict[int, list[tuple[int, Floats]]] = {}
        for i, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
            title = f"when of {name!r}"
            for other, values in kind.when or ():
                if other not in self._places:
                    checks.refuse(title, other, f"a parameter of the space; {nearest(other, self.names)}")
                parent = self.kinds[self._places[other]]
                if parent.count is None:
                    checks.refuse(title, other, "a parameter with a list of values, not a Real")
                numbers = np.array([parent.number(f"{title}, {other!r}", value) for value in values])
                found.setdefault(i, []).append((self._places[other], numbers))
        others = {i: [other for other, _ in pairs] for i, pairs in found.items()}
        try:
            return {i: found[i] for i in graphlib.TopologicalSorter(others).static_order() if i in found}
        except graphlib.CycleError as error:
            circle = sorted({self.names[i] for i in error.args[1]})
            checks.refuse("when", circle, "conditions that do not depend on each other in a circle")

    def active(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k, p) of the parameters that exist at points (k, p)."""
        found = np.ones(points.shape, dtype=np.bool_)
        for i, pairs in self._conditions.items():
            for other, numbers in pairs:
                found[:, i] &= found[:, other] & np.isin(points[:, other], numbers)
        return found

    # ---- settings and points

    def parse(self, x: Any) -> tuple[Floats, bool]:
        """Convert one setting or several to points.

        Parameters
        ----------
        x
            Setting (a dict of the values of all parameters that exist in it), or a list of k settings. Points (k, p)
            are accepted too.

        Returns
        -------
        points : ndarray
            Points (k, p), one number a parameter: a real or whole number is itself, other values are positions.
        single : bool
            Whether `x` is one setting.

        Raises
        ------
        ValueError
            If a parameter is missing or unknown, or a value is not allowed.
        """
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2 and x.shape[1] == self.dimension:
            return self._checked(x), False
        single = isinstance(x, Mapping)
        settings = [x] if single else x
        if not isinstance(settings, Sequence) or not settings or not all(isinstance(s, Mapping) for s in settings):
            checks.refuse("x", x, f"a setting, a dict with {', '.join(self.names)}, or a list of settings")
        return np.array([self._point(setting) for setting in settings]), single

    def _checked(self, points: Floats) -> Floats:
        """Return points (k, p) with one number for equal settings; ValueError if one is not that of a value."""
        points = self._canonical(points)
        for name, kind, numbers in zip(self.names, self.kinds, points.T, strict=True):
            wrong = numbers[~kind.has(numbers)]
            if len(wrong):
                numbered = "" if kind.count is None else f", numbered from {kind.first:g} on"
                checks.refuse(f"x, {name!r}", wrong[0], f"{kind.allowed}{numbered}")
        return points

    def _point(self, setting: Mapping[str, Any]) -> Floats:
        for name in setting:
            if name not in self._places:
                checks.refuse("x", name, f"names of parameters; {nearest(str(name), self.names)}")
        point, exist = self._first.copy(), [True] * self.dimension
        always = (i for i in range(self.dimension) if i not in self._conditions)
        for i in (*always, *self._conditions):
            name, kind, pairs = self.names[i], self.kinds[i], self._conditions.get(i)
            exist[i] = pairs is None or all(exist[other] and point[other] in numbers for other, numbers in pairs)
            if exist[i] and name not in setting:
                checks.refuse("x", f"a setting without {name!r}", f"a value of {name!r}, {kind.allowed}")
            if exist[i]:
                point[i] = kind.number(f"x[{name!r}]", setting[name])
            elif name in setting and not is_nothing(setting[name]):
                checks.refuse(f"x[{name!r}]", setting[name], f"no value, since it exists only where {kind.condition}")
        return point

    def _fixed(self, key: Any, value: Any) -> tuple[int, float]:
        if key not in self._places:
            checks.refuse("context", key, f"names of parameters; {nearest(str(key), self.names)}")
        place = self._places[key]
        if place in self._conditions:
            checks.refuse("context", key, "a parameter without a `when`, which exists in every setting")
        return place, self.kinds[place].number(f"context[{key!r}]", value)

    def within(self, points: Floats, context: Floats | None) -> Floats:
        return points if context is None else self._canonical(super().within(points, context))

    def _canonical(self, points: Floats) -> Floats:
        exist = self.active(points)
        return (points if exist.all() else np.where(exist, points, self._first)) + 0.0

    def argument(self, point: Floats) -> dict[str, Any]:
        """Return the setting of a point (p,): the values of the parameters that exist in it, by name."""
        each = zip(self.names, self.kinds, point.tolist(), self.active(point[None])[0].tolist(), strict=True)
        return {name: kind.value(number) for name, kind, number, exists in each if exists}

    setting = argument

    def arguments(self, points: NDArray[Any]) -> list[dict[str, Any]]:
        return [self.argument(point) for point in points]

    def gather(self, values: list[Any]) -> list[dict[str, Any]]:
        return values

    # ---- coordinates

    @functools.cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates that a model sees, at least one."""
        values = [i for i, kind in enumerate(self.kinds) if kind.count != 1] or [0]
        parameters = np.array([*values, *sorted(self._conditions)], dtype=np.int64)
        ordered, continuous = np.ones(len(parameters), dtype=np.bool_), np.zeros(len(parameters), dtype=np.bool_)
        bounds, alike = np.tile([0.0, 1.0], (len(parameters), 1)), dict[Parameter, list[int]]()
        for k, i in enumerate(values):
            kind = self.kinds[i]
            alike.setdefault(kind, []).append(k)
            ordered[k], continuous[k] = kind.ordered, kind.count is None
            if not kind.ordered:
                bounds[k] = NO_POSITION, kind.last
        return Coordinates(parameters, len(values), alike, ordered, continuous, checks.frozen(bounds))

    def encode(self, points: Floats | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Floats:
        """Return the coordinates (k, D) of points (k, p), or of one setting or a list of k."""
        if not isinstance(points, np.ndarray):
            points = self.parse(points)[0]
        table, exist = self.coordinates, self.active(points)
        found = np.empty((len(points), len(table.parameters)))
        found[:, table.values :] = exist.take(table.parameters[table.values :], axis=1)
        for kind, columns in table.alike.items():
            places = table.parameters[columns]
            there = exist.take(places, axis=1)
            values = kind.encode(points.take(places, axis=1).ravel()).reshape(there.shape)
            absent = ABSENT if kind.ordered else NO_POSITION
            found[:, columns] = values if there.all() else np.where(there, values, absent)
        return found

    def decode(self, coordinates: Floats) -> Floats:
        """Return the points (k, p) of the allowed values nearest to coordinates (k, D)."""
        table, points = self.coordinates, np.tile(self._first, (len(coordinates), 1))
        for kind, columns in table.alike.items():
            found = kind.decode(coordinates.take(columns, axis=1).ravel())
            points[:, table.parameters[columns]] = found.reshape(len(points), -1)
        return self._canonical(points)

    @property
    def cube(self) -> Floats:
        return self.coordinates.bounds

    @property
    def model_dimension(self) -> int:
        return len(self.coordinates.parameters)

    @property
    def unordered(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(~self.coordinates.ordered).tolist())

    @property
    def side_lengths(self) -> Floats:
        return np.ones(self.model_dimension)
