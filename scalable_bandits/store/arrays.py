"""The arrays of a run over rounds: chunks are compared with checksums when read, and replaced as a whole."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalable_bandits.store.errors import StoreDamaged, one_line
from scalable_bandits.store.layout import ROUND, WHOLE, compare, field_document, fields_of, group_document
from scalable_bandits.store.ledger import Contents
from scalable_bandits.store.locations import METADATA, Location
from scalable_bandits.store.rows import Columns, Rows

LARGEST_START = 2**24  # largest number of rounds that new arrays have room for
THREADS = 4  # number of threads that write the fields of a chunk


def checksum(values: NDArray[np.generic]) -> int:
    """Return the CRC-32 of the bytes (little-endian, C order) of an array (k, ...)."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return zlib.crc32(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)


class Arrays:
    """Arrays of all fields and of the round numbers of a run, whose location and contents of its ledger are given.

    Attributes
    ----------
    length
        Number of rounds that the stored arrays have room for.
    replayable
        Whether lost rounds can be simulated again to the same numbers, so that nothing after them is needed.
    """

    def __init__(self, location: Location, contents: Contents):
        self._planned = min(contents.attributes["planned"] or contents.attributes["chunk"], LARGEST_START)
        self.length = contents.state.rounds or self._planned
        self._location, self._contents = location, contents
        self._size: int = contents.attributes["chunk"]
        self._fields = {field.name: field for field in (*fields_of(contents.attributes), ROUND)}
        self._recent: dict[str, tuple[int, int, NDArray[Any]]] = {}  # first and last round, and rows, by field
        self.replayable = contents.attributes.get("kind") == "simulate"

    def _document(self, name: str, length: int) -> dict[str, Any]:
        return field_document(self._fields[name], self._size, length, self._location.separator)

    def _open(self, name: str, length: int) -> zarr.Array[Any]:
        return self._location.column(name, self._document(name, length))

    def _documents(self, length: int) -> dict[str, dict[str, Any]]:
        group = group_document(self._contents.attributes)
        return {**{name: self._document(name, length) for name in self._fields}, "": group}

    def damaged_metadata(self) -> dict[str, str]:
        """Return what is wrong with the stored metadata of the group and of all arrays, by path."""
        expected = self._documents(self._contents.state.rounds)
        return {path: why for path, document in expected.items() if (why := compare(self._location, path, document))}

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the numbers of rounds before a chunk and up to its end."""
        return number * self._size, min((number + 1) * self._size, self._contents.state.rounds)

    def key(self, name: str, number: int) -> str:
        """Return the key of a chunk."""
        numbers = (number, *(0 for _ in self._fields[name].shape))
        return f"{name}/c" + "".join(f"{self._location.separator}{i}" for i in numbers)

    # ---- reading

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read rows (k, ...) of one field; raise StoreDamaged if a chunk is lost, or is not what was written."""
        field, pieces = self._fields[name], []
        for number in range(start // self._size, -(-stop // self._size)):
            first, last = self.bounds(number)
            values, why = self._chunk(name, number)
            if why:
                hint = "the run goes on without them (a copy of all files is kept)"
                if self.replayable:
                    hint = f"the run keeps the {first} rounds before them, and plays the rest again"
                text = f"{self.key(name, number)}: rounds {first + 1} to {last} of {name!r} cannot be read ({why})"
                raise StoreDamaged(f"store {self._location.name}: {text}; with recover=True {hint}")
            pieces.append(values[max(start - first, 0) : stop - first])
        return np.concatenate(pieces) if pieces else np.empty((0, *field.shape), field.dtype)

    def _chunk(self, name: str, number: int) -> tuple[NDArray[Any], str]:
        """Return the counted rows (k, ...) of a chunk, and what is wrong with them; empty if nothing is."""
        start, stop = self.bounds(number)
        if self._recent.get(name, ())[:2] == (start, stop):
            return self._recent[name][2], ""
        try:
            values = np.asarray(self._open(name, start + self._size)[start:stop])
        except Exception as error:  # codecs raise errors of any class
            return np.empty(0), one_line(error)
        if name == ROUND.name:
            return values, "" if np.array_equal(values, np.arange(start, stop) + 1) else "its numbers are others"
        if number not in self._contents.chunks:
            return values, "its checksum cannot be read"
        if checksum(values) != self._contents.chunks[number][name]:
            file = self._location.ledger_file
            return values, f"its checksum is not the one in {file}: one of the two is missing, or was replaced"
        self._recent[name] = start, stop, values
        return values, ""

    def problems(self, number: int) -> dict[str, str]:
        """Return what is wrong with a chunk of the damaged fields; the numbers of rounds can be written again."""
        return {name: why for name in self._fields if (why := self._chunk(name, number)[1])}

    def block(self, name: str, block_id: tuple[int, ...]) -> NDArray[Any]:
        """Return a chunk (k, ...) of a field, for dask."""
        return self.read(name, *self.bounds(block_id[0]))

    def check(self, thorough: bool) -> None:
        """Raise StoreDamaged if a chunk of a field is lost: of those that are missing or, with `thorough`, of all."""
        for name in self._fields:
            for number in self._suspects(name, thorough) if name != ROUND.name else ():
                self.read(name, *self.bounds(number))

    def _suspects(self, name: str, thorough: bool) -> list[int]:
        """Return the numbers of the chunks whose key does not exist; with `thorough`, of all chunks."""
        there = set() if thorough else set(self._location.files(f"{name}/"))
        count = -(-self._contents.state.rounds // self._size)
        return [number for number in range(count) if self.key(name, number) not in there]

    # ---- writing

    def lay_out(self) -> list[str]:
        """Make the metadata of the group and of all arrays; return which of them were damaged."""
        damaged = self.damaged_metadata()
        for path, document in self._documents(self.length).items():
            if path in damaged or self._location.document(path) != document:
                self._location.put_document(path, document)
        return [f"{path}/{METADATA}".lstrip("/") + f" was made again: {why}" for path, why in damaged.items()]

    def resize(self, length: int) -> None:
        """Set the length of the arrays."""
        if length != self.length:
            for path, document in self._documents(length).items():
                self._location.put_document(path, document)
            self.length = length

    def write(self, rows: Rows) -> dict[int, dict[str, int]]:
        """Write rows that begin with a chunk; return the checksums of their chunks by field.

        What follows the rows in the last chunk is overwritten. The arrays grow to the planned length, or by doubling.
        """
        start, stop, size = rows.start, rows.stop, self._size
        if self.length < stop:
            self.resize(-(-max(stop, 2 * start, self._planned) // size) * size)
        end = min(-(-stop // size) * size, self.length)
        columns: Columns = {**rows.view(), ROUND.name: np.arange(start + 1, stop + 1)}
        with ThreadPoolExecutor(THREADS, thread_name_prefix="store") as pool:  # after an error all of them end first
            jobs = [pool.submit(self._write, name, start, end, values) for name, values in columns.items()]
            for job in jobs:
                job.result()
        return {
            (start + i) // size: {name: checksum(columns[name][i : i + size]) for name in rows.view()}
            for i in range(0, stop - start, size)
        }

    def _write(self, name: str, start: int, end: int, values: NDArray[Any]) -> None:
        """Write values (k, ...) of one field, and fill values up to `end`."""
        missing = end - start - len(values)
        if missing:  # zarr would first read the rest of a chunk that is written in part
            field = self._fields[name]
            values = np.concatenate([values, np.full((missing, *field.shape), field.fill, values.dtype)])
        self._open(name, self.length).with_config(WHOLE)[start:end] = values

    def renumber(self, thorough: bool) -> list[str]:
        """Write the numbers of rounds again where their chunk is missing or, with `thorough`, damaged; say which."""
        repairs = []
        for number in self._suspects(ROUND.name, thorough):
            if self._chunk(ROUND.name, number)[1]:
                start, stop = self.bounds(number)
                self._write(ROUND.name, start, min((number + 1) * self._size, self.length), np.arange(start, stop) + 1)
                repairs.append(f"the numbers of rounds {start + 1} to {stop} were written again")
        return repairs
