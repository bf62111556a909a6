"""Find the maximum of a user's own function."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies import Policy
from scalable_bandits.progress import progress_bar
from scalable_bandits.runs.evaluations import EvaluationLoop, EvaluationPlan, evaluate
from scalable_bandits.runs.preconditions import check_fresh
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.specification import function_name

if TYPE_CHECKING:
    from scalable_bandits.runs.recording import Recording
    from scalable_bandits.store import Durability


def maximize(
    function: Callable[[Any], float],
    policy: Policy,
    budget: int,
    *,
    parallel: int | None = None,
    on: Any = None,
    retries: int = 1,
    seconds: float | None = None,
    store: Any = None,
    durability: Durability = "round",
    progress: bool = False,
) -> TuningResult:
    """Evaluate a function `budget` times, at the points that a policy chooses.

    Parameters
    ----------
    function
        Function from a point (d,) (for `Arms` an arm number, for a `SearchSpace` a dict) to a number, in units of y;
        larger is better. Noise is allowed.
    policy
        Fresh policy, neither asked nor told.
    budget
        Number of evaluations; with a store, the total number of its run.
    parallel
        Number of evaluations in flight: when one returns, the next point is asked for, with the others pending. If not
        given, one, or with `on` the number of slots of its workers, which may change.
    on
        Executor of the evaluations: None (this process; with `parallel` on threads), "threads:4" (four threads of this
        process), "local:4" (worker processes), the address of a Dask scheduler, a `distributed.Client`, or a recipe
        file (``cluster/``).
    retries
        Number of times that a failed evaluation (an exception, or a value that is not a finite number) is tried again.
        If the last attempt fails, it counts against the budget, and its point is excluded if that happens twice in
        succession. Without `parallel` and `on` the first failure is raised.
    seconds
        Time after which no evaluation begins; running ones are waited for.
    store
        Store of the run: a folder, a URL that zarr can open, a zarr store, or an icechunk repository. A run that is in
        the store already is continued exactly as if it had never stopped.
    durability
        Guarantee of the store: "round" writes every value to disk before the next point is chosen, "block" may lose the
        values of the last second in a crash.
    progress
        Whether to show a progress bar.

    Raises
    ------
    ValueError
        If the budget is not positive, the policy not fresh, or a value not a finite number (earlier values are kept).
    RuntimeError
        If all evaluations failed, or the cluster is unavailable or lost (earlier values are kept).
    SpecificationDiffers
        If the store contains a run of another policy or function; the message lists the differences.
    StoreLocked
        If another process is writing to the store.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), policy, budget=20)
    >>> bool(abs(found.best.x[0] - 0.3) < 0.01)
    True
    """
    run = _Run(function, policy, budget, parallel, on, retries, seconds, progress)
    return run.play() if store is None else run.play_recorded(store, durability)


@attrs.define
class _Run:
    """Arguments of `maximize`, checked."""

    function: Callable[[Any], float]
    policy: Policy
    budget: int
    parallel: int | None
    on: Any
    retries: int
    seconds: float | None
    progress: bool

    def __attrs_post_init__(self) -> None:
        check_fresh(self.policy)
        self.budget = checks.integer("budget", self.budget, 1)
        self.retries = checks.integer("retries", self.retries, 0)
        self.parallel = None if self.parallel is None else checks.integer("parallel", self.parallel, 1)
        self.seconds = None if self.seconds is None else checks.to_float(self.seconds)
        if self.seconds is not None and not (isinstance(self.seconds, float) and self.seconds > 0):
            checks.refuse("seconds", self.seconds, "a positive number, or None")
        if not callable(self.function):
            checks.refuse("function", self.function, "a function from a point to a number")
        if self.on is not None:
            from scalable_bandits.execution import resolve

            resolve(self.on)  # raises ValueError before a store is created

    def play_recorded(self, store: Any, durability: Durability) -> TuningResult:
        """Start or continue the run of a store."""
        from scalable_bandits.runs.recording import record

        parts = {"function": self.function}
        with record(
            self.policy, store, durability=durability, planned=self.budget, parts=parts, kind="maximize"
        ) as recording:
            return self.play(recording)

    def play(self, recording: Recording | None = None) -> TuningResult:
        """Evaluate from the beginning, or from the last evaluation of a recording."""
        xs: list[Any] = []
        ys: list[float] = []
        if recording is not None:
            before = recording.store.read(names=["x", "y"])
            xs, ys = self.policy.space.arguments(before["x"]), before["y"].tolist()
            self.policy.pending_points.replace(recording.store.pending, reissue=True)
        if self.parallel is None and self.on is None:
            return self._in_turn(xs, ys)
        return self._in_flight(xs, ys, recording)

    def _in_turn(self, xs: list[Any], ys: list[float]) -> TuningResult:
        policy, began = self.policy, time.monotonic()
        with progress_bar(self.progress, type(policy).__name__, self.budget, len(ys)) as advance:
            while len(ys) < self.budget and (self.seconds is None or time.monotonic() < began + self.seconds):
                x = policy.ask()
                y = evaluate(self.function, copy.copy(x), len(ys) + 1)  # it may change x
                policy.tell(x, y)
                xs.append(x)
                ys.append(y)
                advance(1)
        return TuningResult(policy.best(), policy, policy.space.gather(xs), np.array(ys))

    def _in_flight(self, xs: list[Any], ys: list[float], recording: Recording | None) -> TuningResult:
        from scalable_bandits.execution import executing

        policy, log = self.policy, None
        if recording is not None:
            from scalable_bandits.store.tickets import TicketLog

            log = TicketLog(recording.store)
        name = function_name(self.function).rpartition(":")[2].rpartition(".")[2]

        def collect(x: Any, y: float) -> None:
            xs.append(x)
            ys.append(y)

        plan = EvaluationPlan(self.budget, len(ys), self.parallel, self.retries, self.seconds)
        with (
            executing(self.on, self.function, name, threads=self.parallel) as executor,
            progress_bar(self.progress, type(policy).__name__, self.budget, len(ys), executor.dashboard) as advance,
        ):
            loop = EvaluationLoop(policy, executor, name, plan, log=log, on_value=collect, advance=advance)
            loop.run()
        tickets = tuple(loop.tickets[number] for number in sorted(loop.tickets))
        failed = [ticket.error for ticket in tickets if ticket.failures]  # empty if there was no time for any
        if failed and not ys:
            last = (
                loop.trace or f"{failed[-1]}\nThat was in an earlier process; a larger budget would evaluate it again"
            )
            raise RuntimeError(f"function: all {len(tickets)} evaluations failed; the last one:\n{last}")
        return TuningResult(policy.best(), policy, policy.space.gather(xs), np.array(ys), tickets)
