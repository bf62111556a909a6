"""Digests of chunks, which reveal a chunk that was replaced by one of another run or by an earlier one of the same run.

A digest is the CRC-32 of the bytes (little-endian, C order) of one field in one whole chunk. The digests are kept in a
log of their own. The commit record has the CRC-32 of all digests, so that a damaged log can be rebuilt from the chunks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.frames import Contents, Kind

Digests = NDArray[np.uint32]  # (chunks, fields)


def digest(values: NDArray[np.generic]) -> int:
    """Return the CRC-32 of the bytes (little-endian, C order) of an array (k, ...)."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return zlib.crc32(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)


def first_mismatch(values: NDArray[np.generic], expected: NDArray[np.uint32], chunk: int) -> int | None:
    """Return the number of the first chunk of rows (k * chunk, ...) whose digest is not the expected one (k,).

    None if all digests match.
    """
    found = (digest(values[i * chunk : (i + 1) * chunk]) == expected[i] for i in range(len(expected)))
    return next((i for i, right in enumerate(found) if not right), None)


def chain(digests: Digests, before: int = 0) -> int:
    """Return the CRC-32 of digests (chunks, fields), continued from the CRC-32 of the digests before them."""
    return zlib.crc32(digests.astype("<u4").tobytes(), before)


def encode(rows: Digests) -> bytes:
    """Return digests (chunks, fields) as bytes."""
    return rows.astype("<u4").tobytes()


def decode(contents: Contents, fields: int, chunks: int) -> Digests | None:
    """Return the digests (chunks, fields) in the frames of their log; None if some are missing."""
    table = np.zeros((chunks, fields), dtype=np.uint32)
    known = np.zeros(chunks, dtype=bool)
    for frame in contents.valid():
        if frame.kind == Kind.DIGESTS:
            rows = np.frombuffer(frame.payload, "<u4").reshape(-1, fields)[: max(chunks - frame.first, 0)]
            table[frame.first : frame.first + len(rows)] = rows
            known[frame.first : frame.first + len(rows)] = True
    return table if known.all() else None


def digest_columns(columns: Iterable[NDArray[np.generic]], chunk: int) -> Digests:
    """Return the digests (chunks, fields) of the columns (chunks * chunk, ...) of all fields."""
    pieces = [[digest(values[i : i + chunk]) for i in range(0, len(values), chunk)] for values in columns]
    return np.array(pieces, dtype=np.uint32).T.reshape(-1, len(pieces))
