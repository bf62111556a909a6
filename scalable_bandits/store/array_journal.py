"""Where the bytes of a run's logs go if only whole objects can be put: an array."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from scalable_bandits.store.locations import Location

SEGMENT = 65_536  # bytes
SEGMENTS = 16_384  # at the most


class ArrayJournal:
    """A zarr array of bytes, for stores that put whole objects: an append rewrites its last segment.

    Bytes after the end are zero, and the last byte that was written is not.

    Parameters
    ----------
    location
        Location of the run.
    path
        Name of the array.
    """

    def __init__(self, location: Location, path: str):
        self._location, self._path = location, path
        self._array: Any = None
        self._generation = -1
        self._size = -1  # not known before it was read or made
        self._last = b""  # what the last segment holds

    def _open(self) -> Any:
        """The array, opened again where the location works in transactions."""
        if self._array is None or self._generation != self._location.generation:
            self._array, self._generation = (
                self._location.column(self._path, self._document()),
                self._location.generation,
            )
        return self._array

    @staticmethod
    def _document() -> dict[str, Any]:
        """Metadata of the array, as zarr keeps them."""
        return {
            "zarr_format": 3, "node_type": "array", "shape": [SEGMENT * SEGMENTS], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SEGMENT]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {}, "dimension_names": None,
            "storage_transformers": [],
        }  # fmt: skip

    def read(self) -> bytes | None:
        keys = self._location.keys(f"{self._path}/")  # icechunk lists whole arrays only
        numbers = [int(key.rpartition("/")[2]) for key in keys if key.startswith(f"{self._path}/c/")]
        if not numbers:
            return None
        array, pieces = self._open(), []
        for number in range(max(numbers) + 1):
            try:
                pieces.append(array[number * SEGMENT : (number + 1) * SEGMENT].tobytes())
            except Exception:  # a damaged segment: the frames in it are missing
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
            raise OSError(f"the journal holds {SEGMENT * SEGMENTS} bytes at the most")
        self._write(start, grown.ljust(size, b"\0"))
        self._size += len(data)
        self._last = grown[len(grown) // SEGMENT * SEGMENT :]

    def _write(self, start: int, data: bytes) -> None:
        """Put whole segments, one after the other: what a killed process leaves of them is a beginning."""
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
