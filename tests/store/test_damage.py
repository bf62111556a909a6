"""What disks do to a run: nothing is lost without a word, and nothing wrong is ever read."""

import re
import shutil
import sqlite3
import warnings

import numpy as np
import pytest
import zarr
from cases import store as cases
from cases.damage import (
    ARRAYS,
    DAMAGES,
    DATABASE,
    INPUT,
    ROUNDS,
    WHOLE,
    assert_goes_on,
    assert_plain,
    files,
    flip,
    without,
)
from cases.policies import EVERY_POLICY, PROBLEMS
from cases.store import CHUNK, FIELDS, assert_equal, assert_holds, change_attributes, crash, create, rows, told

import scalable_bandits as sb
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore, StoreDamaged
from scalable_bandits.studies.stored import StudyResults

pytest_plugins = ["cases.store_fixtures"]
every_damage = pytest.mark.parametrize("damage", DAMAGES)
LOG = f"{DATABASE}-wal"


def assert_refused(folder, *words):
    """Readers, writers, `status` and `check` name the damage, and not a byte is changed."""
    before = files(folder)
    for mode in ("r", "a"):
        with pytest.raises(StoreDamaged) as caught:
            ObservationStore.open(folder, mode)
        for word in (f"store {folder}: ", *words):
            assert word in str(caught.value)
    assert str(caught.value) == status(folder).state
    (checked,) = sb.check(folder)
    assert not checked.whole
    assert files(folder) == before


@pytest.fixture
def dead(tmp_path):
    """A run that was told one by one, whose writer died: its last rounds are in the log of the database alone."""
    store = create(tmp_path / "alive.zarr", attributes={"kind": "record"})
    store.block = CHUNK
    for t in range(ROUNDS):
        store.append(rows(t, t + 1), told(t, t + 1))
    crash(store)
    return shutil.copytree(tmp_path / "alive.zarr", tmp_path / "run.zarr")  # whose log no process has open


