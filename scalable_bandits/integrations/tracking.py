"""What callbacks that log to an experiment tracker have in common: every evaluation once, also after a crash."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container
from typing import Any, NamedTuple

from scalable_bandits.identity import function_name
from scalable_bandits.runs.limits import feasible, keeps, outputs_in
from scalable_bandits.runs.readable import setting_of
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.stopping import RunStart, RunView
from scalable_bandits.specification import specify
from scalable_bandits.tickets import Ticket

FAILED, INTERRUPTED = "error", "interrupted"  # what ended a run, beside its budget and rules


class TrackedEvaluation(NamedTuple):
    """Evaluation that has ended, as it is logged."""

    ticket: Ticket
    setting: dict[str, bool | int | float | str]  # values by parameter, or by coordinate; texts for all others
    best: float | None  # best value so far, in units of y; None before the first
    improved: bool  # whether the best value is that of this evaluation
    outputs: dict[str, float]  # measured values of the outputs besides the first objective, in their units
    feasible: bool | None  # whether these keep their limits; None if there are no limits, or the evaluation failed


class Tracker(ABC):
    """Callback of `minimize` and `maximize` that logs to a tracker: base class.

    The evaluations of earlier processes that the tracker does not have yet are logged when the run goes on, so that
    nothing is missing after a crash, and nothing is there twice.
    """

    def begin(self, run: RunStart) -> None:
        """Begin to log a run, or go on with it.

        Parameters
        ----------
        run
            The run.
        """
        self._space, self._minimize = run.policy.space, run.policy.minimize
        self._names = [axis.name for axis in run.policy.space.axes]
        outputs = run.policy.outputs
        self._others, self._limited = ({}, False) if outputs is None else (outputs.others, bool(outputs.limits))
        self._best: float | None = None
        self._best_setting: dict[str, Any] = {}  # of all parameters; None for those that do not exist in it
        logged = self._open(run)
        for ticket in run.tickets:
            self._take(ticket, ticket.call == 0 or ticket.number in logged)

    def __call__(self, run: RunView) -> None:
        self._take(run.ticket)

    def end(self, found: TuningResult | None) -> None:
        """Log how the run ended.

        Parameters
        ----------
        found
            Result of the run; None if it raised an exception.
        """
        if found is None:
            self._close(FAILED)
        else:
            self._close(INTERRUPTED if found.interrupted else found.stopped_by or "budget")

    def _take(self, ticket: Ticket, logged: bool = False) -> None:
        """Log an evaluation that has ended, unless it is logged already."""
        best, y = self._best, ticket.y
        y = y if keeps(ticket, self._others) else None
        improved = y is not None and (best is None or (y < best if self._minimize else y > best))
        setting = {name: _plain(value) for name, value in setting_of(self._space, ticket).items()}
        if improved:
            self._best, self._best_setting = y, {name: setting.get(name) for name in self._names}
        if not logged:
            kept = feasible(ticket, self._others) if self._limited and ticket.state == "done" else None
            self._log(TrackedEvaluation(ticket, setting, self._best, improved, outputs_in(ticket), kept))

    @abstractmethod
    def _open(self, run: RunStart) -> Container[int]:
        """Open the tracker's run, the same one for the same `run_id`; return the numbers of the tickets that it has."""

    @abstractmethod
    def _log(self, evaluation: TrackedEvaluation) -> None:
        """Log an evaluation."""

    @abstractmethod
    def _close(self, ended_by: str) -> None:
        """Close the tracker's run, which an error, the user, the budget or a rule ended."""


def _plain(value: Any) -> bool | int | float | str:
    """Return a value that any tracker takes: functions and classes by their names, other objects as text."""
    if isinstance(value, bool | int | float | str):
        return value
    return function_name(value) if callable(value) else str(value)


def description(run: RunStart) -> dict[str, Any]:
    """Return policy, space, function and budget of a run as plain data; large arrays by their digests.

    Parameters
    ----------
    run
        The run.
    """
    policy = specify({"policy": run.policy})[0]["policy"]
    space = policy.pop("space")
    direction = "minimize" if run.policy.minimize else "maximize"
    return {"function": run.function, "direction": direction, "budget": run.budget, "policy": policy, "space": space}
