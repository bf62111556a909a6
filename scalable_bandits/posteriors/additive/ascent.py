"""Ascent of the upper confidence bound of a sum by changing the coordinates of one group after the other.

Given the coordinates of all other groups, a step takes the best of all points z of group i (block coordinate ascent):

    mu_i(z) + sum over j != i of mu_j + width sqrt(s_i^2(z) + 2 cov(f_i(z), r) + var(r)),  r = sum over j != i of f_j
    cov(f_i(z), r) = -k_i(z, X) (K + N)^-1 k_r(X),  var(r) = sum over j != i of k_j - k_r(X)' (K + N)^-1 k_r(X)

with k_r(X) the sum over j != i of the covariances of f_j, at its coordinates, with the observed points. The ascent ends
where no group can be changed for the better.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.additive.engine import AdditiveEngine
from scalable_bandits.posteriors.additive.tables import Tables

MOST_SWEEPS = 20  # largest number of times that every group is looked at
GAIN = 1e-10  # relative gain below which a group stays


class _Summand(NamedTuple):
    """A group in its table, with what the ascent needs of it."""

    table: Tables
    place: int  # row of the group in the table
    mean: Floats  # (n,)
    variance: Floats  # (n,)
    pending: Floats  # (q, n) prior covariances with the pending points

    def cross(self, number: int) -> Floats:
        """Return the prior covariances (m + q,) of f_j at one of its points with observed and pending points."""
        return np.append(self.table.cross(self.place, number), self.pending[:, number])


class Ascent:
    """Ascents of one bound from several points.

    Parameters
    ----------
    engine
        Posterior of the groups, with tables.
    width
        Width of the bound, in standard deviations of the sum.
    pending
        Pending points (q, d), which have their posterior means.
    noise_variance
        Noise variance of the pending points, in squared units of y.
    """

    def __init__(self, engine: AdditiveEngine, width: float, pending: Floats, noise_variance: float):
        self._width, self._tables = width, engine.tables
        moments = engine.moments(pending, np.full(len(pending), noise_variance))
        self._solve = engine.surface(pending, noise_variance).solve if len(pending) else engine.solved
        self._summands = []
        for table in engine.tables:
            with_pending = np.array([table.to_all(x) for x in pending]).reshape(len(pending), *table.mean.shape)
            for place, group in enumerate(table.members):
                self._summands.append(_Summand(table, place, *moments[group], with_pending[:, place]))

    def climb(self, start: Floats) -> tuple[Floats, float]:
        """Climb from a point (d,); return the end (d,), and its bound minus the prior mean, in units of y."""
        summands = self._summands
        at = [int(number) for table in self._tables for number in table.find(start[None])[:, 0]]
        cross = np.array([each.cross(number) for each, number in zip(summands, at, strict=True)])
        solved = np.ascontiguousarray(self._solve(cross.T).T)
        means = np.array([each.mean[number] for each, number in zip(summands, at, strict=True)])
        priors = np.array([each.table.prior_variance[number] for each, number in zip(summands, at, strict=True)])
        sums, solved_sums = cross.sum(axis=0), solved.sum(axis=0)
        for _ in range(MOST_SWEEPS):
            rests = priors.sum() - priors - np.einsum("ij,ij->i", sums - cross, solved_sums - solved)
            rising = self._rising(at, solved_sums - solved, rests)
            for i in rising:
                each, rest, weights = summands[i], sums - cross[i], solved_sums - solved[i]
                covariance = each.table.projected_in(each.place, weights[: len(weights) - len(each.pending)])
                index = self._bound(each, covariance, weights, float(priors.sum() - priors[i] - rest @ weights))
                best = int(np.argmax(index))
                if index[best] > index[at[i]] + GAIN * abs(index[at[i]]):
                    at[i], means[i], priors[i] = best, each.mean[best], each.table.prior_variance[best]
                    cross[i] = each.cross(best)
                    solved[i] = self._solve(cross[i])
                    sums, solved_sums = cross.sum(axis=0), solved.sum(axis=0)
            if not rising:
                break
        variance = max(float(priors.sum() - sums @ solved_sums), 0.0)
        return self._point(at, len(start)), float(means.sum()) + self._width * math.sqrt(variance)

    def _rising(self, at: list[int], weights: Floats, variances: Floats) -> list[int]:
        """Return the groups that could be changed for the better, given weights (groups, m + q) and variances of r.

        All are compared at once, which takes less time than one after the other.
        """
        found, first = [], 0
        for table in self._tables:
            own = weights[first : first + len(table.members), : table.places.shape[1]]
            for i, covariance in enumerate(table.projected(own), first):
                index = self._bound(self._summands[i], covariance, weights[i], float(variances[i]))
                if index.max() > index[at[i]] + GAIN * abs(index[at[i]]):
                    found.append(i)
            first += len(table.members)
        return found

    def _bound(self, own: _Summand, covariance: Floats, weights: Floats, variance: float) -> Floats:
        """Return the bound (n,) at all points of a group, without the means of the other groups.

        `covariance` (n,) is K_i(Z_i, X) (K + N)^-1 k_r(X) without the pending points, `weights` (m + q,) are
        (K + N)^-1 k_r(X), and `variance` is the posterior variance of r.
        """
        if len(own.pending):
            covariance = covariance + weights[-len(own.pending) :] @ own.pending
        return own.mean + self._width * np.sqrt(np.maximum(own.variance - 2.0 * covariance + variance, 0.0))

    def _point(self, at: list[int], dimension: int) -> Floats:
        x = np.empty(dimension)
        for each, number in zip(self._summands, at, strict=True):
            x[each.table.dimensions[each.place]] = each.table.points[number]
        return x
