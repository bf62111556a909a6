"""Runs on disk: whatever was appended comes back, from every kind of place."""

import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import hypothesis
import hypothesis.stateful
import hypothesis.strategies as st
import numpy as np
import pytest
import store_cases as cases
import xarray
import zarr
from policy_cases import EVERY_POLICY, NOISE, PROBLEMS, on
from store_cases import CHUNK, FIELDS, SPECIFICATION, assert_equal, assert_holds, crash, create, reopen, rows, sizes
from zarr.buffer import cpu

import scalable_bandits as sb
from scalable_bandits import recording
from scalable_bandits.store import Field, ObservationStore, StoreError, StoreLocked, checkpoints, journal, writer
from scalable_bandits.trajectory import SERIES

BOTH = pytest.mark.parametrize("durability", ["round", "block"])


@pytest.fixture(params=cases.PLACES)
def place(request, tmp_path):
    """A place of each kind, with nothing in it."""
    return cases.PLACES[request.param](tmp_path)


class TestEveryPlace:
    """The same promises for a folder, zarr stores, a URL and an icechunk repository."""

    @BOTH
    def test_what_was_appended_comes_back(self, place, durability):
        """At every moment, after every close, and in one piece or many."""
        store = create(place, durability=durability)
        for start, stop in sizes(150):
            store.append(rows(start, stop))
            assert_holds(store, stop)
            if start % 3 == 0:
                store.flush()
        store.close()
        assert_holds(ObservationStore.open(place), 150)
        with ObservationStore.open(place, "a", durability=durability) as store:
            assert_holds(store, 150)
            for start in range(150, 170):
                store.append(rows(start, start + 1))
            store.append(rows(170, 300))
            store.append(rows(300, 300))
            assert_holds(store, 300)
        with ObservationStore.open(place, "a") as store:
            assert_holds(store, 300)
        assert_holds(ObservationStore.open(place), 300)

    @pytest.mark.parametrize("count", [0, CHUNK - 1, CHUNK, CHUNK + 1])
    def test_closed_at_any_count(self, place, count):
        create(place, count).close()
        assert_holds(ObservationStore.open(place), count)
        assert dict(ObservationStore.open(place).dataset().sizes) == {"round": count, "dimension": 2}
        with ObservationStore.open(place, "a") as store:
            store.append(rows(count, count + 1))
        assert_holds(ObservationStore.open(place), count + 1)

    @pytest.mark.parametrize("writing", [True, False])
    def test_any_slice(self, place, writing):
        store = create(place, 75)
        if not writing:
            store.close()
            store = ObservationStore.open(place)
        bounds = (0, 1, CHUNK, 63, 64, 65, 75)
        for start in bounds:
            for stop in (*bounds, 1000, None):
                end = 75 if stop is None else min(stop, 75)
                assert_equal(store.read(start, stop), rows(min(start, end), end))
        names = ["y", "round"]
        found = store.read(60, 70, names)
        assert list(found) == names
        np.testing.assert_array_equal(found["round"], np.arange(61, 71))

    def test_what_is_read_is_the_readers_own(self, place):
        """Changing it, or what was appended, changes nothing in the store."""
        given = {name: array.copy() for name, array in rows(0, 50).items()}
        store = create(place, durability="block")
        store.append(given)
        for columns in (given, store.read(), store.read(40)):
            for array in columns.values():
                array[:] = 7
        assert_holds(store, 50)
        store.close()
        assert_holds(ObservationStore.open(place), 50)

    def test_sample_and_dataset(self, place):
        store = create(place, 75)
        store.close()
        for run in (store, ObservationStore.open(place), ObservationStore.open(place, "a")):
            rounds = np.array([1, 16, 17, 50, 64, 65, 75])
            np.testing.assert_array_equal(run.sample("y", rounds), cases.TABLE["y"][rounds - 1])
            dataset = run.dataset()
            assert all(variable.chunks for variable in dataset.data_vars.values())
            assert dataset["x"].dims == ("round", "dimension")
            assert_equal({name: dataset[name].to_numpy() for name in dataset.data_vars}, rows(0, 75))
            np.testing.assert_array_equal(dataset["round"], np.arange(1, 76))
            run.close()

    def test_what_describes_the_run(self, place):
        large = np.random.default_rng(3).random((30, 4))
        store = create(place, 20, planned=500, attributes={"kind": "test"}, inputs={"abc": large})
        store.close()
        for mode in ("r", "a"):
            store = ObservationStore.open(place, mode)
            assert store.specification == SPECIFICATION
            assert (store.planned, store.fields, store.chunk) == (500, FIELDS, CHUNK)
            assert store.attributes["kind"] == "test"
            np.testing.assert_array_equal(store.input("abc"), large)
            store.close()

    def test_a_plan_can_change(self, place):
        create(place, 5, planned=100).close()
        with ObservationStore.open(place, "a") as store:
            store.plan(200)
            store.append(rows(5, 40))
        store = ObservationStore.open(place)
        assert store.planned == 200
        assert_holds(store, 40)

    @BOTH
    def test_what_is_pending_stays_so(self, place, durability):
        """Until it is told; a point asked for twice is pending twice."""
        store = create(place, durability=durability)
        store.note_pending([3, 5, 3, 9])
        told = {**rows(0, 2), "candidate": np.array([5, 3])}
        store.append(told)
        assert store.pending == [3, 9]
        store.close()
        for mode in ("r", "a"):
            store = ObservationStore.open(place, mode)
            assert (store.pending, store.orderly) == ([3, 9], True)
            store.close()
        with ObservationStore.open(place, "a", durability=durability) as store:
            store.append({**rows(2, 40), "candidate": np.full(38, 4)})
            assert store.pending == [3, 9]
            store.note_pending([9])
        assert ObservationStore.open(place).pending == [9]
        with ObservationStore.open(place, "a") as store:
            store.note_pending([])
        store = ObservationStore.open(place)
        assert (store.pending, len(store)) == ([], 40)

    def test_pending_again(self, place):
        """What is asked for after it was told is pending, whatever was told since the last flush."""
        store = create(place, durability="block")
        told = {**rows(0, 2), "candidate": np.array([5, 3])}
        store.note_pending([5])
        store.flush()
        store.append(told)
        store.note_pending([5])
        store.flush()
        assert ObservationStore.open(place).pending == [5]
        store.append({**rows(2, CHUNK + 9), "candidate": np.full(CHUNK + 7, 3)})
        store.note_pending([3])
        store.flush()
        assert ObservationStore.open(place).pending == [3]
        store.close()
        store = ObservationStore.open(place, "a", durability="round")
        assert store.pending == [3]
        store.append({**rows(CHUNK + 9, CHUNK + 10), "candidate": np.array([3])})
        store.note_pending([3])
        crash(store)
        assert ObservationStore.open(place).pending == [3]

    def test_an_exception_is_no_orderly_end(self, place):
        """But everything is durable, and the next writer may enter."""
        store = create(place, durability="block")
        store.append(rows(0, 21))
        store.note_pending([2])
        with pytest.raises(ZeroDivisionError), store:
            raise ZeroDivisionError
        assert not store.writable
        for mode in ("r", "a"):
            store = ObservationStore.open(place, mode)
            assert (store.orderly, store.pending) == (False, [2])
            assert_holds(store, 21)
            store.close(orderly=False)
        ObservationStore.open(place, "a").close()
        assert ObservationStore.open(place).orderly

    def test_nothing_is_overwritten(self, place):
        create(place, 20).close()
        with pytest.raises(FileExistsError, match="exists already"):
            create(place)
        assert_holds(ObservationStore.open(place), 20)
        with ObservationStore.open(place, "a"), pytest.raises(FileExistsError):
            create(place)
        assert_holds(ObservationStore.open(place), 20)

    def test_nothing_there(self, place):
        for mode in ("r", "a"):
            with pytest.raises(FileNotFoundError, match="there is no run in"):
                ObservationStore.open(place, mode)
        create(place, 3).close()
        assert_holds(ObservationStore.open(place), 3)

    def test_one_writer(self, place):
        """Also in the same process; the message names it. Readers may come."""
        store = create(place, 5)
        for _ in range(2):
            with pytest.raises(StoreLocked, match=rf"is being written by process {os.getpid()} on "):
                ObservationStore.open(place, "a")
        assert_holds(ObservationStore.open(place), 5)
        store.append(rows(5, 6))
        store.close()
        with ObservationStore.open(place, "a") as store:
            with pytest.raises(StoreLocked):
                ObservationStore.open(place, "a")
            store.append(rows(6, 7))
        assert_holds(ObservationStore.open(place), 7)

    def test_one_writer_of_many_at_once(self, place):
        """Whoever comes at the same moment is refused."""
        create(place, 5).close()
        start, came = threading.Barrier(6), []

        def enter():
            start.wait()
            try:
                came.append(ObservationStore.open(place, "a"))
            except BaseException as error:
                came.append(error)

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writers = [one for one in came if isinstance(one, ObservationStore)]
        assert [type(one) for one in came if one not in writers] == [StoreLocked] * 5
        (store,) = writers
        store.append(rows(5, 6))
        store.close()
        assert_holds(ObservationStore.open(place), 6)

    def test_closed_by_another_thread(self, place):
        """The lock is the store's, not the thread's."""
        store = create(place, 5)
        thread = threading.Thread(target=store.close)
        thread.start()
        thread.join()
        with ObservationStore.open(place, "a") as again:
            again.append(rows(5, 6))
            with pytest.raises(StoreLocked):
                ObservationStore.open(place, "a")

    def test_closed_for_good(self, place):
        store = create(place, 5)
        store.close()
        store.close()
        for call in (
            lambda: store.append(rows(5, 6)),
            lambda: store.note_pending([1]),
            lambda: store.plan(9),
            store.flush,
        ):
            with pytest.raises(StoreError, match="not open for writing"):
                call()
        assert_holds(store, 5)
        with pytest.raises(StoreError, match="not open for writing"):
            ObservationStore.open(place).append(rows(5, 6))

    @pytest.mark.parametrize("kind", ["memory", "icechunk"])
    def test_writers_that_are_gone(self, tmp_path, kind):
        """Of a store that is no folder: one of this machine is known to be dead, one of another is said to be."""
        place = cases.PLACES[kind](tmp_path)
        create(place, 5).close()
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        here = {"pid": process.pid, "host": socket.gethostname(), "command": "play.py", "since": time.time()}
        for record in (here, {**here, "pid": 1, "host": "another"}, {**here, "pid": os.getpid(), "since": 1.0}):
            store, settle = cases.zarr_store(place)
            if kind == "memory":
                store._store_dict["bookkeeping/writer.json"] = cpu.Buffer.from_bytes(json.dumps(record).encode())
            else:
                zarr.open_group(store, mode="r+", path="bookkeeping").attrs["writer"] = record
                settle()
            if record["host"] == "another":
                hint = r"is being written by process 1 on another \(play\.py\), since .*; if it is gone, open with"
                with pytest.raises(StoreLocked, match=hint):
                    ObservationStore.open(place, "a")
            with ObservationStore.open(place, "a", takeover=record["host"] == "another") as store:
                assert_holds(store, 5)
                with pytest.raises(StoreLocked, match=str(os.getpid())):
                    ObservationStore.open(place, "a")

    def test_a_new_version_is_asked_for(self, place):
        """By a schema that this one does not know."""
        create(place, 5).close()
        store, settle = cases.zarr_store(place)
        zarr.open_group(store, mode="r+").attrs["schema"] = 99
        settle()
        for mode in ("r", "a"):
            with pytest.raises(StoreError, match=r"newer version \(schema 99.* upgrade"):
                ObservationStore.open(place, mode)

    def test_plain_zarr_and_xarray(self, place):
        """Read every round of a closed run, and nothing more, without a warning."""
        inputs = {"abc": np.arange(100.0)}
        for first, last in ((0, 40), (40, 41), (41, 64), (64, 150)):
            with reopen(place) if first else create(place, inputs=inputs) as store:
                store.append(rows(first, last))
            if first == 41:
                with reopen(place) as store:
                    checkpoints.save(store.location, last, {"a": np.arange(3)})
            group = zarr.open_group(cases.plain(place), mode="r")
            assert int(group["committed"][()]) == last
            assert_equal({field.name: group[field.name][:] for field in FIELDS}, rows(0, last))
            np.testing.assert_array_equal(group["round"][:], np.arange(1, last + 1))
            assert {"committed", "inputs", "round", "y"} < dict(group.members()).keys()
            for chunks in ({}, None):
                with xarray.open_zarr(cases.plain(place), consolidated=False, chunks=chunks) as dataset:
                    assert dict(dataset.sizes) == {"round": last, "dimension": 2}
                    found = {field.name: dataset[field.name].to_numpy() for field in FIELDS}
                    assert_equal(found, rows(0, last))
                    assert int(dataset["committed"]) == last

    @BOTH
    def test_a_reader_sees_a_growing_prefix(self, place, durability):
        """Exact rows, in order, whatever the writer is at."""
        total, seen, failed = 300, [], []
        store = create(place, durability=durability)
        reader = ObservationStore.open(place)

        def write():
            try:
                for start, stop in sizes(total, seed=4):
                    store.append(rows(start, stop))
                    if durability == "block" and start % 7 == 0:
                        store.flush()
                store.close()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        while thread.is_alive() or not seen:
            reader.refresh()
            assert_holds(reader, len(reader))
            seen.append(len(reader))
        thread.join()
        assert not failed
        reader.refresh()
        assert_holds(reader, total)
        assert seen == sorted(seen)

    def test_a_reader_sees_what_was_written_since(self, place):
        """When it looks again; what it has stays exact until then."""
        store = create(place, 10)
        reader = ObservationStore.open(place)
        for count in (11, 30, 70):
            before = len(reader)
            store.append(rows(len(store), count))
            assert_holds(reader, before)
            reader.refresh()
            assert_holds(reader, count)
        store.note_pending([4])
        store.close()
        reader.refresh()
        assert (reader.pending, reader.orderly) == ([4], True)
        assert_holds(reader, 70)

    def test_a_crash_costs_nothing(self, place):
        """With durability "round": what `append` and `note_pending` have returned from is there."""
        crash(create(place, 0))
        count = 0
        for step in (1, 2, CHUNK - 3, 1, 40, 1):
            store = reopen(place, durability="round")
            assert_holds(store, count)
            store.append(rows(count, count + step))
            store.note_pending([7, count])
            count += step
            crash(store)
            reader = ObservationStore.open(place)
            assert (reader.pending, reader.orderly) == ([7, count - step], False)
            assert_holds(reader, count)

    def test_a_crash_costs_a_block_at_the_most(self, place):
        """With durability "block": nothing of what was flushed; what is there is a prefix."""
        count = 0
        crash(create(place, durability="block"))
        for flushed, more in ((5, 1), (0, 20), (40, 3), (16, 16), (1, 0)):
            store = reopen(place, durability="block")
            assert_holds(store, count)
            store.append(rows(count, count + flushed))
            store.flush()
            count += flushed
            assert store.durable == count
            store.append(rows(count, count + more))
            crash(store)
            reader = ObservationStore.open(place)
            assert count <= len(reader) <= count + more
            assert_holds(reader, len(reader))
            count = len(reader)

    def test_checkpoints(self, place):
        """Come back bit for bit, the newest first, and writing goes on after each."""
        draw = np.random.default_rng(5)
        store = create(place, 3)
        assert checkpoints.load(store.location, 3) is None
        states = {}
        for rounds in (3, 10, 40):
            store.append(rows(len(store), rounds))
            states[rounds] = {
                "none": np.empty((0, 4)),
                "matrix": draw.standard_normal((rounds, 7)).T,
                "numbers": draw.integers(0, 9, rounds),
                "flags": draw.random(rounds) < 0.5,
                "one": np.array(np.nan),
            }
            checkpoints.save(store.location, rounds, states[rounds])
            self.assert_state(checkpoints.load(store.location, rounds), rounds, states)
        self.assert_state(checkpoints.load(store.location, 39), 10, states)
        assert checkpoints.load(store.location, 9) is None  # two are kept
        assert checkpoints.load(store.location, 40, "another version") is None
        store.append(rows(40, 41))
        store.close()
        location = ObservationStore.open(place).location
        self.assert_state(checkpoints.load(location, 41), 40, states)
        assert_holds(ObservationStore.open(place), 41)

    @staticmethod
    def assert_state(found, rounds, states):
        assert found[0] == rounds
        assert_equal(found[1], states[rounds])

    @pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
    def test_a_damaged_checkpoint_is_passed_over(self, place, damage):
        store = create(place, 20)
        states = {rounds: {"state": np.random.default_rng(rounds).random(50)} for rounds in (10, 20)}
        for rounds, state in states.items():
            checkpoints.save(store.location, rounds, state)
        store.close()
        for left in (10, None):
            self.damage_newest(place, damage, 20 if left else 10)
            location = ObservationStore.open(place).location
            found = checkpoints.load(location, 20)
            if left is None:
                assert found is None
            else:
                self.assert_state(found, left, states)
        with ObservationStore.open(place, "a") as store:
            assert_holds(store, 20)
            checkpoints.save(store.location, 20, states[20])
            self.assert_state(checkpoints.load(store.location, 20), 20, states)

    @staticmethod
    def damage_newest(place, damage, rounds):
        store, settle = cases.zarr_store(place)
        group = zarr.open_group(store, mode="r+")["checkpoints"]
        name = next(name for name, array in group.arrays() if array.attrs["rounds"] == rounds)
        key = f"checkpoints/{name}/c/0"
        prototype = zarr.core.buffer.default_buffer_prototype()
        data = bytearray(zarr.core.sync.sync(store.get(key, prototype)).to_bytes())
        if damage == "gone":
            zarr.core.sync.sync(store.delete(key))
        else:
            data[100] ^= 1
            kept = data[:60] if damage == "cut" else data
            zarr.core.sync.sync(store.set(key, prototype.buffer.from_bytes(bytes(kept))))
        settle()


