"""Where the shards of a posterior or a policy are: in this process, on its threads, or wherever an executor has them.

A shard is an object that computes a part of a posterior: some tiles, some cells, or one prior's model. It is made by
a function, is told what changes it (`tell`, in the same order everywhere) and answers questions (`ask`).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Protocol

from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.state import State

Maker = Callable[[], Any]


class Shard(Protocol):
    """What is asked of a shard.

    Attributes
    ----------
    CHANGING : frozenset
        Names of the methods whose calls change later answers. A shard that is lost is made again by repeating them.
    ASKING : frozenset
        Names of those that do so where `ask_is_stateful`.
    """

    CHANGING: ClassVar[frozenset[str]]
    ASKING: ClassVar[frozenset[str]]

    @property
    def ask_is_stateful(self) -> bool:
        """Whether questions change the last digits of later answers."""

    def state(self) -> State:
        """Everything that a shard fresh from its maker needs to go on in the place of this one."""

    def restore(self, state: State) -> None:
        """Take the state of another shard of the same maker."""


class Shards(Protocol):
    """The shards of one posterior, numbered from 0."""

    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        """Have some shards (all for None) call a method that changes them, before they answer their next question."""

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; the answers, in the order of the numbers."""

    def prefetch(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Name the question that is likely to follow the next one, so that one message can carry both answers."""

    def restore(self, states: Mapping[int, State]) -> None:
        """Take states of shards, by number."""

    def close(self) -> None:
        """Release what is held for the shards elsewhere; it is made again where they are asked again."""


class Executor(Protocol):
    """Where shards live.

    Attributes
    ----------
    threads : int
        Threads of this process that may work at the same time.
    remote : bool
        Whether shards live in other processes.
    """

    threads: int
    remote: bool

    def shards(self, makers: Sequence[Maker], name: str, source: Callable[[int], State] | None = None) -> Shards:
        """Shards by the functions that make them.

        Parameters
        ----------
        makers
            One function a shard.
        name
            Name of what they compute, for a dashboard.
        source
            State of a shard by its number, where the caller knows it; shards are asked for theirs otherwise.
        """

    def close(self) -> None:
        """Release what was started; it is started again where it is needed again."""

    @property
    def portable(self) -> Any:
        """What `executor` makes such an executor of in another process."""


class LocalShards:
    """Shards of this process, one after the other.

    Parameters
    ----------
    makers
        One function a shard, that makes it.
    """

    def __init__(self, makers: Sequence[Maker]):
        self._shards = [make() for make in makers]

    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        """Call a method of some shards."""
        self.ask(range(len(self._shards)) if numbers is None else numbers, method, *arguments)

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments."""
        return [getattr(self._shards[number], method)(*arguments) for number in numbers]

    def prefetch(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Nothing is saved here."""

    def restore(self, states: Mapping[int, State]) -> None:
        """Restore some shards."""
        for number, state in states.items():
            self._shards[number].restore(state)

    def close(self) -> None:
        """Nothing is held elsewhere."""


class ThreadedShards(LocalShards):
    """Shards of this process, several at a time.

    Parameters
    ----------
    makers
        One function a shard, that makes it.
    pool
        Threads that call them.
    """

    def __init__(self, makers: Sequence[Maker], pool: InThreads):
        self._threads = pool
        super().__init__(makers)

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        calls = [getattr(self._shards[number], method) for number in numbers]
        if len(calls) == 1:
            return [calls[0](*arguments)]
        with one_thread:
            running = [self._threads.pool.submit(call, *arguments) for call in calls]
            failures = [future.exception() for future in running]  # of all: none may run on when an error is raised
        for failure in failures:
            if failure is not None:
                raise failure
        return [future.result() for future in running]


class InProcess:
    """Executor that works on one shard after the other, in the calling thread."""

    threads = 1
    remote = False
    portable = None

    def shards(self, makers: Sequence[Maker], name: str, source: Callable[[int], State] | None = None) -> LocalShards:
        """Shards, one after the other."""
        return LocalShards(makers)

    def close(self) -> None:
        """Nothing was started."""


class InThreads:
    """Executor that works on shards in threads of this process: no copies and no messages.

    Parameters
    ----------
    count
        Number of threads.
    """

    remote = False

    def __init__(self, count: int):
        self.threads = count
        self._pool: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()

    def __reduce__(self) -> Any:
        return type(self), (self.threads,)

    @property
    def portable(self) -> str:
        """Its name."""
        return f"threads:{self.threads}"

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads, started when they are first needed."""
        with self._guard:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="shards")
            return self._pool

    def shards(
        self, makers: Sequence[Maker], name: str, source: Callable[[int], State] | None = None
    ) -> ThreadedShards:
        """Shards, several at a time."""
        return ThreadedShards(makers, self)

    def close(self) -> None:
        """End the threads."""
        with self._guard:
            if self._pool is not None:
                self._pool.shutdown()
            self._pool = None


_elsewhere: list[Callable[[Any], Executor]] = []


def register(factory: Callable[[Any], Executor]) -> None:
    """Name the function that makes the executors of other processes, from what `on` says."""
    _elsewhere[:] = [factory]


def executor(on: Any) -> Executor:
    """Executor that `on` names: this process for None, its threads for "threads:4", a cluster for all others.

    Raises
    ------
    ValueError
        If it names nothing.
    """
    if on is None:
        return InProcess()
    count = threads_of(on)
    return _elsewhere[0](on) if count is None else InThreads(count)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(on: Any) -> int | None:
    """Return the number of threads of this process that `on` asks for.

    Parameters
    ----------
    on
        Any value of the argument `on`.

    Returns
    -------
    int or None
        N for "threads:N", the number of processors for "threads", None for everything else.

    Examples
    --------
    >>> threads_of("threads:4")
    4
    """
    match = re.fullmatch(r"threads(?::([1-9][0-9]*))?", on) if isinstance(on, str) else None
    return None if match is None else int(match[1] or cores())
