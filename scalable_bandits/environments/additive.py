"""Functions of many dimensions that are sums of functions of few, with a known optimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import Environment, tabulated
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.synthetic import RKHSFunction
from scalable_bandits.kernels import Kernel
from scalable_bandits.randomness import derived_seed, generator
from scalable_bandits.spaces import Box, Grid, Space

Groups = tuple[tuple[int, ...], ...]


class AdditiveFunction(Environment):
    """Sum of functions of groups of dimensions: f(x) = sum over j of f_j(x's coordinates in group j).

    The optimum is the sum of those of the groups: exact on a grid, however large. Dimensions in no group have no
    effect. With one group it is a function of few dimensions hidden among many.

    Parameters
    ----------
    space
        Box or grid.
    terms
        Environments f_j; their noise is not used. Each is on a box, whose bounds the space's are mapped to, or on the
        grid of its group: as many points along each dimension as the space has.
    groups
        Dimensions of each term, in the order of its own, counted from 0; no dimension in two groups.
    noise, seed
        Noise distribution and its seed; see `Environment`.

    Attributes
    ----------
    rkhs_norm : float
        Bound on the RKHS norm of f, of the sum of the terms' kernels: the root of the sum of their squared norms. There
        only if all terms have one.

    Raises
    ------
    ValueError
        If the space is neither a box nor a grid, the groups overlap or do not fit the space, or a term's space does not
        fit its group.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]] * 100, 30)
    >>> f = sb.AdditiveFunction(space, [sb.Benchmark("branin"), sb.Benchmark("hartmann3")], [[7, 60], [3, 4, 99]])
    >>> round(f.optimum(), 3)
    3.435
    """

    def __init__(
        self, space: Space, terms: Sequence[Environment], groups: Sequence[Sequence[int]], noise: Noise | None = None,
        seed: int = 0,
    ):  # fmt: skip
        super().__init__(space, noise, seed)
        if not isinstance(terms, Sequence) or not terms:
            checks.refuse("terms", terms, "environments, at least one")
        self.terms = tuple(terms)
        self.groups = _checked(groups, space)
        if len(self.groups) != len(self.terms):
            checks.refuse("groups", f"{len(self.groups)} groups", f"{len(self.terms)}, one a term")
        for j, (term, group) in enumerate(zip(self.terms, self.groups, strict=True)):
            checks.kind(f"terms[{j}]", term, Environment, "an environment, such as Benchmark('branin')")
            own = _projected(space, group, term.space.box) if term.space.dimension == len(group) else None
            if term.changing or own is None or (term.space.size is not None and term.space != own):
                sides = "" if space.lattice is None else f", or a grid with {[space.lattice[i] for i in group]} points"
                given = "one that changes" if term.changing else f"space {term.space}"
                checks.refuse(f"terms[{j}]", given, f"an environment on a box of {len(group)} dimensions{sides}")
        if all(hasattr(term, "rkhs_norm") for term in self.terms):
            self.rkhs_norm = float(np.linalg.norm([term.rkhs_norm for term in self.terms]))  # type: ignore[attr-defined]
        self._largest: float | None = None

    @classmethod
    def sparse(
        cls, space: Space, kernel: Kernel, noise: Noise | None = None, *, groups: Sequence[Sequence[int]] | None = None,
        size: int = 2, relevant: int | None = None, seed: int = 0, count: int | None = None,
    ) -> AdditiveFunction:  # fmt: skip
        """Draw a function like `RKHSFunction.sparse` on each of some groups of dimensions.

        Parameters
        ----------
        space
            Box or grid.
        kernel
            Kernel of each group's RKHS, of coordinates in units of x.
        noise
            Noise distribution.
        groups
            Groups of dimensions; drawn at random if not given.
        size
            Number of dimensions in a group that is drawn; the last one may have fewer.
        relevant
            Number of dimensions that are in groups if these are drawn, hidden among all; all if not given.
        seed
            Seed of the groups, the functions and the noise.
        count
            Number of centers of each function; 30 for each of its dimensions if not given.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> f = sb.AdditiveFunction.sparse(sb.Grid([[0, 1]] * 100, 30), sb.Matern(0.2, nu=1.5), relevant=20)
        >>> len(f.groups)
        10
        """
        checks.kind("space", space, Space, "a Box or a Grid")
        seed, size = checks.integer("seed", seed, 0), checks.integer("size", size, 1)
        if groups is None:
            relevant = checks.integer("relevant", space.dimension if relevant is None else relevant, 1, space.dimension)
            drawn = _hidden(space.dimension, relevant, seed)
            groups = [sorted(drawn[i : i + size]) for i in range(0, relevant, size)]
        parts = [_projected(space, group, None) for group in _checked(groups, space)]
        terms = [
            RKHSFunction.sparse(part, kernel, seed=derived_seed(seed, f"term {j}"), count=count)
            for j, part in enumerate(parts)
        ]
        return cls(space, terms, groups, noise, seed)

    @classmethod
    def embedded(
        cls, term: Environment, space: Space, noise: Noise | None = None, *,
        dimensions: Sequence[int] | None = None, seed: int = 0,
    ) -> AdditiveFunction:  # fmt: skip
        """Embed a function of few dimensions in a space of many, the others of which have no effect.

        Source: Wang, Hutter, Zoghi, Matheson & de Freitas 2016.

        Parameters
        ----------
        term
            Environment on a box, such as ``Benchmark("hartmann6")``; see the class.
        space, noise
            Box or grid; noise distribution.
        dimensions
            Dimensions that have an effect, in the order of the term's; drawn at random if not given.
        seed
            Seed of the dimensions and of the noise.

        Raises
        ------
        ValueError
            If the space has fewer dimensions than the term, or the class refuses an argument.
        """
        checks.kind("term", term, Environment, "an environment, such as Benchmark('branin')")
        checks.kind("space", space, Space, "a Box or a Grid")
        if dimensions is None:
            if term.space.dimension > space.dimension:
                checks.refuse("space", f"{space.dimension} dimensions", f"at least {term.space.dimension}")
            dimensions = _hidden(space.dimension, term.space.dimension, checks.integer("seed", seed, 0))
        return cls(space, [term], [dimensions], noise, seed)

    def _parts(self, points: Floats, j: int) -> Floats:
        """Return the coordinates (k, d_j) of term j at points (k, d_j) of group j."""
        assert self.space.box is not None
        ours, own = self.space.box[list(self.groups[j])], self.terms[j].space.box
        if own is None or (own == ours).all():
            return np.ascontiguousarray(points)
        share = (points - ours[:, 0]) / (ours[:, 1] - ours[:, 0])
        return np.clip(own[:, 0] + share * (own[:, 1] - own[:, 0]), own[:, 0], own[:, 1])

    def evaluate(self, points: Floats) -> Floats:
        total = np.zeros(len(points))
        for j, (term, group) in enumerate(zip(self.terms, self.groups, strict=True)):
            total += term.values_at(self._parts(points[:, group], j))
        return total

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Return the largest value over the available candidates (mask (size,); default all), in units of y.

        Without `available` it is the sum of the terms' optima on their groups: exact on a grid; on a box as exact as
        those of the terms.
        """
        if available is not None:
            return super().optimum(t, available)
        if self._largest is None:
            self._largest = sum((self._largest_of(j) for j in range(len(self.terms))), 0.0)
        return self._largest

    def _largest_of(self, j: int) -> float:
        """Return the largest value of term j on its group."""
        term = self.terms[j]
        if term.space.size is not None or self.space.size is None:
            return term.optimum()
        part = tabulated(_projected(self.space, self.groups[j], None))
        return float(term.values_at(self._parts(part.points(), j)).max())


def _hidden(dimension: int, count: int, seed: int) -> list[int]:
    """Draw `count` different dimensions, in random order."""
    return generator(seed, "groups").permutation(dimension)[:count].tolist()


def _checked(groups: Sequence[Sequence[int]], space: Space) -> Groups:
    """Return groups of dimensions; ValueError if one is empty, or a dimension does not exist or is in two."""
    if space.box is None:
        checks.refuse("space", space, "a Box or a Grid")
    try:
        found = tuple(tuple(checks.integer("groups", i, 0, space.dimension - 1) for i in group) for group in groups)
    except TypeError:
        found = ()
    every = [i for group in found for i in group]
    if not found or not all(found) or len(set(every)) < len(every):
        checks.refuse("groups", groups, "lists of dimensions, none of them empty, no dimension twice")
    return found


def _projected(space: Space, group: Sequence[int], bounds: Floats | None) -> Box | Grid:
    """Return the space of a group of dimensions, with its own bounds (d_j, 2) or with others."""
    assert space.box is not None
    bounds = space.box[list(group)] if bounds is None else bounds
    return Box(bounds) if space.lattice is None else Grid(bounds, [space.lattice[i] for i in group])
