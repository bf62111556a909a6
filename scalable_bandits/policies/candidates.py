"""Which candidates a policy plays: those of its space, a set of points of a box, or a box's points as they come up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Box, FiniteSpace, Indices, Points, Space, Visited, availability
from scalable_bandits.specification import Specification

Mask = NDArray[np.bool_]

CANDIDATES = 1024  # of a box, where a policy needs some


class Played(Specification):
    """The candidates of a policy, which are numbers to it: whatever its space is."""

    space: Space
    seed: int
    candidates: int | None
    _finite: FiniteSpace
    _choosable: int  # how many may be chosen: the first ones

    def _settle(self) -> None:
        """Decide what is played."""
        whole = isinstance(self.space, Box) and self._takes_whole_boxes()
        if self.candidates is None and not whole:
            self.candidates = CANDIDATES
        if isinstance(self.space, FiniteSpace):
            self._finite = self.space
        elif isinstance(self.space, Box):
            count, nothing = self.candidates, np.empty((0, self.space.dimension))
            self._finite = Visited(nothing) if count is None else self.space.candidates(count, self.seed)
        self._choosable = self._finite.size

    def _takes_whole_boxes(self) -> bool:
        return bool(vars(type(self)).get("continuous", False))

    def _some_points(self) -> Floats:
        """All points of a finite space; of a larger one and of a box a sample."""
        if isinstance(self._finite, Visited):
            assert isinstance(self.space, Box)
            return self.space.candidates(256, self.seed).array
        count = min(self._finite.size, 100_000)
        return self._finite.points(np.linspace(0, self._finite.size - 1, count).astype(np.int64))

    def allowed(self, available: ArrayLike | None, context: Mapping[int, float] | None = None) -> Mask | None:
        """Mask (size,) over all candidates of what may be chosen; None if everything may.

        Parameters
        ----------
        available, context
            As in `ask`.

        Raises
        ------
        ValueError
            If nothing may, or a box is to be restricted.
        """
        size = self._finite.size
        if context is not None:
            if isinstance(self.space, Box):
                checks.refuse("context", context, "none on a box, whose candidates share no coordinates: take a Grid")
            matching = self._finite.matching(context)
            available = matching if available is None else availability(available, size) & matching
        if isinstance(self._finite, Visited):
            if available is not None:
                checks.refuse("available", available, "None on a whole box; candidates= plays one through a finite set")
            return None
        if available is None and size == self._choosable:
            return None
        mask = np.zeros(size, dtype=np.bool_)
        mask[: self._choosable] = True if available is None else availability(available, self._choosable)
        return mask

    def _find(self, points: Floats) -> Indices:
        """Candidates at the points; -1 for a point of a box that is none."""
        if not isinstance(self.space, Box):
            return self._finite.index(points)
        assert isinstance(self._finite, Points | Visited)
        return self._finite.find(self.space.check(points))

    def _locate(self, points: Floats) -> Indices:
        """Candidates at the points; a box takes points in that are not of its candidate set."""
        found = self._find(points)
        if (found >= 0).all():
            return found
        assert isinstance(self._finite, Points | Visited)
        self._extend_to(self._finite.grown(np.unique(points[found < 0], axis=0)))
        return self._finite.index(points)

    def introduce(self, candidates: Indices, points: Floats) -> None:
        """Give points (k, d) of a whole box the numbers (k,) of an earlier process; other spaces have their own."""
        if isinstance(self._finite, Visited):
            self._extend_to(self._finite.placed(candidates, points))

    def untold(self) -> Indices:
        """Numbers (k,) of a whole box's points that were asked for and not told, given up ones among them."""
        return np.empty(0, dtype=np.int64)

    def _extend_to(self, grown: Points | Visited) -> None:
        if isinstance(grown, Visited):
            self.visit(grown)
        else:
            self.extend(grown)
        self._finite = grown

    def extend(self, grown: Points) -> None:
        """Prepare for points that cannot be chosen, at the end of a longer candidate set; may refuse them."""

    def visit(self, grown: Visited) -> None:
        """Prepare for another list of the points visited of a whole box."""
