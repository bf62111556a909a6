"""Stores of every kind of run, every way in which one of their files can be damaged, and what comes of it."""

import collections
import contextlib
import datetime
import json
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from naive import journals

import scalable_bandits as sb
from cases.store import CHUNK, crash
from scalable_bandits.runs.status import runs_in, status
from scalable_bandits.store import ObservationStore, StoreError
from scalable_bandits.studies import Problem

ROUNDS, MORE = 41, 12  # rounds of a run that is damaged, and those that it goes on for
SPACE = sb.Grid([[0, 1], [0, 2]], (9, 9))
KERNEL = sb.RBF(0.4)
LENGTH = 70  # of arrays of the specification: kept beside it


def wave(x):
    """A user's function."""
    return float(np.sin(5 * np.ravel(x)[0]))


def table(seed):
    draw = np.random.default_rng(seed)
    return sb.TableEnvironment(SPACE, draw.standard_normal(SPACE.size), sb.GaussianNoise(0.1), seed=seed)


def policy_of(seed):
    return sb.IGPUCB(SPACE, KERNEL, noise=0.1, regularization=0.01, seed=seed)


# ---- kinds of runs: each is made in two steps, the first of which is what it was earlier; `go_on` tells what it was


class Record:
    """A run that was told by hand, whose process died."""

    @staticmethod
    def make(place, seed, snapshot):
        policy = policy_of(seed)
        held = sb.record(policy, place)
        draw = np.random.default_rng(seed)
        for t in range(ROUNDS):
            if t == ROUNDS - 6:
                snapshot()
            policy.tell(policy.ask(), draw.standard_normal())
        policy.ask()
        crash(held.store)
        held.store.location.unlock()  # as of a process that is gone

    @staticmethod
    def go_on(place):
        policy = policy_of(0)
        with sb.record(policy, place) as held:
            before = held.store.read(names=["candidate", "y"])
            for t in range(MORE):
                policy.tell(policy.ask(), float(t % 3))
            return {**held.store.read(names=["candidate", "y", "x", "call"]), "before": before["y"]}


class Simulate:
    """A simulation that came to its end, with checkpoints."""

    @staticmethod
    def make(place, seed, snapshot):
        sb.simulate(policy_of(seed), table(seed), ROUNDS - 6, store=place)
        snapshot()
        sb.simulate(policy_of(seed), table(seed), ROUNDS, store=place)

    @staticmethod
    def go_on(place):
        run = sb.simulate(policy_of(0), table(0), ROUNDS + MORE, store=place)
        return {name: getattr(run, name) for name in ("candidate", "y", "width", "information_gain", "regret")}


class Maximize:
    """A run with several evaluations in flight, some of which failed, whose process died."""

    @staticmethod
    def policy(seed):
        return sb.GPEI(sb.Points(SPACE.points()), KERNEL, noise=0.1, regularization=0.01, seed=seed)

    @classmethod
    def make(cls, place, seed, snapshot):
        calls = []

        def function(x):
            calls.append(x)
            if len(calls) % 7 == 0:
                raise ZeroDivisionError
            return wave(x) + seed

        function.__qualname__, function.__module__ = wave.__qualname__, wave.__module__

        def after(view):
            if view.number == ROUNDS - 6:
                snapshot()
            if view.number == ROUNDS:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            sb.maximize(function, cls.policy(seed), 10 * ROUNDS, parallel=3, retries=0, store=place, callbacks=after)

    @classmethod
    def go_on(cls, place):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            found = sb.maximize(wave, cls.policy(0), ROUNDS + MORE, parallel=1, retries=0, store=place)
        store = ObservationStore.open(place)
        tickets = [(t.number, t.candidate, t.state, t.failures, t.error) for t in found.tickets]
        return {**store.read(names=["candidate", "y"]), "tickets": np.array(tickets, dtype=object).astype(str)}


