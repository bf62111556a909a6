"""Simulation of a policy in an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.environments import Environment
from scalable_bandits.policies import Policy
from scalable_bandits.progress import Advance, progress_bar
from scalable_bandits.runs.evaluations import check_unrecorded
from scalable_bandits.runs.play import LARGEST_BLOCK, Available, Play
from scalable_bandits.runs.thinning import Keep, Thinning, checked, checked_ends, default
from scalable_bandits.runs.trajectory import SERIES, Trajectory
from scalable_bandits.specification import CODED, specify

if TYPE_CHECKING:
    from scalable_bandits.store import Durability


def simulate(
    policy: Policy, environment: Environment, horizon: int, *, available: Available | None = None,
    progress: bool | Advance = False, store: Any = None, durability: Durability = "block", keep: Keep = None,
    ends: Sequence[int] = (),
) -> Trajectory:  # fmt: skip
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
        Number T of rounds to play; with a store, the total number of its run, of which a longer one is returned whole.
    available
        Function from the round t to the availability set X_t (a mask or candidates' numbers). If the environment has
        one too, only candidates in both may be chosen. The regret is then relative to the best of them.
    progress
        Whether to show a progress bar; or a function that takes the number of rounds whenever some are played.
    store
        Store of the run: a folder, a URL that zarr can open, or a zarr store. A run that is in
        the store already is continued exactly as if it had never stopped.
    durability
        Guarantee of the store: "block" may lose the rounds of about the last second in a crash (they are played again),
        "round" loses none.
    keep, ends
        Rounds in the trajectory and the store: "all"; "log", a thousand for every factor of ten; or k for every k-th
        round. The last round and the `ends`, such as shorter horizons, are always kept, and cumulative regrets are
        those of all rounds. Default: "all" up to a million rounds, "log" for more; a run that is continued keeps what
        its store keeps. Between two checkpoints only "all" can be continued if the function is noisy itself, or differs
        at every call.

    Raises
    ------
    ValueError
        If the spaces differ, the horizon is not positive, points are pending, the policy is recorded, `available` is
        given on a box, `keep` is not one of those or not that of the store, the disk has no room for so many rounds, or
        an observation is not a finite number (earlier rounds are kept).
    SpecificationDiffers, StoreLocked, StoreError
        If the store contains a run of another policy or environment; if another process is writing to it; if it has
        some rounds only, and those after the last checkpoint come out otherwise when played again.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 20)
    >>> policy = sb.GPEI(space, sb.RBF(0.2), noise=0.1, regularization=0.01)
    >>> run = sb.simulate(policy, sb.Benchmark("forrester", space, sb.GaussianNoise(0.1)), horizon=30)
    >>> bool(run.regret[-1] < run.regret[0])
    True
    """
    horizon, keep = checks.integer("horizon", horizon, 1, checks.LARGEST_INTEGER), checked(keep)
    kept = checked_ends(ends, horizon)
    _check(policy, environment, available, progress)
    play = Play(policy, environment, available, horizon)
    with play.interrupts:
        if store is None:
            return _in_memory(play, horizon, progress, keep, kept)
        from scalable_bandits.runs.stored_simulation import StoredSimulation  # imports zarr

        return StoredSimulation(play, store, horizon, durability, keep, kept).run(progress)


def _check(policy: Policy, environment: Environment, available: Available | None, progress: bool | Advance) -> None:
    if not callable(progress):
        checks.flag("progress", progress)
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.minimize:
        checks.refuse("policy", "one with minimize=True", "a policy that maximises: regret is defined for these")
    if policy.outputs is not None:
        checks.refuse("policy", "one of several outputs", "a policy that is told numbers")
    check_unrecorded(policy)
    checks.kind("environment", environment, Environment, "an environment")
    if environment.space != policy.space:
        checks.refuse("environment", f"space {environment.space}", f"the policy's space {policy.space}")
    known = environment.space.finite is not None or type(environment).optimum is not Environment.optimum
    if environment.changing and not known:
        allowed = "a finite space, as Grid(bounds, 30), or an environment with an `optimum` of its own"
        checks.refuse("environment", f"one that changes, on {environment.space}", allowed)
    if policy.pending:
        checks.refuse("policy", f"pending points {policy.pending}", "none pending: tell or abandon them first")
    if available is not None and not callable(available):
        checks.refuse("available", available, "a function from the round to an availability set")
    if available is not None and environment.space.finite is None:
        checks.refuse("available", available, "None on a box, where the optimum of an availability set is unknown")


def _in_memory(play: Play, horizon: int, progress: bool | Advance, keep: Keep, ends: Sequence[int]) -> Trajectory:
    """Play all rounds, and keep those in memory that are to be kept."""
    policy, first = play.policy, play.policy.rounds + 1
    last = policy.rounds + horizon
    thinning = Thinning(default(horizon) if keep is None else keep, (*(first - 1 + end for end in ends), last))
    block, pieces = LARGEST_BLOCK, []
    if thinning.complete:
        block = horizon
        try:
            np.empty((len(SERIES) + 1, horizon))  # only address space
        except MemoryError:
            checks.refuse("horizon", horizon, "fewer rounds, keep='log', or a store: so many are too large for memory")
    with progress_bar(progress, type(policy).__name__, horizon) as advance:
        for start in range(first, last + 1, block):
            columns = play.rounds(start, min(block, last + 1 - start), advance=advance)
            pieces.append(thinning.reduce(start, columns))
    series = pieces[0]
    if len(pieces) > 1:
        series = {name: np.concatenate([piece[name] for piece in pieces]) for name in series}
    return Trajectory(policy.domain.numbered, first, series, specify(play.parts, coded=CODED)[0])
