"""Empty cubes: those of the first cover, or of a split, into which no observation fell.

All of them have the index of the prior, so that a group of them is one leaf of the tree of maxima, however many they
are. Which one is played is a tie, and decided without looking at all of them:

    in up to six dimensions      the cube of smallest seeded hash, of all that tie in the cover
    in more dimensions           a cube of the largest ones; of these, of the group of which fewest were played;
                                 then by hash of the group. In a group they have a fixed order, in which the next cube
                                 is far from the last ones.

Both are functions of the seed and the cubes alone: when a group was made, and what was asked, change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.posteriors.partition.argmax_tree import seeded_hashes
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import Cover, Place
from scalable_bandits.randomness import derived_seed

_LAST_63_BITS = 2**63 - 1  # the numbers that are hashed are signed 64-bit integers
_MOST_PLAYED = 2**20 - 1  # number of cubes of a group up to which the groups of which fewer were played are preferred
_GOLDEN = 618_033_988_749_894_848  # in units of 10^-18; multiples of it, modulo 1, are spread evenly


def cube_hashes(
    cover: Cover, parent: Cell | None, divisions: int, places: Sequence[Place], salt: np.uint64
) -> NDArray[np.uint64]:
    """Return the seeded hashes (k,) of cubes of the first cover, or of those in a cell that split."""
    if not cover.closed:
        return np.array([derived_seed(int(salt), divisions, *place) for place in places], dtype=np.uint64)
    if not places:
        return np.empty(0, dtype=np.uint64)
    if parent is None:
        numbers = np.ravel_multi_index(tuple(np.array(places).T), (divisions,) * cover.dimension)
        return seeded_hashes(numbers, salt)
    # A child's hash follows from its parent's, so that it does not depend on the order of splits.
    halves = (np.array(places) % 2) @ (1 << np.arange(cover.dimension)[::-1])
    codes = [(parent.seeded_hash ^ (k + 1)) & _LAST_63_BITS for k in halves.tolist()]
    return seeded_hashes(np.array(codes), salt)


class EmptyCubes:
    """Empty cubes of the first cover, or of a cell that split; a leaf of the tree of maxima.

    Parameters
    ----------
    cover
        Cubes of the space.
    parent
        Cell that split; None for the first cover.
    divisions
        Number of cubes along each side of the space.
    salt
        Seed of the order.

    Attributes
    ----------
    count : int
        Number of filled cubes, with those that are not empty.
    taken : int
        Number of them that are not empty.
    cap : float
        Upper bound of the index, infinite without tightening.
    place
        Place of the cube that is played if the index of the group is largest; None if no cube is empty.
    seeded_hash : int
        Rank of the group among leaves whose indices tie: the smallest is chosen.
    """

    # As of a cell, for the tree.
    gain = 0.0
    maximizer: Any = None
    posterior: Any = None

    def __init__(self, cover: Cover, parent: Cell | None, divisions: int, salt: np.uint64):
        self.cover, self.parent, self.divisions, self._salt = cover, parent, divisions, salt
        self.slot = -1
        self.place: Place | None = None
        self.seeded_hash = 0
        self.taken = 0
        self.cap = math.inf
        self._next = 0  # cubes before this one, in the order, are not empty
        cubes = self._cubes()
        self.count = cubes.count
        self._ranked: list[tuple[int, Place]] = []  # hashes and places in their order, if all are looked at
        if cover.closed:
            places = cubes.places()
            hashes = cube_hashes(cover, parent, divisions, places, salt).tolist()
            self._ranked = sorted(zip(hashes, places, strict=True))
            return
        self._seed = derived_seed(int(salt), "empty cubes", divisions, *(() if parent is None else parent.place))
        self._first, self._step = self._seed % self.count, max(self.count * _GOLDEN // 10**18, 1)
        while math.gcd(self._step, self.count) > 1:
            self._step += 1

    def _cubes(self) -> Any:
        return self.cover.filled(self.divisions, None if self.parent is None else self.parent.place)

    def _at(self, number: int) -> tuple[int, Place]:
        """Return rank and place of a cube by its number in the order."""
        if self.cover.closed:
            return self._ranked[number]
        place = self._cubes().place((self._first + number * self._step) % self.count)
        hashed = derived_seed(self._seed, number) >> 25  # 38 bits
        return self.divisions.bit_length() << 58 | min(number, _MOST_PLAYED) << 38 | hashed, place

    def find_first(self, cell_at: Callable[[Place], Cell | None], pending: Any) -> None:
        """Set place and rank to those of the first empty cube without pending points.

        Parameters
        ----------
        cell_at
            Function that returns the cell of a cube, if there is one.
        pending
            Container of the numbers of the cells that hold pending points.
        """
        number, self.place = self._next, None
        while number < self.count:
            rank, place = self._at(number)
            cell = cell_at(place)
            if cell is None or not (cell.count or cell.number in pending):
                self.seeded_hash, self.place = rank, place
                return
            if cell.count and number == self._next:
                self._next += 1
            number += 1
