"""What the processes of test_kill.py do: runs of every kind on a store, each of which may be killed at any moment."""

import gc
import importlib
import itertools
import math
import os
import shutil
import signal
import struct
import threading
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr.storage

import scalable_bandits as sb
from scalable_bandits.posteriors.exact import dense
from scalable_bandits.posteriors.tiled import tiles
from scalable_bandits.runs import checkpointing, recording, stored_simulation
from scalable_bandits.store import Field, ObservationStore, journal, observations, writer

PWRITE = os.pwrite  # stays whole when other calls are sabotaged


class Work(NamedTuple):
    """A run to be made, and the sizes that make much happen in it."""

    kind: str  # "raw", "simulate", "maximize", "record", "pairs" (2 pending), "batches" (of 3), "failing", "open"
    durability: str
    rounds: int
    policy: str = "IGPUCB"
    engine: str = "dense"
    chunk: int = 8
    every: int = 5  # rounds to a block of a simulation; appends, or calls of tell, to a flush
    largest: int = 5  # rows of an append
    held: int | None = None  # bytes of rows held back, where it is not the package's own number
    checkpoint: int = 0  # rounds from one checkpoint to the next; none if zero
    available: bool = False
    within: str = "folder"  # or "objects" (on a disk) or "icechunk"
    keep: str | int | None = None  # rounds of a simulation that are stored


def kept_in(work, path):
    """What is given as a store."""
    if work.within == "objects":
        return zarr.storage.ObjectStore(importlib.import_module("obstore.store").LocalStore(path, mkdir=True))
    if work.within == "icechunk":
        icechunk = importlib.import_module("icechunk")
        storage = icechunk.local_filesystem_storage(str(path))
        try:
            return icechunk.Repository.open_or_create(storage)
        except icechunk.IcechunkError as error:
            if "clean prefixes" not in str(error):
                raise
            shutil.rmtree(path)  # the process was killed before the repository was made: nothing is in it
            return icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
    return path


# ---- what is played


SPACE = sb.Grid([[0, 1], [0, 2]], (14, 12))
BOX = sb.Box([[0, 1], [-1, 0.5]])


def truth(x):
    """f at one point."""
    return float(np.sin(5 * x[0]) + np.cos(3 * x[-1]))


def observed(x, t):
    """An observation in round t: the same whenever it is made."""
    return truth(x) + 0.2 * math.sin(1000.0 * t)


def every_third(t):
    """Availability set of round t."""
    return np.arange(t % 3, SPACE.size, 3)


def make_policy(work):
    """Fresh policy."""
    extra = {} if work.policy in ("GPTS", "RandomSearch") else {"engine": work.engine}
    box = {"candidates": 100} if work.kind in ("maximize", "unreliable") else {}
    kernel = sb.Matern(0.4, nu=2.5) if box else sb.RBF([0.2, 0.5])
    space = BOX if box else SPACE
    return getattr(sb, work.policy)(space, kernel, noise=0.2, regularization=0.05, seed=3, **extra, **box)


def make_environment():
    """Environment of a simulation."""
    return sb.TableEnvironment(SPACE, [truth(x) for x in SPACE.points()], sb.GaussianNoise(0.2), seed=7)


RAW_FIELDS = (Field("number", "int64"), Field("v", shape=(3,), dimensions=("part",)))


def raw_rows(count):
    """Rows of a store without a policy."""
    rng = np.random.default_rng(5)
    return {"number": rng.integers(2**62, size=count), "v": rng.standard_normal((count, 3))}


# ---- how it is played


def play(work, place=None):
    """Play on a store until the run has all rounds, or, without one, from beginning to end; tells what came of it."""
    place = None if place is None else kept_in(work, place)
    kinds = {"raw": play_raw, "simulate": _simulate, "maximize": _maximize, "unreliable": _maximize, "open": _open}
    return kinds.get(work.kind, _ask_and_tell)(work, place)


def play_raw(work, place, said=lambda store: None):
    rows = raw_rows(work.rounds)
    if place is None:
        return rows
    try:
        store = ObservationStore.open(place, "a", durability=work.durability)
    except FileNotFoundError:
        store = ObservationStore.create(
            place, RAW_FIELDS, specification={"of": "rows"}, durability=work.durability, chunk=work.chunk
        )
    sizes = np.random.default_rng(11).integers(1, work.largest + 1, work.rounds)
    said(store)
    with store:
        for calls in itertools.count(1):
            start = len(store)
            if start >= work.rounds:
                return {}
            stop = min(start + sizes[start], work.rounds)
            store.append({name: array[start:stop] for name, array in rows.items()})
            said(store)
            if work.durability == "block" and calls % work.every == 0:
                store.flush()
                said(store)


