"""A run of `minimize` or `maximize`: its arguments, checked; its evaluations; its result."""

from __future__ import annotations

import copy
import math
import os
import time
import warnings
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
from scalable_bandits.runs.evaluating import Evaluating, EvaluationPlan, NotANumber
from scalable_bandits.runs.evaluations import Evaluations, check_fresh, check_unrecorded
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.result import Measured, TuningResult
from scalable_bandits.runs.stopping import Callback, Rule, RunView, name_of
from scalable_bandits.runs.warm_start import Earlier, earlier_observations
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    from scalable_bandits.store import Durability

TIMEOUTS = "None in this process, which cannot end a running call; worker processes (on='local:4') and a Command can"


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
    plan
        Limits of the evaluations.
    """

    minimize: bool
    function: Callable[[Any], float]
    policy: Policy
    plan: EvaluationPlan
    on: Any = None
    progress: bool | None = None
    callbacks: tuple[Callback, ...] = attrs.field(converter=_sequence, validator=_callables)
    stop: tuple[Rule, ...] = attrs.field(converter=_sequence, validator=_callables)
    warm_start: Any = None
    _earlier: Earlier | None = attrs.field(init=False, default=None)
    _began: float = attrs.field(init=False, default=0.0)
    _best: Ticket | None = attrs.field(init=False, default=None)
    _since_best: int = attrs.field(init=False, default=0)
    _stopped_by: str | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            checks.refuse("function", self.function, "a function from a point to a number")
        check_fresh(self.policy)
        check_unrecorded(self.policy)
        self.progress = None if self.progress is None else checks.flag("progress", self.progress)
        if self.on is not None:
            from scalable_bandits.execution import resolve

            resolve(self.on)  # raises ValueError before a store is created
        if isinstance(self.function, Command):
            self.function.check(self.policy.space)
        elif self.plan.timeout is not None and (self.on is None or threads_of(self.on) is not None):
            checks.refuse("timeout", self.plan.timeout, TIMEOUTS)
        for rule in self.stop:
            check = getattr(rule, "check", None)
            if check is not None:
                check(self.policy)
        if self.warm_start is not None:
            self._earlier = earlier_observations(self.warm_start, self.policy.space)
        self._set_direction()  # last, since it changes the policy

    def _set_direction(self) -> None:
        """Let the policy minimise if need be; refuse to let one that was made with ``minimize=True`` maximise."""
        policy = self.policy
        if policy.minimize == self.minimize:
            return
        if not self.minimize:
            checks.refuse("policy", "one with minimize=True", "one that maximises; or call `minimize`")
        given = {field.alias: getattr(policy, field.name) for field in attrs.fields(type(policy)) if field.init}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # were given when the policy was made
            type(policy).__init__(policy, **{**given, "minimize": True})  # makes its model again

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that hold for the resumed run too, as plain data."""
        on, plan = self.on, self.plan
        if on is not None and not isinstance(on, str | os.PathLike):
            on = on.scheduler.address if hasattr(on, "scheduler") else on.address  # a Client, else a SecureAddress
        on = None if on is None else str(on)
        return {"parallel": plan.parallel, "on": on, "retries": plan.retries, "timeout": plan.timeout}

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

        planned = self.plan.budget + (0 if self._earlier is None else len(self._earlier.y))
        return record(
            self.policy, store, durability=durability, planned=planned, parts={"function": self.function},
            kind="minimize" if self.minimize else "maximize", settings=self.settings,
        )  # fmt: skip

    def _tell_earlier(self, evaluations: Evaluations) -> None:
        """Tell the policy the observations of `warm_start`, or compare them with those of the store."""
        given, before = self._earlier, evaluations.ended()
        if given is None:
            return
        if not before:
            evaluations.tell_earlier(given.x, given.y)
            return
        stored = [ticket for ticket in before if ticket.call == 0]
        points = np.array([ticket.x for ticket in stored]).reshape(len(stored), given.points.shape[1])
        if not np.array_equal(points, given.points) or [ticket.y for ticket in stored] != given.y.tolist():
            allowed = f"the {len(stored)} with which the run in the store began, or None"
            checks.refuse("warm_start", f"{len(given.y)} other observations", allowed)

    def _evaluate(self, evaluations: Evaluations, interrupts: Interrupts) -> TuningResult:
        """Evaluate until the run ends: each evaluation, as it does, goes to the bar, the callbacks and the rules."""
        from scalable_bandits.execution import executing

        self._began, plan, before = time.monotonic(), self.plan, evaluations.ended()
        program = Programs(self.function, plan.timeout) if isinstance(self.function, Command) else None
        if program is not None:
            plan = attrs.evolve(plan, timeout=None)  # the program has it
            program.shield = interrupts.shield
        name = function_name(self.function).rpartition(":")[2].rpartition(".")[2]
        evaluations.plan(plan.budget + sum(ticket.call == 0 for ticket in before))
        for ticket in before:
            self._count(ticket)
        threads = None if plan.parallel == 1 else plan.parallel
        with executing(self.on, program or self.function, name, threads=threads) as executor:
            if plan.timeout is not None and not executor.ends_calls:
                checks.refuse("timeout", plan.timeout, "None on workers without a nanny, which cannot be restarted")
            loop = Evaluating(evaluations, executor, name, plan, interrupts)
            last = next((ticket for ticket in reversed(before) if ticket.y is not None), None)
            if loop.ended and last is not None and last.call != 0:  # a run that a rule ended before does not go on
                self._apply_rules(last, loop)
            shown = wanted() if self.progress is None else self.progress
            bar = progress_bar(shown, type(self.policy).__name__, plan.budget, loop.ended, executor.dashboard)
            try:
                with bar as advance, closing(iter(loop)) as tickets:
                    for ticket in tickets:
                        self._count(ticket)
                        advance(1, "" if self._best is None else f"best {self._best.y:.6g}")
                        with ForkedChildrenEnd():
                            for callback in self.callbacks:
                                callback(self._view(ticket, loop.ended))
                            self._apply_rules(ticket, loop)
            except KeyboardInterrupt:
                if not interrupts.active:
                    raise
                interrupts.over = True
            finally:
                if program is not None:
                    program.end_calls()
        return self._result(evaluations, loop, interrupts.over)

    def _count(self, ticket: Ticket) -> None:
        """Update the best evaluation by one that has ended."""
        self._since_best += ticket.call != 0  # observations from before the run do not count
        if ticket.y is not None:
            y, best = self.policy.oriented(ticket.y), self._best
            if best is None or y > self.policy.oriented(best.y):
                self._best, self._since_best = ticket, 0

    def _view(self, ticket: Ticket, number: int) -> RunView:
        """Return what callbacks and rules see after an evaluation has ended."""
        value, best = self.policy.domain.value, None
        if self._best is not None and self._best.y is not None:
            best = Measured(copy.copy(value(self._best.candidate)), self._best.y)
        return RunView(
            number, copy.copy(value(ticket.candidate)), ticket.y, ticket.error if ticket.y is None else "", best,
            self._since_best, self.policy, time.monotonic() - self._began,
        )  # fmt: skip

    def _apply_rules(self, ticket: Ticket, loop: Evaluating) -> None:
        """End the run by the first rule that is true after an evaluation."""
        view = self._view(ticket, loop.ended)
        self._stopped_by = self._stopped_by or next((name_of(rule) for rule in self.stop if rule(view)), None)
        loop.stopped = self._stopped_by is not None

    def _result(self, evaluations: Evaluations, loop: Evaluating, interrupted: bool) -> TuningResult:
        policy = self.policy
        told = [ticket for ticket in evaluations.ended() if ticket.y is not None]
        tickets = tuple(ticket for _, ticket in sorted(evaluations.tickets.items()) if ticket.call != 0)
        failed = [ticket.error for ticket in tickets if ticket.failures]  # empty if there was no time for any
        if failed and not told and not interrupted:
            before = "That was in an earlier process; a larger budget would evaluate it again"
            last = loop.trace or f"{failed[-1]}\n{before}"
            if not loop.trace and isinstance(self.function, Command):
                last = f"{last.rstrip()}\nAnother command, or another value_from, needs another store"
            raise RuntimeError(f"function: all {len(tickets)} evaluations failed; the last one:\n{last}")
        if self._stopped_by is None and not interrupted and loop.ended < self.plan.budget:
            self._stopped_by = "seconds"  # nothing else ends a run early
        try:
            recommended = policy.best()
        except ValueError:
            if told:
                raise
            recommended = Best(None, math.nan, math.nan)  # the policy knows nothing before the first observation
        return TuningResult(
            recommended, policy, policy.space.gather([policy.domain.value(ticket.candidate) for ticket in told]),
            np.array([ticket.y for ticket in told]), tickets, sum(ticket.call == 0 for ticket in told), interrupted,
            self._stopped_by,
        )  # fmt: skip
