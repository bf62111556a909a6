"""What disks do to a run: nothing is lost without a word, and nothing wrong is ever read."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
import zarr
from cases import store as cases
from cases.damage import (
    ARRAYS,
    DAMAGES,
    INPUT,
    ROUNDS,
    WHOLE,
    assert_goes_on,
    assert_names,
    assert_plain,
    files,
    flip,
    journal_of,
    without,
)
from cases.policies import EVERY_POLICY, PROBLEMS
from cases.store import CHUNK, FIELDS, assert_equal, assert_holds, crash, create, rows

import scalable_bandits as sb
from scalable_bandits.runs.status import status
from scalable_bandits.store import ObservationStore, StoreDamaged, frames
from scalable_bandits.store.layout import group_document
from scalable_bandits.store.notes import Notes
from scalable_bandits.store.resolve import locate

pytest_plugins = ["cases.store_fixtures"]
pytestmark = [pytest.mark.usefixtures("disk"), pytest.mark.slow]
every_damage = pytest.mark.parametrize("damage", DAMAGES)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A run whose writer died, and what it held at each size of its journal: bytes to rounds and pending points."""
    folder = tmp_path_factory.mktemp("grown") / "run.zarr"
    store = create(folder, WHOLE)
    store.append(rows(WHOLE, WHOLE + 1))  # by now the journal has begun anew
    file = journal_of(folder)
    states = {0: (WHOLE, []), len(frames.encode(0, 0, frames.Kind.START, 0, b"")): (WHOLE, [])}

    def note():
        states[file.stat().st_size] = len(store), list(store.pending)

    note()
    store.note_pending([45, 46])
    note()
    store.append(rows(WHOLE + 1, WHOLE + 3))
    note()
    store.append(rows(WHOLE + 3, WHOLE + 4))
    note()
    crash(store)
    return folder, states


