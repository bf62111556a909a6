"""Runs on disk: whatever was appended comes back, from every kind of place."""

import json
import os
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
    told,
)
from zarr.buffer import cpu

import scalable_bandits as sb
from scalable_bandits.specification import array_digest
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore, StoreError, StoreLocked, checkpoints, observations
from scalable_bandits.store.locations import Location
from scalable_bandits.tickets import Ticket

pytest_plugins = ["cases.store_fixtures"]


@pytest.mark.parametrize("schema", [1, 99])
def test_another_schema_is_refused(tmp_path, schema):
    """By name, without a change on disk, for reading, writing and making; it is no interrupted creation."""
    run = tmp_path / "run.zarr"
    create(run, 5).close()
    for file in (run / "zarr.json", run / "committed" / "zarr.json"):
        file.write_text(file.read_text().replace('"schema": 3,', f'"schema": {schema},'))
    (run / "committed" / "run.sqlite").unlink()  # which other schemas did not have
    before = cases.everything(run)
    hint = {1: r"version 0\.2, .*: ObservationStore\.open\(", 99: "newer version .* upgrade"}[schema]
    says = rf"^store {run}: it has schema {schema}, and this version reads schema 3 alone; .*{hint}"
    for call in (ObservationStore.open, reopen, create):
        with pytest.raises(StoreError, match=says):
            call(run)
    assert status(run).state == sb.check(run)[0].parts[-1].problem
    assert cases.everything(run) == before


