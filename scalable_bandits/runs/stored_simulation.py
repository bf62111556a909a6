"""Simulation whose rounds go to a store, from which it is continued."""

from __future__ import annotations

import bisect
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.posteriors import State
from scalable_bandits.progress import Advance, progress_bar
from scalable_bandits.runs import recording, thinning
from scalable_bandits.runs.checkpointing import Checkpoints
from scalable_bandits.runs.evaluations import check_fresh
from scalable_bandits.runs.play import Play
from scalable_bandits.runs.replaying import replay
from scalable_bandits.runs.thinning import Keep, Thinning, rounds_played
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.runs.write_behind import WriteBehind
from scalable_bandits.store import Durability, Field, ObservationStore, StoreError
from scalable_bandits.store.rows import Columns

BLOCK_ROUNDS, BLOCK_SECONDS = 262_144, 0.25  # at most, between two writes
COMPARED_ROWS = 16_384  # read at a time


def stored_keep(place: Any, keep: Keep, horizon: int) -> Keep:
    """Return which rounds the store in a place keeps, or will keep if there is no run yet.

    Raises
    ------
    ValueError
        If the user wants others than the run that is there has.
    """
    specification = ObservationStore.peek(place)
    if specification is None:
        return thinning.default(horizon) if keep is None else keep
    stored: Keep = specification.get("keep", "all")
    if "environment" not in specification:  # no simulation: opening it says what it is
        return stored
    if keep not in (None, stored):
        checks.refuse("keep", keep, f"{stored!r} as in the store, or None")
    return stored


