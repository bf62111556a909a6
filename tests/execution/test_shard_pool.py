"""The log and the pool of shards, with fake workers in this process that lose their shards on demand."""

import contextlib
import copy
import functools
import itertools
import pickle
import sys
import threading
import types

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalable_bandits.execution import ClusterError, shard_log
from scalable_bandits.execution.shard_log import ShardLog
from scalable_bandits.execution.shard_pool import ShardPool
from scalable_bandits.execution.shard_worker import Call, ShardWorker, packed
from scalable_bandits.posteriors.placement import InProcess, LocalShards

SHARDS = 4


class Tally:
    """Shard whose state is the list of its changes, in order."""

    def __init__(self, name, stateful):
        self.name, self.stateful = name, stateful
        self.changing = {"add", "take", "peek"} if stateful else {"add", "take"}
        self.seen = np.array([name])

    def add(self, value):
        self.seen = np.append(self.seen, value)
        return self.seen.copy()

    take = add

    def peek(self, value):
        if self.stateful:
            self.seen = np.append(self.seen, -value)
        return self.seen.sum() * value

    def fail(self, value):
        raise LookupError(f"shard {self.name}")

    def state(self):
        return {"seen": self.seen}

    def restore(self, state):
        self.seen = state["seen"].copy()


class Answer:
    """Answer of an actor, with the interface of a future."""

    def __init__(self, value):
        self.value = value

    def result(self, timeout=None):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class Handle:
    """Handle of an actor whose worker may be unreachable."""

    def __init__(self, fake, address):
        self.fake, self.address, self.actor, self._future = fake, address, ShardWorker(), None

    def perform(self, message):
        fate = self.fake.fate()
        if fate == "before":
            return Answer(OSError(self.address))
        found = self.actor.perform(message)
        if fate == "after":
            return Answer(OSError(self.address))
        if fate == "interrupt":
            return Answer(KeyboardInterrupt())
        if fate == "forget":
            self.actor._held.clear()
        return Answer(found)


class FakeClient:
    """Client of two workers."""

    status, scheduler = "running", None

    def __init__(self, fates=()):
        self.fates, self.numbers = list(fates), itertools.count()
        self.addresses = ["a", "b"]

    def fate(self):
        return self.fates.pop(0) if self.fates else ""

    def nthreads(self):
        return dict.fromkeys(self.addresses, 1)

    def submit(self, function, *arguments, workers=("",), **options):
        """Return the future of an actor, or of the empty task that shows activity."""
        handle = Handle(self, workers[0]) if function is ShardWorker else None
        return types.SimpleNamespace(result=lambda timeout=None: handle, release=lambda: None)

    def get_versions(self, packages):
        return {"workers": {}, "client": {"packages": {}}}

    def as_current(self):
        return contextlib.nullcontext()


class FakeExecutor:
    """Executor with a client."""

    def __init__(self, client):
        self.client, self.pools = client, set()


def makers(stateful=False):
    return [functools.partial(Tally, float(number), stateful) for number in range(SHARDS)]


numbers = st.lists(st.integers(0, SHARDS - 1), min_size=1, unique=True)
steps = st.one_of(
    st.tuples(st.just("tell"), st.one_of(st.none(), numbers), st.just("add"), st.integers(1, 9)),
    st.tuples(st.just("ask"), numbers, st.sampled_from(["add", "peek", "fail"]), st.integers(1, 9)),
    st.tuples(st.just("prefetch"), numbers, st.just("peek"), st.integers(1, 9)),
    st.tuples(st.just("restore"), numbers, st.just(""), st.integers(1, 9)),
    st.tuples(st.just("copy"), st.none(), st.just(""), st.just(0)),
)
fates = st.lists(st.sampled_from(["", "", "before", "after", "interrupt", "forget"]), max_size=30)


@settings(deadline=None, max_examples=60)
@given(st.lists(steps, max_size=40), fates, st.booleans(), st.integers(1, 6))
def test_the_answers_are_those_of_one_process(entries_of_logs, planned, fates, stateful, most):
    """Whoever loses what, whenever; and the log stays short."""
    with pytest.MonkeyPatch.context() as patch:
        entries_of_logs(most)
        patch.setattr("scalable_bandits.execution.shard_pool.DEPARTURE_SECONDS", 0.0)
        client = FakeClient(fates)
        pool, here = ShardPool(FakeExecutor(client), makers(stateful), "tallies"), LocalShards(makers(stateful))
        for what, which, method, value in planned:
            if what == "copy":
                pool = copy.deepcopy(pool)
                pool._executor = FakeExecutor(client)
            elif what == "restore":
                states = {number: {"seen": np.array([100.0 * value + number])} for number in which}
                pool.restore(states)
                here.restore(states)
            elif what == "ask":
                answers = until_it_works(pool, which, method, value)
                if isinstance(answers, LookupError):
                    with pytest.raises(LookupError) as caught:
                        here.ask(which, method, value)
                    assert str(caught.value) == str(answers)
                else:
                    assert repr(answers) == repr(here.ask(which, method, value))
            else:
                getattr(pool, what)(which, method, value)
                getattr(here, what)(which, method, value)
        assert repr(until_it_works(pool, range(SHARDS), "state")) == repr(here.ask(range(SHARDS), "state"))
        for _ in range(SHARDS):
            until_it_works(pool, range(SHARDS), "state")
        assert len(pool._log) < most


