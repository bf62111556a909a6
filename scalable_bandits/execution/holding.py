"""On a worker: the shards that it holds, each a cache of what its maker and its calls so far make of it.

A call says which state it goes on from, by the number of calls that made it. What is not there in this state is made
anew, if the message brings what that takes, and reported missing otherwise. A shard in which a call raises is dropped.
"""

from __future__ import annotations

import pickle
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import cloudpickle


class Call(NamedTuple):
    """A method of shards and its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def on(self, shard: Any) -> Any:
        """What a shard answers."""
        return getattr(shard, self.method)(*self.arguments)


class Request(NamedTuple):
    """What one shard is to do."""

    number: int
    calls: int  # that made the state to go on from
    ahead: bool  # whether the answer to the call that is foreseen is wanted too
    rebuild: tuple[bytes, Sequence[Call]] | None  # maker, pickled, and those calls


class Reply(NamedTuple):
    """What came of it; neither an answer nor an error: the shard is not held."""

    number: int
    calls: int = -1  # that made the state as it is now
    answer: Any = None
    ahead: Any = None
    error: Exception | None = None


class Held(NamedTuple):
    """A shard, and how many calls made it what it is."""

    shard: Any
    calls: int


_held: dict[tuple[str, str], dict[int, Held]] = {}  # by address of the worker (several may share a process) and run
_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by address: one message after the other


def changes(shard: Any, method: str) -> bool:
    """Whether a call leaves traces in what a shard answers later."""
    return method in shard.CHANGING or (shard.asks_matter and method in shard.ASKING)


def packed(message: Any) -> bytes:
    """Pickled: by cloudpickle what nobody else could import, for which it takes three times as long with all else."""
    if cloudpickle.list_registry_pickle_by_value():  # modules that the user says are not to be had elsewhere
        return bytes(cloudpickle.dumps(message))
    try:
        plain = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        plain = b"__main__"
    return bytes(cloudpickle.dumps(message)) if b"__main__" in plain else plain


async def perform_aside(*message: Any) -> list[Reply]:
    """Answer a message that came through Dask: on another thread, so that the worker stays responsive."""
    import asyncio

    return await asyncio.to_thread(perform, *message)


def perform(address: str, run: str, requests: list[Request], what: bytes) -> list[Reply]:
    """Answer a message to the worker of an address: a call and the one that is foreseen, pickled."""
    call, ahead = cloudpickle.loads(what)
    with _turns[address]:
        held = _held.setdefault((address, run), {})
        return [_answer(held, request, call, ahead) for request in requests]


def _answer(held: dict[int, Held], request: Request, call: Call, ahead: Call | None) -> Reply:
    number = request.number
    found = held.pop(number, None)
    try:
        if found is not None and found.calls == request.calls:
            shard = found.shard
        elif request.rebuild is None:
            return Reply(number)
        else:
            maker, before = request.rebuild
            shard = cloudpickle.loads(maker)()
            for each in before:
                each.on(shard)
        answer = call.on(shard)
        calls = request.calls + changes(shard, call.method)
    except Exception as error:
        return Reply(number, error=_portable(error))
    held[number] = Held(shard, calls)
    guess = None
    if ahead and request.ahead and not changes(shard, ahead.method):  # it may never be asked for: it leaves no trace
        with suppress(Exception):  # nor an error, before it is asked for
            guess = ahead.on(shard)
    return Reply(number, calls, answer, guess)


def _portable(error: Exception) -> Exception:
    """The error, or one of the same words where it does not survive the way."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def forget(run: str, dask_worker: Any) -> None:
    """Let go of the shards of a run."""
    _held.pop((dask_worker.address, run), None)
