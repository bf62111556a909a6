"""Runs on disk: any order of operations, any process, and what a store does not take."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import hypothesis.stateful
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from cases import store as cases
from cases.paths import TESTS
from cases.store import (
    BOTH,
    CHUNK,
    FIELDS,
    assert_equal,
    assert_holds,
    crash,
    create,
    everything,
    reopen,
    rows,
)

from scalable_bandits.store import Field, ObservationStore, StoreLocked, array_journal, frames, journal
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.objects import Objects

pytest_plugins = ["cases.store_fixtures"]


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=40)
@pytest.mark.slow
def test_a_journal_in_segments_is_one_in_a_file(data):
    """Whatever is appended and made anew: the same frames are read."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        cases.segments(patch, data.draw(st.sampled_from([32, 50, 64]), "segment"))
        location = Objects(zarr.storage.MemoryStore(), "memory")
        paths = Path(folder) / "journal-1", "bookkeeping/journal-1"
        both = journal.FileJournal(paths[0]), array_journal.ArrayJournal(location, paths[1])
        expected, made = [], False
        for _ in range(data.draw(st.integers(1, 12), "operations")):
            operation = data.draw(st.sampled_from(["append", "append", "create", "reopen"])) if made else "create"
            if operation == "reopen":
                both = journal.FileJournal(paths[0]), array_journal.ArrayJournal(location, paths[1])
            else:
                size = data.draw(st.integers(0, 80), "payload")
                expected = expected if operation == "append" else []
                frame = frames.encode(7, len(expected), Kind.ROWS, 3, bytes([1 + len(expected)]) * size)
                expected.append(frame)
                for one in both:
                    getattr(one, operation)(frame)
            made = True
            for one in (*both, array_journal.ArrayJournal(location, paths[1])):
                assert one.read() == b"".join(expected)
        contents = frames.parse(both[1].read(), 7)
        assert (contents.frames, contents.torn, contents.gaps()) == (len(expected), 0, [])
        for one in both:
            one.remove()
            assert one.read() is None


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
    examples = {"folder": 8, "memory": 12}[kind]
    settings = hypothesis.settings(max_examples=examples, stateful_step_count=25, report_multiple_bugs=False)
    hypothesis.stateful.run_state_machine_as_test(functools.partial(Operations, kind), settings=settings)


READER_OR_WRITER = """
import sys

from cases import store as cases

store = cases.create(sys.argv[1], durability="round")
for start, stop in cases.sizes(int(sys.argv[2])):
    store.append(cases.rows(start, stop))
    print(stop, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_writer_in_another_process(tmp_path):
    """Is named to other writers; a reader sees exact rows, and at once what the writer says is there."""
    command = [sys.executable, "-c", READER_OR_WRITER, str(tmp_path / "run.zarr"), "300"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
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
        ("arguments", "message"),
        [
            ({"names": ["z"]}, "names: got 'z'; allowed: known: candidate, noise, round, x, y"),
            ({"names": ["nois"]}, "names: got 'nois'; allowed: did you mean 'noise'"),
            ({"start": -1}, "start: got -1; allowed: a non-negative integer"),
            ({"stop": -1}, "stop: got -1; allowed: a non-negative integer"),
            ({"start": 1.5}, "start: got 1.5; allowed"),
        ],
    )
    def test_reading(self, tmp_path, arguments, message):
        """What is no field is not taken for a damaged one."""
        with create(tmp_path / "run.zarr", 40) as store:
            for run in (store, ObservationStore.open(tmp_path / "run.zarr")):
                with pytest.raises(ValueError, match=f"^{message}"):
                    run.read(**arguments)

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
    @pytest.mark.sampled(3)
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
