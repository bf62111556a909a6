"""A run of `minimize` or `maximize`: its arguments, checked; its evaluations; its result."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.forked import ForkedChildrenEnd
from scalable_bandits.identity import function_name
from scalable_bandits.policies import Best, Policy
from scalable_bandits.posteriors.placement import threads_of
from scalable_bandits.progress import Advance, progress_bar, wanted
from scalable_bandits.runs.commands import Command, Programs
from scalable_bandits.runs.evaluations import Ended, EvaluationLoop, EvaluationPlan, Stored
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.preconditions import check_fresh, set_direction
from scalable_bandits.runs.result import Measured, TuningResult
from scalable_bandits.runs.stopping import Rule, name_of
from scalable_bandits.runs.values import NotANumber
from scalable_bandits.runs.view import Callback, RunView
from scalable_bandits.runs.warm_start import Earlier, earlier_observations

if TYPE_CHECKING:
    from scalable_bandits.execution import Execution
    from scalable_bandits.runs.recording import Recording
    from scalable_bandits.store import Durability, ObservationStore

ENDED = "None in this process, which cannot end a running call; worker processes (on='local:4') and a Command can"


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
class TuningRun:
    """Arguments of `minimize` or `maximize`, checked. Parameters as there, but for those given here.

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

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            checks.refuse("function", self.function, "a function from a point to a number")
        check_fresh(self.policy)
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
            checks.refuse("timeout", self.timeout, ENDED)
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
            on = on.scheduler.address if hasattr(on, "scheduler") else on.address  # of a client; of a secure address
        return {
            "parallel": self.parallel, "on": None if on is None else str(on), "retries": self.retries,
            "timeout": self.timeout,
        }  # fmt: skip

    def play(self, store: Any, durability: Durability) -> TuningResult:
        """Evaluate, from the beginning or from where the run of a store ended."""
        try:
            with Interrupts() as interrupts:  # around the store, too: what ends an interrupted run is not interrupted
                if store is None:
                    return Playing(self, interrupts).play()
                return self._play_recorded(store, durability, interrupts)
        except NotANumber:  # a mistake in the function: without warm_start, the policy is as fresh as before
            self.policy.abandon()
            raise

    def _play_recorded(self, store: Any, durability: Durability, interrupts: Interrupts) -> TuningResult:
        """Evaluate, and record the run in a store."""
        from scalable_bandits.runs.recording import record

        planned = self.budget + (0 if self._earlier is None else len(self._earlier.y))
        with record(
            self.policy, store, durability=durability, planned=planned, parts={"function": self.function},
            kind="minimize" if self.minimize else "maximize", settings=self.settings,
        ) as recording:  # fmt: skip
            return Playing(self, interrupts, recording).play()


