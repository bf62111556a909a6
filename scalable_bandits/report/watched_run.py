"""A stored run as it is now, read again and again while another process writes it.

Only what is new is read, in short transactions that no writer waits for. Nothing is written.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.plots.style import POINTS
from scalable_bandits.policies.outputs import Output
from scalable_bandits.progress import Pace
from scalable_bandits.runs.limits import keeps, kept, others_of, outputs_of
from scalable_bandits.runs.resuming import in_context_of, known_space
from scalable_bandits.runs.thinning import ROUND
from scalable_bandits.spaces import Indices, Mask, Space
from scalable_bandits.status import measured, minimizes, state_of, type_name
from scalable_bandits.store import ObservationStore, StoredRun, StoreError
from scalable_bandits.store.locations import ACKNOWLEDGED, locate
from scalable_bandits.tickets import OPEN, Ticket

OVER = ("complete", "closed")  # states after which nothing more comes
LATEST = 12  # evaluations that a view can show
REGRET = "cumulative_regret"


class Pending(NamedTuple):
    """Evaluation that has not ended."""

    ticket: Ticket
    x: Any  # point (d,), arm number, or setting (a dict)
    seconds: float  # time since it began to run or, before that, since it was asked for


class Ended(NamedTuple):
    """Evaluation, or round of a simulation, that has ended."""

    number: int  # from 1, in the order in which they ended
    x: Any  # point (d,), arm number, or setting (a dict)
    y: float  # in units of y; NaN if it failed
    error: str  # empty if it did not fail
    time: float  # when it ended, in seconds since 1970; NaN if unknown


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
    best : Ended or None
        Best observation, the first of equal ones; None before the first.
    latest : list of Ended
        Last evaluations or rounds, the last one first.
    space : Space or None
        Space of the run; None if it is not known.

    Parameters
    ----------
    place
        Place of the store: a folder, URL, or zarr store.
    names
        Names of the columns that are read.
    """

    def __init__(self, place: Any, names: Collection[str] = ("y", "outputs", REGRET, ROUND)):
        self.place, self.state = place, "not read yet"
        self._location, self._names = locate(place), frozenset(names)
        self._forget()

    def _forget(self) -> None:
        self.run: StoredRun | None = None
        self.space: Space | None = None
        self._others: Mapping[str, Output] = {}
        self._here: Callable[[Floats], Mask] | None = None  # of the points in the context of the run
        self._mark: bytes | None = None  # content of the small file that changes with each transaction
        self._columns: dict[str, list[Any]] = {}
        self._rows = self.failures = 0
        self._numbers: Indices = np.empty(0, np.int64)  # (n,) of the observations among the rounds or evaluations
        self.pace, self._since = Pace(0, time.time()), -1.0
        self.writer: dict[str, Any] | None = None
        self.best: Ended | None = None
        self.latest: list[Ended] = []

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
                    self.run, self.space, self._others = run, known_space(run), others_of(run)
                self._here = in_context_of(run)
                self._take(run, writer)
                self._mark = mark  # last: what could not be read is read again
            self.writer, self.state = writer, state_of(self.run, writer)
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
        """Take the rows that are new, what is best and last, and the pace of the process that writes."""
        names = {field.name for field in run.fields} & self._names
        for name, values in run.read(self._rows, len(run), sorted(names)).items():
            self._columns.setdefault(name, []).append(values)
        self._rows, self.failures = len(run), len(run.failures)
        self._numbers = self._column(ROUND).astype(np.int64) if ROUND in names else np.arange(1, self._rows + 1)
        tickets = sorted((t for t in run.tickets.values() if t.ended is not None), key=lambda t: t.ended or 0)
        if run.kept:
            self._numbers = np.array([each.ended for each in tickets if each.state == "done"], np.int64)
            known = [each for each in tickets if keeps(each, self._others)]
            if self._here is not None and known:
                known = list(itertools.compress(known, self._here(np.array([each.x for each in known]))))
            better = min if self.minimize else max
            self.best = self._evaluation(better(known, key=lambda each: each.y or 0.0)) if known else None
            self.latest = [self._evaluation(each) for each in tickets[: -LATEST - 1 : -1]]
        elif len(self.y):
            row = int(self.y.argmin() if self.minimize else self.y.argmax())
            (self.best,) = self._played(run, row, row + 1)
            self.latest = self._played(run, max(self._rows - LATEST, 0), self._rows)[::-1]
        since = 0.0 if writer is None else writer["since"]
        ended = sorted(each.changed for each in tickets if each.call != 0)
        ended = [each for each in ended if each >= since] if run.kept else [run.last_write]
        done = self.done
        if since != self._since and ended:
            start = (done - len(ended), since or ended[0]) if run.kept else (done, ended[0])
            self.pace, self._since = Pace(*start), since
        for number, each in enumerate(ended, done - len(ended) + 1):
            self.pace.record(number, each)

    def _evaluation(self, ticket: Ticket) -> Ended:
        y, error = (math.nan, ticket.error) if ticket.y is None else (ticket.y, "")
        return Ended(ticket.ended or 0, self._shown(ticket.x), y, error, ticket.changed)

    def _played(self, run: StoredRun, first: int, last: int) -> list[Ended]:
        """Return the rounds in some rows."""
        times = {"time"} & {field.name for field in run.fields}
        found, numbers = run.read(first, last, ["x", *times]), self._numbers[first:last].tolist()
        when = found.get("time", np.full(last - first, math.nan)).tolist()
        rows = zip(numbers, found["x"], self.y[first:last].tolist(), when, strict=True)
        return [Ended(number, self._shown(x), y, "", time) for number, x, y, time in rows]

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
        return int(self._numbers[-1]) if ROUND in self._columns and self._rows else self._rows + self.failures

    @property
    def measured(self) -> int:
        """Number of evaluations of a batch that are measured, and end when all of it are."""
        return 0 if self.run is None else measured(self.run)

    @property
    def planned(self) -> int | None:
        """Number of rounds or evaluations that there will be; None if that is open."""
        return None if self.run is None else self.run.planned

    @property
    def left(self) -> float | None:
        """Seconds until the planned number is reached; None if that is unknown, or no process writes."""
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
    def objective(self) -> str:
        """First of several objectives, of which the observations are; "" where there is one."""
        return "" if self.run is None else outputs_of(self.run).objective or ""

    @property
    def limited(self) -> bool:
        """Whether there are constraints."""
        return self.run is not None and bool(outputs_of(self.run).limits)

    def history(self) -> tuple[Indices, Floats, Floats]:
        """Return numbers (k,), observations (k,), and the best so far (k,), of some rounds evenly spaced."""
        better = np.fmin if self.minimize else np.fmax
        best = kept(self.y, self._column("outputs"), self._others) if self._others else self.y
        if self._here is not None and self.run is not None:
            best = np.where(self._here(self.run.read(0, len(best), ["x"])["x"]), best, np.nan)
        rows = np.unique(np.rint(np.linspace(0, len(self.y) - 1, min(POINTS, len(self.y)))).astype(np.int64))
        return self._numbers[rows], self.y[rows], better.accumulate(best)[rows]

    def regret(self, rounds: Indices | None = None) -> tuple[Indices, Floats]:
        """Return rounds (k,) and cumulative regrets (k,) of a simulation, in units of y: of those rounds, or of some.

        Parameters
        ----------
        rounds
            Numbers of rounds, ascending; those that are not stored are left out. Default: evenly spaced ones.
        """
        regret, stored = self._column(REGRET), self._numbers
        if not len(regret):
            return np.empty(0, np.int64), regret
        spaced = np.rint(np.linspace(1, stored[-1], POINTS)).astype(np.int64)
        rows = np.unique(np.minimum(stored.searchsorted(spaced if rounds is None else rounds), len(stored) - 1))
        rows = rows[np.isfinite(regret[rows]) & (rounds is None or np.isin(stored[rows], rounds))]
        return stored[rows], regret[rows]

    @property
    def in_flight(self) -> list[Pending]:
        """Evaluations that have to be measured, the first one first; those that were lost if no process writes."""
        if self.run is None:
            return []
        now, given = (
            time.time(),
            [each for _, each in sorted(self.run.tickets.items()) if each.state in OPEN and each.state != "measured"],
        )
        return [Pending(each, self._shown(each.x), max(now - each.changed, 0.0)) for each in given]

    def _shown(self, x: Any) -> Any:
        point = np.asarray(x)
        return point if self.space is None or not point.size else self.space.argument(point)
