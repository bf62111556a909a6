"""States that earlier versions wrote."""

from __future__ import annotations

import numpy as np

from scalable_bandits.posteriors.state import State


def refuse_tiles_left_behind(state: State) -> None:
    """Refuse a state of tiles, written by an earlier version, in which some tiles or columns were not up to date.

    Earlier versions left tiles alone that could not win, and named them under "asleep" (tiles,); "fresh" (slots, tiles)
    says which columns were up to date.

    Raises
    ------
    ValueError
        If there are any.
    """
    behind = int(np.count_nonzero(state.get("asleep", False)))
    stale = behind == 0 and not np.all(state.get("fresh", True))
    if behind or stale:
        what = f"{behind} tiles" if behind else "covariance columns"
        raise ValueError(
            f"state: got one of an earlier version with {what} left behind the latest observation; allowed: one with "
            "all tiles up to date. Play the observations again instead"
        )
