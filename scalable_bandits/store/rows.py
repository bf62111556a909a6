"""Fields of a run, and a buffer for rounds that are not in its arrays yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks

Columns = dict[str, NDArray[Any]]

_LARGEST = np.iinfo(np.int64).max
RESERVED = ("round", "committed", "inputs", "checkpoints", "bookkeeping")


class Field(NamedTuple):
    """Quantity recorded once a round."""

    name: str
    dtype: str = "float64"  # or "int64"
    shape: tuple[int, ...] = ()  # shape of one round's value
    dimensions: tuple[str, ...] = ()  # names of the axes

    @property
    def fill(self) -> float | int:
        """Fill value of the array: a value that no round has."""
        return math.nan if self.dtype == "float64" else -1


def check_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return fields as a tuple; raise ValueError unless a run can have them."""
    given = tuple(fields)
    names = [field.name for field in given]
    if not given or len(set(names)) < len(names):
        checks.refuse("fields", names, "at least one, each with a name of its own")
    for field in given:
        if not field.name.isidentifier() or field.name in RESERVED:
            checks.refuse("fields", field.name, f"a Python identifier other than {', '.join(RESERVED)}")
        if field.dtype not in ("float64", "int64"):
            checks.refuse("fields", f"{field.name} of {field.dtype}", "'float64' or 'int64'")
        if len(field.shape) != len(field.dimensions) or any(size < 1 for size in field.shape):
            given_axes = f"{field.name} of shape {field.shape} and dimensions {field.dimensions}"
            checks.refuse("fields", given_axes, "a name for each axis")
    return given


class Rows:
    """Growing buffer of the last rounds of a run: those after its first `start` rounds, up to round `stop`."""

    def __init__(self, fields: Sequence[Field], start: int = 0):
        self.fields, self.start, self.stop = tuple(fields), start, start
        self._held = self._empty(0)

    def _empty(self, count: int) -> Columns:
        return {field.name: np.empty((count, *field.shape), field.dtype) for field in self.fields}

    def check(self, given: Mapping[str, Any]) -> Columns:
        """Return the arrays (k, ...) of all fields; raise ValueError for missing, unknown or invalid fields."""
        if given.keys() != self._held.keys():
            checks.refuse("fields", sorted(given), f"exactly {', '.join(self._held)}")
        columns: Columns = {}
        count = -1
        for field in self.fields:
            array = np.asarray(given[field.name])
            if field.dtype == "int64" and array.size and (array.dtype.kind not in "iu" or (array > _LARGEST).any()):
                checks.refuse(field.name, array, "whole numbers of 64 bits")
            if array.dtype.kind not in "fiub" and array.size:
                checks.refuse(field.name, array, "numbers")
            if array.shape[1:] != field.shape or array.ndim == 0 or (count >= 0 and len(array) != count):
                rows = "k" if count < 0 else str(count)
                allowed = f"({', '.join((rows, *map(str, field.shape)))}), one row for each round"
                checks.refuse(field.name, f"shape {array.shape}", allowed)
            columns[field.name] = array.astype(field.dtype, copy=False)
            count = len(array)
        return columns

    def extend(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add rows at the end."""
        held = self.stop - self.start
        needed = held + len(next(iter(columns.values())))
        if needed > len(next(iter(self._held.values()))):
            grown = self._empty(max(needed, 2 * held, 64))
            for name, array in self._held.items():
                grown[name][:held] = array[:held]
            self._held = grown
        for name, array in self._held.items():
            array[held:needed] = columns[name]
        self.stop = self.start + needed

    def view(self, start: int = 0, stop: int | None = None) -> Columns:
        """Return views of the rows after the first `start` rounds of the run, up to round `stop`."""
        end = self.stop if stop is None else min(stop, self.stop)
        first, last = max(start - self.start, 0), max(end - self.start, 0)
        return {name: array[first:last] for name, array in self._held.items()}

    def after(self, start: int) -> Rows:
        """Return a copy without the rows of the first `start` rounds of the run."""
        rest = Rows(self.fields, start)
        rest.extend(self.view(start))
        return rest
