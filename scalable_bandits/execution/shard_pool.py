"""Shards on the workers of a Dask cluster.

This process has all that is needed to make a shard: its maker, and the log of the calls that changed it
(`shard_log.py`). The shards on a worker are a cache in one Dask actor (`actors.py`, `shard_worker.py`). A worker that
dies, comes late or lost its shards costs the time to make them again, and changes no number. A question is one message
to each worker concerned, all sent at once.
"""

from __future__ import annotations

import math
import pickle
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask
import numpy as np

from scalable_bandits.execution.actors import Actors
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.clusters import await_worker, connection_lost
from scalable_bandits.execution.resources import traffic
from scalable_bandits.execution.shard_log import ShardLog
from scalable_bandits.execution.shard_worker import Call, Message, Question, Reply, Request, packed
from scalable_bandits.posteriors.placement import Shards
from scalable_bandits.posteriors.state import State

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = "scalable-bandits.patience"  # key in Dask's configuration
PATIENCE_DEFAULT = "10 minutes"
REBALANCE_SECONDS = 2.0  # time after which the shards are spread evenly over the present workers again
DEPARTURE_SECONDS = 5.0  # time that the scheduler may take to notice that a worker is gone


class ShardPool(Shards):
    """Shards on the workers of a cluster.

    Parameters
    ----------
    executor
        `ClusterExecutor` with the client, which closes its pools.
    makers
        One function a shard, which makes it.
    name
        Name of the shards for Dask's dashboard.
    source
        Function that returns the state of a shard by its number, if the run has the states.

    Raises
    ------
    ClusterError
        If a maker cannot be pickled.
    """

    def __init__(
        self, executor: Any, makers: Sequence[Callable[[], Any]], name: str,
        source: Callable[[int], State] | None = None,
    ):  # fmt: skip
        pickled: list[bytes] = []
        try:
            pickled.extend(bytes(cloudpickle.dumps(make)) for make in makers)
        except Exception as error:
            which = f"{name} (number {len(pickled) + 1} of {len(makers)})"
            raise ClusterError(f"on: {which} cannot be sent to other processes: {error}") from error
        self.__setstate__({"_executor": executor, "_name": name, "_log": ShardLog(pickled, source)})

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_executor", "_name", "_log")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._executor, self._name = state["_executor"], state["_name"]
        self._log: ShardLog = state["_log"]
        self._reset()
        self._executor.pools.add(self)

    def _reset(self) -> None:
        """Start without any shard on a worker."""
        self._client: Client | None = None
        self._actors: Actors | None = None  # actors of that client
        self._worker_of: dict[int, str] = {}  # worker of each shard
        self._positions: dict[int, int] = {}  # log position of each shard on its worker; none if it has to be made
        self._looked = -math.inf  # when the shards were last spread evenly
        self._expected: Question | None = None  # the question that is likely to follow the next one
        self._prefetched: tuple[Call, dict[int, Any]] | None = None  # answers to the question expected before

    # ---- tell and ask

    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        self._log.append(Call(method, _copied(arguments)), numbers)
        self._prefetched = None

    def prefetch(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        self._expected = frozenset(numbers), Call(method, _copied(arguments))

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; return the answers in the order of the numbers.

        Raises
        ------
        ClusterError
            If the cluster is gone, or no worker has answered for `PATIENCE`. Earlier calls of `tell` remain valid.
        Exception
            Exception raised by a shard. All shards are then as they were.
        """
        call = Call(method, _copied(arguments))
        if self._prefetched is not None:
            question, answers = self._prefetched
            if _same(question, call) and answers.keys() >= set(numbers):
                return [answers[number] for number in numbers]
        self._snapshot()  # before the question: if the snapshot is interrupted, nothing has changed
        expected, self._expected = self._expected, None
        replies = self._replies(numbers, call, expected)
        changed = [number for number in numbers if replies[number].changed]
        if changed:
            self._log.append(call, changed)
            self._prefetched = None
            self._positions.update(dict.fromkeys(changed, self._log.end))
        if expected is not None:
            found = {n: reply.prefetched for n, reply in replies.items() if reply.prefetched is not None}
            self._prefetched = expected[1], found
        for number in numbers:
            self._log.worked(number, replies[number].seconds)
        return [replies[number].answer for number in numbers]

    def restore(self, states: Mapping[int, State]) -> None:
        for number, state in states.items():
            self._log.keep(number, state)
            self._positions.pop(number, None)
        self._prefetched = None

    def add(self, number: int, maker: Callable[[], Any]) -> None:
        self._log.add(number, bytes(cloudpickle.dumps(maker)))

    def close(self) -> None:
        if self._actors is not None:
            self._actors.release()
        self._reset()

    def _snapshot(self) -> None:
        """Take the snapshot of a shard if one is due."""
        number = self._log.due()
        if number is None:
            return
        started = time.perf_counter()
        try:
            state = self._replies([number], Call("state", ()), None)[number].answer
        except ClusterError:
            return  # the question that follows raises it
        self._log.keep(number, state, time.perf_counter() - started)

    # ---- one question

    def _replies(self, numbers: Sequence[int], call: Call, expected: Question | None) -> dict[int, Reply]:
        """Return the replies of shards, or raise the exception of a shard.

        A lost scheduler shows itself by exceptions of many kinds, as the client may be closed at any time.
        """
        client: Client = self._executor.client
        if self._client is not client:
            self.close()
            self._client, self._actors = client, Actors(client, self._name)
        gone = connection_lost(client, "earlier observations are kept")
        if client.status != "running":
            raise gone
        try:
            replies = self._gather(client, numbers, call, expected)
        except ClusterError:
            raise
        except Exception as error:
            if client.status == "running" and not isinstance(error, OSError | TimeoutError):
                raise
            raise gone from error
        for number in numbers:
            reply = replies[number]
            if reply.error is not None:
                raise reply.error
        return replies

    def _gather(
        self, client: Client, numbers: Sequence[int], call: Call, expected: Question | None
    ) -> dict[int, Reply]:
        """Return the replies of shards; those on workers that die meanwhile are made again on others."""
        replies: dict[int, Reply] = {}
        lost: list[str] = []  # workers lost during this question
        failing: float | None = None  # time since which workers were lost and none answered; long work is no loss
        while left := [number for number in numbers if number not in replies]:
            self._assign(client, left, lost)
            groups: dict[str, list[int]] = {}
            for number in left:
                groups.setdefault(self._worker_of[number], []).append(number)
            for worker, found in self._send(groups, call, expected).items():
                if isinstance(found, BaseException):
                    self._drop(worker)
                    lost.append(worker)
                    failing = failing or time.monotonic()
                    given = dask.config.get(PATIENCE, PATIENCE_DEFAULT)
                    if time.monotonic() > failing + dask.utils.parse_timedelta(given):
                        raise ClusterError(
                            f"on: {self._name}: no worker has answered for {given} ({PATIENCE} in Dask's configuration)"
                            f"; the last that was lost: {found!r}"
                        ) from found
                    continue
                failing = None
                for number, reply in zip(groups[worker], found, strict=True):
                    self._positions.pop(number, None)
                    if reply is not None:
                        replies[number] = reply
                        if reply.error is None:
                            self._positions[number] = self._log.end
        return replies

    def _send(
        self, groups: Mapping[str, Sequence[int]], call: Call, expected: Question | None
    ) -> dict[str, list[Reply | None] | BaseException]:
        """Return the replies of the shards of each worker, or the exception that prevented them."""
        assert self._actors is not None
        log, messages = self._log, {}
        for worker, numbers in groups.items():
            known = {number: self._positions.get(number, -1) for number in numbers}
            requests = [Request(n, p) if p >= log.first else log.rebuild(n) for n, p in known.items()]
            first = min(request.position for request in requests)
            held = {number for number, home in self._worker_of.items() if home == worker}
            messages[worker] = packed(Message(first, log.since(first), requests, call, expected, held))
        began = time.perf_counter()
        answers = self._actors.perform(messages)
        waited = time.perf_counter() - began
        received = sum(len(answer) for answer in answers.values() if isinstance(answer, bytes))
        traffic.add(len(messages), sum(map(len, messages.values())), received)
        found = {w: pickle.loads(answer) if isinstance(answer, bytes) else answer for w, answer in answers.items()}
        replies = [reply for each in found.values() if isinstance(each, list) for reply in each if reply is not None]
        traffic.add_question(sum(map(len, groups.values())), waited, sum(reply.worked for reply in replies))
        return found

    # ---- the workers of the shards

    def _drop(self, worker: str) -> None:
        """Forget a worker and its shards."""
        assert self._actors is not None
        self._actors.drop(worker)
        for number in [number for number, home in self._worker_of.items() if home == worker]:
            del self._worker_of[number]
            self._positions.pop(number, None)

    def _assign(self, client: Client, numbers: Sequence[int], lost: Collection[str]) -> None:
        """Assign shards without a worker to the workers with the fewest, but not to those just lost.

        Now and then the shards are also spread evenly over all present workers.
        """
        look = time.monotonic() > self._looked + REBALANCE_SECONDS
        if not look and all(number in self._worker_of for number in numbers):
            return
        workers = sorted(_workers(client, lost))
        for worker in {*self._worker_of.values()}.difference(workers):
            self._drop(worker)
        load = Counter(self._worker_of.values())
        for number in numbers:
            if number not in self._worker_of:
                self._worker_of[number] = min(workers, key=lambda worker: load[worker])
                load[self._worker_of[number]] += 1
        if look:
            self._looked = time.monotonic()
            self._spread({worker: [n for n in numbers if self._worker_of[n] == worker] for worker in workers})

    def _spread(self, held: dict[str, list[int]]) -> None:
        """Move shards from the workers with the most to those with the fewest."""
        while True:
            most, least = max(held, key=lambda w: len(held[w])), min(held, key=lambda w: len(held[w]))
            if len(held[most]) < len(held[least]) + 2:
                return
            number = held[most].pop()
            held[least].append(number)
            self._worker_of[number] = least
            self._positions.pop(number, None)


def _workers(client: Client, lost: Collection[str] = ()) -> set[str]:
    """Return the addresses of the present workers without those just lost; wait for one if all are lost.

    Lost workers that stay known to the scheduler are returned after a while: the message was lost, not the worker.
    """
    stop = time.monotonic() + DEPARTURE_SECONDS
    while True:
        known = set(client.nthreads())
        if not known:
            await_worker(client)
        elif fresh := known.difference(lost):
            return fresh
        elif time.monotonic() > stop:
            return known
        else:
            time.sleep(0.05)


def _copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the lists among arguments, which the caller may change later."""
    return tuple(list(each) if isinstance(each, list) else each for each in arguments)


def _same(expected: Call, call: Call) -> bool:
    """Return whether two calls are the same; False if arguments are arrays, which are not compared."""
    arguments = (*expected.arguments, *call.arguments)
    return not any(isinstance(each, np.ndarray | dict) for each in arguments) and expected == call
