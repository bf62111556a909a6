"""Places and runs to test stores with; a plugin of the test modules that name it."""

import shutil

import pytest

from cases import disk as disks
from cases import store as cases
from cases.damage import INPUT, ROUNDS
from cases.store import crash, create, rows
from scalable_bandits.specification import array_digest
from scalable_bandits.tickets import Ticket


@pytest.fixture(params=cases.PLACES)
def place(request, tmp_path):
    """A place of each kind, with nothing in it."""
    return cases.PLACES[request.param](tmp_path)


@pytest.fixture
def small(monkeypatch):
    """Chunks and blocks so small that a short run has several."""
    cases.shrink(monkeypatch)


@pytest.fixture
def often(monkeypatch):
    """A checkpoint at every occasion."""
    cases.save_often(monkeypatch)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A run that was closed, one whose writer died, and one that grew by several calls before that."""
    folder = tmp_path_factory.mktemp("originals")
    for name in ("closed", "crashed"):
        store = create(folder / name, inputs={array_digest(INPUT): INPUT})
        for start in range(ROUNDS):
            store.append(rows(start, start + 1))
        store.append(tickets=[Ticket(0, 41, x=(0.5, 0.5)), Ticket(1, 42, x=(0.25, 0.5))])
        store.close() if name == "closed" else crash(store)
    return folder


@pytest.fixture
def closed(originals, tmp_path):
    return shutil.copytree(originals / "closed", tmp_path / "run.zarr")


@pytest.fixture
def crashed(originals, tmp_path):
    return shutil.copytree(originals / "crashed", tmp_path / "run.zarr")


@pytest.fixture
def disk(monkeypatch):
    """A disk that can be full."""
    return disks.install(monkeypatch, disks.Disk())
