"""A stored study as it is now, read again and again while workers write its runs."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.analysis import spread
from scalable_bandits.checks import Floats
from scalable_bandits.progress import Pace
from scalable_bandits.report.watched_run import REGRET, WatchedRun
from scalable_bandits.runs.thinning import ROUND
from scalable_bandits.spaces import Indices
from scalable_bandits.store import StoreError
from scalable_bandits.studies import growth
from scalable_bandits.studies.stored import RUN, run_folders, run_place, study_record

CURVE = 120  # rounds at which the regrets of the runs are read


class PolicyRow(NamedTuple):
    """A policy of a case of a study, as far as its runs have got."""

    case: str
    policy: str
    runs: int  # number of all
    complete: int
    running: int
    round: int  # last round that all runs have reached which count: the complete ones, or without those all
    regret: float  # mean cumulative regret at that round, in units of y; NaN if no run has begun
    error: float  # standard error of the mean; NaN of fewer than two runs


class WatchedStudy:
    """Study in a store, as of the last `read`.

    Attributes
    ----------
    place
        Folder or URL.
    state : str
        "running", "complete", "interrupted" (a process died, and no run is being played), "waiting" (no run is
        being played), or why nothing can be read.
    record : dict or None
        Description of the study; None until there is one.
    complete
        Number of complete runs.
    runs
        Number of all runs.
    pace : Pace
        Pace of the runs.
    playing : dict
        Runs that are being played, by their numbers.
    rounds
        Rounds (k,) at which regrets are known.
    regrets
        Cumulative regrets (k,) of each run that has begun, by its numbers; NaN where it has not got yet.

    Parameters
    ----------
    place
        Folder or URL.
    """

    def __init__(self, place: str | Path):
        self.place, self.state = place, "not read yet"
        self._forget(None)

    def _forget(self, record: dict[str, Any] | None) -> None:
        self.record = record
        self._open: dict[RUN, WatchedRun] = {}  # runs that are not complete
        self._planned: dict[RUN, int] = {} if record is None else growth.runs_of(record)
        self._folders = [] if record is None else run_folders(record)
        self.complete, self.runs, self.pace = 0, len(self._planned), Pace(0, time.time())
        self.playing: dict[RUN, WatchedRun] = {}
        self._done: dict[RUN, float] = {}  # times of the last writes of complete runs
        self.regrets: dict[RUN, Floats] = {}
        self.rounds: Indices = np.empty(0, np.int64)
        if record is not None:
            kept = growth.kept_rounds(record)
            spaced = np.append(np.geomspace(1, len(kept), CURVE), np.linspace(1, len(kept), CURVE))
            self.rounds = kept[np.unique(np.rint(spaced).astype(np.int64)) - 1]

    def read(self) -> None:
        """Read what is new. What cannot be read is said by `state`, and is read when it can be."""
        try:
            record = study_record(self.place)
        except (StoreError, OSError) as error:
            self.state = f"not readable: {error}"
            return
        if record is None:
            self._forget(None)
            self.state = f"waiting: there is no study in {self.place}"
            return
        if record != self.record:
            self._forget(record)
        self.playing = {}
        left = [(run, planned) for run, planned in self._planned.items() if run not in self._done]
        died = [self._read_run(run, planned) for run, planned in left]
        if len(self._done) != self.complete:
            self.complete, (first, *others) = len(self._done), sorted(self._done.values())
            self.pace = Pace(0, first)
            for number, each in enumerate(others, 1):
                self.pace.record(number, each)
        waiting = "interrupted" if any(died) else "waiting: no run is being played"
        self.state = "complete" if self.complete == self.runs else "running" if self.playing else waiting

    def _read_run(self, number: RUN, planned: int) -> bool:
        """Read what is new in a run; return whether its process died."""
        if number not in self._open:
            self._open[number] = WatchedRun(run_place(self.place, self._folders, number), (REGRET, ROUND))
        run = self._open[number]
        before = run.done
        run.read()
        if run.run is None:
            return False
        if run.done > before:
            reached, regret = run.regret(self.rounds)
            known = self.regrets.setdefault(number, np.full(len(self.rounds), np.nan))
            known[self.rounds.searchsorted(reached)] = regret
        if run.writer is not None:
            self.playing[number] = run
        elif run.done >= planned:
            self._done[number] = run.run.last_write
            del self._open[number]
        return run.interrupted

    # ---- what a view shows

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.state == "complete"

    @property
    def interrupted(self) -> bool:
        """Whether a process died in a run, and no run is being played."""
        return self.state == "interrupted"

    @property
    def title(self) -> str:
        """Title of the study."""
        return str(self.place) if self.record is None else str(self.record["title"] or self.record["study"])

    @property
    def left(self) -> float | None:
        """Seconds until all runs are complete; None if that is unknown, or no run is being played."""
        return self.pace.left(self.runs - self.complete, time.time()) if self.playing else None

    def labels(self, run: RUN) -> tuple[str, str]:
        """Return the labels of a run's case and policy."""
        assert self.record is not None
        return list(self.record["cases"])[run[0]], list(self.record["policies"])[run[1]]

    @property
    def cases(self) -> list[str]:
        """Labels of the cases, that of the run which was written last first."""
        if self.record is None:
            return []
        names = list(self.record["cases"])
        written = {names[run[0]]: each.run.last_write for run, each in self.playing.items() if each.run is not None}
        return sorted(names, key=lambda name: -written.get(name, 0.0))

    def curves(self, case: str) -> dict[str, tuple[Indices, Floats]]:
        """Return rounds (k,) and mean regrets (k,) of each policy of a case: means of the runs that have got so far."""
        found: dict[str, list[Floats]] = {}
        for run, regret in self.regrets.items():
            its, policy = self.labels(run)
            if its == case:
                found.setdefault(policy, []).append(regret)
        curves = {}
        for policy, every in found.items():
            reached = np.isfinite(every).any(axis=0)
            if reached.any():
                curves[policy] = self.rounds[reached], np.nanmean(np.array(every)[:, reached], axis=0)
        return curves

    def table(self) -> list[PolicyRow]:
        """Return a row for each case and policy, in the order of the study."""
        rows: dict[tuple[str, str], list[RUN]] = {}
        for run in self._planned:
            rows.setdefault(self.labels(run), []).append(run)
        return [self._row(*labels, runs) for labels, runs in rows.items()]

    def _row(self, case: str, policy: str, runs: list[RUN]) -> PolicyRow:
        done = [run for run in runs if run in self._done]
        known = [self.regrets[run] for run in done or runs if run in self.regrets]
        counts = len(runs), len(done), sum(run in self.playing for run in runs)
        reached = np.flatnonzero(np.isfinite(known).all(axis=0)) if known else np.empty(0, np.int64)
        if not len(reached):
            return PolicyRow(case, policy, *counts, 0, math.nan, math.nan)
        mean, error = map(float, spread(np.array(known)[:, reached[-1]])[:2])
        return PolicyRow(case, policy, *counts, int(self.rounds[reached[-1]]), mean, error)
