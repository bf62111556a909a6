"""Find the minimum or the maximum of a user's own function: a run's arguments, checked; its evaluations; its result."""

from __future__ import annotations

import copy
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.commands import Command, Programs
from scalable_bandits.forked import ForkedChildrenEnd
from scalable_bandits.identity import function_name
from scalable_bandits.policies import GPEHVI, GPEI, Best, ConstrainedGPEI, HypervolumeUCB, Policy
from scalable_bandits.policies.outputs import DIRECTIONS, Limit, check_objectives
from scalable_bandits.policies.several_objectives import SeveralObjectivesPolicy
from scalable_bandits.posteriors.placement import threads_of
from scalable_bandits.progress import progress_bar, wanted
from scalable_bandits.runs.evaluations import Evaluating, EvaluationPlan, Evaluations, NotANumber, check_fresh
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.limits import keeps
from scalable_bandits.runs.readable import OF_BATCH, places_of, shown
from scalable_bandits.runs.result import Measured, TuningResult, earlier_observations, earlier_outputs, is_empty
from scalable_bandits.runs.stopping import RegretBelow, Rule, RunStart, RunView, name_of
from scalable_bandits.spaces import SearchSpace, Space
from scalable_bandits.spaces.parameters_from import check_whole
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    from scalable_bandits.store import Durability

USED_UP = "the end of the pool"
TIMEOUTS = "None in this process, which cannot end a running call; worker processes (on='local:4') and a Command can"


def minimize(
    function: Callable[[Any], Any], space_or_policy: Any, budget: int, *, parallel: int | None = None, on: Any = None,
    retries: int = 0, seconds: float | None = None, timeout: float | None = None, store: Any = None,
    durability: Durability = "round", progress: bool | None = None, callbacks: Any = (), stop: Any = (),
    warm_start: Any = None, constraints: Mapping[str, Limit] | None = None, objective: str | None = None,
    objectives: Mapping[str, str] | Sequence[str] | None = None, context: Mapping[Any, Any] | None = None,
    seed: int = 0,
) -> TuningResult:  # fmt: skip
    """Find the setting of smallest value: evaluate a function `budget` times, at points that a policy chooses.

    An evaluation that raises, takes too long, or returns no finite number has failed: it counts against the budget, its
    error is kept, its point is avoided, and the run goes on. Ctrl-C ends the run, and returns what was found so far.
    With a store the same call continues a run that ended early, however it ended.

    Parameters
    ----------
    function
        Function from a dict of values by parameter (of other spaces a point (d,); for `Arms` an arm number) to a
        number, in units of y, with `constraints` or `objectives` to a dict of numbers by output; or a `Command`. Noise
        is allowed.
    space_or_policy
        Space, or dict of parameters (see `SearchSpace`), for the default policy: `GPEI` without a kernel. Or a fresh
        policy of any kind.
    budget
        Number of evaluations; with a store, that of its run in all.
    parallel
        Number of evaluations in flight: when one ends, the next point is asked for, with the others pending. If not
        given, one, or with `on` the number of slots of its workers, which may change.
    on
        Executor: None (this process; with `parallel` its threads), "threads:4", "local:4" (worker processes), the
        address of a Dask scheduler, a `distributed.Client`, or a recipe file (``cluster/``).
    retries
        Number of times that a failed evaluation is tried again.
    seconds, timeout
        Time after which no evaluation begins; and longest duration of one, after which it is ended and has failed. The
        latter is for worker processes, which are killed and started again, and for a `Command`.
    store, durability
        Store of the run: a folder; and its guarantee: "round" writes every value to disk before the next point is
        chosen, "block" with the first change more than a second after the last write: a crash may lose the last value.
    progress
        Whether to show a progress bar. If not given: where standard error is a terminal, and in notebooks.
    callbacks, stop
        Function of a `RunView`, or several, called after each evaluation, such as those that log to MLflow or W&B
        (`integrations`); and rules that end the run: `RegretBelow`, `NoImprovement`, `Deadline`, or any function of a
        `RunView`, once it is true.
    warm_start
        Earlier observations, beside the budget: a pair of points and values, a table (structured array or DataFrame)
        with a column for each parameter and one of values, or an earlier result; with several outputs a pair of points
        and dicts by output, a table with a column for each, or an earlier result.
    constraints, objective
        Limits that outputs have to keep, by name, such as ``{"latency": AtMost(50)}``: the policy is then
        `ConstrainedGPEI`, and the best setting is the best one that keeps them; and the name of the output to be
        minimised, which is not needed where it is the only one without a limit.
    objectives
        Names of several outputs that are minimised, such as ``["loss", "seconds"]``, or a dict with "minimize" or
        "maximize" of each, first one that is minimised: the policy is `GPEHVI`, of more than two `HypervolumeUCB`, and
        `front` of the result are the settings that no other one beats in all of them.
    context
        Values of parameters (of other spaces coordinates by dimension) that this call is given and does not choose,
        such as ``{"load": 0.7}``: the best setting for them is looked for. Observations in other contexts count:
        earlier ones, and those of the same store, whose next call may have another context.
    seed
        Seed of the default policy.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid, or the first evaluation returns something else than a number.
    RuntimeError
        If the first ten evaluations failed, or all, or those at every point; or if the cluster is unavailable or lost.
    SpecificationDiffers, StoreLocked
        If the store contains a run of another policy or function, or another process is writing to it.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> found = sb.minimize(lambda setting: abs(setting["depth"] - 5), {"depth": sb.Integer(1, 12)}, budget=12)
    >>> found.measured.x
    {'depth': 5}
    """
    return Tuning(
        minimize=True, function=function,
        policy=_policy_for(space_or_policy, seed, True, constraints, objective, objectives),
        plan=EvaluationPlan(budget, parallel, retries, seconds, timeout), on=on, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start, context=context,
    ).play(store, durability)  # fmt: skip


