"""Children that a user's function forks: they end where they leave the function, and never go on with the run."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from types import TracebackType


class ForkedChildrenEnd:
    """Context in which a user's function is called: a child that was forked in it ends where it would leave it.

    The child's exit code is that of its SystemExit, 0 after a return, and 1 after another error, which it prints. Like
    a child of `multiprocessing`, it ends without the handlers, locks and open files that belong to its parent.
    """

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            _end(error)


def _end(error: BaseException | None) -> None:
    """End this process with the exit code that the interpreter would give it."""
    code = error.code if isinstance(error, SystemExit) else error
    if isinstance(code, BaseException):
        traceback.print_exception(code)
    elif code is not None and not isinstance(code, int):  # sys.exit("a message")
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit((0 if code is None else code if isinstance(code, int) else 1) & 0xFF)
