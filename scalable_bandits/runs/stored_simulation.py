"""Simulation whose rounds go to a store, from which it is continued."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.posteriors import State
from scalable_bandits.progress import Advance, progress_bar
from scalable_bandits.runs import recording, thinning
from scalable_bandits.runs.checkpointing import Checkpoints, WriteBehind
from scalable_bandits.runs.evaluations import check_fresh
from scalable_bandits.runs.play import Play
from scalable_bandits.runs.thinning import Keep, Thinning, rounds_played
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.store import Durability, Field, ObservationStore, StoreDamaged, StoreError
from scalable_bandits.store.rows import Columns

BLOCK_ROUNDS, BLOCK_SECONDS = 262_144, 0.25  # at most, between two writes
SUM = "cumulative_regret"


class StoredSimulation:
    """Simulation with a store, which is opened, brought up to date and extended by `run`.

    If the store has all rounds, those after the last checkpoint are told to the policy. If it has some only, the rounds
    after the last checkpoint are played again; the state in its checkpoints is the policy's and the cumulative regret.

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
        self.durability, self.keep = durability, self._stored_keep(keep)

    def _stored_keep(self, keep: Keep) -> Keep:
        """Return which rounds the store keeps, or will keep if there is no run yet; refuse others than it has."""
        try:
            specification = ObservationStore.open(self.place).specification
        except FileNotFoundError:
            return thinning.default(self.horizon) if keep is None else keep
        except (FileExistsError, StoreDamaged):  # opening it for writing says why
            specification = {}
        stored: Keep = specification.get("keep", "all")
        if "environment" in specification and keep not in (None, stored):  # opening another run says what it is
            checks.refuse("keep", keep, f"{stored!r} as in the store, or None")
        return stored

    def run(self, progress: bool | Advance) -> Trajectory:
        """Play the rounds that the store does not have yet; return the whole run."""
        policy = self.play.policy
        with self._open() as store:
            self.store, self._last = store, rounds_played(store)  # the last round that is stored
            self.thinning = Thinning(self.keep, sorted({*self.ends, self._last, max(self.horizon, self._last)}))
            checkpoints = self._bring_up_to_date()
            bar = progress_bar(progress, type(policy).__name__, self.horizon, policy.rounds)
            with bar as advance, WriteBehind() as behind:
                if self.durability == "block":
                    checkpoints.behind = behind
                self._play(checkpoints, advance)
            checkpoints.behind = None
            checkpoints.finish()
        found = ObservationStore.open(self.store.location)
        return Trajectory(policy.domain.numbered, 1, found, found.specification)

    def _open(self) -> ObservationStore:
        """Open the store, or create it."""
        fields = (*recording.point_fields(self.play.policy.space), *(Field(name) for name in SERIES))
        parts = self.play.parts
        if self.keep != "all":
            fields, parts = (Field(thinning.ROUND, "int64"), *fields), {**parts, "keep": self.keep}
        rows = Thinning(self.keep, (*self.ends, self.horizon)).count(self.horizon)
        return recording.open_run(self.place, "simulate", fields, parts, self.horizon, self.durability, rows=rows)

    def _bring_up_to_date(self) -> Checkpoints:
        """Restore the policy from the last checkpoint, and let it learn the rounds after it if they are stored."""
        policy, store, last = self.play.policy, self.store, self._last
        checkpoints = Checkpoints(self, store, self.play.policy)
        if self.keep == "all":
            done, started = checkpoints.restore(last), time.perf_counter()
            for first in range(done, last, recording.REPLAY_BLOCK):
                rows = store.read(first, first + recording.REPLAY_BLOCK, ["candidate", "y", "x"])
                policy._introduce(rows["candidate"], rows["x"])
                for candidate, y in zip(rows["candidate"].tolist(), rows["y"].tolist(), strict=True):
                    policy.observe(candidate, y)
            checkpoints.add_work(time.perf_counter() - started)
            self.thinning.total = float(store.read(last - 1, names=[SUM])[SUM][0]) if last else 0.0
            return checkpoints
        # With a later checkpoint, a kept round that the store lost would never be played.
        done = checkpoints.restore(last if last >= self.horizon else self.thinning.following(last) - 1)
        if not done and checkpoints.of_another_version():
            text = f"its checkpoint is of another version of the package: all {last:,} rounds are played again"
            checks.warn(f"store {store.location.name}: {text}")
        self._stored = store.read(names=[thinning.ROUND])[thinning.ROUND]
        self._compared = int(self._stored.searchsorted(done, "right"))
        return checkpoints

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

    def _append(self, kept: Columns) -> None:
        """Append rounds to the store."""
        self.store.append({**kept, "x": self.play.policy.domain.numbered.x_of(kept["candidate"])})

    def _compare(self, kept: Columns) -> None:
        """Raise StoreError if rounds that were played again are not those in the store."""
        last = int(self._stored.searchsorted(kept[thinning.ROUND].max(initial=0), "right"))
        rows, self._compared = self.store.read(self._compared, last), max(self._compared, last)
        _, here, there = np.intersect1d(kept[thinning.ROUND], rows[thinning.ROUND], return_indices=True)
        for name in ("candidate", "y", SUM):
            differing = kept[name][here] != rows[name][there]
            if differing.any():
                t = int(kept[thinning.ROUND][here[differing.argmax()]])
                raise StoreError(
                    f"store {self.store.location.name}: its round {t:,} was another one when it was played again: the "
                    "function or the availability sets are not the same at every call, or this machine or version "
                    "rounds differently. Not all rounds are stored, so that the run cannot be continued here; name "
                    "another store for a new one"
                )

    # ---- for checkpoints

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.play.policy.rounds

    def state(self) -> State:
        """Return the state: arrays (...,) of any shape by name."""
        state = self.play.policy.state()
        return state if self.keep == "all" else {**state, SUM: np.array([self.thinning.total])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore from the arrays (...,) returned by `state`."""
        if self.keep != "all":
            self.thinning.total = float(state[SUM][0])
        self.play.policy.restore({name: array for name, array in state.items() if name != SUM})