class TestDurability:
    """When rows become durable."""

    @pytest.fixture(params=["folder", "memory"])
    def place(self, request, tmp_path):
        return cases.PLACES[request.param](tmp_path)

    def test_at_most_a_block_is_held_back(self, place, monkeypatch):
        """However the rows come."""
        monkeypatch.setattr(writer, "BLOCK_BYTES", 40 * 3 * CHUNK)  # bytes a row: 40
        store = create(place, durability="block")
        for start, stop in sizes(400, largest=150):
            store.append(rows(start, stop))
            assert start - 3 * CHUNK < store.durable <= stop
        crash(store)
        reader = ObservationStore.open(place)
        assert len(reader) == store.durable
        assert_holds(reader, len(reader))

    def test_at_most_a_second_is_held_back(self, place, monkeypatch):
        """By an append that comes later."""

        class Clock:
            now = 100.0

            @classmethod
            def monotonic(cls):
                return cls.now

        monkeypatch.setattr(writer, "time", Clock)
        store = create(place, durability="block")
        counts = {}
        for start, stop in sizes(60, largest=20):
            Clock.now += 0.4
            counts[Clock.now] = stop
            store.append(rows(start, stop))
            old = [count for when, count in counts.items() if when < Clock.now - 1.45]
            assert max(old, default=0) <= store.durable <= stop
        crash(store)
        reader = ObservationStore.open(place)
        assert len(reader) == store.durable
        assert_holds(reader, len(reader))

    def test_durability_may_change(self, place):
        """From opening to opening."""
        create(place, 20, durability="block").close()
        for start, durability in ((20, "round"), (50, "block"), (80, "round")):
            store = ObservationStore.open(place, "a", durability=durability)
            store.append(rows(start, start + 30))
            store.close()
        store = ObservationStore.open(place, "a", durability="round")
        store.append(rows(110, 111))
        crash(store)
        assert_holds(ObservationStore.open(place), 111)

    def test_a_journal_of_small_segments(self, monkeypatch):
        """Where files cannot be appended to, frames lie across segments; a new journal hides the old."""
        monkeypatch.setattr(journal, "SEGMENT", 64)
        place = zarr.storage.MemoryStore()
        store = create(place, durability="round")
        for start in range(60):
            store.append(rows(start, start + 1))
            store.note_pending(list(range(start % 5)))
            if start % 4 == 0:
                reader = ObservationStore.open(place)
                assert_holds(reader, start + 1)
                assert reader.pending == list(range(start % 5))
        store.close()
        for start in range(60, 85):
            with ObservationStore.open(place, "a", durability="round") as store:
                store.append(rows(start, start + 1))
        assert_holds(ObservationStore.open(place), 85)


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=40)
def test_a_journal_in_segments_is_one_in_a_file(data):
    """Whatever is appended, cut and replaced: the same frames are read."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(journal, "SEGMENT", data.draw(st.sampled_from([32, 50, 64]), "segment"))
        group = zarr.open_group(zarr.storage.MemoryStore(), mode="a")
        array = group.create_array("journal", **journal.ArrayJournal.layout())
        both = journal.FileJournal(Path(folder) / "journal"), journal.ArrayJournal(array)
        frames = []
        for _ in range(data.draw(st.integers(1, 12), "operations")):
            operation = data.draw(st.sampled_from(["append", "append", "replace", "cut", "reopen"]))
            if operation in ("append", "replace"):
                size = data.draw(st.integers(0, 80), "payload")
                frame = journal.encode(journal.Kind.ROWS, len(frames), bytes([1 + len(frames)]) * size)
                frames = frames if operation == "append" else []
                frames.append(frame)
                for one in both:
                    getattr(one, operation)(frame)
            elif operation == "cut":
                frames = frames[: data.draw(st.integers(0, len(frames)), "left")]
                for one in both:
                    one.read()
                    one.cut(sum(map(len, frames)))
            else:
                both = journal.FileJournal(both[0].path), journal.ArrayJournal(array)
                for one in both:
                    one.read()
            for one in (*both, journal.ArrayJournal(array)):
                assert one.read() == b"".join(frames)
        assert len(list(journal.parse(both[1].read()))) == len(frames)
        both[0].close()


class Operations(hypothesis.stateful.RuleBasedStateMachine):
    """A store, and the lists that it should be."""

    def __init__(self, kind):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = cases.PLACES[kind](Path(self.folder.name))
        self.numbers = []  # one for each row, no two the same
        self.pending = []
        self.next = 0
        self.wrote = True  # since it was opened

    @staticmethod
    def columns(numbers):
        """Rows that can be told apart."""
        n = np.array(numbers, dtype=np.int64)
        noise = np.where(n % 50 < 40, np.nan, n)
        return {"candidate": n % 7, "x": np.stack([n / 3, -n], 1), "y": np.sqrt(n), "noise": noise}

    @hypothesis.stateful.initialize(durability=st.sampled_from(["round", "block"]), planned=st.sampled_from([None, 99]))
    def begin(self, durability, planned):
        self.store = create(self.place, durability=durability, planned=planned)
        self.planned = planned
        self.settled()

    def settled(self):
        """Everything so far would survive."""
        self.durable, self.durable_pending, self.held_back = len(self.numbers), list(self.pending), False

    def changed(self):
        self.wrote = True
        if self.store.durability == "round":
            self.settled()
        else:
            self.held_back = True

    @hypothesis.stateful.rule(count=st.one_of(st.integers(0, 5), st.integers(0, 3 * CHUNK)))
    def append(self, count):
        numbers = list(range(self.next, self.next + count))
        self.next += count
        self.store.append(self.columns(numbers))
        if not numbers:
            return
        self.numbers += numbers
        for candidate in (number % 7 for number in numbers):
            if candidate in self.pending:
                self.pending.remove(candidate)
        self.changed()

    @hypothesis.stateful.rule(name=st.sampled_from([field.name for field in FIELDS]))
    def append_what_is_refused(self, name):
        with pytest.raises(ValueError, match=name):
            self.store.append({**self.columns([1, 2]), name: np.zeros(1)})

    @hypothesis.stateful.rule(pending=st.lists(st.integers(0, 6), max_size=6))
    def note_pending(self, pending):
        self.store.note_pending(pending)
        if pending != self.pending:
            self.pending = list(pending)
            self.changed()

    @hypothesis.stateful.rule()
    def flush(self):
        self.store.flush()
        assert self.store.durable == len(self.numbers)
        self.settled()

    @hypothesis.stateful.rule(durability=st.sampled_from(["round", "block"]), orderly=st.booleans())
    def close(self, durability, orderly):
        self.store.close(orderly)
        group = zarr.open_group(cases.plain(self.place), mode="r")
        assert int(group["committed"][()]) == len(self.numbers)
        found = {field.name: group[field.name][:] for field in FIELDS}
        assert_equal(found, self.columns(self.numbers))
        for mode in ("r", "a"):
            self.store = ObservationStore.open(self.place, mode, durability=durability)
            self.holds()
            assert self.store.orderly == orderly or not (orderly or self.wrote)
        self.settled()
        self.wrote = False

    @hypothesis.stateful.rule(durability=st.sampled_from(["round", "block"]))
    def die(self, durability):
        crash(self.store)
        self.store = reopen(self.place, durability=durability)
        kept = len(self.store)
        assert self.durable <= kept <= len(self.numbers)
        if not self.held_back:
            assert self.store.pending == self.durable_pending
        self.numbers, self.pending = self.numbers[:kept], list(self.store.pending)
        self.settled()
        self.wrote = False

    @hypothesis.stateful.rule()
    def look(self):
        """As a reader, who sees what is durable."""
        reader = ObservationStore.open(self.place)
        assert self.durable <= len(reader) <= len(self.numbers)
        assert_equal(reader.read(), self.columns(self.numbers[: len(reader)]))
        assert reader.planned == self.planned
        if not self.held_back:
            assert reader.pending == self.pending

    @hypothesis.stateful.rule(start=st.integers(0, 100), count=st.integers(0, 50))
    def read(self, start, count):
        assert_equal(self.store.read(start, start + count), self.columns(self.numbers[start : start + count]))

    @hypothesis.stateful.rule(planned=st.integers(1, 300))
    def plan(self, planned):
        self.store.plan(planned)
        self.planned = planned

    @hypothesis.stateful.invariant()
    def holds(self):
        if hasattr(self, "store"):
            assert_equal(self.store.read(), self.columns(self.numbers))
            assert (self.store.pending, self.store.planned) == (self.pending, self.planned)

    def teardown(self):
        if hasattr(self, "store"):
            crash(self.store)
        self.folder.cleanup()


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_any_order_of_operations(kind):
    """The store is what plain lists would be."""
    examples = {"folder": 12, "memory": 25}[kind]
    settings = hypothesis.settings(max_examples=examples, stateful_step_count=25, report_multiple_bugs=False)
    hypothesis.stateful.run_state_machine_as_test(functools.partial(Operations, kind), settings=settings)


READER_OR_WRITER = """
import sys

