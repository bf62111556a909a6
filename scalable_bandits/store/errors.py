"""What can be wrong with a store. Full disks and forbidden folders stay `OSError`, with the path in the message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from zarr.errors import BaseZarrError


class StoreError(RuntimeError):
    """Base of the store's own errors."""


class StoreLocked(StoreError):
    """Another writer holds the run."""


class StoreDamaged(StoreError):
    """Something that was committed cannot be read any more."""


class SpecificationDiffers(ValueError):
    """The run in the store was made by another specification."""


def one_line(error: Exception) -> str:
    """Return the message of an exception in one line; its class if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def store_errors(name: str, doing: str) -> Iterator[None]:
    """Say of an error which store it happened to and what was being done.

    The class and number of an `OSError` stay; garbage in the metadata, and what icechunk cannot read or write, becomes
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
        raise type(error)(error.errno, text) from error
    except BaseException as error:  # a panic of icechunk's is no Exception
        if type(error).__module__.partition(".")[0] != "icechunk" and type(error).__name__ != "PanicException":
            raise
        text = " ".join(str(error).replace("|", " ").split())
        raise StoreDamaged(f"store {name}: {doing} failed: {text}") from error
