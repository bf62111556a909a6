"""Runs on disk: whatever was appended comes back, from every kind of place."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xarray
import zarr
from cases import store as cases
from cases.store import (
    BOTH,
    CHUNK,
    FIELDS,
    SPECIFICATION,
    assert_equal,
    assert_holds,
    crash,
    create,
    input_of,
    reopen,
    rows,
    sizes,
)
from zarr.buffer import cpu

import scalable_bandits as sb
from scalable_bandits.runs.status import status
from scalable_bandits.specification import array_digest
from scalable_bandits.store import (
    ObservationStore,
    StoreError,
    StoreLocked,
    arrays,
    checkpoints,
    folder,
    writer,
)
from scalable_bandits.studies import Problem

pytest_plugins = ["cases.store_fixtures"]


def with_schema(place, copy, schema):
    """Give both copies of the attributes of a run or a study another schema, which need not sign them as ours does."""
    for file in (place / "zarr.json", place / copy / "zarr.json"):
        file.write_text(file.read_text().replace('"schema": 2,', f'"schema": {schema},'))
    return cases.everything(place)


@pytest.mark.parametrize(
    ("schema", "run_hint", "study_hint"),
    [
        (1, r"version 0\.2, .*: ObservationStore\.open\(", r"version 0\.2, .*: Study\.open\("),
        (99, "newer version .* upgrade", "newer version .* upgrade"),
    ],
)
def test_another_schema_is_refused(tmp_path, schema, run_hint, study_hint):
    """By name, without a change on disk, for reading and writing."""
    run, study = tmp_path / "run.zarr", tmp_path / "study"
    says = rf"^store {{}}: it has schema {schema}, and this version reads schema 2 alone; .*"

    def build(replicate):
        return Problem(sb.TableEnvironment(sb.Arms(2), [0.0, 1.0]), {"random": sb.RandomSearch(sb.Arms(2))})

    create(run, 5).close()
    before = with_schema(run, "committed", schema)
    for mode in ("r", "a"):
        with pytest.raises(StoreError, match=says.format(run) + run_hint):
            ObservationStore.open(run, mode)
    assert status(run).state == sb.check(run)[0].parts[-1].problem
    assert cases.everything(run) == before

    toy = sb.Study(name="toy", cases=("a",), build=build, horizon=3, replicates=1)
    toy.run(store=study)
    before = with_schema(study, "uniform_regret", schema)
    for opened in (lambda: sb.Study.open(study), lambda: toy.run(store=study)):
        with pytest.raises(StoreError, match=says.format(study) + study_hint):
            opened()
    assert not sb.check(study)[0].whole
    assert cases.everything(study) == before


def test_a_run_of_another_schema_is_no_interrupted_creation(tmp_path):
    """Of the first schema, runs that were shorter than a chunk had no commit record."""
    run = tmp_path / "run.zarr"
    create(run).close()
    (run / "committed" / "record.json").unlink()
    before = with_schema(run, "committed", 1)
    with pytest.raises(StoreError, match="it has schema 1"):
        create(run)
    assert cases.everything(run) == before


class TestEveryPlace:
    """The same promises for a folder, zarr stores, a URL and an icechunk repository."""

    @BOTH
    @pytest.mark.sampled(5, first="folder")
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
    @pytest.mark.sampled(7, first="folder")
    def test_closed_at_any_count(self, place, count):
        create(place, count).close()
        assert_holds(ObservationStore.open(place), count)
        assert dict(ObservationStore.open(place).dataset().sizes) == {"round": count, "dimension": 2}
        with ObservationStore.open(place, "a") as store:
            store.append(rows(count, count + 1))
        assert_holds(ObservationStore.open(place), count + 1)

    @pytest.mark.parametrize("writing", [True, False])
    @pytest.mark.sampled(5, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(5, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
    def test_what_describes_the_run(self, place):
        large = np.random.default_rng(3).random((30, 4))
        store = create(place, 20, planned=500, attributes={"kind": "test"}, inputs={array_digest(large): large})
        store.close()
        for mode in ("r", "a"):
            store = ObservationStore.open(place, mode)
            assert store.specification == SPECIFICATION
            assert (store.planned, store.fields, store.chunk) == (500, FIELDS, CHUNK)
            assert store.attributes["kind"] == "test"
            np.testing.assert_array_equal(store.input(input_of(large)), large)
            store.close()

    @pytest.mark.sampled(3, first="folder")
    def test_a_plan_can_change(self, place):
        create(place, 5, planned=100).close()
        with ObservationStore.open(place, "a") as store:
            store.plan(200)
            store.append(rows(5, 40))
        store = ObservationStore.open(place)
        assert store.planned == 200
        assert_holds(store, 40)

    @BOTH
    @pytest.mark.sampled(5, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    def test_a_writer_that_was_taken_over_leaves_the_lock_of_the_next(self):
        place = zarr.storage.MemoryStore()
        first = create(place, 5)
        second = ObservationStore.open(place, "a", takeover=True)
        first.location.unlock()
        with pytest.raises(StoreLocked):
            ObservationStore.open(place, "a")
        second.close()
        ObservationStore.open(place, "a").close()

    def test_rows_that_come_seldom_are_written_at_once(self, place):
        """With durability "block" too: a crash loses what came in the last second, not the last row."""
        store = create(place, durability="block")
        store.append(rows(0, 1))
        store.block_seconds = 0.01
        time.sleep(0.02)
        store.append(rows(1, 2))
        crash(store)
        assert_holds(ObservationStore.open(place), 2)

    @pytest.mark.sampled(5, first="folder")
    def test_plain_zarr_and_xarray(self, place):
        """Read every round of a closed run, and nothing more, without a warning."""
        inputs = {array_digest(np.arange(100.0)): np.arange(100.0)}
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
    @pytest.mark.sampled(8, first="folder")
    @pytest.mark.slow
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(5, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
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

    @pytest.mark.sampled(3, first="folder")
    def test_a_checkpoint_of_no_use_is_overwritten_first(self, place):
        """One of another version, or of more rounds than there are: a whole useful one stays."""
        store = create(place, 20)
        states = {rounds: {"state": np.full(3, float(rounds))} for rounds in (3, 5, 8, 15, 20)}
        for rounds in (15, 20):
            checkpoints.save(store.location, rounds, states[rounds], "old")
        for rounds, earlier in ((3, None), (5, 3), (8, 5)):
            checkpoints.save(store.location, rounds, states[rounds], "new")
            self.assert_state(checkpoints.load(store.location, 20, "new"), rounds, states)
            found = checkpoints.load(store.location, rounds - 1, "new")
            assert (found is None) == (earlier is None)
            if earlier is not None:
                self.assert_state(found, earlier, states)
        checkpoints.save(store.location, 3, states[3], "new")  # those after it are of rounds that were lost
        self.assert_state(checkpoints.load(store.location, 4, "new"), 3, states)

    @staticmethod
    def assert_state(found, rounds, states):
        assert found[0] == rounds
        assert_equal(found[1], states[rounds])

    @pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
    @pytest.mark.sampled(5, first="folder")
    def test_a_damaged_checkpoint_is_passed_over(self, place, damage):
        store = create(place, 20)
        states = {rounds: {"state": np.random.default_rng(rounds).random(50)} for rounds in (10, 20)}
        for rounds, state in states.items():
            checkpoints.save(store.location, rounds, state)
        store.close()
        for left in (10, None):
            self.damage_newest(place, damage, 20 if left else 10)
            location = ObservationStore.open(place).location
            with pytest.warns(UserWarning, match=r"the checkpoint checkpoints/[ab] cannot be used"):
                found = checkpoints.load(location, 20)
            assert checkpoints.load(location, 20) is None or left  # and it is said once
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

    def test_at_most_a_block_is_held_back(self, place):
        """However the rows come."""
        store = create(place, durability="block")
        store.block = 3 * CHUNK
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

    @BOTH
    @pytest.mark.parametrize("fresh", [1, 3 * CHUNK])
    @pytest.mark.parametrize("moved", [True, False])
    def test_moved_or_removed_under_its_writer(self, tmp_path, durability, fresh, moved):
        """No row is taken for written, and nothing is made in the old place."""
        place, kept = tmp_path / "run.zarr", tmp_path / "kept.zarr"
        store = create(place, 20, durability)
        store.append(rows(20, 21))
        store.flush()  # the journal is open
        place.rename(kept)
        if not moved:
            shutil.rmtree(kept)

        def write():
            store.append(rows(21, 21 + fresh))
            store.flush()

        for _ in range(2):
            with pytest.raises(FileNotFoundError, match=r"run\.zarr: writing .* failed: it was moved or removed"):
                write()
        with pytest.raises(FileNotFoundError):
            store.close()
        assert not place.exists()
        if moved:
            assert_holds(ObservationStore.open(kept), 21)

    def test_interrupted_while_a_chunk_is_written(self, tmp_path, monkeypatch):
        """What is still being written does not overtake the rows that are appended next."""
        store = create(tmp_path / "run.zarr", durability="block")
        go_on, first = threading.Event(), {"y": True}

        def held(path, data):
            if path.parent.name == "y" and first.pop("y", False):
                go_on.wait()
            replace(path, data)

        def interrupted(jobs):
            if jobs:
                monkeypatch.setattr(arrays, "wait", wait)
                threading.Timer(0.5, go_on.set).start()
                raise KeyboardInterrupt

        replace, wait = folder.replace_file, arrays.wait
        monkeypatch.setattr(folder, "replace_file", held)
        monkeypatch.setattr(arrays, "wait", interrupted)
        store.block = CHUNK
        with pytest.raises(KeyboardInterrupt):
            store.append(rows(100, 100 + CHUNK))
        assert len(store) == 0
        store.append(rows(0, CHUNK))
        store.close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), CHUNK)

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

    @pytest.mark.slow
    def test_a_journal_of_small_segments(self, monkeypatch):
        """Where files cannot be appended to, frames lie across segments; a new journal hides the old."""
        cases.segments(monkeypatch, 64)
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
