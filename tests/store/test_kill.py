"""Nothing lost: processes killed at random moments, at every call that changes the disk, and power that fails."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
import zarr
from cases import kill_work
from cases.kill_work import Acknowledged, Fault, Work
from cases.paths import PYTHONPATH

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreLocked, journal, writer

KILLS = 5  # of each run of RANDOM

RANDOM = [
    Work("raw", "round", 150),
    Work("raw", "block", 900, largest=60, held=1),
    Work("simulate", "block", 150, "GPUCB", "tiled", checkpoint=30, held=1),
    Work("maximize", "round", 50, "GPEI", "tiled", checkpoint=12),
    Work("record", "block", 150, "IGPUCB", "tiled", chunk=32, checkpoint=20),
    Work("batches", "round", 75, "GPEI", chunk=16, checkpoint=9),
    Work("pairs", "round", 40, "GPEI", within="objects"),
    Work("record", "round", 40, "GPUCB", checkpoint=12, within="icechunk"),
    Work("failing", "block", 60, "GPEI", "tiled", chunk=16, checkpoint=20),
    Work("unreliable", "round", 40, "GPEI", checkpoint=12),
    Work("simulate", "round", 60, "GPTS", checkpoint=15, keep="log"),
]

SWEPT = [
    Work("raw", "round", 20, largest=3),
    Work("raw", "block", 48, every=3, largest=8, held=1),
    Work("pairs", "round", 18, "GPEI", checkpoint=5),
    Work("simulate", "block", 60, "IGPUCB", "tiled", checkpoint=10, keep=7),
    Work("failing", "round", 14, "GPEI", chunk=4, checkpoint=5),
    Work("unreliable", "round", 14, "GPUCB", chunk=4),
]


def named(work):
    """Return the name of a run in SWEPT."""
    return "-".join((work.kind, work.durability, *(["some"] if work.keep else [])))


# ---- processes


@functools.cache
def processes():
    """Where processes are forked off, by a server that has everything loaded and no thread but one."""
    context = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["cases.kill_work", "pytest"])
    given = {
        "PYTHONPATH": PYTHONPATH,
        "KILL_WORK_WARM": "1",
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        forkserver.ensure_running()
    return context


def begin(work, place, folder, fault=None):
    """Start a process that plays a run."""
    process = processes().Process(target=kill_work.run, args=(work, place, folder, fault), daemon=True)
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
    """Wait for a process; tells whether it was killed, and fails if it failed."""
    process.join()
    failure = folder / "failure"
    assert not failure.exists(), failure.read_text()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def result_of(folder):
    """What the process that came to the end found."""
    with np.load(folder / "result.npz") as held:
        return dict(held)


def complete(work, place, folder, fault=None):
    """Play a run to its end in another process; tells what it found."""
    assert not end(begin(work, place, folder, fault), folder)
    return result_of(folder)


@functools.cache
def uninterrupted(work):
    """What the run is in memory, and how long it takes on a store, where it is the same."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = complete(work, None, folder)
        reference.pop("calls")
        started = time.perf_counter()
        result = complete(work, folder / "run", folder)
        duration = time.perf_counter() - started
        check_end(work, folder / "run", folder, reference, result)
        return reference, duration, int(result["calls"])


# ---- what must hold


