"""Rows to keep, places to keep them in, and how a writer dies."""

import contextlib
import copy
import functools
import itertools
import json
import warnings

import numpy as np
import pytest
import zarr

from scalable_bandits.runs import checkpointing, recording, stored_simulation
from scalable_bandits.specification import array_digest
from scalable_bandits.store import Field, ObservationStore
from scalable_bandits.store.layout import group_document
from scalable_bandits.store.ledger import Change, open_ledger, read_ledger
from scalable_bandits.store.locations import locate
from scalable_bandits.tickets import Ticket

CHUNK = 16
FIELDS = (
    Field("candidate", "int64"),
    Field("x", shape=(2,), dimensions=("dimension",)),
    Field("y"),
    Field("noise"),
)
SPECIFICATION = {"policy": {"type": "GPEI", "noise": 0.1, "space": [[0, 1], [2, 3]]}, "note": None}
BOTH = pytest.mark.parametrize("durability", ["round", "block"])


def _table(count):
    draw = np.random.default_rng(0)
    y = draw.standard_normal(count)
    x = draw.random((count, 2))
    y[::5] = np.resize([5e-324, 1.7976931348623157e308, 0.1 + 0.2], len(y[::5]))
    x[::7, 0] = np.resize([np.nan, np.inf, -np.inf, -0.0], len(x[::7]))
    candidate = draw.integers(-1, 40, count)  # -1 and NaN are what zarr fills with, too
    candidate[::9] = np.resize([2**63 - 1, -(2**63), -1], len(candidate[::9]))
    return {"candidate": candidate, "x": x, "y": y, "noise": np.full(count, np.nan)}


TABLE = _table(2000)


def rows(start, stop):
    """Rounds start + 1 to stop of the run that most tests write."""
    return {name: array[start:stop] for name, array in TABLE.items()}


def told(start, stop):
    """Return the evaluations of these rounds, as a recording tells them."""
    columns = rows(start, stop)
    numbers, points = columns["candidate"].tolist(), columns["x"].tolist()
    values = columns["y"].tolist()
    return [
        Ticket(t, numbers[i], "done", x=tuple(points[i]), y=values[i], round=t + 1, ended=t + 1)
        for i, t in enumerate(range(start, stop))
    ]


def assert_equal(found, expected):
    """The same columns, to the last bit."""
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        assert found[name].tobytes() == np.ascontiguousarray(values).tobytes(), name


def assert_holds(store, count):
    """The first rounds of the run, and nothing else."""
    assert len(store) == count
    assert_equal(store.read(), rows(0, count))


def sizes(total, seed=1, largest=37):
    """Odd numbers of rows that make a total, each with the number before it."""
    draw, done = np.random.default_rng(seed), 0
    while done < total:
        step = min(int(draw.choice([1, 2, 3, 5, CHUNK, largest])), total - done)
        yield done, done + step
        done += step


def create(place, rounds=0, durability="round", **given):
    """A run with some rounds, open for writing."""
    given = {"fields": FIELDS, "specification": SPECIFICATION, "chunk": CHUNK, **given}
    store = ObservationStore.create(place, durability=durability, **given)
    for start, stop in sizes(rounds):
        store.append(rows(start, stop))
    return store


def shrink(patch):
    """Chunks and blocks so small that a short run has several."""
    patch.setattr(ObservationStore, "create", functools.partial(ObservationStore.create, chunk=CHUNK))
    patch.setattr(stored_simulation, "BLOCK_ROUNDS", 7)
    patch.setattr(recording, "REPLAY_BLOCK", 11)


def save_often(patch):
    """Save a checkpoint at every occasion."""
    patch.setattr(checkpointing.Checkpoints, "add_work", lambda self, seconds: self.save())


_DEAD = []  # connections of writers that died: closing them would tidy up


def crash(store):
    """Leave a store as a process that died does; of a folder, the system frees the lock."""
    _DEAD.append(store._ledger)
    if isinstance(store.location.store, zarr.storage.LocalStore):
        store.location.unlock()
    store._writer = 0


def reopen(place, **given):
    """Open for writing; a writer that held an object store and died is known to be gone."""
    return ObservationStore.open(place, "a", takeover=True, **given)


def plain(place):
    """What zarr and xarray open."""
    return place if isinstance(place, str | zarr.abc.store.Store) else str(place)


def change_attributes(folder, change):
    """Change the attributes of a closed run, as somebody who knows how they are summed would."""
    ledger = open_ledger(locate(folder), read_ledger(locate(folder)))
    attributes = copy.deepcopy(ledger.contents.attributes)
    change(attributes)
    ledger.commit(Change(attributes, orderly=True))
    ledger.close()
    (folder / "zarr.json").write_text(json.dumps(group_document(attributes), indent=2))


def change_count(folder, rounds):
    """Change the number of rounds of a closed run, as somebody who knows how rows are summed would."""
    ledger = open_ledger(locate(folder), read_ledger(locate(folder)))
    ledger.commit(Change(rounds=rounds, orderly=True))
    ledger.close()


def input_of(array):
    """What a specification says of an array that is kept beside it."""
    return {"array": array_digest(array), "shape": list(array.shape), "dtype": array.dtype.name}


def _folder(tmp_path):
    return tmp_path / "run.zarr"


def _memory(tmp_path):
    return zarr.storage.MemoryStore()


_urls = itertools.count()


def _url(tmp_path):
    return f"memory://{tmp_path.name}-{next(_urls)}.zarr"


def _obstore(tmp_path):
    stores = pytest.importorskip("obstore.store", reason="obstore is not installed")
    return zarr.storage.ObjectStore(stores.MemoryStore())


PLACES = {"folder": _folder, "memory": _memory, "url": _url, "obstore": _obstore}


@contextlib.contextmanager
def repairs():
    """Let repairs happen, and collect what was said of them."""
    said = []
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield said
    said += [str(warning.message) for warning in caught]


def everything(folder):
    """All files, but for the lock."""
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("writer.lock", "writer.json")
    }


def described(place):
    """What a store says of its run."""
    store = ObservationStore.open(place)
    columns = {name: array.tobytes() for name, array in store.read().items()}
    return columns, store.planned, store.pending, store.orderly, store.attributes


class Function:
    """Sums of sines, which may fail at some call; counts its calls."""

    def __init__(self, fails=(), failure=ZeroDivisionError):
        self.calls, self.fails, self.failure = 0, list(fails), failure

    def __call__(self, x):
        self.calls += 1
        if self.calls in self.fails:
            if isinstance(self.failure, float):
                return self.failure
            raise self.failure
        return float(np.sin(5 * np.ravel(x)[0]) + np.cos(3 * np.ravel(x)[-1]))


def damaged_row(place, word):
    """The bytes of a closed run's database, with one bit of a row changed that has a word in it."""
    data = bytearray((place / "committed" / "run.sqlite").read_bytes())
    data[data.index(word.encode())] ^= 1
    return bytes(data)
