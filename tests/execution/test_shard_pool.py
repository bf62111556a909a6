"""The pool of shards, with fake workers in this process that lose their shards on demand."""

import contextlib
import copy
import functools
import importlib
import itertools
import pickle
import sys
import threading
import types

import cloudpickle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scalable_bandits.execution import ClusterError
from scalable_bandits.execution.shard_pool import ShardPool, ShardWorker, packed
from scalable_bandits.posteriors.placement import InProcess

SHARDS = 4


class Tally:
    """Shard whose state is the list of its changes, in order."""

    def __init__(self, seen):
        self.seen = seen

    def add(self, value):
        self.seen.append(value)

    def times(self, factor):
        return [factor * value for value in self.seen]

    def fail(self, factor):
        raise LookupError(f"shard {self.seen[0]}")


class Given:
    """Source of tallies, each of which begins with its number."""

    def __init__(self):
        self.seen = {number: [number] for number in range(SHARDS)}

    def __call__(self, number):
        return functools.partial(Tally, list(self.seen[number]))


class Answer:
    """Answer of an actor, with the interface of a future."""

    def __init__(self, value):
        self.value = value

    def done(self):
        return True

    def result(self, timeout=None):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class Handle:
    """Handle of an actor whose worker may be unreachable."""

    def __init__(self, fake, address):
        self.fake, self.address, self.actor, self._future = fake, address, ShardWorker(), None
        self.late = []

    def perform(self, message):
        fate = self.fake.fate()
        if fate == "before":
            return Answer(OSError(self.address))
        if fate == "late":
            self.late.append(message)
            return Answer(KeyboardInterrupt())
        found = self.actor.perform(message)
        while self.late:
            self.actor.perform(self.late.pop())
        if fate == "after":
            return Answer(OSError(self.address))
        if fate == "interrupt":
            return Answer(KeyboardInterrupt())
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
        return types.SimpleNamespace(done=lambda: True, result=lambda timeout=None: handle, release=lambda: None)

    def get_versions(self, packages):
        return {"workers": {}, "client": {"packages": {}}}

    def as_current(self):
        return contextlib.nullcontext()


class FakeExecutor:
    """Executor with a client."""

    def __init__(self, client):
        self.client, self.pools = client, set()

    def __reduce__(self):
        return type(self), (self.client,)


numbers = st.lists(st.integers(0, SHARDS - 1), min_size=1, unique=True)
steps = st.one_of(
    st.tuples(st.just("tell"), st.one_of(st.none(), numbers), st.integers(1, 9)),
    st.tuples(st.sampled_from(["times", "fail"]), numbers, st.integers(1, 9)),
    st.tuples(st.sampled_from(["undo", "add", "copy"]), st.none(), st.just(0)),
)
fates = st.lists(st.sampled_from(["", "", "before", "after", "interrupt", "late"]), max_size=30)


@settings(deadline=None, max_examples=60)
@given(st.lists(steps, max_size=40), fates, st.integers(1, 6))
@example([("times", [0, 1], 1)], ["before"], 1)
def test_the_answers_follow_from_the_source(planned, fates, most):
    """Whoever loses what, whenever, and in whatever order messages arrive."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalable_bandits.execution.shard_pool.MOST_TOLD", most)
        patch.setattr("scalable_bandits.execution.shard_pool.DEPARTURE_SECONDS", 0.0)
        client, source = FakeClient(fates), Given()
        pool = ShardPool(FakeExecutor(client), source, SHARDS, "tallies")
        for what, which, value in planned:
            seen = source.seen
            if what == "copy":
                pool = copy.deepcopy(pool)
                pool._executor, source = FakeExecutor(client), pool._source
            elif what == "tell":
                for number in seen if which is None else which:
                    seen[number].append(value)
                pool.tell(which, Tally.add, value)
            elif what == "undo":
                source.seen = {number: held[:1] for number, held in seen.items()}
                pool.renew()
            elif what == "add":
                seen[len(seen)] = [len(seen)]
                pool.add(len(seen) - 1)
            elif what == "times":
                assert until_it_works(pool, which, Tally.times, value) == [
                    [value * each for each in seen[number]] for number in which
                ]
            else:
                assert str(until_it_works(pool, which, Tally.fail, value)) == f"shard {which[0]}"
        assert until_it_works(pool, list(source.seen), Tally.times, 1) == list(source.seen.values())


def until_it_works(pool, *question):
    """Ask again after an interruption, as a user would."""
    while True:
        try:
            return pool.ask(*question)
        except KeyboardInterrupt:
            continue
        except LookupError as error:
            return error


def test_what_cannot_be_sent_is_named():
    pool = ShardPool(
        FakeExecutor(FakeClient()), lambda number: functools.partial(Tally, threading.Lock()), 2, "tiles of 9"
    )
    with pytest.raises(ClusterError, match=r"^on: tiles of 9 cannot be sent to other processes: .*lock"):
        pool.ask([0], Tally.times, 1)


class Missing:
    """Object that no other process can load."""

    def __reduce__(self):
        return importlib.import_module, ("module_of_this_process",)


def test_what_workers_cannot_load_is_raised():
    pool = ShardPool(FakeExecutor(FakeClient()), lambda number: functools.partial(Tally, Missing()), 2, "tallies")
    with pytest.raises(ModuleNotFoundError, match="module_of_this_process"):
        pool.ask([0, 1], Tally.times, 1)


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
    shards = threads.shards(Given(), SHARDS, "tallies")
    shards.tell(None, Tally.add, 5)
    assert shards.ask([2, 0], Tally.times, 2) == [[4, 10], [0, 10]]
    with pytest.raises(LookupError, match="shard 1"):
        shards.ask([1, 3], Tally.fail, 0)
    again = pickle.loads(pickle.dumps(threads))
    assert again.threads == 3
    threads.close()
    assert shards.ask([0, 1], Tally.times, 1) == [[0, 5], [1, 5]]
    threads.close()
