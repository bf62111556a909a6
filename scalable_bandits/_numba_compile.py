"""The decorator of all compiled functions, with numba's cache wherever compiled code can be stored."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's `njit` with the given options, without the cache where it has no folder that can be written.

    Numba raises RuntimeError for such a function, on import; without the cache, each process compiles again.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
        _warn()
        return numba.njit(**options)(function)

    return compiled


def plain(compiled: Any) -> Callable[..., Any]:
    """Return the function that was compiled, for where its compilation would take longer than it does."""
    function: Callable[..., Any] = getattr(compiled, "py_func", compiled)
    return function


@functools.cache
def _warn() -> None:
    """Say once a process where compiled code would be stored."""
    text = (
        f"compiled code cannot be stored in {Path(__file__).parent} or the user's cache folder: every process compiles "
        "again, which can take minutes; set NUMBA_CACHE_DIR to a folder that can be written"
    )
    warnings.warn(text, stacklevel=2)
