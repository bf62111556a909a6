"""What full disks, missing permissions, Ctrl-C and half-made files do to a run."""

import contextlib
import errno
import itertools
import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from cases import kill_work
from cases import store as cases
from cases.damage import ARRAYS, DATABASE, ROUNDS, WHOLE, assert_goes_on, assert_plain, files
from cases.kill_work import Fault
from cases.paths import TESTS
from cases.policies import EVERY_POLICY, PROBLEMS
from cases.store import BOTH, CHUNK, FIELDS, SPECIFICATION, assert_equal, assert_holds, crash, create, rows, sizes, told

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreDamaged, StoreLocked, checkpoints, locations, recovery
from scalable_bandits.tickets import Ticket

pytest_plugins = ["cases.store_fixtures"]

WAYS = {
    "round": ("round", {}),
    "flushed": ("block", {"block_seconds": -1.0}),
    "small": ("block", {"block": CHUNK, "block_seconds": math.inf}),  # a slow machine writes no earlier
}


def in_way(way, place):
    """Return a new run of one of `WAYS`."""
    durability, given = WAYS[way]
    store = create(place, durability=durability)
    vars(store).update(given)
    return store


class TestFullDisk:
    """A call that fails leaves everything as it was, and works when there is room again."""

    @pytest.mark.parametrize("way", [*WAYS, "told"])
    @pytest.mark.parametrize(
        ("calls", "number"), [(None, errno.ENOSPC), (("fsync", "sync"), errno.EIO), (("replace",), errno.EIO)]
    )
    @pytest.mark.sampled(6)
    def test_at_every_call(self, tmp_path, disk, way, calls, number):
        """Every append is tried with room for one write more, until it works."""
        place = tmp_path / "run.zarr"
        store = in_way("round" if way == "told" else way, place)
        disk.calls, disk.number, failures = calls or disk.calls, number, 0
        for start, stop in sizes(60, seed=3, largest=20):
            for disk.room in itertools.count():
                durable = store.durable
                try:
                    store.append(rows(start, stop), told(start, stop) if way == "told" else ())
                    break
                except OSError as error:
                    self.check(error, place, number)
                failures += 1
                assert (len(store), store.durable) == (start, durable)
                if failures % 3 == 0:
                    assert_holds(store, start)
                    reader = ObservationStore.open(place)
                    assert durable <= len(reader) <= start
                    assert_holds(reader, len(reader))
        disk.room = math.inf
        store.close()
        assert failures > 10
        assert_plain(place, 60)

    @staticmethod
    def check(error, place, number=errno.ENOSPC):
        """What happened, and to which store."""
        assert error.errno == number
        assert f"store {place}: " in str(error)

    @pytest.mark.parametrize("way", ["round", "flushed"])
    @pytest.mark.sampled(2)
    def test_a_crash_after_it(self, tmp_path, disk, way):
        """What was there before is there; of the call that failed, nothing."""
        for allowed in range(0, 60, 13):
            place, count = tmp_path / f"{allowed}.zarr", 0
            disk.room = math.inf
            store = in_way(way, place)
            disk.room = allowed
            for start, stop in sizes(90, seed=3, largest=41):
                try:
                    store.append(rows(start, stop))
                except OSError:
                    break
                count = stop
            durable = store.durable
            crash(store)
            disk.room = math.inf
            kept = len(ObservationStore.open(place))
            assert kept == durable == count if way == "round" else durable <= kept <= count
            assert_goes_on(place, kept)

    @BOTH
    @pytest.mark.sampled(2)
    def test_other_calls_of_a_store(self, tmp_path, disk, durability):
        """They name the store, change nothing, and work when there is room again."""
        place = tmp_path / "run.zarr"
        store = create(place, durability=durability, planned=5)
        calls = [
            ("append", None, [Ticket(0, 3)]),
            ("plan", 99),
            ("flush",),
            ("append", None, [Ticket(0, 3, "abandoned")]),
            ("plan", 7),
        ]
        for i, (call, *given) in enumerate(calls):
            store.append(rows(20 * i, 20 * i + 20))
            for disk.room in itertools.count():
                before = list(store.pending), store.planned
                try:
                    getattr(store, call)(*given)
                    break
                except OSError as error:
                    self.check(error, place)
                assert_holds(store, 20 * i + 20)
                assert (store.pending, store.planned) == before
                assert ObservationStore.open(place).planned == before[1]
            disk.room = math.inf
            store.flush()
            reader = ObservationStore.open(place)
            assert (reader.planned, reader.pending) == (store.planned, store.pending)
            assert store.pending == ([3] if i < 3 else [])
        store.close()
        assert_plain(place, 100)

    @BOTH
    @pytest.mark.sampled(2)
    def test_making_and_closing(self, tmp_path, disk, durability):
        """A run that was not made is none; one that was not closed has what was durable, and is free for the next."""
        for allowed in itertools.count(0, 7):
            place, durable = tmp_path / f"{allowed}.zarr", 0
            disk.room = allowed
            try:
                store = create(place, durability=durability)
            except OSError as error:
                self.check(error, place)
                store = None
            if store is not None:
                disk.room = math.inf
                store.append(rows(0, 20))
                store.flush()
                store.append(rows(20, 41))
                durable, disk.room = store.durable, allowed // 2
                try:
                    store.close()
                    durable = 41
                except OSError as error:
                    self.check(error, place)
                assert not store.writable
            disk.room = math.inf
            with cases.repairs():
                try:
                    again = ObservationStore.open(place, "a")
                except FileNotFoundError:
                    assert store is None
                    again = create(place)
            with again:
                count = len(again)
                assert durable <= count <= 41
                assert again.specification == SPECIFICATION
                assert_holds(again, count)
            assert_plain(place, count)
            if durable == 41:
                assert allowed > 30
                return

    def test_a_checkpoint(self, tmp_path, disk):
        """That could not be written does not harm the one before, nor the rounds."""
        store = create(tmp_path / "run.zarr", 20)
        checkpoints.save(store.location, 15, {"a": np.arange(10.0)})
        for disk.room in itertools.count():
            try:
                checkpoints.save(store.location, 20, {"a": np.arange(20.0)})
                break
            except OSError:
                held = checkpoints.read_header(store.location)
                assert (held.rounds, held.problem) in ((15, ""), (20, ""))
        assert checkpoints.read_header(store.location).rounds == 20
        disk.room = math.inf
        store.close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 20)

    def test_a_recording(self, tmp_path, disk):
        """What cannot be kept is not learned: the policy is as it was, and goes on as one that never failed."""
        policy, twin = (EVERY_POLICY["igpucb"].make(PROBLEMS["box"]) for _ in range(2))
        held = sb.record(policy, tmp_path / "run.zarr")
        draw = np.random.default_rng(0)
        for step in range(3):
            size = policy.domain.size
            disk.room = step % 3
            with pytest.raises(OSError, match=r"run\.zarr"):
                policy.ask(2)
            assert (policy.pending, policy.rounds) == (twin.pending, twin.rounds)
            disk.room = math.inf
            x = policy.ask(2)
            np.testing.assert_array_equal(x, twin.ask(2))
            own = draw.random((2, 2)) - [0, 0.5]  # points of no candidate set
            for points in (x, own):
                disk.room = step % 3
                for call in (lambda points=points: policy.tell(points, [0.3, 0.4]),
                             lambda points=points: policy.tell_failure(points[0], "broken")):  # fmt: skip
                    with pytest.raises(OSError, match=r"run\.zarr"):
                        call()
                assert (policy.domain.size, policy.rounds, policy.failures) == (size, twin.rounds, 0)
                disk.room = math.inf
                policy.tell(points, [0.3, 0.4 + step])
                twin.tell(points, [0.3, 0.4 + step])
                size = policy.domain.size
            np.testing.assert_array_equal(policy.posterior(own), twin.posterior(own))
        held.close()
        again = EVERY_POLICY["igpucb"].make(PROBLEMS["box"])
        with sb.record(again, tmp_path / "run.zarr"):
            np.testing.assert_array_equal(again.posterior(own), twin.posterior(own))
            np.testing.assert_array_equal(again.ask(3), twin.ask(3))

    @pytest.mark.slow
    def test_a_file_system_that_is_full(self, tmp_path):
        """A small one of this machine: the calls fail, nothing is lost, and they work when there is room again."""
        place = tmp_path / "small"
        place.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False, capture_output=True
        )
        if mounted.returncode:
            pytest.skip("this process may not mount a file system")
        try:
            (place / "ballast").write_bytes(bytes(300_000))
            store, count = create(place / "run.zarr", durability="round"), 0
            with contextlib.suppress(OSError):
                while count < len(cases.TABLE["y"]):
                    store.append(rows(count, count + 1), told(count, count + 1))
                    count += 1
            with pytest.raises(OSError, match=r"run\.zarr.*(No space left|full)"):
                store.append(rows(count, count + 1), told(count, count + 1))
            assert_holds(store, count)
            assert_holds(ObservationStore.open(place / "run.zarr"), count)
            (place / "ballast").unlink()
            store.append(rows(count, count + 40))
            store.close()
            assert_holds(ObservationStore.open(place / "run.zarr"), count + 40)
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def interrupt():
    raise KeyboardInterrupt


