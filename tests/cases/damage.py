"""How files are damaged, and what is asked of a damaged run."""

import errno
import math
import os

import numpy as np
import zarr

from cases import store as cases
from cases.store import CHUNK, FIELDS, assert_equal, assert_holds, rows
from scalable_bandits.store import ObservationStore

ROUNDS, WHOLE = 2 * CHUNK + 3, 2 * CHUNK
INPUT = np.arange(100.0)  # an array that the specification speaks of
OF_WRITER = ("writer.", "acknowledged")  # files of the writer that is there now
ARRAYS = ("round", *(field.name for field in FIELDS))


def files(folder):
    """Every file by its name inside, but for the lock."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(OF_WRITER))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def journal_of(folder):
    """File of a run's journal."""
    (file,) = (folder / "committed").glob("journal-*")
    return file


def without(start, stop, count):
    """Rows of the run but for some."""
    parts = rows(0, start), rows(stop, count)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def assert_plain(folder, count):
    """What zarr alone reads of a closed run."""
    group = zarr.open_group(folder, mode="r")
    assert_equal({field.name: group[field.name][:] for field in FIELDS}, rows(0, count))
    np.testing.assert_array_equal(group["round"][:], np.arange(1, count + 1))
    assert int(group["committed"][()]) == count


def assert_goes_on(folder, count, **given):
    """Opened, written, closed and read; tells what was repaired."""
    with cases.repairs() as said:
        store = ObservationStore.open(folder, "a", durability="round", **given)
    with store:
        assert_holds(store, count)
        store.append(rows(count, count + 1))
        assert_holds(store, count + 1)
        store.append(rows(count + 1, count + 20))
    assert_holds(ObservationStore.open(folder), count + 20)
    assert_plain(folder, count + 20)
    with ObservationStore.open(folder, "a"):  # and nothing is left to repair
        pass
    return said


def assert_names(error, folder):
    """A message that says which store is damaged."""
    assert str(error).startswith(f"store {folder}: ")


def flip(data, position, bit=0):
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


class Disk:
    """`os` as the journal's module sees it, with room for so many writes, of `most` bytes; power does not fail here."""

    def __init__(self, room=math.inf, call="write", number=errno.ENOSPC):
        self.room, self.call, self.number, self.most = room, call, number, None

    def __getattr__(self, name):
        if name == self.call:
            return self._call
        return (lambda descriptor: None) if name == "fsync" else getattr(os, name)

    def _call(self, descriptor, *given):
        self.room -= 1
        if self.room < 0:
            if self.call == "write":
                os.write(descriptor, given[0][: len(given[0]) // 2])
            raise OSError(self.number, os.strerror(self.number))
        if self.most is not None:
            given = (given[0][: self.most],)
        return getattr(os, self.call)(descriptor, *given)


DAMAGES = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}