import store_cases as cases

store = cases.create(sys.argv[1], durability="round")
for start, stop in cases.sizes(int(sys.argv[2])):
    store.append(cases.rows(start, stop))
    print(stop, flush=True)
sys.stdin.read()
"""


def test_a_writer_in_another_process(tmp_path):
    """Is named to other writers; a reader sees exact rows, and at once what the writer says is there."""
    command = [sys.executable, "-c", READER_OR_WRITER, str(tmp_path / "run.zarr"), "300"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            reader, said = None, 0
            while said < 300:
                said = int(process.stdout.readline())
                reader = reader or ObservationStore.open(tmp_path / "run.zarr")
                reader.refresh()
                assert said <= len(reader) <= 300
                assert_holds(reader, len(reader))
            with pytest.raises(StoreLocked, match=rf"is being written by process {process.pid} on "):
                ObservationStore.open(tmp_path / "run.zarr", "a")
        finally:
            process.kill()
    with ObservationStore.open(tmp_path / "run.zarr", "a") as store:
        assert not store.orderly
        assert_holds(store, 300)


class TestRefusals:
    """What a store does not take; it is as it was afterwards."""

    @pytest.mark.parametrize(
        "change",
        [
            {"y": None},
            {"y": np.zeros(3)},
            {"y": np.zeros((2, 1))},
            {"y": 1.0},
            {"x": np.zeros(2)},
            {"x": np.zeros((2, 3))},
            {"x": np.zeros((2, 2, 1))},
            {"z": np.zeros(2)},
            {"round": np.array([1, 2])},
            {"candidate": np.array([0.0, 1.0])},
            {"candidate": np.array([True, False])},
            {"candidate": np.array(["0", "1"])},
            {"candidate": np.array([0, 2**63], dtype=np.uint64)},
            {"y": np.array(["a", "b"])},
            {"y": np.array([1.0, 2.0 + 1.0j])},
            {"y": np.array([1.0, None])},
        ],
        ids=str,
    )
    @BOTH
    def test_rows(self, tmp_path, change, durability):
        store = create(tmp_path / "run.zarr", 5, durability)
        given = {name: array for name, array in {**rows(5, 7), **change}.items() if array is not None}
        (name,) = change
        with pytest.raises(ValueError, match=name):
            store.append(given)
        assert_holds(store, 5)
        store.append(rows(5, 7))
        store.close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 7)

    @pytest.mark.parametrize("durability", ["rounds", "", None, 1])
    def test_durability(self, tmp_path, durability):
        with pytest.raises(ValueError, match=r"^durability: got .*; allowed: 'round' or 'block'"):
            create(tmp_path / "run.zarr", durability=durability)
        assert not any(tmp_path.iterdir())
        create(tmp_path / "run.zarr").close()
        with pytest.raises(ValueError, match=r"^durability: got "):
            ObservationStore.open(tmp_path / "run.zarr", "a", durability=durability)

    @pytest.mark.parametrize("mode", ["w", "r+", "", None, 1])
    def test_mode(self, tmp_path, mode):
        create(tmp_path / "run.zarr").close()
        with pytest.raises(ValueError, match=r"^mode: got .*; allowed: 'r' or 'a'"):
            ObservationStore.open(tmp_path / "run.zarr", mode)

    @pytest.mark.parametrize("chunk", [0, -1, 1.5, True, "16", None])
    def test_chunk(self, tmp_path, chunk):
        with pytest.raises(ValueError, match=r"^chunk: got .*; allowed: a positive integer"):
            create(tmp_path / "run.zarr", chunk=chunk)
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "fields",
        [
            (),
            (Field("y"), Field("y")),
            (Field("round"),),
            (Field("committed"),),
            (Field("y"), Field("checkpoints")),
            (Field(""),),
            (Field("a/b"),),
            (Field("y", "object"),),
        ],
        ids=str,
    )
    def test_fields(self, tmp_path, fields):
        """No names that zarr or the store need for themselves."""
        with pytest.raises(ValueError, match="field"):
            create(tmp_path / "run.zarr", fields=fields)
        create(tmp_path / "run.zarr", 5).close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 5)

    @pytest.mark.parametrize("place", [None, 3, 1.5, b"run.zarr", ["run.zarr"], {}], ids=repr)
    def test_place(self, place):
        for call in (create, ObservationStore.open):
            with pytest.raises(ValueError, match=r"^store: got .*; allowed: a path, a URL, a zarr store, or an"):
                call(place)

    @pytest.mark.parametrize("kind", ["file", "folder", "group", "array"])
    def test_what_is_no_run(self, tmp_path, kind):
        """Stays as it is."""
        place = tmp_path / "mine"
        if kind == "file":
            place.write_text("mine")
        elif kind == "folder":
            place.mkdir()
            (place / "mine.txt").write_text("mine")
        elif kind == "group":
            zarr.open_group(place, mode="w").create_array("y", shape=3, dtype=float)[:] = 1.0
        else:
            zarr.create_array(place, shape=3, dtype=float)[:] = 1.0
        before = everything(tmp_path)
        for call in (create, ObservationStore.open, reopen):
            with pytest.raises(FileExistsError, match=r"^store: .*mine exists already"):
                call(place)
        assert everything(tmp_path) == before

    def test_a_group_in_a_zarr_store_that_is_no_run(self):
        place = zarr.storage.MemoryStore()
        zarr.open_group(place, mode="w").create_array("y", shape=3, dtype=float)[:] = 1.0
        before = sorted(place._store_dict)
        for call in (create, ObservationStore.open, reopen):
            with pytest.raises(FileExistsError, match=r"^store: .* exists already"):
                call(place)
        assert sorted(place._store_dict) == before

    def test_looking_makes_nothing(self, tmp_path):
        for mode in ("r", "a"):
            with pytest.raises(FileNotFoundError):
                ObservationStore.open(tmp_path / "there" / "run.zarr", mode)
        assert not any(tmp_path.iterdir())
        (tmp_path / "run.zarr").mkdir()
        with pytest.raises(FileNotFoundError):
            ObservationStore.open(tmp_path / "run.zarr")
        create(tmp_path / "run.zarr", 5).close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 5)

    def test_paths_of_every_kind(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        create("a/b/run.zarr", 3).close()
        for place in (
            "a/b/run.zarr",
            Path("a/b/run.zarr"),
            tmp_path / "a/b/run.zarr",
            f"file://{tmp_path}/a/b/run.zarr",
        ):
            assert_holds(ObservationStore.open(place), 3)
        with ObservationStore.open(zarr.storage.LocalStore(tmp_path / "a/b/run.zarr"), "a") as store:
            with pytest.raises(StoreLocked):
                ObservationStore.open("a/b/run.zarr", "a")
            store.append(rows(3, 4))
        assert_holds(ObservationStore.open("a/b/run.zarr"), 4)


def everything(folder):
    """All files, but for the lock."""
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("writer.lock", "writer.json")
    }


# ---- simulations


@pytest.fixture
def small(monkeypatch):
    """Chunks and blocks so small that a short run has several."""
    monkeypatch.setattr(recording, "open_run", functools.partial(recording.open_run, chunk=CHUNK))
    monkeypatch.setattr(sys.modules["scalable_bandits.simulate"], "BLOCK_ROUNDS", 7)
    monkeypatch.setattr(recording, "REPLAY_BLOCK", 11)


@pytest.fixture
def often(monkeypatch):
    """A checkpoint at every occasion."""
    monkeypatch.setattr(recording.Checkpoints, "spent", lambda self, seconds: self.save())


def environment_of(space, seed=7, noise=NOISE):
    problem = PROBLEMS[space]
    if space == "box":
        return sb.FunctionEnvironment(problem.space, problem.truth, sb.GaussianNoise(noise), seed, optimum=2.0)
    values = [problem.truth(x) for x in problem.space.points()]
    return sb.TableEnvironment(problem.space, values, sb.GaussianNoise(noise), seed)


def every_third(t):
    return np.arange(t % 3, 90, 3)


def every_second(t):
    return np.arange(t % 2, 90, 2)


def assert_same_run(run, whole):
    """All that a run tells, but for how it is kept."""
    one, other = run.dataset().compute(), whole.dataset()
    xarray.testing.assert_identical(one, other)
    for name in ("candidate", *SERIES):
        values = getattr(run, name)
        assert values.dtype == getattr(whole, name).dtype
        np.testing.assert_array_equal(values, getattr(whole, name))
    assert (len(run), run.first_round, run.specification) == (len(whole), 1, whole.specification)
    for arguments in ((), (7,), (1,), (20, True)):
        for values, expected in zip(run.curve(*arguments), whole.curve(*arguments), strict=True):
            np.testing.assert_array_equal(values, expected)


def play_in_pieces(name, space, place, horizons=(13, 14, 40), available=None, durability="block", **given):
    """A fresh policy for every piece."""
    for horizon in horizons:
        policy = EVERY_POLICY[name].make(PROBLEMS[space], **given)
        run = sb.simulate(
            policy, environment_of(space), horizon, available=available, store=place, durability=durability
        )
        assert (len(run), policy.rounds) == (horizon, horizon)
    return run


def play_whole(name, space, horizon=40, available=None, **given):
    policy = EVERY_POLICY[name].make(PROBLEMS[space], **given)
    return sb.simulate(policy, environment_of(space), horizon, available=available)


@pytest.mark.usefixtures("small")
class TestSimulations:
    """A run in pieces is the run in one go, to the last bit."""

    @on(["grid", "points", "box"], EVERY_POLICY)
    def test_every_policy(self, name, space):
        run = play_in_pieces(name, space, zarr.storage.MemoryStore(), (17, 30))
        assert_same_run(run, play_whole(name, space, 30))

    @pytest.mark.usefixtures("often", "small_tiles")
    @on(["arms"], EVERY_POLICY)
    def test_every_policy_from_checkpoints(self, name, space):
        run = play_in_pieces(name, space, zarr.storage.MemoryStore(), available=every_third)
        assert_same_run(run, play_whole(name, space, available=every_third))

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("available", [None, every_third])
    @pytest.mark.parametrize("name", ["gpucb-1", "igpucb", "ei", "pi", "mean", "variance"])
    def test_by_blocks(self, name, available):
        run = play_in_pieces(name, "grid", zarr.storage.MemoryStore(), available=available, engine="blocked")
        assert_same_run(run, play_whole(name, "grid", available=available, engine="blocked"))

    @BOTH
    @pytest.mark.parametrize(("name", "available"), [("ts", every_third), ("random", None)])
    def test_every_place(self, place, name, durability, available):
        run = play_in_pieces(name, "arms", place, (13, 14, 27), available=available, durability=durability)
        assert_same_run(run, play_whole(name, "arms", 27, available=available))
        with xarray.open_zarr(cases.plain(place), consolidated=False) as dataset:
            np.testing.assert_array_equal(dataset["y"], run.y)

    @pytest.mark.usefixtures("often")
    def test_every_place_with_checkpoints(self, place):
        assert_same_run(play_in_pieces("ts", "grid", place), play_whole("ts", "grid"))

    @BOTH
    @pytest.mark.parametrize("failure", [KeyboardInterrupt, ZeroDivisionError, "not finite"])
    def test_goes_on_after_a_failure(self, tmp_path, durability, failure):
        """The rounds before it stand."""
        fails = [25]

        def function(x):
            if len(calls) in fails:
                fails.clear()
                if failure == "not finite":
                    return np.nan
                raise failure
            calls.append(x)
            return PROBLEMS["box"].truth(x)

        def play(**given):
            environment = sb.FunctionEnvironment(PROBLEMS["box"].space, function, seed=1, optimum=2.0)
            return sb.simulate(EVERY_POLICY["igpucb"].make(PROBLEMS["box"]), environment, 40, **given)

        calls = []
        kept = {"store": tmp_path / "run.zarr", "durability": durability}
        with pytest.raises(ValueError if failure == "not finite" else failure):
            play(**kept)
        assert len(ObservationStore.open(kept["store"])) == 25
        run = play(**kept)
        assert len(calls) == 40
        assert_same_run(run, play())

    def test_a_finished_run_is_only_read(self, tmp_path):
        whole = play_in_pieces("ei", "grid", tmp_path / "run.zarr")
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        again = sb.simulate(policy, environment_of("grid"), 40, store=tmp_path / "run.zarr")
        assert_same_run(again, whole)
        assert policy.rounds == 40

    def test_planned(self, tmp_path):
        """The horizon, also while it is played and when it grows."""
        seen = []

        def available(t):
            seen.append(ObservationStore.open(tmp_path / "run.zarr").planned)
            return every_third(t)

        for horizon in (10, 30):
            policy = EVERY_POLICY["random"].make(PROBLEMS["arms"])
            sb.simulate(policy, environment_of("arms"), horizon, available=available, store=tmp_path / "run.zarr")
            assert ObservationStore.open(tmp_path / "run.zarr").planned == horizon
        assert seen[:10] == [10] * 10
        assert seen[-20:] == [30] * 20

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"policy": {"delta": 0.2}}, r"policy\.delta: stored 0\.1, given 0\.2"),
            (
                {"policy": {"seed": 4, "rkhs_norm": 2.0}},
                r"(?s)policy\.seed: stored 3, given 4.*rkhs_norm: stored 0\.8",
            ),
            ({"name": "ei"}, r"policy\.type: stored 'IGPUCB', given 'GPEI'"),
            ({"environment": {"seed": 8}}, r"environment\.seed: stored 7, given 8"),
            ({"environment": {"noise": 0.5}}, r"environment\.noise\.scale: stored 0\.2, given 0\.5"),
            ({"available": every_second}, r"available\.function: stored '.*every_third', given '.*every_second'"),
            ({"available": None}, r"available: stored .*every_third.*, given nothing"),
            ({"values": 1.5}, r"environment\.values\.array: stored '\w+', given '\w+'"),
        ],
        ids=lambda value: "" if isinstance(value, str) else "-".join(value),
    )
    def test_another_specification(self, tmp_path, change, message):
        """Is refused, with what differs; the store is as it was."""
        place = tmp_path / "run.zarr"
        play_in_pieces("igpucb", "arms", place, (20,), available=every_third)
        before = described(place)
        policy = EVERY_POLICY[change.get("name", "igpucb")].make(PROBLEMS["arms"], **change.get("policy", {}))
        environment = environment_of("arms", **change.get("environment", {}))
        if "values" in change:
            values = environment.table() + change["values"]
            environment = sb.TableEnvironment(environment.space, values, sb.GaussianNoise(NOISE), seed=7)
        available = change.get("available", every_third)
        with pytest.raises(sb.SpecificationDiffers, match=message) as caught:
            sb.simulate(policy, environment, 60, available=available, store=place)
        assert str(place) in str(caught.value)
        assert described(place) == before
        assert policy.rounds == 0
        run = play_in_pieces("igpucb", "arms", place, (30,), available=every_third)
        np.testing.assert_array_equal(run.y, play_whole("igpucb", "arms", 30, available=every_third).y)

    def test_a_policy_that_is_not_fresh(self, tmp_path):
        place = tmp_path / "run.zarr"
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        sb.simulate(policy, environment_of("grid"), 10)
        with pytest.raises(ValueError, match=r"^policy: got .*told 10 rounds.*; allowed: a fresh one"):
            sb.simulate(policy, environment_of("grid"), 20, store=place)
        assert not any(tmp_path.iterdir())
        play_in_pieces("ei", "grid", place)
        before = everything(place)
        with pytest.raises(ValueError, match=r"^policy: got .*; allowed: a fresh one"):
            sb.simulate(policy, environment_of("grid"), 60, store=place)
        assert everything(place) == before

    def test_a_run_of_another_kind(self, tmp_path):
        place = tmp_path / "run.zarr"
        with sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"]), place):
            pass
        with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'record', given 'simulate'"):
            play_in_pieces("ei", "grid", place)

    def test_a_locked_run(self, tmp_path):
        play_in_pieces("ei", "grid", tmp_path / "run.zarr")
        with ObservationStore.open(tmp_path / "run.zarr", "a"), pytest.raises(StoreLocked, match=str(os.getpid())):
            play_in_pieces("ei", "grid", tmp_path / "run.zarr", (50,))
        play_in_pieces("ei", "grid", tmp_path / "run.zarr", (50,))


def described(place):
    """What a store says of its run."""
    store = ObservationStore.open(place)
    columns = {name: array.tobytes() for name, array in store.read().items()}
    return columns, store.planned, store.pending, store.orderly, store.attributes


# ---- a function of one's own


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


def other_function(x):
    return 0.0


def assert_same_maximum(found, whole):
    assert_equal({"x": found.x, "y": found.y}, {"x": whole.x, "y": whole.y})
    np.testing.assert_array_equal(found.best.x, whole.best.x)
    assert found.best[1:] == whole.best[1:]
    xarray.testing.assert_identical(found.dataset(), whole.dataset())


@pytest.mark.usefixtures("small")
class TestMaximize:
    """As with simulations."""

    @staticmethod
    def make(space="box", name="ei", **given):
        return EVERY_POLICY[name].make(PROBLEMS[space], **given)

    def test_every_place(self, place):
        for budget in (5, 6, 6, 25):
            found = sb.maximize(Function(), self.make(), budget, store=place)
        assert_same_maximum(found, sb.maximize(Function(), self.make(), 25))

    @on(["arms"], EVERY_POLICY)
    def test_every_policy(self, name, space):
        place = zarr.storage.MemoryStore()
        for budget in (3, 20):
            found = sb.maximize(Function(), self.make(space, name), budget, store=place)
        assert_same_maximum(found, sb.maximize(Function(), self.make(space, name), 20))

    @pytest.mark.parametrize(
        ("durability", "often", "failure"),
        [
            ("round", False, ZeroDivisionError),
            ("round", True, KeyboardInterrupt),
            ("block", False, np.inf),
            ("block", True, ZeroDivisionError),
        ],
    )
    def test_goes_on_after_a_failure(self, tmp_path, durability, often, failure, request):
        """At the same point, which is the only one evaluated twice."""
        if often:
            request.getfixturevalue("often")
        place = tmp_path / "run.zarr"
        function = Function([1, 9, 20, 21], failure)
        for told in (0, 7, 17, 17):
            with pytest.raises(ValueError if failure == np.inf else failure):
                sb.maximize(function, self.make(), 25, store=place, durability=durability)
            store = ObservationStore.open(place)
            assert (len(store), len(store.pending), store.orderly, store.planned) == (told, 1, False, 25)
        found = sb.maximize(function, self.make(), 25, store=place, durability=durability)
        assert function.calls == 25 + 4
        assert_same_maximum(found, sb.maximize(Function(), self.make(), 25))
        store = ObservationStore.open(place)
        assert (store.pending, store.orderly) == ([], True)

    def test_what_is_refused(self, tmp_path):
        place = tmp_path / "run.zarr"
        sb.maximize(Function(), self.make(), 5, store=place)
        before = described(place)
        with pytest.raises(sb.SpecificationDiffers, match=r"function\.function: stored '.*:Function', given '"):
            sb.maximize(other_function, self.make(), 9, store=place)
        with pytest.raises(sb.SpecificationDiffers, match=r"policy\.xi: stored 0\.0, given 0\.3"):
            sb.maximize(Function(), self.make(xi=0.3), 9, store=place)
        with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'maximize', given 'record'"):
            sb.record(self.make(), place)
        told = self.make()
        told.tell([0.5, 0.0], 1.0)
        with pytest.raises(ValueError, match=r"^policy: got .*; allowed: a fresh one"):
            sb.maximize(Function(), told, 9, store=place)
        with pytest.raises(ValueError, match=r"^budget: got 0"):
            sb.maximize(Function(), self.make(), 0, store=place)
        assert described(place) == before


# ---- asked and told


def assert_same_policy(policy, twin, points):
    """They know the same, to the last bit, and choose the same."""
    assert policy.rounds == twin.rounds
    np.testing.assert_array_equal(policy.pending, twin.pending)
    if twin.rounds:
        np.testing.assert_array_equal(policy.best().x, twin.best().x)
        # The large engine's last bits follow what was asked in between (`best` and `posterior` too).
        np.testing.assert_allclose(policy.best()[1:], twin.best()[1:], rtol=1e-12)
    for found, expected in zip(policy.posterior(points), twin.posterior(points), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def use(policy, step):
    """One thing after another: asked singly and in batches, told in and out of order, with noise, and not asked."""
    function, space = Function(), policy.space
    draw = np.random.default_rng(step)
    match step % 8:
        case 0:
            x = policy.ask()
            policy.tell(x, function(x))
        case 1:
            policy.ask(3)
        case 2:
            x = policy.pending[-1]
            policy.tell(x, function(x), noise=0.3)
        case 3:
            policy.ask()
            policy.abandon(policy.pending[0])
        case 4:
            xs = policy.pending[::-1]
            policy.tell(xs, [function(x) for x in xs], noise=np.linspace(0.1, 0.5, len(xs)))
        case 5:
            xs = draw.integers(0, 90, 3) if isinstance(space, sb.Arms) else self_made(space, draw, 3)
            policy.tell(xs, [function(x) for x in xs])
        case 6:
            policy.ask(2)
            policy.abandon()
            policy.ask(2)
        case 7:
            x = policy.pending[0]
            xs = [x, x]
            policy.tell(xs, [function(x), function(x) + 0.1])


def self_made(space, draw, count):
    """Points of a box that no candidate set has; candidates of any other space."""
    if isinstance(space, sb.Box):
        return np.array([[0, -1]]) + np.array([[1, 1.5]]) * draw.random((count, 2))
    return space.points()[draw.integers(0, space.size, count)]


@pytest.mark.usefixtures("small")
class TestRecordings:
    """What a policy is asked and told is kept, and told again."""

    @staticmethod
    def play(name, space, place, ends, steps=17, durability="round", singly=False, **given):
        """One step after another, with an end of the process after some; the last is left open."""
        problem, case = PROBLEMS[space], EVERY_POLICY[name]
        twin = case.make(problem, **given)
        points = (
            problem.space.points()[:9] if "box" not in space else self_made(problem.space, np.random.default_rng(0), 9)
        )
        policy = case.make(problem, **given)
        held = sb.record(policy, place, durability=durability)
        for step in range(steps):
            for one in (policy, twin):
                use(one, 0 if singly else step)
            if step in ends:
                held.close()
                policy = case.make(problem, **given)
                held = sb.record(policy, place, durability=durability)
                assert_same_policy(policy, twin, points)
        assert_same_policy(policy, twin, points)
        return held, policy, twin

    @on(["points"], EVERY_POLICY)
    def test_every_policy(self, name, space):
        held, policy, twin = self.play(name, space, zarr.storage.MemoryStore(), (1, 4, 9, 14))
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @pytest.mark.parametrize("name", ["igpucb", "ei", "variance", "ts"])
    def test_a_whole_box(self, name):
        """Where points exist only because they were asked for; those abandoned keep their numbers to themselves."""
        held, policy, twin = self.play(name, "whole box", zarr.storage.MemoryStore(), (0, 1, 4, 6, 9, 14))
        assert policy.finite_space.size == twin.finite_space.size
        for number in policy._waiting:
            np.testing.assert_array_equal(policy.finite_space.value(number), twin.finite_space.value(number))
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        assert policy._waiting == twin._waiting
        held.close()

    @pytest.mark.usefixtures("often")
    @on(["box", "whole box"], EVERY_POLICY)
    def test_every_policy_from_checkpoints(self, name, space):
        held, policy, twin = self.play(name, space, zarr.storage.MemoryStore(), (3, 8, 16))
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("singly", [True, False])
    @pytest.mark.parametrize("space", ["grid", "box"])
    @pytest.mark.parametrize("name", ["gpucb-1", "igpucb", "ei", "variance"])
    def test_by_blocks(self, name, space, singly):
        """Where asking leaves traces in the last bits."""
        place = zarr.storage.MemoryStore()
        held, policy, twin = self.play(name, space, place, (5, 12, 30), 40, singly=singly, engine="blocked")
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @BOTH
    def test_every_place(self, place, durability):
        held, _, twin = self.play("igpucb", "box", place, (1, 4, 6, 11), durability=durability)
        held.close()
        store = ObservationStore.open(place)
        assert (len(store), store.orderly) == (twin.rounds, True)

    def test_what_is_kept(self, tmp_path):
        """Of every observation: the call, the point and its candidate, the value, its noise where it was given."""
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        with sb.record(policy, tmp_path / "run.zarr", planned=10):
            first = policy.ask(2)
            policy.tell(first[1], 1.0)
            policy.tell([first[0], [0.0, 2.0]], [2.0, 3.0], noise=[0.2, 0.3])
        with xarray.open_zarr(tmp_path / "run.zarr", consolidated=False) as dataset:
            np.testing.assert_array_equal(dataset["call"], [1, 2, 2])
            np.testing.assert_array_equal(dataset["x"], [first[1], first[0], [0.0, 2.0]])
            np.testing.assert_array_equal(dataset["candidate"], policy.space.index(dataset["x"].to_numpy()))
            np.testing.assert_array_equal(dataset["y"], [1.0, 2.0, 3.0])
            np.testing.assert_array_equal(dataset["noise"], [np.nan, 0.2, 0.3])
            assert dataset.attrs["planned"] == 10
            assert dataset.attrs["specification"]["policy"]["type"] == "GPEI"

    @pytest.mark.parametrize("durability", ["round", "flushed"])
    def test_owed_after_a_crash(self, place, durability):
        """`ask` gives first what was asked for and not told, in order; then it chooses anew."""
        make = functools.partial(EVERY_POLICY["ts"].make, PROBLEMS["arms"])
        policy = make()
        durability = "round" if durability == "round" else "block"
        held = sb.record(policy, place, durability=durability)
        asked = policy.ask(4)
        policy.tell(asked[1], 0.5)
        policy.abandon(asked[2])
        if durability == "block":
            held.flush()
        crash(held.store)
        again = make()
        held = sb.record(again, reopened(place), durability=durability)
        owed = [asked[0], asked[3]]
        assert (again.pending, again.rounds) == (owed, 1)
        assert again.ask() == owed[0]
        assert again.pending == owed
        crash(held.store)
        again = make()
        held = sb.record(again, reopened(place))  # given again or not, they are owed
        given = again.ask(3)
        assert given[:2].tolist() == owed
        assert again.pending == given.tolist()
        again.tell(given, [0.1, 0.2, 0.3])
        assert again.pending == []
        held.close()
        assert ObservationStore.open(place).pending == []

    def test_owed_and_not_available(self, tmp_path):
        """What is owed waits until it is available."""
        make = functools.partial(EVERY_POLICY["igpucb"].make, PROBLEMS["arms"])
        policy = make()
        held = sb.record(policy, tmp_path / "run.zarr")
        asked = policy.ask(2).tolist()
        crash(held.store)
        again = make()
        with sb.record(again, tmp_path / "run.zarr"):
            others = [arm for arm in range(90) if arm not in asked]
            new = again.ask(available=others)
            assert new in others
            assert again.ask(available=[asked[1], *others]) == asked[1]
            assert again.ask() == asked[0]
            assert sorted(again.pending) == sorted([*asked, new])

    def test_pending_after_an_orderly_end(self, place):
        """Stays so, and is not asked for again."""
        make = functools.partial(EVERY_POLICY["igpucb"].make, PROBLEMS["arms"])
        policy, twin = make(), make()
        with sb.record(policy, place):
            asked = policy.ask(3).tolist()
        twin.ask(3)
        for _ in range(2):
            again = make()
            with sb.record(again, place):
                assert again.pending == asked
        again = make()
        with sb.record(again, place):
            new = again.ask(2)
            np.testing.assert_array_equal(new, twin.ask(2))
            again.tell(asked[1], 1.0)
            assert again.pending == [asked[0], asked[2], *new]
        store = ObservationStore.open(place)
        assert (store.pending, store.orderly) == ([asked[0], asked[2], *new], True)

    def test_an_exception_leaves_points_owed(self, tmp_path):
        make = functools.partial(EVERY_POLICY["ei"].make, PROBLEMS["arms"])
        policy = make()
        held = sb.record(policy, tmp_path / "run.zarr")
        asked = policy.ask()
        with pytest.raises(ZeroDivisionError), held:
            raise ZeroDivisionError
        again = make()
        with sb.record(again, tmp_path / "run.zarr"):
            assert again.ask() == asked

    def test_used_on_unrecorded(self, tmp_path):
        """A policy whose recording has ended."""
        policy, twin = (EVERY_POLICY["ei"].make(PROBLEMS["box"]) for _ in range(2))
        with sb.record(policy, tmp_path / "run.zarr"):
            use(policy, 0)
        use(twin, 0)
        before = everything(tmp_path)
        for step in range(4):
            use(policy, step)
            use(twin, step)
        assert everything(tmp_path) == before
        assert_same_policy(policy, twin, [[0.1, 0.1]])

    def test_what_is_refused_is_not_kept(self, tmp_path):
        policy = EVERY_POLICY["ei"].make(PROBLEMS["box"])
        with sb.record(policy, tmp_path / "run.zarr") as held:
            asked = policy.ask()
            for x, y in ((asked, np.nan), ([7.0, 7.0], 1.0), ([asked, asked], [1.0])):
                with pytest.raises(ValueError, match="got"):
                    policy.tell(x, y)
            with pytest.raises(ValueError, match="got"):
                policy.abandon([0.5, 0.0])
            assert len(held.store) == 0
            assert len(held.store.pending) == 1
            policy.tell(asked, 1.0)
        assert len(ObservationStore.open(tmp_path / "run.zarr")) == 1

    def test_one_recording(self, tmp_path):
        make = functools.partial(EVERY_POLICY["ei"].make, PROBLEMS["grid"])
        with sb.record(make(), tmp_path / "run.zarr"), pytest.raises(StoreLocked, match=str(os.getpid())):
            sb.record(make(), tmp_path / "run.zarr")

    def test_another_policy(self, tmp_path):
        place = tmp_path / "run.zarr"
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        with sb.record(policy, place):
            use(policy, 0)
            policy.ask(2)
        before = described(place)
        with pytest.raises(sb.SpecificationDiffers, match=r"policy\.regularization: stored 0\.05, given 0\.5"):
            sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"], regularization=0.5), place, planned=7)
        with pytest.raises(ValueError, match=r"^policy: got .*told 1 rounds and has 2 pending.*; allowed: a fresh one"):
            sb.record(policy, place)
        with pytest.raises(sb.SpecificationDiffers, match=r"lab: stored nothing, given 'north'"):
            sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"]), place, parts={"lab": "north"})
        assert described(place) == before


def reopened(place):
    """A place whose writer has died, free for another one."""
    if not isinstance(place, Path):
        reopen(place).close(orderly=False)
    return place
