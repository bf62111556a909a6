"""Errors of the store. A full disk or a missing permission remains an `OSError`, with the path in its message."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zarr.errors import BaseZarrError

_SQLITE = {"FULL": errno.ENOSPC, "IOERR": errno.EIO, "READONLY": errno.EROFS, "CANTOPEN": errno.EACCES}


class StoreError(RuntimeError):
    """Base class of the errors of the store."""


class StoreLocked(StoreError):
    """Error: another process has the run open for writing.

    Parameters
    ----------
    message
        Message of the error.
    owner
        Record of that process, as far as it is known.
    """

    def __init__(self, message: str, owner: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.owner = owner


class StoreDamaged(StoreError):
    """Error: something that was committed can no longer be read."""


class SpecificationDiffers(ValueError):
    """Error: the run in the store was made by another specification."""


def one_line(error: Exception) -> str:
    """Return the message of an exception in one line; its class if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def store_errors(name: str, doing: str) -> Iterator[None]:
    """Add to an error the name of the store and what was being done.

    An `OSError` keeps its number, and SQLite's errors of the disk become one. Errors caused by unreadable metadata, and
    other errors of SQLite, become `StoreDamaged`.
    """
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError, BaseZarrError, AttributeError, TypeError, KeyError) as error:
        raise StoreDamaged(f"store {name}: {doing} failed: its metadata cannot be read ({error})") from error
    except sqlite3.Error as error:
        kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").partition("_")[0]
        text = f"store {name}: {doing} failed: {one_line(error)}"
        if kind in _SQLITE:
            raise OSError(_SQLITE[kind], text) from error
        raise (StoreError if kind in ("BUSY", "LOCKED") else StoreDamaged)(text) from error
    except OSError as error:
        if error.errno is None or str(error).startswith("store ") or f"] store {name}" in str(error):
            raise
        text = f"store {name}: {doing} failed: {error.strerror or error}"
        raise OSError(error.errno, text) from error  # which picks FileNotFoundError and the like
