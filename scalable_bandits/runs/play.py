"""Rounds of a simulation, played one at a time or in compiled loops."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.environments.base import TABLE_LIMIT
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.spaces import EVERYTHING, FiniteSpace

Available = Callable[[int], ArrayLike]

COLUMNS = ("candidate", "y", "value", "regret", "width", "information_gain")
# Rounds in the first compiled loop, and in the longest. Loops take 30 to 100 ms, in which Ctrl-C waits.
FIRST_BLOCK, LARGEST_BLOCK, LEAST_SECONDS, MOST_SECONDS = 64, 1_048_576, 0.03, 0.1


class Play:
    """Simulation of a policy in an environment, a block of rounds at a time.

    Parameters
    ----------
    policy, environment, available
        Arguments of `simulate`.
    rounds
        Number of rounds of the whole simulation.

    Attributes
    ----------
    interrupts : Interrupts
        Handler of Ctrl-C, a context manager that `simulate` enters.
    """

    def __init__(self, policy: Policy, environment: Environment, available: Available | None, rounds: int):
        policy._measuring.expect_rounds(policy.rounds + rounds)
        self.policy, self.environment, self.available = policy, environment, available
        self.interrupts = Interrupts()
        self._unrestricted = available is None and type(environment).available is Environment.available
        self._table: Floats | None = None  # f at all candidates, where it is the same in all rounds
        self._largest = math.nan  # absolute value in the table
        self._at_once = FIRST_BLOCK  # number of rounds in the next compiled loop
        self._optimum = math.nan if environment.changing else environment.optimum()
        self._value_of = self._make_value_function(rounds)

    def _make_value_function(self, rounds: int) -> Callable[[int, int], float]:
        """Return the function from candidate and round to f, by a table where there is one."""
        policy, environment = self.policy, self.environment
        space = policy.domain.numbered
        if environment.changing and not policy.domain.by_visit:
            return lambda candidate, t: float(environment.table_at(t)[candidate])

        def evaluate(candidate: int, t: int = 1) -> float:  # the points of a whole box grow in number
            return float(environment.values_at(policy.domain.points([candidate]), t if environment.changing else 1)[0])

        if policy.domain.by_visit or space.size > TABLE_LIMIT or not environment.tabulated:
            return evaluate
        if not environment.in_advance(space.size, rounds):
            once = functools.cache(evaluate)
            return lambda candidate, t: once(candidate)
        table = environment.table_at() if space == environment.space else environment.values_at(space.points())
        if isinstance(space, FiniteSpace) and space.distinct:  # otherwise a choice is mapped to the first of its equals
            self._table, self._largest = np.array(table, dtype=np.float64), float(np.abs(table).max())
        return lambda candidate, t: table.item(candidate)

    @property
    def parts(self) -> dict[str, Any]:
        """Parts of the run's specification."""
        available = {} if self.available is None else {"available": self.available}
        return {"policy": self.policy, "environment": self.environment, **available}

    def rounds(
        self, first: int, count: int, seconds: float = math.inf, advance: Callable[[int], None] = lambda _: None,
        on_end: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Play rounds from t = `first` on: `count` of them, or fewer if the time is over; return their columns.

        Parameters
        ----------
        first
            Number t of the first round.
        count
            Number of rounds.
        seconds
            Time after which no round begins.
        advance
            Function that is called with the number of rounds after each block or round, for a progress bar.
        on_end
            Function that is called with the columns at the end, also if a round raises. Not if that round was
            interrupted half-way, by the second Ctrl-C.
        """
        series, stop = Series(count), time.perf_counter() + seconds
        alike = self._table is not None and self.environment.same_noise_everywhere
        compiled = alike and self.available is None and self.policy.domain.allowed(None) is None
        try:
            while series.done < count:
                before = series.done
                if compiled:
                    with self.interrupts.shield():  # Ctrl-C waits for the end of a block, until all is up to date
                        compiled = self._play_block(first + before, series)
                if not compiled:
                    self._play_round(first + before, series)
                advance(series.done - before)
                if time.perf_counter() > stop:
                    break
        finally:
            if on_end is not None and series.done == self.policy.rounds - first + 1:
                with self.interrupts.shield():
                    on_end(series.columns())
        return series.columns()

    def _play_round(self, t: int, series: Series) -> None:
        """Play round t."""
        policy, environment = self.policy, self.environment
        given = None  # all candidates
        if not self._unrestricted:
            given = environment.restricted(None if self.available is None else self.available(t), t)
        candidate = policy.propose(policy.domain.allowed(given))
        width, gain = policy.width, policy.information_gain
        value = self._value_of(candidate, t)
        if environment.same_noise_everywhere:
            y = value + environment.noise_at(t)
        else:
            y = environment.measured(policy.domain.points([candidate])[0], value, t)
        if not abs(y) <= LARGEST:  # also for NaN
            checks.refuse("environment", f"y = {y} in round {t}", f"finite numbers, up to {LARGEST:.0e} in size")
        moving = environment.changing or not self._unrestricted
        best = environment.optimum(t, given) if moving else self._optimum
        with self.interrupts.shield():
            policy.observe(candidate, y)
            series.add(1, candidate, y, value, best - value, width, gain)

    def _play_block(self, t: int, series: Series) -> bool:
        """Play some rounds from t on in a compiled loop; return whether there is one for them."""
        assert self._table is not None
        started = time.perf_counter()
        noise = self.environment.noise_of(t, min(self._at_once, series.left))
        if not self._largest + np.abs(noise).max() <= LARGEST:  # also for NaN: round by round, up to the one that fails
            return False
        available = EVERYTHING if self._unrestricted else self.environment.offered(t, len(noise))
        if available is None:
            return False
        block = self.policy._play(self._table, noise, available)
        if block is None:
            return False
        values = self._table[block.candidates]
        count = len(values)
        best = self._optimum if self._unrestricted else available.part(0, count).largest(self._table)
        series.add(count, block.candidates, block.ys, values, best - values, block.widths, block.gains)
        took = time.perf_counter() - started
        self._at_once = min(2 * self._at_once, LARGEST_BLOCK) if took < LEAST_SECONDS else self._at_once
        if took > MOST_SECONDS:
            self._at_once = max(self._at_once // 2, 1)
        return True


class Series:
    """Columns of the rounds that are being played.

    Parameters
    ----------
    count
        Largest number of rounds.
    """

    def __init__(self, count: int):
        self._arrays = (np.empty(count, dtype=np.int64), *np.empty((5, count)))
        self.done, self._count = 0, count

    @property
    def left(self) -> int:
        """Number of rounds that there is room for."""
        return self._count - self.done

    def add(self, count: int, *values: Any) -> None:
        """Add rounds, with a value or an array (count,) for each column."""
        for column, value in zip(self._arrays, values, strict=True):
            column[self.done : self.done + count] = value
        self.done += count

    def columns(self) -> dict[str, Any]:
        """Return the columns (done,) by name."""
        return {name: column[: self.done] for name, column in zip(COLUMNS, self._arrays, strict=True)}