def opened(place, mode="r", work=SWEPT[0], **options):
    """Open a store, whatever it says of repairs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="store ")
        return ObservationStore.open(kill_work.kept_in(work, place), mode, **options)


def check_prefix(store, reference):
    """What is there is what the uninterrupted run has, up to some round."""
    rows = store.read()
    for name, values in rows.items():
        if name != "time":
            assert len(values) == len(store)
            np.testing.assert_array_equal(values, reference[name][: len(store)], name)


def check_zarr(place, reference):
    """What any zarr reader may trust is a prefix too; tells how long."""
    group = zarr.open_group(str(place), mode="r", use_consolidated=False)
    committed = int(group["committed"][()])
    assert committed >= 0
    for field in group.attrs["fields"]:
        if field["name"] != "time":
            values = group[field["name"]][:committed]
            np.testing.assert_array_equal(values, reference[field["name"]][:committed], field["name"])
    np.testing.assert_array_equal(group["round"][:committed], np.arange(1, committed + 1))
    return committed


def check_left(work, place, folder, reference, acknowledged=None):
    """A store that a killed process left keeps all promises; tells how many rounds it has."""
    said = Acknowledged.read(folder / "acknowledged") if acknowledged is None else acknowledged
    try:
        store = opened(place, work=work)
    except FileNotFoundError:
        assert not said.made
        return 0
    size = len(store)
    assert size >= said.rounds
    check_prefix(store, reference)
    if work.durability == "round" and "waits" in reference:
        assert size + len(store.pending) + len(store.failures) >= said.asked
        assert [size, *store.pending, *[-1] * (3 - len(store.pending))] in reference["waits"].tolist()
    copy = folder / "copy"
    shutil.copytree(place, copy)
    with opened(copy, "a", work, durability=work.durability) as again:
        assert len(again) == size
        assert again.pending == store.pending
        check_prefix(again, reference)
    if work.within == "folder":
        assert check_zarr(copy, reference) == size
    shutil.rmtree(copy)
    return size


def check_end(work, place, folder, reference, result):
    """The run that was left alone at last is the uninterrupted one."""
    for name in set(result) - {"calls"}:
        if work.kind in ("pairs", "batches") and name != "best_x":  # no row: rounding in it depends on what was pending
            np.testing.assert_allclose(result[name], reference[name], rtol=1e-12)
        else:
            np.testing.assert_array_equal(result[name], reference[name], name)
    store = opened(place, work=work)
    rows = work.rounds if work.keep is None else len(reference["t"])
    assert len(store) + (work.kind == "unreliable") * len(store.failures) == rows
    assert store.orderly
    check_prefix(store, reference)
    if work.within == "folder":
        assert check_zarr(place, reference) == len(store)
        assert not list(place.rglob("*.partial"))


# ---- at random moments


@pytest.mark.parametrize("number", range(len(RANDOM)), ids=lambda i: "-".join((*RANDOM[i][:2], RANDOM[i].within)))
@pytest.mark.slow
def test_killed_at_random_moments(number, tmp_path):
    work = RANDOM[number]
    if work.within != "folder":
        pytest.importorskip({"objects": "obstore"}.get(work.within, work.within))
    reference, duration, _ = uninterrupted(work)
    rng = np.random.default_rng([2, number])
    kills, wanted = 0, KILLS
    for attempt in itertools.count():
        folder = tmp_path / str(attempt)
        folder.mkdir()
        place = folder / "run"
        while True:
            process = begin(work, place, folder)
            if kills < wanted:
                process.join(rng.uniform(0, duration) * rng.choice([0.4, 1.0]))
                process.kill()
            if not end(process, folder):
                break
            kills += 1
            check_left(work, place, folder, reference)
        check_end(work, place, folder, reference, result_of(folder))
        if kills >= wanted:
            break
    assert kills == wanted


# ---- at every call that changes the disk

SOME = 8  # calls of a run at which it dies


@pytest.fixture
def memory(tmp_path):
    """A folder in memory, where there is such a thing: nothing waits for a disk."""
    within = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=within if os.access(within, os.W_OK) else tmp_path) as name:
        yield Path(name)


def dies_and_goes_on(work, reference, folder, *faults):
    """Processes that die at one of their calls, and one that goes on; tells how many died."""
    folder.mkdir()
    place = folder / "run"
    died = 0
    for fault in faults:
        if end(begin(work, place, folder, fault), folder):
            died += 1
            check_left(work, place, folder, reference)
    check_end(work, place, folder, reference, complete(work, place, folder))
    shutil.rmtree(folder)
    return died


def dies_at(work, calls, folder):
    """One process for every call at which it dies, just before or just after."""
    reference = uninterrupted(work)[0]
    died = sum(
        dies_and_goes_on(work, reference, folder / "at", Fault(int(call), after=bool(call % 3 == 0))) for call in calls
    )
    assert died > 0.8 * len(calls)  # how many calls there are depends a little on time


@pytest.mark.parametrize("work", SWEPT, ids=named)
@pytest.mark.slow
def test_killed_at_some_calls(work, memory):
    """While it is made, while it is played and while it is closed."""
    count = uninterrupted(work)[2]
    before = np.random.default_rng(4).choice(np.arange(1, count - 24), 2 * SOME, replace=False)
    dies_at(work, [*before, *range(count - 24, count + 1, 4)], memory)


@pytest.mark.slow
def test_killed_while_rounds_are_in_memory(memory):
    """What is pending is that after the rounds that are left, also when a chunk was written and not yet the rest."""
    work = Work("failing", "block", 14, "GPUCB", chunk=4, every=50)
    dies_at(work, range(1, uninterrupted(work)[2] + 1, 17), memory)


def writes_of(work, folder):
    """How often a run calls `os.write`."""
    return int(complete(work, folder / "whole", folder, Fault(0, torn=0.5))["calls"])


@pytest.mark.parametrize("work", SWEPT[:1] + SWEPT[2:3], ids=lambda work: work.kind)
@pytest.mark.slow
def test_killed_within_a_write(work, memory):
    """Some of the bytes were written: the first, half of them, all but the last."""
    reference = uninterrupted(work)[0]
    for call in np.random.default_rng(5).choice(np.arange(1, writes_of(work, memory)), SOME, replace=False):
        fault = Fault(int(call), torn=float([0.0, 0.5, 0.999][call % 3]))
        assert dies_and_goes_on(work, reference, memory / "at", fault)


@pytest.mark.parametrize("work", SWEPT[:1] + SWEPT[2:3], ids=lambda work: work.kind)
@pytest.mark.slow
def test_killed_while_it_mends(work, memory):
    """One process dies within a write, the next one at one of its first calls."""
    reference = uninterrupted(work)[0]
    count = writes_of(work, memory)
    rng = np.random.default_rng(6)
    for second in range(1, SOME + 1):
        torn = Fault(int(rng.integers(1, count // 2)), torn=0.5)
        assert dies_and_goes_on(work, reference, memory / "at", torn, Fault(second)) == 2


@pytest.mark.slow
def test_killed_while_it_opens(memory):
    """A run that was closed with a point pending stays so, whatever becomes of those that only open it."""
    work = Work("open", "round", 0)
    policy = kill_work.make_policy(work)
    place = memory / "run"
    with sb.record(policy, place):
        policy.tell(policy.ask(), 1.0)
        policy.ask()
        pending = policy.finite_space.index(policy.pending).tolist()
    for number in range(1, 16, 5):
        faults = [Fault(number, torn=0.5 if number % 2 else 1.0), Fault()]
        for fault in faults:
            assert end(begin(work, place, memory, fault), memory)
            store = opened(place)
            assert (len(store), store.pending, store.orderly) == (1, pending, True)


def test_writes_that_take_few_bytes(tmp_path, monkeypatch):
    work, write = SWEPT[0], os.write
    monkeypatch.setattr(journal.os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 3 + 1]))
    kill_work.play(work, tmp_path / "run")
    check_end(work, tmp_path / "run", tmp_path, kill_work.raw_rows(work.rounds), {})


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
    while looks < 20 or len(reader) < len(first) + 3 * work.chunk:
        looks += 1
        said, before = Acknowledged.read(tmp_path / "acknowledged"), len(reader)
        store = opened(place)
        assert len(store) >= max(said.rounds, before)
        reader.refresh()
        assert len(reader) >= len(store)
        check_zarr(place, reference)
        with held(process):  # or it would come to its end where syncing takes no time
            check_prefix(store, reference)
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


@pytest.mark.parametrize("rows", [1, 4, 5, 19])
def test_chunks_are_finished_while_a_reader_looks(rows, tmp_path, monkeypatch):
    """Between its look at the count and its look at the journal."""
    work = SWEPT[0]
    reference = kill_work.raw_rows(60)
    place = tmp_path / "run"
    with ObservationStore.create(
        place, kill_work.RAW_FIELDS, specification={}, durability="round", chunk=work.chunk
    ) as store:

        def write(count):
            for t in range(len(store), len(store) + count):
                store.append({name: values[t : t + 1] for name, values in reference.items()})

        write(12)
        reader = opened(place)
        look, count = reader._stored_record, len(store) + rows

        def look_and_write():
            found = look()
            write(count - len(store))
            return found

        monkeypatch.setattr(reader, "_stored_record", look_and_write)
        reader.refresh()
        assert len(reader) == count
        check_prefix(reader, reference)


# ---- when the power fails


class Disk:
    """Watches a folder: what was called in which order, and what would be left if the power failed.

    Sure to be left are the contents of files and the names in folders as they were when each was last synced.
    """

    def __init__(self, root):
        self.root = root
        self.calls = []  # (name of the call, path, for a rename the new path or for a count its value)
        self.moments = []  # before each sync: what is sure, what there is, what was acknowledged
        self.acknowledged = Acknowledged(0, 0, 0)
        self._paths, self._held = {}, []
        self._guard = threading.RLock()
        self._sure = self._look()

    def _look(self):
        """Contents of files and names in folders, by inode; folders are dictionaries."""
        found = {}
        for path in [self.root, *self.root.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):  # zarr's own temporary files come and go
                found[path.stat().st_ino] = self._content(path)
        return found

    @staticmethod
    def _content(path):
        return {p.name: p.stat().st_ino for p in path.iterdir()} if path.is_dir() else path.read_bytes()

    def said(self, store):
        """The store promised something."""
        self.acknowledged = Acknowledged(1, store.durable, 0)
        self.calls.append(("returned", None, store.durable))

    def watch(self, monkeypatch):
        """Watch all calls of `os` that change the disk."""
        for name in kill_work.CALLS:
            monkeypatch.setattr(journal.os, name, functools.partial(self._call, name, getattr(os, name)))

    def _call(self, name, original, first, *args, **kwargs):
        with self._guard:
            path = Path(self._paths.get(first, "") if isinstance(first, int) else first)
            if self.root not in (path, *path.parents):
                return original(first, *args, **kwargs)
            if name == "fsync":
                self.moments.append((dict(self._sure), self._look(), self.acknowledged))
            result = original(first, *args, **kwargs)
            if name == "fsync":
                self._held.append(os.dup(first))  # so that no later file gets its inode
                with contextlib.suppress(FileNotFoundError):
                    self._sure[os.fstat(first).st_ino] = self._content(path)
            if name == "open":
                self._paths[result] = path
            about = Path(args[0]) if name == "replace" else None
            if about is not None and about.name == "c":
                self.calls.append(("count", about, int.from_bytes(about.read_bytes()[:8], "little")))
            self.calls.append((name, path, about))
            return result

    def close(self):
        """Let go of the inodes."""
        for descriptor in self._held:
            os.close(descriptor)

    def lay_out(self, moment, target, rng=None):
        """Write what is left at a moment: what is sure, or, by chance, some of the rest too."""
        sure, there, _ = moment

        def names(inode):
            old, new = sure.get(inode, {}), there.get(inode, {})
            chosen = {n: new.get(n) if rng is not None and rng.random() < 0.5 else old.get(n) for n in {*old, *new}}
            return {name: child for name, child in chosen.items() if child is not None}

        def content(inode):
            old, new = sure.get(inode, b""), there.get(inode, b"")
            if rng is None or not new.startswith(old):
                return old
            written = new[: rng.integers(len(old), len(new) + 1)]
            return written if rng.random() < 0.5 else written.ljust(len(new), b"\0")  # long, and not written to its end

        def lay(inode, path):
            if isinstance(there.get(inode, sure.get(inode)), dict):
                path.mkdir()
                for name, child in names(inode).items():
                    lay(child, path / name)
            else:
                path.write_bytes(content(inode))

        lay(self.root.stat().st_ino, target)


@pytest.fixture(params=SWEPT[:2], ids=["round", "block"])
def watched(request, memory, monkeypatch):
    """A run whose calls were watched."""
    work = request.param
    if work.held is not None:
        monkeypatch.setattr(writer, "BLOCK_BYTES", work.held)
    root = memory / "disk"
    root.mkdir()
    disk = Disk(root)
    with monkeypatch.context() as patch:
        disk.watch(patch)
        kill_work.play_raw(work, root / "run", disk.said)
    yield work, disk, memory
    disk.close()


def test_order_of_writing(watched):
    """Contents before names, chunks before the count, the journal before `append` returns."""
    work, disk, _ = watched
    run = disk.root / "run"
    at = {}  # by call and path, when it was last
    counts = []
    for now, (name, path, about) in enumerate(disk.calls):
        if name == "replace":
            assert at["write", path] < at["fsync", path]
            at["named", about] = now
        elif name == "count":
            counts.append(about)
            for field, number in itertools.product(("round", "number", "v"), range(-(-about // work.chunk))):
                chunk = run / field / ("c.{}.0" if field == "v" else "c.{}").format(number)
                assert at["named", chunk] < at["fsync", chunk.parent]
        elif name == "returned":
            for file in (path for call, path in at if call == "named"):
                assert at["named", file] < at["fsync", file.parent]
            files = {path for call, path in at if call == "fsync" and path.name.startswith("journal-")}
            for journal_file in files:
                assert at.get(("write", journal_file), -1) <= at["fsync", journal_file]
            if work.durability == "round" and about:
                last = next(c for c in reversed(disk.calls[:now]) if c[1] is None or c[1].name != "acknowledged")
                assert last[0] == "fsync"
                assert last[1] in files
        at[name, path] = now
    assert counts == sorted(counts)
    assert len(counts) > 2
    assert counts[-1] == work.rounds


@pytest.mark.parametrize("every", [30, pytest.param(1, marks=pytest.mark.slow)])
def test_power_fails(watched, every):
    """Whatever was acknowledged is there, and the run goes on, after a power failure at any moment, or at some."""
    work, disk, folder = watched
    reference = kill_work.raw_rows(work.rounds)
    rng = np.random.default_rng(8)
    target = folder / "left"
    for number, moment in enumerate(disk.moments[::every]):
        disk.lay_out(moment, target, rng if number % 3 else None)
        check_left(work, target / "run", target, reference, moment[-1])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="store ")
            kill_work.play(work, target / "run")
        check_end(work, target / "run", target, reference, {})
        shutil.rmtree(target)
