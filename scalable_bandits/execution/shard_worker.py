"""What one run has on one worker: the Dask actor that holds shards there, and the messages it answers.

A shard on a worker is a cache. Every request names the log position that the shard must have reached; a shard that is
elsewhere in the log, or not there at all, is reported missing, and made again from what the next request brings. A
shard in which a call raises is dropped.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import cloudpickle


class Call(NamedTuple):
    """A method of shards and its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def on(self, shard: Any) -> Any:
        """The answer of a shard."""
        return getattr(shard, self.method)(*self.arguments)


class Entry(NamedTuple):
    """A call that changed shards, as the log keeps it."""

    call: Call
    numbers: frozenset[int] | None  # of the shards; None for all

    def concerns(self, number: int) -> bool:
        """Whether a shard has to repeat the call."""
        return self.numbers is None or number in self.numbers


class Rebuild(NamedTuple):
    """How a shard is made again."""

    maker: bytes  # pickled function
    state: bytes | None  # pickled snapshot to restore after it is made, if there is one
    position: int  # of that state in the log


class Request(NamedTuple):
    """What one shard is asked to do, after it has caught up with the log."""

    number: int
    position: int  # in the log, that the shard must have reached
    rebuild: Rebuild | None
    ahead: bool  # whether the prefetched question is for this shard too


class Message(NamedTuple):
    """What a worker is sent at once."""

    first: int  # position of the first of the entries
    entries: Sequence[Entry]  # those that some shard here has not seen
    requests: Sequence[Request]
    call: Call
    ahead: Call | None  # the question that is likely to come next
    gone: Sequence[int]  # shards that live elsewhere now


class Reply(NamedTuple):
    """What came of a request; the shard is missing if it has neither an answer nor an error."""

    number: int
    there: bool = False
    changed: bool = False  # whether the call belongs in the log
    answer: Any = None
    ahead: Any = None
    error: Exception | None = None
    seconds: float = 0.0  # of work that would have to be repeated if the shard were lost


class ShardWorker:
    """Dask actor with the shards that a run has on a worker."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, int]] = {}  # shard and its position in the log, by number

    def perform(self, packed_message: bytes) -> bytes:
        """Answer a pickled `Message` by pickled replies."""
        message: Message = pickle.loads(packed_message)
        for number in message.gone:
            self._held.pop(number, None)
        return packed([self._reply(message, request) for request in message.requests])

    def _reply(self, message: Message, request: Request) -> Reply:
        number, end = request.number, message.first + len(message.entries)
        held = self._held.pop(number, None)
        try:
            if request.rebuild is not None:
                shard, position = _made(request.rebuild), request.rebuild.position
            elif held is not None and held[1] == request.position:
                shard, position = held
            else:
                return Reply(number)
            started = time.perf_counter()
            for entry in message.entries[position - message.first :]:
                if entry.concerns(number):
                    entry.call.on(shard)
            answer = message.call.on(shard)
        except Exception as error:
            return Reply(number, error=_portable(error))
        changed = changes(shard, message.call.method)
        seconds = time.perf_counter() - started if changed or end > position else 0.0
        self._held[number] = shard, end + changed
        ahead, guess = message.ahead, None
        if ahead and request.ahead and not changes(shard, ahead.method):  # it may never be asked: it leaves no trace
            with suppress(Exception):  # nor an error, before it is asked
                guess = ahead.on(shard)
        return Reply(number, True, changed, answer, guess, seconds=seconds)


def changes(shard: Any, method: str) -> bool:
    """Whether a call changes what a shard answers later."""
    return method in shard.CHANGING or (method in shard.ASKING and shard.ask_is_stateful)


def packed(message: Any) -> bytes:
    """Pickled; by cloudpickle, which takes three times as long, where another process could not import a part of it."""
    if cloudpickle.list_registry_pickle_by_value():  # modules that the user declared to be unknown elsewhere
        return bytes(cloudpickle.dumps(message))
    try:
        plain = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        plain = b"__main__"
    return bytes(cloudpickle.dumps(message)) if b"__main__" in plain else plain


def _made(rebuild: Rebuild) -> Any:
    shard = pickle.loads(rebuild.maker)()
    if rebuild.state is not None:
        shard.restore(pickle.loads(rebuild.state))
    return shard


def _portable(error: Exception) -> Exception:
    """The error, or one with the same text where it cannot be pickled."""
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