class TestJournal:
    """What came after the last whole chunk."""

    @staticmethod
    def state_at(states, size):
        """Size, rounds and pending points of what is whole in the first bytes of a journal."""
        whole = max(known for known in states if known <= size)
        return whole, *states[whole]

    @staticmethod
    def assert_refused(folder, *words):
        """Readers, writers and `status` name the damage, and not a byte is changed."""
        before = files(folder)
        for mode in ("r", "a"):
            with pytest.raises(StoreDamaged) as caught:
                ObservationStore.open(folder, mode)
            assert_names(caught.value, folder)
            for word in words:
                assert word in str(caught.value)
        assert str(caught.value) == status(folder).state
        assert files(folder) == before
        return str(caught.value)

    @staticmethod
    def recovered(folder):
        """What can be read in spite of damage."""
        with pytest.warns(UserWarning, match=r"committed/journal-\d+"):
            return ObservationStore.open(folder, recover=True)

    @pytest.mark.slow
    def test_cut(self, grown):
        """What was acknowledged and is not there is missed, also if the last frame that is there is whole."""
        folder, states = grown
        file = journal_of(folder)
        data = file.read_bytes()
        for size in range(0, len(data), 11):
            file.write_bytes(data[:size])
            _, count, pending = self.state_at(states, size)
            self.assert_refused(folder, f"committed/{file.name}")
            reader = self.recovered(folder)
            assert (len(reader), reader.pending) == (count, pending)
            assert_holds(reader, count)
        file.write_bytes(data)
        assert_holds(ObservationStore.open(folder), WHOLE + 4)

    @pytest.mark.parametrize("counted", [True, False])
    def test_a_torn_tail(self, grown, tmp_path, counted):
        """A frame that was not written to its end was not acknowledged: it is cut, and said how much that was.

        After a power failure the count of acknowledged frames may be gone, or behind.
        """
        folder = shutil.copytree(grown[0], tmp_path / "run.zarr")
        file = journal_of(folder)
        data, count = file.read_bytes(), WHOLE + 4
        if counted:
            seed = frames.seed_of(json.loads((folder / "committed" / "record.json").read_text())["run"], "journal", 3)
            number = frames.parse(data, seed).frames
            more = frames.encode(seed, number, frames.Kind.ROWS, count, bytes(48))
        else:
            (folder / "committed" / "acknowledged").unlink()
            whole, count = sorted(grown[1])[-2], WHOLE + 3
            data, more = data[:whole], data[whole:]
        for size in range(1, len(more), 9):
            for torn in (more[:size], more[:size] + bytes(50)):
                file.write_bytes(data + torn)
                text = rf"committed/{file.name} ends in a torn tail of {len(torn)} bytes; opening it .* repairs it$"
                with pytest.warns(UserWarning, match=text):
                    reader = ObservationStore.open(folder)
                assert len(reader) == count
        assert f"ends in a torn tail of {len(torn)} bytes" in status(folder).state
        (said,) = assert_goes_on(folder, count)
        assert f"a torn tail of {len(torn)} bytes was cut from committed/{file.name}; {count} rounds are there" in said

    def test_a_bit_flipped(self, grown):
        """Every other frame is there, before it and after it."""
        folder, states = grown
        file = journal_of(folder)
        data = file.read_bytes()
        sizes = sorted(states)
        for position in range(0, len(data), 23):
            file.write_bytes(flip(data, position, position % 8))
            stop = next(size for size in sizes if size > position)
            start, end = states[max(size for size in sizes if size <= position)][0], states[stop][0]
            lost = f"rounds {start + 1} to {end} cannot be read" if end > start else "no round is lost"
            self.assert_refused(folder, f"committed/{file.name}, bytes ", lost)
            reader = self.recovered(folder)
            assert_equal(reader.read(), without(start, end, WHOLE + 4))
        file.write_bytes(data)

    @pytest.mark.parametrize(
        "more", [b"\xff" * 60, b"\x19\0\0\0" + bytes(40) + b"\1", b"\xf5sb\n" + b"\1" * 60], ids=str
    )
    @pytest.mark.sampled(3)
    def test_rubbish_at_the_end(self, crashed, more):
        """It is no frame that ends early; nothing of the rest is lost."""
        with journal_of(crashed).open("ab") as stream:
            stream.write(more)
        self.assert_refused(crashed, "damaged", f"rounds after round {ROUNDS} cannot be read, if there were any")
        (said,) = assert_goes_on(crashed, ROUNDS, recover=True)
        assert "no round is lost" in said

    @pytest.mark.parametrize("more", [bytes(1), bytes(100)], ids=len)
    def test_zeros_at_the_end(self, crashed, more):
        """As some file systems leave them after a power failure."""
        with journal_of(crashed).open("ab") as stream:
            stream.write(more)
        with pytest.warns(UserWarning, match="a torn tail"):
            assert_holds(ObservationStore.open(crashed), ROUNDS)
        (said,) = assert_goes_on(crashed, ROUNDS)
        assert f"a torn tail of {len(more)} bytes was cut" in said

    @pytest.mark.slow
    def test_of_a_closed_run(self, closed):
        """It is said, and nothing is lost, wherever it is cut or flipped: the arrays have every round."""
        file = journal_of(closed)
        data = file.read_bytes()
        for size in range(0, len(data), 17):
            file.write_bytes(flip(data, size, size % 8) if size % 2 else data[:size])
            self.assert_refused(closed, file.name)
            assert_holds(self.recovered(closed), ROUNDS)

    @every_damage
    @pytest.mark.parametrize("count", [CHUNK, ROUNDS])
    @pytest.mark.sampled(4)
    def test_of_a_closed_run_that_goes_on(self, tmp_path, count, damage):
        folder = tmp_path / "run.zarr"
        create(folder, count).close()
        DAMAGES[damage](journal_of(folder))
        self.assert_refused(folder, "committed/journal-")
        (said,) = assert_goes_on(folder, count, recover=True)
        assert "no round is lost" in said

    def test_damaged_in_a_run_opened_again(self, closed):
        """Rounds from before the last close are in the arrays; those after it only in the journal."""
        store = ObservationStore.open(closed, "a", durability="round")
        store.append(rows(ROUNDS, ROUNDS + 1))
        store.append(rows(ROUNDS + 1, ROUNDS + 4))
        crash(store)
        file = journal_of(closed)
        data = file.read_bytes()
        for size in range(0, len(data), 29):
            file.write_bytes(data[:size])
            self.assert_refused(closed, file.name, f"to {ROUNDS + 4} cannot be read")
            store = self.recovered(closed)
            assert_holds(store, len(store))
            assert len(store) in (ROUNDS, ROUNDS + 1)
        file.write_bytes(data)
        assert_goes_on(closed, ROUNDS + 4)

    def test_of_another_run_and_of_an_earlier_time(self, closed, tmp_path):
        """Neither is taken for the run's own."""
        other = tmp_path / "other.zarr"
        create(other, ROUNDS).close()
        file = journal_of(closed)
        earlier = file.read_bytes()
        file.write_bytes(journal_of(other).read_bytes())
        self.assert_refused(closed, f"committed/{file.name}: it has no frame of this run's journal")
        file.write_bytes(earlier)
        store = ObservationStore.open(closed, "a", durability="round")
        store.append(rows(ROUNDS, ROUNDS + 2))
        crash(store)
        file.write_bytes(earlier)
        self.assert_refused(
            closed, "it ends too early, 1 frames are missing", f"rounds {ROUNDS + 1} to {ROUNDS + 2} cannot"
        )
        assert_goes_on(closed, ROUNDS, recover=True)


