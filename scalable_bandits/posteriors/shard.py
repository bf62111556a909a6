"""A shard of the partition: the posteriors of a group of cells, held while memory lasts.

A cell's posterior follows from the cell and the observations alone: one that was not needed for long is dropped and,
when it is, computed again by the same arithmetic.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.cell import Cell, CellPosterior
from scalable_bandits.posteriors.cover import Cover
from scalable_bandits.posteriors.state import State, arrays
from scalable_bandits.spaces import FiniteSpace, Indices

CACHE_BYTES = 2**30  # of posteriors held


class Told:
    """All observations, in the order of telling.

    Attributes
    ----------
    count : int
        How many.
    candidates, ys, noises : ndarray
        (count or more,) where, what, and with which noise variance.
    """

    def __init__(self) -> None:
        self.candidates, self.ys, self.noises = np.empty(64, np.int64), np.empty(64), np.empty(64)
        self.count = 0

    def add(self, candidate: int, y: float, noise_variance: float) -> int:
        """Take one in; its number."""
        number = self.count
        if number == len(self.ys):
            self.candidates, self.ys, self.noises = (
                np.concatenate([held, np.empty(max(number, 64), held.dtype)])
                for held in (self.candidates, self.ys, self.noises)
            )
        self.candidates[number], self.ys[number], self.noises[number] = candidate, y, noise_variance
        self.count += 1
        return number

    def at(self, number: int) -> tuple[int, float, float]:
        """One of them."""
        return int(self.candidates[number]), float(self.ys[number]), float(self.noises[number])

    def state(self) -> State:
        """All of them, as arrays."""
        n = self.count
        return arrays(candidates=self.candidates[:n], ys=self.ys[:n], noises=self.noises[:n])

    def restore(self, state: State) -> None:
        """Know what `state` gave."""
        self.candidates, self.ys, self.noises = state["candidates"], state["ys"], state["noises"]
        self.count = len(self.ys)


class Shard:
    """Posteriors of cells.

    Parameters
    ----------
    space, kernel, prior_mean, cover
        As in the partition.
    told
        The observations that cells name by number.
    """

    def __init__(self, space: FiniteSpace, kernel: Kernel, prior_mean: float, cover: Cover, told: Told):
        self._space, self._kernel, self._prior_mean = space, kernel, prior_mean
        self._cover, self._told = cover, told
        self._awake: OrderedDict[int, Cell] = OrderedDict()  # the one that was needed last at the end
        self._bytes = 0

    def posterior(self, cell: Cell) -> CellPosterior:
        """Posterior of a cell, computed from its observations if it is not held."""
        held = cell.posterior
        if held is None:
            held = self.build(cell)
            self._hold(cell, held)
        else:
            self._awake.move_to_end(cell.number)
        return held

    def build(self, cell: Cell) -> CellPosterior:
        """A posterior of its own of a cell."""
        numbers = self._cover.members(cell.divisions, cell.place)
        built = CellPosterior(self._kernel, self._space.points(numbers), numbers, self._prior_mean)
        self._learn(built, cell)
        return built

    def condition(self, cell: Cell, points: Floats, numbers: Indices) -> float:
        """Make the posterior of a new cell, whose candidates are given; the information gain of its observations."""
        made = CellPosterior(self._kernel, points, numbers, self._prior_mean)
        gain = self._learn(made, cell)
        self._hold(cell, made)
        return gain

    def _learn(self, posterior: CellPosterior, cell: Cell) -> float:
        if not cell.data:
            return 0.0
        chosen = np.array(cell.data)
        positions = posterior.numbers.searchsorted(self._told.candidates[chosen]).tolist()
        return posterior.observe(positions, self._told.ys[chosen], self._told.noises[chosen])

    def observe(self, cell: Cell, candidate: int, y: float, noise_variance: float) -> CellPosterior:
        """Condition a cell's posterior, and add to its information gain."""
        posterior = self.posterior(cell)
        before = posterior.nbytes
        cell.gain += posterior.observe_one(candidate, y, noise_variance)
        self._bytes += posterior.nbytes - before
        return posterior

    def _hold(self, cell: Cell, posterior: CellPosterior) -> None:
        cell.posterior = posterior
        self._awake[cell.number] = cell
        self._bytes += posterior.nbytes
        while self._bytes > CACHE_BYTES and len(self._awake) > 1:
            self.forget(next(iter(self._awake.values())))

    def forget(self, cell: Cell) -> None:
        """Drop a cell's posterior."""
        if cell.posterior is not None:
            del self._awake[cell.number]
            self._bytes -= cell.posterior.nbytes
            cell.posterior = None

    def clear(self) -> None:
        """Drop all."""
        for cell in list(self._awake.values()):
            self.forget(cell)
