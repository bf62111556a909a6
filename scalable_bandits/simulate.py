"""Play a policy in an environment, and keep what happened."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.environments.base import TABLE_LIMIT
from scalable_bandits.policies import Policy
from scalable_bandits.spaces import Arms, FiniteSpace, Indices
from scalable_bandits.specification import describe

if TYPE_CHECKING:
    import xarray


@attrs.define(eq=False, slots=False)
class Trajectory:
    """One run. Arrays are over rounds, (T,).

    Attributes
    ----------
    space
        Whose candidates were played.
    first_round
        t of the first row.
    candidate
        Number of the candidate played.
    y, value, regret
        Observation, noise-free value, and optimum minus value, in units of y.
    width, information_gain
        Of the policy as it chose; NaN for a policy without them.
    specification
        Policy and environment, as plain data.
    """

    space: FiniteSpace
    first_round: int
    candidate: Indices
    y: Floats
    value: Floats
    regret: Floats
    width: Floats
    information_gain: Floats
    specification: dict[str, Any]

    @property
    def cumulative_regret(self) -> Floats:
        """Sum of the regret up to each round, (T,)."""
        return np.cumsum(self.regret)

    def dataset(self) -> xarray.Dataset:
        """The run as an xarray dataset over ``round``; attributes hold the specification as JSON."""
        import xarray

        points = self.space.points(self.candidate)
        arms = isinstance(self.space, Arms)
        series = {
            "candidate": self.candidate, "y": self.y, "value": self.value, "regret": self.regret,
            "cumulative_regret": self.cumulative_regret, "width": self.width, "information_gain": self.information_gain,
        }  # fmt: skip
        variables: dict[str, Any] = {name: ("round", values) for name, values in series.items()}
        variables["x"] = ("round", self.candidate) if arms else (("round", "dimension"), points)
        rounds = np.arange(self.first_round, self.first_round + len(self.y))
        attributes = {"specification": json.dumps(self.specification)}
        return xarray.Dataset(variables, coords={"round": rounds}, attrs=attributes)


def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int,
    *,
    available: Callable[[int], ArrayLike] | None = None,
    progress: bool = False,
    store: str | Path | None = None,
) -> Trajectory:
    """Play `horizon` rounds.

    The same trajectory as an `ask`, `observe`, `tell` loop, with the checks of every call done once: what is
    observed is the environment's `evaluate` plus its `noise_at` the round.

    Parameters
    ----------
    policy
        Asked and told. One that was told before goes on from there.
    environment
        Answers, on the policy's space.
    horizon
        T, number of rounds to play.
    available
        From the round t to the availability set X_t (a mask or candidates' numbers); regret is then
        measured against the best of X_t.
    progress
        Show a progress bar.
    store
        Folder of a zarr group to write the run's dataset to; it must not exist yet.

    Raises
    ------
    ValueError
        If the spaces differ, the horizon is not positive, points are pending, availability is asked for on a box, or
        the environment answers what is no finite number (the rounds before it stand).
    FileExistsError
        If the store exists.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 20)
    >>> policy = sb.GPEI(space, sb.RBF(0.2), noise=0.1, regularization=0.01)
    >>> run = sb.simulate(policy, sb.Benchmark("forrester", space, sb.GaussianNoise(0.1)), horizon=30)
    >>> bool(run.regret[-1] < run.regret[0])
    True
    """
    horizon = checks.integer("horizon", horizon, 1)
    if environment.space != policy.space:
        checks.refuse("environment", f"space {environment.space}", f"the policy's space {policy.space}")
    if policy.pending:
        checks.refuse("policy", f"pending points {policy.pending}", "none pending: tell or abandon them first")
    if available is not None and not isinstance(environment.space, FiniteSpace):
        checks.refuse("available", available, "None on a box: what is available of it has no known optimum")
    if store is not None:
        from scalable_bandits.store import check_new

        check_new(store)
    run = _play(policy, environment, horizon, available, progress)
    if store is not None:
        from scalable_bandits.store import save

        save(run.dataset(), store)
    return run


def _values(policy: Policy, environment: Environment) -> Callable[[int], float]:
    """f of a candidate by number: looked up, or evaluated where there is no table."""
    space = policy.finite_space
    if space.size > TABLE_LIMIT or not environment.tabulated:
        return lambda candidate: float(environment.evaluate(space.points([candidate]))[0])
    table = environment.table() if space == environment.space else environment.evaluate(space.points())
    return table.item


def _play(
    policy: Policy,
    environment: Environment,
    horizon: int,
    available: Callable[[int], ArrayLike] | None,
    progress: bool,
) -> Trajectory:
    value_of = _values(policy, environment)
    optimum = environment.optimum()
    first = policy.rounds + 1
    ys, values, regrets, widths, gains = np.empty((5, horizon))
    played = np.empty(horizon, dtype=np.int64)
    rounds: Iterable[int] = range(horizon)
    if progress:
        from rich.progress import track

        rounds = track(rounds, description=type(policy).__name__)
    for i in rounds:
        t = first + i
        given = None if available is None else available(t)
        width, gain = policy.width, policy.information_gain
        candidate = policy.propose(policy.allowed(given))
        value = value_of(candidate)
        y = value + environment.noise_at(t)
        if not math.isfinite(y):
            checks.refuse("environment", f"y = {y} in round {t}", "finite numbers")
        policy.observe(candidate, y)
        best = optimum if given is None else environment.optimum(t, given)
        played[i] = candidate
        ys[i], values[i], regrets[i], widths[i], gains[i] = y, value, best - value, width, gain
    specification = {
        "policy": describe(policy),
        "environment": {
            "type": type(environment).__name__,
            "noise": describe(environment.noise),
            "seed": environment.seed,
        },
        "horizon": horizon,
    }
    return Trajectory(policy.finite_space, first, played, ys, values, regrets, widths, gains, specification)
