"""Nothing lost: processes killed at random moments and at every call that changes the disk, and power that fails."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import warnings
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
import zarr
from cases import disk as disks
from cases import kill_work
from cases.kill_work import Acknowledged, Fault, Work
from cases.paths import PYTHONPATH

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreLocked

KILLS = 3  # of each run of RANDOM

RANDOM = [
    Work("raw", "round", 150),
    Work("raw", "block", 900, largest=60, held=1),
    Work("simulate", "block", 150, "GPUCB", "tiled", checkpoint=30, held=1),
    Work("simulate", "round", 60, "GPTS", checkpoint=15, keep="log"),
    Work("simulate", "block", 60, "GPUCB", held=1, within="objects"),
    Work("maximize", "round", 50, "GPEI", "tiled", checkpoint=12),
    Work("record", "block", 150, "IGPUCB", "tiled", chunk=32, checkpoint=20),
    Work("batches", "round", 75, "GPEI", chunk=16, checkpoint=9),
    Work("pairs", "round", 40, "GPEI"),
    Work("failing", "block", 60, "GPEI", "tiled", chunk=16, checkpoint=20),
]

SWEPT = [
    Work("raw", "round", 20, largest=3),
    Work("raw", "block", 48, every=3, largest=8, held=1),
    Work("record", "round", 18, "RandomSearch", checkpoint=7),
    Work("pairs", "round", 18, "GPEI", checkpoint=5),
    Work("simulate", "block", 60, "IGPUCB", "tiled", checkpoint=10, keep=7),
    Work("failing", "round", 14, "GPEI", chunk=4, checkpoint=5),
    Work("maximize", "round", 14, "GPUCB", chunk=4),
]


def named(work):
    """Return the name of a run."""
    return "-".join((work.kind, work.durability, *(["some"] if work.keep else []), work.within))


# ---- processes


@functools.cache
def server():
    """Return what forks processes off, and has everything loaded and no thread but one.

    It is not the one of multiprocessing, which workers of Dask are forked from.
    """
    own = forkserver.ForkServer()
    own.set_forkserver_preload(["cases.kill_work", "pytest"])
    given = {
        "PYTHONPATH": PYTHONPATH,
        "KILL_WORK_WARM": "1",
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        own.ensure_running()
    return own


def begin(work, place, folder, fault=None):
    """Start a process that plays a run."""
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=kill_work.run, args=(work, place, folder, fault), daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkserver, "connect_to_new_process", server().connect_to_new_process)
        process.start()
    return process


@contextlib.contextmanager
def held(process):
    """Have a process wait."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def end(process, folder):
    """Wait for a process; return whether it was killed, and fail if it failed."""
    process.join()
    failure = folder / "failure"
    assert not failure.exists(), failure.read_text()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def complete(work, place, folder):
    """Play a run to its end in another process; return what it found."""
    assert not end(begin(work, place, folder), folder)
    with np.load(folder / "result.npz") as result:
        return dict(result)


@functools.cache
def uninterrupted(work):
    """What the run is in memory; and on a store, where it is the same: its duration and its number of calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = complete(work, None, folder)
        reference.pop("calls")
        started = time.perf_counter()
        result = complete(work, folder / "run", folder)
        duration = time.perf_counter() - started
        check_end(work, folder / "run", reference, result)
        return reference, duration, int(result["calls"])


# ---- what must hold


def opened(place, mode="r", work=SWEPT[0], **options):
    """Open a store, whatever it says of repairs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="store ")
        return ObservationStore.open(kill_work.kept_in(work, place), mode, **options)


def check_prefix(store, reference):
    """What is there is what the uninterrupted run has, up to some round, and of evaluations those that ended."""
    for name, values in store.read().items():
        if name != "time":
            assert len(values) == len(store)
            np.testing.assert_array_equal(values, reference[name][: len(store)], name)
    if "tickets" in reference:
        ended = kill_work.ended_tickets(store.tickets[number] for number in sorted(store.tickets))
        assert ended.tolist() == reference["tickets"][: len(ended)].tolist()
        assert len(ended) == len(store) + len(store.failures)


