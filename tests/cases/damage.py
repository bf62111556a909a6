"""How files are damaged, and what is asked of a damaged run."""

import warnings

import numpy as np
import zarr

from cases import store as cases
from cases.store import CHUNK, FIELDS, assert_equal, assert_holds, rows
from scalable_bandits.store import ObservationStore

ROUNDS, WHOLE = 2 * CHUNK + 3, 2 * CHUNK
INPUT = np.arange(100.0)  # array that the specification describes
ARRAYS = ("round", *(field.name for field in FIELDS))
DATABASE = "committed/run.sqlite"


def files(folder):
    """Return every file by its name inside; no locks, nor what SQLite makes again from the others when it reads."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("writer."))
    held = {str(path.relative_to(folder)): path.read_bytes() for path in found if not path.name.endswith("-shm")}
    return {name: data for name, data in held.items() if data or not name.endswith("-wal")}


def without(start, stop, count):
    """Return rows of the run but for some."""
    parts = rows(0, start), rows(stop, count)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def assert_plain(folder, count):
    """Check what zarr alone reads of a closed run."""
    group = zarr.open_group(folder, mode="r")
    assert_equal({field.name: group[field.name][:] for field in FIELDS}, rows(0, count))
    np.testing.assert_array_equal(group["round"][:], np.arange(1, count + 1))
    assert int(group["committed"][()]) == count


def assert_goes_on(folder, count, **given):
    """Open, write, close and read a run; return what was repaired."""
    with cases.repairs() as said:
        store = ObservationStore.open(folder, "a", durability="round", **given)
    with store:
        assert_holds(store, count)
        store.append(rows(count, count + 1))
        store.append(rows(count + 1, count + 20))
    assert_plain(folder, count + 20)
    with warnings.catch_warnings(action="error"):  # nothing is left to repair
        ObservationStore.open(folder, "a").close()
    assert_holds(ObservationStore.open(folder), count + 20)
    return said


def flip(data, position, bit=0):
    """Return data with one bit changed."""
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


DAMAGES = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}
