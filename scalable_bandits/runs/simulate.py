"""Simulation of a policy in an environment."""

from __future__ import annotations

import functools
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
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.runs.preconditions import check_fresh, check_unrecorded
from scalable_bandits.runs.thinning import Keep, Kept, kept_rounds
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.runs.write_behind import WriteBehind
from scalable_bandits.spaces import Indices
from scalable_bandits.specification import specify

if TYPE_CHECKING:
    from scalable_bandits.store import Durability, ObservationStore

Available = Callable[[int], ArrayLike]

NUMBERS = ("y", "value", "regret", "width", "information_gain")
# Rounds in the first compiled loop, and in the longest. Loops take 30 to 100 ms, in which Ctrl-C waits.
FIRST_BLOCK, LARGEST_BLOCK, LEAST_SECONDS, MOST_SECONDS = 64, 1_048_576, 0.03, 0.1
BLOCK_ROUNDS, BLOCK_SECONDS = 262_144, 0.25  # at most, between two writes to a store


def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int,
    *,
    available: Available | None = None,
    progress: bool = False,
    store: Any = None,
    durability: Durability = "block",
    keep: Keep = None,
) -> Trajectory:
    """Play `horizon` rounds of a policy in an environment.

    The trajectory is that of a loop over `ask`, `observe` and `tell`, but arguments are checked only once. An
    observation is the environment's `evaluate` plus its `noise_at` the round.

    Parameters
    ----------
    policy
        Policy that plays. It may have observations; with a store it has to be fresh.
    environment
        Environment on the policy's space. If it changes over rounds, the regret is relative to each round's optimum.
    horizon
        Number T of rounds to play; with a store, the total number of its run.
    available
        Function from the round t to the availability set X_t (a mask or candidates' numbers), a part of the
        environment's own in that round; the regret is then relative to the best candidate in X_t.
    progress
        Whether to show a progress bar.
    store
        Store of the run: a folder, a URL that zarr can open, a zarr store, or an icechunk repository. A run that is in
        the store already is continued exactly as if it had never stopped.
    durability
        Guarantee of the store: "block" may lose the rounds of about the last second in a crash (they are played again),
        "round" loses none.
    keep
        Rounds in the trajectory that is returned: "all"; "log", a thousand for every factor of ten; or k for every k-th
        round. The last round is always kept, and cumulative regrets are those of all rounds. Default: all of up to a
        million rounds, "log" for more. A store keeps all rounds.

    Raises
    ------
    ValueError
        If the spaces differ, the horizon is not positive, points are pending, the policy is recorded, `available` is
        given on a box, `keep` is not one of those, the disk has no room for so many rounds, or an observation is not a
        finite number (earlier rounds are kept).
    SpecificationDiffers
        If the store contains a run of another policy or environment; the message lists the differences.
    StoreLocked
        If another process is writing to the store.

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
    kept = kept_rounds(keep, policy.rounds + 1, horizon, store is not None)
    play = Play(policy, environment, available)
    with play.interrupts:
        if store is not None:
            return _stored(play, horizon, progress, store, durability)
        return _in_memory(play, horizon, progress, kept)


def _check(policy: Policy, environment: Environment, available: Available | None) -> None:
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.minimize:
        checks.refuse("policy", "one with minimize=True", "a policy that maximises: regret is defined for these")
    check_unrecorded(policy)
    checks.kind("environment", environment, Environment, "an environment")
    if environment.space != policy.space:
        checks.refuse("environment", f"space {environment.space}", f"the policy's space {policy.space}")
    if policy.pending:
        checks.refuse("policy", f"pending points {policy.pending}", "none pending: tell or abandon them first")
    if available is not None and not callable(available):
        checks.refuse("available", available, "a function from the round to an availability set")
    if available is not None and environment.space.finite is None:
        checks.refuse("available", available, "None on a box, where the optimum of an availability set is unknown")


class Play:
    """Simulation of a policy in an environment, a block of rounds at a time.

    Parameters
    ----------
    policy, environment, available
        Arguments of `simulate`.

    Attributes
    ----------
    interrupts : Interrupts
        Handler of Ctrl-C, which is active while the simulation has entered it.
    """

    def __init__(self, policy: Policy, environment: Environment, available: Available | None):
        self.policy, self.environment, self.available = policy, environment, available
        self.interrupts = Interrupts()
        self._unrestricted = available is None and type(environment).available is Environment.available
        self._table: Floats | None = None  # f at all candidates, where it is the same in all rounds
        self._largest = math.nan  # absolute value in the table
        self._at_once = FIRST_BLOCK  # number of rounds in the next compiled loop
        self._value_of = self._make_value_function()
        self._optimum = math.nan if environment.changing else environment.optimum()

    def _make_value_function(self) -> Callable[[int, int], float]:
        """Return the function from candidate and round to f, by a table where there is one."""
        policy, environment = self.policy, self.environment
        space = policy.finite_space
        if policy.domain.whole_box:
            return lambda candidate, t: float(environment.evaluate(policy.finite_space.points([candidate]))[0])
        if environment.changing:
            return lambda candidate, t: float(environment.table(t)[candidate])
        if space.size > TABLE_LIMIT or not environment.tabulated:
            return lambda candidate, t: float(environment.evaluate(space.points([candidate]))[0])
        table = environment.table() if space == environment.space else environment.evaluate(space.points())
        self._table, self._largest = np.array(table, dtype=np.float64), float(np.abs(table).max())
        return lambda candidate, t: table.item(candidate)

    def given(self, t: int) -> ArrayLike | None:
        """Return the availability set of round t; None if all candidates are available."""
        return self.environment.restricted(None if self.available is None else self.available(t), t)

    def allowed(self, t: int) -> Any:
        """Return the mask of candidates available in round t; None for all."""
        return self.policy.allowed(self.given(t))

    def rounds(
        self, first: int, count: int, seconds: float = math.inf, advance: Callable[[int], None] = lambda _: None,
        on_end: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Play rounds from t = `first` on: `count` of them, or fewer if the time is over; return their columns.

        Parameters
        ----------
        first
            Number t of the first round.
        count
            Number of rounds.
        seconds
            Time after which no round begins.
        advance
            Function that is called with the number of rounds after each block or round, for a progress bar.
        on_end
            Function that is called with the columns at the end, also if a round raises.
        """
        series, stop = Series(count), time.perf_counter() + seconds
        compiled = self._table is not None and self._unrestricted and self.policy.allowed(None) is None
        try:
            while series.done < count:
                before = series.done
                if compiled:
                    with self.interrupts.shield():  # Ctrl-C waits for the end of a block, until all is up to date
                        compiled = self._play_block(first + before, series)
                if not compiled:
                    self._play_round(first + before, series)
                advance(series.done - before)
                if time.perf_counter() > stop:
                    break
        finally:
            if on_end is not None and series.done == self.policy.rounds - first + 1:
                with self.interrupts.shield():
                    on_end(series.columns())
        return series.columns()

    def _play_round(self, t: int, series: Series) -> None:
        """Play round t."""
        policy, environment = self.policy, self.environment
        given = None if self._unrestricted else self.given(t)
        candidate = policy.propose(policy.allowed(given))
        width, gain = policy.width, policy.information_gain
        value = self._value_of(candidate, t)
        y = value + environment.noise_at(t)
        if not abs(y) <= LARGEST:  # also for NaN
            checks.refuse("environment", f"y = {y} in round {t}", f"finite numbers, up to {LARGEST:.0e} in size")
        moving = environment.changing or given is not None
        best = environment.optimum(t, given) if moving else self._optimum
        policy.observe(candidate, y)
        series.add_round(candidate, y, value, best - value, width, gain)

    def _play_block(self, t: int, series: Series) -> bool:
        """Play some rounds from t on in a compiled loop; return whether there is one for them."""
        assert self._table is not None
        started = time.perf_counter()
        noise = self.environment.noise_of(t, min(self._at_once, series.left))
        if not self._largest + np.abs(noise).max() <= LARGEST:  # also for NaN: round by round, up to the one that fails
            return False
        block = self.policy.play(self._table, noise)
        if block is None:
            return False
        values = self._table[block.candidates]
        count, regrets = len(values), self._optimum - values
        series.add(count, block.candidates, block.ys, values, regrets, block.widths, block.gains)
        took = time.perf_counter() - started
        self._at_once = min(2 * self._at_once, LARGEST_BLOCK) if took < LEAST_SECONDS else self._at_once
        if took > MOST_SECONDS:
            self._at_once = max(self._at_once // 2, 1)
        return True


class Series:
    """Columns of the rounds that are being played.

    Parameters
    ----------
    count
        Largest number of rounds.
    """

    def __init__(self, count: int):
        self._columns = {
            "candidate": np.empty(count, dtype=np.int64),
            **dict(zip(NUMBERS, np.empty((5, count)), strict=True)),
        }
        self._arrays = tuple(self._columns.values())
        self.done, self._count = 0, count

    @property
    def left(self) -> int:
        """Number of rounds that there is room for."""
        return self._count - self.done

    def add(self, count: int, *values: Any) -> None:
        """Add rounds, with a value or an array (count,) for each column."""
        for column, value in zip(self._arrays, values, strict=True):
            column[self.done : self.done + count] = value
        self.done += count

    def add_round(self, *values: float) -> None:
        """Add a round, with a value for each column."""
        i = self.done
        played, ys, fs, regrets, widths, gains = self._arrays
        played[i], ys[i], fs[i], regrets[i], widths[i], gains[i] = values
        self.done = i + 1

    def columns(self) -> dict[str, Any]:
        """Return the columns (done,) by name."""
        return {name: column[: self.done] for name, column in self._columns.items()}


def _in_memory(play: Play, horizon: int, progress: bool, kept: Indices | None) -> Trajectory:
    """Play all rounds, and keep those in memory that are to be kept; None for all."""
    policy, first = play.policy, play.policy.rounds + 1
    with progress_bar(progress, type(policy).__name__, horizon) as advance:
        if kept is None:
            series = play.rounds(first, horizon, advance=advance)
            series["cumulative_regret"] = np.cumsum(series["regret"])
        else:
            thinned = Kept(kept)
            for start in range(first, first + horizon, LARGEST_BLOCK):
                thinned.add(start, play.rounds(start, min(LARGEST_BLOCK, first + horizon - start), advance=advance))
            series = thinned.columns()
    return Trajectory(policy.finite_space, first, series, specify(_parts(play))[0], kept)


def _parts(play: Play) -> dict[str, Any]:
    """Return the parts of the run's specification."""
    available = {} if play.available is None else {"available": play.available}
    return {"policy": play.policy, "environment": play.environment, **available}


def _stored(play: Play, horizon: int, progress: bool, place: Any, durability: Durability) -> Trajectory:
    """Play the rounds that a store does not have yet."""
    from scalable_bandits.runs import recording
    from scalable_bandits.runs.checkpointing import Checkpoints
    from scalable_bandits.runs.replaying import replay
    from scalable_bandits.store import Field, ObservationStore

    policy = play.policy
    check_fresh(policy)
    fields = (*recording.point_fields(policy.space), *(Field(name) for name in SERIES))
    store = recording.open_run(place, "simulate", fields, _parts(play), horizon, durability)
    with store:
        checkpoints = Checkpoints(policy, store)
        started = time.perf_counter()
        replay(policy, store, checkpoints.restore(), play.allowed)
        checkpoints.add_work(time.perf_counter() - started)
        append = _appending(play, store)
        with (
            progress_bar(progress, type(policy).__name__, horizon, len(store)) as advance,
            WriteBehind() as behind,
        ):
            done, write = len(store), append
            if durability == "block":
                checkpoints.behind = behind
                write = lambda columns: behind.put(functools.partial(append, columns))  # noqa: E731
            while done < horizon:
                started = time.perf_counter()
                count = 1 if durability == "round" else min(horizon - done, BLOCK_ROUNDS)
                done += len(play.rounds(done + 1, count, BLOCK_SECONDS, advance, write)["y"])
                checkpoints.add_work(time.perf_counter() - started)
        checkpoints.behind = None
        checkpoints.finish()
    return Trajectory(policy.finite_space, 1, ObservationStore.open(place), store.specification)


def _appending(play: Play, store: ObservationStore) -> Callable[[dict[str, Any]], None]:
    """Return the function that appends columns of rounds to a store."""
    last = store.read(len(store) - 1, names=["cumulative_regret"])["cumulative_regret"] if len(store) else np.zeros(1)
    total = float(last[0])

    def append(columns: dict[str, Any]) -> None:
        nonlocal total
        cumulative = np.cumsum(np.append(total, columns["regret"]))[1:]  # rounded as a single sum over all rounds
        x = play.policy.finite_space.x_of(columns["candidate"])
        store.append({**columns, "x": x, "cumulative_regret": cumulative})
        total = float(cumulative[-1]) if len(cumulative) else total

    return append
