"""Screening: batches of a pool's candidates, measured and told together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies import GPUCB, Policy
from scalable_bandits.runs.evaluations import EvaluationPlan
from scalable_bandits.runs.maximize import Tuning
from scalable_bandits.runs.result import TuningResult, earlier_observations, is_empty
from scalable_bandits.spaces import Pool

if TYPE_CHECKING:
    from scalable_bandits.store import Durability


def screen(
    function: Callable[[Any], float], pool_or_policy: Any, budget: int, *, batch: int, minimize: bool = False,
    parallel: int | None = None, on: Any = None, retries: int = 0, seconds: float | None = None,
    timeout: float | None = None, store: Any = None, durability: Durability = "round", progress: bool | None = None,
    callbacks: Any = (), stop: Any = (), warm_start: Any = None, context: Mapping[str, float] | None = None,
    seed: int = 0,
) -> TuningResult:  # fmt: skip
    """Find the best candidates of a pool: measure `budget` of them, a batch at a time.

    A batch is chosen by one pass over the pool, then all its candidates are measured, then all values are told at once,
    in the order of asking: what is found does not depend on the number of workers. With a store the same call continues
    a run that ended early, however it ended; candidates of an unfinished batch that were measured are not measured
    again. After Ctrl-C, which returns what was found so far, the values of an unfinished batch are told as they are.

    Parameters
    ----------
    function
        Function of a candidate, its label or where there are none its number, that returns a number in units of y; on a
        pool with contexts of a dict.
    pool_or_policy
        Pool, for the default policy: `GPUCB` without a kernel, which measures each candidate once unless the pool has
        ``repeats=True``. Or a fresh policy on one.
    budget
        Number of candidates that are measured; with a store, that of its run in all.
    batch
        Number of candidates that are chosen at once.
    minimize
        Whether the smallest value is looked for.
    parallel
        Number of evaluations at the same time. If not given, one, or with `on` the number of slots of its workers.
    on
        Executor of the evaluations and, with the default policy, of the chunks of the pool: None (this process; with
        `parallel` its threads for the evaluations), "threads:4", "local:4" (worker processes), the address of a Dask
        scheduler, a `distributed.Client`, or a recipe file (``cluster/``).
    retries, seconds, timeout, store, durability, progress, callbacks, stop
        Arguments of `minimize`. Callbacks and rules are called when a batch has ended, for each of its evaluations.
    warm_start
        Earlier measurements, beside the budget: a pair of candidates and values, a table (structured array or
        DataFrame) with a column "candidate", one for each context and one of values, or an earlier result.
    context
        Values of the contexts by name, which a pool with contexts needs, as in `minimize`.
    seed
        Seed of the default policy.

    Returns
    -------
    TuningResult
        Its `table()` has a row for each candidate measured.

    Raises
    ------
    ValueError, TypeError, RuntimeError, SpecificationDiffers, StoreLocked
        If an argument is invalid, all evaluations fail, the cluster is lost, or the store has another run or writer, as
        explained at `minimize`.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import scalable_bandits as sb
    >>> x = np.random.default_rng(0).random((5000, 2))
    >>> pool = sb.Pool.write(f"{tempfile.mkdtemp()}/pool.zarr", x)
    >>> found = sb.screen(lambda number: -abs(x[number] - 0.5).sum(), pool, budget=60, batch=20)
    >>> found.measured.y > -0.05
    True
    """
    if not isinstance(pool_or_policy, Pool | Policy):
        checks.refuse("pool_or_policy", pool_or_policy, "a pool, such as Pool('candidates.zarr'), or a policy on one")
    plan = EvaluationPlan(budget, parallel, retries, seconds, timeout, checks.integer("batch", batch, 1))
    flag = checks.flag("minimize", minimize)
    with ExitStack() as stack:
        if isinstance(pool_or_policy, Policy):
            if seed != 0:
                checks.refuse("seed", seed, "0 with a policy, which has its own")
            policy = pool_or_policy
        else:
            once = attrs.evolve(pool_or_policy, repeats=bool(pool_or_policy.repeats))
            policy = GPUCB(once, seed=checks.integer("seed", seed, 0), minimize=flag, on=on)
            stack.enter_context(policy)  # a cluster that is started for the run ends with it
        if not policy.space.scanned:
            checks.refuse("pool_or_policy", pool_or_policy, "a policy on a pool; minimize and maximize play others")
        earlier = None if warm_start is None or is_empty(warm_start) else earlier_observations(warm_start, policy.space)
        taken = np.empty((0, policy.space.dimension)) if earlier is None else np.unique(earlier.points, axis=0)
        taken = taken if context is None else taken[policy.in_context(taken, context)]
        left = (policy.space.size or 0) - len(taken)
        if plan.budget > left and not policy._may_repeat and (store is None or context is None):
            # With a store the budget is that of all contexts, in each of which a candidate may be measured.
            text = "the number of candidates without earlier measurements" if len(taken) else "the number of candidates"
            checks.refuse("budget", plan.budget, f"at most {left}, {text}, each of which is measured once")
        shared = policy is not pool_or_policy and policy._executor.remote  # one client for chunks and evaluations
        executor = policy._executor.client if shared else on  # type: ignore[attr-defined]
        return Tuning(
            minimize=flag, function=function, policy=policy, plan=plan, on=executor, named_on=on, progress=progress,
            callbacks=callbacks, stop=stop, warm_start=None if earlier is None else (earlier.x, earlier.y),
            context=context,
        ).play(store, durability)  # fmt: skip
