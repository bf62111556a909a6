"""What disks do to a run: nothing is lost without a word, and nothing wrong is ever read."""

import functools
import itertools
import re
import shutil

import numpy as np
import pytest
import store_cases as cases
import zarr
from damage_cases import ARRAYS, DAMAGES, INPUT, ROUNDS, WHOLE, assert_goes_on, assert_names, assert_plain, files, flip
from policy_cases import EVERY_POLICY, PROBLEMS
from store_cases import CHUNK, FIELDS, assert_equal, assert_holds, crash, create, rows

import scalable_bandits as sb
from scalable_bandits import recording
from scalable_bandits.store import ObservationStore, StoreDamaged, journal

pytest_plugins = ["store_fixtures"]
pytestmark = pytest.mark.usefixtures("disk")
every_damage = pytest.mark.parametrize("damage", DAMAGES)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A run whose writer died, and what it held at each size of its journal: bytes to rounds and pending points."""
    folder = tmp_path_factory.mktemp("grown") / "run.zarr"
    store = create(folder, WHOLE)
    store.append(rows(WHOLE, WHOLE + 1))  # by now the journal has begun anew
    file = folder / "committed" / "journal"
    states = {0: (WHOLE, [])}

    def note():
        states[file.stat().st_size] = len(store), list(store.pending)

    note()
    store.note_pending([45, 46])
    note()
    store.append(rows(WHOLE + 1, WHOLE + 3))
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

    def test_cut_at_every_byte(self, grown):
        """Only the torn frame is lost, and it is said how much."""
        folder, states = grown
        file = folder / "committed" / "journal"
        data = file.read_bytes()
        empty = len(journal.encode(journal.Kind.START, 0, b""))
        for size in range(len(data) + 1):
            file.write_bytes(data[:size])
            whole, count, pending = self.state_at(states, size)
            reader = ObservationStore.open(folder)
            assert (len(reader), reader.pending, reader.orderly) == (count, pending, False)
            with cases.repairs() as said:
                store = ObservationStore.open(folder, "a")
            assert (len(store), store.pending, store.orderly) == (count, pending, False)
            if size % 5 == 0:
                assert_holds(reader, count)
                assert_holds(store, count)
            if size in (whole, empty):
                assert not said
            else:
                text = rf"run\.zarr: a torn tail of \d+ bytes was cut; {count} rounds are there$"
                assert len(said) == 1
                assert re.search(text, said[0])
            crash(store)
            if size % 7 == 0:  # mended
                crash(ObservationStore.open(folder, "a"))
        file.write_bytes(data)

    @pytest.mark.parametrize("size", [0, 30, 100, 200])
    def test_cut_and_gone_on(self, grown, tmp_path, size):
        folder = shutil.copytree(grown[0], tmp_path / "run.zarr")
        file = folder / "committed" / "journal"
        file.write_bytes(file.read_bytes()[:size])
        assert_goes_on(folder, self.state_at(grown[1], size)[1])

    def test_a_bit_flipped_in_every_byte(self, grown):
        """What is before the frame with the flip is there."""
        folder, states = grown
        file = folder / "committed" / "journal"
        data = file.read_bytes()
        for position in range(0, len(data), 2):
            file.write_bytes(flip(data, position, position % 8))
            _, count, pending = self.state_at(states, position)
            reader = ObservationStore.open(folder)
            assert (len(reader), reader.pending) == (count, pending)
            if position % 5 == 0:
                assert_holds(reader, count)
        file.write_bytes(data)

    @pytest.mark.parametrize("more", [bytes(1), bytes(100), b"\xff" * 60, b"\x19\0\0\0" + bytes(40)], ids=str)
    def test_rubbish_at_the_end(self, crashed, more):
        """As some file systems leave it after a power failure."""
        file = crashed / "committed" / "journal"
        with file.open("ab") as stream:
            stream.write(more)
        assert_holds(ObservationStore.open(crashed), ROUNDS)
        (said,) = assert_goes_on(crashed, ROUNDS)
        assert f"a torn tail of {len(more)} bytes was cut; {ROUNDS} rounds are there" in said

    def test_of_a_closed_run(self, closed):
        """Nothing is lost, wherever it is cut or flipped: the arrays have every round."""
        file = closed / "committed" / "journal"
        data = file.read_bytes()
        for size in range(0, len(data), 3):
            file.write_bytes(flip(data, size, size % 8) if size % 2 else data[:size])
            assert_holds(ObservationStore.open(closed), ROUNDS)

    @every_damage
    @pytest.mark.parametrize("count", [CHUNK, ROUNDS])
    def test_of_a_closed_run_that_goes_on(self, tmp_path, count, damage):
        folder = tmp_path / "run.zarr"
        create(folder, count).close()
        DAMAGES[damage](folder / "committed" / "journal")
        assert_holds(ObservationStore.open(folder), count)
        said = assert_goes_on(folder, count)
        assert said or count % CHUNK == 0

    def test_damaged_in_a_run_opened_again(self, closed):
        """Rounds from before the last close are in the arrays; those after it only in the journal."""
        store = ObservationStore.open(closed, "a", durability="round")
        store.append(rows(ROUNDS, ROUNDS + 1))
        store.append(rows(ROUNDS + 1, ROUNDS + 4))
        crash(store)
        file = closed / "committed" / "journal"
        data = file.read_bytes()
        for size in range(0, len(data), 7):
            file.write_bytes(data[:size])
            store = ObservationStore.open(closed)
            assert_holds(store, len(store))
            assert len(store) in (ROUNDS, ROUNDS + 1)
        file.write_bytes(data)
        assert_goes_on(closed, ROUNDS + 4)


class TestUnfinishedChunk:
    """What a close writes of it for zarr and xarray, the journal has too."""

    @every_damage
    @pytest.mark.parametrize("name", ["y", "x"])
    def test_nothing_is_lost(self, closed, name, damage):
        DAMAGES[damage](closed / name / ("c.2.0" if name == "x" else "c.2"))
        for _ in range(2):
            assert_holds(ObservationStore.open(closed), ROUNDS)
        assert_goes_on(closed, ROUNDS)

    @pytest.mark.parametrize(("name", "damage"), [*(("y", damage) for damage in DAMAGES), ("round", "gone")])
    def test_zarr_reads_it_after_the_next_close(self, closed, name, damage):
        """Though nothing was appended."""
        DAMAGES[damage](closed / name / "c.2")
        with cases.repairs():
            ObservationStore.open(closed, "a").close()
        assert_plain(closed, ROUNDS)

    @every_damage
    def test_with_the_journal_gone_too(self, closed, damage):
        """Then its rounds are lost; the message says which, and the rest can be had."""
        (closed / "committed" / "journal").unlink()
        DAMAGES[damage](closed / "y" / "c.2")
        for mode in ("r", "a", "r"):
            with pytest.raises(StoreDamaged, match=rf"rounds 33 to {ROUNDS} of 'y' .*rounds 1 to 32 can be recovered"):
                ObservationStore.open(closed, mode)
        (said,) = assert_goes_on(closed, WHOLE, recover=True)
        assert "3 rounds after round 32 were given up" in said


class TestWholeChunk:
    """Committed rounds that cannot be read."""

    @every_damage
    @pytest.mark.parametrize(
        ("original", "name", "chunk"), [("closed", "candidate", 0), ("crashed", "x", 1), ("closed", "noise", 1)]
    )
    def test_is_told_and_recovered_from(self, request, original, name, chunk, damage):
        """The message names the field, the rounds and what is left; a copy is made before anything is cut."""
        kept = request.getfixturevalue(original)
        DAMAGES[damage](kept / name / (f"c.{chunk}.0" if name == "x" else f"c.{chunk}"))
        good = chunk * CHUNK
        message = re.escape(f"store {kept}: rounds {good + 1} to {good + CHUNK} of '{name}' cannot be read (")
        message += rf".+\); rounds 1 to {good} can be recovered: open it with recover=True$"
        reader = ObservationStore.open(kept)
        for read in (
            reader.read,
            lambda: reader.read(good + 3, good + 4, [name]),
            lambda: reader.sample(name, np.array([good + 1])),
        ):
            with pytest.raises(StoreDamaged, match=message):
                read()
        with pytest.raises(StoreDamaged, match=rf"chunk {name}/c|cannot be read"):
            self.compute(reader)
        assert_equal(reader.read(0, good), rows(0, good))
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
        (said,) = assert_goes_on(kept, good, recover=True)
        copy = kept.with_name("run.zarr.damaged")
        assert f"{ROUNDS - good} rounds after round {good} were given up" in said
        assert str(copy) in said
        assert files(copy) == before

    @staticmethod
    def compute(reader):
        try:
            reader.dataset().compute()
        except StoreDamaged:
            raise
        except Exception as error:  # a codec's, through dask
            raise StoreDamaged(f"cannot be read ({error})") from error

    def test_every_byte_and_every_length(self, closed):
        """No flip and no cut goes unnoticed."""
        for file in (closed / "y" / "c.0", closed / "committed" / "c"):
            data = file.read_bytes()
            damaged = [flip(data, i, (3 * i) % 8) if i % 2 else data[:i] for i in range(len(data))]
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
        assert_goes_on(closed, CHUNK, recover=True)
        assert not assert_goes_on(closed, CHUNK + 20, recover=True)
        (closed / "x" / "c.0.0").unlink()
        second = files(closed)
        assert_goes_on(closed, 0, recover=True)
        copies = [files(path) for path in closed.parent.iterdir() if ".damaged" in path.name]
        assert len(copies) == 2
        assert first in copies
        assert second in copies

    def test_several(self, closed):
        """The first of them counts."""
        for name in ("y/c.1", "candidate/c.0", "noise/c.1"):
            (closed / name).unlink()
        with pytest.raises(StoreDamaged, match=r"rounds 1 to 16 of 'candidate' .*rounds 1 to 0 can be recovered"):
            ObservationStore.open(closed).read()
        assert_goes_on(closed, 0, recover=True)

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
        with pytest.raises(StoreDamaged, match=r"rounds 17 to 32 of 'y' .*rounds 1 to 16 can be recovered"):
            ObservationStore.open(place).read()
        before = dict(place._store_dict)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^recover: got .*; allowed: a store in a folder"):
                ObservationStore.open(place, "a", recover=True)
        kept = {key: value.to_bytes() for key, value in place._store_dict.items() if "bookkeeping" not in key}
        assert kept == {key: value.to_bytes() for key, value in before.items() if "bookkeeping" not in key}

    def test_a_checkpoint_of_what_was_given_up(self, tmp_path, monkeypatch):
        """Is of another history: it is not used when as many rounds are there again."""
        monkeypatch.setattr(recording, "open_run", functools.partial(recording.open_run, chunk=CHUNK))
        place = tmp_path / "run.zarr"

        def told(values):
            policy = EVERY_POLICY["igpucb"].make(PROBLEMS["arms"])
            with sb.record(policy, place) as held:
                for y in values:
                    policy.tell(policy.ask(), y)
                held._checkpoints.save()
            return policy

        told(np.sin(np.arange(40)))
        (place / "y" / "c.1").unlink()
        with pytest.warns(UserWarning, match="given up"):
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
            with pytest.raises(StoreDamaged, match=rf"^store .*inputs/{wanted['array']}: an array of the specification"):
                store.input(wanted)
            assert_holds(store, ROUNDS)


METADATA = ("zarr.json", *(f"{name}/zarr.json" for name in (*ARRAYS, "committed")))


BAD_JSON = {"empty": b"", "half": b'{\n  "zarr_format": 3,\n  "attri', "null": b"null"}


class TestMetadata:
    """Files that zarr needs to read anything at all."""

    @pytest.mark.parametrize("file", METADATA)
    def test_gone(self, kept, file):
        """Is made again, without loss."""
        (kept / file).unlink()
        self.assert_told(kept, "r")
        (said,) = assert_goes_on(kept, ROUNDS)
        assert "made again" in said

    @pytest.mark.parametrize("file", METADATA)
    @pytest.mark.parametrize("content", BAD_JSON)
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
