"""What disks and dying processes do to a run: nothing is lost without a word, and nothing wrong is ever read."""

import errno
import functools
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
import store_cases as cases
import zarr
from policy_cases import EVERY_POLICY, PROBLEMS
from store_cases import CHUNK, FIELDS, SPECIFICATION, assert_equal, assert_holds, crash, create, rows, sizes

import scalable_bandits as sb
from scalable_bandits import recording
from scalable_bandits.store import ObservationStore, StoreDamaged, StoreLocked, checkpoints, journal, writer

ROUNDS, WHOLE = 2 * CHUNK + 3, 2 * CHUNK
ARRAYS = ("round", *(field.name for field in FIELDS))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A run that was closed, one whose writer died, and one that grew by several calls before that."""
    folder = tmp_path_factory.mktemp("originals")
    for name in ("closed", "crashed"):
        store = create(folder / name, inputs={"abc": np.arange(100.0)})
        for start in range(ROUNDS):
            store.append(rows(start, start + 1))
        store.note_pending([41, 42])
        store.close() if name == "closed" else crash(store)
    return folder


@pytest.fixture
def closed(originals, tmp_path):
    return shutil.copytree(originals / "closed", tmp_path / "run.zarr")


@pytest.fixture
def crashed(originals, tmp_path):
    return shutil.copytree(originals / "crashed", tmp_path / "run.zarr")


@pytest.fixture(params=["closed", "crashed"])
def kept(originals, tmp_path, request):
    return shutil.copytree(originals / request.param, tmp_path / "run.zarr")


def files(folder):
    """Every file by its name inside, but for the lock."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("writer."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def assert_plain(folder, count):
    """What zarr alone reads of a closed run."""
    group = zarr.open_group(folder, mode="r")
    assert_equal({field.name: group[field.name][:] for field in FIELDS}, rows(0, count))
    np.testing.assert_array_equal(group["round"][:], np.arange(1, count + 1))
    assert int(group["committed"][()]) == count


def assert_goes_on(folder, count, **given):
    """Opened, written, closed and read; tells what was repaired."""
    with cases.repairs() as said:
        store = ObservationStore.open(folder, "a", durability="round", **given)
    with store:
        assert_holds(store, count)
        store.append(rows(count, count + 1))
        assert_holds(store, count + 1)
        store.append(rows(count + 1, count + 20))
    assert_holds(ObservationStore.open(folder), count + 20)
    assert_plain(folder, count + 20)
    with ObservationStore.open(folder, "a"):  # and nothing is left to repair
        pass
    return said


def assert_names(error, folder):
    """A message that says which store is damaged."""
    assert str(error).startswith(f"store {folder}: ")


def flip(data, position, bit=0):
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


