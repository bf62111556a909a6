"""The Dask actor that holds a run's shards on one worker, and the messages it answers.

The shards on a worker are a cache. Every request names the log position that the shard must have reached. A shard that
is missing, or is at another position, is reported and made again from the next request. A shard in which a call raises
an exception is dropped.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import cloudpickle


class Call(NamedTuple):
    """A method of shards and its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def on(self, shard: Any) -> Any:
        """Return the answer of a shard."""
        return getattr(shard, self.method)(*self.arguments)


class Entry(NamedTuple):
    """A log entry: a call that changed shards."""

    call: Call
    numbers: frozenset[int] | None  # numbers of the changed shards; None for all

    def concerns(self, number: int) -> bool:
        """Return whether the call changed a shard."""
        return self.numbers is None or number in self.numbers


Question = tuple[frozenset[int], Call]  # numbers of the shards that are asked, and the call


class Request(NamedTuple):
    """The part of a message for one shard."""

    number: int
    position: int  # log position of the shard
    maker: bytes | None = None  # pickled function that makes the shard anew; None for the shard on the worker
    state: bytes | None = None  # pickled state to restore in a new shard

    def shard(self) -> Any:
        """Make the shard."""
        assert self.maker is not None
        shard = pickle.loads(self.maker)()
        if self.state is not None:
            shard.restore(pickle.loads(self.state))
        return shard


class Message(NamedTuple):
    """All requests to one worker for one question."""

    first: int  # lowest log position of the requests
    entries: Sequence[Entry]  # log entries from there on
    requests: Sequence[Request]
    call: Call
    expected: Question | None  # the question that is likely to come next
    held: Collection[int]  # numbers of the worker's shards; it drops all others


class Reply(NamedTuple):
    """Answer to a request."""

    answer: Any = None
    changed: bool = False  # whether the call changed the shard
    prefetched: Any = None  # answer to the expected question; None if there is none
    seconds: float = 0.0  # time of the work to repeat if the shard were lost
    worked: float = 0.0  # time of all work, that for the expected question included
    error: Exception | None = None  # exception raised by the shard


class ShardWorker:
    """Dask actor with the shards that a run has on a worker."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, int]] = {}  # shard and its log position, by number

    def perform(self, packed_message: bytes) -> bytes:
        """Answer a pickled `Message` with a pickled list of replies, None for a missing shard."""
        message: Message = pickle.loads(packed_message)
        self._held = {number: held for number, held in self._held.items() if number in message.held}
        return packed([self._reply(message, request) for request in message.requests])

    def _reply(self, message: Message, request: Request) -> Reply | None:
        number = request.number
        shard, position = self._held.pop(number, (None, -1))
        if request.maker is None and position != request.position:
            return None
        missed = message.entries[request.position - message.first :]
        began = time.perf_counter()
        try:
            if request.maker is not None:
                shard = request.shard()
            started = time.perf_counter()
            for entry in missed:
                if entry.concerns(number):
                    entry.call.on(shard)
            answer = message.call.on(shard)
        except Exception as error:
            return Reply(error=_portable(error))
        changed = message.call.method in shard.changing
        seconds = time.perf_counter() - started if changed or missed else 0.0
        self._held[number] = shard, message.first + len(message.entries) + changed
        numbers, expected = message.expected or ((), message.call)
        prefetched = None
        if number in numbers and expected.method not in shard.changing:
            with suppress(Exception):  # the question may never be asked; if it is, it raises the exception again
                prefetched = expected.on(shard)
        return Reply(answer, changed, prefetched, seconds, time.perf_counter() - began)


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
