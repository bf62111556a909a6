"""The arrays of a run that is being written: they grow, and their chunks are written in parallel."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from scalable_bandits.store.layout import ROUND, WHOLE, field_document, fields_of
from scalable_bandits.store.locations import Location
from scalable_bandits.store.rows import Columns

THREADS = 4  # number of threads that write the fields of a chunk


class ArrayWriter:
    """Arrays of all fields and of the round numbers; a chunk is replaced as a whole, never changed in place.

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
    length
        Number of rounds that the stored arrays have room for.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any], length: int):
        self.length = length
        self._location = location
        self._fields, self._chunk = (ROUND, *fields_of(attributes)), attributes["chunk"]
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: list[Future[None]] = []  # the latest writes

    def resize(self, length: int) -> None:
        """Set the length of the arrays."""
        if length != self.length:
            for field in self._fields:
                document = field_document(field, self._chunk, length, self._location.separator)
                self._location.put_document(field.name, document)
            self.length = length

    def write(self, start: int, rows: Columns) -> None:
        """Write rows from a whole number of chunks on; the arrays grow by doubling.

        Parameters
        ----------
        start
            Number of rounds before the rows, a multiple of the chunk.
        rows
            Arrays (k, ...) of each field except the round. What follows them in the last chunk is overwritten.
        """
        stop = start + len(next(iter(rows.values())))
        if self.length < stop:
            self.resize(-(-max(stop, 2 * start) // self._chunk) * self._chunk)
        end = min(-(-stop // self._chunk) * self._chunk, self.length)
        columns = {ROUND.name: np.arange(start + 1, stop + 1), **rows}
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        wait(self._jobs)  # left by an interrupted call
        self._jobs = []
        for field in self._fields:
            document = field_document(field, self._chunk, self.length, self._location.separator)
            array = self._location.column(field.name, document).with_config(WHOLE)
            values = columns[field.name]
            if end > stop:  # zarr would first read the rest of a chunk that is written in part
                rest = np.full((end - stop, *field.shape), field.fill, values.dtype)
                values = np.concatenate([values, rest])
            self._jobs.append(self._pool.submit(array.__setitem__, slice(start, end), values))
        wait(self._jobs)  # for all writes, so that none is still running when the next files are written
        for job in self._jobs:
            job.result()

    def write_numbers(self, first: int, last: int) -> None:
        """Write the numbers of rounds `first`, which begins a chunk, to `last` again."""
        document = field_document(ROUND, self._chunk, self.length, self._location.separator)
        numbers = np.arange(first, min(first - 1 + self._chunk, self.length) + 1)
        numbers[last + 1 - first :] = ROUND.fill
        self._location.column(ROUND.name, document).with_config(WHOLE)[first - 1 : first - 1 + len(numbers)] = numbers

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