class Playing:
    """One call of a run: what has been observed, the loop of evaluations, and how it ends.

    Parameters
    ----------
    run
        Arguments of the run.
    interrupts
        Handler of Ctrl-C.
    recording
        Recording of the run; None without a store.
    """

    _loop: EvaluationLoop
    _advance: Advance
    _last: Ended

    def __init__(self, run: TuningRun, interrupts: Interrupts, recording: Recording | None = None):
        self._run, self._policy, self._recording, self._interrupts = run, run.policy, recording, interrupts
        self._began = time.monotonic()
        self._xs: list[Any] = []
        self._ys: list[float] = []
        self._earlier = 0  # number of observations from before the run
        self._best = -1  # position of the best observation
        self._since_best = 0
        self._stopped_by: str | None = None
        function = run.function
        self._function = Programs(function, run.timeout) if isinstance(function, Command) else function
        if recording is not None:
            self._take_stored(recording.store)
        self._tell_earlier()

    def _take_stored(self, store: ObservationStore) -> None:
        """Take over the observations and the pending points of a store."""
        rows = store.read(names=["x", "y", "call"])
        self._earlier = int((rows["call"] == 0).sum())
        self._xs, self._ys = self._policy.space.arguments(rows["x"]), rows["y"].tolist()
        self._policy.pending_points.replace(store.pending, reissue=True)
        for i in range(len(self._ys)):
            self._note_value(i)
        self._since_best += sum(failure.rounds > self._best for failure in store.failures)

    def _note_value(self, i: int) -> None:
        """Update the best observation by the one at a position."""
        self._since_best += i >= self._earlier
        better = self._best < 0 or self._policy.oriented(self._ys[i]) > self._policy.oriented(self._ys[self._best])
        if better:
            self._best, self._since_best = i, 0

    def _tell_earlier(self) -> None:
        """Tell the policy the observations of `warm_start`, or compare them with those of the store."""
        given, recording = self._run._earlier, self._recording
        if given is None:
            return
        if self._ys:
            assert recording is not None
            stored = recording.store.read(0, self._earlier, ["x", "y"])
            points = stored["x"].reshape(len(stored["y"]), given.points.shape[1])
            if not np.array_equal(points, given.points) or not np.array_equal(stored["y"], given.y):
                allowed = f"the {self._earlier} with which the run in the store began, or None"
                checks.refuse("warm_start", f"{len(given.y)} other observations", allowed)
            return
        if recording is None:
            self._policy.tell(given.x, given.y)
        else:
            recording.tell_earlier(given.x, given.y)
            recording.flush()
        self._xs, self._ys = self._policy.space.arguments(self._x_of(given.points)), given.y.tolist()
        self._earlier = len(given.y)
        for i in range(self._earlier):
            self._note_value(i)

    def _x_of(self, points: Any) -> Any:
        return points if self._policy.space.has_coordinates else points[:, 0].astype(np.int64)

    # ---- evaluations

    def play(self) -> TuningResult:
        """Evaluate until the run ends, and return its result."""
        from scalable_bandits.execution import executing

        run, stored = self._run, None
        if self._recording is not None:
            from scalable_bandits.store.tickets import TicketLog

            store = self._recording.store
            observed = store.read(self._earlier, names=["candidate"])["candidate"].tolist()
            stored = Stored(TicketLog(store), tuple(store.failures), observed)
            store.plan(max(run.budget + self._earlier, len(self._ys)))
        timeout = None if isinstance(run.function, Command) else run.timeout  # which ends its program itself
        plan = EvaluationPlan(
            run.budget, len(self._ys) - self._earlier, self._earlier, run.parallel, run.retries, run.seconds, timeout
        )
        name = function_name(run.function).rpartition(":")[2].rpartition(".")[2]
        threads, interrupts = None if run.parallel == 1 else run.parallel, self._interrupts
        with executing(run.on, self._function, name, threads=threads) as executor:
            self._check(executor)
            if isinstance(self._function, Programs):
                self._function.shield = interrupts.shield
            loop = EvaluationLoop(
                self._policy, executor, name, plan, stored=stored, on_end=self._note_end,
                after_end=self._after_end, interrupts=interrupts,
            )  # fmt: skip
            self._loop = loop
            if loop.ended and len(self._ys) > self._earlier:  # a run that a rule ended before does not go on
                self._look_at_rules(self._view(Ended(self._xs[-1], self._ys[-1])))
            try:
                with self._bar(executor) as self._advance:
                    loop.run()
            except KeyboardInterrupt:
                if not interrupts.active:
                    raise
                interrupts.over = True
            finally:
                if isinstance(self._function, Programs):
                    self._function.end_calls()
        return self._result(interrupts.over)

    def _check(self, executor: Execution) -> None:
        """Raise ValueError if the executor cannot end calls that take too long."""
        run = self._run
        if run.timeout is not None and not executor.ends_calls and not isinstance(run.function, Command):
            checks.refuse("timeout", run.timeout, "None on workers without a nanny, which cannot be restarted")

    def _bar(self, executor: Execution) -> Any:
        shown = wanted() if self._run.progress is None else self._run.progress
        name, done = type(self._policy).__name__, self._loop.ended
        return progress_bar(shown, name, self._run.budget, done, executor.dashboard)

    def _note_end(self, ended: Ended) -> None:
        """Take note of an evaluation that has ended."""
        self._last = ended
        if ended.y is None:
            self._since_best += 1
        else:
            self._xs.append(ended.x)
            self._ys.append(ended.y)
            self._note_value(len(self._ys) - 1)

    def _after_end(self) -> None:
        """Advance the bar, and call the callbacks and the stopping rules."""
        ended = self._last
        best = self._best_measured()
        self._advance(1, "" if best is None else f"best {best.y:.6g}")
        with ForkedChildrenEnd():
            for callback in self._run.callbacks:
                callback(self._view(ended))
        self._look_at_rules(self._view(ended))

    def _best_measured(self) -> Measured | None:
        return None if self._best < 0 else Measured(copy.copy(self._xs[self._best]), self._ys[self._best])

    def _view(self, ended: Ended) -> RunView:
        return RunView(
            self._loop.ended, copy.copy(ended.x), ended.y, ended.error, self._best_measured(), self._since_best,
            self._policy, time.monotonic() - self._began,
        )  # fmt: skip

    def _look_at_rules(self, view: RunView) -> None:
        """Let no evaluation begin any more if a rule says so."""
        if self._stopped_by is None:
            self._stopped_by = next((name_of(rule) for rule in self._run.stop if rule(view)), None)
            self._loop.stopped = self._stopped_by is not None

    # ---- result

    def _result(self, interrupted: bool) -> TuningResult:
        loop, policy = self._loop, self._policy
        tickets = tuple(loop.tickets[number] for number in sorted(loop.tickets))
        failed = [ticket.error for ticket in tickets if ticket.failures]  # empty if there was no time for any
        if failed and not self._ys and not interrupted:
            before = "That was in an earlier process; a larger budget would evaluate it again"
            last = loop.trace or f"{failed[-1]}\n{before}"
            if self._recording is not None and isinstance(self._run.function, Command):
                last = f"{last.rstrip()}\nAnother command, or another value_from, needs another store"
            raise RuntimeError(f"function: all {len(tickets)} evaluations failed; the last one:\n{last}")
        stopped_by = self._stopped_by
        if stopped_by is None and not interrupted and loop.ended < self._run.budget:
            stopped_by = "seconds"
        return TuningResult(
            self._recommended(), policy, policy.space.gather(self._xs), np.array(self._ys), tickets, self._earlier,
            interrupted, stopped_by,
        )  # fmt: skip

    def _recommended(self) -> Best:
        try:
            return self._policy.best()
        except ValueError:
            if self._ys:
                raise
            return Best(None, math.nan, math.nan)  # of a policy that knows nothing before the first observation