class TestUnfinishedChunk:
    """What a close writes of it for zarr and xarray, the journal has too."""

    @every_damage
    @pytest.mark.parametrize("name", ["y", "x"])
    @pytest.mark.sampled(3)
    def test_nothing_is_lost(self, closed, name, damage):
        DAMAGES[damage](closed / name / ("c.2.0" if name == "x" else "c.2"))
        for _ in range(2):
            assert_holds(ObservationStore.open(closed), ROUNDS)
        assert_goes_on(closed, ROUNDS)

    @pytest.mark.parametrize(("name", "damage"), [*(("y", damage) for damage in DAMAGES), ("round", "gone")])
    @pytest.mark.sampled(3)
    def test_zarr_reads_it_after_the_next_close(self, closed, name, damage):
        """Though nothing was appended."""
        DAMAGES[damage](closed / name / "c.2")
        with cases.repairs():
            ObservationStore.open(closed, "a").close()
        assert_plain(closed, ROUNDS)

    @every_damage
    @pytest.mark.sampled(3)
    def test_with_the_journal_gone_too(self, closed, damage):
        """Then its rounds are lost; the message says which, and the rest can be had."""
        journal_of(closed).unlink()
        DAMAGES[damage](closed / "y" / "c.2")
        for mode in ("r", "a", "r"):
            text = rf"journal-3: it is missing; .*rounds 33 to {ROUNDS} cannot be read; 32 rounds can be read:"
            with pytest.raises(StoreDamaged, match=text):
                ObservationStore.open(closed, mode)
        (said,) = assert_goes_on(closed, WHOLE, recover=True)
        assert "3 round(s) are lost, 32 are there" in said


