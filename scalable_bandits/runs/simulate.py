"""Play a policy in an environment, and keep what happened."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.environments.base import TABLE_LIMIT
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.progress import progress_bar
from scalable_bandits.runs.preconditions import check_fresh, check_unrecorded
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.specification import specify

if TYPE_CHECKING:
    from scalable_bandits.store import Durability

Available = Callable[[int], ArrayLike]

BLOCK_ROUNDS, BLOCK_SECONDS = 16_384, 0.25  # between two writes to a store, whichever is reached first


def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int,
    *,
    available: Available | None = None,
    progress: bool = False,
    store: Any = None,
    durability: Durability = "block",
) -> Trajectory:
    """Play `horizon` rounds.

    The same trajectory as an `ask`, `observe`, `tell` loop, with the checks of every call done once: what is
    observed is the environment's `evaluate` plus its `noise_at` the round.

    Parameters
    ----------
    policy
        Asked and told. One that was told before goes on from there; with a store it is to be fresh.
    environment
        Answers, on the policy's space. Where it changes over rounds, the regret is dynamic: against the optimum of
        each round.
    horizon
        T, number of rounds to play; with a store, the number that the run has in the end.
    available
        From the round t to the availability set X_t (a mask or candidates' numbers), of the candidates that the
        environment has in that round; regret is then measured against the best of X_t.
    progress
        Show a progress bar.
    store
        Where the run is kept: a folder, a URL that zarr knows, a zarr store, or an icechunk repository. If it has
        rounds already, the run goes on after them, exactly as if it had never stopped.
    durability
        "block": a crash costs about a second's rounds at the most (which are played again). "round": none.

    Raises
    ------
    ValueError
        If the spaces differ, the horizon is not positive, points are pending, the policy is recorded, availability is
        asked for on a box, or the environment answers what is no finite number (the rounds before it stand).
    SpecificationDiffers
        If the store holds a run of another policy or environment; the message shows the fields that differ.
    StoreLocked
        If another process is writing it.

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
    _check(policy, environment, available)
    play = Play(policy, environment, available)
    if store is not None:
        return _stored(play, horizon, progress, store, durability)
    first = policy.rounds + 1
    with progress_bar(progress, type(policy).__name__, horizon) as advance:
        series = play.rounds(first, horizon, advance=advance)
    series["cumulative_regret"] = np.cumsum(series["regret"])
    return Trajectory(policy.finite_space, first, series, specify(_parts(play))[0])


def _check(policy: Policy, environment: Environment, available: Available | None) -> None:
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    check_unrecorded(policy)
    checks.kind("environment", environment, Environment, "an environment")
    if environment.space != policy.space:
        checks.refuse("environment", f"space {environment.space}", f"the policy's space {policy.space}")
    if policy.pending:
        checks.refuse("policy", f"pending points {policy.pending}", "none pending: tell or abandon them first")
    if available is not None and not callable(available):
        checks.refuse("available", available, "a function from the round to an availability set")
    if available is not None and environment.space.finite is None:
        checks.refuse("available", available, "None on a box: what is available of it has no known optimum")


class Play:
    """A policy in an environment.

    Parameters
    ----------
    policy, environment, available
        As in `simulate`.
    """

    def __init__(self, policy: Policy, environment: Environment, available: Available | None):
        self.policy, self.environment, self.available = policy, environment, available
        self._unrestricted = available is None and type(environment).available is Environment.available
        self._value_of = self._values()
        self._optimum = math.nan if environment.changing else environment.optimum()

    def _values(self) -> Callable[[int, int], float]:
        """f of a candidate by number in a round: looked up, or evaluated where there is no table."""
        policy, environment = self.policy, self.environment
        space = policy.finite_space
        if policy.domain.whole_box:
            return lambda candidate, t: float(environment.evaluate(policy.finite_space.points([candidate]))[0])
        if environment.changing:
            return lambda candidate, t: float(environment.table(t)[candidate])
        if space.size > TABLE_LIMIT or not environment.tabulated:
            return lambda candidate, t: float(environment.evaluate(space.points([candidate]))[0])
        table = environment.table() if space == environment.space else environment.evaluate(space.points())
        return lambda candidate, t: table.item(candidate)

    def given(self, t: int) -> ArrayLike | None:
        """Availability set of round t; None if everything may be played."""
        return self.environment.restricted(None if self.available is None else self.available(t), t)

    def allowed(self, t: int) -> Any:
        """Mask of what may be played in round t; None if everything may."""
        return self.policy.allowed(self.given(t))

    def rounds(
        self, first: int, count: int, seconds: float = math.inf, advance: Callable[[int], None] = lambda _: None,
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Play rounds from t = `first` on: `count` of them, or as many as begin within so many seconds.

        Parameters
        ----------
        keep
            Takes the rounds that were played also where one of them raises.
        """
        policy, environment = self.policy, self.environment
        ys, values, regrets, widths, gains = np.empty((5, count))
        played = np.empty(count, dtype=np.int64)
        done = 0
        stop, moving = time.perf_counter() + seconds, environment.changing

        def columns() -> dict[str, Any]:
            named = {
                "candidate": played, "y": ys, "value": values, "regret": regrets, "width": widths,
                "information_gain": gains,
            }  # fmt: skip
            return {name: array[:done] for name, array in named.items()}

        try:
            for t in range(first, first + count):
                given = None if self._unrestricted else self.given(t)
                candidate = policy.propose(policy.allowed(given))
                width, gain = policy.width, policy.information_gain
                value = self._value_of(candidate, t)
                y = value + environment.noise_at(t)
                if not abs(y) <= LARGEST:  # nor NaN
                    allowed = f"finite numbers, up to {LARGEST:.0e} in size"
                    checks.refuse("environment", f"y = {y} in round {t}", allowed)
                best = environment.optimum(t, given) if moving or given is not None else self._optimum
                policy.observe(candidate, y)
                played[done] = candidate
                ys[done], values[done], regrets[done], widths[done], gains[done] = y, value, best - value, width, gain
                done += 1
                advance(1)
                if time.perf_counter() > stop:
                    break
        except BaseException:
            if keep is not None and done == policy.rounds - first + 1:
                keep(columns())
            raise
        if keep is not None:
            keep(columns())
        return columns()


def _parts(play: Play) -> dict[str, Any]:
    """What makes the run."""
    available = {} if play.available is None else {"available": play.available}
    return {"policy": play.policy, "environment": play.environment, **available}


def _stored(play: Play, horizon: int, progress: bool, place: Any, durability: Durability) -> Trajectory:
    """Play what a store does not have yet."""
    from scalable_bandits.runs import recording
    from scalable_bandits.store import Field, ObservationStore

    policy = play.policy
    check_fresh(policy)
    fields = (*recording.point_fields(policy.space), *(Field(name) for name in SERIES))
    store = recording.open_run(place, "simulate", fields, _parts(play), horizon, durability)
    with store:
        checkpoints = recording.Checkpoints(policy, store)
        started = time.perf_counter()
        recording.replay(policy, store, checkpoints.restore(), play.allowed)
        checkpoints.spent(time.perf_counter() - started)
        total = (
            float(store.read(len(store) - 1, names=["cumulative_regret"])["cumulative_regret"][0])
            if len(store)
            else 0.0
        )

        def keep(columns: dict[str, Any]) -> None:
            nonlocal total
            cumulative = _running_sum(total, columns["regret"])
            x = policy.finite_space.x_of(columns["candidate"])
            store.append({**columns, "x": x, "cumulative_regret": cumulative})
            total = float(cumulative[-1]) if len(cumulative) else total

        with progress_bar(progress, type(policy).__name__, horizon, len(store)) as advance:
            while len(store) < horizon:
                started = time.perf_counter()
                count = 1 if durability == "round" else min(horizon - len(store), BLOCK_ROUNDS)
                play.rounds(len(store) + 1, count, BLOCK_SECONDS, advance, keep)
                checkpoints.spent(time.perf_counter() - started)
        checkpoints.finish()
    return Trajectory(policy.finite_space, 1, ObservationStore.open(place), store.specification)


def _running_sum(start: float, values: Floats) -> Floats:
    """Cumulative sum that goes on from `start`: the numbers are those of one sum over everything."""
    if not start:
        return np.cumsum(values)
    return np.fromiter(itertools.islice(itertools.accumulate(values.tolist(), initial=start), 1, None), np.float64)