class TestDatabase:
    """What is small and must not be lost."""

    @pytest.mark.parametrize("damage", [*DAMAGES, "another run's"])
    def test_a_log_that_is_lost_or_cut(self, dead, tmp_path, damage):
        """What was acknowledged and is not there is missed; the rest can be read and gone on with."""
        if damage == "another run's":
            shutil.move(dead, tmp_path / "first.zarr")
            store = create(dead, 5)
            crash(store)
            shutil.copy(tmp_path / "first.zarr" / LOG, dead / LOG)
        else:
            DAMAGES[damage](dead / LOG)
        try:
            assert_refused(dead, DATABASE)
        except pytest.fail.Exception:
            assert damage == "another run's"  # of which SQLite takes nothing: all was in the file already
            return
        with warnings.catch_warnings(action="ignore"):
            reader = ObservationStore.open(dead, recover=True)
        assert_holds(reader, len(reader))

    def test_a_log_cut_anywhere(self, dead):
        """No cut and no flip goes unnoticed, unless it is of what a later frame has again."""
        data = (dead / LOG).read_bytes()
        for position in range(0, len(data), 7001):
            for changed in (data[:position], flip(data, position)):
                (dead / LOG).write_bytes(changed)
                try:
                    assert_holds(ObservationStore.open(dead), ROUNDS)
                except StoreDamaged as error:
                    assert DATABASE in str(error)  # noqa: PT017
        (dead / LOG).write_bytes(data)
        assert_goes_on(dead, ROUNDS)

    def test_a_torn_tail(self, dead):
        """A transaction that was not written to its end was not acknowledged: it is no damage; its log is kept."""
        with (dead / LOG).open("ab") as file:
            file.write(bytes(24) + b"\1" * 3000)
        before = (dead / LOG).read_bytes()
        assert_holds(ObservationStore.open(dead), ROUNDS)
        assert not assert_goes_on(dead, ROUNDS)
        assert (dead / f"{LOG}.kept").read_bytes() == before

    @every_damage
    def test_the_number_of_the_last_transaction(self, dead, damage):
        """It only detects damage: without it nothing is lost."""
        DAMAGES[damage](dead / "committed" / "acknowledged")
        assert_holds(ObservationStore.open(dead), ROUNDS)
        assert not assert_goes_on(dead, ROUNDS)

    @pytest.mark.parametrize("name", [DATABASE, LOG, "both"])
    @pytest.mark.sampled(3)
    def test_put_back(self, dead, name):
        """As it was some transactions ago."""
        earlier = {file: (dead / file).read_bytes() for file in (DATABASE, LOG)}
        with ObservationStore.open(dead, "a", durability="round") as store:
            store.append(rows(ROUNDS, ROUNDS + 1), told(ROUNDS, ROUNDS + 1))
            store.append(rows(ROUNDS + 1, ROUNDS + 2), told(ROUNDS + 1, ROUNDS + 2))
            crash(store)
        for file in earlier if name == "both" else [name]:
            (dead / file).write_bytes(earlier[file])
        try:
            assert_holds(ObservationStore.open(dead), ROUNDS + 2)
        except StoreDamaged:
            assert_refused(dead, DATABASE)
        else:
            assert name == DATABASE  # whose log has all of it

    def test_of_another_run(self, closed, tmp_path):
        """Even where it has all rounds of that run."""
        create(tmp_path / "other.zarr", 3).close()
        shutil.copy(tmp_path / "other.zarr" / DATABASE, closed / DATABASE)
        assert_refused(closed, f"{DATABASE}: it is of another run")

    @pytest.mark.parametrize(
        ("statement", "says"),
        [
            ("UPDATE evaluations SET y = y + 1 WHERE number = 33", "rows of evaluations that are not what was written"),
            ("DELETE FROM evaluations WHERE number = 33", "rows are missing"),
            ("DELETE FROM chunks WHERE number = 0", "rows are missing"),
            ("UPDATE chunks SET checksums = '[1, 2, 3, 4]' WHERE number = 1", "rows of chunks that are not what"),
            ("UPDATE state SET change = 9", "rows of state that are not what was written"),
            ("DELETE FROM state", "its state cannot be read"),
            ("ALTER TABLE evaluations ADD COLUMN mine", "its tables are not those of a run"),
        ],
        ids=lambda text: text[:24],
    )
    def test_rows(self, dead, statement, says):
        """Every row has a checksum, and the sum of all is known; what is whole is kept."""
        with sqlite3.connect(dead / DATABASE) as connection:
            connection.execute(statement)
        connection.close()
        assert_refused(dead, DATABASE, says)
        with cases.repairs() as said:
            store = ObservationStore.open(dead, "a", recover=True)
        with store:
            lost = {"UPDATE evalua": (33, 34), "DELETE FROM e": (33, 34), "DELETE FROM c": (0, CHUNK),
                    "UPDATE chunks": (CHUNK, WHOLE), "ALTER TABLE e": (0, ROUNDS)}  # fmt: skip
            assert_equal(store.read(), without(*lost.get(statement[:13], (0, 0)), ROUNDS))
        assert "run.zarr.damaged" in said[0]

    @every_damage
    @pytest.mark.sampled(2)
    def test_of_a_closed_run(self, closed, damage):
        """The copy beside it has the count and the checksums: no round is lost."""
        before = files(closed)
        DAMAGES[damage](closed / DATABASE)
        if damage == "flipped":  # of a byte that means something
            (closed / DATABASE).write_bytes(before[DATABASE])
            (closed / DATABASE).write_bytes(cases.damaged_row(closed, "candidate"))
        assert_refused(closed, DATABASE)
        (said,) = assert_goes_on(closed, ROUNDS, recover=True)
        assert "no round is lost" in said
        kept = files(closed.with_name("run.zarr.damaged"))
        assert {name for name in before if kept.get(name) != before[name]} == {DATABASE}

    def test_of_a_closed_run_in_text_that_cannot_be_decoded(self, closed):
        """SQLite quotes it in its message, which Python cannot decode either; the copy of the last close is read."""
        path = closed / DATABASE
        data = bytearray(path.read_bytes())
        data[data.index(b"CREATE TABLE evaluations") + 3] = 0xC4
        path.write_bytes(data)
        assert_refused(closed, "it cannot be read", "recover=True")
        with pytest.warns(UserWarning, match="cannot be read"):
            assert_holds(ObservationStore.open(closed, recover=True), ROUNDS)

    def test_of_a_closed_run_that_only_a_writer_would_meet(self, closed):
        """All rows can be read; a check says it, and a recovery writes another database."""
        path = closed / DATABASE
        data = bytearray(path.read_bytes())
        data[36:40] = (77).to_bytes(4, "big")  # number of free pages
        path.write_bytes(data)
        assert_holds(ObservationStore.open(closed), ROUNDS)
        (checked,) = sb.check(closed)
        assert [part.name for part in checked.parts if part.problem] == [DATABASE]
        assert_goes_on(closed, ROUNDS, recover=True)
        assert closed.with_name("run.zarr.damaged").is_dir()

    def test_of_a_closed_run_and_the_copy(self, closed):
        """Then the rounds cannot be told from other numbers; nothing is changed."""
        for file in (DATABASE, "committed/zarr.json"):
            DAMAGES["half"](closed / file)
        assert_refused(closed, "its rounds cannot be read")
        with pytest.raises((FileExistsError, StoreDamaged)):
            create(closed)


