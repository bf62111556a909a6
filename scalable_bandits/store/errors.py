"""Errors of the store. A full disk or a missing permission remains an `OSError`, with the path in its message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from zarr.errors import BaseZarrError


class StoreError(RuntimeError):
    """Base class of the errors of the store."""


class StoreLocked(StoreError):
    """Error: another process has the run open for writing."""


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

    An `OSError` keeps its number. Errors caused by unreadable metadata, and errors of icechunk, become
    `StoreDamaged`.
    """
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError, BaseZarrError, AttributeError, TypeError, KeyError) as error:
        raise StoreDamaged(f"store {name}: {doing} failed: its metadata cannot be read ({error})") from error
    except OSError as error:
        if error.errno is None or str(error).startswith("store "):
            raise
        text = f"store {name}: {doing} failed: {error.strerror or error}"
        raise OSError(error.errno, text) from error  # which picks FileNotFoundError and the like
    except BaseException as error:  # a panic in icechunk's Rust code is not an Exception
        if type(error).__module__.partition(".")[0] != "icechunk" and type(error).__name__ != "PanicException":
            raise
        text = " ".join(str(error).replace("|", " ").split())
        raise StoreDamaged(f"store {name}: {doing} failed: {text}") from error
