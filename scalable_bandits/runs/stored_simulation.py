"""Simulation whose rounds go to a store, from which it is continued."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.posteriors import State
from scalable_bandits.progress import Advance, progress_bar
from scalable_bandits.runs import recording, thinning
from scalable_bandits.runs.checkpointing import Checkpoints
from scalable_bandits.runs.play import Play
from scalable_bandits.runs.preconditions import check_fresh
from scalable_bandits.runs.replaying import replay
from scalable_bandits.runs.thinning import Keep, Thinning, rounds_played
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.runs.write_behind import WriteBehind
from scalable_bandits.store import Durability, Field, ObservationStore, StoreError
from scalable_bandits.store.rows import Columns

BLOCK_ROUNDS, BLOCK_SECONDS = 262_144, 0.25  # at most, between two writes


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
    if keep not in (None, stored):
        checks.refuse("keep", keep, f"{stored!r} as in the store, or None")
    return stored


class StoredSimulation:
    """Simulation with a store, which is opened, brought up to date and extended by `run`.

    If the store has all rounds, they are told to the policy again after the last checkpoint. If it has some only, the
    rounds after the last checkpoint are played again.

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
    """

    def __init__(self, play: Play, place: Any, horizon: int, durability: Durability, keep: Keep):
        check_fresh(play.policy)
        self.play, self.place, self.horizon = play, place, horizon
        self.durability, self.keep = durability, stored_keep(place, keep, horizon)

    def run(self, progress: bool) -> Trajectory:
        """Play the rounds that the store does not have yet; return the whole run."""
        with self._open() as store:
            self.store, self._last = store, rounds_played(store)  # the last round that is stored
            self.thinning = Thinning(self.keep, sorted({self._last, max(self.horizon, self._last)}), self._total())
            checkpoints = self._bring_up_to_date()
            name, done = type(self.play.policy).__name__, self.play.policy.rounds
            with progress_bar(progress, name, self.horizon, done) as advance, WriteBehind() as behind:
                if self.durability == "block":
                    checkpoints.behind = behind
                self._play(checkpoints, advance)
            checkpoints.behind = None
            checkpoints.finish()
        found = ObservationStore.open(self.place)
        return Trajectory(self.play.policy.finite_space, 1, found, found.specification)

    def _open(self) -> ObservationStore:
        """Open the store, or create it."""
        some = self.keep != "all"
        fields = (*recording.point_fields(self.play.policy.space), *(Field(name) for name in SERIES))
        return recording.open_run(
            self.place, "simulate", (Field(thinning.ROUND, "int64"), *fields) if some else fields,
            {**self.play.parts, **({"keep": self.keep} if some else {})}, self.horizon, self.durability,
            rows=Thinning(self.keep, (self.horizon,)).count(self.horizon),
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
            replay(policy, self.store, done, self.play.allowed)
            checkpoints.add_work(time.perf_counter() - started)
            return checkpoints
        checkpoints = Checkpoints(SumAndPolicy(self.thinning, policy), self.store)
        upcoming = Thinning(self.keep, (self.horizon,)).following(self._last)
        checkpoints.restore(upcoming - 1)  # one of a later round counts on rounds that the store has lost
        return checkpoints

    def _play(self, checkpoints: Checkpoints, advance: Advance) -> None:
        """Play all rounds up to the horizon, and those up to the last stored one."""
        policy, last = self.play.policy, max(self.horizon, self._last)
        while policy.rounds < last:
            started, first = time.perf_counter(), policy.rounds + 1
            count = 1 if self.durability == "round" else min(last - policy.rounds, BLOCK_ROUNDS)
            write = functools.partial(self._write, first, checkpoints.behind)
            self.play.rounds(first, count, BLOCK_SECONDS, advance, write)
            checkpoints.add_work(time.perf_counter() - started)

    def _write(self, first: int, behind: WriteBehind | None, columns: Columns) -> None:
        """Give rounds from `first` on to the store, or to the thread that writes them."""
        kept = self.thinning.reduce(first, columns)
        if first <= self._last and self.keep != "all":
            kept = self._after_the_stored(kept)
        if not len(kept["y"]):
            return
        if behind is None:
            self._append(kept)
        else:
            behind.put(functools.partial(self._append, kept))

    def _after_the_stored(self, kept: Columns) -> Columns:
        """Return the rounds that are not stored yet; raise StoreError if the last one that is has other numbers."""
        again = kept[thinning.ROUND].searchsorted(self._last, side="right")
        if again and kept[thinning.ROUND][again - 1] == self._last:
            stored = self.store.read(len(self.store) - 1)
            if any(stored[name][0] != kept[name][again - 1] for name in ("candidate", "y", "cumulative_regret")):
                raise StoreError(
                    f"store {self.store.location.name}: its round {self._last:,} was not the same when it was played "
                    "again, since this machine or version rounds differently, and the rounds before it are not "
                    "stored: continue the run where it was made, or name another store"
                )
        return {name: values[again:] for name, values in kept.items()}

    def _append(self, kept: Columns) -> None:
        """Append rounds to the store."""
        self.store.append({**kept, "x": self.play.policy.finite_space.x_of(kept["candidate"])})


class SumAndPolicy:
    """Sum of the regrets and state of the policy, from which a run is continued that has not stored all rounds.

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
