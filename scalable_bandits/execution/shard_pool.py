"""Shards on the workers of a Dask cluster.

The truth is in this process: how each shard is made, and the log of what changed it (`shard_log.py`). What a worker
holds is a cache, in one Dask actor a worker (`actors.py`, `shard_worker.py`). A worker that dies, comes late or lost
count costs the time to make its shards again, and changes no number. A question is one message to each worker
concerned, to all of them at once.
"""

from __future__ import annotations

import math
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle
import dask
import numpy as np

from scalable_bandits.execution.actors import Actors
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.connect import await_worker
from scalable_bandits.execution.shard_log import ShardLog
from scalable_bandits.execution.shard_worker import Call, Message, Reply, Request, packed
from scalable_bandits.posteriors.state import State

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = "scalable-bandits.patience"  # in Dask's configuration
PATIENCE_DEFAULT = "10 minutes"
LOOK_SECONDS = 2.0  # between two looks at which workers there are, to spread the shards evenly again
LINGER_SECONDS = 5.0  # that the scheduler may take to notice that a worker is gone


class PoolOwner(Protocol):
    """Whose client a pool uses."""

    @property
    def client(self) -> Client:
        """The client, connected now if it is not yet."""

    def adopt(self, pool: ShardPool) -> None:
        """Take a pool whose shards are to be released with everything else."""


