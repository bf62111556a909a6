"""What is written: rows of rounds by our store, by plain zarr, one by one and in blocks."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr

import scalable_bandits as sb
from scalable_bandits.store import Field, ObservationStore
from scalable_bandits.store.files import sync_directory
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


def synced_blocks(place: Path, x: np.ndarray, y: np.ndarray, size: int) -> None:
    """Plain zarr in blocks, each synced before the next: files that changed, their folders, and a file of the count."""
    group = zarr.create_group(place)
    arrays = {
        name: group.create_array(name, shape=(len(y), *shape), chunks=(CHUNK, *shape), dtype=kind)
        for name, shape, kind in (("round", (), "int64"), ("x", (6,), "float64"), ("y", (), "float64"))
    }
    for start in range(0, len(y), size):
        stop = min(start + size, len(y))
        arrays["round"][start:stop] = np.arange(start + 1, stop + 1)
        arrays["x"][start:stop] = x[start:stop]
        arrays["y"][start:stop] = y[start:stop]
        (place / "count").write_text(str(stop))
        for number in range(start // CHUNK, -(-stop // CHUNK)):
            for file in ("round/c", "x/c", "y/c"):
                chunk = place / file / str(number)
                sync_directory(chunk / "0" if chunk.is_dir() else chunk)
        for folder in ("round/c", "x/c", "y/c", "count", ""):
            sync_directory(place / folder)


def told(place: Path, x: np.ndarray, y: np.ndarray, size: int) -> None:
    """Our store, in blocks each of which is durable before the next, as `tell` writes them."""
    with ObservationStore.create(place, FIELDS, specification={}, planned=len(y), durability="round") as store:
        for start in range(0, len(y), size):
            store.append({"x": x[start : start + size], "y": y[start : start + size]})


def tells_and_syncs(place: Path, count: int, group: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a durable `tell`, and of a bare append and fsync of 150 bytes, in turns of some each."""
    policy, ours, bare = sb.RandomSearch(sb.Box([[0, 1]] * 6)), [], []
    with sb.record(policy, place / "run.zarr"), (place / "bare").open("ab", buffering=0) as file:
        for _ in range(count // group):
            points = policy.ask(group)
            started = time.perf_counter()
            for point in points:
                policy.tell(point, 0.5)
            ours.append((time.perf_counter() - started) / group)
            started = time.perf_counter()
            for _ in range(group):
                file.write(bytes(150))
                os.fsync(file.fileno())
            bare.append((time.perf_counter() - started) / group)
    return np.array(ours), np.array(bare)
