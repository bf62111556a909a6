"""Blocks of a simulation that are written while the next ones are played."""

import functools
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases.rounds import assert_same

import scalable_bandits as sb
from scalable_bandits.runs import stored_simulation
from scalable_bandits.runs.checkpointing import MOST_WAITING, WriteBehind
from scalable_bandits.runs.play import Play
from scalable_bandits.store import ObservationStore

SPACE = sb.Grid([[0, 1]], 20)
FUNCTION = sb.RKHSFunction.sparse(SPACE, sb.Matern(0.2, nu=2.5), sb.GaussianNoise(0.3), seed=1)


class Disk:
    """Something to write to, slowly; the write of a piece may fail."""

    def __init__(self, failing: int = -1, seconds: float = 0.0):
        self.written: list[int] = []
        self.tried: list[int] = []
        self.threads: set[str] = set()
        self._failing, self._seconds = failing, seconds

    def write(self, number: int) -> None:
        time.sleep(self._seconds)
        self.threads.add(threading.current_thread().name)
        self.tried.append(number)
        if number == self._failing:
            raise OSError("the disk is full")
        self.written.append(number)


def write(disk: Disk, count: int, error: BaseException | None = None) -> None:
    """Write pieces, and then raise an error."""
    with WriteBehind() as behind:
        for number in range(count):
            behind.put(functools.partial(disk.write, number))
        if error is not None:
            raise error


def test_pieces_are_written_in_order_by_one_thread() -> None:
    disk = Disk(seconds=0.0001)
    with WriteBehind() as behind:
        for number in range(500):
            behind.put(functools.partial(disk.write, number))
            assert len(disk.written) >= number - MOST_WAITING
    assert disk.written == list(range(500))
    assert len(disk.threads) == 1
    assert threading.current_thread().name not in disk.threads


def test_drained() -> None:
    disk = Disk(seconds=0.01)
    with WriteBehind() as behind:
        for number in range(5):
            behind.put(functools.partial(disk.write, number))
        behind.drain()
        assert disk.written == list(range(5))


def test_nothing_is_written_after_a_failure() -> None:
    disk = Disk(failing=3, seconds=0.005)
    with pytest.raises(OSError, match="the disk is full"):
        write(disk, 10)
    assert disk.written == [0, 1, 2]
    assert disk.tried == [0, 1, 2, 3]


def test_the_failure_is_raised_by_the_next_calls() -> None:
    disk = Disk(failing=0)
    with WriteBehind() as behind:
        behind.put(functools.partial(disk.write, 0))
        with pytest.raises(OSError, match="the disk is full"):
            behind.drain()
        behind.put(functools.partial(disk.write, 1))
    assert disk.tried == [0]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_what_was_played_is_written_whatever_happens(kind: type[BaseException]) -> None:
    disk = Disk(seconds=0.01)
    with pytest.raises(kind):
        write(disk, 10, kind())
    assert disk.written == list(range(10))


# ---- simulations


def policy() -> sb.Policy:
    return sb.IGPUCB(SPACE, sb.Matern(0.2, nu=2.5), noise=0.3)


@pytest.mark.parametrize("failing", [1, 4, 40])
@pytest.mark.sampled(3)
def test_a_disk_that_fails_and_is_mended(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the store is the beginning of the run, and the next process goes on from there."""
    monkeypatch.setattr(stored_simulation, "BLOCK_ROUNDS", 50)
    append, calls = ObservationStore.append, []

    def full(self: ObservationStore, columns: Any) -> None:
        calls.append(len(columns["y"]))
        if len(calls) == failing:
            raise OSError("the disk is full")
        append(self, columns)

    whole = sb.simulate(policy(), FUNCTION, 3000)
    with monkeypatch.context() as patch:
        patch.setattr(ObservationStore, "append", full)
        with pytest.raises(OSError, match="the disk is full"):
            sb.simulate(policy(), FUNCTION, 3000, store=tmp_path / "run")
    with ObservationStore.open(tmp_path / "run") as store:
        assert len(store) == 50 * (failing - 1)
        np.testing.assert_array_equal(store.read(names=["y"])["y"], whole.y[: len(store)])
    assert_same(sb.simulate(policy(), FUNCTION, 3000, store=tmp_path / "run"), whole)


@pytest.mark.parametrize("after", [1, 3, 12])
@pytest.mark.sampled(3)
def test_interrupted_between_blocks(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_simulation, "BLOCK_ROUNDS", 50)
    whole, blocks = sb.simulate(policy(), FUNCTION, 1500), []
    block = Play._play_block

    def interrupted(self: Any, t: int, series: Any) -> bool:
        found = bool(block(self, t, series))
        blocks.append(t)
        if len(blocks) == after:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Play, "_play_block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sb.simulate(policy(), FUNCTION, 1500, store=tmp_path / "run")
    with ObservationStore.open(tmp_path / "run") as store:
        assert len(store) > 0
        np.testing.assert_array_equal(store.read(names=["y"])["y"], whole.y[: len(store)])
    assert_same(sb.simulate(policy(), FUNCTION, 1500, store=tmp_path / "run"), whole)


def wait_for(call: Any) -> None:
    """Make a call in the thread, and wait for it."""
    with WriteBehind() as behind:
        behind.put(call)
        behind.drain()


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_interrupted_twice_while_it_waits() -> None:
    """The context ends after the thread, however often Ctrl-C is pressed; nothing is written later."""
    ended, begun, pressed = [], threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert pressed.wait(60)
        ended.append(1)

    def press() -> None:
        begun.wait(60)
        for _ in range(2):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        pressed.set()

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        wait_for(slow)
    assert len(ended) == 1
    presser.join()


# ---- room on the disk


class Usage(NamedTuple):
    """What the operating system says of a disk."""

    total: int
    used: int
    free: int


def test_a_horizon_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both figures, before anything is written; what fits is played, and may not be extended beyond."""
    place = tmp_path / "a folder" / "run"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, 2_000_000))
    with pytest.raises(ValueError, match=r"horizon: got '200,000 more rounds, which need at least 3.84 MB'.* 2.00 MB "):
        sb.simulate(policy(), FUNCTION, 200_000, store=place)
    assert not place.parent.exists()
    sb.simulate(policy(), FUNCTION, 1000, store=place)
    with pytest.raises(ValueError, match=r"horizon: got '199,000 more rounds"):
        sb.simulate(policy(), FUNCTION, 200_000, store=place)
    with ObservationStore.open(place) as store:
        assert store.planned == 1000
    assert len(sb.simulate(policy(), FUNCTION, 2000, store=place)) == 2000


def test_the_share_is_not_too_large(tmp_path: Path) -> None:
    """A run that is refused could not have been stored: the least that a round took on disk."""
    from scalable_bandits.store.layout import LEAST_SHARE

    count = 140_000
    sb.simulate(sb.RandomSearch(SPACE), FUNCTION, count, store=tmp_path / "run")
    size = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert size > LEAST_SHARE * 64 * count