class Study:
    """A study of four runs, of which one is not complete and one was not begun; with a series of its own."""

    # What it keeps of all runs, a run that is complete, and the one that is not.
    DAMAGED = ("zarr.json", "uniform_regret", "more", "c/zarr.json", "c/igp/zarr.json", "c/igp/0000", "c/random/0001")

    @staticmethod
    def study(seed=0):
        def build(replicate):
            policies = {"igp": policy_of(replicate.seed), "random": sb.RandomSearch(SPACE, seed=replicate.seed)}
            return Problem(table(replicate.seed), policies)

        return sb.Study(
            name="damage", title="t", source="s", cases=("c",), build=build, horizon=ROUNDS, replicates=2,
            duration="1 s", seed=seed, series=lambda policy: {"ones": np.ones(ROUNDS)},
        )  # fmt: skip

    @classmethod
    def make(cls, place, seed, snapshot):
        study = cls.study(seed)
        study.run(replicates=1, store=place)
        snapshot()
        play, played = sys.modules["scalable_bandits.studies.runs"].simulate, []

        def some(policy, environment, horizon, **options):
            played.append(1)
            if len(played) == 2:
                play(policy, environment, horizon - 10, **options)
                raise KeyboardInterrupt
            return play(policy, environment, horizon, **options)

        sys.modules["scalable_bandits.studies.runs"].simulate = some
        try:
            study.run(store=place)
        except KeyboardInterrupt:
            pass
        finally:
            sys.modules["scalable_bandits.studies.runs"].simulate = play

    @classmethod
    def go_on(cls, place):
        dataset = cls.study().run(store=place).compute()
        return {name: dataset[name].to_numpy() for name in sorted(dataset.data_vars) if name != "seconds"}


def repository(path):
    """An icechunk repository in a folder."""
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    icechunk.set_logs_filter("off")
    try:
        return icechunk.Repository.open_or_create(icechunk.local_filesystem_storage(str(path)))
    except icechunk.IcechunkError as error:
        raise Unopened(str(error)) from error


class Unopened(RuntimeError):
    """Icechunk itself refuses to open a repository."""


def forget(path):
    """Remove what only earlier snapshots of a repository need: else nearly all files would be theirs."""
    now, kept = datetime.datetime.now(datetime.UTC), repository(path)
    kept.expire_snapshots(now)
    kept.garbage_collect(now)


PLACES = {"folder": lambda path: path, "icechunk": repository}
KINDS = {"record": Record, "simulate": Simulate, "maximize": Maximize, "study": Study}


# ---- damage


class Damage(NamedTuple):
    """One file, changed in one way."""

    file: str
    way: str
    where: int = 0  # bit or digit, of those seeded for this file


def flip(data, damage):
    bit = int(np.random.default_rng([1, damage.where, len(damage.file)]).integers(8 * len(data)))
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def change_digit(data, damage):
    """None where there is no digit to be changed, or the file is no JSON."""
    digits = [m.start() for m in re.finditer(rb"\d", data)]
    if not digits or not damage.file.endswith("json"):
        return None
    draw = np.random.default_rng([2, damage.where])
    at = digits[int(draw.integers(len(digits)))]
    other = (data[at] - 48 + 1 + int(draw.integers(9))) % 10
    return data[:at] + bytes([48 + other]) + data[at + 1 :]


