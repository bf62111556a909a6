"""Stores of every kind of run, every way in which one of their files can be damaged, and what comes of it."""

import collections
import contextlib
import importlib
import re
import shutil
import sqlite3
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr

import scalable_bandits as sb
from cases.damage import DATABASE, files, flip
from cases.store import CHUNK, crash
from scalable_bandits.status import runs_in, status
from scalable_bandits.store import Field, ObservationStore, StoreError
from scalable_bandits.studies import Problem

ROUNDS, MORE = 41, 12  # rounds of a run that is damaged, and those that it goes on for
SPACE = sb.Grid([[0, 1], [0, 2]], (9, 9))


def wave(x):
    """Return the value of a user's function."""
    return float(np.sin(5 * np.ravel(x)[0]))


def table(seed):
    """Return an environment."""
    draw = np.random.default_rng(seed)
    return sb.TableEnvironment(SPACE, draw.standard_normal(SPACE.size), sb.GaussianNoise(0.1), seed=seed)


def policy_of(seed, space=SPACE):
    """Return a fresh policy."""
    return sb.IGPUCB(space, sb.RBF(0.4), noise=0.1, regularization=0.01, seed=seed)


def objects(path):
    """Return a store that replaces whole objects, which are files in a folder."""
    return zarr.storage.ObjectStore(importlib.import_module("obstore.store").LocalStore(path, mkdir=True))


# ---- kinds of runs: each is made in two steps, the first of which is what it was earlier; `go_on` plays more


class Told:
    """A run that was told by hand, whose process died."""

    place, closed = staticmethod(Path), False

    @classmethod
    def make(cls, place, seed, snapshot):
        policy, draw = policy_of(seed), np.random.default_rng(seed)
        held = sb.record(policy, place)
        for t in range(ROUNDS):
            if t == ROUNDS - 6:
                snapshot()
            policy.tell(policy.ask(), draw.standard_normal())
        policy.ask()
        if cls.closed:
            held.close()
        else:
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


class ClosedTold(Told):
    """A run that was told by hand and closed."""

    closed = True


class Raw:
    """Rounds that were appended, without a policy; its process died."""

    place = staticmethod(Path)

    @staticmethod
    def make(place, seed, snapshot):
        values = np.random.default_rng(seed).standard_normal(ROUNDS)
        store = ObservationStore.create(place, [Field("y")], specification={}, chunk=CHUNK, durability="round")
        for t in range(ROUNDS):
            if t == ROUNDS - 6:
                snapshot()
            store.append({"y": values[t : t + 1]})
        crash(store)
        store.location.unlock()

    @staticmethod
    def go_on(place):
        with ObservationStore.open(place, "a") as store:
            store.append({"y": np.arange(float(MORE))})
            return store.read()


class Simulate:
    """A simulation that came to its end, with checkpoints."""

    place = staticmethod(Path)

    @classmethod
    def make(cls, place, seed, snapshot):
        sb.simulate(policy_of(seed), table(seed), ROUNDS - 6, store=cls.place(place))
        snapshot()
        sb.simulate(policy_of(seed), table(seed), ROUNDS, store=cls.place(place))

    @classmethod
    def go_on(cls, place):
        run = sb.simulate(policy_of(0), table(0), ROUNDS + MORE, store=cls.place(place))
        return {name: getattr(run, name) for name in ("candidate", "y", "width", "information_gain", "regret")}


class Objects(Simulate):
    """A simulation in a store that replaces whole objects."""

    place = staticmethod(objects)


class Maximize:
    """A run with several evaluations in flight, some of which failed, whose process died."""

    place, closed = staticmethod(Path), False

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
                if not cls.closed:
                    shutil.copytree(place, place.with_name("dead"))
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            sb.maximize(
                function, policy_of(seed, sb.Points(SPACE.points())), 10 * ROUNDS, parallel=3, retries=0,
                store=place, callbacks=after,
            )  # fmt: skip
        if not cls.closed:  # as it was before it was closed
            shutil.rmtree(place)
            place.with_name("dead").rename(place)
            (place / "committed" / "writer.json").unlink()

    @staticmethod
    def go_on(place):
        policy = policy_of(0, sb.Points(SPACE.points()))
        found = sb.maximize(wave, policy, ROUNDS + MORE, parallel=1, retries=0, store=place)
        tickets = [(t.number, t.candidate, t.state, t.failures, t.error) for t in found.tickets]
        return {"y": np.array(found.y), "tickets": np.array(tickets, dtype=object).astype(str)}


class ClosedMaximize(Maximize):
    """A run with several evaluations in flight, some of which failed, that was closed."""

    closed = True


