"""One thread at a time in an object's methods."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Owner = TypeVar("Owner", bound=Any)  # has a `_lock`
Result = TypeVar("Result")


class Lock:
    """Reentrant lock of one object; a deep or pickled copy of it is a lock of its own.

    Attributes
    ----------
    held : RLock
        The lock, a context manager.
    """

    def __init__(self) -> None:
        self.held = threading.RLock()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return type(self), ()


def locked(method: Callable[Concatenate[Owner, P], Result]) -> Callable[Concatenate[Owner, P], Result]:
    """Let one thread at a time call the methods of an object that are decorated so."""

    def alone(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with self._lock.held:
            return method(self, *args, **kwargs)

    functools.update_wrapper(alone, method)
    return alone