class ShardPool:
    """Shards on the workers of a cluster, numbered from 0.

    Parameters
    ----------
    executor
        Gives the client, and closes its pools.
    makers
        One function a shard, that makes it.
    name
        Name of what they compute, for Dask's dashboard.
    source
        State of a shard by its number, where the run knows it.

    Raises
    ------
    ClusterError
        If a maker cannot be pickled.
    """

    def __init__(
        self, executor: PoolOwner, makers: Sequence[Callable[[], Any]], name: str,
        source: Callable[[int], State] | None = None,
    ):  # fmt: skip
        self._executor, self._name = executor, name
        pickled: list[bytes] = []
        try:
            pickled.extend(bytes(cloudpickle.dumps(make)) for make in makers)
        except Exception as error:
            which = f"{name} (number {len(pickled) + 1} of {len(makers)})"
            raise ClusterError(f"on: {which} cannot be sent to other processes: {error}") from error
        self._log = ShardLog(pickled, source)
        self._fresh()
        executor.adopt(self)

    def _fresh(self) -> None:
        """Hold nothing on any worker."""
        self._client: Client | None = None  # whose workers have the shards
        self._homes: dict[int, str] = {}  # shard to worker
        self._positions: dict[int, int] = {}  # of the shards in the log, as far as is known here
        self._moved: dict[str, set[int]] = {}  # shards that a worker does not know to live elsewhere now
        self._actors: Actors | None = None  # of that client
        self._looked = -math.inf
        self._expected: tuple[frozenset[int], Call] | None = None  # the question after the next one
        self._ahead: tuple[Call, dict[int, Any]] | None = None  # and its answers

    def __getstate__(self) -> dict[str, Any]:
        return {"executor": self._executor, "name": self._name, "log": self._log}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._executor, self._name, self._log = state["executor"], state["name"], state["log"]
        self._fresh()
        self._executor.adopt(self)

    # ---- what a policy says and asks

    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        """Have some shards (all for None) call a method that changes them, before they answer their next question."""
        self._log.append(Call(method, _kept(arguments)), numbers)
        self._ahead = None

    def prefetch(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Name the question that is likely to follow the next one, so that one message can carry both answers."""
        self._expected = frozenset(numbers), Call(method, _kept(arguments))

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; the answers, in the order of the numbers.

        Raises
        ------
        ClusterError
            If the cluster is gone, or no worker has answered for `PATIENCE`. What was told stands.
        Exception
            What a shard raised. All shards are then as they were.
        """
        call = Call(method, _kept(arguments))
        ahead = self._ahead
        if ahead is not None and _same(ahead[0], call) and all(number in ahead[1] for number in numbers):
            return [ahead[1][number] for number in numbers]
        self._snapshot()  # before the question: an interrupted call has changed nothing
        expected, self._expected = self._expected, None
        replies = self._replies(numbers, call, expected)
        changed = [number for number in numbers if replies[number].changed]
        if changed:
            self._log.append(call, changed)
            self._ahead = None
            for number in changed:
                self._positions[number] = self._log.end
        if expected is not None:
            self._ahead = expected[1], {n: reply.ahead for n, reply in replies.items() if reply.ahead is not None}
        for number in numbers:
            self._log.worked(number, replies[number].seconds)
        return [replies[number].answer for number in numbers]

    def restore(self, states: Mapping[int, State]) -> None:
        """Take states of shards, by number: they are made anew from these when they are next asked."""
        for number, state in states.items():
            self._log.keep(number, state)
            self._positions.pop(number, None)
        self._ahead = None

    def close(self) -> None:
        """Have the workers delete the shards, which are made again where they are asked again."""
        if self._actors is not None:
            self._actors.release()
        self._fresh()

    # ---- one question

    def _replies(
        self, numbers: Sequence[int], call: Call, expected: tuple[frozenset[int], Call] | None
    ) -> dict[int, Reply]:
        """Replies of shards; raises what a shard raised."""
        client = self._connected()
        with self._connection(client):
            replies = self._gather(client, numbers, call, expected)
        for number in numbers:
            error = replies[number].error
            if error is not None:
                self._positions.pop(number, None)
                raise error
        return replies

    def _gather(
        self, client: Client, numbers: Sequence[int], call: Call, expected: tuple[frozenset[int], Call] | None
    ) -> dict[int, Reply]:
        """Replies of all shards, however often their workers die or have lost them."""
        self._balance(client, numbers)
        replies: dict[int, Reply] = {}
        lost: list[str] = []  # workers, under this question
        failing: float | None = None  # since when workers were lost and none answered
        while left := [number for number in numbers if number not in replies]:
            self._settle(client, [n for n in left if n not in self._homes], lost)
            groups: dict[str, list[int]] = {}
            for number in left:
                groups.setdefault(self._homes[number], []).append(number)
            for worker, found in self._send(groups, call, expected).items():
                if isinstance(found, BaseException):
                    self._drop(worker)
                    lost.append(worker)
                    failing = failing or time.monotonic()
                    self._check_patience(failing, found)
                    continue
                failing = None
                for reply in found:
                    if reply.there:
                        self._positions[reply.number] = self._log.end
                    else:
                        self._positions.pop(reply.number, None)
                    if reply.there or reply.error is not None:
                        replies[reply.number] = reply
        return replies

    def _send(
        self, groups: Mapping[str, Sequence[int]], call: Call, expected: tuple[frozenset[int], Call] | None
    ) -> dict[str, list[Reply] | BaseException]:
        """What workers say of the shards that they have, or what kept them from it."""
        assert self._actors is not None
        messages = {
            worker: packed(self._message(numbers, call, expected, self._moved.pop(worker, set())))
            for worker, numbers in groups.items()
        }
        answers = self._actors.perform(messages)
        return {w: pickle.loads(answer) if isinstance(answer, bytes) else answer for w, answer in answers.items()}

    def _message(
        self, numbers: Sequence[int], call: Call, expected: tuple[frozenset[int], Call] | None, gone: set[int]
    ) -> Message:
        log, requests = self._log, []
        asked, ahead = expected or (frozenset(), None)
        for number in numbers:
            position = self._positions.get(number, -1)
            rebuild = log.rebuild(number) if position < log.first else None
            requests.append(Request(number, position, rebuild, number in asked))
        starts = [request.position if request.rebuild is None else request.rebuild.position for request in requests]
        return Message(min(starts), log.since(min(starts)), requests, call, ahead, sorted(gone - set(numbers)))

    def _check_patience(self, failing: float, error: BaseException) -> None:
        """ClusterError if for too long workers were lost and none answered; work that takes long is no loss."""
        given = dask.config.get(PATIENCE, PATIENCE_DEFAULT)
        if time.monotonic() > failing + dask.utils.parse_timedelta(given):
            text = f"on: {self._name}: no worker has answered for {given} ({PATIENCE} in Dask's configuration)"
            raise ClusterError(f"{text}; the last that was lost: {error!r}") from error

    def _snapshot(self) -> None:
        """Take the snapshot of a shard, if one is due."""
        number = self._log.due()
        if number is None:
            return
        started = time.perf_counter()
        try:
            state = self._replies([number], Call("state", ()), None)[number].answer
        except ClusterError:
            return  # the question itself will say so
        self._log.keep(number, state, time.perf_counter() - started)

    # ---- workers and their actors

    def _connected(self) -> Client:
        client = self._executor.client
        if self._client is not client:
            self.close()
            self._client, self._actors = client, Actors(client, self._name)
        return client

    @contextmanager
    def _connection(self, client: Client) -> Iterator[None]:
        """ClusterError where the scheduler is gone, however that shows: a client may be closed at any step."""
        address = client.scheduler.address if client.scheduler else "its address"
        gone = ClusterError(f"on: the connection to the scheduler at {address} was lost; what was told stands")
        if client.status != "running":
            raise gone
        try:
            yield
        except ClusterError:
            raise
        except Exception as error:
            if client.status == "running" and not isinstance(error, OSError | TimeoutError):
                raise
            raise gone from error

    def _drop(self, worker: str) -> None:
        """Forget a worker, and that it has shards."""
        assert self._actors is not None
        self._actors.drop(worker)
        self._moved.pop(worker, None)
        for number in [number for number, home in self._homes.items() if home == worker]:
            del self._homes[number]
            self._positions.pop(number, None)

    # ---- which worker has what

    def _balance(self, client: Client, numbers: Sequence[int]) -> None:
        """Now and then, have the shards that are asked spread evenly over the workers that there are."""
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        workers = _workers(client)
        for worker in {*self._homes.values(), *self._moved} - workers:
            self._drop(worker)
        held: dict[str, list[int]] = {worker: [] for worker in workers}
        for number in numbers:
            if number in self._homes:
                held[self._homes[number]].append(number)
        while held:
            most, least = max(held, key=lambda w: len(held[w])), min(held, key=lambda w: len(held[w]))
            if len(held[most]) < len(held[least]) + 2:
                return
            number = held[most].pop()
            held[least].append(number)
            del self._homes[number]
            self._positions.pop(number, None)
            self._moved.setdefault(most, set()).add(number)

    def _settle(self, client: Client, numbers: Sequence[int], lost: Sequence[str]) -> None:
        """Find homes for shards, at the workers that have the fewest, but not at those just lost."""
        if not numbers:
            return
        workers = _workers(client, lost)
        load = Counter(self._homes.values())
        for number in numbers:
            home = min(workers, key=lambda worker: (load[worker], worker))
            self._homes[number] = home
            load[home] += 1


def _workers(client: Client, lost: Sequence[str] = ()) -> set[str]:
    """Addresses of the workers there are; waits for one that was not just lost, unless those stay there."""
    stop = time.monotonic() + LINGER_SECONDS
    while True:
        known = set(client.nthreads())
        if not known:
            await_worker(client)
            continue
        if fresh := known - set(lost):
            return fresh
        if time.monotonic() > stop:  # the message was lost rather than the worker
            return known
        time.sleep(0.05)


def _kept(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that stay what they are: lists are copied."""
    return tuple(list(each) if isinstance(each, list) else each for each in arguments)


def _same(expected: Call, call: Call) -> bool:
    """Whether two calls are one; arrays are not looked into."""
    if any(isinstance(each, np.ndarray | dict) for each in (*expected.arguments, *call.arguments)):
        return False
    return expected == call
