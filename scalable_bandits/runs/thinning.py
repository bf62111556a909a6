"""Rounds of a long run that are kept, with exact sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    from scalable_bandits.store import StoredRun

ALL_UP_TO = 1_000_000  # rounds that are all kept unless the user says otherwise
PER_DECADE = 1000  # rounds kept for every factor of ten, on a logarithmic axis
ROUND = "t"  # name of the series of the rounds' numbers, which a run has if it keeps some only

Keep = int | str | None


def checked(keep: Any) -> Keep:
    """Return which rounds are kept: "all", "log", k for every k-th round, or None for the default; refuse all else."""
    if isinstance(keep, int | np.integer) and not isinstance(keep, bool) and 1 <= keep <= checks.LARGEST_INTEGER:
        return "all" if keep == 1 else int(keep)
    if not (keep is None or (isinstance(keep, str) and keep in ("all", "log"))):
        checks.refuse("keep", keep, "'all', 'log', or k of at least 1 for every k-th round")
    return None if keep is None else str(keep)


def checked_ends(ends: Any, horizon: int) -> list[int]:
    """Return the rounds that are kept in any case, ascending; refuse what is no list of rounds up to the horizon."""
    if not isinstance(ends, list | tuple | np.ndarray):
        checks.refuse("ends", ends, "a list of rounds")
    return sorted({checks.integer(f"ends[{i}]", end, 1, horizon) for i, end in enumerate(ends)})


def default(rounds: int) -> Keep:
    """Return which of a run's rounds are kept if the user does not say."""
    return "all" if rounds <= ALL_UP_TO else "log"


def keeps_some(run: StoredRun) -> bool:
    """Return whether a run stores some of its rounds only, with their numbers."""
    return ROUND in {field.name for field in run.fields}


def rounds_played(run: StoredRun) -> int:
    """Return the number of rounds that a stored run has played, up to the last one that is stored."""
    if not keeps_some(run):
        return len(run)
    return int(run.read(len(run) - 1, names=[ROUND])[ROUND][0]) if len(run) else 0


class Thinning:
    """Choice of the rounds of a run that are kept, and the sum of the regrets of all of them.

    Parameters
    ----------
    keep
        "all"; "log", `PER_DECADE` rounds for every factor of ten; or k, every k-th round.
    ends
        Rounds that are kept in any case, ascending, the last one of the run among them.

    Attributes
    ----------
    complete : bool
        Whether all rounds are kept.
    total : float
        Cumulative regret so far, in units of y; may be set.
    """

    def __init__(self, keep: Keep, ends: Collection[int]):
        self.complete, self.total = keep == "all", 0.0
        self._every = 1 if self.complete else keep if isinstance(keep, int) else checks.LARGEST_INTEGER
        powers = np.arange(PER_DECADE * np.log10(max(ends)) + 1) / PER_DECADE if keep == "log" else np.zeros(0)
        others = np.union1d(np.ceil(10.0**powers).astype(np.int64), np.array(list(ends), dtype=np.int64))
        self._others = others[others % self._every > 0]  # kept rounds that are no multiples

    def rounds(self, first: int, stop: int) -> Indices:
        """Return the numbers (k,) of the kept rounds from `first` on and before `stop`, ascending."""
        multiples = np.arange(-(-first // self._every) * self._every, stop, self._every)
        others = self._others[slice(*self._others.searchsorted([first, stop]))]
        return np.union1d(multiples, others) if len(others) else multiples

    def following(self, last: int) -> int:
        """Return the first kept round after round `last`, which is before the end of the run."""
        return min([(last // self._every + 1) * self._every, *self._others[self._others > last].tolist()[:1]])

    def count(self, last: int) -> int:
        """Return the number of kept rounds up to round `last`."""
        return last // self._every + int((self._others <= last).sum())

    def reduce(self, first: int, columns: Mapping[str, Floats]) -> dict[str, Any]:
        """Return the columns of the kept rounds, with their numbers and cumulative regrets.

        Parameters
        ----------
        first
            Number of the first round; the rounds before it have been reduced.
        columns
            Arrays (m,) over the next m rounds, "regret" among them.

        Returns
        -------
        dict
            Arrays (k,) over the k rounds that are kept; `ROUND` is missing if all are.
        """
        sums = np.cumsum(np.append(self.total, columns["regret"]))[1:]  # rounded as a single sum over all rounds
        self.total = float(sums[-1]) if len(sums) else self.total
        series = {**columns, "cumulative_regret": sums}
        if self.complete:
            return series
        kept = self.rounds(first, first + len(sums))
        return {ROUND: kept, **{name: values[kept - first] for name, values in series.items()}}
