"""Executors that hold the shards of a posterior or a policy, and those that use this process alone.

A shard is an object that computes a part of a posterior: some tiles, some cells, or one prior's model. It is made by a
function, receives the changes that concern it (`tell`, in the same order in every executor) and answers questions
(`ask`). A tell and a question are calls of the shard's own methods. For executors in other processes it also has

    changing         names (frozenset of str) of the methods that change later answers; if a shard is lost, their calls
                     are repeated in a new one
    state()          arrays from which a new shard of the same maker continues; not needed if the caller has the states
    restore(state)   restores a shard from such arrays
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from scalable_bandits.posteriors.state import State
from scalable_bandits.posteriors.threads import Threads

Maker = Callable[[], Any]
LOCAL = re.compile(r"(local|threads)(:[1-9][0-9]*)?")


class Shards(ABC):
    """The shards of one posterior, numbered from 0."""

    @abstractmethod
    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        """Have some shards (all for None) call a method that changes them before they answer their next question."""

    @abstractmethod
    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; return the answers in the order of the numbers."""

    @abstractmethod
    def restore(self, states: Mapping[int, State]) -> None:
        """Restore shards from their states by number."""

    @abstractmethod
    def add(self, number: int, maker: Maker) -> None:
        """Add the shard of the next number, unless an attempt that failed afterwards has added it already."""

    def prefetch(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:  # noqa: B027 - a hint
        """Announce the question that is likely to follow the next one, so that one message can bring both answers."""

    def here(self) -> Sequence[Any] | None:
        """Return the shards themselves, where they are in this process and one thread works on them; None elsewhere."""
        return None

    def close(self) -> None:  # noqa: B027 - shards of this process end with their owner
        """Delete the shards in other processes; later questions make them again."""


class Executor(Protocol):
    """Holder of shards.

    Attributes
    ----------
    threads : int
        Number of threads of this process that work at the same time.
    remote : bool
        Whether the shards are in other processes.
    """

    threads: int
    remote: bool

    def shards(self, makers: Sequence[Maker], name: str, source: Callable[[int], State] | None = None) -> Shards:
        """Return the shards that some functions make.

        Parameters
        ----------
        makers
            One function a shard.
        name
            Name of the shards, for a dashboard.
        source
            Function that returns the state of a shard by its number, if the caller has the states; the shards are asked
            for them otherwise.
        """

    def close(self) -> None:
        """Release the resources; later questions start them again."""

    @property
    def portable(self) -> Any:
        """Value of `on` from which `executor` makes such an executor in another process."""


class LocalShards(Shards):
    """Shards of this process.

    Parameters
    ----------
    makers
        One function a shard, which makes it.
    threads
        Threads that share the shards asked; one after the other is asked if not given.
    """

    def __init__(self, makers: Sequence[Maker], threads: Threads | None = None):
        self._shards = [make() for make in makers]
        self._threads = Threads() if threads is None else threads

    def tell(self, numbers: Sequence[int] | None, method: str, *arguments: Any) -> None:
        self.ask(range(len(self._shards)) if numbers is None else numbers, method, *arguments)

    def ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        def answers(first: int, stop: int) -> list[Any]:
            return [getattr(self._shards[number], method)(*arguments) for number in numbers[first:stop]]

        return [answer for run in self._threads.each(answers, 0, len(numbers)) for answer in run]

    def restore(self, states: Mapping[int, State]) -> None:
        for number, state in states.items():
            self._shards[number].restore(state)

    def add(self, number: int, maker: Maker) -> None:
        if number == len(self._shards):
            self._shards.append(maker())

    def here(self) -> Sequence[Any] | None:
        return self._shards if self._threads.count == 1 else None


class InProcess:
    """Executor of this process, without copies and messages.

    Parameters
    ----------
    threads
        Number of threads that work on the shards; the calling thread alone if not given.
    """

    remote = False

    def __init__(self, threads: int | None = None):
        self.threads = threads or 1
        self.portable = None if threads is None else f"threads:{threads}"
        self._threads = Threads(self.threads)

    def shards(self, makers: Sequence[Maker], name: str, source: Callable[[int], State] | None = None) -> LocalShards:
        """Return the shards that some functions make."""
        return LocalShards(makers, self._threads)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()


_factories: list[Callable[[Any], Executor]] = []


def register(factory: Callable[[Any], Executor]) -> None:
    """Register the function that makes the executors of other processes from `on`."""
    _factories[:] = [factory]


def executor(on: Any) -> Executor:
    """Return the executor that `on` names: this process for None, its threads for "threads:4", a cluster otherwise.

    Raises
    ------
    ValueError
        If `on` has no meaning.
    """
    threads = threads_of(on)
    return InProcess(threads) if on is None or threads is not None else _factories[0](on)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_local(on: Any) -> bool:
    """Return whether `on` names this process, its threads or worker processes of this machine, and nothing else.

    Parameters
    ----------
    on
        Any value of the argument `on`.

    Examples
    --------
    >>> is_local("local:4"), is_local("tcp://10.0.0.1:8786"), is_local("cluster.yaml")
    (True, False, False)
    """
    return on is None or (isinstance(on, str) and LOCAL.fullmatch(on) is not None)


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
