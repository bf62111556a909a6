"""Find the maximum of a user's own function."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies import Best, Policy
from scalable_bandits.progress import progress_bar
from scalable_bandits.runs.evaluations import Flight, Ticket, evaluate
from scalable_bandits.runs.preconditions import check_fresh
from scalable_bandits.specification import function_name

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.runs.recording import Recording
    from scalable_bandits.store import Durability


@attrs.frozen(eq=False)
class Maximum:
    """What `maximize` found.

    Attributes
    ----------
    best : Best
        Point of largest posterior mean among those evaluated, with the mean and its standard deviation.
    x
        (n, d) points evaluated, in order; (n,) arm numbers for `Arms`.
    y
        (n,) their values.
    tickets
        Of evaluations in flight (`parallel`): what became of each, in the order in which they were asked for.
    """

    best: Best
    x: np.ndarray
    y: np.ndarray
    tickets: tuple[Ticket, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def failed(self) -> list[Ticket]:
        """Evaluations that failed for good."""
        return [ticket for ticket in self.tickets if ticket.final and ticket.state == "failed"]

    def dataset(self) -> xarray.Dataset:
        """The evaluations as an xarray dataset over ``round``."""
        import xarray

        dimensions = ("round", "dimension")[: self.x.ndim]
        rounds = np.arange(1, len(self.y) + 1)
        return xarray.Dataset({"x": (dimensions, self.x), "y": ("round", self.y)}, coords={"round": rounds})


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
) -> Maximum:
    """Evaluate a function where a policy says, `budget` times.

    Parameters
    ----------
    function
        From a point (d,) (an arm number, for `Arms`) to a number, in units of y; larger is better. It may be noisy.
    policy
        Fresh: neither asked nor told.
    budget
        Evaluations; with a store, those that the run has in the end.
    parallel
        Evaluations in flight: when one returns the next point is asked for, the others pending. If not given: one, or
        with `on` as many as its workers have room for, those that come later too.
    on
        Where they run: None (this process; with `parallel` on threads), "threads:4" (this process, four threads),
        "local:4" (worker processes), the address of a Dask scheduler, a `distributed.Client`, or a recipe file
        (``cluster/``).
    retries
        In flight: how often a failed evaluation (it raised, or returned no finite number) is tried again. If it still
        fails it is given up, as one of the budget; a point where that happens twice in a row is left out from then on.
        Without `parallel` and `on` the first failure is raised.
    seconds
        No evaluation begins after so long; those that run are waited for.
    store
        Where the evaluations are kept: a folder, a URL that zarr knows, a zarr store, or an icechunk repository. If it
        has some already, the run goes on after them, exactly as if it had never stopped.
    durability
        "round": every value is on disk before the next point is chosen. "block": a crash may cost the last second's.
    progress
        Show a progress bar.

    Raises
    ------
    ValueError
        If the budget is not positive, the policy not fresh, or the function returns what is no finite number (the
        evaluations before it stand).
    RuntimeError
        If all evaluations in flight failed, or the cluster cannot be had or is lost (what returned before stands).
    SpecificationDiffers
        If the store holds a run of another policy or function; the message shows the fields that differ.
    StoreLocked
        If another process is writing it.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), policy, budget=20)
    >>> bool(abs(found.best.x[0] - 0.3) < 0.01)
    True
    """
    run = _Run(function, policy, budget, parallel, on, retries, seconds, progress)
    return run.play() if store is None else run.play_on(store, durability)


@attrs.define
class _Run:
    """What `maximize` was asked for."""

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

            resolve(self.on)  # refused before a store is made

    def play_on(self, store: Any, durability: Durability) -> Maximum:
        """Play, and keep it in a store."""
        from scalable_bandits.runs.recording import record

        parts = {"function": self.function}
        with record(
            self.policy, store, durability=durability, planned=self.budget, parts=parts, kind="maximize"
        ) as recording:
            return self.play(recording)

    def play(self, recording: Recording | None = None) -> Maximum:
        """Play on what a store has, or from the beginning."""
        xs: list[Any] = []
        ys: list[float] = []
        if recording is not None:
            before = recording.store.read(names=["x", "y"])
            xs, ys = list(before["x"]), before["y"].tolist()
        if self.parallel is None and self.on is None:
            return self._in_turn(xs, ys)
        return self._in_flight(xs, ys, recording)

    def _in_turn(self, xs: list[Any], ys: list[float]) -> Maximum:
        policy, began = self.policy, time.monotonic()
        with progress_bar(self.progress, type(policy).__name__, self.budget, len(ys)) as advance:
            while len(ys) < self.budget and (self.seconds is None or time.monotonic() < began + self.seconds):
                x = policy.ask()
                y = evaluate(self.function, copy.copy(x), len(ys) + 1)  # which may work in place: x is what was asked
                policy.tell(x, y)
                xs.append(x)
                ys.append(y)
                advance(1)
        return Maximum(policy.best(), np.array(xs), np.array(ys))

    def _in_flight(self, xs: list[Any], ys: list[float], recording: Recording | None) -> Maximum:
        from scalable_bandits.execution import executing

        policy, log = self.policy, None
        if recording is not None:
            from scalable_bandits.store.tickets import TicketLog

            log = TicketLog(recording.store)
            policy.pending_points.replace(recording.store.pending, reissue=True)
        name = function_name(self.function).rpartition(":")[2].rpartition(".")[2]

        def keep(x: Any, y: float) -> None:
            xs.append(x)
            ys.append(y)

        with (
            executing(self.on, self.function, name, threads=self.parallel) as execution,
            progress_bar(self.progress, type(policy).__name__, self.budget, len(ys), execution.dashboard) as advance,
        ):
            flight = Flight(
                policy, execution, name, budget=self.budget, told=len(ys), parallel=self.parallel,
                retries=self.retries, seconds=self.seconds, log=log, keep=keep, advance=advance,
            )  # fmt: skip
            flight.run()
        tickets = tuple(flight.tickets[number] for number in sorted(flight.tickets))
        failed = [ticket.error for ticket in tickets if ticket.failures]  # none: there was no time for any
        if failed and not ys:
            last = flight.trace or f"{failed[-1]}\nThat was before; a larger budget would evaluate it again"
            raise RuntimeError(f"function: all {len(tickets)} evaluations failed; the last one:\n{last}")
        return Maximum(policy.best(), np.array(xs), np.array(ys), tickets)
