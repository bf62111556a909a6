"""What the processes of test_kill.py do: runs of every kind on a store, each of which may be killed at any moment."""

import functools
import gc
import importlib
import itertools
import math
import os
import signal
import sqlite3
import struct
import threading
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zarr.storage

import scalable_bandits as sb
from scalable_bandits.policies.pending import PendingPoints
from scalable_bandits.posteriors.exact import dense
from scalable_bandits.posteriors.tiled import tiles
from scalable_bandits.runs import checkpointing, recording, stored_simulation
from scalable_bandits.store import Field, ObservationStore, ledger, observations
from scalable_bandits.store.reader import columns_of

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
    within: str = "folder"  # or "objects" (on a disk)
    keep: str | int | None = None  # rounds of a simulation that are stored


def kept_in(work, path):
    """Return what is given as a store."""
    if path is not None and work.within == "objects":
        return zarr.storage.ObjectStore(importlib.import_module("obstore.store").LocalStore(path, mkdir=True))
    return path


# ---- what is played

SPACE = sb.Grid([[0, 1], [0, 2]], (14, 12))
BOX = sb.Box([[0, 1], [-1, 0.5]])


def truth(x):
    """Return f at one point."""
    return float(np.sin(5 * x[0]) + np.cos(3 * x[-1]))


def unreliable(x):
    """Return f at one point, where it does not fail."""
    if int(1000.0 * x[0]) % 3 == 0:
        raise ArithmeticError(f"no value at {x}")
    return truth(x)


def observed(x, t):
    """Return an observation in round t: the same whenever it is made."""
    return truth(x) + 0.2 * math.sin(1000.0 * t)


def make_policy(work):
    """Return a fresh policy."""
    extra = {} if work.policy in ("GPTS", "RandomSearch") else {"engine": work.engine}
    box = {"candidates": 100} if work.kind == "maximize" else {}
    kernel = sb.Matern(0.4, nu=2.5) if box else sb.RBF([0.2, 0.5])
    return getattr(sb, work.policy)(
        BOX if box else SPACE, kernel, noise=0.2, regularization=0.05, seed=3, **extra, **box
    )


def make_environment():
    """Return the environment of a simulation."""
    return sb.TableEnvironment(SPACE, [truth(x) for x in SPACE.points()], sb.GaussianNoise(0.2), seed=7)


RAW_FIELDS = (Field("number", "int64"), Field("v", shape=(3,), dimensions=("part",)))
TOLD_FIELDS = (Field("call", "int64"), *recording.point_fields(BOX), Field("y"), Field("noise"))


def raw_rows(count):
    """Return rows of a store without a policy."""
    rng = np.random.default_rng(5)
    return {"number": rng.integers(2**62, size=count), "v": rng.standard_normal((count, 3))}


# ---- how it is played


def play(work, path=None):
    """Play on a store until the run has all rounds, or, without one, from beginning to end; return what came of it."""
    kinds = {"raw": _raw, "simulate": _simulate, "maximize": _maximize, "open": _open}
    return kinds.get(work.kind, _ask_and_tell)(work, kept_in(work, path))


def _raw(work, place):
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
    with store:
        for calls in itertools.count(1):
            start = len(store)
            if start >= work.rounds:
                return {}
            stop = min(start + sizes[start], work.rounds)
            store.append({name: array[start:stop] for name, array in rows.items()})
            if work.durability == "block" and calls % work.every == 0:
                store.flush()


def _simulate(work, place):
    policy = make_policy(work)
    stored = {} if place is None else {"store": place, "durability": work.durability}
    run = sb.simulate(policy, make_environment(), work.rounds, keep=work.keep, **stored)
    names = ("candidate", "y", "value", "regret", "cumulative_regret", "width", "information_gain")
    kept = {} if run.complete else {"t": run.round}
    return {**kept, **{name: getattr(run, name) for name in names}, "x": policy.domain.points(run.candidate)}


