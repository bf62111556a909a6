"""Cache of covariance columns that are computed before they are needed.

The column K_l(p, .) of a candidate p on all tiles is computed together with those of other candidates of large index,
by one matrix product a tile. It holds until the window is folded.
"""

from __future__ import annotations

import numpy as np

from scalable_bandits.spaces import Indices


class TileColumns:
    """Covariance columns of some candidates.

    Parameters
    ----------
    slots
        Number of columns that there is room for.
    tiles, width
        Number of tiles held here, and of candidates in each.

    Attributes
    ----------
    cache : ndarray
        (slots, tiles, width) columns.
    slots : dict
        Slot of each candidate's column, by position; the column computed first comes first.
    """

    def __init__(self, slots: int, tiles: int, width: int):
        self.cache = np.zeros((slots, tiles, width))
        self.clear()

    def clear(self) -> None:
        """Remove all columns."""
        self.slots: dict[int, int] = {}
        self._free = list(range(len(self.cache)))

    def assign(self, chosen: Indices) -> list[int]:
        """Return slots for the columns of positions (k,), in the place of the oldest columns if there is no room."""
        for p in list(self.slots)[: max(len(chosen) - len(self._free), 0)]:
            self.remove(p)
        slots = [self._free.pop() for _ in range(len(chosen))]
        self.slots.update(zip(chosen.tolist(), slots, strict=True))
        return slots

    def remove(self, p: int) -> None:
        """Remove the column of a position."""
        self._free.append(self.slots.pop(p))