def check_zarr(place, reference):
    """What any zarr reader may trust is a prefix too; return how long."""
    group = zarr.open_group(str(place), mode="r", use_consolidated=False)
    committed = int(group["committed"][()])
    for field in group.attrs["fields"]:
        if field["name"] != "time":
            values = group[field["name"]][:committed]
            np.testing.assert_array_equal(values, reference[field["name"]][:committed], field["name"])
    np.testing.assert_array_equal(group["round"][:committed], np.arange(1, committed + 1))
    return committed


def check_left(work, place, reference, said):
    """A store that a killed process left keeps all promises."""
    try:
        store = opened(place, work=work)
    except FileNotFoundError:
        assert not said.made
        return
    assert len(store) >= said.rounds
    check_prefix(store, reference)
    if work.durability == "round":
        assert len(store) + len(store.pending) + len(store.failures) >= said.asked
        if "waits" in reference:
            waiting = [len(store), *store.pending, *[-1] * (3 - len(store.pending))]
            assert waiting in reference["waits"].tolist()
    copy = place.with_name("copy")
    shutil.copytree(place, copy)
    with opened(copy, "a", work, durability=work.durability, takeover=True) as again:
        assert (len(again), again.pending) == (len(store), store.pending)
        check_prefix(again, reference)
    assert check_zarr(copy, reference) == len(store)
    (checked,) = sb.check(kill_work.kept_in(work, copy))
    assert [part for part in checked.parts if part.problem] == []
    shutil.rmtree(copy)


def check_end(work, place, reference, result):
    """The run that was left alone at last is the uninterrupted one."""
    for name in set(result) - {"calls"}:
        if work.kind in ("pairs", "batches") and name != "best_x":  # no row: rounding in it depends on what was pending
            np.testing.assert_allclose(result[name], reference[name], rtol=1e-12)
        else:
            np.testing.assert_array_equal(result[name], reference[name], name)
    store = opened(place, work=work)
    rows = work.rounds if work.keep is None else len(reference["t"])
    assert len(store) + (work.kind == "maximize") * len(store.failures) == rows
    assert store.orderly
    check_prefix(store, reference)
    assert check_zarr(place, reference) == len(store)
    assert not list(place.rglob("*.partial"))


def dies(work, folder, fault=None, after=None):
    """Play in a process that dies at a call or after some seconds; return whether it died, and check what it left."""
    process = begin(work, folder / "run", folder, fault)
    if after is not None:
        process.join(after)
        process.kill()
    died = end(process, folder)
    if died:
        said = Acknowledged.read(folder / "acknowledged")
        check_left(work, folder / "run", uninterrupted(work)[0], said)
    return died


def goes_on(work, folder):
    """Play what is left of a run, and check its end."""
    result = complete(work, folder / "run", folder)
    check_end(work, folder / "run", uninterrupted(work)[0], result)
    shutil.rmtree(folder)


# ---- at random moments, and at calls that change the disk


