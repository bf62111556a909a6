"""Ctrl-C that waits until a policy has learned a round or a block, and until it was handed to the store."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self


class Interrupts:
    """Handler of Ctrl-C, a context manager: the first within `shield` raises KeyboardInterrupt when the shield ends.

    A second one raises at once, and the policy may be incomplete then. Outside the main thread, or where the program
    has its own handler of SIGINT, nothing is shielded.

    Attributes
    ----------
    active : bool
        Whether it handles Ctrl-C.
    over : bool
        Whether the run has been interrupted: Ctrl-C has no effect any more, while its programs end and its result is
        made.
    """

    def __init__(self) -> None:
        self.active = self.over = False
        self._pressed = False
        self._unraisable: Any = None  # hook that was replaced
        self._shields = 0
        self._waits = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            self.active = True
        return self

    def __exit__(self, *_: object) -> None:
        if self.active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._unraisable is not None:
            sys.unraisablehook, self._unraisable = self._unraisable, None

    def _interrupt(self, *_: Any) -> None:
        if self.over:
            return
        if self._pressed and self._unraisable is None:  # in a callback from C it can only be printed
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._print_others
        self._pressed = True
        if self._shields and not self._waits:
            self._waits = True
            return
        raise KeyboardInterrupt

    def _print_others(self, unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            self._unraisable(unraisable)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let the first Ctrl-C wait until the end of this context, where it raises KeyboardInterrupt."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._waits and not self._shields:
            self._waits = False
            raise KeyboardInterrupt