class Study:
    """A study of four runs, of which one is not complete and one was not begun; with a series of its own."""

    place = staticmethod(Path)
    # What it keeps of all runs, a run that is complete, and the one that is not.
    DAMAGED = ("zarr.json", "complete", "c/zarr.json", "c/igp/zarr.json", "c/igp/0000", "c/random/0001")

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
        runs, played = sys.modules["scalable_bandits.studies.runs"], []
        play = runs.simulate

        def some(policy, environment, horizon, **options):
            played.append(1)
            if len(played) == 2:
                play(policy, environment, horizon - 10, **options)
                raise KeyboardInterrupt
            return play(policy, environment, horizon, **options)

        runs.simulate = some
        try:
            with contextlib.suppress(KeyboardInterrupt):
                study.run(store=place)
        finally:
            runs.simulate = play

    @classmethod
    def go_on(cls, place):
        dataset = cls.study().run(store=place).compute()
        return {name: dataset[name].to_numpy() for name in sorted(dataset.data_vars) if name != "seconds"}


KINDS = {kind.__name__: kind for kind in (Told, ClosedTold, Raw, Simulate, Objects, Maximize, ClosedMaximize, Study)}


# ---- damage


class Damage(NamedTuple):
    """One file, changed in one way."""

    file: str
    way: str
    where: int = 0  # bit or digit, of those seeded for this file


def flip_somewhere(data, damage):
    """Return data with one bit changed."""
    bit = int(np.random.default_rng([1, damage.where, len(damage.file)]).integers(8 * len(data)))
    return flip(data, *divmod(bit, 8))


def change_digit(data, damage):
    """Return JSON with another digit; None where there is no digit to be changed."""
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
        Name of one of `KINDS`.
    folder
        Folder in which all of them are made.
    """

    def __init__(self, kind, folder):
        self.kind, self.folder = KINDS[kind], Path(folder)
        self.path, self.earlier, self.other = (self.folder / name for name in ("run", "earlier", "other"))
        self.kind.make(self.path, 0, lambda: shutil.copytree(self.path, self.earlier))
        self.kind.make(self.other, 1, lambda: None)
        self.files = sorted(files(self.path))
        self.read = self.columns(self.path)
        self.rows = database_rows(shutil.copytree(self.path, self.folder / "rows"))
        self.expected = self.kind.go_on(shutil.copytree(self.path, self.folder / "expected"))

    def runs(self, path):
        """Return the runs in a folder."""
        return sorted(runs_in(path)) if self.kind is Study else [path]

    def columns(self, path):
        """Return everything that a reader sees of every run."""
        seen = {}
        for run in self.runs(path):
            store = ObservationStore.open(self.kind.place(run))
            name = str(Path(run).relative_to(path))
            seen |= {f"{name} {field}": values for field, values in store.read().items()}
            seen[f"{name} pending"] = np.array([*store.pending, -1])
            seen[f"{name} failures"] = np.array([t.candidate for t in store.failures])
            seen[f"{name} planned"] = np.array([store.planned or -1])
            seen[f"{name} y of dataset"] = store.dataset()["y"].to_numpy()
        return seen

    def damages(self, flips, digits):
        """Yield all of them, with so many bits and digits of each file; of a database ten times as many."""
        for file in self.files:
            if self.kind is Study and not file.startswith(Study.DAMAGED):
                continue
            for way in ("removed", "emptied", "half", "other", "earlier"):
                if (self.kind, file, way) != (Objects, "committed/zarr.json", "earlier"):  # the run is as it was then
                    yield Damage(file, way)
            yield from (Damage(file, "flip", i) for i in range(flips * (10 if "run.sqlite" in file else 1)))
            yield from (Damage(file, "digit", i) for i in range(digits))

    def apply(self, damage, target):
        """Damage a copy; return whether anything is different."""
        file, data = target / damage.file, (self.path / damage.file).read_bytes()
        if damage.way == "removed":
            file.unlink()
            return True
        source = {"other": self.other, "earlier": self.earlier}.get(damage.way)
        if source is not None:
            content = (source / damage.file).read_bytes() if (source / damage.file).is_file() else None
        elif damage.way in ("emptied", "half"):
            content = data[: len(data) // 2] if damage.way == "half" else b""
        else:
            content = (flip_somewhere if damage.way == "flip" else change_digit)(data, damage) if data else None
        if content is None or content == data:
            return False
        file.write_bytes(content)
        return True


# ---- what comes of it


class Outcome(NamedTuple):
    """What reading a damaged store, or going on with it, comes to."""

    verdict: str  # "harmless", "reported" or what is wrong
    text: str


def same(found, expected):
    """Return whether two sets of columns are equal, to the last bit."""
    return list(found) == list(expected) and all(
        np.array_equal(found[name], values, equal_nan=values.dtype.kind == "f") for name, values in expected.items()
    )


def attempt(call, expected, names):
    """Call, and compare: equal, refused by name, or wrong."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            found = call()
        except (StoreError, FileNotFoundError, FileExistsError, sb.StudyIncomplete) as error:
            text = str(error)
            return Outcome("reported" if any(name in text for name in names) else "does not name the file", text)
        except Exception as error:
            return Outcome(f"raised {type(error).__name__}", str(error))
    said = " ".join(str(w.message) for w in caught if str(w.message).startswith("store "))
    if same(found, expected):
        return Outcome("harmless", said)
    return Outcome("reported" if any(name in said for name in names) else "silent", said)


