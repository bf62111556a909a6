"""Covariance columns computed before they are needed: which candidates have one, and where it is kept.

A column of a candidate p, K_l(p, .) on all tiles, is computed together with those of the most promising others, as
one matrix product a tile, and kept up to date until p is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import Indices


class ColumnCache:
    """Columns at hand.

    Parameters
    ----------
    slots
        How many there is room for.
    tiles, width
        Of the space, as far as it is held here.
    most
        Columns computed at a time, at the most.

    Attributes
    ----------
    cache : ndarray
        (slots, tiles, width).
    most : int
        As given.
    slots : dict
        Position of a candidate to its slot.
    """

    def __init__(self, slots: int, tiles: int, width: int, most: int):
        self.cache = np.empty((slots, tiles, width))
        self.slots: dict[int, int] = {}
        self._free = list(range(slots))
        self.most = most
        self._batch = max(most // 4, 1)
        self._guessed: set[int] = set()  # the last batch

    def batch_size(self, observed: CollapsedObservations) -> int:
        """Twice as many columns if most of the last batch were played since, half as many if few were."""
        played = sum(p in observed for p in self._guessed)
        if 2 * played > len(self._guessed):
            self._batch = min(2 * self._batch, self.most)
        elif 8 * played < len(self._guessed):
            self._batch = max(self._batch // 2, self.most // 8)
        return self._batch

    @property
    def free(self) -> int:
        """Columns for which there is room."""
        return len(self._free)

    def worst(self, count: int, promise: Floats) -> list[int]:
        """Positions of least promise (n,), so many of them."""
        held = self.positions
        return held[np.lexsort((held, promise[held]))[: max(count, 0)]].tolist()

    def book(self, chosen: Indices) -> list[int]:
        """Slots for the columns of positions, which are computed now."""
        slots = [self._free.pop() for _ in range(len(chosen))]
        self.slots.update(zip(chosen.tolist(), slots, strict=True))
        self._guessed = set(chosen.tolist())
        return slots

    def evict(self, positions: Sequence[int]) -> None:
        """Let go of some."""
        self._free += [self.slots.pop(p) for p in positions]

    @property
    def positions(self) -> Indices:
        """Whose columns are at hand, (k,)."""
        return np.fromiter(self.slots, dtype=np.int64, count=len(self.slots))

    def state(self) -> State:
        """All that is held, as arrays."""
        used = list(self.slots.values())
        return arrays(
            cache=self.cache[used], cached=list(self.slots), slots=used, free=self._free, batch=self._batch,
            guessed=sorted(self._guessed),
        )  # fmt: skip

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        slots = state["slots"].astype(np.int64).tolist()
        self.slots = dict(zip(state["cached"].astype(np.int64).tolist(), slots, strict=True))
        self.cache[slots] = state["cache"]
        self._batch = int(state["batch"])
        self._free, self._guessed = state["free"].tolist(), set(state["guessed"].astype(np.int64).tolist())
