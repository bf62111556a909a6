"""Shards on the workers of a Dask cluster.

The shards on a worker are a cache in a Dask actor, one for each pool of shards on each worker. A shard that is not
there (its worker died or came late, or a call in it raised) is made by the source of the shards, which costs time and
changes no number. A question is one message to each worker concerned, all sent at once; it brings what the shards were
told before. An actor whose answer did not come, perhaps because of Ctrl-C, is given up with its shards: its message may
still be on its way.

Dask deletes an actor once nothing refers to it: the pool, the client and the process may end in any order. Calls to
actors do not keep a scheduler with `idle_timeout` from closing, so that an empty task is submitted every
`KEEPALIVE_SECONDS` of work. Calls go to the workers directly where the client has `direct_to_workers=True`, as clients
made by this package have, and through the scheduler otherwise.
"""

from __future__ import annotations

import math
import os
import pickle
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import dask

from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.clusters import await_worker, check_versions, connection_lost
from scalable_bandits.execution.connect import SecureAddress, connect, resolve
from scalable_bandits.execution.resources import traffic
from scalable_bandits.posteriors.placement import Call, Returned, Shard, Shards, Source

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = "scalable-bandits.patience"  # key in Dask's configuration
PATIENCE_DEFAULT = "10 minutes"
REBALANCE_SECONDS = 2.0  # time after which the shards are spread evenly over the present workers again
DEPARTURE_SECONDS = 5.0  # time that the scheduler may take to notice that a worker is gone
POLL_SECONDS = 0.2  # time without an answer before the list of workers is read again
KEEPALIVE_SECONDS = 1.0  # time between two empty tasks: less than any sensible idle timeout
MOST_TOLD = 2_000  # calls that wait for a question to a shard; with more, the shard is made again


class Request(NamedTuple):
    """The part of a message for one shard."""

    number: int
    make: Callable[[], Any] | None  # function that makes the shard; None for the shard on the worker
    told: Sequence[Call]  # calls that change the shard on the worker, before the question


class Message(NamedTuple):
    """All requests to one worker for one question."""

    requests: Sequence[Request]
    question: Call
    held: Collection[int]  # numbers of the worker's shards; it drops all others


class Reply(NamedTuple):
    """Answer to a request."""

    answer: Any = None
    error: Exception | None = None  # exception raised by the shard, which is dropped then
    worked: float = 0.0  # time of all work


