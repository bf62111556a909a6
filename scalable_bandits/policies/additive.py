"""Base class of the policies for sums of functions of a few dimensions each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors.additive.decomposition import random_groups
from scalable_bandits.posteriors.additive.engine import AdditiveEngine
from scalable_bandits.posteriors.additive.groups import additive_kernel, groups_of
from scalable_bandits.posteriors.additive.tree import ordered
from scalable_bandits.posteriors.models.additive import AdditiveSearch, group_space
from scalable_bandits.posteriors.models.model import Model, Query
from scalable_bandits.posteriors.models.regrouped import RegroupedModel
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Mask

LEARNED = "learned"


def _frozen_groups(value: Any) -> tuple[tuple[int, ...], ...] | str | None:
    """Convert groups of dimensions to tuples; None and "learned" stay."""
    allowed = "lists of dimensions, counted from 0, such as [[0, 1], [2]], 'learned', or None"
    if value is None or (isinstance(value, str) and value == LEARNED):
        return value
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        checks.refuse("groups", value, allowed)
    if not all(
        isinstance(group, Sequence | np.ndarray) and len(group) and not isinstance(group, str) for group in value
    ):
        checks.refuse("groups", value, allowed)
    return tuple(tuple(checks.integer("groups", k, 0) for k in group) for group in value)


@attrs.define(eq=False, kw_only=True, slots=False)
class AdditivePolicy(GaussianProcessPolicy):
    """Base class of policies for f(x) = sum over groups j of f_j(x_j), where x_j are some of the coordinates of x.

    Only sums are observed; the posterior of every f_j follows from one factorisation of the sum's covariance. A sum
    over groups is maximised group by group: on a grid exactly, by comparing all points of each group, of which there
    are at most 50,000. On a grid or a list of points groups may overlap, as a tree: each shares dimensions with one of
    those before it, and messages pass between them. An availability set or a context is honoured by the sum at each of
    the candidates.

    Parameters
    ----------
    kernel
        Prior covariance of f, a sum of `OnDimensions` kernels, also multiplied by numbers; with `groups`, the kernel of
        each f_j, whose lengthscales, if several, are those of all dimensions. In squared units of y.
    groups
        Dimensions of each group, counted from 0; None: those of the kernel; "learned" for groups of `group_size`
        dimensions that are learned from the observations by marginal likelihood, after 10 rounds and whenever a fifth
        more have been played. What is proven of a policy is proven for given groups.
    group_size
        Number of dimensions of each learned group; the last may have fewer.

    The prior mean, which belongs to the sum, is a number. Other parameters are those of `GaussianProcessPolicy` and
    `Policy`.

    Raises
    ------
    ValueError
        If the space is not a `Box`, `Grid` or `Points`, the kernel is no sum over groups, a dimension is in no group,
        groups overlap in a circle or on a box, a group has too many points, or the prior mean is not a number.
    """

    continuous: ClassVar[bool] = True
    _takes_contexts: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    _assumes_draws: ClassVar[bool] = False

    groups: tuple[tuple[int, ...], ...] | str | None = attrs.field(default=None, converter=_frozen_groups)
    group_size: int = attrs.field(default=2, converter=checks.to_int, validator=checks.whole(1))

    def __attrs_post_init__(self) -> None:
        if self.space.named or not self.space.has_coordinates:
            checks.refuse("space", self.space, "a Box, Grid or Points, whose coordinates are those of a kernel")
        if not isinstance(self.prior_mean, float | int | None):
            checks.refuse("prior_mean", self.prior_mean, "a number, or None: the mean belongs to the sum")
        if self.groups == LEARNED and self.refit is not None:
            checks.refuse("refit", self.refit, "None where groups are learned")
        groups = [list(group.dimensions) for group in groups_of(self._prior_kernel)]
        if {k for group in groups for k in group} != set(range(self.space.dimension)):
            checks.refuse("groups", groups, f"each of the {self.space.dimension} dimensions in a group")
        ordered(tuple(map(tuple, groups)))
        super().__attrs_post_init__()
        if self._overlaps and self.domain.by_visit and self.space.lattice is None:
            checks.refuse("groups", groups, "disjoint groups on a whole box; groups may overlap on a Grid or Points")
        for group in self._largest_groups():
            if self.space.lattice is not None:
                group_space(self.domain, group)

    def _largest_groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups, or where they are learned the one that would have most points."""
        if self.groups != LEARNED or self.space.lattice is None:
            return self.present_groups
        longest = np.argsort(self.space.lattice, kind="stable")[-self.group_size :]
        return (tuple(sorted(longest.tolist())),)

    @property
    def _prior_kernel(self) -> Kernel:
        assert self.kernel is not None
        if self.groups is None:
            return self.kernel
        groups = self.groups
        if isinstance(groups, str):  # random ones until there are observations
            groups = random_groups(self.space.dimension, self.group_size, generator(self.seed, "groups", 0))
        return additive_kernel(self.kernel, groups)

    def _fresh_model(self) -> Model:
        if self.groups != LEARNED:
            return super()._fresh_model()
        assert self.kernel is not None
        prior = self._prior._replace(kernel=self.kernel)
        known = prior, self.domain, self._make_engine, self.regularization, self._search()
        return RegroupedModel(*known, self.group_size, self.seed)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        if self.groups == LEARNED:
            self.model.after_round(self.rounds + 1)

    def _checked_engine(self) -> str:
        if self.engine != "auto":
            checks.refuse("engine", self.engine, f"'auto': {type(self).__name__} has its own")
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: the function may not change")
        return self.engine

    def _search(self) -> AdditiveSearch:
        return AdditiveSearch(self.domain)

    @property
    def present_groups(self) -> tuple[tuple[int, ...], ...]:
        """Dimensions of each group, ascending."""
        return tuple(group.dimensions for group in groups_of(self.present_kernel))

    @property
    def _engine(self) -> AdditiveEngine:
        engine = self.model.engine
        assert isinstance(engine, AdditiveEngine)
        return engine

    @property
    def _overlaps(self) -> bool:
        """Whether two groups share a dimension."""
        return sum(map(len, self.present_groups)) > self.space.dimension

    @property
    def _search_of_sums(self) -> AdditiveSearch:
        assert isinstance(self.model.search, AdditiveSearch)
        return self.model.search

    def _query(self, allowed: Mask | None) -> Query:
        """Return the arguments of the search for the next point."""
        return Query(self._salt, (self.seed, self.round), allowed, self._pending.numbers)

    def group_posterior(self, group: int, x: ArrayLike) -> tuple[Floats, Floats]:
        """Return posterior mean and standard deviation of the function f_j of one group, which has prior mean 0.

        Parameters
        ----------
        group
            Number of the group in `present_groups`.
        x
            Coordinates (k, D) of the group, in the order of its dimensions.

        Returns
        -------
        mean, std : ndarray
            Arrays (k,) in units of y.

        Raises
        ------
        ValueError
            If there is no such group, or x has another shape.
        """
        with self._lock:
            groups = self.present_groups
            if checks.integer("group", group, 0) >= len(groups):
                checks.refuse("group", group, f"a number from 0 to {len(groups) - 1}")
            points = checks.finite("x", x)
            if points.ndim != 2 or points.shape[1] != len(groups[group]):
                checks.refuse("x", f"shape {points.shape}", f"(k, {len(groups[group])})")
            engine = self._engine
            mean, variance = engine.surfaces(engine.surface())[group].predict(np.ascontiguousarray(points))
        return self._oriented(mean), np.sqrt(variance)
