"""Plays, sums and rejections of a policy with several priors, as arrays that compiled functions change.

The words are in `unknown_prior.py`. The class stays in this module: compiled functions that were cached name it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Mask

# Fields of a `Tally` that are its state, with their data types: all but the seed.
ARRAYS = {
    **dict.fromkeys(("evidence", "counts", "sums", "slacks", "weights", "rejections"), np.float64), "playing": np.bool_,
}  # fmt: skip


class Rejection(NamedTuple):
    """Rejection of a prior."""

    round: int  # round whose observation led to the rejection
    statistic: float  # test statistic, in units of y
    bound: float  # bound that the statistic exceeded, in units of y

    @property
    def excess(self) -> float:
        """Statistic minus bound, in units of y."""
        return self.statistic - self.bound


class Tally(NamedTuple):
    """Arrays that compiled functions change in place.

    Counts, sums, slacks and weights are sums over the plays of each prior, in the order of the priors.
    """

    evidence: Floats  # (|U|,) log marginal likelihoods
    counts: Floats  # (|U|,) numbers of plays
    sums: Floats  # (|U|,) sums of the errors (or of y), in units of y
    slacks: Floats  # (|U|,) sums of the slacks, in units of y
    weights: Floats  # (|U|,) sums of the shares
    playing: Mask  # (|U|,) mask of the priors in play
    rejections: Floats  # (|U|, 3) round, statistic and bound of each prior's rejection; zeros before it
    salt: np.uint64  # seed of the tie-breaking hash

    @classmethod
    def of(cls, priors: int, salt: int) -> Tally:
        """Return the tally before the first observation.

        Parameters
        ----------
        priors
            Number |U| of priors.
        salt
            Seed of the tie-breaking hash.
        """
        evidence, counts, sums, slacks, weights = np.zeros((5, priors))
        playing, rejections = np.ones(priors, dtype=np.bool_), np.zeros((priors, 3))
        return cls(evidence, counts, sums, slacks, weights, playing, rejections, np.uint64(salt))

    def with_prior(self, evidence: float) -> Tally:
        """Return a tally with one more prior, which is in play and has no plays yet.

        Parameters
        ----------
        evidence
            Log marginal likelihood of the observations so far under that prior.
        """
        number = len(self.counts)
        grown = Tally.of(number + 1, int(self.salt))
        for field in ARRAYS:
            held = getattr(self, field)
            getattr(grown, field)[: len(held)] = held
        grown.evidence[number] = evidence
        return grown

    @property
    def out(self) -> dict[int, Rejection]:
        """Rejection by number of the prior, first rejected first."""
        rejected = {p: Rejection(int(t), *of) for p, (t, *of) in enumerate(self.rejections.tolist()) if t}
        return dict(sorted(rejected.items(), key=lambda each: each[1].round))