class TestWholeChunk:
    """Committed rounds that cannot be read."""

    @every_damage
    @pytest.mark.parametrize(
        ("original", "name", "chunk"), [("closed", "candidate", 0), ("crashed", "x", 1), ("closed", "noise", 1)]
    )
    @pytest.mark.sampled(3)
    def test_is_told_and_recovered_from(self, request, original, name, chunk, damage):
        """The message names the file and the rounds; all files are kept, and every other round is."""
        kept = request.getfixturevalue(original)
        file = f"{name}/c.{chunk}.0" if name == "x" else f"{name}/c.{chunk}"
        DAMAGES[damage](kept / file)
        start, stop = chunk * CHUNK, (chunk + 1) * CHUNK
        message = re.escape(f"store {kept}: {file}: rounds {start + 1} to {stop} of '{name}' cannot be read (")
        message += r".+\); all others can be recovered: open it with recover=True$"
        reader = ObservationStore.open(kept)
        for read in (
            reader.read,
            lambda: reader.read(start + 3, start + 4, [name]),
            lambda: reader.sample(name, np.array([start + 1])),
        ):
            with pytest.raises(StoreDamaged, match=message):
                read()
        with pytest.raises(StoreDamaged, match=rf"chunk {name}/c|cannot be read"):
            self.compute(reader)
        assert_equal(reader.read(0, start), rows(0, start))
        others = [field.name for field in FIELDS if field.name != name]
        assert_equal(reader.read(names=others), {other: rows(0, ROUNDS)[other] for other in others})
        before = files(kept)
        try:
            ObservationStore.open(kept, "a").close()
        except StoreDamaged as error:
            assert_names(error, kept)
            found = files(kept)
            assert found == before
        before = files(kept)
        with cases.repairs() as said:
            store = ObservationStore.open(kept, "a", recover=True)
        with store:
            assert_equal(store.read(), without(start, stop, ROUNDS))
        assert f"{CHUNK} round(s) are lost, {ROUNDS - CHUNK} are there" in said[0]
        copy = kept.with_name("run.zarr.damaged")
        assert "run.zarr.damaged" in said[0]
        assert files(copy) == before
        assert_equal(ObservationStore.open(kept).read(), without(start, stop, ROUNDS))

    @pytest.mark.parametrize("damage", ["another run's", "its own, earlier"])
    def test_replaced(self, tmp_path, damage):
        """By a chunk that is whole, and not what was written."""
        kept, other = tmp_path / "run.zarr", tmp_path / "other.zarr"
        create(kept, 20).close()
        file = "y/c.1"
        if damage == "its own, earlier":
            content = (kept / file).read_bytes()
        else:
            with create(other) as store:
                store.append(rows(100, 100 + 3 * CHUNK))
            content = (other / file).read_bytes()
        with ObservationStore.open(kept, "a") as store:
            store.append(rows(20, ROUNDS))
        (kept / file).write_bytes(content)
        reader = ObservationStore.open(kept)
        with pytest.raises(StoreDamaged, match=r"y/c\.1: rounds 17 to 32 of 'y' cannot be read \(its digest is not"):
            reader.read(20, 21)
        with pytest.raises(StoreDamaged, match=r"y: some rounds cannot be read \(chunk 1: its digest is not"):
            reader.dataset()["y"].compute()
        with pytest.warns(UserWarning, match="16 round"):
            ObservationStore.open(kept, "a", recover=True).close()
        assert_equal(ObservationStore.open(kept).read(), without(16, 32, ROUNDS))

    @staticmethod
    def compute(reader):
        try:
            reader.dataset().compute()
        except StoreDamaged:
            raise
        except Exception as error:  # a codec's, through dask
            raise StoreDamaged(f"cannot be read ({error})") from error

    def test_flipped_and_cut(self, closed):
        """No flip and no cut goes unnoticed."""
        for file in (closed / "y" / "c.0", closed / "committed" / "c"):
            data = file.read_bytes()
            damaged = [flip(data, i, (3 * i) % 8) if i % 2 else data[:i] for i in range(0, len(data), 13)]
            damaged.append(data + b"\0")
            for changed in damaged:
                file.write_bytes(changed)
                try:
                    assert_holds(ObservationStore.open(closed), ROUNDS)
                except StoreDamaged:
                    continue
            file.write_bytes(data)
        assert_holds(ObservationStore.open(closed), ROUNDS)

    def test_twice(self, closed):
        """No copy is overwritten, and none is made of a run that is whole."""
        (closed / "y" / "c.1").unlink()
        first = files(closed)
        with pytest.warns(UserWarning, match="16 round"):
            ObservationStore.open(closed, "a", recover=True).close()
        ObservationStore.open(closed, "a", recover=True).close()
        (closed / "x" / "c.0.0").unlink()
        second = files(closed)
        with pytest.warns(UserWarning, match="16 round"):
            ObservationStore.open(closed, "a", recover=True).close()
        assert_equal(ObservationStore.open(closed).read(), rows(WHOLE, ROUNDS))
        copies = [files(path) for path in closed.parent.iterdir() if ".damaged" in path.name]
        assert len(copies) == 2
        assert first in copies
        assert second in copies

    def test_several(self, closed):
        """The first of them is named; what is left after all of them is kept."""
        for name in ("y/c.1", "candidate/c.0", "noise/c.1"):
            (closed / name).unlink()
        with pytest.raises(StoreDamaged, match=r"candidate/c\.0: rounds 1 to 16 of 'candidate' .*all others can be"):
            ObservationStore.open(closed).read()
        with pytest.warns(UserWarning, match="32 round"):
            ObservationStore.open(closed, "a", recover=True).close()
        assert_equal(ObservationStore.open(closed).read(), rows(WHOLE, ROUNDS))

    def test_the_numbers_of_the_rounds(self, closed):
        """They follow from themselves: a chunk of them is made again, or its loss is told."""
        (closed / "round" / "c.0").unlink()
        assert_holds(ObservationStore.open(closed), ROUNDS)
        with cases.repairs():
            ObservationStore.open(closed, "a").close()
        assert_plain(closed, ROUNDS)

    def test_in_a_store_that_is_no_folder(self):
        """It cannot be copied: recovering is refused, and nothing is changed."""
        place = zarr.storage.MemoryStore()
        create(place, ROUNDS).close()
        del place._store_dict["y/c/1"]
        with pytest.raises(StoreDamaged, match=r"y/c/1: rounds 17 to 32 of 'y' .*all others can be recovered"):
            ObservationStore.open(place).read()
        before = dict(place._store_dict)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^recover: got .*; allowed: a store in a folder"):
                ObservationStore.open(place, "a", recover=True)
        kept = {key: value.to_bytes() for key, value in place._store_dict.items() if "bookkeeping" not in key}
        assert kept == {key: value.to_bytes() for key, value in before.items() if "bookkeeping" not in key}

    def test_a_checkpoint_of_what_was_given_up(self, tmp_path, monkeypatch):
        """Is of another history: it is not used when as many rounds are there again."""
        cases.shrink(monkeypatch)
        cases.save_often(monkeypatch)
        place = tmp_path / "run.zarr"

        def told(values):
            policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
            with sb.record(policy, place):
                for y in values:
                    policy.tell(policy.ask(), y)
            return policy

        told(np.sin(np.arange(40)))
        (place / "y" / "c.1").unlink()
        with pytest.warns(UserWarning, match="are lost"):
            ObservationStore.open(place, "a", recover=True).close()
        draw = np.random.default_rng(0)
        expected = told(draw.standard_normal(10))
        policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
        with sb.record(policy, place):
            for y in draw.standard_normal(20):
                x = policy.ask()
                policy.tell(x, y)
                expected.tell(expected.ask(), y)
        again = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
        with sb.record(again, place):
            np.testing.assert_array_equal(again.posterior(np.arange(90)), expected.posterior(np.arange(90)))

    def test_an_array_of_the_specification(self, closed):
        wanted = cases.input_of(INPUT)
        np.testing.assert_array_equal(ObservationStore.open(closed).input(wanted), INPUT)
        for damage in ("flipped", "gone"):
            DAMAGES[damage](closed / "inputs" / wanted["array"] / "c" / "0")
            store = ObservationStore.open(closed)
            with pytest.raises(
                StoreDamaged, match=rf"^store .*inputs/{wanted['array']}: an array of the specification"
            ):
                store.input(wanted)
            assert_holds(store, ROUNDS)


