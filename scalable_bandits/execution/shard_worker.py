"""The Dask actor that holds a run's shards on one worker, and the messages it answers.

The shards on a worker are a cache. Every request names the message that reached the shard last. A shard that is
missing, or was reached by another message, is reported and made again from the next request. A shard in which a call
raises an exception is dropped.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import cloudpickle

from scalable_bandits.posteriors.placement import Call


class Request(NamedTuple):
    """The part of a message for one shard."""

    number: int
    make: Callable[[], Any] | None  # function that makes the shard; None for the shard on the worker
    last: int  # number of the message that reached the shard on the worker last
    told: Sequence[Call]  # calls that change the shard on the worker, before the question


class Message(NamedTuple):
    """All requests to one worker for one question."""

    number: int  # messages are numbered in the order in which they are sent
    requests: Sequence[Request]
    question: Call
    held: Collection[int]  # numbers of the worker's shards; it drops all others


class Reply(NamedTuple):
    """Answer to a request."""

    answer: Any = None
    error: Exception | None = None  # exception raised by the shard
    worked: float = 0.0  # time of all work


class ShardWorker:
    """Dask actor with the shards that a run has on a worker."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Any, int]] = {}  # shard and the message that reached it last, by number

    def perform(self, packed_message: bytes) -> bytes:
        """Answer a pickled `Message` with a pickled list of replies, None for a missing shard.

        One reply alone is the answer to a message that cannot be loaded here.
        """
        try:
            message: Message = pickle.loads(packed_message)
        except Exception as error:
            return packed(Reply(error=_portable(error)))
        self._held = {number: held for number, held in self._held.items() if number in message.held}
        return packed([self._reply(message, request) for request in message.requests])

    def _reply(self, message: Message, request: Request) -> Reply | None:
        shard, last = self._held.pop(request.number, (None, -1))
        if request.make is None and last != request.last:
            return None
        began = time.perf_counter()
        try:
            if request.make is not None:
                shard = request.make()
            for call in request.told:
                call.on(shard)
            answer = message.question.on(shard)
        except Exception as error:
            return Reply(error=_portable(error))
        self._held[request.number] = shard, message.number
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
