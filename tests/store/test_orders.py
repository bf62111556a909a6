"""Runs on disk: any order of operations, and what a store does not take."""

import functools
import tempfile
from pathlib import Path

import hypothesis
import hypothesis.stateful
import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from cases import store as cases
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

from scalable_bandits.store import Field, ObservationStore, StoreLocked
from scalable_bandits.tickets import Ticket

pytest_plugins = ["cases.store_fixtures"]


class Operations(hypothesis.stateful.RuleBasedStateMachine):
    """A store, and the lists that it should be."""

    def __init__(self, kind):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.told = kind in ("record", "maximize")
        self.place = cases.PLACES["folder" if self.told else kind](Path(self.folder.name))
        self.kind = kind
        self.numbers = []  # one for each row, no two the same
        self.open, self.given = [], 0  # evaluations that have not ended, and the number of all
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
        given = {"durability": durability, "planned": planned, "attributes": {"kind": self.kind}}
        self.store, self.planned = create(self.place, **given), planned
        self.settled()

    def settled(self):
        """Everything so far would survive."""
        self.durable, self.held_back = len(self.numbers), False

    def changed(self):
        self.wrote = True
        if self.store.durability == "round":
            self.settled()
        else:
            self.held_back = True

    @hypothesis.stateful.precondition(lambda self: self.kind != "maximize")
    @hypothesis.stateful.rule(count=st.one_of(st.integers(0, 5), st.integers(0, 3 * CHUNK)))
    def append(self, count):
        numbers = list(range(self.next, self.next + count))
        self.next += count
        self.store.append(self.columns(numbers))
        self.numbers += numbers
        if numbers:
            self.changed()

    @hypothesis.stateful.precondition(lambda self: self.told)
    @hypothesis.stateful.rule(candidate=st.integers(0, 6))
    def ask(self, candidate):
        self.open.append(Ticket(self.given, candidate))
        self.store.append(tickets=self.open[-1:])
        self.given += 1
        self.changed()

    @hypothesis.stateful.precondition(lambda self: self.open)
    @hypothesis.stateful.rule(fails=st.booleans())
    def end(self, fails):
        ticket = self.open.pop(0)
        if fails:
            self.store.append(tickets=[ticket.become("failed", ended=self.given)])
        else:
            self.numbers.append(self.next)
            columns = self.columns([self.next])
            self.next += 1
            own = {name: values[0].tolist() for name, values in columns.items()}
            own["noise"] = None if np.isnan(own["noise"]) else own["noise"]
            self.store.append(columns, [ticket.become("done", **own, round=len(self.numbers), ended=self.given)])
        self.changed()

    @hypothesis.stateful.rule(name=st.sampled_from([field.name for field in FIELDS]))
    def append_what_is_refused(self, name):
        with pytest.raises(ValueError, match=name):
            self.store.append({**self.columns([1, 2]), name: np.zeros(1)})

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
        self.settled()
        for mode in ("r", "a"):
            self.store = ObservationStore.open(self.place, mode, durability=durability)
            self.holds()
            assert self.store.orderly == orderly or not (orderly or self.wrote)
        self.wrote = False

    @hypothesis.stateful.rule(durability=st.sampled_from(["round", "block"]))
    def die(self, durability):
        crash(self.store)
        self.store = reopen(self.place, durability=durability)
        kept = len(self.store)
        assert self.durable <= kept <= len(self.numbers)
        self.numbers = self.numbers[:kept]
        if self.held_back:
            self.given = self.store.given
            self.open = [t for _, t in sorted(self.store.tickets.items()) if not t.final]
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
            assert reader.pending == [ticket.candidate for ticket in self.open]

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
            assert self.store.planned == self.planned
            if not self.held_back:
                assert self.store.pending == [ticket.candidate for ticket in self.open]
                assert not (self.told and self.store.writable) or self.store.given == self.given

    def teardown(self):
        if hasattr(self, "store"):
            crash(self.store)
        self.folder.cleanup()


@pytest.mark.parametrize("kind", ["record", "maximize", "folder", "memory"])
@pytest.mark.sampled(2)
def test_any_order_of_operations(kind):
    """The store is what plain lists would be."""
    settings = hypothesis.settings(max_examples=4, stateful_step_count=25, report_multiple_bugs=False)
    hypothesis.stateful.run_state_machine_as_test(functools.partial(Operations, kind), settings=settings)


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

    @pytest.mark.parametrize(
        ("name", "value", "allowed"),
        [
            *(("durability", value, "'round' or 'block'") for value in ("rounds", "", None, 1)),
            *(("chunk", value, "a positive integer") for value in (0, -1, 1.5, True, "16", None)),
            *(("mode", value, "'r' or 'a'") for value in ("w", "r+", "", None, 1)),
        ],
    )
    def test_arguments(self, tmp_path, name, value, allowed):
        """Nothing is made then."""
        place, message = tmp_path / "run.zarr", f"^{name}: got .*; allowed: {allowed}"
        if name != "mode":
            with pytest.raises(ValueError, match=message):
                create(place, **{name: value})
            assert not any(tmp_path.iterdir())
        if name != "chunk":
            create(place).close()
            with pytest.raises(ValueError, match=message):
                ObservationStore.open(place, **{"mode": "a", name: value})

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
            with pytest.raises(ValueError, match=r"^store: got .*; allowed: a path, a URL, or a zarr store"):
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
