"""Storage of runs in SQLite and zarr."""

from __future__ import annotations

from scalable_bandits.store.datasets import load, save
from scalable_bandits.store.errors import SpecificationDiffers, StoreDamaged, StoreError, StoreLocked
from scalable_bandits.store.observations import Durability, ObservationStore
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.store.rows import Columns, Field

__all__ = [
    "Columns",
    "Durability",
    "Field",
    "ObservationStore",
    "SpecificationDiffers",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StoredRun",
    "load",
    "save",
]
