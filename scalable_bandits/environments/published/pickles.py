"""Readers of pickled data that import nothing and call nothing that a file names.

A pickle is a program: one that is loaded as usual can run any code. These readers refuse every class and function, or
replace the few names that a pickled DataFrame of pandas has by records of what they are called with.
"""

from __future__ import annotations

import io
import lzma
import pickle
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

LARGEST = 2**30  # bytes of a file's content, which may be a thousand times smaller on disk
Column = np.ndarray[Any, np.dtype[Any]]  # (n,) numbers, or strings as objects


class _PlainUnpickler(pickle.Unpickler):
    """Reader of pickles of numbers, strings, lists and dicts alone."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"file: got {module}.{name}; allowed: numbers, strings, lists and dicts")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"file: got a persistent id, {pid!r}; allowed: numbers, strings, lists and dicts")


def read_plain(file: BinaryIO) -> Any:
    """Read a pickle that has only numbers, strings, lists and dicts; classes and functions are refused, not looked up.

    Parameters
    ----------
    file
        File that is open for reading.

    Raises
    ------
    pickle.UnpicklingError
        If the file names a class or a function, or is no pickle.
    """
    return _load(_PlainUnpickler(file))


def _load(reader: pickle.Unpickler) -> Any:
    try:
        return reader.load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a broken file raises whatever its operations on plain values raise
        raise pickle.UnpicklingError(f"file: not a pickle of the kind that is read ({error!r})") from error


class _Record:
    """What a name of the file was called with, and the state that was set."""

    name = ""

    def __init__(self, *arguments: Any):
        self.arguments, self.state = arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


FRAME = {  # names in a DataFrame that pandas 1 to 3 pickled
    "builtins.slice", "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct",
    "numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer", "numpy.dtype", "numpy.ndarray",
    "pandas._libs.internals._unpickle_block", "pandas.core.frame.DataFrame", "pandas.core.indexes.base.Index",
    "pandas.core.indexes.base._new_Index", "pandas.core.indexes.range.RangeIndex",
    "pandas.core.internals.managers.BlockManager", "pandas.DataFrame", "pandas.Index", "pandas.RangeIndex",
}  # fmt: skip
RECORDS = {name: type("Record", (_Record,), {"name": name.rpartition(".")[2]}) for name in FRAME}


class _FrameUnpickler(_PlainUnpickler):
    """Reader of a pickled DataFrame: the names that it has are recorded, and none is imported."""

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in RECORDS:
            raise pickle.UnpicklingError(f"file: got {module}.{name}; allowed: a DataFrame of numbers and strings")
        return RECORDS[f"{module}.{name}"]


def read_frame(path: Path) -> dict[str, Column]:
    """Read a DataFrame of numbers and strings from a compressed pickle (xz), and import nothing that it names.

    Parameters
    ----------
    path
        Path of the file.

    Returns
    -------
    dict of str to ndarray
        Columns (n,) by name.

    Raises
    ------
    pickle.UnpicklingError
        If the file has anything but a DataFrame of numbers and strings.
    """
    with lzma.open(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise pickle.UnpicklingError(f"{path}: it has more than {LARGEST:,} bytes")
    frame = _load(_FrameUnpickler(io.BytesIO(data)))
    try:
        return _columns(frame)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(f"{path}: not a DataFrame of numbers and strings ({error!r})") from error


def _columns(frame: Any) -> dict[str, Column]:
    """Return the columns of a recorded DataFrame: its manager has the blocks and the axes, names first."""
    blocks, axes = frame.state["_mgr"].arguments
    names = _array(axes[0].arguments[1]["data"]).tolist()
    found: dict[str, Column] = {}
    for block in blocks:
        values, places, _ = block.arguments
        where = range(*places.arguments) if places.name == "slice" else _array(places).tolist()
        for row, place in zip(_array(values), where, strict=True):
            found[names[place]] = row
    return {name: found[name] for name in names}


def _array(record: Any) -> Column:
    """Return a recorded array."""
    if record.name == "_frombuffer":
        data, dtype, shape, order = record.arguments
    else:
        _, shape, dtype, fortran, data = record.state
        order = "F" if fortran else "C"
    if isinstance(data, list):
        values = np.empty(len(data), dtype=object)
        values[:] = data
    else:
        values = np.frombuffer(data, dtype=_dtype(dtype))
    return values.reshape(tuple(shape), order="F" if order == "F" else "C")


def _dtype(record: Any) -> np.dtype[Any]:
    """Return a recorded dtype of numbers."""
    kind = np.dtype(record.arguments[0])
    if kind.hasobject:
        raise TypeError("numbers are expected")
    return kind.newbyteorder(record.state[1]) if record.state else kind
