"""Mending what a writer that died, or a disk, left behind."""

from __future__ import annotations

import numpy as np

from scalable_bandits.store import checkpoints
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.layout import ROUND
from scalable_bandits.store.pending import NONE
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
    count = store._count()
    try:
        good = store._load(data, count)
    except StoreDamaged:
        if not recover:
            raise
        _give_up(store, count, count // store.chunk * store.chunk)
        data, good = b"", 0
    if good < len(data):
        store._journal.cut(good)
        store.repairs.append(f"a torn tail of {len(data) - good} bytes was cut; {len(store)} rounds are there")
    store._logged, store._noted = len(store._rows), list(store.pending)
    _lengthen(store)
    end = _intact(store, thorough=recover)
    if end < store._folded:
        if not recover:
            missing = StoreDamaged("a chunk is missing")
            raise StoreDamaged(store._damage(_worst(store, end), end, store._folded, missing))
        _give_up(store, len(store), end)
    if not good or end < store._folded or store.repairs:
        store._restart_journal(store.orderly)


def _lengthen(store: RunWriter) -> None:
    """Give arrays whose metadata was lost, or that were being trimmed, room for the chunks that are there."""
    if any(store._array(field.name).shape[0] < store._folded for field in (ROUND, *store.fields)):
        store._resize(store._folded)
        store.repairs.append("arrays of several lengths were given one")
    chunks = store._folded // store.chunk
    for first in range(store.location.first_missing(ROUND.name, chunks) * store.chunk, store._folded, store.chunk):
        if store.first_unreadable(ROUND.name, first, first + store.chunk) == first:
            store._array(ROUND.name)[first : first + store.chunk] = np.arange(first + 1, first + store.chunk + 1)
            store.repairs.append(f"the numbers of rounds {first + 1} to {first + store.chunk} were written again")
    if len(store._rows):
        ends = {field.name: store._array(field.name).shape[0] for field in (ROUND, *store.fields)}
        start = store._folded
        store._unpublished = any(store.first_unreadable(n, start, e) < e for n, e in ends.items() if e > start)


def _intact(store: RunWriter, thorough: bool) -> int:
    """Rounds in whole chunks before the first that is missing (thorough: or unreadable)."""
    end = store._folded
    for field in store.fields:
        end = min(end, store.location.first_missing(field.name, end // store.chunk) * store.chunk)
        if thorough:
            end = min(end, store.first_unreadable(field.name, 0, end))
    return end


def _worst(store: RunWriter, end: int) -> str:
    """A field whose rounds after `end` are not there."""
    return next(f.name for f in store.fields if store.first_unreadable(f.name, end, end + store.chunk) == end)


def _give_up(store: RunWriter, count: int, end: int) -> None:
    """Go back from `count` to `end` rounds, all files being copied first."""
    copy = store.location.set_aside()
    store._set_count(end)
    store._folded, store._rows, store._logged = end, Rows(store.fields), 0
    store.pending, store._noted, store.proposals = [], [], NONE
    checkpoints.remove(store.location)
    store.repairs.append(f"{count - end} rounds after round {end} were given up; all files as they were are in {copy}")