class TestEveryPlace:
    """The same promises for a folder, zarr stores and a URL."""

    @BOTH
    @pytest.mark.sampled(10, first="folder")
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
    @pytest.mark.sampled(14, first="folder")
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

    @pytest.mark.sampled(2, first="folder")
    def test_an_exception_is_no_orderly_end(self, place):
        """But everything is durable, and the next writer may enter; a store is closed for good."""
        store = create(place, durability="block")
        store.append(rows(0, 21))
        with pytest.raises(ZeroDivisionError), store:
            raise ZeroDivisionError
        store.close()
        for call in (
            lambda: store.append(rows(5, 6)),
            lambda: store.append(tickets=[]),
            lambda: store.plan(9),
            store.flush,
        ):
            with pytest.raises(StoreError, match="not open for writing"):
                call()
        for mode in ("r", "a"):
            store = ObservationStore.open(place, mode)
            assert not store.orderly
            assert_holds(store, 21)
            store.close(orderly=False)
        ObservationStore.open(place, "a").close()
        assert ObservationStore.open(place).orderly

    def test_writers_that_are_gone(self):
        """Of a store that is no folder: one of this machine is known to be dead, one of another is said to be."""
        place = zarr.storage.MemoryStore()
        create(place, 5).close()
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        here = {"pid": process.pid, "host": socket.gethostname(), "command": "play.py", "since": time.time()}
        for record in (here, {**here, "pid": 1, "host": "another"}, {**here, "pid": os.getpid(), "since": 1.0}):
            place._store_dict["committed/writer.json"] = cpu.Buffer.from_bytes(json.dumps(record).encode())
            if record["host"] == "another":
                hint = r"is being written by process 1 on another \(play\.py\), since .*; if it is gone, open with"
                with pytest.raises(StoreLocked, match=hint):
                    ObservationStore.open(place, "a")
            with ObservationStore.open(place, "a", takeover=record["host"] == "another") as store:
                assert_holds(store, 5)
                with pytest.raises(StoreLocked, match=str(os.getpid())):
                    ObservationStore.open(place, "a")

    def test_a_writer_that_died_while_it_created_the_run(self, monkeypatch):
        """Of a store that is no folder: whoever looks for a run there does not remove what shows how far it came."""
        place = zarr.storage.MemoryStore()
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        here = {"pid": process.pid, "host": socket.gethostname(), "command": "play.py", "since": time.time()}
        with monkeypatch.context() as patch:
            patch.setattr(Location, "unlock", lambda self: None)
            patch.setattr(observations, "put_count", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                create(place)
        place._store_dict["committed/writer.json"] = cpu.Buffer.from_bytes(json.dumps(here).encode())
        for mode in ("r", "a"):
            with pytest.raises(FileNotFoundError, match="there is no run"):
                ObservationStore.open(place, mode)
        create(place, 5).close()
        assert_holds(ObservationStore.open(place), 5)

    def test_a_writer_that_was_taken_over_leaves_the_lock_of_the_next(self):
        place = zarr.storage.MemoryStore()
        first = create(place, 5)
        second = ObservationStore.open(place, "a", takeover=True)
        first.location.unlock()
        with pytest.raises(StoreLocked):
            ObservationStore.open(place, "a")
        second.close()
        ObservationStore.open(place, "a").close()

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

    @BOTH
    @pytest.mark.sampled(4, first="folder")
    def test_a_crash(self, place, durability):
        """Costs nothing that was flushed or, with durability "round", appended; what is there is a prefix."""
        crash(create(place, durability=durability))
        count = 0
        for flushed, more in ((5, 1), (0, 20), (40, 3), (16, 16), (1, 0)):
            store = reopen(place, durability=durability)
            assert_holds(store, count)
            store.append(rows(count, count + flushed))
            store.flush()
            count += flushed
            assert store.durable == count
            store.append(rows(count, count + more))
            crash(store)
            reader = ObservationStore.open(place)
            assert not reader.orderly
            assert count + more * (durability == "round") <= len(reader) <= count + more
            assert_holds(reader, len(reader))
            count = len(reader)

    @pytest.mark.sampled(2, first="folder")
    def test_checkpoints(self, place):
        """Come back bit for bit if they fit; the last one replaces the one before; a damaged one is said."""

        class Policy(dict):
            state, restore = dict.copy, dict.update

        def restored(most, stamp="new", run="a run"):
            policy = Policy()
            return checkpoints.restore(store.location, most, stamp, run, policy), policy

        store = create(place, 3)
        assert restored(3) == (0, {})
        for rounds in (3, 8, 5):
            state = {"none": np.empty((0, 4)), "matrix": np.random.default_rng(5).random((rounds, 7)).T,
                     "flags": np.arange(rounds) % 2 == 0, "one": np.array(np.nan)}  # fmt: skip
            checkpoints.save(store.location, rounds, state, "new", "a run")
            found, policy = restored(20)
            assert found == rounds
            assert_equal(policy, state)
            assert restored(rounds - 1) == restored(20, "old") == (0, {})
        data = bytearray(store.location.get(checkpoints.KEY))
        data[len(data) // 2] ^= 1
        store.location.put(checkpoints.KEY, bytes(data))
        with pytest.warns(UserWarning, match=rf"the checkpoint {checkpoints.KEY} cannot be used"):
            assert restored(20)[0] == 0
        assert restored(20) == (0, {})
        checkpoints.save(store.location, 5, state, "new", "another run")
        with pytest.warns(UserWarning, match="it is another run's"):
            assert restored(20) == (0, {})


class TestEvaluations:
    """Of a run in a folder, which are rows of its database."""

    @pytest.mark.parametrize("kind", ["record", "maximize"])
    @BOTH
    def test_come_back(self, tmp_path, kind, durability):
        """Those of a tuning run for good; of others what is pending or failed, and values in the arrays."""
        place, many = tmp_path / "run.zarr", 2 * CHUNK + 5
        store = create(place, durability=durability, attributes={"kind": kind})
        store.block = CHUNK
        for t in range(many):
            store.append(rows(t, t + 1), told(t, t + 1))
        others = [Ticket(many, 7), Ticket(many + 1, 8, "failed", error="broken", round=9, ended=many + 1)]
        store.append(tickets=others)
        store.flush()
        crash(store)
        for mode in ("r", "a", "r"):
            store = ObservationStore.open(place, mode)
            assert_holds(store, many)
            assert (store.pending, [each.error for each in store.failures]) == ([7], ["broken"])
            done = [each for each in store.tickets.values() if each.state == "done"]
            assert len(done) == (many if kind == "maximize" else many - store.contents.state.rounds)
            assert [each for each in done if each.number >= many - 2] == done[-2:]
            store.close()
        with ObservationStore.open(place, "a") as store:
            assert store.given == many + 2
            store.append(tickets=[each.become("abandoned") for each in others[:1]])
        assert ObservationStore.open(place).pending == []

    def test_a_closed_run_is_one_file(self, tmp_path):
        """In rollback mode, which can be read from any medium."""
        place = tmp_path / "run.zarr"
        create(place, 20).close()
        assert sorted(path.name for path in (place / "committed").glob("run.sqlite*")) == ["run.sqlite"]
        assert (place / "committed" / "run.sqlite").read_bytes()[18:20] == b"\1\1"

    def test_a_reader_between_two_transactions(self, tmp_path, monkeypatch):
        """What is written while it reads is no damage."""
        store = create(tmp_path / "run.zarr", 3)
        reader = ObservationStore.open(tmp_path / "run.zarr")
        rows_of = sys.modules["scalable_bandits.store.ledger"]._rows

        def slow(*given):
            if len(store) < 6:
                store.append(rows(len(store), len(store) + 1))
            return rows_of(*given)

        monkeypatch.setattr("scalable_bandits.store.ledger._rows", slow)
        reader.refresh()
        assert_holds(reader, len(reader))


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
        durable = store.durable
        crash(store)
        assert_holds(ObservationStore.open(place), durable)

    def test_at_most_a_second_is_held_back(self, place, monkeypatch):
        """By an append that comes later."""

        class Clock:
            now = 100.0

            @classmethod
            def monotonic(cls):
                return cls.now

        monkeypatch.setattr(observations, "time", Clock)
        store = create(place, durability="block")
        counts = {}
        for start, stop in sizes(60, largest=20):
            Clock.now += 0.4
            counts[Clock.now] = stop
            store.append(rows(start, stop))
            old = [count for when, count in counts.items() if when < Clock.now - 1.45]
            assert max(old, default=0) <= store.durable <= stop
        durable = store.durable
        crash(store)
        assert_holds(ObservationStore.open(place), durable)

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
