"""Cache of covariance columns that are computed before they are needed.

The column K_l(p, .) of a candidate p on all tiles is computed together with those of other candidates of large index,
by one matrix product a tile. It is kept up to date until p is observed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.state import State, Stateful, number, value
from scalable_bandits.spaces import Indices


class ColumnCache(Stateful):
    """Covariance columns of some candidates.

    Parameters
    ----------
    slots
        Number of columns that there is room for.
    tiles, width
        Number of tiles held here, and of candidates in each.
    most
        Largest number of columns that are computed together.

    Attributes
    ----------
    cache : ndarray
        (slots, tiles, width) columns.
    most : int
        Largest number of columns that are computed together.
    slots : dict
        Slot of each candidate's column, by position.
    """

    def __init__(self, slots: int, tiles: int, width: int, most: int):
        self.cache = np.zeros((slots, tiles, width))
        self.slots: dict[int, int] = {}
        self._free = list(range(slots))
        self.most = most
        self._batch = max(most // 4, 1)
        self._latest: set[int] = set()  # positions of the latest batch

    def batch_size(self, observed: CollapsedObservations) -> int:
        """Return how many columns to compute together.

        Twice as many as before if most candidates of the latest batch were observed since, half as many if few were.
        """
        used = sum(p in observed for p in self._latest)
        if 2 * used > len(self._latest):
            self._batch = min(2 * self._batch, self.most)
        elif 8 * used < len(self._latest):
            self._batch = max(self._batch // 2, self.most // 8)
        return self._batch

    @property
    def free(self) -> int:
        """Number of free slots."""
        return len(self._free)

    @property
    def positions(self) -> Indices:
        """Positions (k,) of the candidates with a column."""
        return np.fromiter(self.slots, dtype=np.int64, count=len(self.slots))

    def lowest(self, count: int, index: Floats) -> list[int]:
        """Return the `count` positions with a column whose index, of all candidates (n,), is smallest."""
        held = self.positions
        return held[np.lexsort((held, index[held]))[: max(count, 0)]].tolist()

    def assign(self, chosen: Indices) -> list[int]:
        """Assign slots to the columns of a new batch of positions (k,), and return them."""
        slots = [self._free.pop() for _ in range(len(chosen))]
        self.slots.update(zip(chosen.tolist(), slots, strict=True))
        self._latest = set(chosen.tolist())
        return slots

    def evict(self, positions: Sequence[int]) -> None:
        """Remove the columns of some positions."""
        self._free += [self.slots.pop(p) for p in positions]

    def before_restore(self, state: State) -> None:
        self.slots = dict(zip(state["cached"].tolist(), state["slots"].tolist(), strict=True))

    def _columns(self) -> Floats:
        return self.cache[list(self.slots.values())]

    def _restore_columns(self, columns: Floats) -> None:
        self.cache[list(self.slots.values())] = columns

    def _restore_free(self, slots: Indices) -> None:
        self._free = slots.tolist()

    def _restore_latest(self, positions: Indices) -> None:
        self._latest = set(positions.tolist())

    STATE = (
        value("cache", "(k, tiles, width)", np.float64, _columns, _restore_columns),
        value("cached", "(k,)", None, lambda cache: list(cache.slots), lambda cache, cached: None),
        value("slots", "(k,)", None, lambda cache: list(cache.slots.values()), lambda cache, slots: None),
        value("free", "(f,)", None, lambda cache: cache._free, _restore_free),
        number("_batch", int),
        value("guessed", "(b,)", None, lambda cache: sorted(cache._latest), _restore_latest),
    )
