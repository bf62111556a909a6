"""Fields of a run, and a buffer for rows that are not in its arrays yet."""

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
    """Growing buffer of rows.

    Parameters
    ----------
    fields
        Fields of the rows.
    """

    def __init__(self, fields: Sequence[Field]):
        self.fields = tuple(fields)
        self._types = [np.dtype(field.dtype) for field in self.fields]
        self.width = 8 * sum(math.prod(field.shape) for field in self.fields)  # number of bytes of a row
        self._held = self.empty(0)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def empty(self, count: int) -> Columns:
        """Return uninitialized arrays of `count` rows."""
        return {f.name: np.empty((count, *f.shape), t) for f, t in zip(self.fields, self._types, strict=True)}

    def check(self, given: Mapping[str, Any]) -> tuple[Columns, int]:
        """Return the arrays (k, ...) of all fields, and k; raise ValueError for missing, unknown or invalid fields."""
        names = [field.name for field in self.fields]
        if set(given) != set(names):
            checks.refuse("fields", sorted(given), f"exactly {', '.join(names)}")
        columns, count = {}, -1
        for field, kind in zip(self.fields, self._types, strict=True):
            array = np.asarray(given[field.name])
            if field.dtype == "int64" and array.size and (array.dtype.kind not in "iu" or (array > _LARGEST).any()):
                checks.refuse(field.name, array, "whole numbers of 64 bits")
            if array.dtype.kind not in "fiub" and array.size:
                checks.refuse(field.name, array, "numbers")
            if array.shape[1:] != field.shape or array.ndim == 0 or (count >= 0 and len(array) != count):
                rows = "k" if count < 0 else str(count)
                allowed = f"({', '.join((rows, *map(str, field.shape)))}), one row for each round"
                checks.refuse(field.name, f"shape {array.shape}", allowed)
            columns[field.name] = array.astype(kind, copy=False)
            count = len(array)
        return columns, count

    def extend(self, columns: Mapping[str, NDArray[Any]], count: int) -> None:
        """Add rows at the end."""
        needed = self._count + count
        if needed > len(next(iter(self._held.values()))):
            grown = self.empty(max(needed, 2 * self._count, 64))
            for name, array in self._held.items():
                grown[name][: self._count] = array[: self._count]
            self._held = grown
        for name, array in self._held.items():
            array[self._count : needed] = columns[name]
        self._count = needed

    def drop(self, count: int) -> None:
        """Remove the last `count` rows."""
        self._count -= count

    def view(self, start: int = 0, stop: int | None = None) -> Columns:
        """Return views of the rows from `start` to `stop`."""
        end = self._count if stop is None else min(stop, self._count)
        return {name: array[start:end] for name, array in self._held.items()}

    def after(self, count: int) -> Rows:
        """Return a copy without the first `count` rows."""
        rest = Rows(self.fields)
        rest.extend(self.view(count), self._count - count)
        return rest