def until_it_works(pool, *question):
    """Ask again after an interruption, as a user would."""
    while True:
        try:
            return pool.ask(*question)
        except KeyboardInterrupt:
            continue
        except LookupError as error:
            return error


def test_log_with_a_source():
    """The log keeps only its last entries; the state from the source includes all earlier ones."""
    seen = [0.0]
    log = ShardLog([b""] * 2, lambda number: {"seen": np.array(seen)})
    for value in range(3 * shard_log.MOST_ENTRIES):
        seen.append(float(value))
        log.append(Call("add", (value,)), None)
    assert len(log) == shard_log.MOST_ENTRIES
    assert log.due() is None
    rebuild = log.rebuild(1)
    assert rebuild.position == log.end
    np.testing.assert_array_equal(pickle.loads(rebuild.state)["seen"], seen)


def test_snapshots_pay():
    """A snapshot is due when making the shard again would take long enough; if the log is full, the oldest first."""
    log = ShardLog([b""] * 3)
    assert log.due() is None
    log.append(Call("add", (1,)), None)
    log.worked(1, 0.9 * shard_log.REPLAY * shard_log.SNAPSHOT_SECONDS)
    assert log.due() is None
    log.worked(1, 0.2 * shard_log.REPLAY * shard_log.SNAPSHOT_SECONDS)
    assert log.due() == 1
    log.keep(1, {"seen": np.zeros(2)}, seconds=7.0)
    log.append(Call("add", (1,)), None)
    log.worked(1, 0.9 * shard_log.REPLAY * 7.0)
    assert log.due() is None
    log.worked(1, 0.2 * shard_log.REPLAY * 7.0)
    assert log.due() == 1
    for _ in range(shard_log.MOST_ENTRIES):
        log.append(Call("add", (np.zeros(3),)), [0, 1])
    assert log.due() == 0
    assert log.nbytes == 24 * shard_log.MOST_ENTRIES
    log.keep(0, {"seen": np.zeros(2)})
    assert log.due() == 2  # its first missing entry is the oldest
    log.keep(2, {"seen": np.zeros(2)})
    assert log.due() == 1
    log.keep(1, {"seen": np.zeros(2)})
    assert (len(log), log.nbytes, log.due()) == (0, 0, None)


def test_large_arrays_are_cut_off_too():
    """However few the entries are."""
    log, zeros = ShardLog([b""]), np.zeros(shard_log.MOST_BYTES // 20)
    for _ in range(3):
        log.append(Call("add", ({"some": (zeros,)},)), None)
    assert log.nbytes == 3 * zeros.nbytes
    assert log.due() == 0


def test_what_cannot_be_sent_is_named():
    makers = [functools.partial(Tally, 0, False), functools.partial(Tally, threading.Lock(), False)]
    match = r"^on: tiles of 9 candidates \(number 2 of 2\) cannot be sent to other processes: .*lock"
    with pytest.raises(ClusterError, match=match):
        ShardPool(None, makers, "tiles of 9 candidates")


def test_modules_that_are_nowhere_else(monkeypatch):
    """Modules that the user registered with cloudpickle are sent by value."""
    module = types.ModuleType("nowhere_else")
    exec("def double(x):\n    return 2 * x", module.__dict__)  # not in any file
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nowhere_else", module)
        cloudpickle.register_pickle_by_value(module)
        try:
            message = packed((module.double, 2))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
    function, x = cloudpickle.loads(message)
    assert function(x) == 4


def test_threads():
    """Shards run at the same time, and an error is raised after all of them have ended."""
    threads = InProcess(3)
    shards = threads.shards(makers(), "tallies")
    shards.tell(None, "add", 5.0)
    assert repr(shards.ask([2, 0], "add", 1.0)) == repr([np.array([2.0, 5.0, 1.0]), np.array([0.0, 5.0, 1.0])])
    with pytest.raises(LookupError, match="shard 1"):
        shards.ask([1, 3], "fail", 0.0)
    again = pickle.loads(pickle.dumps(threads))
    assert again.threads == 3
    threads.close()
    assert shards.ask([0, 1], "peek", 1.0) == [6.0, 6.0]
    threads.close()
