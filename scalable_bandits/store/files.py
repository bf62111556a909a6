"""Files that are durable: synced, replaced as a whole, and never through a symbolic link."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from scalable_bandits.store.errors import StoreDamaged


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a folder and its parents, durably."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def replace_file(path: Path, data: bytes | memoryview | Callable[[IO[bytes]], Any], synced: bool = True) -> None:
    """Replace a file as a whole: write a new file beside it, sync it, rename it; if this raises, the old one is there.

    The new file has the data, or what a function writes. Metadata that follow from other files need not be `synced`.
    """
    make_directory(path.parent)
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with aside.open("xb") as file:
            if callable(data):
                data(file)
            else:
                file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if synced:
        sync_directory(path.parent)


def refuse_links(root: Path) -> None:
    """Raise StoreDamaged if a folder of a run, or a file beside its database, is a symbolic link.

    A store is data from elsewhere: a link could lead a writer out of it.
    """
    inside = [*root.iterdir(), *(root / "committed").glob("*"), *(root / "inputs").glob("*")] if root.is_dir() else []
    for path in inside:
        if path.is_symlink():
            text = f"{path.relative_to(root)} is a symbolic link, which is not followed"
            raise StoreDamaged(f"store {root}: {text}; put what it points to in its place")
