"""Mending what a writer that died, or a disk, left behind."""

from __future__ import annotations

from typing import Any

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.locations import COMMITTED
from scalable_bandits.store.rows import Rows
from scalable_bandits.store.writer import RunWriter


def repair(store: RunWriter, recover: bool) -> None:
    """Bring a store just opened for writing into order; what was done is added to its `repairs`.

    Raises
    ------
    StoreDamaged
        If committed rounds cannot be read and `recover` is not given.
    """
    left = store.location.sweep()
    if left:
        store.repairs.append(f"{left} half-written file(s) were removed")
    data = store._journal.read()
    good = store._load(data, store._count())
    if good < len(data):
        store._journal.cut(good)
        store.repairs.append(f"a torn tail of {len(data) - good} bytes was cut; {len(store)} rounds are there")
    store._logged, store._noted = len(store._rows), list(store.pending)
    end = _intact(store, thorough=recover)
    if end < store._folded:
        if not recover:
            missing = StoreDamaged("a chunk is missing")
            raise StoreDamaged(store._damage(_worst(store, end), end, store._folded, missing))
        _give_up(store, end)
    if not good or end < store._folded or store.repairs:
        store._restart_journal(store.orderly)


def _intact(store: RunWriter, thorough: bool) -> int:
    """Rounds in whole chunks before the first that is missing (thorough: or unreadable)."""
    end = store._folded
    for field in store.fields:
        array: Any = store._group[field.name]
        if thorough or array.nchunks_initialized < end // store.chunk:
            end = min(end, store.first_unreadable(field.name, 0, end))
    return end


def _worst(store: RunWriter, end: int) -> str:
    """A field whose rounds after `end` are not there."""
    return next(f.name for f in store.fields if store.first_unreadable(f.name, end, end + store.chunk) == end)


def _give_up(store: RunWriter, end: int) -> None:
    """Go back to `end` rounds, all files being copied first."""
    copy = store.location.set_aside()
    lost = len(store) - end
    store._group[COMMITTED][...] = end  # type: ignore[index]
    store._folded, store._rows, store._logged = end, Rows(store.fields), 0
    store.pending, store._noted = [], []
    store.repairs.append(f"{lost} rounds after round {end} were given up; all files as they were are in {copy}")