class TestArrays:
    """Committed rounds that cannot be read."""

    @every_damage
    @pytest.mark.parametrize(("name", "chunk"), [("candidate", 0), ("x", 1), ("y", 2)])
    @pytest.mark.sampled(3)
    def test_is_told_and_recovered_from(self, closed, name, chunk, damage):
        """The message names the file and the rounds; all files are kept, and every other round is."""
        file = f"{name}/c.{chunk}.0" if name == "x" else f"{name}/c.{chunk}"
        DAMAGES[damage](closed / file)
        start, stop = chunk * CHUNK, min((chunk + 1) * CHUNK, ROUNDS)
        reader = ObservationStore.open(closed)
        says = re.escape(f"store {closed}: {file}: rounds {start + 1} to {stop} of '{name}' cannot be read (")
        for read in (
            reader.read,
            lambda: reader.read(start + 1, start + 2, [name]),
            lambda: reader.sample(name, np.array([start + 1])),
            lambda: reader.dataset().compute(),
        ):
            with pytest.raises(StoreDamaged, match=says):
                read()
        assert_equal(reader.read(0, start), rows(0, start))
        others = [field.name for field in FIELDS if field.name != name]
        assert_equal(reader.read(names=others), {other: rows(0, ROUNDS)[other] for other in others})
        before = files(closed)
        with cases.repairs() as said:
            store = ObservationStore.open(closed, "a", recover=True)
        with store:
            assert_equal(store.read(), without(start, stop, ROUNDS))
        assert f"{stop - start} round(s) are lost, {ROUNDS - stop + start} are there" in said[0]
        assert files(closed.with_name("run.zarr.damaged")) == before
        ObservationStore.open(closed, "a", recover=True).close()  # no copy is made of a run that is whole
        assert not closed.with_name("run.zarr.damaged1").exists()

    def test_a_lost_chunk_of_fill_values(self, closed):
        """Reads as it was, for zarr too: nothing is lost."""
        (closed / "noise" / "c.0").unlink()
        assert sb.check(closed)[0].whole
        assert_holds(ObservationStore.open(closed), ROUNDS)
        assert not assert_goes_on(closed, ROUNDS)

    @pytest.mark.parametrize("damage", ["another run's", "its own, earlier"])
    def test_replaced(self, tmp_path, damage):
        """By a chunk that is whole, and not what was written."""
        kept, other, file = tmp_path / "run.zarr", tmp_path / "other.zarr", "y/c.1"
        create(kept, 20).close()
        content = (kept / file).read_bytes()
        if damage == "another run's":
            with create(other) as store:
                store.append(rows(100, 100 + 3 * CHUNK))
            content = (other / file).read_bytes()
        with ObservationStore.open(kept, "a") as store:
            store.append(rows(20, ROUNDS))
        (kept / file).write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"y/c\.1: rounds 17 to 32 of 'y' cannot be read \(its checksum is not"):
            ObservationStore.open(kept).read(20, 21)

    def test_several(self, closed):
        """The first of them is named; what is left after all of them is kept."""
        for name in ("y/c.1", "candidate/c.0", "noise/c.1"):
            (closed / name).unlink()
        assert not sb.check(closed)[0].whole
        with pytest.raises(StoreDamaged, match=r"candidate/c\.0: rounds 1 to 16 of 'candidate'"):
            ObservationStore.open(closed, "a")
        with pytest.warns(UserWarning, match="32 round"):
            ObservationStore.open(closed, "a", recover=True).close()
        assert_equal(ObservationStore.open(closed).read(), rows(WHOLE, ROUNDS))

    @pytest.mark.parametrize("name", ["y", "round"])
    def test_of_evaluations_that_are_rows(self, tmp_path, name):
        """Of a tuning run the arrays are a copy, which is made again."""
        place = tmp_path / "run.zarr"
        with create(place, attributes={"kind": "maximize"}) as store:
            store.append(rows(0, ROUNDS), told(0, ROUNDS))
        DAMAGES["half"](place / name / "c.1")
        assert_holds(ObservationStore.open(place), ROUNDS)
        ObservationStore.open(place, "a").close()
        assert_plain(place, ROUNDS)

    def test_in_a_store_that_is_no_folder(self):
        """It cannot be copied: recovering is refused, and nothing is changed."""
        place = zarr.storage.MemoryStore()
        create(place, ROUNDS).close()
        del place._store_dict["y/c/1"]
        with pytest.raises(StoreDamaged, match=r"y/c/1: rounds 17 to 32 of 'y' "):
            ObservationStore.open(place).read()
        before = {key: value.to_bytes() for key, value in place._store_dict.items()}
        with pytest.raises(ValueError, match=r"^recover: got .*; allowed: a store in a folder"):
            ObservationStore.open(place, "a", recover=True)
        assert {key: value.to_bytes() for key, value in place._store_dict.items()} == before
        for damage in (b"", b"{", before["committed/zarr.json"].replace(b'"rounds": 35', b'"rounds": 34')):
            place._store_dict["committed/zarr.json"] = zarr.core.buffer.cpu.Buffer.from_bytes(damage)
            with pytest.raises(StoreDamaged, match=r"committed/zarr\.json"):
                ObservationStore.open(place)

    def test_a_checkpoint_of_another_run(self, tmp_path, monkeypatch):
        """It is said, and the observations are learned instead."""
        cases.shrink(monkeypatch)
        cases.save_often(monkeypatch)

        def learn(name, values=()):
            policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
            with sb.record(policy, tmp_path / name):
                for y in values:
                    policy.tell(policy.ask(), y)
            return policy.posterior(np.arange(90))

        expected = learn("run", np.sin(np.arange(9)))
        learn("other", np.cos(np.arange(9)))
        for file in (tmp_path / "other" / "committed").glob("checkpoint*"):
            shutil.copy(file, tmp_path / "run" / "committed" / file.name)
        with pytest.warns(UserWarning, match="cannot be used .it is another run's"):
            np.testing.assert_allclose(learn("run"), expected, rtol=1e-12)

    def test_an_array_of_the_specification(self, closed):
        wanted = cases.input_of(INPUT)
        np.testing.assert_array_equal(ObservationStore.open(closed).input(wanted), INPUT)
        for damage in ("flipped", "gone"):
            DAMAGES[damage](closed / "inputs" / wanted["array"] / "c" / "0")
            store = ObservationStore.open(closed)
            with pytest.raises(StoreDamaged, match=rf"^store .*inputs/{wanted['array']}: an array of the specifi"):
                store.input(wanted)
            assert_holds(store, ROUNDS)


