"""Find the maximum of a user's own function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies import Best, Policy
from scalable_bandits.progress import progress_bar

if TYPE_CHECKING:
    import xarray

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
    """

    best: Best
    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

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
    store
        Where the evaluations are kept: a folder, a URL that zarr knows, a zarr store, or an icechunk repository. If it
        has some already, the run goes on after them, exactly as if it had never stopped.
    durability
        "round": every value is on disk before the next point is chosen. "block": a crash may cost the last second's.
    progress
        Show a progress bar.

    Returns
    -------
    Maximum
        Best point, and all evaluations.

    Raises
    ------
    ValueError
        If the budget is not positive, the policy not fresh, or the function returns what is no finite number (the
        evaluations before it stand).
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
    budget = checks.integer("budget", budget, 1)
    if not callable(function):
        checks.refuse("function", function, "a function from a point to a number")
    if policy.rounds or policy.pending:
        checks.refuse("policy", f"one that was told {policy.rounds} rounds", "a fresh one")
    if store is None:
        return _play(function, policy, budget, progress)
    from scalable_bandits.recording import record

    with record(
        policy,
        store,
        durability=durability,
        planned=budget,
        parts={"function": function},
        kind="maximize",
    ) as recording:
        before = recording.store.read(names=["x", "y"])
        return _play(function, policy, budget, progress, list(before["x"]), before["y"].tolist())


def _play(
    function: Callable[[Any], float],
    policy: Policy,
    budget: int,
    progress: bool,
    points: list[Any] | None = None,
    values: list[float] | None = None,
) -> Maximum:
    xs, ys = points or [], values or []
    with progress_bar(progress, type(policy).__name__, budget, len(ys)) as advance:
        while len(ys) < budget:
            x = policy.ask()
            result = function(x)
            y = checks.to_float(result)
            if not isinstance(y, float):
                checks.refuse("function", f"{result!r} at {x}", "a function that returns a number")
            if not math.isfinite(y):
                checks.refuse("function", f"{y} at {x}", "a function that returns finite numbers")
            policy.tell(x, y)
            xs.append(x)
            ys.append(y)
            advance(1)
    return Maximum(policy.best(), np.array(xs), np.array(ys))