def _simulate(work, place):
    policy = make_policy(work)
    available = every_third if work.available else None
    stored = {} if place is None else {"store": place, "durability": work.durability}
    run = sb.simulate(policy, make_environment(), work.rounds, available=available, keep=work.keep, **stored)
    names = ("candidate", "y", "value", "regret", "cumulative_regret", "width", "information_gain")
    kept = {} if run.complete else {"t": run.round}
    return {**kept, **{name: getattr(run, name) for name in names}, "x": policy.finite_space.points(run.candidate)}


def unreliable(x):
    """f at one point, where it does not fail."""
    if int(1000.0 * x[0]) % 3 == 0:
        raise ArithmeticError(f"no value at {x}")
    return truth(x)


def _maximize(work, place):
    policy, function = make_policy(work), unreliable if work.kind == "unreliable" else truth
    kept = Kept()
    if place is None:
        policy.record_to(kept)
        found = sb.maximize(function, policy, work.rounds)
    else:
        found = sb.maximize(function, policy, work.rounds, store=place, durability=work.durability)
    best = {"best_x": found.best.x, "best_mean": found.best.mean, "best_std": found.best.std}
    ended = {"failures": policy.failures, "failed": len(found.failed), "tickets": len(found.tickets)}
    return {**best, **ended, "x": found.x, "y": found.y, **kept.columns()}


def _ask_and_tell(work, place):
    policy = make_policy(work)
    if place is None:
        kept = Kept()
        policy.record_to(kept)
        _loop(work, policy, None)
    else:
        kept = None
        with sb.record(policy, place, durability=work.durability) as held:
            _loop(work, policy, held)
    best = policy.best()
    known = {
        "best_x": best.x, "best_mean": best.mean, "best_std": best.std, "gain": policy.information_gain,
        "failures": policy.failures, "excluded": policy.pending_points.excluded,
    }  # fmt: skip
    return {**known, **(kept.columns() if kept else {})}


def _open(work, place):
    sb.record(make_policy(work), place, durability=work.durability)
    os.kill(os.getpid(), signal.SIGKILL)


def _loop(work, policy, held):
    while policy.rounds < work.rounds:
        t = policy.rounds + 1
        if work.kind == "batches":
            x = policy.ask(3)
            policy.tell(x, [observed(point, t + i) for i, point in enumerate(x)])
        else:
            policy.ask()
            while work.kind == "pairs" and len(policy.pending) < 2:
                policy.ask()
            x = policy.pending[-1 if t % 3 == 0 else 0]
            if work.kind == "failing" and (t + policy.failures) % 4 == 2:
                policy.tell_failure(x, f"broken after {policy.rounds} rounds")
                continue
            own = {"noise": 0.1 + 0.01 * (t % 5)} if t % 2 else {}
            policy.tell(x, observed(x, t), **own)
        if held is not None and work.durability == "block" and policy.rounds % work.every == 0:
            held.flush()


class Kept:
    """A recorder in memory."""

    def __init__(self):
        self.rows = []
        self.calls = 0
        self.pending = []
        self.waits = [[0, -1, -1, -1]]  # rounds told and points pending, after every call

    def asked(self, pending):
        self.pending = list(pending)
        self._note()

    def _note(self):
        self.waits.append([len(self.rows), *self.pending, *[-1] * (3 - len(self.pending))])

    def tells(self, candidates, points, values, noise):
        self.calls += 1
        for candidate in candidates.tolist():
            self.pending.remove(candidate)
        noise = np.full(len(values), np.nan) if noise is None else noise
        self.rows += zip([self.calls] * len(values), candidates, points, values, noise, strict=True)
        self._note()

    def told(self):
        pass

    def failed(self, candidate, point, error, pending):
        self.asked(pending)

    def columns(self):
        """As a recording's store has them."""
        if not self.rows:
            return {}
        names = ("call", "candidate", "x", "y", "noise")
        columns = {name: np.array(values) for name, values in zip(names, zip(*self.rows, strict=True), strict=True)}
        return {**columns, "waits": np.array(self.waits)}


# ---- small sizes, acknowledgements, sabotage


def shrink(work):
    """Patch the sizes in this process: chunks, blocks, tiles, and how often checkpoints are kept."""
    tiles.TILE, tiles.WINDOW, tiles.BATCH, dense.WINDOW = 64, 16, 16, 16
    recording.open_run.__defaults__ = (work.chunk,)
    stored_simulation.BLOCK_ROUNDS = work.every
    if work.kind == "simulate":
        writer.BLOCK_SECONDS = 0.01
    if work.held is not None:
        writer.BLOCK_BYTES = work.held

    def add_work(self, seconds):
        self._since += seconds
        if work.checkpoint and self.policy.rounds - getattr(self, "kept", 0) >= work.checkpoint:
            self.kept = self.policy.rounds
            self.save()

    checkpointing.Checkpoints.LEAST_SECONDS = 0.0 if work.checkpoint else math.inf
    checkpointing.Checkpoints.add_work = add_work