class Store:
    """A store of some kind of run, another one, and what it was earlier.

    Parameters
    ----------
    kind
        One of `KINDS`.
    folder
        Folder in which all of them are made.
    within
        One of `PLACES`.
    """

    def __init__(self, kind, folder, within="folder"):
        place = PLACES[within]
        self.within = within
        self.kind, self.folder, self.place = KINDS[kind], Path(folder), place
        self.path, self.earlier, self.other = (self.folder / name for name in ("run", "earlier", "other"))
        self.kind.make(place(self.path), 0, lambda: shutil.copytree(self.path, self.earlier))
        self.kind.make(place(self.other), 1, lambda: None)
        if within == "icechunk":
            forget(self.path)
        self.files = sorted(str(f.relative_to(self.path)) for f in self.path.rglob("*") if f.is_file())
        self.files = [file for file in self.files if not file.endswith(("writer.lock", "writer.json"))]
        self.read = self.columns(self.path)
        copy = shutil.copytree(self.path, self.folder / "expected")
        self.expected = self.kind.go_on(place(copy))

    def columns(self, path):
        """Everything that a reader sees of every run."""
        seen = {}
        for run in [path] if self.kind is not Study else sorted(runs_in(path)):
            store = ObservationStore.open(self.place(run))
            name = str(Path(run).relative_to(path))
            seen |= {f"{name} {field}": values for field, values in store.read().items()}
            seen[f"{name} pending"] = np.array([*store.pending, -1])
            seen[f"{name} planned"] = np.array([store.planned or -1])
            seen[f"{name} y of dataset"] = store.dataset()["y"].to_numpy()
        return seen

    def damages(self, flips, digits):
        """All of them, with so many bits and digits of each file."""
        for file in self.files:
            if self.kind is Study and not file.startswith(Study.DAMAGED):
                continue
            for way in ("removed", "emptied", "half", "other", "earlier"):
                yield Damage(file, way)
            yield from (Damage(file, "flip", i) for i in range(flips))
            yield from (Damage(file, "digit", i) for i in range(digits))

    def apply(self, damage, target):
        """Damage a copy; tells whether anything is different."""
        file, data = target / damage.file, (self.path / damage.file).read_bytes()
        if damage.way == "removed":
            file.unlink()
            return True
        source = {"other": self.other, "earlier": self.earlier}.get(damage.way)
        if source is not None:
            content = self.counterpart(damage, source)
        elif damage.way in ("emptied", "half"):
            content = data[: len(data) // 2] if damage.way == "half" else b""
        else:
            content = (flip if damage.way == "flip" else change_digit)(data, damage) if data else None
        if content is None or content == data:
            return False
        file.write_bytes(content)
        return True

    def counterpart(self, damage, source):
        """The same file of another store; of icechunk, whose names are drawn, one of the same folder."""
        file = source / damage.file
        if self.within == "icechunk" and not file.exists() and file.parent.is_dir():
            others = sorted(file.parent.iterdir())
            file = others[len(damage.file + damage.way) * 7919 % len(others)]
        return file.read_bytes() if file.is_file() else None


# ---- what comes of it


def same(found, expected):
    """Whether two sets of columns are equal, to the last bit."""
    return list(found) == list(expected) and all(
        found[name].shape == values.shape and found[name].tolist() == values.tolist()
        if values.dtype.kind not in "f"
        else np.array_equal(found[name], values, equal_nan=True)
        for name, values in expected.items()
    )


class Outcome(NamedTuple):
    """What reading a damaged store, or going on with it, comes to."""

    verdict: str  # "harmless", "reported" or what is wrong
    text: str


def attempt(call, expected, names):
    """Call, and compare: equal, refused by name, or wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except (StoreError, FileNotFoundError, FileExistsError, sb.StudyIncomplete) as error:
            text = str(error)
            return Outcome("reported" if any(name in text for name in names) else "does not name the file", text)
        except Unopened as error:
            return Outcome("reported", str(error))
        except Exception as error:
            return Outcome(f"raised {type(error).__name__}", str(error))
    said = " ".join(str(w.message) for w in caught if str(w.message).startswith("store "))
    if same(found, expected):
        return Outcome("harmless", said)
    return Outcome("reported" if any(name in said for name in names) else "silent", said)


def names_of(damage, store):
    """What a message about a file may call it."""
    file = damage.file
    names = {file}
    run = re.search(
        r"(^|/)((committed|checkpoints|inputs|bookkeeping)/.*|[a-z_]+/(c[.\d]*|zarr\.json)|zarr\.json)$", file
    )
    if run:
        names.add(run[2])
    match = re.search(r"(checkpoints/[ab])/|(inputs/\w+)/|(uniform_regret|more/\w+)/c", file)
    names |= {group for group in match.groups() if group} if match else set()
    return names


def try_out(store, damage, work):
    """Damage a copy, read it, look at it, go on with it; tells what came of each."""
    shutil.rmtree(work, ignore_errors=True)
    target = shutil.copytree(store.path, work / "run")
    if not store.apply(damage, target):
        return None
    # Which of our files is in an object of icechunk's only icechunk knows.
    names = names_of(damage, store) if store.within == "folder" else {"store icechunk, branch main: "}
    before = {f: f.read_bytes() for f in target.rglob("*") if f.is_file()}
    reading = attempt(lambda: store.columns(target), store.read, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for run in [target] if store.kind is not Study else sorted(runs_in(target)):
                status(store.place(run))
            whole = all(found.whole for found in sb.check(target if store.kind is Study else store.place(target)))
        except (StoreError, FileNotFoundError, FileExistsError, Unopened):
            whole = False
    assert {f: f.read_bytes() for f in target.rglob("*") if f.is_file()} == before, "looking changed something"
    copy = shutil.copytree(target, work / "copy")
    going = attempt(lambda: store.kind.go_on(store.place(copy)), store.expected, names)
    results = {"read": reading, "go on": going}
    if whole and (reading.verdict, going.verdict) != ("harmless", "harmless"):
        results["check"] = Outcome("check says that it is whole", "")
    if going.verdict != "harmless":
        step = recovered if store.within == "folder" else salvaged
        results["recover"] = step(store, damage, target)
    return results


def recovered(store, damage, target):
    """Nothing readable is lost by going on with what is there, and what can be played again is."""
    before = {f.relative_to(target): f.read_bytes() for f in target.rglob("*") if f.is_file()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for run in [target] if store.kind is not Study else sorted(runs_in(target)):
                ObservationStore.open(run, "a", recover=True).close()
                set_aside = run.with_name(f"{run.name}.damaged")
                if set_aside.exists():
                    kept = {f.relative_to(set_aside) for f in set_aside.rglob("*") if f.is_file()}
                    own = {
                        f.relative_to(run.relative_to(target))
                        for f in before
                        if f.is_relative_to(run.relative_to(target))
                    }
                    transient = {Path("committed") / name for name in ("writer.json", "acknowledged")}
                    assert own - kept <= transient, f"not kept: {own - kept}"
                    shutil.rmtree(set_aside)
            if store.kind in (Simulate, Study):
                found = store.kind.go_on(target)
                return Outcome("harmless" if same(found, store.expected) else "recovered to other numbers", "")
            rows = ObservationStore.open(target).read(names=["y"])["y"]
        except (StoreError, FileNotFoundError, FileExistsError) as error:
            text = str(error)
            both = "both copies" in text or "no run in" in text
            return Outcome("reported" if both else "cannot be recovered", text)
    wanted = collections.Counter(store.read[". y"][sorted(readable(store, damage, before))].tolist())
    lost = wanted - collections.Counter(rows.tolist())
    return Outcome("lost readable rounds" if lost else "reported", f"{len(rows)} of {ROUNDS}: {dict(lost)}")


def salvaged(store, damage, target):
    """Of a store that is no folder what is whole can be read; it is not written, for no copy can be kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ObservationStore.open(store.place(target), recover=True)
            ObservationStore.open(store.place(target), "a", recover=True).close()
        except (StoreError, FileNotFoundError, FileExistsError, Unopened) as error:
            return Outcome("reported", str(error))
        except ValueError as error:
            refused = str(error).startswith("recover: got ")
            return Outcome("reported" if refused else "raised ValueError", str(error))
    return Outcome("harmless", "")


def readable(store, damage, before):
    """Rounds (from 0) of which everything is readable, by an oracle of its own."""
    count = len(store.read[". y"])
    chunk = re.fullmatch(r"(\w+)/c\.(\d+)(\.0)?", damage.file)
    if chunk:
        if int(chunk[2]) < count // CHUNK and chunk[1] != "round":
            return set(range(count)) - set(range(int(chunk[2]) * CHUNK, (int(chunk[2]) + 1) * CHUNK))
        return set(range(count))
    if not Path(damage.file).name.startswith("journal-"):
        return set(range(count))
    data = (store.path / damage.file).read_bytes()
    width = 7 * 8  # call, candidate, x (two numbers), y, noise, time
    damaged = before.get(Path(damage.file), b"")
    record = json.loads((store.path / "committed" / "record.json").read_text())
    inside = set(range(record["rounds"]))
    return inside | {t for t in journals.readable(data, damaged, width) if t < count}
