"""Model of a sum over groups of dimensions that are learned from the observations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.additive.decomposition import Groups, likelier_groups, random_groups
from scalable_bandits.posteriors.additive.groups import additive_kernel
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.models.model import Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import State, StateEntry, value
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Domain

FIRST = 10  # number of observations from which groups are learned
HALF = 150  # decompositions are compared by so many of the first observed points, and so many of the others


def is_milestone(rounds: int) -> bool:
    """Return whether groups are learned after so many rounds: after ten, and whenever a fifth more have been played."""
    milestone = FIRST
    while milestone < rounds:
        milestone += milestone // 5
    return milestone == rounds


class RegroupedModel(Model):
    """Model whose groups of dimensions are learned at milestones, from random ones at first.

    Parameters
    ----------
    prior, domain, make_engine, regularization, search
        Parameters of `Model`; the prior's kernel is that of each group, and its mean is constant.
    size
        Number of dimensions of a group; the last may have fewer.
    seed
        Seed of the random decompositions.

    Attributes
    ----------
    groups : tuple of tuple of int
        Dimensions of each group.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("groups", "(d,)", np.int64, lambda model: model._group_of_each()),  # restored by `before_restore`
    )
    plays = False

    def __init__(
        self, prior: GivenPrior, domain: Domain, make_engine: MakeEngine, regularization: float, search: Candidates,
        size: int, seed: int,
    ):  # fmt: skip
        super().__init__(prior, domain, make_engine, regularization, search)
        self._size, self._seed = size, seed
        self._set_groups(random_groups(domain.space.dimension, size, generator(seed, "groups", 0)))

    def _set_groups(self, groups: Groups) -> None:
        self.groups = groups
        self._kernel = additive_kernel(self.prior.kernel, groups)

    @property
    def kernel(self) -> Kernel:
        return self._kernel

    @one_thread
    def after_round(self, rounds: int) -> None:
        """Learn the groups if they are due after so many rounds."""
        if not is_milestone(rounds):
            return
        queried, averages, noise_variances = self.observations.collapsed()
        late = np.linspace(HALF, max(len(queried) - 1, HALF), HALF).astype(np.int64)
        some = np.arange(len(queried)) if len(queried) <= 2 * HALF else np.append(np.arange(HALF), late)
        x = self.domain.coordinates(queried[some])
        residuals, rng = averages[some] - self.prior_mean(x), generator(self._seed, "groups", rounds)
        found = likelier_groups(self.prior.kernel, x, residuals, noise_variances[some], self.groups, self._size, rng)
        if found != self.groups:
            self._set_groups(found)
            self._engine = self.rebuilt_engine()
            self._changed()

    def _group_of_each(self) -> list[int]:
        """Return the number of the group of each dimension (d,)."""
        return [i for _, i in sorted((k, i) for i, group in enumerate(self.groups) for k in group)]

    def before_restore(self, state: State) -> None:
        super().before_restore(state)
        numbers = state["groups"]
        self._set_groups(tuple(tuple(np.flatnonzero(numbers == i).tolist()) for i in range(numbers.max() + 1)))