class Acknowledged(NamedTuple):
    """What a run was told is safe, up to now."""

    made: int  # whether the store was there
    rounds: int  # that are
    asked: int  # rounds and pending points that are

    LAYOUT = struct.Struct("<3Q")

    @classmethod
    def read(cls, path):
        """As the process last said, whether it lives or not."""
        data = path.read_bytes() if path.exists() else b""
        return cls(*cls.LAYOUT.unpack(data)) if data else cls(0, 0, 0)


def acknowledge(path):
    """From now on, write to a file what every call of the store that returns has promised."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    last = [Acknowledged.read(path)]

    def say(**values):
        new = Acknowledged(*map(max, last[0], last[0]._replace(**values)))
        if new != last[0]:
            last[0] = new
            PWRITE(descriptor, Acknowledged.LAYOUT.pack(*new), 0)

    def after(owner, name, promise):
        original = getattr(owner, name)

        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            say(made=1, **promise(*args, result=result))
            return result

        setattr(owner, name, call)

    def appended(store, *_, result):
        if store.durability == "round":
            assert store.durable == len(store)
        return {"rounds": store.durable}

    def flushed(store, *_, result):
        assert store.durable == len(store)
        return {"rounds": len(store)}

    def noted(store, *_, result):
        return {"asked": len(store) + len(store.pending) + len(store.failures)} if store.durability == "round" else {}

    after(writer.RunWriter, "append", appended)
    after(writer.RunWriter, "flush", flushed)
    after(writer.RunWriter, "note_pending", noted)
    after(writer.RunWriter, "note_failure", noted)
    create, again = ObservationStore.create, ObservationStore.open

    def made(original):
        def call(*args, **kwargs):
            store = original(*args, **kwargs)
            say(made=1, rounds=len(store))
            return store

        return staticmethod(call)

    observations.ObservationStore.create, observations.ObservationStore.open = made(create), made(again)


CALLS = ("write", "fsync", "replace", "ftruncate", "mkdir", "unlink", "rmdir", "link", "open")  # of `os`, to a disk


class Fault(NamedTuple):
    """Where a process dies: at one of its calls that change the disk."""

    call: int = 0  # counted from 1; never at 0
    after: bool = False  # just after it, not just before
    torn: float = 1.0  # part of its bytes that an `os.write` writes first; only these calls count where it is not 1


@contextmanager
def sabotage(fault, counted):
    """Count the calls that change the disk, and die at the one named."""
    guard = threading.Lock()
    originals = {name: getattr(journal.os, name) for name in CALLS}

    def die():
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def counting(name, original):
        def call(*args, **kwargs):
            if name == "open" and not args[1] & os.O_CREAT:
                return original(*args, **kwargs)
            with guard:
                counted[0] += 1
                if counted[0] != fault.call:
                    return original(*args, **kwargs)
                if fault.torn < 1.0:
                    size = len(memoryview(args[1]).cast("B"))
                    original(args[0], memoryview(args[1])[: min(max(int(fault.torn * size), 1), size - 1)])
                elif fault.after:
                    with suppress(OSError):  # a folder that is there, a file that is not
                        original(*args, **kwargs)
                die()

        return call

    for name, original in originals.items():
        if fault.torn == 1.0 or name == "write":
            setattr(journal.os, name, counting(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(journal.os, name, original)


def run(work, place, folder, fault=None):
    """Play a run in a process of its own; what it says lies in `folder`."""
    folder = Path(folder)
    try:
        shrink(work)
        foreign = []

        def show(message, category, *_, **__):
            if not str(message).startswith("store ") and not issubclass(category, sb.UnprovenWidth):
                foreign.append(str(message))

        warnings.simplefilter("always")
        warnings.showwarning = show
        counted = [0]
        if place is not None:
            acknowledge(folder / "acknowledged")
        with sabotage(fault or Fault(), counted):
            result = play(work, place)
        result["calls"] = counted[0]
        assert not foreign, foreign
        np.savez(folder / "writing.npz", **result)
        os.replace(folder / "writing.npz", folder / "result.npz")
    except BaseException:
        (folder / "failure").write_text(traceback.format_exc())
        raise


def _warm():
    """Load what a run needs, once for all processes that are forked off."""
    for engine in ("dense", "tiled"):
        for kind, policy in (("simulate", "IGPUCB"), ("maximize", "GPEI"), ("pairs", "GPUCB")):
            play(Work(kind, "round", 20, policy, engine))
    play(Work("batches", "round", 6, "GPTS"))
    importlib.import_module("filelock")  # which a store loads when it is written
    gc.collect()
    gc.freeze()  # a collection in a process that was forked off would touch, and so copy, all of it
    assert threading.active_count() == 1


if os.environ.get("KILL_WORK_WARM"):
    _warm()
