"""Where the shards of a posterior or of a policy are: in this process, or wherever an execution has them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Execution(Protocol):
    """Where shards live."""

    def each(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments; the answers, in the order of the numbers."""

    def foresee(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Say which call is likely to come after the next one, so that one message may do for both."""


class Place(Protocol):
    """Where executions come from."""

    def shards(self, makers: Sequence[Callable[[], Any]]) -> Execution:
        """Shards, by functions that make them."""

    def close(self) -> None:
        """Let go of what was started for them; it is started again where it is needed again."""

    @property
    def portable(self) -> Any:
        """What `place` makes such a place of in another process."""


class InProcess:
    """Shards in this process, one after the other.

    Parameters
    ----------
    makers
        One function a shard, that makes it.
    """

    def __init__(self, makers: Sequence[Callable[[], Any]]):
        self._shards = [make() for make in makers]

    def each(self, numbers: Sequence[int], method: str, *arguments: Any) -> list[Any]:
        """Call a method of some shards with the same arguments."""
        return [getattr(self._shards[number], method)(*arguments) for number in numbers]

    def foresee(self, numbers: Sequence[int], method: str, *arguments: Any) -> None:
        """Nothing is saved here."""


class Here:
    """In this process."""

    portable = None

    def shards(self, makers: Sequence[Callable[[], Any]]) -> Execution:
        """Shards, one after the other."""
        return InProcess(makers)

    def close(self) -> None:
        """Nothing was started."""


def place(on: Any) -> Place:
    """Where shards live: this process for None, or the workers of the cluster that `on` names.

    The layer of executions is above this one, so that it is found by its name, and only by who asks for it.
    """
    if on is None:
        return Here()
    found: Place = importlib.import_module("scalable_bandits.execution.shards").Place(on)
    return found