METADATA = ("zarr.json", *(f"{name}/zarr.json" for name in (*ARRAYS, "committed")))


BAD_JSON = {"empty": b"", "half": b'{\n  "zarr_format": 3,\n  "attri', "null": b"null"}


class TestMetadata:
    """Files that zarr needs to read anything at all."""

    @pytest.mark.parametrize("file", METADATA)
    @pytest.mark.sampled(5)
    def test_gone(self, kept, file):
        """Is made again, without loss."""
        (kept / file).unlink()
        self.assert_told(kept, "r")
        (said,) = assert_goes_on(kept, ROUNDS)
        assert "made again" in said

    @pytest.mark.parametrize("file", METADATA)
    @pytest.mark.parametrize("content", BAD_JSON)
    @pytest.mark.sampled(6)
    def test_no_json(self, closed, file, content):
        """Is made again, or said to be damaged."""
        (closed / file).write_bytes(BAD_JSON[content])
        self.assert_told(closed, "r")
        if self.assert_told(closed, "a"):
            assert_goes_on(closed, ROUNDS)
        elif file not in ("zarr.json", "committed/zarr.json"):
            (closed / file).unlink()
            assert_goes_on(closed, ROUNDS)

    @staticmethod
    def assert_told(folder, mode):
        """Everything is read exactly, or the damage is told with the store's name; tells which."""
        try:
            with cases.repairs():
                store = ObservationStore.open(folder, mode)
            with store:
                assert_holds(store, ROUNDS)
        except StoreDamaged as error:
            assert_names(error, folder)
            return False
        return True

    @pytest.mark.parametrize("contents", list(itertools.product(BAD_JSON, repeat=2))[::2], ids="-".join)
    @pytest.mark.sampled(3)
    def test_both_copies_of_the_attributes(self, closed, contents):
        for file, content in zip(("zarr.json", "committed/zarr.json"), contents, strict=True):
            (closed / file).write_bytes(BAD_JSON[content])
        before = files(closed)
        for mode in ("r", "a"):
            with pytest.raises(StoreDamaged, match=re.escape(f"store {closed}: ")):
                ObservationStore.open(closed, mode)
        with pytest.raises((FileExistsError, StoreDamaged)):
            create(closed)
        assert files(closed) == before

    def test_both_copies_gone_from_a_run_with_rounds(self, kept):
        """It is no run that was never made to its end: nothing may remove it."""
        for file in ("zarr.json", "committed/zarr.json"):
            (kept / file).unlink()
        before = files(kept)
        for mode in ("r", "a"):
            with pytest.raises(StoreDamaged, match=re.escape(f"store {kept}: ")):
                ObservationStore.open(kept, mode)
        with pytest.raises((FileExistsError, StoreDamaged)):
            create(kept)
        assert files(kept) == before

    def test_a_changed_plan_outlives_one_copy(self, closed):
        with ObservationStore.open(closed, "a") as store:
            store.plan(200)
        (closed / "zarr.json").unlink()
        with pytest.warns(UserWarning, match="made again"):
            store = ObservationStore.open(closed, "a")
        with store:
            assert store.planned == 200

    def test_several_at_once(self, kept):
        for file in METADATA[1:-1]:
            (kept / file).unlink()
        assert_goes_on(kept, ROUNDS)


