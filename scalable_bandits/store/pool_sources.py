"""Sources of candidates: arrays, iterables, files of numpy, CSV and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.errors import one_line

NAMES = ("bits", "numbers", "labels")
READ = 2**16  # candidates of a file that are read together
LONGEST_LABEL = 4096  # bytes


class Piece(NamedTuple):
    """Some consecutive candidates."""

    arrays: dict[str, NDArray[Any]]  # (k, width) each, in the order of `NAMES`

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    @property
    def row_bytes(self) -> int:
        """Bytes of a candidate, without its label."""
        return max(sum(rows.dtype.itemsize * rows.shape[1] for n, rows in self.arrays.items() if n != "labels"), 1)

    def part(self, start: int, stop: int) -> Piece:
        """Return some of the candidates."""
        return Piece({name: rows[start:stop] for name, rows in self.arrays.items()})

    @classmethod
    def joined(cls, pieces: Sequence[Piece]) -> Piece:
        """Return the candidates of several pieces; labels get the width of the longest."""
        if len(pieces) == 1:
            return pieces[0]
        if len({tuple(piece.arrays) for piece in pieces}) > 1:
            checks.refuse("rows", f"candidates with {[list(p.arrays) for p in pieces]}", "the same for all candidates")
        found = {}
        for name in pieces[0].arrays:
            parts = [piece.arrays[name] for piece in pieces]
            widest = max(part.shape[1] for part in parts)
            if name == "labels":
                parts = [np.pad(part, ((0, 0), (0, widest - part.shape[1]))) for part in parts]
            elif len({part.shape[1] for part in parts}) > 1:
                checks.refuse("rows", f"rows of {sorted({p.shape[1] for p in parts})} numbers", "rows of one length")
            elif len({part.dtype for part in parts}) > 1:
                checks.refuse("rows", f"numbers of {sorted({str(p.dtype) for p in parts})}", "numbers of one type")
            found[name] = np.concatenate(parts)
        return Piece(found)


def pieces_of(rows: Any, start: int, packed: bool, label: str | None) -> tuple[Iterator[Piece], int | None]:
    """Return the candidates from a number on, piece by piece, and the number of all if it is known.

    The parameters are those of `Pool.write`.
    """
    if isinstance(rows, str | os.PathLike):
        return _of_file(Path(rows), start, packed, label)
    if label is not None:
        checks.refuse("label", label, "None, but for .csv and .parquet files")
    if isinstance(rows, np.ndarray):
        return _of_array(rows, start, packed)
    if callable(rows):
        return (_checked(piece, packed) for piece in rows(start)), None
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        checks.refuse("rows", rows, "an array (n, d), an iterable of such, a function of a number, or a path")
    return _skipped((_checked(piece, packed) for piece in rows), start), None


def _of_array(rows: NDArray[Any], start: int, packed: bool) -> tuple[Iterator[Piece], int]:
    if not rows.ndim:
        checks.refuse("rows", f"shape (), {rows.dtype}", "an array (n, d)")
    return (_checked(rows[first : first + READ], packed) for first in range(start, len(rows), READ)), len(rows)


def _skipped(pieces: Iterable[Piece], start: int) -> Iterator[Piece]:
    """Yield the candidates of pieces without the first `start`."""
    for piece in pieces:
        if start < len(piece):
            yield piece.part(start, len(piece)) if start else piece
        start = max(start - len(piece), 0)


def _checked(given: Any, packed: bool) -> Piece:
    """Return candidates as arrays of their final types."""
    if not isinstance(given, Mapping):
        given = {"bits" if packed else "numbers": given}
    if unknown := [name for name in given if name not in NAMES]:
        checks.refuse("rows", unknown[0], f"the names {', '.join(map(repr, NAMES))}")
    if "bits" not in given and "numbers" not in given:
        checks.refuse("rows", sorted(given), "'bits' or 'numbers', or both")
    convert: dict[str, Callable[[Any], NDArray[Any]]] = {"bits": _bits, "numbers": _numbers, "labels": _labels}
    arrays = {name: convert[name](given[name]) for name in NAMES if name in given}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = {name: len(array) for name, array in arrays.items()}
        checks.refuse("rows", f"{lengths}", "as many rows and labels as candidates")
    return Piece(arrays)


def _bits(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype != np.uint8 or array.ndim != 2 or not array.shape[1]:
        allowed = "bytes (k, bytes) of packed bits, uint8, as of numpy.packbits"
        checks.refuse("rows, 'bits'", f"shape {array.shape}, {array.dtype}", allowed)
    return array


def _numbers(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "iufb" or array.dtype.itemsize > 8:
        checks.refuse("rows, 'numbers'", f"shape {array.shape}, {array.dtype}", "numbers (k, d) of at most 64 bits")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        checks.refuse("rows, 'numbers'", array[~np.isfinite(array).all(axis=1)][0].tolist(), "finite numbers")
    own = f"{array.dtype.kind.replace('b', 'u')}{array.dtype.itemsize}"  # in this machine's order of bytes
    return array.astype(own, copy=False).view(own)  # C's long long stays itself without the view; zarr lacks it


def _labels(value: Any) -> NDArray[Any]:
    texts = [_label(each) for each in value]
    if not texts:
        return np.empty((0, 1), dtype=np.uint8)
    longest = max(map(len, texts))
    return np.array(texts, dtype=f"S{longest}").view(np.uint8).reshape(len(texts), longest)


def _label(given: Any) -> bytes:
    known = isinstance(given, str) or (isinstance(given, Number) and given == given)  # NaN: a table lacks the label
    try:
        text = str(given).encode() if known else b""
    except UnicodeEncodeError:  # half of a surrogate pair
        text = b""
    if not 0 < len(text) <= LONGEST_LABEL or b"\0" in text:
        checks.refuse("rows, 'labels'", given, f"texts of 1 to {LONGEST_LABEL} bytes in UTF-8, none of them 0")
    return text


# ---- files


def _of_file(path: Path, start: int, packed: bool, label: str | None) -> tuple[Iterator[Piece], int | None]:
    if not path.is_file():
        checks.refuse("rows", str(path), "a file that exists")
    if path.suffix not in (".npy", ".csv", ".parquet"):
        checks.refuse("rows", str(path), "a file that ends in .npy, .csv or .parquet")
    if path.suffix == ".npy":
        if label is not None:
            checks.refuse("label", label, "None, but for .csv and .parquet files")
        with _reading(path):
            rows = np.lib.format.open_memmap(path, mode="r")
        return _of_array(rows, start, packed)
    if packed:
        checks.refuse("packed", packed, "False for .csv and .parquet files, which have a column for each number")
    frames = _frames_of_csv(path, label) if path.suffix == ".csv" else _frames_of_parquet(path)
    return _skipped((_of_frame(frame, label) for frame in frames if len(frame)), start), None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in the errors of the libraries that read its content."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a disk's, or a missing permission
            raise
        checks.refuse("rows", str(path), f"a {path.suffix} file that can be read ({one_line(error)})")


def _frames_of_csv(path: Path, label: str | None) -> Iterator[Any]:
    import pandas

    types = None if label is None else {label: str}
    with _reading(path):
        # Without a header, pandas refuses a second row that is longer; with one it would make an index of what is more.
        pandas.read_csv(path, header=None, nrows=2, dtype=str)
        with pandas.read_csv(path, chunksize=READ, dtype=types, na_filter=False, low_memory=False) as frames:
            yield from frames


def _frames_of_parquet(path: Path) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with _reading(path), ParquetFile(path) as file:
        for batch in file.iter_batches(READ):
            yield batch.to_pandas(ignore_metadata=True)  # with what pandas had as the index: it may be the labels


def _of_frame(frame: Any, label: str | None) -> Piece:
    """Return the candidates of a table: numbers of all columns but one, which has the labels."""
    if label is not None and label not in frame.columns:
        checks.refuse("label", label, f"a column of the file: {', '.join(map(str, frame.columns))}")
    columns = [name for name in frame.columns if name != label and not str(name).startswith("__index_level_")]
    if texts := [name for name in columns if frame[name].dtype.kind not in "iufb"]:
        allowed = "numbers, none missing, but for the labels"
        checks.refuse("rows", f"the column {texts[0]!r} of {frame[texts[0]].dtype}", allowed)
    given: dict[str, Any] = {"numbers": frame[columns].to_numpy(dtype=np.float64)}
    return _checked(given if label is None else {**given, "labels": frame[label].tolist()}, False)