class TestInterrupted:
    """By Ctrl-C, by the death of the process, by another writer."""

    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("way", [*(pytest.param(w, marks=pytest.mark.slow) for w in ("round", "bulk")), "told"])
    @pytest.mark.sampled(2)
    def test_at_every_call(self, tmp_path, monkeypatch, after, way):
        """The store has an append as a whole or not at all, as it says, and goes on from there."""
        step, total = {"round": 4, "bulk": 7, "told": 1}[way], CHUNK + 12

        def play(number):
            """Append all, and interrupt one call; return how many calls there were."""
            place, counted, start = tmp_path / f"{number}.zarr", [-(10**6)], 0
            with monkeypatch.context() as patch:
                kill_work.sabotage(patch, Fault(number, after), counted, interrupt)
                store = create(place, durability="block" if way == "bulk" else "round")
                store.block, counted[0] = CHUNK, 0
                while start < total:
                    stop = start + step
                    try:
                        store.append(rows(start, stop), told(start, stop) if way == "told" else ())
                    except KeyboardInterrupt:
                        assert len(store) in (start, stop)
                        assert store.durable == len(ObservationStore.open(place)) <= len(store)
                    start = len(store)
                assert_holds(store, start)
                try:
                    store.close()
                except KeyboardInterrupt:
                    crash(store)
            with cases.repairs():
                reader = ObservationStore.open(place)
                assert way == "bulk" or len(reader) == total
                assert_goes_on(place, len(reader))
            return counted[0]

        count = play(0)
        for number in range(1 + after, count + 1, max(count // 8, 1)):
            play(number)
        assert count > 10

    @pytest.mark.parametrize("after", [False, True])
    def test_a_recording(self, tmp_path, monkeypatch, after):
        """The policy and the store have the same, or the policy says that it has to be made again."""
        values = np.sin(np.arange(5.0))

        def play(place, fault):
            policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
            counted = [-(10**6)]
            with monkeypatch.context() as patch:
                kill_work.sabotage(patch, fault, counted, interrupt)
                held = sb.record(policy, place)
                counted[0] = 0
                while policy.rounds < len(values):
                    try:
                        x = policy.pending[0] if policy.pending else policy.ask()
                        policy.tell(x, values[policy.rounds])
                    except KeyboardInterrupt:
                        pass
                    except sb.StoreError:
                        held.close()
                        policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
                        held = sb.record(policy, place)
            count, counted[0] = counted[0], -(10**6)
            held.close()
            store = ObservationStore.open(place)
            assert store.pending == []
            return store.read(names=["candidate", "y", "call"]), count

        expected, count = play(tmp_path / "expected", Fault())
        for number in range(1 + after, count + 1, 5):
            assert_equal(play(tmp_path / str(number), Fault(number, after))[0], expected)

    @pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
    def test_while_a_chunk_is_written(self, tmp_path, monkeypatch, failure):
        """What is still being written does not overtake the rows that are appended next."""
        store = create(tmp_path / "run.zarr", durability="block")
        go_on, written, first = threading.Event(), threading.Event(), {"y": True, "candidate": True}
        replace = locations.replace_file

        def held_back(path, data, synced=True):
            if held := path.parent.name == "y" and first.pop("y", False):
                if failure is KeyboardInterrupt:
                    main = threading.main_thread().ident  # which waits by then
                    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
                assert go_on.wait(60)
            if failure is OSError and path.parent.name == "candidate" and first.pop("candidate", False):
                threading.Timer(0.2, go_on.set).start()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(path, data, synced)
            if held:
                written.set()

        def interrupted(*_):
            threading.Timer(0.4, go_on.set).start()  # the chunk is written only after Ctrl-C was heard
            raise KeyboardInterrupt

        monkeypatch.setattr(locations, "replace_file", held_back)
        signal.signal(signal.SIGINT, interrupted)  # until the next test
        store.block = CHUNK
        with pytest.raises(failure):
            store.append(rows(100, 100 + CHUNK))
        assert len(store) == 0
        store.append(rows(0, CHUNK))
        store.close()
        assert written.wait(60)
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), CHUNK)

    @pytest.mark.parametrize("left", ["lock", "folder", "inputs", "arrays", "database"])
    def test_making(self, tmp_path, left):
        """A run that was never made to its end is none, and can be made."""
        place = tmp_path / "run.zarr"
        crash(create(place, inputs={"abc": np.arange(3.0)}, planned=70))
        (place / "committed" / "acknowledged").unlink()
        for file in (place / "committed").glob("run.sqlite*"):
            file.unlink()
        if left == "database":
            (place / DATABASE).write_bytes(b"")
        for name in {"lock": [*ARRAYS, "inputs"], "folder": [*ARRAYS, "inputs"], "inputs": ARRAYS}.get(left, ()):
            shutil.rmtree(place / name)
        if left in ("lock", "folder"):
            (place / "zarr.json").unlink()
            shutil.rmtree(place / "committed")
            (place / "committed").mkdir()
        if left == "lock":
            (place / "committed" / "writer.lock").touch()
        for mode in ("r", "a"):
            with pytest.raises(FileNotFoundError, match="there is no run"):
                ObservationStore.open(place, mode)
        create(place, 20, fields=FIELDS).close()
        assert_plain(place, 20)

    def test_what_a_dead_writer_leaves(self, crashed):
        """Half-written files, arrays of several lengths, chunks that nobody counts: no round is lost or gained."""
        for name in ("y/c.1.0123.partial", "committed/c.abc.partial", "zarr.json.abc.partial"):
            (crashed / name).write_bytes(b"rubbish")
        group = zarr.open_group(crashed, mode="r+")
        for length, name in zip((3, 6, 6, 8, 3), ARRAYS, strict=True):
            group[name].resize((length * CHUNK, *group[name].shape[1:]))
            group[name][ROUNDS:] = 7
        assert_holds(ObservationStore.open(crashed), ROUNDS)
        (said,) = assert_goes_on(crashed, ROUNDS)
        assert re.search(r"run\.zarr: 3 half-written file\(s\) were removed", said)
        assert not list(crashed.rglob("*.partial"))

    def test_between_the_moves_of_a_recovery(self, closed, monkeypatch):
        """A reader says where the run is; the next writer finishes what was begun."""
        (closed / DATABASE).unlink()
        move, calls = recovery.move, []

        def once(source, target):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            move(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(recovery, "move", once)
            with pytest.raises(KeyboardInterrupt):
                ObservationStore.open(closed, "a", recover=True)
        assert not closed.exists()
        with pytest.raises(StoreDamaged, match=r"run\.zarr\.recovering has all of it"):
            ObservationStore.open(closed)
        with pytest.warns(UserWarning, match=r"it was moved here from run\.zarr\.recovering"):
            ObservationStore.open(closed, "a").close()
        assert len(ObservationStore.open(closed)) >= WHOLE

    def test_a_lock_record_that_is_no_json(self, closed):
        """Another writer is refused all the same."""
        with ObservationStore.open(closed, "a"):
            (closed / "committed" / "writer.json").write_bytes(b'{"pid": 1')
            with pytest.raises(StoreLocked, match="is being written by another process"):
                ObservationStore.open(closed, "a")
        ObservationStore.open(closed, "a").close()

    @BOTH
    @pytest.mark.parametrize("moved", [True, False])
    def test_moved_or_removed_under_its_writer(self, tmp_path, durability, moved):
        """No row is taken for written, and nothing is made in the old place."""
        place, kept = tmp_path / "run.zarr", tmp_path / "kept.zarr"
        store = create(place, 20, durability)
        store.append(rows(20, 21))
        store.flush()
        place.rename(kept)
        if not moved:
            shutil.rmtree(kept)

        def write(tickets):
            store.append(rows(21, 22), tickets)
            store.flush()

        for tickets in ((), told(21, 22)):
            with pytest.raises(FileNotFoundError, match=r"run\.zarr: writing .* failed: "):
                write(tickets)
        with pytest.raises(FileNotFoundError):
            store.close()
        assert not place.exists()
        if moved:
            assert_holds(ObservationStore.open(kept), 21)


READ_ONLY = """
import json
import os
import sys

from cases import store as cases
from scalable_bandits.store import ObservationStore

folder, free = sys.argv[1:]
cases.create(free + "/warm.zarr", 20).close()  # loads all that is loaded late
ObservationStore.open(free + "/warm.zarr", "a").close()
cases.assert_holds(ObservationStore.open(free + "/warm.zarr"), 20)
if os.geteuid() == 0:
    os.setuid(65534)
said = []
for call in (
    lambda: ObservationStore.open(folder + "/run.zarr", "a"),
    lambda: cases.create(folder + "/new.zarr"),
    lambda: cases.create(folder + "/empty"),
):
    try:
        call()
    except Exception as error:
        said.append([type(error).__name__, str(error)])
store = ObservationStore.open(folder + "/run.zarr")
store.refresh()
cases.assert_holds(store, int(35))
print(json.dumps([said, store.pending, store.orderly]))
"""


@pytest.mark.slow
def test_a_folder_that_may_not_be_written(originals):
    """Can be read; writing raises PermissionError with the store's name."""
    with tempfile.TemporaryDirectory() as top:
        folder, free = Path(top) / "folder", Path(top) / "free"
        shutil.copytree(originals / "closed", folder / "run.zarr")
        (folder / "empty").mkdir()
        free.mkdir()
        inside, before = [folder, *folder.rglob("*")], files(folder)
        for path in inside:
            path.chmod(0o555 if path.is_dir() else 0o444)
        Path(top).chmod(0o755)
        free.chmod(0o777)
        try:
            command = [sys.executable, "-W", "error", "-c", READ_ONLY, str(folder), str(free)]
            environment = {**os.environ, "PYTHONPATH": str(TESTS)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            assert not done.stderr
            said, pending, orderly = json.loads(done.stdout)
        finally:
            for path in inside:
                path.chmod(stat.S_IRWXU if path.is_dir() else stat.S_IRUSR | stat.S_IWUSR)
        assert files(folder) == before
    assert [kind for kind, _ in said] == ["PermissionError"] * 3
    for (_, text), name in zip(said, ("run.zarr", "new.zarr", "empty"), strict=True):
        assert f"store {folder / name}: " in text
    assert (pending, orderly) == ([41, 42], True)
