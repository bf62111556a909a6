"""Partition of a finite space in one process, whose rounds can be played in a compiled loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_cells as numba_cells
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import FiniteCover
from scalable_bandits.posteriors.partition.partition import Partition
from scalable_bandits.posteriors.rounds import Columns, Game
from scalable_bandits.posteriors.state import State

COMPILED = numba_cells.AVAILABLE


class WidthRule(NamedTuple):
    """Log term log(N_t / delta) of the widths in round t: log(4 / delta) + b d log(t + 1)."""

    log_delta: float  # log(4 / delta)
    growth: float  # b d

    def at(self, t: int) -> float:
        """Return the log term of round t."""
        return self.log_delta + self.growth * math.log(t + 1)


class LoopedPartition(Partition):
    """Partition with a compiled loop over rounds, for `FiniteCells` and a function f given as a table.

    The loop plays the rounds that only change posteriors in memory. It ends before any other round, which is then
    played by `argmax` and `observe`; few rounds of a long run are of this kind.

    See `Partition` for the parameters.
    """

    # (n, w) slots of the cells of the present cover that hold a candidate, then -1; added when the loop asks for them.
    _slots_of = np.empty((0, 1), dtype=np.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy, without the slots."""
        return {name: held for name, held in vars(self).items() if name != "_slots_of"}

    def before_restore(self, state: State) -> None:
        self._slots_of = LoopedPartition._slots_of

    def _split(self, cell: Cell, log_term: float) -> None:
        assert isinstance(self.cover, FiniteCover)
        if len(self._slots_of):
            self._slots_of[self.cover.members(cell.divisions, cell.place)] = -1
        super()._split(cell, log_term)

    def _add_slots(self, candidate: int, cells: Sequence[Cell]) -> None:
        """Add the slots of the cells that hold a candidate."""
        if (more := len(cells) - self._slots_of.shape[1]) > 0:
            self._slots_of = np.pad(self._slots_of, ((0, 0), (0, more)), constant_values=-1)
        self._slots_of[candidate, : len(cells)] = [cell.slot for cell in cells]

    def play(self, rule: WidthRule, game: Game, columns: Columns) -> None:
        """Play rounds, with the same numbers as `argmax` and `observe` of the game's values in turn.

        Parameters
        ----------
        rule
            Log term of the width of a round.
        game
            Values at the candidates, and noise of the rounds.
        columns
            Columns (count,) of these rounds, which are filled.
        """
        done, tree = 0, self._tree
        if not len(self._slots_of):
            self._slots_of = np.full((len(game.table), 1), -1, dtype=np.int32)
        while done < len(game.noise):
            constants = numba_cells.LoopConstants(
                rule.log_delta, rule.growth, tree.norm, tree.noise, TIE_TOLERANCE, tree.slot_count
            )
            reason, where, stop = numba_cells.play(
                tree.loop_cells.arrays, tree.arrays, self._slots_of, constants, game, columns, done
            )
            self.log.extend(columns.candidates[done:stop], columns.ys[done:stop], game.noise_variance)
            done, log_term = stop, rule.at(game.first + stop)
            if reason in (numba_cells.DONE, numba_cells.NOTES_FULL):
                self._take_over()
            elif not self._add_missing(reason, where):
                self._take_over()
                self._play_round(log_term, game, columns, done)
                done += 1

    def _add_missing(self, reason: int, where: int) -> bool:
        """Add the cell or candidate that is missing in the caches; return whether the loop can go on.

        The cells that the loop changed keep their old numbers in Python until `_take_over`.
        """
        if reason == numba_cells.UNKNOWN_CANDIDATE:
            if any(cube.cell is None for cube in self._cubes_holding(where)):
                return False
            self._add_slots(where, self.cells_holding(where))
            return True
        return reason == numba_cells.UNKNOWN_CELL and self._tree.loop_cells.put(*self._tree.cells(np.array([where])))

    def _play_round(self, log_term: float, game: Game, columns: Columns, i: int) -> None:
        """Play the round in position i by `argmax` and `observe`."""
        candidate, _, columns.gains[i], columns.widths[i] = self.argmax(log_term)
        columns.candidates[i], columns.ys[i] = candidate, game.table[candidate] + game.noise[i]
        self.observe(candidate, columns.ys[i], game.noise_variance, log_term)
        holding = self.cells_holding(candidate)
        self._add_slots(candidate, holding)
        for cell in holding:
            self._tree.loop_cells.put(cell)

    def _take_over(self) -> None:
        """Write the changes that the loop noted into the cells."""
        arrays, leaves = self._tree.loop_cells.arrays, self._tree.arrays.leaves
        slots, observed = np.flatnonzero(arrays.used), int(arrays.noted[0])
        arrays.used[:], arrays.noted[0] = False, 0
        by_slot = np.argsort(arrays.noted_slots[:observed], kind="stable")
        slot_of = arrays.noted_slots[:observed][by_slot]
        numbers = arrays.noted_observations[:observed][by_slot].tolist()
        first, stop = slot_of.searchsorted(slots).tolist(), slot_of.searchsorted(slots, "right").tolist()
        maximizers = arrays.cells[slots, numba_cells.MAXIMIZER].tolist()
        gains = leaves[slots, numba_cells.GAIN].tolist()
        cells = self._tree.cells(slots)
        for cell, a, b, maximizer, gain in zip(cells, first, stop, maximizers, gains, strict=True):
            cell.data += numbers[a:b]
            cell.count += b - a
            cell.maximizer, cell.gain = maximizer, gain
        for cell, rank in zip(cells, arrays.cells[slots, numba_cells.RANK].tolist(), strict=True):
            cell.posterior.rank = rank
        self.posteriors.mark_used(cells)
