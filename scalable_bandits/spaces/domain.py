"""What a policy plays: numbered candidates of a finite space, of a candidate set, or the points of a whole box.

To a policy, a point is a number. A finite space has numbers for its candidates; a box is played through a finite set
of candidates, or as a whole, where every point that is asked for or told gets the next number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import FiniteSpace, Indices, Space, availability
from scalable_bandits.spaces.points import Points

Mask = NDArray[np.bool_]

CANDIDATES = 1024  # size of the candidate set of a box


class VisitedPoints:
    """Points that were asked for or told, numbered in that order.

    Parameters
    ----------
    array
        (n, d) points, in units of x. A row of NaN stands for a number whose point is lost.
    rows
        Number of each point by its bytes; shared with the lists that `placed` returns.
    """

    has_coordinates: ClassVar[bool] = True

    def __init__(self, array: Floats, rows: dict[bytes, int] | None = None):
        self.array = array
        self.array.flags.writeable = False
        self._rows = {} if rows is None else rows

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.array.shape[1])

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.array)

    @property
    def known(self) -> Mask:
        """Whether the point of a number is known, (n,)."""
        return ~np.isnan(self.array[:, 0])

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        """Return some points, or all, (k, d), in units of x."""
        return self.array if candidates is None else self.array[np.asarray(candidates, dtype=np.int64)]

    x_of = points

    def value(self, candidate: int) -> Floats:
        """Return the point (d,) of a number."""
        return np.array(self.array[candidate])

    def find(self, points: Floats) -> Indices:
        """Return the numbers (k,) of points (k, d); -1 for those without one."""
        rows = points + 0.0  # -0.0 becomes 0.0: rows compare by their bytes
        found = np.array([self._rows.get(row.tobytes(), -1) for row in rows], dtype=np.int64)
        for i, number in enumerate(found.tolist()):  # a number may belong to another list with the same `rows`
            if number >= self.size or (number >= 0 and (self.array[number] != rows[i]).any()):
                found[i] = -1
        return found

    def index(self, x: ArrayLike) -> Indices:
        """Return the numbers (k,) of points (d,) or (k, d); ValueError for a point without one."""
        points = np.asarray(x, dtype=np.float64).reshape(-1, self.dimension)
        found = self.find(points)
        if (found < 0).any():
            checks.refuse("x", points[found < 0][0].tolist(), f"one of the {self.size} points visited, exactly")
        return found

    def placed(self, numbers: Indices, points: Floats) -> VisitedPoints:
        """Return these points, and points (k, d) with given numbers (k,); numbers left out are rows of NaN."""
        array = np.full((max(self.size, int(np.max(numbers, initial=-1)) + 1), self.dimension), np.nan)
        array[: self.size] = self.array
        array[numbers] = points + 0.0
        for number in numbers.tolist():
            if not np.isnan(array[number]).any():
                self._rows[array[number].tobytes()] = number
        return VisitedPoints(array, self._rows)


class Domain(ABC):
    """Numbered points of a space, of which the first may be chosen. A domain never changes: `grown` makes another.

    Parameters
    ----------
    space
        The policy's space.
    numbered
        Points by number.
    choosable
        Number of candidates: the points of lower number may be chosen, the others are told only.

    Attributes
    ----------
    whole_box : bool
        Whether every point of a box may be chosen.
    """

    whole_box: ClassVar[bool] = False

    def __init__(self, space: Space, numbered: Any, choosable: int):
        self.space, self.numbered, self.choosable = space, numbered, choosable

    @property
    def size(self) -> int:
        """Number of points that have a number."""
        return int(self.numbered.size)

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        """Return the coordinates (k, d) of some points by number, or of all, in units of x."""
        found: Floats = self.numbered.points(candidates)
        return found

    def value(self, candidate: int) -> Any:
        """Return what `ask` returns for a number: a point (d,), or an arm number."""
        return self.numbered.value(candidate)

    def sample(self, seed: int) -> Floats:
        """Return some points (k, d), all of a small finite set; a seed chooses those of a box."""
        found: Floats = self.numbered.sample(seed)
        return found

    def added(self) -> Floats:
        """Points (k, d) that were told and are not candidates, by number."""
        return self.points(np.arange(self.choosable, self.size))

    @abstractmethod
    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        """Return a mask (size,) of what may be chosen, None if everything may; `available`, `context` as in `ask`."""

    @abstractmethod
    def find(self, points: Floats) -> Indices:
        """Return the numbers (k,) of points (k, d), -1 for points without; ValueError outside of the space."""

    @abstractmethod
    def grown(self, points: Floats) -> Domain:
        """Return the domain with more points (k, d), which get the next numbers."""

    def placed(self, candidates: Indices, points: Floats) -> Domain:
        """Return the domain in which points (k, d) have given numbers (k,), those of an earlier process."""
        return self

    def unobserved(self, observed: Mask) -> Indices:
        """Return the numbers (k,) of known points of a whole box that are not in a mask (size,); elsewhere none."""
        return np.empty(0, dtype=np.int64)

    def canonical(self, candidate: int) -> int:
        """Return the first candidate at a candidate's point."""
        return candidate

    def same_point(self, candidate: int) -> Indices:
        """Return the numbers (k,) of all candidates at a candidate's point."""
        return np.array([candidate])

    @abstractmethod
    def draw_uniform(self, rng: np.random.Generator, allowed: Mask | None) -> int | Floats:
        """Draw a candidate's number, or a point (d,) of a whole box, uniformly from a mask (size,) or from all."""


