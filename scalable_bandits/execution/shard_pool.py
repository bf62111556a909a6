"""Shards on the workers of a Dask cluster.

The shards on a worker are a cache in one Dask actor (`actors.py`, `shard_worker.py`). A shard that is not there (its
worker died, came late, or lost it) is made by the source of the shards, which costs time and changes no number. A
question is one message to each worker concerned, all sent at once; it brings what the shards were told before.
"""

from __future__ import annotations

import math
import pickle
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dask

from scalable_bandits.execution.actors import Actors
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.clusters import await_worker, connection_lost
from scalable_bandits.execution.resources import traffic
from scalable_bandits.execution.shard_worker import Call, Message, Reply, Request, packed
from scalable_bandits.posteriors.placement import Shard, Shards, Source

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = "scalable-bandits.patience"  # key in Dask's configuration
PATIENCE_DEFAULT = "10 minutes"
REBALANCE_SECONDS = 2.0  # time after which the shards are spread evenly over the present workers again
DEPARTURE_SECONDS = 5.0  # time that the scheduler may take to notice that a worker is gone
MOST_TOLD = 2_000  # calls that wait for a question to a shard; with more, the shard is made again


class ShardPool(Shards[Shard]):
    """Shards on the workers of a cluster.

    Parameters
    ----------
    executor
        `ClusterExecutor` with the client, which closes its pools.
    source
        Source of the shards.
    count
        Number of shards.
    name
        Name of the shards for Dask's dashboard.
    """

    def __init__(self, executor: Any, source: Source[Shard], count: int, name: str):
        self._executor, self._source, self._count, self._name = executor, source, count, name
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_executor", "_source", "_count", "_name")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        """Begin without any shard on a worker."""
        self._client: Client | None = None
        self._actors: Actors | None = None  # actors of that client
        self._worker_of: dict[int, str] = {}  # worker of each shard
        self._last: dict[int, int] = {}  # message that reached a shard last; none if the shard has to be made
        self._told: dict[int, list[Call]] = {}  # calls that wait for the next question, of the shards in `_last`
        self._messages = 0  # number of messages sent
        self._looked = -math.inf  # when the shards were last spread evenly
        self._executor.pools.add(self)

    # ---- tell and ask

    def tell_call(self, numbers: Sequence[int] | None, call: Call) -> None:
        for number in range(self._count) if numbers is None else numbers:
            if number in self._last:
                self._told[number].append(call)
                if len(self._told[number]) > MOST_TOLD:
                    del self._last[number]

    def ask_call(self, numbers: Sequence[int], call: Call) -> list[Any]:
        """Do what `ask` does with a call.

        Raises
        ------
        ClusterError
            If the cluster is gone, no worker has answered for `PATIENCE`, or something cannot be pickled. Earlier calls
            of `tell` remain valid.
        Exception
            Exception raised by a shard.
        """
        replies = self._replies(numbers, call)
        return [replies[number].answer for number in numbers]

    def add(self, number: int) -> None:
        self._count = number + 1
        self._last.pop(number, None)

    def renew(self) -> None:
        self._last.clear()

    def close(self) -> None:
        if self._actors is not None:
            self._actors.release()
        self._begin()

    # ---- one question

    def _replies(self, numbers: Sequence[int], question: Call) -> dict[int, Reply]:
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
            replies = self._gather(client, numbers, question)
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

    def _gather(self, client: Client, numbers: Sequence[int], question: Call) -> dict[int, Reply]:
        """Return the replies of shards; those on workers that die meanwhile are made again on others."""
        replies: dict[int, Reply] = {}
        lost: list[str] = []  # workers lost during this question
        failing: float | None = None  # time since which workers were lost and none answered; long work is no loss
        while left := [number for number in numbers if number not in replies]:
            self._assign(client, left, lost)
            groups: dict[str, list[int]] = {}
            for number in left:
                groups.setdefault(self._worker_of[number], []).append(number)
            for worker, found in self._send(groups, question).items():
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
                    if reply is not None:
                        replies[number] = reply
                        if reply.error is None:
                            self._last[number], self._told[number] = self._messages, []
        return replies

    def _send(
        self, groups: Mapping[str, Sequence[int]], question: Call
    ) -> dict[str, list[Reply | None] | BaseException]:
        """Return the replies of the shards of each worker, or the exception that prevented them."""
        assert self._actors is not None
        self._messages += 1
        messages = {}
        for worker, numbers in groups.items():
            held = {number for number, home in self._worker_of.items() if home == worker}
            message = Message(self._messages, [self._request(number) for number in numbers], question, held)
            try:
                messages[worker] = packed(message)
            except Exception as error:
                raise ClusterError(f"on: {self._name} cannot be sent to other processes: {error}") from error
        began = time.perf_counter()
        answers = self._actors.perform(messages)
        waited = time.perf_counter() - began
        received = sum(len(answer) for answer in answers.values() if isinstance(answer, bytes))
        found = {w: pickle.loads(answer) if isinstance(answer, bytes) else answer for w, answer in answers.items()}
        replies = [reply for each in found.values() if isinstance(each, list) for reply in each if reply is not None]
        sent, worked = sum(map(len, messages.values())), sum(reply.worked for reply in replies)
        traffic.add(len(messages), sent, received, sum(map(len, groups.values())), waited, worked)
        for answer in found.values():
            if isinstance(answer, Reply) and answer.error is not None:
                raise answer.error
        return found

    def _request(self, number: int) -> Request:
        """Return the request to a shard, which has to be made if no reply comes."""
        last = self._last.pop(number, None)
        if last is None:
            return Request(number, self._source(number), -1, ())
        return Request(number, None, last, self._told.pop(number))

    # ---- the workers of the shards

    def _drop(self, worker: str) -> None:
        """Forget a worker and its shards."""
        assert self._actors is not None
        self._actors.drop(worker)
        for number in [number for number, home in self._worker_of.items() if home == worker]:
            del self._worker_of[number]
            self._last.pop(number, None)

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
            self._last.pop(number, None)


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
