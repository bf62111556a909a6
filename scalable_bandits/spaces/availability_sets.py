"""Availability sets of many rounds at once, for compiled loops over rounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import Indices


class AvailabilitySets(NamedTuple):
    """Availability sets of consecutive rounds, of which many have the same one."""

    candidates: Indices  # (k,) numbers of the candidates of all sets, one set after the other
    starts: Indices  # (m + 1,) position of each set's first candidate; and k
    numbers: Indices  # (count,) number of each round's set; (0,) if all candidates are available in all rounds

    @classmethod
    def of_groups(cls, groups: Indices) -> AvailabilitySets:
        """Return the sets of the candidates that have the same group (size,), by its number; of no round."""
        return cls(np.argsort(groups, kind="stable"), _starts(np.bincount(groups)), _NONE)

    @classmethod
    def of_masks(cls, masks: NDArray[np.bool_]) -> AvailabilitySets:
        """Return the sets of masks (m, size), none empty; of no round."""
        return cls(np.nonzero(masks)[1], _starts(masks.sum(axis=1)), _NONE)

    def part(self, start: int, stop: int) -> AvailabilitySets:
        """Return the sets of the rounds from a position to another."""
        return self._replace(numbers=self.numbers[start:stop])

    def largest(self, table: Floats) -> Floats:
        """Return the largest value of a table (size,) in the set of each round, (count,)."""
        return np.maximum.reduceat(table[self.candidates], self.starts[:-1])[self.numbers]


_NONE = np.empty(0, dtype=np.int64)
EVERYTHING = AvailabilitySets(_NONE, _NONE, _NONE)  # all candidates, in any number of rounds


def _starts(counts: Indices) -> Indices:
    """Return the positions (m + 1,) where sets with so many (m,) candidates start, and the end."""
    return np.append(0, np.cumsum(counts))