class TestEveryFile:
    """Whatever happens to one file: all rounds are there, or it is told."""

    @pytest.mark.parametrize(
        ("original", "damage"), [*(("closed", damage) for damage in DAMAGES), ("crashed", "gone"), ("crashed", "half")]
    )
    @pytest.mark.sampled(12)
    def test_is_read_or_told(self, request, original, damage):
        kept = request.getfixturevalue(original)
        originals = files(kept)
        for name in originals:
            DAMAGES[damage](kept / name)
            least = WHOLE if name.endswith("journal") and original == "crashed" else ROUNDS
            for mode in ("r", "a"):
                try:
                    with cases.repairs():
                        store = ObservationStore.open(kept, mode)
                    assert least <= len(store) <= ROUNDS, name
                    assert_equal(store.read(), rows(0, len(store)))
                    if mode == "a":
                        crash(store)
                except StoreDamaged as error:
                    assert_names(error, kept)
                    if mode == "a" and store.writable:
                        crash(store)
            now = files(kept)
            for other in {*now, *originals}:
                if other not in originals:
                    (kept / other).unlink()
                elif now.get(other) != originals[other]:
                    (kept / other).write_bytes(originals[other])
        assert_goes_on(kept, ROUNDS)

    @pytest.mark.parametrize("damage", ["gone", "half", "flipped"])
    @pytest.mark.sampled(3)
    def test_of_a_store_that_is_no_folder(self, damage):
        """Object by object."""
        place = zarr.storage.MemoryStore()
        create(place, ROUNDS).close()
        original = dict(place._store_dict)
        for key, value in original.items():
            data = value.to_bytes()
            changed = {"half": data[: len(data) // 2], "flipped": flip(data, len(data) // 2)}
            for mode in ("r", "a"):
                place._store_dict.clear()
                place._store_dict.update(original)
                if damage == "gone":
                    del place._store_dict[key]
                else:
                    place._store_dict[key] = type(value).from_bytes(changed[damage])
                try:
                    with cases.repairs():
                        store = ObservationStore.open(place, mode)
                    assert_holds(store, ROUNDS)
                    store.close()
                except StoreDamaged as error:
                    assert "store memory://" in str(error), key  # noqa: PT017
        place._store_dict.clear()
        place._store_dict.update(original)
        with ObservationStore.open(place, "a") as store:
            assert_holds(store, ROUNDS)


def test_notes_of_a_study_without_a_finished_run(tmp_path):
    """They are there, though every number is missing: a study that was interrupted so early is not damaged."""
    (tmp_path / "study").mkdir()
    location = locate(tmp_path / "study")
    location.put_document("", group_document({}))
    Notes((2, 2, 3), 12).save(location, "its name", {})
    assert Notes((2, 2, 3), 12).load(location, "its name") == []