class StoredSimulation:
    """Simulation with a store, which is opened, brought up to date and extended by `run`.

    If the store has all rounds, those after the last checkpoint are told to the policy. If it has some only, the rounds
    after the last checkpoint are played again.

    Parameters
    ----------
    play
        Fresh policy and its environment.
    place
        Place of the store.
    horizon
        Number of rounds of the run in all.
    durability
        Guarantee of the store.
    keep
        Rounds in the store; None for those that it has, or the default.
    ends
        Further rounds that are kept in any case.
    """

    def __init__(
        self, play: Play, place: Any, horizon: int, durability: Durability, keep: Keep, ends: Sequence[int] = ()
    ):
        check_fresh(play.policy)
        self.play, self.place, self.horizon, self.ends = play, place, horizon, ends
        self.durability, self.keep = durability, stored_keep(place, keep, horizon)

    def run(self, progress: bool | Advance) -> Trajectory:
        """Play the rounds that the store does not have yet; return the whole run."""
        with self._open() as store:
            self.store, self._last = store, rounds_played(store)  # the last round that is stored
            self.thinning = Thinning(
                self.keep, sorted({*self.ends, self._last, max(self.horizon, self._last)}), self._total()
            )
            checkpoints = self._bring_up_to_date()
            name, done = type(self.play.policy).__name__, self.play.policy.rounds
            with progress_bar(progress, name, self.horizon, done) as advance, WriteBehind() as behind:
                if self.durability == "block":
                    checkpoints.behind = behind
                self._play(checkpoints, advance)
            checkpoints.behind = None
            checkpoints.finish()
        found = ObservationStore.open(self.store.location)
        return Trajectory(self.play.policy.finite_space, 1, found, found.specification)

    def _open(self) -> ObservationStore:
        """Open the store, or create it."""
        some = self.keep != "all"
        fields = (*recording.point_fields(self.play.policy.space), *(Field(name) for name in SERIES))
        return recording.open_run(
            self.place, "simulate", (Field(thinning.ROUND, "int64"), *fields) if some else fields,
            {**self.play.parts, **({"keep": self.keep} if some else {})}, self.horizon, self.durability,
            rows=Thinning(self.keep, (*self.ends, self.horizon)).count(self.horizon),
        )  # fmt: skip

    def _total(self) -> float:
        """Return the cumulative regret of the stored rounds, if these are all."""
        if self.keep != "all" or not len(self.store):
            return 0.0
        return float(self.store.read(len(self.store) - 1, names=["cumulative_regret"])["cumulative_regret"][0])

    def _bring_up_to_date(self) -> Checkpoints:
        """Restore the policy from the last checkpoint, and let it learn the rounds after it if they are stored."""
        policy = self.play.policy
        if self.keep == "all":
            checkpoints = Checkpoints(policy, self.store)
            done, started = checkpoints.restore(self._last), time.perf_counter()
            replay(policy, self.store, done)
            checkpoints.add_work(time.perf_counter() - started)
            return checkpoints
        checkpoints = Checkpoints(SumAndPolicy(self.thinning, policy), self.store)
        most = max(self.horizon, self._last)
        if self._last < most:  # with a later checkpoint, a kept round that the store lost would never be played
            most = self.thinning.following(self._last) - 1
        done = checkpoints.restore(most)
        if not done and checkpoints.of_another_version():
            text = f"its checkpoints are of another version of the package: all {self._last:,} rounds are played again"
            checks.warn(f"store {self.store.location.name}: {text}")
        self._row = bisect.bisect_right(range(len(self.store)), done, key=self._round_in)
        return checkpoints

    def _round_in(self, row: int) -> int:
        """Return the number of the round in a row of the store, counted from 0."""
        return int(self.store.read(row, row + 1, [thinning.ROUND])[thinning.ROUND][0])

    def _play(self, checkpoints: Checkpoints, advance: Advance) -> None:
        """Play all rounds up to the horizon, and those up to the last stored one."""
        policy, last = self.play.policy, max(self.horizon, self._last)
        while policy.rounds < last:
            started, first = time.perf_counter(), policy.rounds + 1
            count = min(last - policy.rounds, BLOCK_ROUNDS)
            if self.durability == "round":
                count = min(count, self.thinning.following(policy.rounds) - policy.rounds)
            write = functools.partial(self._write, first, checkpoints.behind)
            self.play.rounds(first, count, BLOCK_SECONDS, advance, write)
            checkpoints.add_work(time.perf_counter() - started)

    def _write(self, first: int, behind: WriteBehind | None, columns: Columns) -> None:
        """Give rounds from `first` on to the store, or to the thread that writes them."""
        kept = self.thinning.reduce(first, columns)
        if first <= self._last and self.keep != "all":
            self._compare(kept)
            kept = {name: values[kept[thinning.ROUND] > self._last] for name, values in kept.items()}
        if not len(kept["y"]):
            return
        if behind is None:
            self._append(kept)
        else:
            behind.put(functools.partial(self._append, kept))

    def _compare(self, kept: Columns) -> None:
        """Raise StoreError if rounds that were played again are not those in the store."""
        last = int(kept[thinning.ROUND].max(initial=0))
        while self._row < len(self.store):
            rows = self.store.read(self._row, self._row + COMPARED_ROWS)
            count = int((rows[thinning.ROUND] <= last).sum())
            _, here, there = np.intersect1d(kept[thinning.ROUND], rows[thinning.ROUND][:count], return_indices=True)
            for name in ("candidate", "y", "cumulative_regret"):
                differing = kept[name][here] != rows[name][there]
                if differing.any():
                    self._refuse(int(kept[thinning.ROUND][here[differing.argmax()]]))
            self._row += count
            if count < COMPARED_ROWS:
                return

    def _refuse(self, t: int) -> None:
        """Raise StoreError for a round that was another one when it was played again."""
        raise StoreError(
            f"store {self.store.location.name}: its round {t:,} was another one when it was played again: the function "
            "or the availability sets are not the same at every call, or this machine or version rounds differently. "
            "Not all rounds are stored, so that the run cannot be continued here; name another store for a new one"
        )

    def _append(self, kept: Columns) -> None:
        """Append rounds to the store."""
        self.store.append({**kept, "x": self.play.policy.finite_space.x_of(kept["candidate"])})


class SumAndPolicy:
    """State of a run that stores some rounds only: the policy's state and the cumulative regret.

    Parameters
    ----------
    thinning
        Sum of the regrets.
    policy
        Policy.
    """

    SUM = "cumulative_regret"

    def __init__(self, thinning: Thinning, policy: Any):
        self.thinning, self.policy = thinning, policy

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.policy.rounds

    def state(self) -> State:
        """Return the state: arrays (...,) of any shape by name."""
        return {**self.policy.state(), self.SUM: np.array([self.thinning.total])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore from the arrays (...,) returned by `state`."""
        rest = dict(state)
        self.thinning.total = float(rest.pop(self.SUM)[0])
        self.policy.restore(rest)
