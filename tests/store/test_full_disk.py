"""What dying processes, full disks and permissions do to a run."""

import errno
import itertools
import json
import math
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from cases import store as cases
from cases.damage import ARRAYS, ROUNDS, WHOLE, assert_goes_on, assert_plain, files
from cases.paths import TESTS
from cases.policies import EVERY_POLICY, PROBLEMS
from cases.store import BOTH, CHUNK, FIELDS, SPECIFICATION, assert_equal, assert_holds, crash, create, rows, sizes

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreDamaged, StoreLocked, checkpoints, folder, journal

pytest_plugins = ["cases.store_fixtures"]
pytestmark = [pytest.mark.usefixtures("disk"), pytest.mark.slow]


class TestInterrupted:
    """At making, growing, closing."""

    @pytest.mark.parametrize("left", ["nothing", "arrays", "inputs", "attributes"])
    @pytest.mark.sampled(4)
    def test_making(self, tmp_path, left):
        """A run that was never made to its end is none, and can be made."""
        place = tmp_path / "run.zarr"
        crash(create(place, inputs={"abc": np.arange(3.0)}, planned=70))
        (place / "committed" / "record.json").unlink()  # which is made last
        if left != "attributes":
            for name in ("zarr.json", "committed/zarr.json", "committed/journal-1", "committed/digests-1"):
                (place / name).unlink()
        if left in ("nothing", "inputs"):
            for name in ARRAYS:
                shutil.rmtree(place / name)
        if left == "nothing":
            shutil.rmtree(place / "inputs")
        for mode in ("r", "a"):
            with pytest.raises(FileNotFoundError, match="there is no run"):
                ObservationStore.open(place, mode)
        create(place, 20, fields=FIELDS).close()
        assert_holds(ObservationStore.open(place), 20)
        assert_plain(place, 20)

    @pytest.mark.slow
    def test_making_at_every_write(self, tmp_path, disk):
        """What is there then is opened or made, as `simulate` does it."""
        for allowed in itertools.count():
            place = tmp_path / f"{allowed}.zarr"
            disk.room = allowed
            try:
                crash(create(place))
                break
            except OSError as error:
                TestFullDisk.check(error, place)
            finally:
                disk.room = math.inf
            with cases.repairs():
                try:
                    store = ObservationStore.open(place, "a")
                except FileNotFoundError:
                    store = create(place)
            with store:
                assert (len(store), store.specification) == (0, SPECIFICATION)
                store.append(rows(0, 40))
            assert_plain(place, 40)
        assert allowed > 8

    @pytest.mark.sampled(2)
    def test_half_written_files(self, kept):
        """Are removed, and disturb nobody before."""
        for name in ("y/c.1.0123.partial", "committed/c.abc.partial", "zarr.json.abc.partial"):
            (kept / name).write_bytes(b"rubbish")
        assert_holds(ObservationStore.open(kept), ROUNDS)
        assert len(list(kept.rglob("*.partial"))) == 3
        (said,) = assert_goes_on(kept, ROUNDS)
        assert re.search(r"run\.zarr: 3 half-written file\(s\) were removed", said)
        assert not list(kept.rglob("*.partial"))

    @pytest.mark.parametrize("longer", [1, 3])
    @pytest.mark.parametrize("length", [3 * CHUNK, 8 * CHUNK])
    @pytest.mark.sampled(4)
    def test_arrays_of_several_lengths(self, kept, longer, length):
        """Between two of them growing, or being trimmed."""
        group = zarr.open_group(kept, mode="r+")
        for name in ARRAYS[:longer]:
            group[name].resize((length, *group[name].shape[1:]))
        assert_holds(ObservationStore.open(kept), ROUNDS)
        store = ObservationStore.open(kept, "a")
        assert_holds(store, ROUNDS)
        store.close()
        assert_plain(kept, ROUNDS)
        assert_goes_on(kept, ROUNDS)

    def test_chunks_that_nobody_counts(self, crashed):
        """Written before the process died, of other rounds than came then."""
        group = zarr.open_group(crashed, mode="r+")
        for name in ARRAYS:
            group[name].resize((6 * CHUNK, *group[name].shape[1:]))
            group[name][WHOLE:] = 7
        assert_holds(ObservationStore.open(crashed), ROUNDS)
        assert_goes_on(crashed, ROUNDS)

    def test_a_chunk_is_committed_and_the_earlier_journal_still_there(self, tmp_path):
        """The process died before it was removed; it is another generation, and nothing is read from it."""
        place = tmp_path / "run.zarr"
        store = create(place, 0)
        for start in range(CHUNK):
            store.append(rows(start, start + 1))
        data = (place / "committed" / "journal-1").read_bytes()
        store.append(rows(CHUNK, CHUNK + 1))  # writes the chunk before
        crash(store)
        (place / "committed" / "journal-1").write_bytes(data)
        assert_holds(ObservationStore.open(place), CHUNK + 1)
        assert not assert_goes_on(place, CHUNK + 1)
        assert not (place / "committed" / "journal-1").exists()

    def test_a_chunk_is_written_and_not_committed(self, tmp_path, monkeypatch):
        """The process died before the commit record: the next generation of the journal is not the run's."""
        place = tmp_path / "run.zarr"
        store = create(place, 0)
        for start in range(CHUNK):
            store.append(rows(start, start + 1))
        monkeypatch.setattr(store.location, "write_record", lambda record: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.append(rows(CHUNK, CHUNK + 1))
        crash(store)
        assert_holds(ObservationStore.open(place), CHUNK)
        assert not assert_goes_on(place, CHUNK)

    @pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
    def test_a_commit_that_fails_after_it_was_written(self, tmp_path, monkeypatch, failure):
        """What is told next goes to the journal that the commit record names, whichever it was."""
        place = tmp_path / "run.zarr"
        store = create(place, 0)
        for start in range(CHUNK):
            store.append(rows(start, start + 1))
        write = store.location.write_record

        def fail(record):
            write(record)
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(store.location, "write_record", fail)
            with pytest.raises(failure):
                store.append(rows(CHUNK, CHUNK + 1))
            with pytest.raises(failure):  # and nothing is accepted before it is put right
                store.append(rows(CHUNK, CHUNK + 1))
        for start in range(CHUNK, CHUNK + 3):
            store.append(rows(start, start + 1))
        crash(store)
        assert_holds(ObservationStore.open(place), CHUNK + 3)
        assert not assert_goes_on(place, CHUNK + 3)

    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
    @pytest.mark.parametrize("way", [pytest.param("round", marks=pytest.mark.slow), "bulk"])
    @pytest.mark.sampled(2)
    def test_interrupted_at_every_call_and_gone_on(self, tmp_path, monkeypatch, failure, after, way):
        """Of a call that raised nothing is there, also if what it did was done; the next ones are kept, once each."""
        step = 1 if way == "round" else 7
        for number in itertools.count(1):
            place = tmp_path / f"{number}.zarr"
            store = create(place, durability="round" if way == "round" else "block")
            store.block = CHUNK
            called, accepted = itertools.count(1), []

            def calling(name, called=called, number=number):
                original = getattr(os, name)

                def call(*args, **kwargs):
                    main = threading.current_thread() is threading.main_thread()
                    if not main or next(called) != number:
                        return original(*args, **kwargs)
                    if after:
                        original(*args, **kwargs)
                    raise failure

                return call

            with monkeypatch.context() as patch:
                for name in ("write", "fsync", "replace", "pwrite", "ftruncate", "unlink"):
                    patch.setattr(os, name, calling(name))
                for start in range(0, 42, step):
                    try:
                        store.append(rows(start, start + step))
                    except failure:
                        continue
                    accepted += range(start, start + step)
                closed = True
                try:
                    store.close()
                except failure:
                    closed = False
                    crash(store)
            with cases.repairs():
                reader = ObservationStore.open(place)
            if way == "bulk" and not closed:  # what was accepted and not yet durable is gone
                accepted = accepted[: len(reader)]
            expected = {name: values[accepted] for name, values in rows(0, 42).items()}
            assert_equal(reader.read(), expected)
            with cases.repairs():
                ObservationStore.open(place, "a").close()
            assert_equal(ObservationStore.open(place).read(), expected)
            if next(called) <= number:
                assert number > 15
                return

    def test_the_next_generation_of_the_journal_fails(self, tmp_path, monkeypatch):
        """The present one goes on, and nothing is lost."""
        place = tmp_path / "run.zarr"
        store = create(place, 0)
        for start in range(CHUNK):
            store.append(rows(start, start + 1))
        with monkeypatch.context() as patch:
            patch.setattr(journal.FileJournal, "create", lambda self, data: (_ for _ in ()).throw(OSError(28, "full")))
            store.append(rows(CHUNK, CHUNK + 3))
        crash(store)
        assert_holds(ObservationStore.open(place), CHUNK + 3)
        assert not assert_goes_on(place, CHUNK + 3)

    def test_killed_between_the_moves_of_a_recovery(self, tmp_path, monkeypatch):
        """A reader says where the run is; the next writer finishes what was begun."""
        place = tmp_path / "run.zarr"
        create(place, ROUNDS).close()
        (place / "committed" / "record.json").unlink()
        move, calls = folder.Folder.move, []

        def once(self, other):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            move(self, other)

        with monkeypatch.context() as patch:
            patch.setattr(folder.Folder, "move", once)
            with pytest.raises(KeyboardInterrupt):
                ObservationStore.open(place, "a", recover=True)
        assert not place.exists()
        with pytest.raises(StoreDamaged, match=r"run\.zarr\.recovering has all of it"):
            ObservationStore.open(place)
        with pytest.warns(UserWarning, match=r"it was moved here from run\.zarr\.recovering"):
            ObservationStore.open(place, "a").close()
        assert len(ObservationStore.open(place)) >= WHOLE

    def test_a_lock_record_that_is_no_json(self, closed):
        """Another writer is refused all the same."""
        with ObservationStore.open(closed, "a"):
            (closed / "committed" / "writer.json").write_bytes(b'{"pid": 1')
            with pytest.raises(StoreLocked, match="is being written by"):
                ObservationStore.open(closed, "a")
        ObservationStore.open(closed, "a").close()


WAYS = {
    "round": ("round", {}),
    "flushed": ("block", {"block_seconds": -1.0}),
    "small": ("block", {"block": CHUNK}),
    "small-flushed": ("block", {"block_seconds": -1.0, "block": CHUNK}),
}


def in_way(way, place):
    """A new run of one of `WAYS`."""
    durability, given = WAYS[way]
    store = create(place, durability=durability)
    vars(store).update(given)
    return store


class TestFullDisk:
    """A call that fails leaves everything as it was, and works when there is room again."""

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.sampled(2)
    def test_at_every_write(self, tmp_path, disk, way):
        """Every call is tried with room for one write more, until it works."""
        store = in_way(way, tmp_path / "run.zarr")
        failures = 0
        for start, stop in sizes(110, seed=3, largest=41):
            for room in itertools.count():
                disk.room = room
                if self.append(store, start, stop):
                    break
                failures += 1
        disk.room = math.inf
        store.close()
        assert failures > 10
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 110)
        assert_plain(tmp_path / "run.zarr", 110)

    @staticmethod
    def check(error, place, number=errno.ENOSPC):
        """What happened, and to which store."""
        assert error.errno == number
        assert f"store {place}: " in str(error)

    def append(self, store, start, stop):
        """Whether it worked; if not, nothing has happened."""
        pending, durable = list(store.pending), store.durable
        try:
            store.append(rows(start, stop))
        except OSError as error:
            self.check(error, store.location.path)
            assert_holds(store, start)
            assert store.pending == pending
            reader = ObservationStore.open(store.location.path)
            assert durable <= len(reader) <= start
            assert_holds(reader, len(reader))
            return False
        assert_holds(store, stop)
        return True

    @pytest.mark.parametrize("way", ["round", "flushed"])
    @pytest.mark.sampled(2)
    def test_a_crash_after_it(self, tmp_path, disk, way):
        """What was there before is there; of the call that failed, nothing."""
        for allowed in range(0, 40, 5):
            place = tmp_path / f"{allowed}.zarr"
            disk.room = math.inf
            store = in_way(way, place)
            disk.room = allowed
            count = 0
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

    @pytest.mark.parametrize(
        ("call", "number"), [("fsync", errno.EIO), ("replace", errno.EIO), ("ftruncate", errno.EIO)]
    )
    @pytest.mark.sampled(3)
    def test_other_calls_that_fail(self, tmp_path, disk, call, number):
        for allowed in range(0, 60, 14):
            place = tmp_path / f"{allowed}.zarr"
            disk.room, disk.call, disk.number = math.inf, call, number
            store = create(place)
            disk.room = allowed
            for start, stop in sizes(60, seed=3):
                for _ in range(3):
                    try:
                        store.append(rows(start, stop))
                    except OSError as error:
                        self.check(error, place, number)
                        assert_holds(store, start)
                        disk.room = math.inf
                    else:
                        break
            disk.room = math.inf
            store.close()
            assert_plain(place, 60)

    def test_writes_that_take_only_a_part(self, tmp_path, disk):
        """And no error: the rest is written by another call."""
        disk.most = 7
        create(tmp_path / "run.zarr", 40).close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 40)
        assert_plain(tmp_path / "run.zarr", 40)

    @BOTH
    @pytest.mark.sampled(2)
    def test_other_calls_of_a_store(self, tmp_path, disk, durability):
        """They name the store, change nothing, and work when there is room again."""
        place = tmp_path / "run.zarr"
        store = create(place, durability=durability, planned=5)
        calls = [("note_pending", [3]), ("plan", 99), ("flush",), ("note_pending", []), ("plan", 7), ("flush",)]
        for i, (call, *given) in enumerate(calls):
            store.append(rows(20 * i, 20 * i + 20))
            for room in itertools.count():
                before = list(store.pending), store.planned
                disk.room = room
                try:
                    getattr(store, call)(*given)
                    break
                except OSError as error:
                    self.check(error, place)
                assert_holds(store, 20 * i + 20)
                assert (store.pending, store.planned) == before
                crashed = ObservationStore.open(place)
                assert crashed.planned == before[1]
                assert_holds(crashed, len(crashed))
            disk.room = math.inf
            store.flush()
            reader = ObservationStore.open(place)
            assert (reader.planned, reader.pending) == (store.planned, store.pending)
        store.close()
        assert_plain(place, 120)

    @BOTH
    @pytest.mark.parametrize("room", [0, 1, 2, 4, 7, 10])
    @pytest.mark.sampled(6)
    def test_closing(self, tmp_path, disk, durability, room):
        """What was durable stays so, and the store is free for the next writer."""
        place = tmp_path / "run.zarr"
        store = create(place, durability=durability)
        store.append(rows(0, 20))
        store.flush()
        store.append(rows(20, 41))
        durable = store.durable
        disk.room = room
        try:
            store.close()
            durable = 41
        except OSError as error:
            self.check(error, place)
        disk.room = math.inf
        assert not store.writable
        with cases.repairs(), ObservationStore.open(place, "a") as store:
            assert durable <= len(store) <= 41
            count = len(store)
            assert_holds(store, count)
        assert_plain(place, count)

    def test_a_checkpoint(self, tmp_path, disk):
        """That could not be written does not harm the one before, nor the rounds."""
        store = create(tmp_path / "run.zarr", 20)
        state = {"a": np.arange(10.0)}
        checkpoints.save(store.location, 10, state)
        checkpoints.save(store.location, 15, state)
        for room in itertools.count():
            disk.room = room
            try:
                checkpoints.save(store.location, 20, {"a": np.arange(20.0)})
                break
            except OSError:
                disk.room = math.inf
            found = checkpoints.load(store.location, 20)
            assert found[0] == 15
            assert_equal(found[1], state)
        disk.room = math.inf
        assert checkpoints.load(store.location, 20)[0] == 20
        store.append(rows(20, 21))
        checkpoints.save(store.location, 21, {"a": np.arange(20.0)})
        assert checkpoints.load(store.location, 21)[0] == 21
        store.close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 21)

    def test_one_field_of_a_chunk_while_others_are_written(self, tmp_path, monkeypatch):
        """What still is under way then does not come after the rows of the next call."""
        later, failed, held = threading.Event(), [], []
        real = journal.replace_file

        def replace_file(path, data):
            if path.parent.name == "candidate" and not failed:
                failed.append(path)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if path.parent.name == "y" and not held:
                held.append(path)
                later.wait(0.5)
            real(path, data)

        store = create(tmp_path / "run.zarr", durability="block")
        store.block = CHUNK
        monkeypatch.setattr("scalable_bandits.store.folder.replace_file", replace_file)
        with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))):
            store.append(rows(100, 100 + CHUNK))
        store.append(rows(0, CHUNK))
        later.set()
        store.close()
        assert failed
        assert held
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), CHUNK)

    def test_a_recording(self, tmp_path, disk):
        """What cannot be kept is not learned: the policy is as it was, and goes on as one that never failed."""
        policy, twin = (EVERY_POLICY["igpucb"].make(PROBLEMS["box"]) for _ in range(2))
        held = sb.record(policy, tmp_path / "run.zarr")
        draw = np.random.default_rng(0)
        for step in range(12):
            size = policy.finite_space.size
            disk.room = step % 2
            if step % 2 == 0:
                with pytest.raises(OSError, match=r"run\.zarr"):
                    policy.ask(2)
                assert (policy.pending, policy.rounds) == (twin.pending, twin.rounds)
            disk.room = math.inf
            x = policy.ask(2)
            np.testing.assert_array_equal(x, twin.ask(2))
            own = draw.random((2, 2)) - [0, 0.5]  # points of no candidate set
            for points in (x, own):
                disk.room = 0
                for _ in range(2):
                    with pytest.raises(OSError, match=r"run\.zarr"):
                        policy.tell(draw.random(2) - [0, 0.5] if points is own else points[0], 0.1)
                    with pytest.raises(OSError, match=r"run\.zarr"):
                        policy.tell(points, [0.3, 0.4])
                assert (policy.finite_space.size, policy.rounds) == (size, twin.rounds)
                disk.room = math.inf
                policy.tell(points, [0.3, 0.4 + step])
                twin.tell(points, [0.3, 0.4 + step])
                size = policy.finite_space.size
            np.testing.assert_array_equal(policy.posterior(own), twin.posterior(own))
        held.close()
        again = EVERY_POLICY["igpucb"].make(PROBLEMS["box"])
        with sb.record(again, tmp_path / "run.zarr"):
            np.testing.assert_array_equal(again.posterior(own), twin.posterior(own))
            np.testing.assert_array_equal(again.ask(3), twin.ask(3))


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
        inside = [folder, *folder.rglob("*")]
        before = files(folder)
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
