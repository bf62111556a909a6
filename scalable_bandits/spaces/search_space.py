"""Spaces of named, typed parameters."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces.axes import Axis
from scalable_bandits.spaces.base import FiniteSpace, Indices, Space
from scalable_bandits.spaces.conditions import Conditions, Constraint
from scalable_bandits.spaces.coordinates import Coordinates
from scalable_bandits.spaces.parameters import Parameter, is_nothing
from scalable_bandits.spaces.parameters_from import to_parameters
from scalable_bandits.spaces.points import Points
from scalable_bandits.spaces.rejection import accepted
from scalable_bandits.specification import nearest

SAMPLE = 256  # number of settings in a sample


@attrs.frozen(slots=False, repr=False)
class SearchSpace(Space):
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

    named: ClassVar[bool] = True
    by_name: ClassVar[frozenset[str]] = frozenset(["parameters"])
    in_order: ClassVar[frozenset[str]] = frozenset(["parameters"])
    identified: ClassVar[frozenset[str]] = frozenset(["where"])

    _parameters: tuple[tuple[str, Parameter], ...] = attrs.field(converter=to_parameters)
    where: Callable[[dict[str, Any]], bool] | None = attrs.field(default=None)

    def __attrs_post_init__(self) -> None:
        if self.where is not None and not callable(self.where):
            checks.refuse("where", self.where, "a function of a setting, or None")
        _ = self._conditions  # raises ValueError if a condition is invalid

    def __repr__(self) -> str:
        where = "" if self.where is None else f", where={self.where!r}"
        return f"{type(self).__name__}({dict(self._parameters)!r}{where})"

    def parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = {"parameters": dict(self._parameters)}
        return given if self.where is None else {**given, "where": self.where}

    # ---- the parameters

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(name for name, _ in self._parameters)

    @functools.cached_property
    def kinds(self) -> tuple[Parameter, ...]:
        """Parameters, in the order of `names`."""
        return tuple(kind for _, kind in self._parameters)

    @functools.cached_property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(kind.axis(name) for name, kind in self._parameters)

    @functools.cached_property
    def _conditions(self) -> Conditions:
        return Conditions(self.names, self.kinds)

    def active(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k, p) of the parameters that exist at points (k, p)."""
        return self._conditions.active(points)

    @property
    def smooth(self) -> bool:
        """Whether all parameters are continuous and exist always, and every setting is allowed."""
        always = not any(self._conditions.pairs) and self.where is None
        return always and all(kind.count is None for kind in self.kinds)

    @property
    def size(self) -> int | None:
        """Number of combinations of values, without regard to conditions; None with a continuous parameter."""
        total = 1
        for kind in self.kinds:
            if kind.count is None:
                return None
            total *= kind.count
        return total

    # ---- settings and points

    def check(self, x: Any) -> Floats:
        points, _ = self.parse(x)
        for point in points if self.where is not None else ():
            if not self._fulfils(point):
                checks.refuse("x", self.setting(point), "a setting for which `where` is true")
        return points

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
            if name not in self.names:
                checks.refuse("x", name, f"names of parameters; {nearest(str(name), self.names)}")
        point, exist = self._first.copy(), [True] * self.dimension
        for i in self._conditions.order:
            name, kind = self._parameters[i]
            exist[i] = all(exist[other] and point[other] in numbers for other, numbers in self._conditions.pairs[i])
            if exist[i] and name not in setting:
                checks.refuse("x", f"a setting without {name!r}", f"a value of {name!r}, {kind.allowed}")
            if exist[i]:
                point[i] = kind.number(f"x[{name!r}]", setting[name])
            elif name in setting and not is_nothing(setting[name]):
                checks.refuse(f"x[{name!r}]", setting[name], f"no value, since it exists only where {kind.condition}")
        return point

    @functools.cached_property
    def _first(self) -> Floats:
        """Numbers (p,) of parameters that do not exist in a setting, so that equal settings are equal points."""
        return np.array([kind.first for kind in self.kinds])

    def _canonical(self, points: Floats) -> Floats:
        exist = self.active(points)
        return (points if exist.all() else np.where(exist, points, self._first)) + 0.0

    def setting(self, point: Floats) -> dict[str, Any]:
        """Return the setting of a point (p,): the values of the parameters that exist in it, by name."""
        exist = self.active(point[None])[0]
        return {
            name: kind.value(number)
            for (name, kind), number, exists in zip(self._parameters, point.tolist(), exist, strict=True)
            if exists
        }

    def argument(self, point: Floats) -> dict[str, Any]:
        return self.setting(point)

    @functools.cached_property
    def _constraint(self) -> Constraint:
        return Constraint(self.where)

    def _fulfils(self, point: Floats) -> bool:
        """Return whether `where` is true at a point (p,)."""
        return self._constraint.fulfilled(point, self.setting)

    def fulfilled(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k,) of the points (k, p) for which `where` is true."""
        return np.fromiter((self._fulfils(point) for point in points), dtype=np.bool_, count=len(points))

    def first_fulfilled(self, points: Floats, count: int) -> Indices:
        """Return the positions of the first points (k, p) with `where` true, at most `count`; look no further."""
        allowed = (i for i, point in enumerate(points) if self._fulfils(point))
        return np.fromiter(itertools.islice(allowed, count), dtype=np.int64)

    # ---- coordinates

    @functools.cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates that a model sees."""
        return Coordinates(self.kinds, [bool(pairs) for pairs in self._conditions.pairs])

    def encode(self, points: Floats) -> Floats:
        return self.coordinates.encode(points, self.active(points))

    def decode(self, coordinates: Floats) -> Floats:
        """Return the points (k, p) of the allowed values nearest to coordinates (k, D)."""
        return self._canonical(self.coordinates.decode(coordinates))

    # ---- random settings

    def spread(self, uniform: Floats) -> Floats:
        """Return points (k, p) that are uniform on the parameters' scales, from uniform numbers (k, p) in [0, 1)."""
        columns = [kind.spread(column) for kind, column in zip(self.kinds, uniform.T, strict=True)]
        return self._canonical(np.column_stack(columns))

    def draw(self, count: int, rng: np.random.Generator, least: int | None = None) -> Floats:
        """Draw points uniformly on the parameters' scales, all with `where` true.

        Parameters
        ----------
        count
            Number of points.
        rng
            Generator of random numbers.
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
        d = self.dimension
        points, drawn = accepted(lambda n: self.spread(rng.random((n, d))), self.first_fulfilled, count, least)
        if len(points) < least:
            found = f"{len(points)} of {drawn:,}"
            checks.refuse("where", self.where, f"a condition that more of the settings fulfil: {found} did")
        return points

    def sample(self, seed: int) -> Floats:
        return self.draw(SAMPLE, np.random.default_rng(derived_seed(seed, "settings")))

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

    # ---- the interface of spaces

    @property
    def cube(self) -> Floats:
        return self.coordinates.bounds

    @property
    def model_dimension(self) -> int:
        return len(self.coordinates.columns)

    @property
    def unordered(self) -> tuple[int, ...]:
        return tuple(k for k, column in enumerate(self.coordinates.columns) if not column.ordered)

    @property
    def side_lengths(self) -> Floats:
        return np.ones(self.model_dimension)

    def arguments(self, points: NDArray[Any]) -> list[dict[str, Any]]:
        return [self.setting(point) for point in points]

    def gather(self, values: list[Any]) -> list[dict[str, Any]]:
        return values

    @property
    def dimension(self) -> int:
        return len(self._parameters)

    @property
    def finite(self) -> None:
        return None

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
        from scalable_bandits.spaces.parameters_from import from_configspace

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
        from scalable_bandits.spaces.parameters_from import read_toml

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
        from scalable_bandits.spaces.parameters_from import to_toml

        if self.where is not None:
            checks.refuse("where", self.where, "None: functions cannot be written")
        text = to_toml(dict(self._parameters))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text
