"""Find the minimum or the maximum of a user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.policies import GPEI, Policy
from scalable_bandits.runs.evaluating import EvaluationPlan
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.tuning import Tuning
from scalable_bandits.spaces import SearchSpace, Space
from scalable_bandits.spaces.notations import check_whole

if TYPE_CHECKING:
    from scalable_bandits.store import Durability


def minimize(
    function: Callable[[Any], float], space_or_policy: Any, budget: int, *, parallel: int | None = None, on: Any = None,
    retries: int = 0, seconds: float | None = None, timeout: float | None = None, store: Any = None,
    durability: Durability = "round", progress: bool | None = None, callbacks: Any = (), stop: Any = (),
    warm_start: Any = None, seed: int = 0,
) -> TuningResult:  # fmt: skip
    """Find the setting of smallest value: evaluate a function `budget` times, at points that a policy chooses.

    An evaluation that raises, takes too long, or returns no finite number has failed: it counts against the budget, its
    error is kept, its point is avoided, and the run goes on. Ctrl-C ends the run, and returns what was found so far.
    With a store the same call continues a run that ended early, however it ended.

    Parameters
    ----------
    function
        Function from a dict of values by parameter (of other spaces a point (d,); for `Arms` an arm number) to a
        number, in units of y; or a `Command`. Noise is allowed.
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
        Store of the run: a folder; and its
        guarantee: "round" writes every value to disk before the next point is chosen, "block" every second.
    progress
        Whether to show a progress bar. If not given: where standard error is a terminal, and in notebooks.
    callbacks, stop
        Function of a `RunView`, or several, called after each evaluation; and rules that end the run: `RegretBelow`,
        `NoImprovement`, `Deadline`, or any function of a `RunView`, once it is true.
    warm_start
        Earlier observations, beside the budget: a pair of points and values, a table (structured array or DataFrame)
        with a column for each parameter and one of values, or an earlier result.
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
        minimize=True, function=function, policy=policy_for(space_or_policy, seed, True),
        plan=EvaluationPlan(budget, parallel, retries, seconds, timeout), on=on, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start,
    ).play(store, durability)  # fmt: skip


def maximize(
    function: Callable[[Any], float], space_or_policy: Any, budget: int, *, parallel: int | None = None, on: Any = None,
    retries: int = 0, seconds: float | None = None, timeout: float | None = None, store: Any = None,
    durability: Durability = "round", progress: bool | None = None, callbacks: Any = (), stop: Any = (),
    warm_start: Any = None, seed: int = 0,
) -> TuningResult:  # fmt: skip
    """Find the setting of largest value. Arguments, result and errors are those of `minimize`.

    Parameters
    ----------
    function, space_or_policy, budget, parallel, on, retries, seconds, timeout, store, durability, progress
        As in `minimize`. A policy that was made with ``minimize=True`` is refused.
    callbacks, stop, warm_start, seed
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
    return Tuning(
        minimize=False, function=function, policy=policy_for(space_or_policy, seed, False),
        plan=EvaluationPlan(budget, parallel, retries, seconds, timeout), on=on, progress=progress,
        callbacks=callbacks, stop=stop, warm_start=warm_start,
    ).play(store, durability)  # fmt: skip


def policy_for(space_or_policy: Any, seed: int, minimize: bool) -> Policy:
    """Return the policy that was given, or the default one of the space that was given.

    Parameters
    ----------
    space_or_policy
        Policy, space, or dict of parameters by name.
    seed
        Seed of the default policy.
    minimize
        Whether smaller values are better.

    Raises
    ------
    ValueError, TypeError
        If it is none of these, the space is not valid or has no coordinates, or a seed comes with a policy.
    """
    if isinstance(space_or_policy, Policy):
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
    return GPEI(space, seed=checks.integer("seed", seed, 0), minimize=minimize)