def names_of(damage):
    """Return what a message about a file may call it."""
    file = damage.file
    run = re.search(r"(^|/)((committed|inputs)/.*|[a-z_]+/(c[.\d]*|zarr\.json)|zarr\.json)$", file)
    names = {file, *([run[2]] if run else [])}
    names |= {name.removesuffix(end) for name in names for end in ("-wal",) if name.endswith(end)}
    if match := re.search(r"(inputs/\w+)/", file):
        names.add(match[1])
    if file.endswith("committed/acknowledged"):
        names.add("committed/acknowledged")
    return names


def try_out(store, damage, work):
    """Damage a copy, read it, look at it, go on with it; return what came of each."""
    shutil.rmtree(work, ignore_errors=True)
    target = shutil.copytree(store.path, work / "run")
    if not store.apply(damage, target):
        return {}
    names, before = names_of(damage), files(target)
    reading = attempt(lambda: store.columns(target), store.read, names)
    with warnings.catch_warnings(action="ignore"):
        try:
            for run in store.runs(target):
                status(store.kind.place(run))
            whole = all(found.whole for found in sb.check(target if store.kind is Study else store.kind.place(target)))
        except (StoreError, FileNotFoundError, FileExistsError):
            whole = False
    copy = shutil.copytree(target, work / "copy")
    going = attempt(lambda: store.kind.go_on(copy), store.expected, names)
    results = {"read": reading, "go on": going}
    if files(target) != before:
        results["look"] = Outcome("looking changed something", "")
    if whole and (reading.verdict, going.verdict) != ("harmless", "harmless"):
        results["check"] = Outcome("check says that it is whole", "")
    if going.verdict != "harmless":
        results["recover"] = recovered(store, damage, target)
    return results


def recovered(store, damage, target):
    """Recover, and compare with what is readable: nothing of it is lost, all files are kept, simulations go on."""
    before, readable = files(target), readable_rounds(store, damage, target)
    try:
        with warnings.catch_warnings(action="ignore"):
            for run in store.runs(target):
                ObservationStore.open(store.kind.place(run), "a", recover=True).close()
                aside = run.with_name(f"{run.name}.damaged")
                own = {f for f in before if (target / f).is_relative_to(run)}
                kept = {str((run / f).relative_to(target)) for f in files(aside)} if aside.exists() else own
                if own - kept:
                    return Outcome(f"did not keep {own - kept}", "")
                shutil.rmtree(aside, ignore_errors=True)
            if store.kind in (Simulate, Study):
                found = store.kind.go_on(target)
                return Outcome("harmless" if same(found, store.expected) else "recovered to other numbers", "")
            rows = ObservationStore.open(target).read(names=["y"])["y"]
    except (StoreError, FileNotFoundError, FileExistsError) as error:
        beyond = re.search("so that its rounds cannot be read|no run in", str(error))
        return Outcome("reported" if beyond else "cannot be recovered", str(error))
    except (ValueError, sb.StudyIncomplete) as error:  # no copy can be kept, or another run was put here
        right = store.kind is Objects or (damage.way == "other" and damage.file.endswith(DATABASE))
        return Outcome("reported" if right else "raised ValueError", str(error))
    wanted = collections.Counter(store.read[". y"][sorted(readable)].tolist())
    lost = wanted - collections.Counter(rows.tolist())
    return Outcome("lost readable rounds" if lost else "reported", f"{len(rows)} of {ROUNDS}: {dict(lost)}")


def readable_rounds(store, damage, target):
    """Return the rounds (from 0) that are whole, by the rows and files that are what they were."""
    if store.kind in (Simulate, Objects, Study):
        return set()
    expected, found = store.rows, database_rows(shutil.copytree(target, target.with_name("read")))
    whole = {key: row for key, row in expected.items() if found.get(key) == row}
    if ("run", 0) not in whole:
        return set()  # but for what was copied when it was closed
    rounds = {row[6] - 1 for (table, _), row in whole.items() if table == "evaluations" and row[2] == "done"}
    counted = expected["state", 0][2]
    for number in (name for table, name in whole if table == "chunks"):
        damaged = re.fullmatch(rf"(?!round)\w+/c\.{number}(\.0)?", damage.file)
        if not damaged and (("state", 0) in whole or (number + 1) * CHUNK < counted):
            rounds |= set(range(number * CHUNK, min((number + 1) * CHUNK, counted)))
    return rounds


def database_rows(folder):
    """Return the rows of a run's database that can be read, one at a time, by table and first column."""
    rows, path = {}, folder / DATABASE
    if not path.exists():
        return rows
    numbers = {"run": range(1), "state": range(1), "chunks": range(9), "evaluations": range(2 * ROUNDS)}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table, number in ((each, number) for each in numbers for number in numbers[each]):
            with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                found = connection.execute(f"SELECT * FROM {table} WHERE number = ?", [number]).fetchone()
                rows |= {} if found is None else {(table, number): found}
    return rows
