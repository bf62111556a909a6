"""Rounds of a long run that are kept in memory, with exact sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

ALL_UP_TO = 1_000_000  # rounds that are all kept unless the user says otherwise
PER_DECADE = 1000  # rounds kept for every factor of ten, on a logarithmic axis

Keep = int | str | None


def kept_rounds(keep: Keep, first: int, count: int, stored: bool) -> Indices | None:
    """Return the numbers (k,) of the rounds of a run that are kept, the last one included; None for all.

    Parameters
    ----------
    keep
        "all", "log", or k for every k-th round; None for all of up to `ALL_UP_TO` rounds, "log" for more.
    first
        Number t of the first round.
    count
        Number of rounds.
    stored
        Whether the rounds go to a store, which keeps all of them.

    Raises
    ------
    ValueError
        If `keep` is anything else, or not "all" with a store.
    """
    if isinstance(keep, int | np.integer) and not isinstance(keep, bool) and keep >= 1:
        keep = "all" if keep == 1 else int(keep)
    elif keep not in (None, "all", "log"):
        checks.refuse("keep", keep, "'all', 'log', or k of at least 1 for every k-th round")
    if stored:
        if keep not in (None, "all"):
            checks.refuse("keep", keep, "'all' with a store, which has every round to be resumed from")
        return None
    if keep == "all" or (keep is None and count <= ALL_UP_TO):
        return None
    last = first + count - 1
    if isinstance(keep, int):
        return np.append(np.arange(-(-first // keep) * keep, last, keep), last)
    spaced = np.ceil(10.0 ** (np.arange(PER_DECADE * np.log10(last)) / PER_DECADE)).astype(np.int64)
    return np.append(np.unique(spaced[(spaced >= first) & (spaced < last)]), last)


class Kept:
    """Columns of the rounds that are kept, of those that are played block by block.

    Parameters
    ----------
    rounds
        Numbers (k,) of the rounds to keep, ascending.
    """

    def __init__(self, rounds: Indices):
        self.rounds, self._total = rounds, 0.0
        self._pieces: list[dict[str, Any]] = []

    def add(self, first: int, columns: dict[str, Floats]) -> None:
        """Add the columns of a block that begins with a round."""
        sums = np.cumsum(np.append(self._total, columns["regret"]))[1:]  # rounded as a single sum over all rounds
        self._total = float(sums[-1])
        start, stop = self.rounds.searchsorted([first, first + len(sums)])
        here = self.rounds[start:stop] - first
        self._pieces.append({name: values[here] for name, values in {**columns, "cumulative_regret": sums}.items()})

    def columns(self) -> dict[str, Any]:
        """Return the columns (k,), with the cumulative regret."""
        return {name: np.concatenate([piece[name] for piece in self._pieces]) for name in self._pieces[0]}
