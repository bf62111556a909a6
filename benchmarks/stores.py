"""What is written: rows of rounds by our store, by plain zarr, one by one and in blocks."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr

from scalable_bandits.store import Field, ObservationStore
from scalable_bandits.store.layout import CHUNK

FIELDS = (Field("x", shape=(6,), dimensions=("dimension",)), Field("y"))


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on the disk where temporary files go, gone afterwards."""
    made = Path(tempfile.mkdtemp(prefix="benchmark"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 6), uniform, and normal values."""
    rng = np.random.default_rng(0)
    return rng.random((count, 6)), rng.standard_normal(count)


def seconds_of(write: Callable[[Path], None]) -> float:
    """Time to write into a new folder."""
    with folder() as place:
        started = time.perf_counter()
        write(place / "run.zarr")
        return time.perf_counter() - started


def bulk(place: Path, x: np.ndarray, y: np.ndarray) -> None:
    """Plain zarr: every array in one write, with zarr's defaults and our chunks; nothing is made durable."""
    group = zarr.create_group(place)
    for name, values in (("round", np.arange(1, len(y) + 1)), ("x", x), ("y", y)):
        group.create_array(name, data=values, chunks=(CHUNK, *values.shape[1:]))


def blocks(place: Path, x: np.ndarray, y: np.ndarray, size: int) -> None:
    """Our store, in blocks; durable as it goes."""
    with ObservationStore.create(place, FIELDS, specification={}, planned=len(y)) as store:
        for start in range(0, len(y), size):
            store.append({"x": x[start : start + size], "y": y[start : start + size]})


def plain_appends(place: Path, x: np.ndarray, y: np.ndarray, size: int) -> None:
    """Plain zarr, `append` after `append`: not durable, and torn by a crash."""
    group = zarr.create_group(place)
    arrays = {
        name: group.create_array(name, shape=(0, *shape), chunks=(CHUNK, *shape), dtype=kind)
        for name, shape, kind in (("round", (), "int64"), ("x", (6,), "float64"), ("y", (), "float64"))
    }
    for start in range(0, len(y), size):
        stop = min(start + size, len(y))
        arrays["round"].append(np.arange(start + 1, stop + 1))
        arrays["x"].append(x[start:stop])
        arrays["y"].append(y[start:stop])


def one_by_one(place: Path, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Seconds of each durable append of one round."""
    taken = np.empty(len(y))
    with ObservationStore.create(place, FIELDS, specification={}, durability="round") as store:
        for i in range(len(y)):
            started = time.perf_counter()
            store.append({"x": x[i : i + 1], "y": y[i : i + 1]})
            taken[i] = time.perf_counter() - started
    return taken
