"""The arrays of a run that is being written: they grow, and their chunks are written in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from scalable_bandits.store.layout import ROUND, WHOLE, count_document, field_document, fields_of
from scalable_bandits.store.locations import Location
from scalable_bandits.store.rows import Columns

THREADS = 4  # number of threads that write the fields of a chunk


class ArrayWriter:
    """Arrays of all fields, of the round numbers, and of the number of committed rounds.

    Attributes
    ----------
    length
        Number of rounds that the arrays have room for.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any]):
        self.length = 0
        self._location, self._attributes = location, attributes
        self._fields, self._chunk = (ROUND, *fields_of(attributes)), attributes["chunk"]
        self._opened: dict[str, Any] = {}  # arrays by name
        self._opened_at = (-1, -1)  # generation of the location and length when they were opened
        self._uneven = False  # whether `resize` was interrupted
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[Future[None]] = []  # the latest writes

    def array(self, name: str) -> Any:
        """Return an array by name, opened again after each transaction of the location."""
        if self._opened_at != (self._location.generation, self.length):
            self._opened_at, self._opened = (self._location.generation, self.length), {}
        if name not in self._opened:
            field = next((f for f in self._fields if f.name == name), None)
            document = count_document(self._attributes)
            if field is not None:
                document = field_document(field, self._chunk, self.length, self._location.separator)
            self._opened[name] = self._location.column(name, document)
        return self._opened[name]

    def resize(self, length: int) -> None:
        """Set the length of the arrays."""
        if length == self.length and not self._uneven:
            return
        arrays = [self.array(field.name) for field in self._fields]
        self._uneven = True  # until all arrays have the new length
        for field, array in zip(self._fields, arrays, strict=True):
            array.resize((length, *field.shape))
        self.length, self._uneven, self._opened_at = length, False, (-1, -1)

    def write(
        self, start: int, pieces: Sequence[Columns], count: int, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Write rows after the first `start` ones; the arrays grow by doubling.

        Parameters
        ----------
        start
            Number of rounds before the rows, a multiple of the chunk.
        pieces
            Arrays (k, ...) of each field except the round; all pieces but the last are whole chunks.
        count
            Number of rows in all pieces.
        meanwhile
            Function to call in this thread while the rows are being written.
        """
        stop = start + count
        if self.length < stop or self._uneven:
            self.resize(-(-max(stop, 2 * start) // self._chunk) * self._chunk)
        arrays = {field.name: self.array(field.name).with_config(WHOLE) for field in self._fields}
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        wait(self._jobs)  # left by an interrupted call
        self._jobs = []
        for piece in pieces:
            end = start + len(next(iter(piece.values())))
            columns = {ROUND.name: np.arange(start + 1, end + 1), **piece}
            where = slice(start, end)
            for name, values in columns.items():
                self._jobs.append(self._pool.submit(arrays[name].__setitem__, where, values))
            start = end
        meanwhile()
        wait(self._jobs)  # for all writes, so that none is still running when the next files are written
        for job in self._jobs:
            job.result()

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
