"""The engine of additive functions: the posterior of each group, from one factorisation of the sum.

On a box a group's posterior is computed where it is asked for. On a finite space, where each group has few points, its
tables are kept up to date: a round costs O(m^2) for m distinct observed points, and for each group its points times the
distinct coordinates observed (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.additive.groups import Group, groups_of
from scalable_bandits.posteriors.additive.tables import Tables
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.surface import PriorMean, Surface
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.state import State, StateEntry, value
from scalable_bandits.spaces import FiniteSpace, Indices

GroupSpace = Callable[[tuple[int, ...]], FiniteSpace]  # from the dimensions of a group to its points


class AdditiveEngine(BoxEngine):
    """Exact posterior of a sum of functions of groups of dimensions, and of each of these functions.

    Parameters
    ----------
    kernel
        Prior covariance, a sum over groups.
    dimension
        Dimension d of the points.
    prior_mean
        Constant prior mean of the sum, in units of y.
    space_of
        Function from the dimensions of a group to its points, at all of which its posterior is kept; None on a box.

    Attributes
    ----------
    groups : tuple of Group
        Kernel and dimensions of each group.
    tables : list of Tables
        Posterior of the groups at all their points; empty on a box.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("tables", "(2, n)", np.float64, lambda self: self._tabled(), lambda self, x: self._restore_tables(x)),
    )

    def __init__(self, kernel: Kernel, dimension: int, prior_mean: PriorMean, space_of: GroupSpace | None = None):
        super().__init__(kernel, dimension, prior_mean)
        self.groups = groups_of(kernel)
        self._space_of = space_of
        self.tables = _tables(self.groups, space_of)
        self._pending_columns: dict[bytes, list[Floats]] = {}

    # ---- observations

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        new, x = candidate not in self._slots, self.points[[candidate]]
        if self.tables:
            cross = covariances(self.kernel, self._x[: self._count], x)[:, 0]
            solved = self.solved(cross)
            mean = float(self._prior_mean.values(x)[0] + solved @ self._residuals)
            variance = max(float(self.kernel.diagonal(x)[0]) - float(solved @ cross), 0.0) + noise_variance
            for table in self.tables:
                table.update(table.columns(x[0], solved), y - mean, variance)
        super().observe(candidate, y, noise_variance)
        if new:
            for table in self.tables:
                table.add(x)
        self._pending_columns.clear()

    def observe_all(self, candidates: Indices, ys: Floats, noise_variances: Floats) -> None:
        first = not self._slots
        super().observe_all(candidates, ys, noise_variances)
        if first and len(candidates):
            weights, m = self.solved(self._residuals), self._count
            for table in self.tables:
                table.add(self._x[:m])
                table.recompute(weights, self._factor[:m, :m])

    @property
    def _residuals(self) -> Floats:
        """Averages at the observed points minus the prior mean, (m,)."""
        sums, m = self._sums, self._count
        return np.asarray(sums[:m, 1] / sums[:m, 0] - self._prior_mean.values(self._x[:m]))

    def solved(self, right: Floats) -> Floats:
        """Return (K + N)^-1 right for a right-hand side (m,) or (m, k)."""
        return self._solve(self._count, self._solve(self._count, right), transposed=True)

    # ---- the groups

    def surfaces(self, surface: Surface) -> list[Surface]:
        """Return the posterior of each group's function, given the posterior of the sum."""
        return [surface.summand(*group) for group in self.groups]

    def moments(self, pending: Floats, noise_variances: Floats) -> list[tuple[Floats, Floats]]:
        """Return mean and variance (n,) of every group at its points, given pending points (q, d) with noise (q,).

        Pending points have their posterior means, which lower variances and keep means.
        """
        found: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))] * len(self.groups)
        columns = [self._columns_of(x) for x in pending]
        if len(pending):
            among = self.covariance(pending, pending) + np.diag(noise_variances)
        for i, table in enumerate(self.tables):
            variance = table.variance
            if len(pending):
                stacked = np.array([each[i] for each in columns]).reshape(len(pending), -1)
                # (3) in `posteriors/pending.py`
                reduction = np.einsum("ij,ij->j", stacked, np.linalg.solve(among, stacked))
                variance = variance - reduction.reshape(variance.shape)
            for group, mean, left in zip(table.members, table.mean, np.maximum(variance, 0.0), strict=True):
                found[group] = (mean, left)
        return found

    def _columns_of(self, x: Floats) -> list[Floats]:
        """Return the columns of all tables for a pending point (d,), which are kept until the next observation."""
        held = self._pending_columns.get(x.tobytes())
        if held is None:
            solved = self.solved(covariances(self.kernel, self._x[: self._count], x[None])[:, 0])
            held = self._pending_columns[x.tobytes()] = [table.columns(x, solved) for table in self.tables]
        return held

    def draw_groups(
        self, rng: np.random.Generator, width: float, pending: Floats, noise_variance: float
    ) -> list[Floats]:
        """Draw the functions of all groups jointly from their posterior, given that pending points will be observed.

        By Matheron's rule, as in Wilson et al. 2020: draw every group's function from the prior, add the draws at the
        observed points, with noise, and correct the draws by the weights of what they differ from the observations.

        Parameters
        ----------
        rng
            Random generator, of the groups first, then of the noise.
        width
            Factor of the deviation from the mean.
        pending
            Pending points (q, d), repeated as often as they are pending.
        noise_variance
            Noise variance of the pending points, in squared units of y.

        Returns
        -------
        list of ndarray
            Function (n,) of each group at its points, in units of y.
        """
        drawn = [table.draw_prior(rng) for table in self.tables]
        noise = np.append(self.noise_variances, np.full(len(pending), noise_variance))
        at_points = rng.standard_normal(len(noise)) * np.sqrt(noise)
        for table, each in zip(self.tables, drawn, strict=True):
            numbers = np.hstack([table.places, table.find(pending)]) if len(pending) else table.places
            at_points += np.take_along_axis(each, numbers, axis=1).sum(axis=0)
        surface = self.surface(pending, noise_variance) if len(pending) else None
        weights = self.solved(at_points) if surface is None else surface.solve(at_points)
        found = [np.empty(0)] * len(self.groups)
        for table, each in zip(self.tables, drawn, strict=True):
            deviation = each - table.projected(weights[: self._count])
            for weight, x in zip(weights[self._count :].tolist(), pending, strict=True):
                deviation -= weight * table.to_all(x)
            for group, path in zip(table.members, table.mean + width * deviation, strict=True):
                found[group] = path
        return found

    # ---- state

    def _tabled(self) -> Floats:
        parts = [np.stack([table.mean.ravel(), table.variance.ravel()]) for table in self.tables]
        return np.hstack(parts) if parts else np.empty((2, 0))

    def _restore_tables(self, held: Floats) -> None:
        start = 0
        for table in self.tables:
            part = held[:, start : start + table.mean.size]
            table.mean, table.variance = part.reshape(2, *table.mean.shape).copy()
            start += table.mean.size

    def before_restore(self, state: State) -> None:
        super().before_restore(state)
        self.tables = _tables(self.groups, self._space_of)
        self._pending_columns.clear()

    def after_restore(self) -> None:
        super().after_restore()
        for table in self.tables:
            table.add(self._x[: self._count])


def _tables(groups: Sequence[Group], space_of: GroupSpace | None) -> list[Tables]:
    """Return the tables of groups, one for those with equal kernels and points; none on a box."""
    if space_of is None:
        return []
    alike: dict[tuple[Kernel, FiniteSpace], list[int]] = {}
    for i, (kernel, dimensions) in enumerate(groups):
        alike.setdefault((kernel, space_of(dimensions)), []).append(i)
    return [
        Tables(kernel, space, members, np.array([groups[i].dimensions for i in members]))
        for (kernel, space), members in alike.items()
    ]
