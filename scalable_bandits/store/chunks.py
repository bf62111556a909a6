"""Chunks of a run: read from its arrays and compared with their checksums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.errors import StoreDamaged, one_line
from scalable_bandits.store.layout import ROUND, field_document, fields_of
from scalable_bandits.store.ledger import checksum
from scalable_bandits.store.locations import Location
from scalable_bandits.store.rows import Field

REPLACED = "its checksum is not that of what was written: the file was replaced by another"


class ChunkReader:
    """Reader of a run's arrays, one chunk at a time.

    Attributes
    ----------
    rounds
        Number of rounds in the arrays.
    sums
        Checksums of all fields, by chunk.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any]):
        self.rounds = 0
        self.size: int = attributes["chunk"]
        self._location, self._fields = location, fields_of(attributes)
        self._columns = {field.name: number for number, field in enumerate(self._fields)}
        self._replayable = attributes.get("kind") == "simulate"
        self.sums: Mapping[int, list[int]] = {}
        self._recent: dict[str, tuple[int, NDArray[Any]]] = {}  # number and rows of the chunk read last, by field

    def take(self, rounds: int, sums: Mapping[int, list[int]]) -> None:
        """Take over the number of rounds, and the checksums of all fields by chunk."""
        self.rounds, self.sums, self._recent = rounds, sums, {}

    @property
    def numbers(self) -> list[int]:
        """Numbers of the chunks that have checksums."""
        return sorted(number for number in self.sums if 0 <= number * self.size < self.rounds)

    def field(self, name: str) -> Field:
        """Return a field by name; the round is one too."""
        return ROUND if name == ROUND.name else self._fields[self._columns[name]]

    def key(self, name: str, number: int) -> str:
        """Return the key of a chunk."""
        numbers = (number, *(0 for _ in self.field(name).shape))
        return f"{name}/c" + "".join(f"{self._location.separator}{i}" for i in numbers)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows (k, ...) of one field, and compare their chunks with the checksums.

        Raises
        ------
        StoreDamaged
            If a chunk cannot be read, or is not what was written.
        """
        first, last = start // self.size, -(-stop // self.size)
        recent = self._recent.get(name)
        if recent is None or (first, last) != (recent[0], recent[0] + 1):
            values = self.unchecked(name, first * self.size, min(last * self.size, self.rounds))
            for number in range(first, last):
                begin = (number - first) * self.size
                if number not in self.sums:
                    raise StoreDamaged(self.damage_message(name, number, "its checksum cannot be read"))
                if checksum(values[begin : begin + self.size]) != self.sums[number][self._columns[name]]:
                    raise StoreDamaged(self.damage_message(name, number, REPLACED))
            if last != first + 1:
                return values[start - first * self.size : stop - first * self.size]
            self._recent[name] = recent = first, values
        return recent[1][start - first * self.size : stop - first * self.size].copy()

    def unchecked(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows (k, ...) of one field, or numbers of rounds, without a comparison."""
        document = field_document(
            self.field(name), self.size, -(-stop // self.size) * self.size, self._location.separator
        )
        try:
            return np.asarray(self._location.column(name, document, strict=True)[start:stop])
        except Exception as error:  # codecs raise errors of any class
            for first in range(start, stop, self.size) if stop - start > self.size else ():
                self.unchecked(name, first, min(first + self.size, stop))  # raises for the damaged one
            raise StoreDamaged(self.damage_message(name, start // self.size, one_line(error))) from error

    def damage_message(self, name: str, number: int, why: str) -> str:
        """Return the message about a chunk that cannot be read."""
        start, stop = number * self.size, min((number + 1) * self.size, self.rounds)
        where = f"{self.key(name, number)}: rounds {start + 1} to {stop} of {name!r}"
        text = f"store {self._location.name}: {where} cannot be read ({why})"
        if self._replayable:
            return f"{text}; with recover=True the run keeps the {start} rounds before them, and plays the rest again"
        return f"{text}; with recover=True the run goes on without them (a copy of all files is kept)"

    def problem(self, name: str, number: int) -> str:
        """Return what is wrong with a chunk of a field, or of the round numbers; empty if nothing is."""
        start, stop = number * self.size, min((number + 1) * self.size, self.rounds)
        try:
            if name != ROUND.name:
                self.read(name, start, stop)
            elif not np.array_equal(self.unchecked(name, start, stop), np.arange(start + 1, stop + 1)):
                return f"it does not contain the numbers {start + 1} to {stop}"
        except StoreDamaged as error:
            return str(error).partition(f"{self.key(name, number)}: ")[2].partition("; with recover")[0]
        return ""

    def missing(self, name: str) -> int | None:
        """Return the number of the first chunk whose key does not exist; None if none is missing."""
        there, count = set(self._location.keys(f"{name}/")), -(-self.rounds // self.size)
        return next((number for number in range(count) if self.key(name, number) not in there), None)

    def column(self, name: str) -> LazyColumn:
        """Return a field's rows, for dask."""
        return LazyColumn(self, name)


class LazyColumn:
    """Rows (n, ...) of a field, as an array for dask that compares what it reads with checksums."""

    def __init__(self, chunks: ChunkReader, name: str):
        self._chunks, self._name, field = chunks, name, chunks.field(name)
        self.shape, self.dtype = (chunks.rounds, *field.shape), np.dtype(field.dtype)
        self.ndim = len(self.shape)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        start, stop, step = rows.indices(self.shape[0])
        return self._chunks.read(self._name, start, max(start, stop))[(slice(None, None, step), *rest)]
