"""Contexts: coordinates that each round gives, and a policy does not choose.

Source: Krause & Ong 2011, section 2: in round t the environment shows a context z_t, the policy chooses s_t, and the
regret is max over s of f(s, z_t) minus f(s_t, z_t).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.environments.base import Environment, tabulated
from scalable_bandits.environments.changing import MovingSearchSpace
from scalable_bandits.randomness import integers
from scalable_bandits.spaces import AvailabilitySets, FiniteSpace, Indices


class ContextualEnvironment(MovingSearchSpace):
    """Environment that gives some coordinates in every round, the context; the policy chooses the others.

    In `simulate`, the regret of a round is relative to the best candidate with the context of the round. The contexts
    of a space are the distinct values that its candidates have in the given dimensions.

    Parameters
    ----------
    environment
        Environment on a finite space with coordinates: a `Grid`, `Points` or `Settings`. It may change too, and may
        restrict the candidates itself.
    dimensions
        Dimensions of the context, counted from 0; of `Settings` the names of parameters that all settings have.
    contexts
        Values (k, c) of the c dimensions, or (k,) of a single one, such as those of a log. They are used in turn: round
        t has row (t - 1) mod k. If not given, each round draws one of the contexts of the space, all with the same
        probability: that of round t is a function of the environment's seed and t alone.

    Raises
    ------
    ValueError
        If the space is not finite or has no coordinates, a dimension does not exist, or a context is that of no
        candidate.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1], [0, 1]], shape=3)
    >>> function = sb.GPSample(space, sb.RBF(0.5), sb.GaussianNoise(0.1), seed=1)
    >>> loads = sb.ContextualEnvironment(function, dimensions=[1], contexts=[0.5, 0.5, 1.0])
    >>> [loads.context(t) for t in (1, 2, 3, 4)]
    [{1: 0.5}, {1: 0.5}, {1: 1.0}, {1: 0.5}]
    >>> run = sb.simulate(sb.GPUCB(space, sb.RBF(0.5)), loads, horizon=20)
    >>> space.points(run.candidate[:4])[:, 1].tolist()
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, environment: Environment, dimensions: Sequence[int] | Sequence[str], contexts: ArrayLike | None = None
    ):
        checks.kind("environment", environment, Environment, "an environment on a finite space")
        if environment.space.finite is None or not environment.space.has_coordinates:
            checks.refuse("environment", f"space {environment.space}", "one on a Grid, Points or Settings")
        self._space = tabulated(environment.space)
        self.dimensions, columns = _columns(self._space, dimensions)
        coordinates = self._space.points()[:, columns]
        _, firsts, groups = np.unique(coordinates, axis=0, return_index=True, return_inverse=True)
        self._firsts: Indices = firsts  # a candidate of each context
        self._groups: Indices = groups.reshape(-1)  # (size,) number of each candidate's context
        self.contexts: Any = None  # as given, for a specification
        self._rounds: Indices | None = None  # (k,) numbers of the contexts that are used in turn
        if contexts is not None:
            self.contexts, rows = _rows(contexts, len(columns), self._space.named)
            self._rounds = self._numbers_of(rows)
        super().__init__(environment, self._group_at)

    def parameters(self) -> dict[str, Any]:
        return {"environment": self.environment, "dimensions": self.dimensions, "contexts": self.contexts}

    def context(self, t: int) -> dict[Any, Any]:
        """Return the context of round t >= 1, as `ask` takes it: values by dimension, or by the name of a parameter."""
        number = int(self._numbers(checks.integer("t", t, 1), 1)[0])
        return self._values(int(self._firsts[number]))

    def _values(self, candidate: int) -> dict[Any, Any]:
        """Return a candidate's values of the dimensions."""
        x = self._space.value(candidate)
        return {key: x[key] if self._space.named else float(x[key]) for key in self.dimensions}

    def _numbers_of(self, rows: list[tuple[Any, ...]]) -> Indices:
        """Return the numbers (k,) of contexts; ValueError for one that no candidate has."""
        found = dict.fromkeys(rows, -1)
        for row in found:
            mask = self._space.matching(dict(zip(self.dimensions, row, strict=True)))
            found[row] = int(self._groups[mask.argmax()])
        return np.array([found[row] for row in rows], dtype=np.int64)

    def _numbers(self, first: int, count: int) -> Indices:
        """Return the numbers (count,) of the contexts of the rounds from `first` on."""
        if self._rounds is None:
            return integers(self.seed, "contexts", first, count, len(self._firsts))
        return self._rounds[np.arange(first - 1, first - 1 + count) % len(self._rounds)]

    def _group_at(self, t: int) -> ArrayLike:
        """Return the mask (size,) of the candidates with the context of round t."""
        return self._groups == self._numbers(t, 1)[0]

    @functools.cached_property
    def _sets(self) -> AvailabilitySets:
        return AvailabilitySets.of_groups(self._groups)


def _columns(space: FiniteSpace, dimensions: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Check the dimensions of a context; return them, and the columns (c,) of the space's points that they are."""
    if not isinstance(dimensions, list | tuple | np.ndarray) or not len(dimensions):
        checks.refuse("dimensions", dimensions, "a list of dimensions, or of names of parameters, at least one")
    if space.named:
        names = [axis.name for axis in space.axes]
        for each in dimensions:
            if each not in names:
                checks.refuse("dimensions", each, f"names of parameters: {', '.join(names)}")
        keys, columns = tuple(dimensions), [names.index(each) for each in dimensions]
        if not space.active(space.points())[:, columns].all():
            checks.refuse("dimensions", dimensions, "parameters that all settings have")
    else:
        columns = [checks.integer("dimensions", each, 0, space.dimension - 1) for each in dimensions]
        keys = tuple(columns)
    if len(set(columns)) < len(columns):
        checks.refuse("dimensions", dimensions, "distinct ones")
    return keys, columns


def _rows(contexts: Any, count: int, named: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    """Check a table of contexts (k, c) or (k,); return it for a specification, and its rows."""
    given = contexts.tolist() if hasattr(contexts, "tolist") else contexts
    allowed = f"rows of {count} values, one a dimension, at least one row"
    if not isinstance(given, list | tuple) or not given:
        checks.refuse("contexts", contexts, allowed)
    rows = [tuple(row) if isinstance(row, list | tuple) else (row,) for row in given]
    if any(len(row) != count for row in rows):
        checks.refuse("contexts", contexts, allowed)
    if not named:
        table = checks.frozen(checks.finite("contexts", rows, ndim=2))
        return table, list(map(tuple, table.tolist()))
    if not all(isinstance(value, str | int | float) for row in rows for value in row):
        checks.refuse("contexts", contexts, "words, numbers and booleans")
    return tuple(rows), rows