class Disk:
    """`os` as the journal's module sees it, with room for so many writes; power does not fail here."""

    def __init__(self, room=math.inf, call="write", number=errno.ENOSPC):
        self.room, self.call, self.number = room, call, number

    def __getattr__(self, name):
        if name == self.call:
            return self._call
        return (lambda descriptor: None) if name == "fsync" else getattr(os, name)

    def _call(self, descriptor, *given):
        self.room -= 1
        if self.room < 0:
            if self.call == "write":
                os.write(descriptor, given[0][: len(given[0]) // 2])
            raise OSError(self.number, os.strerror(self.number))
        return getattr(os, self.call)(descriptor, *given)


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    made = Disk()
    monkeypatch.setattr(journal, "os", made)
    return made


DAMAGES = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}
BOTH = pytest.mark.parametrize("durability", ["round", "block"])
every_damage = pytest.mark.parametrize("damage", DAMAGES)


# ---- the journal


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


# ---- chunks


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
        np.testing.assert_array_equal(ObservationStore.open(closed).input("abc"), np.arange(100.0))
        for damage in ("flipped", "gone"):
            DAMAGES[damage](closed / "inputs" / "abc" / "c" / "0")
            store = ObservationStore.open(closed)
            with pytest.raises(StoreDamaged, match=re.escape(f"store {closed}: an array of the specification cannot")):
                store.input("abc")
            assert_holds(store, ROUNDS)


# ---- metadata


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


# ---- what was going on when the process died


class TestInterrupted:
    """At making, growing, closing."""

    @pytest.mark.parametrize("left", ["nothing", "arrays", "inputs"])
    def test_making(self, tmp_path, left):
        """A run that was never made to its end is none, and can be made."""
        place = tmp_path / "run.zarr"
        crash(create(place, inputs={"abc": np.arange(3.0)}, planned=70))
        (place / "zarr.json").unlink()
        (place / "committed" / "zarr.json").unlink()
        (place / "committed" / "journal").unlink()
        if left != "arrays":
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

    def test_making_at_every_write(self, tmp_path, monkeypatch):
        """What is there then is opened or made, as `simulate` does it."""
        for allowed in itertools.count():
            place = tmp_path / f"{allowed}.zarr"
            with monkeypatch.context() as patch:
                disk = Disk(allowed)
                patch.setattr(journal, "os", disk)
                try:
                    crash(create(place))
                    break
                except OSError as error:
                    TestFullDisk.check(error, place)
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

    def test_counted_but_still_in_the_journal(self, tmp_path):
        """The process died before the journal began anew."""
        place = tmp_path / "run.zarr"
        store = create(place, 0)
        for start in range(CHUNK):
            store.append(rows(start, start + 1))
        file = place / "committed" / "journal"
        data = file.read_bytes()
        store.append(rows(CHUNK, CHUNK + 1))  # writes the chunk before
        crash(store)
        file.write_bytes(data)
        assert_holds(ObservationStore.open(place), CHUNK)
        assert not assert_goes_on(place, CHUNK)

    def test_a_lock_record_that_is_no_json(self, closed):
        """Another writer is refused all the same."""
        with ObservationStore.open(closed, "a"):
            (closed / "committed" / "writer.json").write_bytes(b'{"pid": 1')
            with pytest.raises(StoreLocked, match="is being written by"):
                ObservationStore.open(closed, "a")
        ObservationStore.open(closed, "a").close()


# ---- full disks


WAYS = {
    "round": ("round", {}),
    "flushed": ("block", {"BLOCK_SECONDS": -1.0}),
    "small": ("block", {"BLOCK_BYTES": 40 * CHUNK}),
    "small-flushed": ("block", {"BLOCK_SECONDS": -1.0, "BLOCK_BYTES": 40 * CHUNK}),
}


class TestFullDisk:
    """A call that fails leaves everything as it was, and works when there is room again."""

    @pytest.mark.parametrize("way", WAYS)
    def test_at_every_write(self, tmp_path, disk, monkeypatch, way):
        """Every call is tried with room for one write more, until it works."""
        durability, given = WAYS[way]
        for name, value in given.items():
            monkeypatch.setattr(writer, name, value)
        store = create(tmp_path / "run.zarr", durability=durability)
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
    def test_a_crash_after_it(self, tmp_path, disk, monkeypatch, way):
        """What was there before is there; of the call that failed, nothing."""
        durability, given = WAYS[way]
        for name, value in given.items():
            monkeypatch.setattr(writer, name, value)
        for allowed in range(0, 40, 5):
            place = tmp_path / f"{allowed}.zarr"
            disk.room = math.inf
            store = create(place, durability=durability)
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

    def test_writes_that_take_only_a_part(self, tmp_path, monkeypatch):
        """And no error: the rest is written by another call."""

        class Short(Disk):
            def _call(self, descriptor, data):
                return os.write(descriptor, data[:7])

        monkeypatch.setattr(journal, "os", Short())
        create(tmp_path / "run.zarr", 40).close()
        assert_holds(ObservationStore.open(tmp_path / "run.zarr"), 40)
        assert_plain(tmp_path / "run.zarr", 40)

    @BOTH
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

        monkeypatch.setattr(writer, "BLOCK_BYTES", 1)
        store = create(tmp_path / "run.zarr", durability="block")
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


# ---- folders that may not be written


READ_ONLY = """
import json
import os
import sys

import store_cases as cases
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
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
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