class ShardWorker:
    """Dask actor with the shards that a run has on a worker."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}  # shards by number

    def perform(self, packed_message: bytes) -> bytes:
        """Answer a pickled `Message` with a pickled list of replies.

        One reply alone is the answer to a message that cannot be loaded here.
        """
        try:
            message: Message = pickle.loads(packed_message)
        except Exception as error:
            return packed(Reply(error=_portable(error)))
        self._held = {number: self._held[number] for number in message.held}
        return packed([self._reply(request, message.question) for request in message.requests])

    def _reply(self, request: Request, question: Call) -> Reply:
        began = time.perf_counter()
        try:
            shard = self._held.pop(request.number) if request.make is None else request.make()
            for call in request.told:
                call.on(shard)
            answer = question.on(shard)
        except Exception as error:
            return Reply(error=_portable(error))
        self._held[request.number] = shard
        return Reply(answer, worked=time.perf_counter() - began)


def packed(message: Any) -> bytes:
    """Pickle a message.

    cloudpickle takes three times as long as pickle and is used only where another process could not import a part of
    the message.
    """
    if cloudpickle.list_registry_pickle_by_value():  # modules that the user registered as missing on workers
        return bytes(cloudpickle.dumps(message))
    try:
        plain = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        plain = b"__main__"
    return bytes(cloudpickle.dumps(message)) if b"__main__" in plain else plain


def _portable(error: Exception) -> Exception:
    """Return the error, or one with the same text if it cannot be pickled."""
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


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
        Name of the shards for Dask's dashboard, such as "priors of PEGPUCB".
    """

    def __init__(self, executor: Any, source: Source[Shard], count: int, name: str):
        self._executor, self._source, self._count, self._name = executor, source, count, name
        self._begin()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._executor, self._source, self._count, self._name)

    def _begin(self) -> None:
        """Begin without any shard on a worker."""
        self._client: Client | None = None
        self._actors: dict[str, tuple[Future[Any], Any]] = {}  # future, which keeps an actor alive, and its handle
        self._run, self._started = uuid.uuid4().hex[:8], 0  # parts of the actors' names
        self._keepalive_task: Future[Any] | None = None  # the last empty task
        self._keepalive_time = -math.inf  # when it was submitted
        self._worker_of: dict[int, str] = {}  # worker of each shard
        self._told: dict[int, list[Call]] = {}  # calls that wait for the next question, of shards that workers have
        self._looked = -math.inf  # when the shards were last spread evenly
        self._release = weakref.finalize(self, _release, self._actors)
        self._executor.pools.add(self)

    # ---- tell and ask

    def tell_call(self, numbers: Sequence[int] | None, call: Call) -> None:
        for number in range(self._count) if numbers is None else numbers:
            if number in self._told:
                self._told[number].append(call)
                if len(self._told[number]) > MOST_TOLD:
                    del self._told[number]

    def ask_call(self, numbers: Sequence[int], call: Call) -> list[Any]:
        """Do what `ask` does with a call.

        A lost scheduler shows itself by exceptions of many kinds, as the client may be closed at any time.

        Raises
        ------
        ClusterError
            If the cluster is gone, no worker has answered for `PATIENCE`, or something cannot be pickled. Earlier calls
            of `tell` remain valid.
        Exception
            Exception raised by a shard.
        """
        client: Client = self._executor.client
        if self._client is not client:
            self.close()
            self._client = client
        gone = connection_lost(client, "earlier observations are kept")
        if client.status != "running":
            raise gone
        try:
            replies = self._gather(client, numbers, call)
        except ClusterError:
            raise
        except Exception as error:
            if client.status == "running" and not isinstance(error, OSError | TimeoutError):
                raise
            raise gone from error
        for number in numbers:
            if (raised := replies[number].error) is not None:
                raise raised
        return [replies[number].answer for number in numbers]

    def add(self, number: int) -> None:
        self._count = number + 1
        self._told.pop(number, None)

    def renew(self) -> None:
        self._told.clear()

    def here(self) -> None:
        pass

    def close(self) -> None:
        self._release()
        self._begin()

    # ---- one question

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
            for worker, found in self._send(client, groups, question).items():
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
                    replies[number] = reply
                    if reply.error is None:
                        self._told[number] = []
        return replies

    def _send(
        self, client: Client, groups: Mapping[str, Sequence[int]], question: Call
    ) -> dict[str, list[Reply] | BaseException]:
        """Return the replies of the shards of each worker, or the exception that prevented them."""
        messages = {}
        for worker, numbers in groups.items():
            held = [number for number in self._told if self._worker_of[number] == worker]
            message = Message([self._request(number) for number in numbers], question, held)
            try:
                messages[worker] = packed(message)
            except Exception as error:
                raise ClusterError(f"on: {self._name} cannot be sent to other processes: {error}") from error
        began = time.perf_counter()
        try:
            answers = self.perform(client, messages)
        except BaseException:
            for worker in messages:
                self._drop(worker)
            raise
        waited = time.perf_counter() - began
        received = sum(len(answer) for answer in answers.values() if isinstance(answer, bytes))
        found = {w: pickle.loads(answer) if isinstance(answer, bytes) else answer for w, answer in answers.items()}
        replies = [reply for each in found.values() if isinstance(each, list) for reply in each]
        sent, worked = sum(map(len, messages.values())), sum(reply.worked for reply in replies)
        traffic.add(len(messages), sent, received, sum(map(len, groups.values())), waited, worked)
        for answer in found.values():
            if isinstance(answer, Reply) and answer.error is not None:
                raise answer.error
        return found

    def _request(self, number: int) -> Request:
        """Return the request to a shard, which has to be made if no reply comes."""
        told = self._told.pop(number, None)
        return Request(number, self._source(number), ()) if told is None else Request(number, None, told)

    def perform(self, client: Client, messages: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the answer (bytes) of each worker to its message, or the exception that prevented it."""
        self._keep_scheduler_alive(client)
        found = self._start(client, [worker for worker in messages if worker not in self._actors])
        calls = {}
        for worker in messages.keys() - found.keys():
            try:
                calls[worker] = self._actors[worker][1].perform(messages[worker])
            except (OSError, RuntimeError) as error:  # Dask has noticed already that the actor is lost
                found[worker] = error
        return found | self._results(client, calls)

    def _start(self, client: Client, workers: Sequence[str]) -> dict[str, Any]:
        """Start actors on workers; return the exceptions of those that did not start."""
        if not workers:
            return {}
        check_versions(client)  # loading the actor's class in another version could end a worker
        what, _, whose = self._name.partition(" ")  # the dashboard shows the first dozen letters of a task's name
        futures = {}
        for worker in workers:
            self._started += 1
            key = f"{what} {self._started} {whose}-{self._run}"
            futures[worker] = client.submit(
                ShardWorker, key=key, actor=True, pure=False, workers=[worker], allow_other_workers=False
            )
        failed = {}
        with client.as_current():  # a handle belongs to the current client
            for worker, handle in self._results(client, futures).items():
                if isinstance(handle, BaseException):
                    failed[worker] = OSError(f"{worker}: {handle!r}")
                    futures[worker].release()
                else:
                    self._actors[worker] = futures[worker], handle
        return failed

    def _results(self, client: Client, futures: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the results of futures by worker; an exception is a result, also that the worker is gone."""
        found: dict[str, Any] = {}
        waiting = dict(futures)
        while waiting:
            for worker, future in list(waiting.items()):
                try:
                    found[worker] = _outcome(future)
                except TimeoutError:
                    continue
                except Exception as error:
                    found[worker] = error
                del waiting[worker]
            if waiting:
                self._keep_scheduler_alive(client)
                for worker in waiting.keys() - client.nthreads().keys():
                    found[worker] = OSError(f"{worker} is gone")
                    del waiting[worker]
        return found

    def _keep_scheduler_alive(self, client: Client) -> None:
        """Submit an empty task now and then, by which a scheduler sees that the cluster is in use."""
        now = time.monotonic()
        if now > self._keepalive_time + KEEPALIVE_SECONDS:
            self._keepalive_time = now
            key = f"at work, {self._name}-{uuid.uuid4().hex[:8]}"
            self._keepalive_task = client.submit(bool, key=key, pure=False)

    # ---- the workers of the shards

    def _assign(self, client: Client, numbers: Sequence[int], lost: Collection[str]) -> None:
        """Assign shards without a worker to the workers with the fewest, but not to those just lost.

        Now and then, shards beyond an even share leave their worker for that.
        """
        look = time.monotonic() > self._looked + REBALANCE_SECONDS
        if not look and all(number in self._worker_of for number in numbers):
            return
        workers, home = sorted(_workers(client, lost)), self._worker_of
        for worker in {*home.values()}.difference(workers):
            self._drop(worker)
        if look:
            self._looked, share = time.monotonic(), -(-len(numbers) // len(workers))
            for worker in workers:
                self._forget([number for number in numbers if home.get(number) == worker][share:])
        load = Counter(home[number] for number in (numbers if look else home) if number in home)
        for number in numbers:
            if number not in home:
                home[number] = min(workers, key=lambda worker: load[worker])
                load[home[number]] += 1

    def _drop(self, worker: str) -> None:
        """Forget a worker and its shards."""
        if worker in self._actors:
            _release({worker: self._actors.pop(worker)})
        self._forget([number for number, home in self._worker_of.items() if home == worker])

    def _forget(self, numbers: Sequence[int]) -> None:
        """Forget where shards are."""
        for number in numbers:
            del self._worker_of[number]
            self._told.pop(number, None)


def _release(actors: Mapping[str, tuple[Future[Any], Any]]) -> None:
    """Have Dask delete actors now; the futures of handles are part of cycles, which may be collected much later."""
    for future, handle in actors.values():
        future.release()
        if handle._future is not None:
            handle._future.release()


def _outcome(future: Any) -> Any:
    """Return the result of an actor's start or of a call to it; TimeoutError if it takes longer than `POLL_SECONDS`.

    What a start returned is fetched without a limit: a fetch that is given up fails for everything that Dask fetches
    with it, and on a busy machine every fetch would be.
    """
    from distributed import Future, wait

    if not future.done():
        if not isinstance(future, Future):
            return future.result(timeout=POLL_SECONDS)
        wait([future], timeout=POLL_SECONDS)
    return future.result()


def _workers(client: Client, lost: Collection[str]) -> set[str]:
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


class ClusterExecutor:
    """Executor that holds shards on the workers of a cluster, which is found or started when it is first needed.

    Parameters
    ----------
    on
        Name, address, client or recipe of the cluster; see `connect`.

    Attributes
    ----------
    pools : WeakSet of ShardPool
        Pools that `close` closes.
    """

    threads = 1
    remote = True

    def __init__(self, on: Any):
        resolve(on)
        self._on = on
        self._client: Client | None = None
        self._disconnect: Any = None
        self.pools: weakref.WeakSet[ShardPool[Any]] = weakref.WeakSet()

    def __reduce__(self) -> Any:
        return type(self), (self.portable,)

    @property
    def portable(self) -> Any:
        """Value of `on` for another process: the address of the scheduler in the place of a client.

        Raises
        ------
        ClusterError
            If `on` is a closed client.
        """
        if isinstance(self._on, str | os.PathLike | SecureAddress):
            return self._on
        if self._on.scheduler is None:
            raise ClusterError("on: the client is closed; a copy of what uses it could not find its scheduler")
        address = self._on.scheduler.address
        encrypted = address.startswith(("tls://", "wss://"))
        return SecureAddress(address, self._on.security) if encrypted else address

    @property
    def client(self) -> Client:
        """Client of the cluster; the first access connects it."""
        if self._client is None:
            stack = ExitStack()
            self._client = stack.enter_context(connect(self._on))
            self._disconnect = weakref.finalize(self, _in_main_or_new_thread, stack.close)
        return self._client

    def shards(self, source: Source[Shard], count: int, name: str) -> ShardPool[Shard]:
        """Return shards; see `placement.Executor`."""
        return ShardPool(self, source, count, name)

    def each(
        self, function: Callable[[Any, Any], Returned], shared: Any, each: Sequence[Any], done: Callable[[], object]
    ) -> list[Returned]:
        """Return the values of a function, one task each; see `placement.Executor`."""
        client, name = self.client, f"{function.__name__}-{uuid.uuid4().hex}"
        # As a task, whose value Dask makes again where its worker is lost; not scattered, which is lost for good.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"}):
            held = client.submit(pickle.loads, packed(shared), key=f"shared-{name}", pure=False)
            futures = [client.submit(function, held, one, key=f"{name}-{i}", pure=False) for i, one in enumerate(each)]
        for future in futures:
            future.add_done_callback(lambda _: done())
        found: list[Returned] = client.gather(futures)
        return found

    def close(self) -> None:
        """Delete the shards on the workers and end a cluster that was started here; both start again when needed."""
        for pool in list(self.pools):
            pool.close()
        if self._client is not None:
            self._client = None
            self._disconnect()


def _in_main_or_new_thread(function: Callable[[], None]) -> None:
    """Call a function that blocks: in a new thread unless in the main one, as this may be the thread of the client."""
    if threading.current_thread() is threading.main_thread():
        function()
    else:
        threading.Thread(target=function).start()
