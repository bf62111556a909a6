"""Watching: the state of a stored run or study, read again and again while other processes write it.

Only what is new is read, in short transactions that no writer waits for. Nothing is written.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.plots.style import POINTS
from scalable_bandits.policies import Policy
from scalable_bandits.progress import Pace
from scalable_bandits.report.run_page import rebuilt, stored_result
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.resuming import named_space
from scalable_bandits.runs.thinning import ROUND
from scalable_bandits.spaces import Indices
from scalable_bandits.status import minimizes, state_of, type_name
from scalable_bandits.store import ObservationStore, StoredRun, StoreError
from scalable_bandits.store.locations import ACKNOWLEDGED, locate
from scalable_bandits.studies import growth
from scalable_bandits.studies.stored import RUN, run_folders, run_place, study_record
from scalable_bandits.tickets import OPEN, Ticket

SHARE = 0.2  # of a core that watching takes at most
OVER = ("complete", "closed")  # states after which nothing more comes
LATEST = 12  # evaluations that a view can show
CURVE = 120  # rounds at which the regrets of a study's runs are read
REGRET = "cumulative_regret"
Made = TypeVar("Made")


class Pending(NamedTuple):
    """Evaluation that has not ended."""

    ticket: Ticket
    x: Any  # point (d,), arm number, or setting (a dict)
    seconds: float  # time since it began to run or, before that, since it was asked for


class Latest(NamedTuple):
    """Evaluation, or round of a simulation, that has ended."""

    number: int  # from 1, in the order in which they ended
    x: Any  # point (d,), arm number, or setting (a dict)
    y: float  # in units of y; NaN if it failed
    error: str  # empty if it did not fail


class WatchedRun:
    """Run in a store, as of the last `read`.

    Attributes
    ----------
    place
        Place of the store.
    state : str
        State as `status` has it, or why nothing can be read.
    run : StoredRun or None
        Run; None until there is one.
    failures : int
        Number of failed evaluations.
    pace : Pace
        Pace of the rounds, or of the evaluations, of the process that writes.
    writer : dict or None
        Record of the process that writes.

    Parameters
    ----------
    place
        Place of the store: a folder, URL, or zarr store.
    names
        Names of the columns that are read.
    """

    def __init__(self, place: Any, names: Collection[str] = ("y", REGRET, ROUND)):
        self.place, self.state = place, "not read yet"
        self._location, self._names = locate(place), frozenset(names)
        self._forget()

    def _forget(self) -> None:
        self.run: StoredRun | None = None
        self._mark: bytes | None = None  # content of the small file that changes with each transaction
        self._columns: dict[str, list[Any]] = {}
        self._rows = self.failures = 0
        self.pace, self._since = Pace(0, time.time()), -1.0
        self.writer: dict[str, Any] | None = None

    def read(self) -> None:
        """Read what is new. What cannot be read is said by `state`, and is read when it can be."""
        location = self._location
        try:
            mark = location.get(ACKNOWLEDGED if location.keeps_tickets else location.ledger_file)
            writer = location.writer()
            if self.run is None or mark != self._mark or (writer is None) != (self.writer is None):
                run = self._opened()
                if run is not self.run or len(run) < self._rows:
                    self._forget()
                self.run, self._mark = run, mark
                self._take(run, writer)
            self.writer, self.state = writer, state_of(self.run)
        except FileNotFoundError as error:
            self._forget()
            self.state = f"waiting: {error}"
        except (StoreError, OSError) as error:
            self.state = f"not readable: {error}"

    def _opened(self) -> StoredRun:
        """Return the run as it is now: the one of before or, where it was replaced, another one."""
        if self.run is not None:
            with suppress(StoreError):
                self.run.refresh()
                return self.run
        return ObservationStore.open(self._location)

    def _take(self, run: StoredRun, writer: Mapping[str, Any] | None) -> None:
        """Take the rows that are new, and the pace of the process that writes."""
        names = {field.name for field in run.fields} & self._names
        for name, values in run.read(self._rows, len(run), sorted(names)).items():
            self._columns.setdefault(name, []).append(values)
        self._rows, self.failures = len(run), len(run.failures)
        since = 0.0 if writer is None else writer["since"]
        ended = sorted(each.changed for each in run.tickets.values() if each.ended is not None and each.call != 0)
        ended = [each for each in ended if each >= since] if run.kept else [run.last_write]
        done = self.done
        if since != self._since and ended:
            start = (done - len(ended), since or ended[0]) if run.kept else (done, ended[0])
            self.pace, self._since = Pace(*start), since
        for number, each in enumerate(ended, done - len(ended) + 1):
            self.pace.record(number, each)

    # ---- what a view shows

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.state in OVER

    @property
    def interrupted(self) -> bool:
        """Whether the process that wrote the run has died."""
        return self.state == "interrupted"

    @property
    def title(self) -> str:
        """Policy, and what it is played on."""
        if self.run is None:
            return str(self.place)
        given = self.run.specification
        policy = type_name(given.get("policy", {}))
        against = type_name(given.get("environment", given.get("function", {})))
        return f"{policy} on {against}" if against else policy

    @property
    def tuning(self) -> bool:
        """Whether it consists of evaluations, instead of simulated rounds."""
        return self.run is not None and self.run.attributes.get("kind") != "simulate"

    @property
    def done(self) -> int:
        """Number of evaluations that have ended, or of rounds that were played."""
        rounds = self._columns.get(ROUND)
        return self._rows + self.failures if rounds is None else int(rounds[-1][-1]) if self._rows else 0

    @property
    def planned(self) -> int | None:
        """Number of rounds or evaluations that there will be; None if that is open."""
        return None if self.run is None else self.run.planned

    @property
    def left(self) -> float | None:
        """Seconds until the planned number is reached; None if that is unknown, or nobody works at it."""
        if self.planned is None or self.writer is None:
            return None
        return self.pace.left(max(self.planned - self.done, 0), time.time())

    @property
    def y(self) -> Floats:
        """Observations (n,), in units of y."""
        return self._column("y")

    def _column(self, name: str) -> Floats:
        found = self._columns.get(name, [])
        if len(found) > 1:
            self._columns[name] = found = [np.concatenate(found)]
        return found[0] if found else np.empty(0)

    @property
    def minimize(self) -> bool:
        """Whether smaller observations are better."""
        return self.run is not None and minimizes(self.run)

    @property
    def best(self) -> Latest | None:
        """Best observation, the first of equal ones; None before the first."""
        if self.run is None or not len(self.y):
            return None
        row = int(self.y.argmin() if self.minimize else self.y.argmax())
        return Latest(row + 1, self._points([row])[0], float(self.y[row]), "")

    @property
    def improved(self) -> float:
        """Time at which the best observation was made, in seconds since 1970; NaN if it is unknown."""
        run, best = self.run, self.best
        if run is None or best is None or "time" not in {field.name for field in run.fields}:
            return math.nan
        return float(run.read(best.number - 1, best.number, ["time"])["time"][0])

    @property
    def _rounds(self) -> Indices:
        """Numbers (n,) of the rounds that are stored."""
        return self._column(ROUND).astype(np.int64) if ROUND in self._columns else np.arange(1, self._rows + 1)

    def history(self) -> tuple[Indices, Floats, Floats]:
        """Return rounds (k,), observations (k,), and the best so far (k,), of some rounds evenly spaced."""
        better = np.minimum if self.minimize else np.maximum
        rows = np.unique(np.rint(np.linspace(0, len(self.y) - 1, min(POINTS, len(self.y)))).astype(np.int64))
        return self._rounds[rows], self.y[rows], better.accumulate(self.y)[rows]

    def regret(self, rounds: Indices | None = None) -> tuple[Indices, Floats]:
        """Return rounds (k,) and cumulative regrets (k,) of a simulation, in units of y: of those rounds, or of some.

        Parameters
        ----------
        rounds
            Numbers of rounds, ascending; those that are not stored are left out. Default: evenly spaced ones.
        """
        regret, stored = self._column(REGRET), self._rounds
        if not len(regret):
            return np.empty(0, np.int64), regret
        spaced = np.rint(np.linspace(1, stored[-1], POINTS)).astype(np.int64)
        rows = np.unique(np.minimum(stored.searchsorted(spaced if rounds is None else rounds), len(stored) - 1))
        rows = rows[np.isfinite(regret[rows]) & (rounds is None or np.isin(stored[rows], rounds))]
        return stored[rows], regret[rows]

    @property
    def in_flight(self) -> list[Pending]:
        """Evaluations that have not ended, the first one first; of a run that nobody writes those that were lost."""
        if self.run is None:
            return []
        now, given = time.time(), [each for _, each in sorted(self.run.tickets.items()) if each.state in OPEN]
        return [Pending(each, self._shown(each.x), max(now - each.changed, 0.0)) for each in given]

    def latest(self, count: int = LATEST) -> list[Latest]:
        """Return the last evaluations or rounds, the last one first."""
        if self.run is None:
            return []
        if self.run.kept:
            every = self.run.tickets.values()
            ended = sorted((t for t in every if t.ended is not None), key=lambda t: t.ended or 0)[-count:]
            values = [(math.nan, t.error) if t.y is None else (t.y, "") for t in ended]
            found = [Latest(t.ended or 0, self._shown(t.x), *value) for t, value in zip(ended, values, strict=True)]
            return found[::-1]
        rows = list(range(len(self.y) - 1, max(len(self.y) - 1 - count, -1), -1))
        both = zip(rows, self._points(rows), strict=True)
        return [Latest(int(self._rounds[row]), x, float(self.y[row]), "") for row, x in both]

    def _points(self, rows: list[int]) -> list[Any]:
        if self.run is None or not rows:
            return []
        first, last = min(rows), max(rows) + 1
        points = self.run.read(first, last, ["x"])["x"]
        return [self._shown(points[row - first]) for row in rows]

    def _shown(self, x: Any) -> Any:
        assert self.run is not None
        space = named_space(self.run)
        point = np.asarray(x)
        return point if space is None or not point.size else space.setting(point)


class RebuiltModel(NamedTuple, Generic[Made]):
    """What was made of a policy that was rebuilt from its store."""

    observations: int  # number of observations and failures that it had
    made: Made | None
    why: str  # why there is nothing; empty if there is


class PresentModel(Generic[Made]):
    """Policy of a tuning run, rebuilt from its store in a thread whenever there is something new, but not often.

    Parameters
    ----------
    place
        Place of the store.
    make
        Function that makes what is shown of the result so far. It may raise ValueError.

    Attributes
    ----------
    last : RebuiltModel or None
        What was made last.
    """

    def __init__(self, place: Any, make: Callable[[TuningResult], Made]):
        self._place, self._make = place, make
        self.last: RebuiltModel[Made] | None = None
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def update(self, count: int, wait: bool = False) -> None:
        """Begin to rebuild it, if there are other observations than before, and it is time.

        Parameters
        ----------
        count
            Number of observations and failures in the store.
        wait
            Whether to rebuild it at once, and to return when it is done.
        """
        if self._thread is not None and (wait or not self._thread.is_alive()):
            self._thread.join()
            self._thread = None
        new = self.last is None or self.last.observations != count
        if self._thread is None and new and (wait or time.monotonic() >= self._next):
            self._thread = threading.Thread(target=self._rebuild, args=(count,), name="present model", daemon=True)
            self._thread.start()
        if wait and self._thread is not None:
            self._thread.join()

    def _rebuild(self, count: int) -> None:
        began, made, why = time.thread_time(), None, ""
        try:
            run = ObservationStore.open(self._place)
            policy = rebuilt(run)
            if isinstance(policy, Policy):
                made = self._make(stored_result(run, policy))
            else:
                why = policy
        except (ValueError, OSError, StoreError) as error:
            why = str(error)
        self.last = RebuiltModel(count, made, why)
        self._next = time.monotonic() + (1.0 / SHARE - 1.0) * (time.thread_time() - began)


class PolicyRow(NamedTuple):
    """A policy of a case of a study, as far as its runs have got."""

    case: str
    policy: str
    runs: int  # number of all
    complete: int
    running: int
    round: int  # last round that all runs have reached which count: the complete ones, or all if there is none
    regret: float  # mean cumulative regret at that round, in units of y; NaN if no run has begun
    error: float  # standard error of the mean; NaN of fewer than two runs


class WatchedStudy:
    """Study in a store, as of the last `read`.

    Attributes
    ----------
    place
        Folder or URL.
    state : str
        "running", "complete", "interrupted" (a process died in a run that nobody goes on with), "waiting" (no run is
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
        self._ends: list[float] = []  # times of the last writes of complete runs
        self.complete, self.runs, self.pace = 0, len(self._planned), Pace(0, time.time())
        self.playing: dict[RUN, WatchedRun] = {}
        self.dead: set[RUN] = set()
        self.done: set[RUN] = set()
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
        self.playing, self.dead = {}, set()
        for run, planned in self._planned.items():
            if run not in self.done:
                self._read_run(run, planned)
        if len(self.done) != self.complete:
            self.complete = len(self.done)
            times = sorted(self._ends)
            self.pace = Pace(0, times[0])
            for number, each in enumerate(times[1:], 1):
                self.pace.record(number, each)
        waiting = "interrupted" if self.dead else "waiting: no run is being played"
        self.state = "complete" if self.complete == self.runs else "running" if self.playing else waiting

    def _read_run(self, number: RUN, planned: int) -> None:
        if number not in self._open:
            self._open[number] = WatchedRun(run_place(self.place, self._folders, number), (REGRET, ROUND))
        run = self._open[number]
        before = run.done
        run.read()
        if run.run is None:
            return
        if run.done > before:
            reached, regret = run.regret(self.rounds)
            known = self.regrets.setdefault(number, np.full(len(self.rounds), np.nan))
            known[self.rounds.searchsorted(reached)] = regret
        if run.writer is not None:
            self.playing[number] = run
        elif run.done >= planned:
            self.done.add(number)
            self._ends.append(run.run.last_write)
            del self._open[number]
        elif run.interrupted:
            self.dead.add(number)

    # ---- what a view shows

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.state == "complete"

    @property
    def interrupted(self) -> bool:
        """Whether a process died in a run, and nobody plays any."""
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
        done = [run for run in runs if run in self.done]
        known = [self.regrets[run] for run in done or runs if run in self.regrets]
        counts = len(runs), len(done), sum(run in self.playing for run in runs)
        reached = np.flatnonzero(np.isfinite(known).all(axis=0)) if known else np.empty(0, np.int64)
        if not len(reached):
            return PolicyRow(case, policy, *counts, 0, math.nan, math.nan)
        last = np.array(known)[:, reached[-1]]
        error = float(last.std(ddof=1)) / math.sqrt(len(last)) if len(last) > 1 else math.nan
        return PolicyRow(case, policy, *counts, int(self.rounds[reached[-1]]), float(last.mean()), error)


Watched = WatchedRun | WatchedStudy


def watched(place: Any) -> Watched:
    """Return the run or the study in a place, read once; a run may be one whose creation is not finished.

    Parameters
    ----------
    place
        Folder, URL, or zarr store of a run; folder or URL of a study.

    Raises
    ------
    FileNotFoundError
        If there is nothing at all.
    FileExistsError
        If there is something else.
    """
    if isinstance(place, str | Path) and study_record(place) is not None:
        found: Watched = WatchedStudy(place)
    else:
        found = WatchedRun(place)
        try:
            ObservationStore.open(place)
        except FileNotFoundError:
            if not locate(place).occupied():
                raise FileNotFoundError(f"store: there is neither a run nor a study in {place}") from None
        except StoreError:
            pass  # which `state` says
    found.read()
    return found


def paced(seconds: float) -> Iterator[None]:
    """Yield every so many seconds, or less often if the work between takes long: at most `SHARE` of a core.

    Parameters
    ----------
    seconds
        Least time from one to the next.
    """
    while True:
        began, used = time.monotonic(), time.thread_time()
        yield
        idle = (1.0 / SHARE - 1.0) * (time.thread_time() - used)
        time.sleep(max(began + seconds - time.monotonic(), idle))