class FiniteDomain(Domain):
    """All candidates of a finite space."""

    numbered: FiniteSpace

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        if context is not None:
            matching = self.numbered.matching(context)
            available = matching if available is None else availability(available, self.size) & matching
        if available is None and self.size == self.choosable:
            return None
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[: self.choosable] = True if available is None else availability(available, self.choosable)
        return mask

    def find(self, points: Floats) -> Indices:
        return self.numbered.index(points)

    def grown(self, points: Floats) -> Domain:
        raise AssertionError("a finite space has all its points")

    def canonical(self, candidate: int) -> int:
        return self.numbered.canonical(candidate)

    def same_point(self, candidate: int) -> Indices:
        return self.numbered.equal_to(candidate)

    def draw_uniform(self, rng: np.random.Generator, allowed: Mask | None) -> int:
        return int(rng.integers(self.choosable) if allowed is None else rng.choice(np.flatnonzero(allowed)))


class CandidateSet(FiniteDomain):
    """A finite set of candidates of a box, and the points told beside them."""

    numbered: Points

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        _refuse_context(context)
        return super().allowed(available)

    def find(self, points: Floats) -> Indices:
        return self.numbered.find(self.space.check(points))

    def grown(self, points: Floats) -> CandidateSet:
        return CandidateSet(self.space, self.numbered.grown(points), self.choosable)


class WholeBox(Domain):
    """A box of which every point may be chosen; numbers are those of the points visited."""

    whole_box = True
    numbered: VisitedPoints

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> None:
        _refuse_context(context)
        if available is not None:
            checks.refuse("available", available, "None on a whole box; candidates= plays one through a finite set")

    def find(self, points: Floats) -> Indices:
        return self.numbered.find(self.space.check(points))

    def grown(self, points: Floats) -> WholeBox:
        return self.placed(np.arange(self.size, self.size + len(points)), points)

    def placed(self, candidates: Indices, points: Floats) -> WholeBox:
        return WholeBox(self.space, self.numbered.placed(candidates, points), 0)

    def sample(self, seed: int) -> Floats:
        return self.space.sample(seed)

    def unobserved(self, observed: Mask) -> Indices:
        return np.flatnonzero(~observed & self.numbered.known)

    def draw_uniform(self, rng: np.random.Generator, allowed: Mask | None) -> Floats:
        low, high = np.array(self.space.box).T
        return np.asarray(low + (high - low) * rng.random(self.space.dimension))


def _refuse_context(context: Mapping[int, float] | None) -> None:
    if context is not None:
        checks.refuse("context", context, "none on a box, whose candidates share no coordinates: take a Grid")


def make_domain(space: Space, candidates: int | None, seed: int) -> Domain:
    """Make the domain of a policy that has been asked and told nothing.

    Parameters
    ----------
    space
        The policy's space.
    candidates
        Size of the candidate set of a box; None plays the box as a whole. Not used on a finite space.
    seed
        Seed of the candidate set.
    """
    if space.finite is not None:
        return FiniteDomain(space, space.finite, space.finite.size)
    if candidates is None:
        return WholeBox(space, VisitedPoints(np.empty((0, space.dimension))), 0)
    return CandidateSet(space, space.candidate_set(candidates, seed), candidates)
