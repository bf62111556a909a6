"""Journals in zarr arrays, for stores that can only replace whole objects."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from scalable_bandits.store.locations import Location

SEGMENT = 65_536  # bytes
SEGMENTS = 16_384  # limit of an array's length


class ArrayJournal:
    """Journal in a zarr array of bytes; an append rewrites the last segment.

    The last byte written is never zero and all bytes after it are zero, so that the end can be found.

    Parameters
    ----------
    location
        Location of the run.
    path
        Path of the array in the zarr store.
    """

    def __init__(self, location: Location, path: str):
        self._location, self._path = location, path
        self._array: Any = None
        self._generation = -1
        self._size = -1  # unknown until the journal is read or made
        self._last = b""  # bytes in the last segment

    def _open(self) -> Any:
        """Return the array, opened again after each transaction of the location."""
        if self._array is None or self._generation != self._location.generation:
            self._array, self._generation = (
                self._location.column(self._path, self._document()),
                self._location.generation,
            )
        return self._array

    @staticmethod
    def _document() -> dict[str, Any]:
        """Return the zarr metadata of the array."""
        return {
            "zarr_format": 3, "node_type": "array", "shape": [SEGMENT * SEGMENTS], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SEGMENT]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {}, "dimension_names": None,
            "storage_transformers": [],
        }  # fmt: skip

    def read(self) -> bytes | None:
        keys = self._location.keys(f"{self._path}/")  # icechunk can list whole arrays only
        numbers = [int(key.rpartition("/")[2]) for key in keys if key.startswith(f"{self._path}/c/")]
        if not numbers:
            return None
        array, pieces = self._open(), []
        for number in range(max(numbers) + 1):
            try:
                pieces.append(array[number * SEGMENT : (number + 1) * SEGMENT].tobytes())
            except OSError:  # the store cannot be reached
                raise
            except Exception:  # damaged segment: its frames count as missing
                pieces.append(bytes(SEGMENT))
        data = b"".join(pieces).rstrip(b"\0")
        self._size, self._last = len(data), data[len(data) // SEGMENT * SEGMENT :]
        return data

    def create(self, data: bytes) -> None:
        self.remove()
        self._location.put_document(self._path, self._document())
        self._size, self._last = 0, b""
        self.append(data)

    def append(self, data: bytes) -> None:
        if self._size < 0:
            self.read()
        grown = self._last + data
        start, size = self._size - len(self._last), -(-len(grown) // SEGMENT) * SEGMENT
        if start + size > SEGMENT * SEGMENTS:
            raise OSError(f"a journal in an array holds at most {SEGMENT * SEGMENTS} bytes")
        self._write(start, grown.ljust(size, b"\0"))
        self._size += len(data)
        self._last = grown[len(grown) // SEGMENT * SEGMENT :]

    def _write(self, start: int, data: bytes) -> None:
        """Write whole segments in order, so that a killed process leaves a prefix of them."""
        array = self._open()
        for offset in range(0, len(data), SEGMENT):
            piece = np.frombuffer(data[offset : offset + SEGMENT], np.uint8)
            array[start + offset : start + offset + SEGMENT] = piece

    def mark(self) -> Any:
        return (self._size, self._last)

    def rewind(self, mark: Any) -> None:
        size, last = mark
        if size >= 0:
            start = size - len(last)
            after = max(self._size, size + 1) - start
            self._write(start, last.ljust(-(-max(after, 1) // SEGMENT) * SEGMENT, b"\0"))
        self._size, self._last = mark

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._location.delete(self._path)
        self._array = None

    def close(self) -> None:
        pass
