"""Finite spaces of named, typed parameters, such as the rows of a table."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.named import NamedSpace
from scalable_bandits.spaces.points import Points, frozen_points
from scalable_bandits.spaces.search_space import SearchSpace

MOST = 10_000_000  # combinations of values that are listed


def _search_space(given: Any) -> SearchSpace:
    made = SearchSpace(given) if isinstance(given, Mapping) else given
    if not isinstance(made, SearchSpace):
        checks.refuse("parameters", given, "a SearchSpace, or a dict of parameters by name")
    return made


@functools.lru_cache(maxsize=4)
def every_setting(space: SearchSpace) -> Settings:
    """Return the finite space of all settings of a search space; the same object, as long as it is in use."""
    return Settings(space)


@attrs.frozen(eq=False, slots=False, repr=False)
class Settings(NamedSpace, Points):
    """Finite space of listed settings of named, typed parameters; x is a dict of their values.

    Models see a setting as a point of the unit cube, as in its search space.

    Parameters
    ----------
    parameters
        `SearchSpace` that all settings belong to, or a dict of parameters by name.
    settings
        Candidates: a list of n settings (dicts), or their points (n, p) in the search space. If not given, every
        combination of values that the search space allows, the last parameter changing first. Equal settings are the
        same point.

    Raises
    ------
    ValueError
        If a setting does not belong to the search space, there is none, or all are asked for where they are more than
        ten million.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> settings = sb.Settings({"width": [16, 32, 64], "activation": ["relu", "tanh"]})
    >>> settings.size, settings.value(3)
    (6, {'width': 32, 'activation': 'tanh'})
    """

    space: SearchSpace = attrs.field(alias="parameters", converter=_search_space)
    _given: Any = attrs.field(alias="settings", default=None)
    array: Floats = attrs.field(init=False)  # points (n, p) of all candidates

    def __attrs_post_init__(self) -> None:
        self._describe(dict(self.space._parameters))
        array = frozen_points(self._combinations() if self._given is None else self._listed())
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "_given", None if self._given is None else array)

    def _listed(self) -> Floats:
        """Return the points (n, p) of the settings that were given."""
        many = isinstance(self._given, np.ndarray | list | tuple)
        if isinstance(self._given, Mapping) or not many or not len(self._given):
            checks.refuse("settings", self._given, "a list of settings (dicts), or points (n, p), at least one")
        rows = list(self._given)
        points = rows if isinstance(rows[0], Mapping) else checks.finite("settings", rows, ndim=2)
        return self.space.check(points)

    def _combinations(self) -> Floats:
        """Return the points (n, p) of all combinations of values that exist and are allowed."""
        space, size = self.space, self.space.size
        if size is None or size > MOST:
            found = "a continuous parameter" if size is None else f"{size:,} combinations"
            checks.refuse("settings", f"none, and {found}", f"a list of settings, or at most {MOST:,} combinations")
        places = np.stack(np.unravel_index(np.arange(size), space.counts), axis=1)  # type: ignore[arg-type]
        points = places + space._first
        exist = space.active(points)
        points = points[(exist | (places == 0)).all(axis=1)]  # a parameter that does not exist has its first number
        return points[space.fulfilled(points)]

    def __repr__(self) -> str:
        return f"Settings(size={self.size}, parameters={', '.join(self.names)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.space == other.space and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.space, super().__hash__()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.space, self._given)  # since unpickled arrays would be writable

    def refuse_point(self, point: Floats) -> NoReturn:
        checks.refuse("x", self.argument(point), f"one of the {self.size:,} settings of the space")

    @property
    def distinct(self) -> bool:
        return self._given is None or super().distinct

    def _having(self, key: Any, value: Any) -> NDArray[np.bool_]:
        if key not in self.names:
            checks.refuse("context", key, f"names of parameters: {', '.join(self.names)}")
        place, points = self.names.index(key), self.points()
        number = self.kinds[place].number(f"context[{key!r}]", value)
        return (points[:, place] == number) & self.active(points)[:, place]
