"""States written by earlier versions."""

from __future__ import annotations

import numpy as np

from scalable_bandits.posteriors.state import State


def refuse_tiles_left_behind(state: State) -> None:
    """Refuse a state of an earlier version in which some tiles or columns lack observations.

    Earlier versions did not update tiles that could not win, marked in "asleep" (tiles,), and marked the columns that
    were up to date in "fresh" (slots, tiles).

    Raises
    ------
    ValueError
        If some tiles or columns lack observations.
    """
    behind = int(np.count_nonzero(state.get("asleep", False)))
    stale = behind == 0 and not np.all(state.get("fresh", True))
    if behind or stale:
        what = f"{behind} tiles" if behind else "covariance columns"
        raise ValueError(
            f"state: got one of an earlier version with {what} left behind the latest observation; allowed: one with "
            "all tiles up to date. Play the observations again instead"
        )
