"""Copying a run, also while it is written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from scalable_bandits import checks
from scalable_bandits.store.errors import store_errors
from scalable_bandits.store.files import sync_directory
from scalable_bandits.store.ledger import copy_database
from scalable_bandits.store.locations import ACKNOWLEDGED, COMMITTED, DATABASE, LOCK, OWNER, Folder, locate
from scalable_bandits.store.observations import ObservationStore

_OWN = (LOCK, OWNER, ACKNOWLEDGED)  # files of the process that writes, not of the run


def copy(source: Any, target: str | Path) -> None:
    """Copy a run in a folder to another folder, whole also while it is being written.

    A copy that other programs make of a run that is being written may have files of several moments; it is whole, or
    opening it says what is missing.

    Parameters
    ----------
    source
        Folder of the run.
    target
        Folder to be made.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    FileExistsError
        If the target exists.
    StoreDamaged
        If the run is damaged.
    ValueError
        If the source is no folder.

    Examples
    --------
    >>> import tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp()
    >>> policy = sb.RandomSearch(sb.Arms(3))
    >>> with sb.record(policy, f"{folder}/run.zarr"):
    ...     policy.tell(1, 0.5)
    ...     sb.copy(f"{folder}/run.zarr", f"{folder}/copy.zarr")
    >>> len(sb.ObservationStore.open(f"{folder}/copy.zarr"))
    1
    """
    place, path = locate(source), Path(target)
    if not isinstance(place, Folder):
        checks.refuse("source", place.name, "a run in a folder")
    if path.exists():
        raise FileExistsError(f"target: {path} exists already; name another folder")
    ObservationStore.open(place)  # raises an error if it is damaged, or no run
    with store_errors(place.name, "copying it"):
        (path / COMMITTED).mkdir(parents=True)
        copy_database(place.path, path)  # first: chunks that come later are not counted
        for key in place.files():
            if not key.endswith(".partial") and not key.startswith(DATABASE) and key not in _OWN:
                (path / key).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(place.path / key, path / key, follow_symlinks=False)
        (path / LOCK).touch()
        sync_directory(path)
