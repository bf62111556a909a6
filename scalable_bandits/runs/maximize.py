"""Find the minimum or the maximum of a user's own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scalable_bandits.runs.default_policy import policy_for
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.tuning import TuningRun

if TYPE_CHECKING:
    from scalable_bandits.store import Durability


def minimize(
    function: Callable[[Any], float],
    space_or_policy: Any,
    budget: int,
    *,
    parallel: int | None = None,
    on: Any = None,
    retries: int = 0,
    seconds: float | None = None,
    timeout: float | None = None,
    store: Any = None,
    durability: Durability = "round",
    progress: bool | None = None,
    callbacks: Any = (),
    stop: Any = (),
    warm_start: Any = None,
    seed: int = 0,
) -> TuningResult:
    """Find the setting of smallest value: evaluate a function `budget` times, at points that a policy chooses.

    An evaluation that raises, takes longer than `timeout`, or returns no finite number has failed. It counts against
    the budget, its error is kept, its point is avoided, and the run goes on. Ctrl-C ends the run: what was found so far
    is returned. With a store the same call continues a run that ended early, however it ended.

    Parameters
    ----------
    function
        Function from a dict of values by parameter (of other spaces a point (d,); for `Arms` an arm number) to a
        number, in units of y; or a `Command`. Noise is allowed.
    space_or_policy
        Space, or dict of parameters by name (see `SearchSpace`), which the default policy tunes: expected improvement
        with a kernel that is learned. Or a fresh policy.
    budget
        Number of evaluations; with a store, that of its run in all.
    parallel
        Number of evaluations in flight: when one ends, the next point is asked for, with the others pending. If not
        given, one, or with `on` the number of slots of its workers, which may change.
    on
        Executor of the evaluations: None (this process; with `parallel` on threads), "threads:4" (four threads of this
        process), "local:4" (worker processes), the address of a Dask scheduler, a `distributed.Client`, or a recipe
        file (``cluster/``).
    retries
        Number of times that a failed evaluation is tried again before it counts as failed.
    seconds
        Time after which no evaluation begins; running ones are waited for.
    timeout
        Longest duration of an evaluation, in seconds; then it is ended, and has failed. For worker processes (their
        worker is restarted) and for a `Command`.
    store
        Store of the run: a folder, a URL that zarr can open, a zarr store, or an icechunk repository. A run that is in
        the store already is continued; where evaluations are made one at a time, exactly as if it had never stopped.
    durability
        Guarantee of the store: "round" writes every value to disk before the next point is chosen, "block" may lose the
        values of the last second in a crash.
    progress
        Whether to show a progress bar with the best value so far. If not given: where standard error is a terminal, and
        in notebooks.
    callbacks
        Function, or several, called with a `RunView` after each evaluation; an exception in one ends the run.
    stop
        Rule, or several, that end the run: `RegretBelow`, `NoImprovement`, `Deadline`, or any function of a `RunView`
        that is then true. Evaluations in flight are waited for.
    warm_start
        Earlier observations, which do not count against the budget: a pair of points and values, a table (structured
        array or DataFrame) with a column for each parameter and one of values, or an earlier result.
    seed
        Seed of the default policy.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid; if the policy is not fresh; or if the first evaluation returns something else than a
        number.
    RuntimeError
        If all of the first ten evaluations, or of the budget, failed; if the function fails at every point of the
        space; or if the cluster is unavailable or lost (earlier values are kept).
    SpecificationDiffers
        If the store contains a run of another policy or function; the message lists the differences.
    StoreLocked
        If another process is writing to the store.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = {"rate": sb.Real(1e-4, 1e-1, log=True), "depth": sb.Integer(1, 12)}
    >>> def loss(setting):
    ...     return abs(setting["depth"] - 5) + 100 * abs(setting["rate"] - 0.01)
    >>> found = sb.minimize(loss, space, budget=25)
    >>> found.measured.x["depth"]
    5
    """
    return TuningRun(
        minimize=True, function=function, policy=policy_for(space_or_policy, seed, True), budget=budget,
        parallel=parallel, on=on, retries=retries, seconds=seconds, timeout=timeout, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start,
    ).play(store, durability)  # fmt: skip


def maximize(
    function: Callable[[Any], float],
    space_or_policy: Any,
    budget: int,
    *,
    parallel: int | None = None,
    on: Any = None,
    retries: int = 0,
    seconds: float | None = None,
    timeout: float | None = None,
    store: Any = None,
    durability: Durability = "round",
    progress: bool | None = None,
    callbacks: Any = (),
    stop: Any = (),
    warm_start: Any = None,
    seed: int = 0,
) -> TuningResult:
    """Find the setting of largest value. Arguments, result and errors are those of `minimize`.

    Parameters
    ----------
    function, space_or_policy, budget, parallel, on, retries, seconds, timeout, store, durability, progress, callbacks
        As in `minimize`. A policy that was made with ``minimize=True`` is refused.
    stop, warm_start, seed
        As in `minimize`.

    Raises
    ------
    ValueError, TypeError, RuntimeError, SpecificationDiffers, StoreLocked
        As `minimize` does.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
    >>> found = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), policy, budget=20)
    >>> bool(abs(found.best.x[0] - 0.3) < 0.01)
    True
    """
    return TuningRun(
        minimize=False, function=function, policy=policy_for(space_or_policy, seed, False), budget=budget,
        parallel=parallel, on=on, retries=retries, seconds=seconds, timeout=timeout, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start,
    ).play(store, durability)  # fmt: skip