def ended_tickets(tickets):
    """Return what is the same of evaluations that have ended, however often their process was killed, as text."""
    names = ("number", "candidate", "state", "x", "y", "noise", "round", "call", "ended", "failures", "error")
    return np.array([repr([getattr(t, name) for name in names]) for t in tickets if t.ended is not None])


def _maximize(work, place):
    stored = {} if place is None else {"store": place, "durability": work.durability}
    found = sb.maximize(unreliable, make_policy(work), work.rounds, **stored)
    tickets = sorted(found.tickets, key=lambda ticket: ticket.number)
    done = sorted((t for t in tickets if t.state == "done"), key=lambda ticket: ticket.round)
    best = {"best_x": found.best.x, "best_mean": found.best.mean, "best_std": found.best.std}
    return {**best, "tickets": ended_tickets(tickets), **columns_of(done, TOLD_FIELDS)}


def _ask_and_tell(work, place):
    policy, kept = make_policy(work), Kept()
    if place is None:
        policy._record_to(kept)
        _loop(work, policy, None)
    else:
        with sb.record(policy, place, durability=work.durability) as held:
            _loop(work, policy, held)
    best = policy.best()
    known = {
        "best_x": best.x, "best_mean": best.mean, "best_std": best.std, "gain": policy.information_gain,
        "failures": policy.failures, "excluded": policy.pending_points.excluded,
    }  # fmt: skip
    return {**known, **(kept.columns() if place is None else {})}


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
        self.rows, self.calls, self.pending = [], 0, []
        self.waits = [[0, -1, -1, -1]]  # rounds told and points pending, after every call

    def asked(self, pending):
        self.pending = list(pending)
        self._note()

    def _note(self):
        self.waits.append([len(self.rows), *self.pending, *[-1] * (3 - len(self.pending))])

    def tells(self, candidates, points, values, noise, beside):
        self.calls += 1
        for candidate in candidates.tolist():
            self.pending.remove(candidate)
        noise = np.full(len(values), np.nan) if noise is None else noise
        self.rows += zip([self.calls] * len(values), candidates, points, values, noise, strict=True)
        self._note()

    def told(self):
        pass

    def failed(self, candidate, point, error):
        self.asked(PendingPoints(self.pending).settled(candidate).numbers)

    def columns(self):
        """Return the columns that a recording's store has."""
        names = ("call", "candidate", "x", "y", "noise")
        columns = {name: np.array(values) for name, values in zip(names, zip(*self.rows, strict=True), strict=True)}
        return {**columns, "waits": np.array(self.waits)}


# ---- small sizes, acknowledgements, sabotage


def shrink(work, patch):
    """Set the sizes in this process: chunks, blocks, tiles, and how often checkpoints are kept."""
    for module, name in itertools.product((tiles, dense), ("TILE", "WINDOW", "COLUMN_MULTIPLE")):
        if hasattr(module, name):
            patch.setattr(module, name, 64 if name == "TILE" else 16)
    patch.setattr(ObservationStore, "create", functools.partial(ObservationStore.create, chunk=work.chunk))
    patch.setattr(stored_simulation, "BLOCK_ROUNDS", work.every)
    if work.kind == "simulate":
        patch.setattr(observations, "BLOCK_SECONDS", 0.01)
    if work.held is not None:
        patch.setattr(observations, "BLOCK_BYTES", work.held)

    def add_work(self, seconds):
        self._since += seconds
        if work.checkpoint and self.learner.rounds - getattr(self, "kept", 0) >= work.checkpoint:
            self.kept = self.learner.rounds
            self.save()

    patch.setattr(checkpointing.Checkpoints, "LEAST_SECONDS", 0.0 if work.checkpoint else math.inf)
    patch.setattr(checkpointing.Checkpoints, "add_work", add_work)