@pytest.fixture
def memory(tmp_path):
    """A folder in memory, where there is such a thing: nothing waits for a disk."""
    within = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=within if os.access(within, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.mark.parametrize(
    "number",
    [pytest.param(i, marks=pytest.mark.long if i % 2 else pytest.mark.slow) for i in range(len(RANDOM))],
    ids=lambda i: named(RANDOM[i]),
)
def test_killed_at_random_moments(number, memory):
    work, rng = RANDOM[number], np.random.default_rng([2, number])
    if work.within == "objects":
        pytest.importorskip("obstore")
    duration, kills = uninterrupted(work)[1], 0
    for attempt in itertools.count():
        folder = memory / str(attempt)
        folder.mkdir()
        while kills < KILLS and dies(work, folder, after=rng.uniform(0, duration) * rng.choice([0.4, 1.0])):
            kills += 1
        goes_on(work, folder)
        if kills == KILLS:
            return


def dies_at(work, calls, memory):
    """One process for every call at which it dies, just before or just after."""
    died = 0
    for call in calls:
        folder = memory / str(call)
        folder.mkdir()
        died += dies(work, folder, Fault(int(call), after=bool(call % 3 == 0)))
        goes_on(work, folder)
    assert died > 0.4 * len(calls)  # how many calls there are depends a little on time


@pytest.mark.parametrize(
    "few", [pytest.param(True, marks=pytest.mark.slow), pytest.param(False, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("work", SWEPT, ids=named)
def test_killed_at_some_calls(work, few, memory):
    """While it is made, while it is played and while it is closed."""
    count = uninterrupted(work)[2]
    before = np.random.default_rng(4).choice(np.arange(1, count - 24), 3 if few else 10, replace=False)
    dies_at(work, [*before, *range(count - 24, count + 1, 12 if few else 3)], memory)


@pytest.mark.slow
def test_killed_while_it_mends(memory):
    """One process dies at a call, the next ones at one of their first."""
    work = SWEPT[3]
    count = uninterrupted(work)[2]
    for second in range(1, 22, 3):
        folder = memory / str(second)
        folder.mkdir()
        assert dies(work, folder, Fault(count * second // 24 + 20))
        assert dies(work, folder, Fault(second))
        goes_on(work, folder)


@pytest.mark.slow
def test_killed_while_it_opens(memory):
    """A run that was closed with a point pending stays so, whatever becomes of those that only open it."""
    work, place = Work("open", "round", 0), memory / "run"
    policy = kill_work.make_policy(work)
    with sb.record(policy, place):
        policy.tell(policy.ask(), 1.0)
        policy.ask()
        pending = policy.domain.numbered.index(policy.pending).tolist()
    for number in (1, 4, 7, 10, 13, 0):
        assert end(begin(work, place, memory, Fault(number)), memory)
        store = opened(place)
        assert (len(store), store.pending, store.orderly) == (1, pending, True)


# ---- while it is written


@pytest.mark.slow
def test_read_while_it_is_written(tmp_path):
    """Whoever opens the run sees a prefix of it, never shorter than before; a second writer is told who writes."""
    work = Work("record", "round", 20_000, "RandomSearch")  # longer than the test
    reference = complete(work, None, tmp_path)
    place = tmp_path / "run"
    process = begin(work, place, tmp_path)
    while not Acknowledged.read(tmp_path / "acknowledged").made:
        time.sleep(0.01)
    first, reader = opened(place), opened(place)
    looks = 0
    while (looks < 20 or len(reader) < len(first) + 3 * work.chunk) and len(reader) < work.rounds // 2:
        looks += 1
        said, before = Acknowledged.read(tmp_path / "acknowledged"), len(reader)
        store = opened(place)
        assert len(store) >= max(said.rounds, before)
        reader.refresh()
        assert len(reader) >= len(store)
        check_zarr(place, reference)
        # What takes long waits for no writer, or on a busy machine the run would come to its end, the later the slower.
        with held(process):
            check_prefix(reader, reference)
            for second in (lambda: opened(place, "a"), lambda: sb.record(kill_work.make_policy(work), place)):
                with pytest.raises(StoreLocked, match=f"process {process.pid} on "):
                    second()
    assert process.is_alive()
    process.kill()
    assert end(process, tmp_path)
    with opened(place, "a", durability="round") as store:  # at once, without any help
        assert len(store) >= len(reader)
        check_prefix(store, reference)


# ---- when the power fails


@pytest.mark.parametrize(
    "every", [40, pytest.param(12, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("number", [0, 1, 2, 6], ids=lambda i: named(SWEPT[i]))
def test_power_fails(number, every, memory, monkeypatch):
    """Whatever was acknowledged is there, and the run goes on, after a power failure at any moment, or at some.

    Of what was not synced some sectors are there and some are not, whatever the order in which they were written.
    """
    work, target = SWEPT[number], memory / "left"
    (memory / "disk").mkdir()
    with monkeypatch.context() as patch:
        kill_work.shrink(work, patch)
        reference = kill_work.play(work)
        power = disks.install(patch, disks.Power(memory / "disk"))
        power.acknowledged = Acknowledged()

        def say(**values):
            power.acknowledged = power.acknowledged.and_also(**values)

        kill_work.listen(patch, say)
        kill_work.play(work, power.root / "run")
    power.release()
    kill_work.shrink(work, monkeypatch)
    rng = np.random.default_rng(8)
    for count, moment in enumerate(power.moments[::every]):
        power.lay_out(moment, target, rng if count % 3 else None)
        check_left(work, target / "run", reference, moment[-1])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="store ")
            result = kill_work.play(work, target / "run")
        check_end(work, target / "run", reference, result)
