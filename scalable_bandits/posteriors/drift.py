"""How far posterior means can have moved since a tile was last looked at.

An observation moves the mean at x by at most s(x) times |residual| s(p) / (noise + s^2(p)): the move is a
function of the RKHS of the posterior covariance, of that norm. Standard deviations only shrink, so the
moves of several rounds add up to a bound from any earlier s(x); over a whole window the norm of the
total move is known exactly (`Window.drift`), and smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import State, arrays


class Drift:
    """Room of the means of sleeping tiles, in their own standard deviations.

    Attributes
    ----------
    total : float
        Sum of the moves of all rounds; no tile's room grows faster.
    """

    def __init__(self, tiles: int):
        self.total = 0.0
        self._window = 0.0  # sum of the moves since the window opened
        self._begun = False  # whether the open window has an observation, be it one that moved nothing
        self._closed = 0.0  # sum of the exact norms of the closed windows
        self._recent = np.zeros(tiles, dtype=np.bool_)  # fell asleep within the open window
        self._slept_at = np.zeros(tiles)  # reading of its clock as a tile fell asleep

    def move(self, norm: float) -> None:
        """Take note of one round's move."""
        self.total += norm
        self._window += norm
        self._begun = True

    def fold(self, norm: float) -> None:
        """Close the window, over which the move had this norm in all."""
        self._closed += norm
        spent = self._window - self._slept_at[self._recent]
        self._slept_at[self._recent] = self._closed - spent
        self._recent[:] = False
        self._window, self._begun = 0.0, False

    def sleep(self, tiles: NDArray[np.bool_]) -> None:
        """Start the clocks of tiles (a mask) that fall asleep."""
        self._recent[tiles] = self._begun
        self._slept_at[tiles] = self._window if self._begun else self._closed

    def state(self) -> State:
        """All that is held, as arrays."""
        return arrays(
            total=self.total, window=self._window, begun=self._begun, closed=self._closed, recent=self._recent,
            slept_at=self._slept_at,
        )  # fmt: skip

    def restore(self, state: State) -> None:
        """Hold what `state` gave."""
        self.total, self._window = float(state["total"]), float(state["window"])
        self._begun, self._closed = bool(state["begun"]), float(state["closed"])
        self._recent[:], self._slept_at[:] = state["recent"], state["slept_at"]

    def room(self, open_norm: float) -> Floats:
        """Bound |mean now - mean then| / s(x) of each tile, (tiles,); `open_norm` is the open window's."""
        clock = np.where(self._recent, self._window, self._closed + open_norm)
        return clock - self._slept_at
