"""The whole chunks of a run: read from its arrays, and compared with their digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store import digests as digesting
from scalable_bandits.store.digests import Digests
from scalable_bandits.store.errors import StoreDamaged, one_line
from scalable_bandits.store.frames import Contents
from scalable_bandits.store.layout import ROUND, SCHEMA, field_document, fields_of
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import CommitRecord
from scalable_bandits.store.rows import Columns

ANOTHER = "its digest is not that of what was written: the file was replaced by another"


class ChunkReader:
    """The arrays of a run, a chunk at a time.

    Attributes
    ----------
    whole
        Rounds in whole chunks.
    committed
        Rounds in the arrays, for any zarr reader.
    table
        Digests (chunks, fields) of the whole chunks, once they were asked for.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    recover
        Compare chunks only with digests that are known, where these are damaged.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any], recover: bool = False):
        self.whole = self.committed = 0
        self._location, self._recover = location, recover
        self._fields, self._size = fields_of(attributes), attributes["chunk"]
        self._replayable = attributes.get("kind") == "simulate"
        self._signed = attributes["schema"] == SCHEMA
        self._tail: tuple[int, ...] = ()
        self._chain = 0
        self._log: tuple[Contents | None, str] = None, ""
        self.table: Digests | None = None
        self._recent: dict[str, tuple[int, NDArray[Any]]] = {}  # the chunk of each field that was read last

    def set_record(self, record: CommitRecord, contents: Contents | None, file: str) -> None:
        """Be the chunks that a commit record speaks of.

        Parameters
        ----------
        record
            The commit record.
        contents
            What the log of digests holds; None of a run of an earlier schema, which has none.
        file
            Name of that log's file.
        """
        self.committed, self._tail, self._chain = record.rounds, record.tail, record.chain
        self.whole = record.rounds // self._size * self._size
        self._log, self.table, self._recent = (contents, file), None, {}

    def digests_with(self, table: Digests) -> Digests:
        """Digests (chunks, fields) of all whole chunks, with those of more chunks (k, fields) behind them."""
        known = self.digests()
        return table if known is None or not len(known) else np.concatenate([known, table])

    def key(self, name: str, number: int) -> str:
        """Key of a chunk."""
        field = next(f for f in (ROUND, *self._fields) if f.name == name)
        return f"{name}/c" + "".join(f"{self._location.separator}{i}" for i in (number, *(0 for _ in field.shape)))

    def array(self, name: str) -> Any:
        """The array of a field, by what the attributes say of it; a missing chunk is an error."""
        field = next(f for f in (ROUND, *self._fields) if f.name == name)
        length = (max(self.committed, self.whole) // self._size + 1) * self._size
        document = field_document(field, self._size, length, self._location.separator)
        return self._location.column(name, document, strict=True)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows (k, ...) of one field from whole chunks, compared with their digests.

        Raises
        ------
        StoreDamaged
            If a chunk cannot be read, or is not what was written.
        """
        first, last = start // self._size, -(-stop // self._size)
        held = self._recent.get(name)
        if held is not None and (first, last) == (held[0], held[0] + 1):
            return held[1][start - first * self._size : stop - first * self._size].copy()
        values = self.read_unchecked(name, first * self._size, last * self._size)
        table, column = self.digests(), [f.name for f in self._fields].index(name)
        other = None if table is None else digesting.first_mismatch(values, table[first:last, column], self._size)
        if other is not None:
            wrong = (first + other) * self._size
            raise StoreDamaged(self.damage_message(name, wrong, wrong + self._size, ANOTHER))
        inside = values[start - first * self._size : stop - first * self._size]
        if last == first + 1:
            self._recent[name] = first, values
            return inside.copy()
        return inside

    def read_unchecked(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows (k, ...) of one field as they are in its array; StoreDamaged if they cannot be read."""
        try:
            return np.asarray(self.array(name)[start:stop])
        except Exception as error:  # codecs raise what they like
            first = self.first_unreadable(name, start, stop)
            end = min(first + self._size, stop)
            raise StoreDamaged(self.damage_message(name, first, end, one_line(error))) from error

    def problem(self, name: str, number: int) -> str:
        """What is wrong with a whole chunk; an empty text if it is whole."""
        start = number * self._size
        try:
            values = np.asarray(self.array(name)[start : start + self._size])
        except Exception as error:  # codecs raise what they like
            return one_line(error)
        table = self.digests()
        if table is None or digesting.digest(values) == table[number, [f.name for f in self._fields].index(name)]:
            return ""
        return ANOTHER

    def damage_message(self, name: str, start: int, stop: int, why: str) -> str:
        """The message that rounds of a chunk cannot be read."""
        file = f"{self.key(name, start // self._size)}: rounds {start + 1} to {stop} of {name!r} cannot be read"
        kept = "the rounds before it can" if self._replayable else "all others can"
        hint = f"{kept} be recovered: open it with recover=True"
        return f"store {self._location.name}: {file} ({why}); {hint}"

    def first_missing(self, name: str) -> int:
        """Number of the first whole chunk that an array does not have; as many as there are, if it has all.

        Asks for names only.
        """
        there, chunks = set(self._location.keys(f"{name}/")), self.whole // self._size
        return next((i for i in range(chunks) if self.key(name, i) not in there), chunks)

    def first_unreadable(self, name: str, start: int, stop: int) -> int:
        """First chunk boundary from which on rows of a field cannot be read; `stop` if all can."""
        array = self.array(name)
        for first in range(start // self._size * self._size, stop, self._size):
            try:
                array[first : min(first + self._size, stop)]
            except Exception:
                return first
        return stop

    def last_chunk(self) -> dict[str, NDArray[Any] | str]:
        """Rows (k, ...) of each field after the whole chunks, as the last close wrote them, or what is wrong there."""
        found: dict[str, NDArray[Any] | str] = {}
        for number, field in enumerate(self._fields):
            try:
                values = np.asarray(self.array(field.name)[self.whole : self.committed])
            except Exception as error:  # codecs raise what they like
                found[field.name] = one_line(error)
                continue
            right = not self._signed or (digesting.digest(values),) == self._tail[number : number + 1]
            found[field.name] = values if right else "it is not what was written"
        return found

    def published(self) -> Columns | None:
        """Rows (k, ...) of each field after the whole chunks, as the last close wrote them; None if any are damaged."""
        rows = {name: found for name, found in self.last_chunk().items() if not isinstance(found, str)}
        return rows if len(rows) == len(self._fields) else None

    def digests(self) -> Digests | None:
        """Digests (chunks, fields) of all whole chunks; None of a run of an earlier schema, which has none.

        They are made from the chunks where their log is damaged, and believed if the commit record says the same.
        """
        contents, file = self._log
        if self.table is None and contents is not None:
            table = digesting.decode(contents, len(self._fields), self.whole // self._size)
            if table is None or digesting.chain(table) != self._chain:
                table = self.compute_digests()
                if digesting.chain(table) != self._chain and not self._recover:
                    text = f"{file} is damaged, and some chunk is not what was committed; open it with recover=True"
                    raise StoreDamaged(f"store {self._location.name}: {text}")
            self.table = table
        return self.table

    def digests_match(self) -> bool:
        """Whether the digests are those that the commit record speaks of."""
        table = self.digests()
        return table is None or digesting.chain(table) == self._chain

    def compute_digests(self) -> Digests:
        """Digests (chunks, fields) of the chunks as they are."""
        chunks = self.whole // self._size
        table = np.zeros((chunks, len(self._fields)), dtype=np.uint32)
        for i in range(chunks):
            columns = (self.read_unchecked(f.name, i * self._size, (i + 1) * self._size) for f in self._fields)
            table[i] = [digesting.digest(values) for values in columns]
        return table

    def column(self, name: str) -> Column:
        """A field's rows in whole chunks, for dask."""
        table, number = self.digests(), [f.name for f in self._fields].index(name)
        text = f"store {self._location.name}: {name}: some rounds cannot be read"
        return Column(self.array(name), self.whole, None if table is None else table[:, number], self._size, text)


class Column:
    """Rows of a field in whole chunks, for dask: an array (n, ...) that compares what it reads with its digests."""

    def __init__(self, array: Any, rounds: int, expected: NDArray[np.uint32] | None, chunk: int, damage: str):
        self._array, self._expected, self._chunk, self._damage = array, expected, chunk, damage
        self.shape, self.dtype, self.ndim = (rounds, *array.shape[1:]), array.dtype, array.ndim

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = index[0] if isinstance(index, tuple) else index
        start, stop, step = rows.indices(self.shape[0])
        first, last = start // self._chunk, -(-stop // self._chunk)
        values = np.asarray(self._array[first * self._chunk : last * self._chunk])
        if self._expected is not None:
            other = digesting.first_mismatch(values, self._expected[first:last], self._chunk)
            if other is not None:
                raise StoreDamaged(f"{self._damage} (chunk {first + other}: {ANOTHER})")
        inside = values[start - first * self._chunk : stop - first * self._chunk : step]
        return inside[(slice(None), *index[1:])] if isinstance(index, tuple) else inside
