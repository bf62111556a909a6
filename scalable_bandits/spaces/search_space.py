"""Spaces of named, typed parameters, and finite spaces of listed settings of these, such as the rows of a table."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces.base import SPREAD, FiniteSpace, Indices
from scalable_bandits.spaces.finite import Points, frozen_points
from scalable_bandits.spaces.named import NamedSpace
from scalable_bandits.spaces.parameters import Parameter
from scalable_bandits.spaces.parameters_from import from_configspace, read_toml, to_parameters, to_toml

MOST_ANSWERS = 10_000  # largest number of answers of `where` that are kept
LISTED = 10_000_000  # combinations of values that are listed
MOST_DRAWS = 204_800  # number of points, or 100 times as many as are asked for, after which none more is drawn
ENOUGH_DRAWS = 8  # so many for each that is asked for, where fewer will do


@attrs.frozen(slots=False, repr=False)
class SearchSpace(NamedSpace):
    """Space of named, typed parameters; x is a dict of their values.

    Nothing is enumerated: a space may have any number of settings. Models see every setting as a point of the unit
    cube (`encode`).

    Parameters
    ----------
    parameters
        Parameters by name: `Real`, `Integer`, `Ordinal`, `Categorical`, `Boolean`; or what can be converted to one: a
        dict with a "type", a list of values (`Ordinal` if they are numbers that only rise or only fall, else
        `Categorical`), a distribution of scipy.stats (uniform, loguniform, randint) or of Optuna, a hyperparameter of
        ConfigSpace. Their order is that of stored points.
    where
        Function of a setting (a dict) that is true if it is allowed, whose answers are kept; if not given, all are.

    Raises
    ------
    ValueError
        If there is no parameter, one is not a parameter and cannot be converted, or a `when` names a parameter or a
        value that does not exist, or itself.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.SearchSpace({"rate": sb.Real(1e-4, 1e-1, log=True), "depth": sb.Integer(1, 12)})
    >>> space.setting(space.check({"rate": 0.01, "depth": 3})[0])
    {'rate': 0.01, 'depth': 3}
    """

    by_name: ClassVar[frozenset[str]] = frozenset(["parameters"])
    identified: ClassVar[frozenset[str]] = frozenset(["where"])

    _parameters: tuple[tuple[str, Parameter], ...] = attrs.field(converter=to_parameters)
    where: Callable[[dict[str, Any]], bool] | None = attrs.field(default=None)

    def __attrs_post_init__(self) -> None:
        if self.where is not None and not callable(self.where):
            checks.refuse("where", self.where, "a function of a setting, or None")
        self._describe(dict(self._parameters))
        _ = self._conditions  # raises ValueError if a condition is invalid

    def __repr__(self) -> str:
        where = "" if self.where is None else f", where={self.where!r}"
        return f"{type(self).__name__}({dict(self._parameters)!r}{where})"

    def parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = {"parameters": dict(self._parameters)}
        return given if self.where is None else {**given, "where": self.where}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._parameters, self.where)  # copies and workers ask `where` again

    @property
    def smooth(self) -> bool:
        """Whether all parameters are continuous and exist always, and every setting is allowed."""
        return not self._conditions and self.where is None and set(self.counts) == {None}

    @property
    def size(self) -> int | None:
        """Number of combinations of values, without regard to conditions; None with a continuous parameter."""
        return None if None in self.counts else math.prod(self.counts)  # type: ignore[arg-type]

    # ---- allowed settings

    def check(self, x: Any) -> Floats:
        points, _ = self.parse(x)
        allowed = self.fulfilled(points)
        if not allowed.all():
            checks.refuse("x", self.setting(points[~allowed][0]), "a setting for which `where` is true")
        return points

    @functools.cached_property
    def _answer(self) -> Callable[[bytes], bool]:
        """Function from the bytes of a point to the answer of `where`; the last answers are kept."""
        return functools.lru_cache(MOST_ANSWERS)(self._ask)

    def _ask(self, point: bytes) -> bool:
        assert self.where is not None
        setting = self.setting(np.frombuffer(point))
        try:
            answer = self.where(setting)
        except Exception as error:
            without = "parameters that do not exist in a setting are not in the dict"
            raise ValueError(f"where: it raised {error!r} for {setting}; {without}") from error
        return checks.flag("result of where", answer)

    def fulfilled(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k,) of the points (k, p) for which `where` is true."""
        if self.where is None:
            return np.ones(len(points), dtype=np.bool_)
        return np.array([self._answer(point.tobytes()) for point in points], dtype=np.bool_)

    def first_fulfilled(self, points: Floats, count: int) -> Indices:
        """Return the positions of the first points (k, p) with `where` true, at most `count`; look no further."""
        if self.where is None:
            return np.arange(min(count, len(points)))
        allowed = (i for i, point in enumerate(points) if self._answer(point.tobytes()))
        return np.fromiter(itertools.islice(allowed, count), dtype=np.int64)

    # ---- random settings

    def spread(self, uniform: Floats) -> Floats:
        """Return points (k, p) that are uniform on the parameters' scales, from uniform numbers (k, p) in [0, 1)."""
        columns = [kind.spread(column) for kind, column in zip(self.kinds, uniform.T, strict=True)]
        return self._canonical(np.column_stack(columns))

    def draw(
        self, count: int, rng: np.random.Generator, context: Floats | None = None, least: int | None = None
    ) -> Floats:  # fmt: skip
        """Draw points uniformly on the parameters' scales, all with `where` true.

        Parameters
        ----------
        count
            Number of points.
        rng
            Generator of random numbers.
        context
            Numbers (p,) that parameters have, NaN where they are free; None if all are.
        least
            Number of points that will do where few settings fulfil `where`; `count` if not given.

        Returns
        -------
        ndarray
            Points (k, p), `least` <= k <= `count`.

        Raises
        ------
        ValueError
            If hardly any setting fulfils `where`.
        """
        least = count if least is None else least
        most, size, drawn, found = max(MOST_DRAWS, 100 * count), max(count, 8), 0, 0
        kept: list[Floats] = []
        while drawn < most and found < count and not (least <= found and drawn >= ENOUGH_DRAWS * count):
            points = self.within(self.spread(rng.random((size, self.dimension))), context)
            kept.append(points[self.first_fulfilled(points, count - found)])
            drawn, found = drawn + size, found + len(kept[-1])
            size = min(2 * size, most - drawn)
        if found < least:
            allowed = f"a condition that more of the settings fulfil: {found} of {drawn:,} did"
            checks.refuse("where", self.where, allowed)
        return np.concatenate(kept)

    def sample(self, seed: int) -> Floats:
        return self.draw(SPREAD, np.random.default_rng(derived_seed(seed, "settings")))

    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        return Points(self.draw(count, np.random.default_rng(derived_seed(seed, "candidates"))))

    def neighbours(self, point: Floats, rng: np.random.Generator) -> Floats:
        """Return points (k, p) that differ from a point (p,) in the value of one parameter, whatever `where` says.

        A parameter that exists in the neighbour alone has a random value.
        """
        exist = self.active(point[None])[0]
        places = np.flatnonzero(exist)
        numbers = [self.kinds[i].neighbours(float(point[i]), rng) for i in places]
        changed = np.repeat(places, [len(each) for each in numbers])
        points = np.tile(point, (len(changed), 1))
        points[np.arange(len(changed)), changed] = np.concatenate(numbers)
        if not exist.all() and (new := self.active(points) & ~exist).any():
            points = np.where(new, self.spread(rng.random(points.shape)), points)
        return self._canonical(points)

    # ---- files and other packages

    @classmethod
    def from_configspace(cls, space: Any) -> Self:
        """Convert a `ConfigSpace.ConfigurationSpace`.

        Parameters
        ----------
        space
            Configuration space; its forbidden clauses become `where`.

        Raises
        ------
        ValueError
            If a hyperparameter is neither a number nor one of several values, or a condition is neither an equality,
            nor a membership, nor a conjunction of these.
        """
        return cls(*from_configspace(space))

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a space from a TOML file with one table a parameter, as `to_toml` writes it.

        Parameters
        ----------
        path
            Path of the file.

        Raises
        ------
        ValueError
            If the file is not TOML, or a parameter is not valid; the message names the file.
        """
        try:
            return cls(read_toml(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_toml(self, path: str | Path | None = None) -> str:
        """Return the space as TOML, and write it to a file if a path is given; an empty table stands for None.

        Parameters
        ----------
        path
            Path of the file.

        Raises
        ------
        ValueError
            If the space has a `where`, or a value that TOML does not have.
        """
        if self.where is not None:
            checks.refuse("where", self.where, "None: functions cannot be written")
        text = to_toml(dict(self._parameters))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


# ---- listed settings


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
        if size is None or size > LISTED:
            found = "a continuous parameter" if size is None else f"{size:,} combinations"
            checks.refuse("settings", f"none, and {found}", f"a list of settings, or at most {LISTED:,} combinations")
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
