"""Storage of runs in SQLite and zarr."""

from __future__ import annotations

from scalable_bandits.store.datasets import load as load
from scalable_bandits.store.datasets import save as save
from scalable_bandits.store.errors import SpecificationDiffers as SpecificationDiffers
from scalable_bandits.store.errors import StoreDamaged as StoreDamaged
from scalable_bandits.store.errors import StoreError as StoreError
from scalable_bandits.store.errors import StoreLocked as StoreLocked
from scalable_bandits.store.observations import Durability as Durability
from scalable_bandits.store.observations import ObservationStore as ObservationStore
from scalable_bandits.store.reader import StoredRun as StoredRun
from scalable_bandits.store.rows import Columns as Columns
from scalable_bandits.store.rows import Field as Field