class Acknowledged(NamedTuple):
    """What a run was told is safe, up to now."""

    made: int = 0  # whether the store was there
    rounds: int = 0  # that are
    asked: int = 0  # rounds, failures and pending points that are

    LAYOUT = struct.Struct("<3Q")

    @classmethod
    def read(cls, path):
        """Return what the process last said, whether it lives or not."""
        data = path.read_bytes() if path.exists() else b""
        return cls(*cls.LAYOUT.unpack(data)) if data else cls()

    def and_also(self, **values):
        """Return both."""
        return Acknowledged(*map(max, self, self._replace(**values)))


def listen(patch, say):
    """From now on, say what every call of the store that returns has promised."""

    def after(name, promise):
        original = getattr(ObservationStore, name)

        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            store = result if isinstance(result, ObservationStore) else args[0]
            if store.writable:
                say(made=1, rounds=store.durable, **promise(store))
            return result

        patch.setattr(ObservationStore, name, staticmethod(call) if name in ("create", "open") else call)

    def all_durable(store):
        assert store.durable == len(store)
        return {}

    def appended(store):
        if store.durability == "block":
            return {}
        return {**all_durable(store), "asked": len(store) + len(store.pending) + len(store.failures)}

    for name in ("create", "open", "flush"):
        after(name, all_durable)
    after("append", appended)


CALLS = ("fsync", "replace", "mkdir", "unlink", "rmdir", "pwrite", "ftruncate")  # of `os`, which change a disk


class Fault(NamedTuple):
    """Where a process dies: at one of its calls that change the disk, statements of the database included."""

    call: int = 0  # counted from 1; never at 0
    after: bool = False  # just after it, not just before


def _die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def sabotage(patch, fault, counted, act=_die):
    """Count the calls that change the disk, and act at the one named: by default, die. Others act in one thread."""
    guard = threading.Lock()

    def counting(original):
        def call(*args, **kwargs):
            if act is not _die and threading.current_thread() is not threading.main_thread():
                return original(*args, **kwargs)
            with guard:
                counted[0] += 1
                here = counted[0] == fault.call
            if here and fault.after:
                with suppress(OSError):  # a folder that is there, a file that is not
                    original(*args, **kwargs)
            if here:
                act()
            return original(*args, **kwargs)

        return call

    class Connection(sqlite3.Connection):
        execute, executemany = counting(sqlite3.Connection.execute), counting(sqlite3.Connection.executemany)

    for name in CALLS:
        patch.setattr(os, name, counting(getattr(os, name)))
    patch.setattr(ledger.sqlite3, "connect", functools.partial(sqlite3.connect, factory=Connection))


def run(work, path, folder, fault=None):
    """Play a run in a process of its own; what it says lies in `folder`."""
    folder, foreign, counted = Path(folder), [], [0]
    try:
        with pytest.MonkeyPatch.context() as patch:
            shrink(work, patch)

            def show(message, category, *_, **__):
                if not str(message).startswith("store ") and not issubclass(category, sb.UnprovenWidth):
                    foreign.append(str(message))

            warnings.simplefilter("always")
            warnings.showwarning = show
            if path is not None:
                descriptor = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT, 0o666)
                last = [Acknowledged.read(folder / "acknowledged")]

                def say(**values):
                    last[0] = last[0].and_also(**values)
                    PWRITE(descriptor, Acknowledged.LAYOUT.pack(*last[0]), 0)

                listen(patch, say)
            sabotage(patch, fault or Fault(), counted)
            result = play(work, path)
        assert not foreign, foreign
        np.savez(folder / "writing.npz", **result, calls=counted[0])
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
    for module in ("filelock", "psutil", "sqlite3"):
        importlib.import_module(module)  # which a store loads when it is written
    gc.collect()
    gc.freeze()  # a collection in a process that was forked off would touch, and so copy, all of it
    assert threading.active_count() == 1


if os.environ.get("KILL_WORK_WARM"):
    _warm()
