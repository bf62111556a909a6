"""A run of `minimize` or `maximize`: its arguments, checked; its evaluations; its result."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.commands import Command, Programs
from scalable_bandits.forked import ForkedChildrenEnd
from scalable_bandits.identity import function_name
from scalable_bandits.policies import Best, Policy
from scalable_bandits.posteriors.placement import threads_of
from scalable_bandits.progress import progress_bar, wanted
from scalable_bandits.runs.evaluating import Evaluating, EvaluationPlan
from scalable_bandits.runs.evaluations import Evaluations
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.preconditions import check_fresh, check_unrecorded, set_direction
from scalable_bandits.runs.result import Measured, TuningResult
from scalable_bandits.runs.stopping import Rule, name_of
from scalable_bandits.runs.values import NotANumber
from scalable_bandits.runs.view import Callback, RunView
from scalable_bandits.runs.warm_start import Earlier, earlier_observations
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    from scalable_bandits.store import Durability

TIMEOUTS = "None in this process, which cannot end a running call; worker processes (on='local:4') and a Command can"


def _seconds(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, float) and 0.0 < value < math.inf):
        checks.refuse(field.name, value, "a positive number, or None")


def _optional_seconds() -> Any:
    return attrs.field(converter=attrs.converters.optional(checks.to_float), validator=_seconds)


def _sequence(given: Any) -> Any:
    """Return one function, or several, as a tuple; other values unchanged, for the validator to refuse."""
    return (given,) if callable(given) else tuple(given) if isinstance(given, Iterable) else given


def _callables(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, tuple) or not all(callable(each) and not isinstance(each, type) for each in value):
        checks.refuse(field.name, value, "a function of the run, or several; of a class an instance: NoImprovement(20)")


@attrs.define(kw_only=True)
class Tuning:
    """One call of `minimize` or `maximize`. Parameters as there, checked, but for those given here.

    Parameters
    ----------
    minimize
        Whether smaller values are better.
    policy
        Fresh policy, which is set to minimise if need be.
    """

    minimize: bool
    function: Callable[[Any], float]
    policy: Policy
    budget: int
    parallel: int | None = None
    on: Any = None
    retries: int = 0
    seconds: float | None = _optional_seconds()
    timeout: float | None = _optional_seconds()
    progress: bool | None = None
    callbacks: tuple[Callback, ...] = attrs.field(converter=_sequence, validator=_callables)
    stop: tuple[Rule, ...] = attrs.field(converter=_sequence, validator=_callables)
    warm_start: Any = None
    _earlier: Earlier | None = attrs.field(init=False, default=None)
    _best: Ticket | None = attrs.field(init=False, default=None)
    _since_best: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            checks.refuse("function", self.function, "a function from a point to a number")
        check_fresh(self.policy)
        check_unrecorded(self.policy)
        self.budget = checks.integer("budget", self.budget, 1)
        self.retries = checks.integer("retries", self.retries, 0)
        self.parallel = None if self.parallel is None else checks.integer("parallel", self.parallel, 1)
        self.progress = None if self.progress is None else checks.flag("progress", self.progress)
        if self.on is not None:
            from scalable_bandits.execution import resolve

            resolve(self.on)  # raises ValueError before a store is created
        if isinstance(self.function, Command):
            self.function.check(self.policy.space)
        elif self.timeout is not None and not self._on_processes():
            checks.refuse("timeout", self.timeout, TIMEOUTS)
        for rule in self.stop:
            check = getattr(rule, "check", None)
            if check is not None:
                check(self.policy)
        if self.warm_start is not None:
            self._earlier = earlier_observations(self.warm_start, self.policy.space)
        set_direction(self.policy, self.minimize)  # last, since it changes the policy

    def _on_processes(self) -> bool:
        return self.on is not None and threads_of(self.on) is None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that hold for the resumed run too, as plain data."""
        on = self.on
        if on is not None and not isinstance(on, str | os.PathLike):
            on = on.scheduler.address if hasattr(on, "scheduler") else on.address  # a Client, else a SecureAddress
        return {
            "parallel": self.parallel, "on": None if on is None else str(on), "retries": self.retries,
            "timeout": self.timeout,
        }  # fmt: skip

    def play(self, store: Any, durability: Durability) -> TuningResult:
        """Evaluate, from the beginning or from where the run of a store ended; return the result."""
        try:
            # The handler of Ctrl-C is around the store, too: what ends an interrupted run is not interrupted.
            with Interrupts() as interrupts, self._evaluations(store, durability) as evaluations:
                self._tell_earlier(evaluations)
                return self._evaluate(evaluations, interrupts)
        except NotANumber:  # a mistake in the function: without warm_start, the policy is as fresh as before
            self.policy.abandon()
            raise

    def _evaluations(self, store: Any, durability: Durability) -> Evaluations:
        """Return the evaluations of the run, with those of its store."""
        if store is None:
            return Evaluations(self.policy)
        from scalable_bandits.runs.recording import record

        planned = self.budget + (0 if self._earlier is None else len(self._earlier.y))
        return record(
            self.policy, store, durability=durability, planned=planned, parts={"function": self.function},
            kind="minimize" if self.minimize else "maximize", settings=self.settings,
        )  # fmt: skip

    def _tell_earlier(self, evaluations: Evaluations) -> None:
        """Tell the policy the observations of `warm_start`, or compare them with those of the store."""
        given, before = self._earlier, evaluations.ended()
        stored = [ticket for ticket in before if ticket.call == 0]
        if given is None:
            return
        if not before:
            evaluations.tell_earlier(given.x, given.y)
            return
        points = np.array([ticket.x for ticket in stored]).reshape(len(stored), given.points.shape[1])
        if not np.array_equal(points, given.points) or [ticket.y for ticket in stored] != given.y.tolist():
            allowed = f"the {len(stored)} with which the run in the store began, or None"
            checks.refuse("warm_start", f"{len(given.y)} other observations", allowed)

    def _evaluate(self, evaluations: Evaluations, interrupts: Interrupts) -> TuningResult:
        """Evaluate until the run ends: each evaluation, as it does, goes to the bar, the callbacks and the rules."""
        from scalable_bandits.execution import executing

        began, stopped_by = time.monotonic(), None
        program = Programs(self.function, self.timeout) if isinstance(self.function, Command) else None
        function = self.function if program is None else program
        name = function_name(self.function).rpartition(":")[2].rpartition(".")[2]
        plan = EvaluationPlan(
            self.budget, self.parallel, self.retries, self.seconds, self.timeout if program is None else None
        )
        before = evaluations.ended()
        evaluations.plan(self.budget + sum(ticket.call == 0 for ticket in before))
        for ticket in before:
            self._count(ticket)
        threads = None if self.parallel == 1 else self.parallel
        with executing(self.on, function, name, threads=threads) as executor:
            if plan.timeout is not None and not executor.ends_calls:
                checks.refuse("timeout", self.timeout, "None on workers without a nanny, which cannot be restarted")
            if program is not None:
                program.shield = interrupts.shield
            loop = Evaluating(evaluations, executor, name, plan, interrupts)
            last = next((ticket for ticket in reversed(before) if ticket.y is not None), None)
            if loop.ended and last is not None and last.call != 0:  # a run that a rule ended before does not go on
                stopped_by = self._ended_by(self._view(last, loop.ended, began))
                loop.stopped = stopped_by is not None
            shown = wanted() if self.progress is None else self.progress
            bar = progress_bar(shown, type(self.policy).__name__, self.budget, loop.ended, executor.dashboard)
            try:
                with bar as advance, closing(iter(loop)) as tickets:
                    for ticket in tickets:
                        self._count(ticket)
                        advance(1, "" if self._best is None else f"best {self._best.y:.6g}")
                        with ForkedChildrenEnd():
                            for callback in self.callbacks:
                                callback(self._view(ticket, loop.ended, began))
                        stopped_by = stopped_by or self._ended_by(self._view(ticket, loop.ended, began))
                        loop.stopped = stopped_by is not None
            except KeyboardInterrupt:
                if not interrupts.active:
                    raise
                interrupts.over = True
            finally:
                if program is not None:
                    program.end_calls()
        return self._result(evaluations, loop, interrupts.over, stopped_by)

    def _count(self, ticket: Ticket) -> None:
        """Update the best evaluation by one that has ended."""
        self._since_best += ticket.call != 0  # observations from before the run do not count
        if ticket.y is not None:
            y, best = self.policy.oriented(ticket.y), self._best
            if best is None or best.y is None or y > self.policy.oriented(best.y):
                self._best, self._since_best = ticket, 0

    def _view(self, ticket: Ticket, number: int, began: float) -> RunView:
        """Return what callbacks and rules see after an evaluation has ended."""
        value, best = self.policy.domain.value, None
        if self._best is not None and self._best.y is not None:
            best = Measured(copy.copy(value(self._best.candidate)), self._best.y)
        return RunView(
            number, copy.copy(value(ticket.candidate)), ticket.y, ticket.error if ticket.y is None else "", best,
            self._since_best, self.policy, time.monotonic() - began,
        )  # fmt: skip

    def _ended_by(self, view: RunView) -> str | None:
        """Return the name of the first rule that ends the run; None if none does."""
        return next((name_of(rule) for rule in self.stop if rule(view)), None)

    def _result(
        self, evaluations: Evaluations, loop: Evaluating, interrupted: bool, stopped_by: str | None
    ) -> TuningResult:
        policy, space = self.policy, self.policy.space
        told = [ticket for ticket in evaluations.ended() if ticket.y is not None]
        tickets = tuple(t for _, t in sorted(evaluations.tickets.items()) if t.call != 0)
        failed = [ticket.error for ticket in tickets if ticket.failures]  # empty if there was no time for any
        if failed and not told and not interrupted:
            before = "That was in an earlier process; a larger budget would evaluate it again"
            last = loop.trace or f"{failed[-1]}\n{before}"
            if not loop.trace and isinstance(self.function, Command):
                last = f"{last.rstrip()}\nAnother command, or another value_from, needs another store"
            raise RuntimeError(f"function: all {len(tickets)} evaluations failed; the last one:\n{last}")
        if stopped_by is None and not interrupted and loop.ended < self.budget:  # nothing else ends a run early
            stopped_by = "seconds"
        xs = [policy.domain.value(ticket.candidate) for ticket in told]
        return TuningResult(
            self._recommended(bool(told)), policy, space.gather(xs), np.array([ticket.y for ticket in told]), tickets,
            sum(ticket.call == 0 for ticket in told), interrupted, stopped_by,
        )  # fmt: skip

    def _recommended(self, told: bool) -> Best:
        try:
            return self.policy.best()
        except ValueError:
            if told:
                raise
            return Best(None, math.nan, math.nan)  # the policy knows nothing before the first observation
