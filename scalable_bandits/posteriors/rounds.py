"""Rounds that are played in one compiled loop: index and width by name, f from a table, noise drawn beforehand.

An engine's `play` is a loop over the compiled steps that its `argmax`, `observe` and `advance` call, so that blocks
of any length and single rounds give the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Indices

# Largest number of candidates for which an engine makes a kernel matrix only to play in compiled loops: 134 MB.
MOST_PLAYED = 4096


class Rule(NamedTuple):
    """Upper confidence bound that is maximised in every round, in the form that compiled loops take."""

    width: int  # number of the width's formula in `formulas/_numba_widths.py`
    constants: Floats  # constants of the width's formula
    mean_weight: float = 1.0  # factor of the mean
    gain: float = math.nan  # information gain in the width, in nats; NaN for the realised one


class Game(NamedTuple):
    """What is played."""

    first: int  # number t of the first round
    table: Floats  # (n,) f at the candidates, in units of y
    noise: Floats  # (count,) noise of the rounds, in units of y
    noise_variance: float  # lambda, in squared units of y
    salt: int  # seed of the tie-breaking hash
    available: AvailabilitySets = EVERYTHING  # candidates of the rounds


class Columns(NamedTuple):
    """What is recorded of each round, (count,)."""

    candidates: Indices
    ys: Floats
    widths: Floats
    gains: Floats  # information gain before the round, in nats

    @classmethod
    def empty(cls, count: int) -> Columns:
        """Return columns for some rounds."""
        return cls(np.empty(count, dtype=np.int64), *np.empty((3, count)))

    def part(self, start: int, stop: int) -> Columns:
        """Return views of the columns from a round to another."""
        return Columns(self[0][start:stop], self[1][start:stop], self[2][start:stop], self[3][start:stop])
