"""Executors that hold the shards of a posterior or a policy, and those that use this process alone.

A shard is an object that computes a part of a posterior: some tiles, some cells, or one prior's model. It follows from
the specification, the points in the order of their numbers, and the observations, and is made from these by a `Source`:
at first, and again if it is lost. A shard is told of changes and asked questions by calls of its own methods:

    shards.tell(numbers, PriorShard.observe_round, candidate, y, noise_variance, t)   changes later answers
    shards.ask(numbers, PriorShard.propose, width, t, allowed, pending)               changes nothing, in no digit
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from scalable_bandits.posteriors.threads import ThreadTeam

Shard = TypeVar("Shard")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
Source = Callable[[int], Callable[[], Shard]]  # from a shard's number to a function that makes it as it is now
LOCAL = re.compile(r"(local|threads)(:[1-9][0-9]*)?")


class Call(NamedTuple):
    """A method of shards and its arguments."""

    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def on(self, shard: Any) -> Any:
        """Return the answer of a shard."""
        return self.method(shard, *self.arguments, **self.named)


def made(make: Callable[[], Shard], changes: Sequence[Call]) -> Shard:
    """Make a shard and call the methods that change it to what it is now."""
    shard = make()
    for change in changes:
        change.on(shard)
    return shard


class Shards(Generic[Shard]):
    """The shards of one posterior, numbered from 0, in this process; those of a `ShardPool` are on workers.

    Parameters
    ----------
    source, count
        Source of the shards, and their number.
    threads
        Threads that share the shards asked; one after the other is asked if not given.
    """

    def __init__(self, source: Source[Shard], count: int, threads: ThreadTeam | None = None):
        self._source, self._threads = source, ThreadTeam() if threads is None else threads
        self._shards = [source(number)() for number in range(count)]

    def tell(
        self, numbers: Sequence[int] | None, method: Callable[Concatenate[Shard, Arguments], object],
        *arguments: Arguments.args, **named: Arguments.kwargs,
    ) -> Call:  # fmt: skip
        """Have some shards (all for None) call a method that changes them before they answer their next question.

        The source makes shards with the change from now on. The caller does not change the arguments later. Returns the
        call, for sources that store changes.
        """
        call = Call(method, arguments, named)
        self.tell_call(numbers, call)
        return call

    def ask(
        self, numbers: Sequence[int], method: Callable[Concatenate[Shard, Arguments], Returned],
        *arguments: Arguments.args, **named: Arguments.kwargs,
    ) -> list[Returned]:  # fmt: skip
        """Call a method of some shards, which does not change them; return the answers in the order of the numbers."""
        return self.ask_call(numbers, Call(method, arguments, named))

    def tell_call(self, numbers: Sequence[int] | None, call: Call) -> None:
        """Do what `tell` does with a call."""
        self.ask_call(range(len(self._shards)) if numbers is None else numbers, call)

    def ask_call(self, numbers: Sequence[int], call: Call) -> list[Any]:
        """Do what `ask` does with a call."""
        (method, arguments, named), shards = call, self._shards

        def answers(first: int, stop: int) -> list[Any]:
            return [method(shards[number], *arguments, **named) for number in numbers[first:stop]]

        if self._threads.count == 1:
            return answers(0, len(numbers))
        return [answer for run in self._threads.each(answers, 0, len(numbers)) for answer in run]

    def add(self, number: int) -> None:
        """Add the shard of the next number, or make that of the last one again."""
        self._shards[number:] = [self._source(number)()]

    def renew(self) -> None:
        """Make all shards again: the source makes others than before."""
        self._shards = [self._source(number)() for number in range(len(self._shards))]

    def here(self) -> Sequence[Shard] | None:
        """Return the shards themselves, where they are in this process and one thread works on them; None elsewhere."""
        return self._shards if self._threads.count == 1 else None

    def close(self) -> None:
        """Delete the shards in other processes; later questions make them again."""


class Executor(Protocol):
    """Holder of shards.

    Attributes
    ----------
    threads : int
        Number of threads of this process that work at the same time.
    remote : bool
        Whether the shards are in other processes, and may be lost.
    """

    threads: int
    remote: bool

    def shards(self, source: Source[Shard], count: int, name: str) -> Shards[Shard]:
        """Return shards.

        Parameters
        ----------
        source
            Source of the shards.
        count
            Number of shards.
        name
            Name of the shards, for a dashboard.
        """

    def each(
        self, function: Callable[[Any, Any], Returned], shared: Any, each: Sequence[Any], done: Callable[[], object]
    ) -> list[Returned]:
        """Return `function(shared, one)` for each one of some arguments, in their order; the function has no state.

        Parameters
        ----------
        function
            Function of a module that workers can import.
        shared
            First argument of all calls, which a worker gets once.
        each
            Second arguments, k of them, such as numbers.
        done
            Function that is called when a value is there, perhaps in another thread.
        """

    def close(self) -> None:
        """Release the resources; later questions start them again."""

    @property
    def portable(self) -> Any:
        """Value of `on` from which `executor` makes such an executor in another process."""


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
        self._threads = ThreadTeam(self.threads)

    def shards(self, source: Source[Shard], count: int, name: str) -> Shards[Shard]:
        """Return shards; see `Executor`."""
        return Shards(source, count, self._threads)

    def each(
        self, function: Callable[[Any, Any], Returned], shared: Any, each: Sequence[Any], done: Callable[[], object]
    ) -> list[Returned]:
        """Return the values of a function; see `Executor`."""

        def values(first: int, stop: int) -> list[Returned]:
            found = []
            for one in each[first:stop]:
                found.append(function(shared, one))
                done()
            return found

        return [value for run in self._threads.each(values, 0, len(each)) for value in run]

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
