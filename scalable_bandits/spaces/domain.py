"""Domains: the numbered points of a policy's space.

Policies refer to points by number. A finite space numbers its candidates. For a box, and for a grid of more candidates
than a policy enumerates, the numbered points are a finite set of candidates, or, if the whole of it is searched, all
points asked for or told, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import FiniteSpace, Indices, Mask, Space, availability
from scalable_bandits.spaces.finite import MOST_NUMBERED, Grid, Points

MOST_MASKED = 10**8  # largest number of candidates of which there is a mask that no user gave
CANDIDATES = 1024  # size of the candidate set of a box


class Domain:
    """Numbered points of a space: candidates, followed by points that were told only. Immutable.

    The candidates are those of a finite space, or a finite set from a box or a large grid; `VisitedDomain` is the
    domain of the whole of these.

    Parameters
    ----------
    space
        The policy's space.
    numbered
        Points by number.
    choosable
        Number of candidates, which may be chosen; points with larger numbers were told only.

    Attributes
    ----------
    size : int
        Number of points.
    by_visit : bool
        Whether points get numbers as they are visited, and every point of the space may be chosen: of a box, or of a
        grid that is not enumerated.
    """

    by_visit: ClassVar[bool] = False

    def __init__(self, space: Space, numbered: FiniteSpace, choosable: int):
        self.space, self.choosable, self.size = space, choosable, numbered.size
        self.numbered: NumberedPoints = numbered

    @property
    def count(self) -> int | None:
        """Number of points that may be chosen; None if there are infinitely many."""
        return self.choosable

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        """Return the coordinates (k, d) of some points by number, or of all, in units of x."""
        return self.numbered.points(candidates)

    def coordinates(self, candidates: ArrayLike | None = None) -> Floats:
        """Return the coordinates (k, D) that a model sees of some points by number, or of all."""
        return self.space.encode(self.points(candidates))

    @property
    def finite(self) -> FiniteSpace:
        """Numbered points as a finite space; TypeError for a whole box, which has points visited, not candidates."""
        if not isinstance(self.numbered, FiniteSpace):
            raise TypeError("a whole box has no candidates")
        return self.numbered

    @property
    def model_space(self) -> FiniteSpace:
        """Numbered points, as a model sees them, as a finite space; TypeError for a whole box."""
        return Points(self.coordinates()) if self.space.named else self.finite

    def value(self, candidate: int) -> Any:
        """Return the value of `ask` for a number: a point (d,), an arm number, or a dict of a named space."""
        return self.space.argument(self.numbered.points([candidate])[0])

    def values(self, candidates: Sequence[int]) -> list[Any]:
        """Return the values of `ask` for several numbers."""
        return [self.value(candidate) for candidate in candidates]

    def sample(self, seed: int) -> Floats:
        """Return some points (k, d), or all of a small finite set; a seed selects those of a box."""
        return self.finite.sample(seed)

    def added(self) -> Floats:
        """Return the points (k, d) that were told and are not candidates, in the order of their numbers."""
        return self.points(np.arange(self.choosable, self.size))

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        """Return the mask (size,) of the candidates that may be chosen, or None for all; arguments as in `ask`.

        ValueError for an availability set or a context without a candidate, or a space without contexts.
        """
        if context is not None:
            if self.space.finite is None:
                allowed = "None with candidates= of a box; policies that play the whole of it take contexts"
                checks.refuse("context", context, allowed)
            matching = self.finite.matching(context)
            available = matching if available is None else availability(available, self.size) & matching
        if available is None and self.size == self.choosable:
            return None
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[: self.choosable] = True if available is None else availability(available, self.choosable)
        return mask

    def without(self, excluded: Sequence[int] | Indices, allowed: Mask | None) -> Mask | None:
        """Return a mask (size,) or that of all candidates without those at some points.

        None on a whole box, and on a grid too large for a mask of all: those who choose there choose again.
        """
        if allowed is None and self.size > MOST_MASKED:
            return None
        left = np.ones(self.size, dtype=np.bool_) if allowed is None else allowed.copy()
        left[np.concatenate([self.finite.equal_to(candidate) for candidate in excluded])] = False
        return left

    def find(self, points: Floats) -> Indices:
        """Return the numbers (k,) of points (k, d), -1 for points without one; ValueError outside a whole box."""
        return self.numbered.find(points)

    def grown(self, points: Floats) -> Domain:
        """Return the domain with more points (k, d), which get the next numbers; ValueError outside the space."""
        new = self.space.check(points)  # a finite space has all its points
        assert isinstance(self.numbered, Points)
        return Domain(self.space, self.numbered.grown(new), self.choosable)

    def placed(self, candidates: Indices, points: Floats) -> Domain:
        """Return the domain in which points (k, d) have the numbers (k,) of an earlier process."""
        return self

    def fixed(self, context: Mapping[Any, Any] | None) -> Floats | None:
        """Return the coordinates (d,) that a context fixes, NaN where one is free.

        None without a context, or if a mask says it (`allowed`); ValueError for a context that the space does not have,
        or none where it needs one.
        """
        return None

    def draw_uniform(
        self, rng: np.random.Generator, allowed: Mask | None, fixed: Floats | None = None
    ) -> int | Floats:  # fmt: skip
        """Draw a candidate's number, or a point (d,) of a whole box in a context, uniformly from a mask or from all."""
        return int(rng.integers(self.choosable) if allowed is None else rng.choice(np.flatnonzero(allowed)))