def maximize(
    function: Callable[[Any], Any], space_or_policy: Any, budget: int, *, parallel: int | None = None, on: Any = None,
    retries: int = 0, seconds: float | None = None, timeout: float | None = None, store: Any = None,
    durability: Durability = "round", progress: bool | None = None, callbacks: Any = (), stop: Any = (),
    warm_start: Any = None, constraints: Mapping[str, Limit] | None = None, objective: str | None = None,
    objectives: Mapping[str, str] | Sequence[str] | None = None, context: Mapping[Any, Any] | None = None,
    seed: int = 0,
) -> TuningResult:  # fmt: skip
    """Find the setting of largest value. Arguments, result and errors are those of `minimize`.

    Parameters
    ----------
    function, space_or_policy, budget, parallel, on, retries, seconds, timeout, store, durability, progress
        Arguments of `minimize`. A policy that was made with ``minimize=True`` is refused.
    callbacks, stop, warm_start, constraints, objective, objectives, context, seed
        Arguments of `minimize`; the first of several objectives is maximised.

    Raises
    ------
    ValueError, TypeError, RuntimeError, SpecificationDiffers, StoreLocked
        If an argument is invalid, all evaluations fail, the cluster is lost, or the store has another run or writer.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), policy, budget=20)
    >>> bool(abs(found.best.x[0] - 0.3) < 0.01)
    True
    """
    return Tuning(
        minimize=False, function=function,
        policy=_policy_for(space_or_policy, seed, False, constraints, objective, objectives),
        plan=EvaluationPlan(budget, parallel, retries, seconds, timeout), on=on, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start, context=context,
    ).play(store, durability)  # fmt: skip


def _policy_for(
    space_or_policy: Any, seed: int, minimize: bool, constraints: Any, objective: str | None, objectives: Any
) -> Policy:  # fmt: skip
    """Return the policy that was given, or the default one of the space that was given."""
    if isinstance(space_or_policy, Policy):
        outputs = {"constraints": constraints, "objective": objective, "objectives": objectives}
        for name, given in outputs.items():
            if given is not None:
                checks.refuse(name, given, "None with a policy: give them to `ConstrainedGPEI` or `GPEHVI`")
        if seed != 0:
            checks.refuse("seed", seed, "0 with a policy, which has its own")
        return space_or_policy
    check_whole("space_or_policy", space_or_policy)
    space = SearchSpace(space_or_policy) if isinstance(space_or_policy, Mapping) else space_or_policy
    if not isinstance(space, Space):
        allowed = 'a space, a dict of parameters, such as {"rate": Real(0.001, 0.1)}, or a policy, such as GPEI(space)'
        checks.refuse("space_or_policy", space_or_policy, allowed)
    if not space.has_coordinates:
        allowed = "a policy with a kernel of the arms, such as GPEI(arms, Covariance(matrix)): none can be learned"
        checks.refuse("space_or_policy", space, allowed)
    options: dict[str, Any] = {"seed": checks.integer("seed", seed, 0), "minimize": minimize}
    if objectives is not None:
        if objective is not None:
            checks.refuse("objective", objective, "None with objectives, of which it may be the first")
        kind = GPEHVI if len(check_objectives(objectives)) == 2 else HypervolumeUCB
        return kind(space, objectives=objectives, constraints=constraints, **options)
    if constraints is not None:
        return ConstrainedGPEI(space, constraints=constraints, objective=objective, **options)
    if objective is not None:
        checks.refuse("objective", objective, "None without constraints: the function returns a number")
    return GPEI(space, **options)


