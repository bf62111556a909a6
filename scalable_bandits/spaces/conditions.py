"""Conditions under which the parameters of a search space exist, and under which a setting is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.parameters import Parameter
from scalable_bandits.specification import nearest

MOST_ANSWERS = 10_000  # largest number of answers of `where` that are kept


class Conditions:
    """Conditions of all parameters (`Parameter.when`).

    Parameters
    ----------
    names, kinds
        Names of the parameters, and the parameters.

    Attributes
    ----------
    pairs : tuple
        For each parameter the pairs of another one's position and the numbers (k,) under which it exists.
    order : tuple of int
        Positions of the parameters, each after those that its condition names.

    Raises
    ------
    ValueError
        If a condition names an unknown or a continuous parameter, or a value that is not allowed, or if conditions
        depend on each other in a circle.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[Parameter]):
        self._names, self._kinds = names, kinds
        self._places = {name: i for i, name in enumerate(names)}
        self.pairs = tuple(self._pairs_of(name, kind) for name, kind in zip(names, kinds, strict=True))
        self.order = self._sorted()

    def _pairs_of(self, name: str, kind: Parameter) -> tuple[tuple[int, Floats], ...]:
        title, pairs = f"when of {name!r}", []
        for other, values in kind.when or ():
            if other not in self._places:
                checks.refuse(title, other, f"a parameter of the space; {nearest(other, self._places)}")
            parent = self._kinds[self._places[other]]
            if parent.count is None:
                checks.refuse(title, other, "a parameter with a list of values, not a Real")
            numbers = [parent.number(f"{title}, {other!r}", value) for value in values]
            pairs.append((self._places[other], np.array(numbers)))
        return tuple(pairs)

    def _sorted(self) -> tuple[int, ...]:
        order: list[int] = []
        while len(order) < len(self._names):
            ready = [
                i for i, pairs in enumerate(self.pairs)
                if i not in order and all(other in order for other, _ in pairs)
            ]  # fmt: skip
            if not ready:
                left = [name for i, name in enumerate(self._names) if i not in order]
                checks.refuse("when", left, "conditions that do not depend on each other in a circle")
            order += ready
        return tuple(order)

    def active(self, points: Floats) -> NDArray[np.bool_]:
        """Return the mask (k, p) of the parameters that exist at points (k, p)."""
        found = np.ones(points.shape, dtype=np.bool_)
        for i in self.order:
            for other, numbers in self.pairs[i]:
                found[:, i] &= found[:, other] & np.isin(points[:, other], numbers)
        return found


class Constraint:
    """A user's `where`, which is asked once about a setting: its last answers are kept.

    Parameters
    ----------
    where
        Function of a setting that is true if the setting is allowed; None: all are.
    """

    def __init__(self, where: Callable[[dict[str, Any]], bool] | None):
        self._where = where
        self._answers: dict[bytes, bool] = {}  # by the bytes of the points

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._where,)  # copies and workers ask again

    def fulfilled(self, point: Floats, setting_of: Callable[[Floats], dict[str, Any]]) -> bool:
        """Return whether `where` is true at a point (p,); an error in it, or another answer, is one of the user's."""
        if self._where is None:
            return True
        known = self._answers.get(key := point.tobytes())
        if known is not None:
            return known
        setting = setting_of(point)
        try:
            answer = self._where(setting)
        except Exception as error:
            without = "parameters that do not exist in a setting are not in the dict"
            raise ValueError(f"where: it raised {error!r} for {setting}; {without}") from error
        found = checks.flag("result of where", answer)
        if len(self._answers) >= MOST_ANSWERS:
            self._answers.clear()
        self._answers[key] = found
        return found
