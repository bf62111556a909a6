"""Sources of candidates: arrays, iterables, tables, files of numpy, CSV and Parquet files."""

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
MANY = 16  # smallest number of bytes a candidate that look like fingerprints
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


def pieces_of(rows: Any, start: int, packed: bool, label: str | None) -> tuple[Iterator[Piece], int, int | None]:
    """Return the candidates piece by piece, the number of the first one, and the number of all if it is known.

    The first is `start` where rows are a function of it, and 0 otherwise. The parameters are those of `Pool.write`.
    """
    pieces: Iterator[Piece]
    total: int | None = None
    first = 0
    if isinstance(rows, str | os.PathLike):
        pieces, total = _of_file(Path(rows), packed, label)
    elif hasattr(rows, "columns") and hasattr(rows, "iloc"):
        total = len(rows)
        pieces = _of_table((rows.iloc[i : i + READ] for i in range(0, total, READ)), packed, label)
    elif label is not None:
        checks.refuse("label", label, "None, but for DataFrames, .csv and .parquet files")
    elif isinstance(rows, np.ndarray):
        pieces, total = _of_array(rows, packed)
    elif callable(rows):
        pieces, first = (_checked(piece, packed) for piece in rows(start)), start
    elif isinstance(rows, Iterable):
        pieces = (_checked(piece, packed) for piece in ([rows] if isinstance(rows, Mapping) else rows))
    else:
        allowed = "an array (n, d), a dict, an iterable of either, a DataFrame, a function of a number, or a path"
        checks.refuse("rows", rows, allowed)
    return pieces, first, total


def _of_array(rows: NDArray[Any], packed: bool) -> tuple[Iterator[Piece], int]:
    if not rows.ndim:
        checks.refuse("rows", f"shape (), {rows.dtype}", "an array (n, d)")
    return (_checked(rows[first : first + READ], packed) for first in range(0, len(rows), READ)), len(rows)


def _checked(given: Any, packed: bool) -> Piece:
    """Return candidates as arrays of their final types."""
    if not isinstance(given, Mapping):
        given = {"bits" if packed else "numbers": given}
        _warn_of_bits(given)
    if unknown := [name for name in given if name not in NAMES]:
        checks.refuse("rows", unknown[0], f"the names {', '.join(map(repr, NAMES))}")
    if "bits" not in given and "numbers" not in given:
        checks.refuse("rows", sorted(given), "'bits' or 'numbers', or both")
    for name, values in given.items():
        if np.ma.is_masked(values):  # numpy's conversion to an array would take what is under the mask
            checks.refuse(f"rows, {name!r}", f"{np.ma.count_masked(values)} masked values", "values without a mask")
    convert: dict[str, Callable[[Any], NDArray[Any]]] = {"bits": _bits, "numbers": _numbers, "labels": _labels}
    arrays = {name: convert[name](given[name]) for name in NAMES if name in given}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = {name: len(array) for name, array in arrays.items()}
        checks.refuse("rows", f"{lengths}", "as many rows and labels as candidates")
    return Piece(arrays)


def _warn_of_bits(given: Mapping[str, Any]) -> None:
    """Warn of fingerprints that are given as numbers: each would have a lengthscale, and none counts as a bit."""
    array = np.asarray(given.get("numbers", ()))
    if array.ndim == 2 and array.shape[1] >= MANY and array.dtype in (np.bool_, np.uint8):
        bits = "" if array.max(initial=0) > 1 else "numpy.packbits(rows, axis=1), "
        found = f"{array.shape[1]:,} numbers of type {array.dtype} a candidate"
        checks.warn(f"rows: {found}; if they are fingerprints, give packed bits: {bits}packed=True")


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
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        checks.refuse("rows, 'labels'", value, "texts, one for each candidate; without labels no 'labels'")
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


def _of_file(path: Path, packed: bool, label: str | None) -> tuple[Iterator[Piece], int | None]:
    if not path.is_file():
        checks.refuse("rows", str(path), "a file that exists")
    if path.suffix not in (".npy", ".csv", ".parquet"):
        checks.refuse("rows", str(path), "a file that ends in .npy, .csv or .parquet")
    if path.suffix == ".npy":
        if label is not None:
            checks.refuse("label", label, "None, but for DataFrames, .csv and .parquet files")
        with _reading(path):
            rows = np.lib.format.open_memmap(path, mode="r")
        return _of_array(rows, packed)
    frames = _frames_of_csv(path, label) if path.suffix == ".csv" else _frames_of_parquet(path)
    return _of_table(frames, packed, label), None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in the errors of the libraries that read its content."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a disk's, or a missing permission
            raise
        checks.refuse("rows", str(path), f"a {path.suffix} file that can be read ({one_line(error)})")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _frames_of_csv(path: Path, label: str | None) -> Iterator[Any]:
    import pandas

    types = None if label is None else {label: str}
    with _reading(path):
        # Without a header, pandas refuses a second row that is longer; with one it would make an index of what is more.
        head = pandas.read_csv(path, header=None, nrows=2, dtype=str, na_filter=False)
    if "" in head.iloc[0].tolist():
        allowed = "a name for each column: DataFrame.to_csv(index=False) writes no column of row numbers"
        checks.refuse("rows", f"{path}, with a column without a name", allowed)
    names = head.iloc[0].tolist()
    if names != [str(k) for k in range(len(names))] and all(map(_is_number, names)):
        first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        checks.refuse("rows", f"{path}, whose first line is {first}", "a first line with the names of the columns")
    options: Any = {"chunksize": READ, "dtype": types, "na_filter": False, "low_memory": False}
    with _reading(path), pandas.read_csv(path, **options) as frames:
        yield from frames


def _frames_of_parquet(path: Path) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with _reading(path), ParquetFile(path) as file:
        for batch in file.iter_batches(READ):
            yield batch.to_pandas(ignore_metadata=True)  # with what pandas had as the index: it may be the labels


def _of_table(frames: Iterable[Any], packed: bool, label: str | None) -> Iterator[Piece]:
    """Yield the candidates of a table, given in parts: numbers of all columns but one, which has the labels."""
    if packed:
        checks.refuse("packed", packed, "False for tables, which have a column for each number")
    first = 0
    for frame in frames:
        if not len(frame):
            continue
        if label is not None and label not in frame.columns:
            checks.refuse("label", label, f"a column of the table: {', '.join(map(str, frame.columns))}")
        if not frame.columns.is_unique:
            checks.refuse("rows", f"columns {frame.columns.tolist()}", "columns of different names")
        columns = [name for name in frame.columns if name != label and not str(name).startswith("__index_level_")]
        for name in columns:
            _check_column(frame[name], first)
        given: dict[str, Any] = {"numbers": frame[columns].to_numpy(dtype=np.float64)}
        yield _checked(given if label is None else {**given, "labels": frame[label].tolist()}, False)
        first += len(frame)


def _check_column(column: Any, first: int) -> None:
    """Refuse a column of a table, from candidate `first` on, with missing values or others than numbers."""
    import pandas

    if column.dtype.kind in "iufb" and not column.isna().any():
        return
    numbers = pandas.to_numeric(column, errors="coerce")
    given = f"the column {column.name!r} of {column.dtype}"
    if (wrong := numbers.isna().to_numpy()).any():
        row = int(wrong.argmax())
        shown = "no value" if (column.isna() | (column == "")).iloc[row] else repr(column.iloc[row])
        given = f"{shown} in the column {column.name!r} of candidate {first + row}, counted from 0"
    checks.refuse("rows", given, "numbers, none missing, but for the labels")
