"""Whole chunks of a run: read from its arrays and compared with their digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store import digests
from scalable_bandits.store.digests import Digests
from scalable_bandits.store.errors import StoreDamaged, one_line
from scalable_bandits.store.frames import Contents
from scalable_bandits.store.layout import ROUND, field_document, fields_of
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import CommitRecord
from scalable_bandits.store.rows import Columns, Field
from scalable_bandits.store.scan import NOTHING

REPLACED = "its digest is not that of what was written: the file was replaced by another"


class ChunkReader:
    """Reader of a run's arrays, one chunk at a time.

    Attributes
    ----------
    whole
        Number of rounds in whole chunks.
    committed
        Number of rounds in the arrays that any zarr reader may trust.
    table
        Digests (chunks, fields) of the whole chunks; None before they are first needed.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    recover
        Whether to go on with the digests that can be computed when those stored are damaged.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any], recover: bool = False):
        self.whole = self.committed = 0
        self._location, self._recover = location, recover
        self._fields, self._size = fields_of(attributes), attributes["chunk"]
        self._columns = {field.name: number for number, field in enumerate(self._fields)}  # of the digests
        self._replayable = attributes.get("kind") == "simulate"
        self._tail: tuple[int, ...] = ()
        self._chain = 0
        self._log: tuple[Contents, str] = NOTHING, ""
        self.table: Digests | None = None
        self._recent: dict[str, tuple[int, NDArray[Any]]] = {}  # number and rows of the chunk read last, by field

    def set_record(self, record: CommitRecord, contents: Contents, file: str) -> None:
        """Set the commit record, which says which chunks there are.

        Parameters
        ----------
        record
            Commit record.
        contents
            Contents of the log of digests.
        file
            File of the log of digests, for messages.
        """
        self.committed, self._tail, self._chain = record.rounds, record.tail, record.chain
        self.whole = record.rounds // self._size * self._size
        self._log, self.table, self._recent = (contents, file), None, {}

    def _field(self, name: str) -> Field:
        return ROUND if name == ROUND.name else self._fields[self._columns[name]]

    def key(self, name: str, number: int) -> str:
        """Return the key of a chunk."""
        field = self._field(name)
        return f"{name}/c" + "".join(f"{self._location.separator}{i}" for i in (number, *(0 for _ in field.shape)))

    def array(self, name: str) -> Any:
        """Open the array of a field, with metadata from the run's attributes; a missing chunk is an error."""
        field = self._field(name)
        length = (max(self.committed, self.whole) // self._size + 1) * self._size
        document = field_document(field, self._size, length, self._location.separator)
        return self._location.column(name, document, strict=True)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows (k, ...) of one field from whole chunks, and compare the chunks with their digests.

        Raises
        ------
        StoreDamaged
            If a chunk cannot be read, or is not what was written.
        """
        first, last = start // self._size, -(-stop // self._size)
        recent = self._recent.get(name)
        if recent is not None and (first, last) == (recent[0], recent[0] + 1):
            return recent[1][start - first * self._size : stop - first * self._size].copy()
        values = self.read_unchecked(name, first * self._size, last * self._size)
        expected = self.digests()[first:last, self._columns[name]]
        other = digests.first_mismatch(values, expected, self._size)
        if other is not None:
            wrong = (first + other) * self._size
            raise StoreDamaged(self.damage_message(name, wrong, wrong + self._size, REPLACED))
        rows = values[start - first * self._size : stop - first * self._size]
        if last == first + 1:
            self._recent[name] = first, values
            return rows.copy()
        return rows

    def read_unchecked(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows (k, ...) of one field without comparing digests; raise StoreDamaged if they cannot be read."""
        try:
            return np.asarray(self.array(name)[start:stop])
        except Exception as error:  # codecs raise errors of any class
            first = self.first_unreadable(name, start, stop)
            end = min(first + self._size, stop)
            raise StoreDamaged(self.damage_message(name, first, end, one_line(error))) from error

    def problem(self, name: str, number: int) -> str:
        """Return what is wrong with a whole chunk; empty if it is undamaged."""
        start = number * self._size
        try:
            values = np.asarray(self.array(name)[start : start + self._size])
        except Exception as error:  # codecs raise errors of any class
            return one_line(error)
        return "" if digests.digest(values) == self.digests()[number, self._columns[name]] else REPLACED

    def damage_message(self, name: str, start: int, stop: int, why: str) -> str:
        """Return the message that rounds of a chunk cannot be read."""
        file = f"{self.key(name, start // self._size)}: rounds {start + 1} to {stop} of {name!r} cannot be read"
        kept = "the rounds before it can" if self._replayable else "all others can"
        hint = f"{kept} be recovered: open it with recover=True"
        return f"store {self._location.name}: {file} ({why}); {hint}"

    def first_missing(self, name: str) -> int:
        """Return the number of the first whole chunk that an array lacks; the number of whole chunks if it has all.

        Lists keys only.
        """
        keys, chunks = set(self._location.keys(f"{name}/")), self.whole // self._size
        return next((i for i in range(chunks) if self.key(name, i) not in keys), chunks)

    def first_unreadable(self, name: str, start: int, stop: int) -> int:
        """Return the first chunk boundary after which rows of a field cannot be read; `stop` if all can be read."""
        array = self.array(name)
        for first in range(start // self._size * self._size, stop, self._size):
            try:
                array[first : min(first + self._size, stop)]
            except Exception:
                return first
        return stop

    def last_chunk(self) -> dict[str, NDArray[Any] | str]:
        """Return the rows (k, ...) of each field after the whole chunks, or what is wrong with them.

        The last close wrote these rows to the arrays.
        """
        found: dict[str, NDArray[Any] | str] = {}
        for number, field in enumerate(self._fields):
            try:
                values = np.asarray(self.array(field.name)[self.whole : self.committed])
            except Exception as error:  # codecs raise errors of any class
                found[field.name] = one_line(error)
                continue
            right = (digests.digest(values),) == self._tail[number : number + 1]
            found[field.name] = values if right else "it is not what was written"
        return found

    def published(self) -> Columns | None:
        """Return the rows (k, ...) of each field that the last close wrote after the whole chunks.

        None if any of them are damaged.
        """
        rows = {name: found for name, found in self.last_chunk().items() if not isinstance(found, str)}
        return rows if len(rows) == len(self._fields) else None

    def digests(self) -> Digests:
        """Return the digests (chunks, fields) of all whole chunks.

        If their log is damaged, they are computed from the chunks and must match the commit record.
        """
        contents, file = self._log
        if self.table is None:
            table = digests.decode(contents, len(self._fields), self.whole // self._size)
            if table is None or digests.chain(table) != self._chain:
                table = self.compute_digests()
                if digests.chain(table) != self._chain and not self._recover:
                    text = f"{file} is damaged, and at least one chunk was changed; open it with recover=True"
                    raise StoreDamaged(f"store {self._location.name}: {text}")
            self.table = table
        return self.table

    def digests_match(self) -> bool:
        """Whether the digests match the commit record."""
        return digests.chain(self.digests()) == self._chain

    def compute_digests(self) -> Digests:
        """Compute the digests (chunks, fields) of the whole chunks."""
        chunks = self.whole // self._size
        table = np.zeros((chunks, len(self._fields)), dtype=np.uint32)
        for i in range(chunks):
            columns = (self.read_unchecked(f.name, i * self._size, (i + 1) * self._size) for f in self._fields)
            table[i] = [digests.digest(values) for values in columns]
        return table

    def column(self, name: str) -> Column:
        """Return a field's rows in whole chunks, for dask."""
        expected = self.digests()[:, self._columns[name]]
        text = f"store {self._location.name}: {name}: some rounds cannot be read"
        return Column(self.array(name), self.whole, expected, self._size, text)


class Column:
    """Rows (n, ...) of a field in whole chunks, as an array for dask that compares what it reads with digests."""

    def __init__(self, array: Any, rounds: int, expected: NDArray[np.uint32], chunk: int, damage: str):
        self._array, self._expected, self._chunk, self._damage = array, expected, chunk, damage
        self.shape, self.dtype, self.ndim = (rounds, *array.shape[1:]), array.dtype, array.ndim

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = index[0] if isinstance(index, tuple) else index
        start, stop, step = rows.indices(self.shape[0])
        first, last = start // self._chunk, -(-stop // self._chunk)
        values = np.asarray(self._array[first * self._chunk : last * self._chunk])
        other = digests.first_mismatch(values, self._expected[first:last], self._chunk)
        if other is not None:
            raise StoreDamaged(f"{self._damage} (chunk {first + other}: {REPLACED})")
        found = values[start - first * self._chunk : stop - first * self._chunk : step]
        return found[(slice(None), *index[1:])] if isinstance(index, tuple) else found