class Visited:
    """Points that domains number in the order in which they were visited, with room for more.

    Parameters
    ----------
    array
        Points (room, d), in units of x. A row of NaN is the number of a lost point, or free.
    used
        Number of rows that the largest domain has.
    numbers
        Numbers of the points by their bytes.
    """

    def __init__(self, array: Floats, used: int, numbers: dict[bytes, int]):
        self.array, self.used, self.numbers = array, used, numbers

    def copied(self, used: int, room: int) -> Visited:
        """Return a copy of the first rows, with room for so many; the numbers by bytes are shared."""
        array = np.full((room, self.array.shape[1]), np.nan)
        array[:used] = self.array[:used]
        return Visited(array, used, self.numbers)


class VisitedDomain(Domain):
    """Domain of a box, search space or large grid, all points of which may be chosen; those visited are numbered.

    Parameters
    ----------
    space
        The policy's space.
    visited
        Points that were asked for or told, which this domain shares with those that it grew from.
    size
        Number of the points, of these, that belong to this domain.
    """

    by_visit = True
    has_coordinates: ClassVar[bool] = True

    def __init__(self, space: Space, visited: Visited, size: int):
        self.space, self.choosable, self.size = space, 0, size
        self._visited = visited

    @property
    def _array(self) -> Floats:
        array = self._visited.array[: self.size]
        array.flags.writeable = False
        return array

    @property
    def numbered(self) -> VisitedDomain:  # type: ignore[override]  # an attribute would be a circle of references
        return self

    @property
    def count(self) -> int | None:
        return None if self.space.scanned and self.space.named else self.space.size  # a pool with contexts

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        return self._array if candidates is None else self._array[np.asarray(candidates, dtype=np.int64)]

    def values(self, candidates: Sequence[int]) -> list[Any]:
        return self.space.arguments(self.points(list(candidates)))  # labels of a pool are read together

    def canonical(self, candidate: int) -> int:
        """Return the number itself: no two are at one point; as of a finite space."""
        return candidate

    def x_of(self, candidates: ArrayLike | None = None) -> Floats:
        """Return x (k, d) of some numbers, or of all; as of a finite space."""
        return self.points(candidates)

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> None:
        if available is not None:
            allowed = "None on a whole box, and on a grid that is not enumerated; candidates= chooses from a finite set"
            if self.space.scanned:
                allowed = "on a pool a function that returns a mask (k,) of candidates, given their numbers (k,)"
            checks.refuse("available", available, allowed)

    def without(self, excluded: Sequence[int] | Indices, allowed: Mask | None) -> None:
        pass

    def find(self, points: Floats) -> Indices:
        rows = self._exact(points) + 0.0  # -0.0 becomes 0.0: rows compare by their bytes
        found = np.array([self._visited.numbers.get(row.tobytes(), -1) for row in rows], dtype=np.int64)
        for i, number in enumerate(found.tolist()):  # a number may be that of another domain with the same points
            if number >= self.size or (number >= 0 and (self._array[number] != rows[i]).any()):
                found[i] = -1
        return found

    def index(self, x: ArrayLike) -> Indices:
        """Return the numbers (k,) of points (d,) or (k, d); ValueError for a point without one."""
        points = np.asarray(x, dtype=np.float64).reshape(-1, self.space.dimension)
        found = self.find(points)
        if (found < 0).any():
            checks.refuse("x", points[found < 0][0].tolist(), f"one of the {self.size} points visited, exactly")
        return found

    def grown(self, points: Floats) -> VisitedDomain:
        return self.placed(np.arange(self.size, self.size + len(points)), self._exact(points))

    def _exact(self, points: Floats) -> Floats:
        """Return points (k, d) of the space; those of a grid without rounding errors."""
        points = self.space.check(points)
        return self.space.at(self.space.steps(points)) if isinstance(self.space, Grid) else points

    def placed(self, candidates: Indices, points: Floats) -> VisitedDomain:
        """Return the domain in which points (k, d) have given numbers (k,); unused numbers get rows of NaN."""
        visited, size = self._visited, max(self.size, int(np.max(candidates, initial=-1)) + 1)
        if visited.used > self.size or len(visited.array) < size or np.min(candidates, initial=size) < self.size:
            visited = visited.copied(self.size, size + size // 2)
        visited.used = size
        visited.array[candidates] = points + 0.0
        for number in candidates.tolist():
            if not np.isnan(visited.array[number]).any():
                visited.numbers[visited.array[number].tobytes()] = number
        return VisitedDomain(self.space, visited, size)

    def sample(self, seed: int) -> Floats:
        return self.space.sample(seed)

    def fixed(self, context: Mapping[Any, Any] | None) -> Floats | None:
        return self.space.context(context)

    def draw_uniform(self, rng: np.random.Generator, allowed: Mask | None, fixed: Floats | None = None) -> Floats:
        return self.space.draw(1, rng, fixed)[0]


NumberedPoints = FiniteSpace | VisitedDomain


def numbers_all(space: Space, most: int) -> bool:
    """Return whether the numbered points are all of a space: it is finite, and no grid of more than `most` points."""
    return space.finite is not None and (space.lattice is None or space.finite.size <= most)


def make_domain(space: Space, candidates: int | None, seed: int, most: int = MOST_NUMBERED) -> Domain:
    """Make the domain of a fresh policy.

    Parameters
    ----------
    space
        The policy's space.
    candidates
        Number of candidates of a box or a large grid; None for the whole of it. Not used on other finite spaces.
    seed
        Seed of the candidate set.
    most
        Number of candidates beyond which a grid is large.
    """
    if space.finite is not None and numbers_all(space, most):
        return Domain(space, space.finite, space.finite.size)
    if candidates is None:
        return VisitedDomain(space, Visited(np.empty((0, space.dimension)), 0, {}), 0)
    chosen = space.candidate_set(candidates, seed)
    return Domain(space, chosen, chosen.size)