@pytest.mark.parametrize("file", ["zarr.json", "committed/c", *(f"{name}/zarr.json" for name in ARRAYS)])
@pytest.mark.parametrize("damage", ["gone", "empty", "half", "zeros"])
@pytest.mark.sampled(4)
def test_metadata(closed, file, damage):
    """They follow from the database: every round is read without them, and they are made again."""
    DAMAGES[damage](closed / file)
    assert_holds(ObservationStore.open(closed), ROUNDS)
    with cases.repairs():
        ObservationStore.open(closed, "a").close()
    assert_plain(closed, ROUNDS)
    assert all(found.whole for found in sb.check(closed))


class TestStrangers:
    """A store is data from elsewhere."""

    @pytest.mark.parametrize(
        "change",
        [
            {"chunk": 0}, {"chunk": None}, {"chunk": 10**12}, {"planned": "many"}, {"fields": None}, {"fields": []},
            {"fields": [{"name": "y", "dtype": "object", "shape": [], "dimensions": []}]},
            {"fields": [{"name": "../y", "dtype": "float64", "shape": [], "dimensions": []}]},
            {"fields": [{"name": "y", "dtype": "float64", "shape": [10**12], "dimensions": ["d"]}]},
            {"specification": 3}, {"kind": []}, {"settings": "all"},
        ],
        ids=str,
    )  # fmt: skip
    def test_attributes(self, closed, change):
        """Are those of a run, or it is damaged."""
        change_attributes(closed, lambda attributes: attributes.update(change))
        for mode in ("r", "a"):
            with pytest.raises(StoreDamaged, match="its attributes are not those of a run"):
                ObservationStore.open(closed, mode)
        assert "its attributes are not those of a run" in status(closed).state
        assert not sb.check(closed)[0].whole

    @pytest.mark.parametrize("rounds", [10**15, -1, WHOLE - 1])
    def test_counts(self, closed, rounds):
        """Are those of the checksums that are there."""
        cases.change_count(closed, rounds)
        with pytest.raises(StoreDamaged, match="it counts"):
            ObservationStore.open(closed)
        assert not sb.check(closed)[0].whole

    @pytest.mark.parametrize("name", ["y", "committed", DATABASE, LOG, "inputs", "committed/acknowledged"])
    def test_symbolic_links_are_not_followed(self, crashed, tmp_path, name):
        """A writer refuses them; what they point to stays as it is."""
        outside = tmp_path / "outside"
        (crashed / name).rename(outside)
        (crashed / name).symlink_to(outside)
        before = files(outside) if outside.is_dir() else outside.read_bytes()
        with pytest.raises(StoreDamaged, match="is a symbolic link"):
            ObservationStore.open(crashed, "a")
        assert (files(outside) if outside.is_dir() else outside.read_bytes()) == before


def test_notes_of_a_study_without_a_finished_run(tmp_path):
    """They are there, though every number is missing: a study that was interrupted so early is not damaged."""
    names = {name: (name, {}, name) for name in ("one", "two")}
    record = {"cases": names, "policies": names, "replicates": 3, "horizon": 12, "absent": []}
    StudyResults.take_up(record, {"cases": names, "policies": names, "priors": []}, tmp_path / "study").write()
    assert not StudyResults(record, tmp_path / "study").damage
