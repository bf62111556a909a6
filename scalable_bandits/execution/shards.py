"""Shards on the workers of a Dask cluster, as caches that are made again wherever they are missing.

What is true is kept here: how each shard is made, and the calls that changed it. A worker that dies, comes late or
lost count costs the time to repeat them, and no number.

A call is one message a worker, to all workers at once: to those on this machine over a line (`lines.py`), to others
through the scheduler and past its tasks (`Client.run`). In a check of an empty round with two workers lines took
0.2 ms, `Client.run` 1.7 to 2.0 ms, actors 2.5 ms (and workers that hold one cannot be retired, nor are actors made
again), tasks over the same cache 12 ms.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from scalable_bandits.execution import places
from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.holding import Call, Reply, Request, forget, packed, perform, perform_aside
from scalable_bandits.execution.lines import Lines

if TYPE_CHECKING:
    from distributed import Client

PULSE_SECONDS = 0.2  # without an answer, between two looks at whether the workers are still there
LOSSES = 8  # of workers that may die under one call
LINGER_SECONDS = 5.0  # that the scheduler may take to notice that a worker is gone
FORGET_SECONDS = 2.0  # to have workers let go of shards; a dead one would be called for half a minute
LOOK_SECONDS = 2.0  # between two looks at which workers there are, to spread the shards evenly again


class Place:
    """Workers of a cluster, found or started when they are first needed.

    Parameters
    ----------
    on
        As in `connect`.
    """

    def __init__(self, on: Any):
        places.resolve(on)
        self._on = on
        self._stack: ExitStack | None = None
        self._client: Client | None = None
        self._end: Any = None

    def __reduce__(self) -> Any:
        return type(self), (self.portable,)

    @property
    def portable(self) -> Any:
        """The same place in words: a client is of one process, its scheduler's address is not.

        Raises
        ------
        ClusterError
            If it is a client that is closed.
        """
        if isinstance(self._on, str | os.PathLike):
            return self._on
        if self._on.scheduler is None:
            raise ClusterError("on: the client is closed; a copy of what uses it could not find its scheduler")
        return self._on.scheduler.address

    @property
    def client(self) -> Client:
        """Client of the cluster, connected now if it is not yet."""
        if self._client is None:
            stack = ExitStack()
            self._client = stack.enter_context(places.connect(self._on))
            self._end = weakref.finalize(self, _aside, stack.close)
        return self._client

    @property
    def open(self) -> Client | None:
        """The client, if it is connected."""
        return self._client

    def shards(self, makers: Sequence[Callable[[], Any]]) -> Shards:
        """Shards on these workers, by functions that make them."""
        return Shards(self, _pickled(makers))

    def close(self) -> None:
        """End a cluster that was started here. What is asked for later finds or starts one again."""
        if self._client is not None:
            self._client = None
            self._end()


class Shards:
    """Shards on the workers of a place, numbered from 0.

    Parameters
    ----------
    place
        Whose workers.
    makers
        One function a shard, that makes it; pickled.
    """

    def __init__(self, place: Place, makers: Sequence[bytes]):
        self._place, self._makers = place, makers
        self._journal: list[list[Call]] = [[] for _ in makers]  # of each shard, the calls that changed it
        self._fresh()

    def _fresh(self) -> None:
        self._run = uuid.uuid4().hex
        self._client: Client | None = None  # whose workers the homes are
        self._homes: dict[int, str] = {}  # shard to worker
        self._lines = Lines()
        self._looked = 0.0
        self._foreseen: tuple[frozenset[int], Call] | None = None
        self._ahead: tuple[Call, dict[int, Any]] | None = None  # answers to a call that was foreseen

    def __getstate__(self) -> dict[str, Any]:
        return {"place": self._place, "makers": self._makers, "journal": self._journal}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._place, self._makers, self._journal = state["place"], state["makers"], state["journal"]
        self._fresh()

    # ---- what a policy asks

    def foresee(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Have the next call answer this one too, which is likely to come after it."""
        self._foreseen = frozenset(numbers), Call(method, _kept(arguments))

    def each(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; the answers, in the order of the numbers.

        Raises
        ------
        ClusterError
            If the cluster is gone, or workers die under it again and again. What is known here stands.
        Exception
            What a shard raised. All shards are then as they were.
        """
        call = Call(method, _kept(arguments))
        ahead = self._ahead
        if ahead is not None and _same(ahead[0], call) and all(number in ahead[1] for number in numbers):
            return [ahead[1][number] for number in numbers]
        asked, foreseen = self._foreseen or (frozenset(), None)
        self._foreseen = None
        client = self._connected()
        with self._connection(client):
            replies = self._gather(client, numbers, call, asked, foreseen)
        for number in numbers:
            error = replies[number].error
            if error is not None:
                raise error
        for number in numbers:
            if replies[number].calls > len(self._journal[number]):
                self._journal[number].append(call)
                self._ahead = None
        if foreseen is not None:
            self._ahead = foreseen, {n: reply.ahead for n, reply in replies.items() if reply.ahead is not None}
        return [replies[number].answer for number in numbers]

    # ---- messages

    def _gather(
        self, client: Client, numbers: Sequence[int], call: Call, asked: frozenset[int], foreseen: Call | None
    ) -> dict[int, Reply]:
        """Replies of all shards, however often their workers die or have lost them."""
        self._spread(client, numbers)
        replies: dict[int, Reply] = {}
        missing: set[int] = set()
        lost: list[str] = []  # workers, under this call
        while left := [number for number in numbers if number not in replies]:
            missing.update(self._settle(client, [n for n in left if n not in self._homes], lost))
            requests: dict[str, list[Request]] = {}
            for number in left:
                rebuild = (self._makers[number], self._journal[number]) if number in missing else None
                request = Request(number, len(self._journal[number]), number in asked, rebuild)
                requests.setdefault(self._homes[number], []).append(request)
            for worker, found in self._send(client, requests, call, foreseen).items():
                if isinstance(found, BaseException):
                    lost.append(worker)
                    self._homes = {number: home for number, home in self._homes.items() if home != worker}
                    if len(lost) > LOSSES:
                        text = f"on: {len(lost)} workers in turn were lost at the same call; the last: {found!r}"
                        raise ClusterError(text) from found
                    continue
                replies.update({reply.number: reply for reply in found if reply.calls >= 0 or reply.error})
                missing.update(reply.number for reply in found)
        return replies

    def _send(self, client: Client, requests: dict[str, list[Request]], call: Call, ahead: Call | None) -> Any:
        def ask(messages: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
            return client.sync(_answers, client, messages) if messages else {}

        self._lines.open(requests, ask)
        near, far = {}, {}
        what = packed((call, ahead))  # once for all
        for worker, asked in requests.items():
            message = worker, self._run, asked, what
            if worker in self._lines:
                near[worker] = perform, *message
            else:
                far[worker] = perform_aside, *message
        return self._lines.exchange(near, lambda: ask(far), PULSE_SECONDS, client.nthreads)

    @contextmanager
    def _connection(self, client: Client) -> Iterator[None]:
        """ClusterError where the scheduler is gone, whatever that looks like: a client may be closed in any step."""
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

    # ---- which worker has what

    def _connected(self) -> Client:
        client = self._place.client
        if self._client is not client:
            self._client, self._homes, self._lines = client, {}, Lines()
            weakref.finalize(self, _aside, _forget, weakref.ref(client), self._run)
        return client

    def _spread(self, client: Client, numbers: Sequence[int]) -> None:
        """Now and then, have the shards that are called spread evenly over the workers there are."""
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        workers = _workers(client)
        self._lines.keep(workers)
        self._homes = {number: home for number, home in self._homes.items() if home in workers}
        held: dict[str, list[int]] = {worker: [] for worker in workers}
        for number in numbers:
            if number in self._homes:
                held[self._homes[number]].append(number)
        while held:
            most, least = max(held, key=lambda w: len(held[w])), min(held, key=lambda w: len(held[w]))
            if len(held[most]) < len(held[least]) + 2:
                return
            held[least].append(held[most].pop())
            del self._homes[held[least][-1]]

    def _settle(self, client: Client, numbers: Sequence[int], lost: Sequence[str]) -> Sequence[int]:
        """Find homes for shards, with the workers that have the fewest, but not with those just lost."""
        if numbers:
            workers = _workers(client, lost)
            load = Counter(self._homes.values())
            for number in numbers:
                home = min(workers, key=lambda worker: (load[worker], worker))
                self._homes[number] = home
                load[home] += 1
        return numbers


async def _answers(client: Client, messages: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """What functions return on workers, or what kept one from it. The dead are looked up: they do not say."""
    import asyncio

    async def ask(worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        given: Any = {"workers": [worker], "on_error": "return", "asynchronous": True}
        return (await client.run(function, *arguments, **given))[worker]

    tasks = {worker: asyncio.ensure_future(ask(worker, *message)) for worker, message in messages.items()}
    pending: set[Any] = set(tasks.values())
    while pending:
        _, pending = await asyncio.wait(pending, timeout=PULSE_SECONDS)
        if pending:
            assert client.scheduler is not None
            known = await client.scheduler.ncores()
            gone = {task for worker, task in tasks.items() if worker not in known} & pending
            for task in gone:
                task.cancel()
    await asyncio.wait(tasks.values())
    return {
        worker: OSError(f"{worker} is gone") if task.cancelled() else task.exception() or task.result()
        for worker, task in tasks.items()
    }


def _workers(client: Client, lost: Sequence[str] = ()) -> set[str]:
    """Addresses of the workers there are; waits for one that was not just lost, unless those stay there."""
    stop = time.monotonic() + LINGER_SECONDS
    while True:
        known = set(client.nthreads())
        if not known:
            places.await_worker(client)
            continue
        if fresh := known - set(lost):
            return fresh
        if time.monotonic() > stop:  # the message was lost rather than the worker
            return known
        time.sleep(0.05)


def _kept(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that stay what they are: lists are copied."""
    return tuple(list(each) if isinstance(each, list) else each for each in arguments)


def _same(foreseen: Call, call: Call) -> bool:
    """Whether two calls are one; arrays are not looked into."""
    if any(isinstance(each, np.ndarray | dict) for each in (*foreseen.arguments, *call.arguments)):
        return False
    return foreseen == call


def _pickled(makers: Sequence[Callable[[], Any]]) -> list[bytes]:
    try:
        return [cloudpickle.dumps(make) for make in makers]
    except Exception as error:
        raise ClusterError(f"on: a prior cannot be sent to other processes: {error}") from error


def _aside(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function that blocks: from a thread of its own, if this one may be the client's."""
    if threading.current_thread() is threading.main_thread():
        function(*arguments)
    else:
        threading.Thread(target=function, args=arguments).start()


def _forget(client: weakref.ref[Client], run: str) -> None:
    found = client()
    if found is None or found.status != "running":
        return
    with suppress(OSError, TimeoutError, RuntimeError):  # the cluster is going away, and the shards with it
        found.run(forget, run, on_error="ignore", callback_timeout=FORGET_SECONDS)
