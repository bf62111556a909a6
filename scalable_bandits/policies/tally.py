"""Counts and sums of a policy with several priors, as arrays that compiled functions change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices


class Rejection(NamedTuple):
    """Rejection of a prior."""

    round: int  # round whose observation led to the rejection
    statistic: float  # test statistic, in units of y
    bound: float  # bound that the statistic exceeded, in units of y

    @property
    def excess(self) -> float:
        """Statistic minus bound, in units of y."""
        return self.statistic - self.bound


class RoundOutcome(NamedTuple):
    """Observation with the predictions of the priors in play."""

    round: int
    y: float
    share: float  # noise variance over lambda: 1 except for measurements with their own noise
    mean: Floats  # (|U|,) posterior means of the candidate before the observation; NaN for a prior not in play
    std: Floats  # (|U|,) posterior standard deviations, as the means


class Tally(NamedTuple):
    """Arrays that compiled functions change in place.

    Those of shape (|U|,) are over all priors; the counts, sums, slacks and weights are over the plays of each.
    """

    evidence: Floats  # (|U|,) log marginal likelihoods
    counts: Floats  # (|U|,) numbers of plays
    sums: Floats  # (|U|,) sums of the errors (or of y), in units of y
    slacks: Floats  # (|U|,) sums of beta s, in units of y
    weights: Floats  # (|U|,) sums of the shares
    sizes: Indices  # (2,) number of priors in play, and number of rejected ones
    playing: Indices  # (|U|,) numbers of the priors in play, in the first sizes[0] entries
    rejected: Indices  # (|U|,) numbers of the rejected priors, first rejected first, in the first sizes[1] entries
    rejections: Floats  # (|U|, 3) `Rejection` of each of these, in the same rows
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
        return cls(
            evidence, counts, sums, slacks, weights, np.array([priors, 0]), np.arange(priors),
            np.zeros(priors, dtype=np.int64), np.zeros((priors, 3)), np.uint64(salt),
        )  # fmt: skip

    def with_prior(self, evidence: float) -> Tally:
        """Return a tally with one more prior, which is in play and has no plays yet.

        Parameters
        ----------
        evidence
            Log marginal likelihood of the observations so far under that prior.
        """
        number = len(self.counts)
        grown = Tally.of(number + 1, int(self.salt))
        grown.restore_sums(np.column_stack([np.array(self[:5]), [evidence, 0.0, 0.0, 0.0, 0.0]]))
        grown.restore_playing(np.append(self.in_play, number))
        grown.restore_rejected(self.rejected_rows())
        return grown

    @property
    def in_play(self) -> Indices:
        """Numbers (k,) of the priors in play."""
        return self.playing[: self.sizes[0]]

    @property
    def out(self) -> dict[int, Rejection]:
        """Rejection by number of the prior, in their order."""
        count = self.sizes[1]
        rows = zip(self.rejected[:count].tolist(), self.rejections[:count].tolist(), strict=True)
        return {number: Rejection(int(t), statistic, bound) for number, (t, statistic, bound) in rows}

    def rejected_rows(self) -> Floats:
        """Return the rejections (k, 4): number of the prior, round, statistic and bound."""
        count = self.sizes[1]
        return np.column_stack([self.rejected[:count], self.rejections[:count]])

    def restore_playing(self, numbers: Indices) -> None:
        """Take the numbers (k,) of the priors in play."""
        self.sizes[0] = len(numbers)
        self.playing[: len(numbers)] = numbers

    def restore_rejected(self, rows: Floats) -> None:
        """Take the rejections (k, 4): number of the prior, round, statistic and bound."""
        self.sizes[1] = len(rows)
        self.rejected[: len(rows)], self.rejections[: len(rows)] = rows[:, 0], rows[:, 1:]

    def restore_sums(self, sums: Floats) -> None:
        """Take the sums (5, |U|) over the plays."""
        for held, values in zip((self.evidence, self.counts, self.sums, self.slacks, self.weights), sums, strict=True):
            held[...] = values
