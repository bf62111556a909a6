"""Partition of a finite space in one process, whose rounds can be played in a compiled loop."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.posteriors.engine import TIE_TOLERANCE
from scalable_bandits.posteriors.partition import _numba_rounds as numba_rounds
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.hot_cells import PlacesOfCandidates
from scalable_bandits.posteriors.partition.partition import Partition
from scalable_bandits.posteriors.rounds import Columns, Game

COMPILED = numba_rounds.AVAILABLE


class WidthRule(NamedTuple):
    """Log term log(N_t / delta) of the widths in round t: log(4 / delta) + b d log(t + 1)."""

    log_delta: float
    growth: float

    def at(self, t: int) -> float:
        """Return the log term of round t."""
        return self.log_delta + self.growth * math.log(t + 1)


class LoopedPartition(Partition):
    """Partition with a compiled loop over rounds, which `FiniteCells` and a function f by table allow.

    The loop plays the rounds that only change posteriors that are in memory. It ends before any other round, which goes
    the usual way; long runs have few of those.

    See `Partition` for the parameters.
    """

    def __init__(self, *given: Any):
        self._places = PlacesOfCandidates()
        super().__init__(*given)

    def after_restore(self) -> None:
        self._places = PlacesOfCandidates()

    def _split(self, cell: Cell, log_term: float) -> None:
        self._places.leave(cell)
        super()._split(cell, log_term)

    def play(self, rule: WidthRule, game: Game, columns: Columns) -> None:
        """Play rounds: `maximize`, `observe` the value of the game; the same numbers.

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
        while done < len(game.noise):
            free, order = self._empty.first()
            known = numba_rounds.Numbers(
                rule.log_delta, rule.growth, *tree.norms, self._shard.prior_mean, self._shard.prior_std, TIE_TOLERANCE,
                free, np.uint64(order), tree.slots,
            )  # fmt: skip
            reason, where, stop = numba_rounds.play(
                tree.hot.arrays, tree.arrays, self._places.arrays, known, game, columns, done
            )
            self.log.extend(columns.candidates[done:stop], columns.ys[done:stop], game.noise_variance)
            done, log_term = stop, rule.at(game.first + stop)
            if reason in (numba_rounds.DONE, numba_rounds.FULL):
                self._take_over()
            elif not self._help(reason, where):
                self._take_over()
                self._play_round(log_term, game, columns, done)
                done += 1

    def _help(self, reason: int, where: int) -> bool:
        """Add a missing cell or candidate to the caches; return whether the loop can go on.

        The cells that it changed are not brought up to date here (see `_take_over`).
        """
        if reason == numba_rounds.HOMES and self._has_cells(where):
            self._places.put(where, self.homes(where))
            return True
        return reason == numba_rounds.COLD and self._tree.hot.put(*self._tree.cells(np.array([where])))

    def _has_cells(self, candidate: int) -> bool:
        """Return whether all cubes that hold a candidate are cells."""
        places = () if candidate in self._homes else self.cover.places(self.divisions, candidate)
        return all((self.divisions, place) in self._made for place in places)

    def _play_round(self, log_term: float, game: Game, columns: Columns, i: int) -> None:
        """Play the round in position i."""
        candidate, _, columns.gains[i], columns.widths[i] = self.maximize(log_term)
        columns.candidates[i], columns.ys[i] = candidate, game.table[candidate] + game.noise[i]
        self.observe(candidate, columns.ys[i], game.noise_variance, log_term)
        homes = self.homes(candidate)
        self._places.put(candidate, homes)
        for cell in homes:
            self._tree.hot.put(cell)

    def _take_over(self) -> None:
        """Take over what the loop noted about cells."""
        hot, leaf = self._tree.hot.arrays, self._tree.arrays.leaf
        touched, noted, _ = hot.counts.tolist()
        hot.counts[:] = 0
        slots = hot.touched[:touched]
        slots = slots[np.argsort(hot.used[slots])]
        hot.used[slots] = -1
        order = np.argsort(hot.homes[:noted], kind="stable")
        homes, numbers = hot.homes[:noted][order], hot.numbers[:noted][order].tolist()
        first, stop = homes.searchsorted(slots).tolist(), homes.searchsorted(slots, "right").tolist()
        summits, gains = hot.cells[slots, numba_rounds.SUMMIT].tolist(), leaf[slots, 4].tolist()
        cells = self._tree.cells(slots)
        for cell, a, b, summit, gain in zip(cells, first, stop, summits, gains, strict=True):
            cell.data += numbers[a:b]
            cell.held += b - a
            cell.summit, cell.gain = summit, gain
        for cell, rank in zip(cells, hot.cells[slots, numba_rounds.RANK].tolist(), strict=True):
            cell.posterior.rank = rank
        self._shard.use(cells)
