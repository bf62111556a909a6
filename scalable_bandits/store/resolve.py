"""Conversion of a user's `store` argument (path, URL, zarr store) to a `Location`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore

from scalable_bandits import checks
from scalable_bandits.store.folder import Folder
from scalable_bandits.store.locations import Location
from scalable_bandits.store.objects import Objects


def locate(place: Any) -> Location:
    """Return the location of a path, a URL or a zarr store.

    Raises
    ------
    ValueError
        If the argument is anything else.
    """
    if isinstance(place, Location):
        return place
    if isinstance(place, LocalStore):
        return Folder(place.root)
    if isinstance(place, Store):
        return Objects(place, str(place))
    if isinstance(place, str) and "://" in place:
        scheme, _, rest = place.partition("://")
        return Folder(Path(rest)) if scheme == "file" else Objects(FsspecStore.from_url(place), place)
    if isinstance(place, str | os.PathLike):
        return Folder(Path(place))
    checks.refuse("store", place, "a path, a URL, or a zarr store")
