"""Lines to workers on this machine: sockets in its file system, past the event loops of Dask.

A round of a sharded policy may take no longer than a message through a scheduler, which two event loops and five
threads pass on: an empty one to two workers took 2.0 ms, and over lines 0.2 ms. Dask says where the workers are, brings
both ends of a line together, and speaks to those that are elsewhere.

Nobody else gets in: the socket is in a folder of this user's alone, for as long as it takes to open the line, and who
calls has to know a key that went through Dask.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client as Caller
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import cloudpickle

from scalable_bandits.execution.holding import packed

CALL_SECONDS = 600.0  # within which a client calls, unless it was interrupted
AWAKE_SECONDS = 2e-3  # after an answer: most rounds come sooner, and to wake a core up costs a tenth of a millisecond


class Lines:
    """Lines to some workers, by their address; None where there can be none."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    def __contains__(self, worker: str) -> bool:
        return self._held.get(worker) is not None

    def open(self, workers: Iterable[str], ask: Callable[[dict[str, tuple[Any, ...]]], dict[str, Any]]) -> None:
        """Open lines to workers where that was not tried before.

        Parameters
        ----------
        workers
            Their addresses.
        ask
            Has workers call functions (each a tuple with the arguments), and says what they returned or what kept
            them from it.
        """
        new = [worker for worker in workers if worker not in self._held]
        if not new or not hasattr(socket, "AF_UNIX"):
            return
        with tempfile.TemporaryDirectory(prefix="line-") as folder:
            keys = {worker: secrets.token_bytes(32) for worker in new}
            places = {worker: str(Path(folder) / str(number)) for number, worker in enumerate(new)}
            found = ask({worker: (listen, machine(), places[worker], keys[worker]) for worker in new})
            for worker in new:
                if found[worker] is True:
                    self._held[worker] = _called(places[worker], keys[worker])
                elif not isinstance(found[worker], BaseException):
                    self._held[worker] = None

    def exchange(
        self, messages: dict[str, tuple[Any, ...]], meanwhile: Callable[[], dict[str, Any]], seconds: float,
        known: Callable[[], Iterable[str]],
    ) -> dict[str, Any]:  # fmt: skip
        """What functions return on workers that have a line, or what kept one from it.

        Parameters
        ----------
        messages
            Worker to a function and its arguments.
        meanwhile
            Finds further answers while those are on their way.
        seconds
            Without an answer, between two looks at which workers are known.
        known
            Those.
        """
        if not messages:  # as where there can be no lines, nor poll
            return meanwhile()
        pending = {self._held[worker].fileno(): worker for worker in messages}
        coming = select.poll()
        try:
            for descriptor, worker in pending.items():
                with suppress(OSError):  # a line that is dead says so where an answer is read from it
                    self._held[worker].send_bytes(packed(messages[worker]))
                coming.register(descriptor, select.POLLIN)
            found = meanwhile()
            while pending:
                ready = [descriptor for descriptor, _ in coming.poll(1e3 * seconds)]
                there = set() if ready else set(known())
                for descriptor in ready or [d for d, worker in pending.items() if worker not in there]:
                    worker = pending[descriptor]
                    coming.unregister(descriptor)
                    found[worker] = _answer(self._held[worker]) if ready else OSError(f"{worker} is gone")
                    if isinstance(found[worker], OSError):
                        self.drop(worker)
                    del pending[descriptor]
        finally:
            for worker in pending.values():  # an answer that nobody waits for would be taken for the next one
                self.drop(worker)
        return found

    def keep(self, workers: Container[str]) -> None:
        """Close lines to all but these workers."""
        for worker in [worker for worker in self._held if worker not in workers]:
            self.drop(worker)

    def drop(self, worker: str) -> None:
        """Close a line. One may be opened to that worker again."""
        line = self._held.pop(worker, None)
        if line is not None:
            line.close()


def machine() -> str:
    """What tells this machine from others."""
    return socket.gethostname()


def _called(place: str, key: bytes) -> Any:
    try:
        return Caller(place, family="AF_UNIX", authkey=key)
    except (OSError, EOFError, AuthenticationError):
        return None


def _answer(line: Any) -> Any:
    try:
        return cloudpickle.loads(line.recv_bytes())
    except (EOFError, OSError) as error:
        return OSError(f"the line is dead: {error!r}")


# ---- on the worker


def listen(home: str, place: str, key: bytes) -> bool:
    """Wait at a place for the call of a client on this machine, and answer on a thread of its own; whether it is."""
    if home != machine() or not Path(place).parent.is_dir():
        return False
    try:
        listener = Listener(place, family="AF_UNIX", authkey=key)
        listener._listener._socket.settimeout(CALL_SECONDS)  # type: ignore[attr-defined]  # which it has no word for
    except (OSError, ValueError):  # another user's folder, a path too long for a socket, a system without such
        return False
    threading.Thread(target=_serve, args=(listener,), name="line", daemon=True).start()
    return True


def _serve(listener: Listener) -> None:
    line = None
    with suppress(OSError, EOFError, AuthenticationError), listener:  # also where the folder is gone before the socket
        line = listener.accept()
    with suppress(OSError, EOFError):  # the client has gone
        while line is not None:
            _look_out(line.fileno())
            line.send_bytes(_done(line.recv_bytes()))


def _look_out(descriptor: int) -> None:
    """Wait for a message without going to sleep, for a little while, but leave the core to whoever wants it."""
    looking, stop = select.poll(), time.perf_counter() + AWAKE_SECONDS
    looking.register(descriptor, select.POLLIN)
    while not looking.poll(0) and time.perf_counter() < stop:
        os.sched_yield()


def _done(message: bytes) -> bytes:
    """What a function returned, or raised."""
    try:
        function, *arguments = cloudpickle.loads(message)
        return packed(function(*arguments))
    except Exception as error:
        return packed(RuntimeError(f"{type(error).__name__}: {error}"))