def _functions(name: str, given: Any) -> tuple[Rule, ...]:
    """Return one function, or several, as a tuple; ValueError for anything else."""
    found = tuple(given) if isinstance(given, Iterable) and not callable(given) else (given,)
    if not all(callable(each) and not isinstance(each, type) for each in found):
        checks.refuse(name, given, "a function of the run, or several; of a class an instance: NoImprovement(20)")
    return found


def _pairs_of(context: Mapping[Any, Any]) -> list[list[Any]]:
    """Return the keys and values of a context as a store keeps them; a value that it cannot keep as its text."""
    kept, found = (str, int, float, bool, type(None)), []
    for pair in context.items():
        key, value = (each.item() if isinstance(each, np.generic) else each for each in pair)
        found.append([key, value if isinstance(value, kept) else str(value)])
    return found


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
    named_on
        Executor as the user named it, where `on` is a client of it.
    """

    minimize: bool
    function: Callable[[Any], float]
    policy: Policy
    plan: EvaluationPlan
    on: Any = None
    named_on: Any = None
    progress: bool | None = None
    callbacks: Any = ()  # one or several, from `__attrs_post_init__` on a tuple
    stop: Any = ()  # likewise
    warm_start: Any = None
    context: Mapping[Any, Any] | None = None
    _began: float = attrs.field(init=False, default=0.0)
    _best: Ticket | None = attrs.field(init=False, default=None)
    _ends: tuple[float, float] = attrs.field(init=False, default=(math.inf, -math.inf))  # smallest and largest value
    _since_best: int = attrs.field(init=False, default=0)
    _front: list[Floats] = attrs.field(init=False, factory=list)  # oriented values of evaluations that joined the front
    _stopped_by: str | None = attrs.field(init=False, default=None)
    _begun: list[Rule] = attrs.field(init=False, factory=list)  # callbacks whose `begin` was called

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            checks.refuse("function", self.function, "a function from a point to a number")
        check_fresh(self.policy)
        self.callbacks, self.stop = _functions("callbacks", self.callbacks), _functions("stop", self.stop)
        self.progress = None if self.progress is None else checks.flag("progress", self.progress)
        if self.on is not None:
            from scalable_bandits.execution import resolve

            resolve(self.on)  # raises ValueError before a store is created
        if self.context is not None:
            self.policy.in_context(np.empty((0, self.policy.space.dimension)), self.context)  # raises ValueError
        if isinstance(self.function, Command):
            self.function.check(self.policy.space, self.context or ())
        elif self.plan.timeout is not None and (self.on is None or threads_of(self.on) is not None):
            checks.refuse("timeout", self.plan.timeout, TIMEOUTS)
        for rule in self.stop:
            if isinstance(rule, RegretBelow):
                rule.check(self.policy)
                if self.context is not None:
                    checks.refuse("stop", "RegretBelow", "other rules in a context: its bound is one of all contexts")
        if is_empty(self.warm_start):
            self.warm_start = None
        if self.warm_start is not None:
            space, outputs = self.policy.space, self.policy.outputs
            given = self.warm_start
            self.warm_start = earlier_outputs(given, space, outputs) if outputs else earlier_observations(given, space)
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

    def play(self, store: Any, durability: Durability) -> TuningResult:
        """Evaluate, from the beginning or from where the run of a store ended; return the result."""
        found = None
        try:
            # The handler of Ctrl-C is around the store, too: what ends an interrupted run is not interrupted.
            with Interrupts() as interrupts, self._evaluations(store, durability) as evaluations:
                self._tell_earlier(evaluations)
                found = self._evaluate(evaluations, interrupts)
                return found
        except NotANumber:  # a mistake in the function: without warm_start, the policy is as fresh as before
            self.policy.abandon()
            raise
        finally:
            with ExitStack() as ends:  # one that fails keeps no other from its end
                for callback in self._begun:
                    ends.callback(self._call, "end", callback, found)

    def _evaluations(self, store: Any, durability: Durability) -> Evaluations:
        """Return the evaluations of the run, with those of its store."""
        if store is None:
            return Evaluations(self.policy)
        from scalable_bandits.runs.recording import record

        on, plan = self.on if self.named_on is None else self.named_on, self.plan
        if on is not None and not isinstance(on, str | os.PathLike):
            on = on.scheduler.address if hasattr(on, "scheduler") else on.address  # a Client, else a SecureAddress
        settings = {  # also of the resumed run
            "parallel": plan.parallel, "on": None if on is None else str(on), "retries": plan.retries,
            "timeout": plan.timeout, **({} if plan.batch is None else {"batch": plan.batch}),
            **({} if self.context is None else {"context": _pairs_of(self.context)}),
        }  # fmt: skip
        return record(
            self.policy, store, durability=durability, parts={"function": self.function},
            planned=plan.budget + (0 if self.warm_start is None else len(self.warm_start.y)),
            kind="minimize" if self.minimize else "maximize", settings=settings,
        )  # fmt: skip

    def _begin(self, evaluations: Evaluations) -> None:
        """Show the run to the callbacks that have a method `begin`."""
        store, tickets = evaluations.store, tuple(evaluations.ended())
        run_id, place = (None, None) if store is None else (str(store.attributes["id"]), store.location.name)
        name = str(self.function) if isinstance(self.function, Command) else function_name(self.function)
        start = RunStart(self.policy, name, self.plan.budget, tickets, run_id, place)
        for callback in self.callbacks:
            self._call("begin", callback, start)
            self._begun.append(callback)

    @staticmethod
    def _call(name: str, callback: Rule, given: Any) -> None:
        """Call a method of a callback, if it has that."""
        method = getattr(callback, name, None)
        if callable(method):
            with ForkedChildrenEnd():
                method(given)

    def _tell_earlier(self, evaluations: Evaluations) -> None:
        """Tell the policy the observations of `warm_start`, or compare them with those of the store."""
        given, before = self.warm_start, evaluations.ended()
        if given is None:
            return
        if not before:
            evaluations.tell_earlier(given.x, given.told)
            return
        stored = [ticket for ticket in before if ticket.call == 0]
        points = np.array([ticket.x for ticket in stored]).reshape(len(stored), given.points.shape[1])
        ys = np.array([ticket.y for ticket in stored], dtype=np.float64)  # NaN for None
        same = np.array_equal(points, given.points) and np.array_equal(ys, given.y, equal_nan=True)
        if not same or [ticket.result for ticket in stored] != list(given.results):
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
        evaluations.plan(plan.budget + evaluations.earlier)
        for ticket in before:
            self._count(ticket)
        threads = None if plan.parallel == 1 else plan.parallel
        with executing(self.on, program or self.function, name, threads=threads) as executor:
            if plan.timeout is not None and not executor.ends_calls:
                checks.refuse("timeout", plan.timeout, "None on workers without a nanny, which cannot be restarted")
            loop = Evaluating(evaluations, executor, name, plan, interrupts, self.context)
            last = next((ticket for ticket in reversed(before) if ticket.y is not None), None)
            if loop.ended and last is not None and last.call != 0:  # a run that a rule ended before does not go on
                self._show(last, loop)
            self._begin(evaluations)
            shown = wanted() if self.progress is None else self.progress
            bar = progress_bar(
                shown, type(self.policy).__name__, plan.budget, loop.ended, executor.dashboard,
                text=lambda: self._words(loop),
            )  # fmt: skip
            try:
                with bar as advance, closing(iter(loop)) as tickets:
                    for ticket in tickets:
                        if ticket.ended is None:  # of a batch: the words of the bar change, not its count
                            advance(0)
                            continue
                        self._count(ticket)
                        advance(1)
                        with ForkedChildrenEnd():
                            self._show(ticket, loop, self.callbacks)
            except KeyboardInterrupt:
                if not interrupts.active:
                    raise
                interrupts.over = True
            finally:
                if program is not None:
                    program.end_calls()
        return self._result(evaluations, loop, interrupts.over)

    def _words(self, loop: Evaluating) -> str:
        """Return what the progress bar says of the evaluations."""
        words = [f"{loop.in_flight} in flight"] if loop.in_flight else []
        words += [f"{loop.measured:,} {OF_BATCH}"] if loop.measured else []
        words += [self.policy.activity] if self.policy.activity else []
        low, high = self._ends
        words += [] if self._best is None else [f"best {shown(self._best.y, 6, places_of(high - low))}"]
        return ", ".join(words)

    def _count(self, ticket: Ticket) -> None:
        """Update the best evaluation by one that has ended."""
        self._since_best += ticket.call != 0  # observations from before the run do not count
        outputs, policy = self.policy.outputs, self.policy
        if ticket.y is not None:
            self._ends = min(self._ends[0], ticket.y), max(self._ends[1], ticket.y)
        if self.context is not None and not policy.in_context(np.array([ticket.x]), self.context)[0]:
            return
        if keeps(ticket, {} if outputs is None else outputs.others):
            best, oriented = self._best, policy._oriented
            if better := best is None or oriented(ticket.y) > oriented(best.y):
                self._best = ticket
            if self._advances(policy, ticket) if isinstance(policy, SeveralObjectivesPolicy) else better:
                self._since_best = 0

    def _advances(self, policy: SeveralObjectivesPolicy, ticket: Ticket) -> bool:
        """Whether no evaluation before is at least as good in all objectives."""
        first, *others = policy.directions
        told = {first: ticket.y, **{name: ticket.result["outputs"][name] for name in others}}
        values = np.array([DIRECTIONS[way].SIGN * told[name] for name, way in policy.directions.items()])
        if any((each >= values).all() for each in self._front):
            return False
        self._front.append(values)
        return True

    def _view(self, ticket: Ticket, number: int) -> RunView:
        """Return what callbacks and rules see after an evaluation has ended."""
        value, best = self.policy.domain.value, None
        if self._best is not None and self._best.y is not None:
            best = Measured(copy.copy(value(self._best.candidate)), self._best.y)
        return RunView(
            number, copy.copy(value(ticket.candidate)), ticket.y, ticket.error if ticket.y is None else "", best,
            self._since_best, self.policy, time.monotonic() - self._began, ticket,
        )  # fmt: skip

    def _show(self, ticket: Ticket, loop: Evaluating, callbacks: Iterable[Rule] = ()) -> None:
        """Show callbacks and rules the run after an evaluation; the first rule that is true ends it."""
        for callback in callbacks:
            callback(self._view(ticket, loop.ended))
        for rule in self.stop:
            if self._stopped_by is None and rule(self._view(ticket, loop.ended)):
                self._stopped_by = name_of(rule)
        loop.stopped = self._stopped_by is not None

    def _result(self, evaluations: Evaluations, loop: Evaluating, interrupted: bool) -> TuningResult:
        policy = self.policy
        told = [ticket for ticket in evaluations.ended() if not ticket.gone]
        tickets = tuple(ticket for _, ticket in sorted(evaluations.tickets.items()) if ticket.call != 0)
        failed = [ticket.error for ticket in tickets if ticket.failures]  # empty if there was no time for any
        if failed and not told and not interrupted:
            before = "That was in an earlier process; a larger budget would evaluate it again"
            last = loop.trace or f"{failed[-1]}\n{before}"
            raise evaluations.no_values(f"all {len(tickets)} evaluations failed; the last one:\n{last}")
        if self._stopped_by is None and not interrupted and loop.ended < self.plan.budget:
            self._stopped_by = USED_UP if loop.used_up else "seconds"  # nothing else ends a run early
        recommended = Best(None, math.nan, math.nan)
        if policy.rounds:  # it knows nothing before the first observation
            try:
                recommended = policy.best(context=self.context)
            except ValueError:
                if told and self.context is None:
                    raise
        return TuningResult(
            recommended, policy, policy.space.gather(policy.domain.values([ticket.candidate for ticket in told])),
            np.array([ticket.y for ticket in told], dtype=np.float64), tickets, evaluations.earlier, interrupted,
            self._stopped_by, self._outputs_of(told), self.context,
        )  # fmt: skip

    def _outputs_of(self, told: Sequence[Ticket]) -> dict[str, Floats]:
        """Return the values (n,) of outputs besides the first objective, by name; NaN where one was not measured."""
        names = () if self.policy.outputs is None else self.policy.outputs.others
        return {name: np.array([t.result["outputs"][name] for t in told], dtype=np.float64) for name in names}
