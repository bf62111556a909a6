"""Optuna studies: what the sampler costs, its policy and what it does besides, in seconds of processor."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import scalable_bandits as sb
from benchmarks.measure import Line
from scalable_bandits.spaces import SearchSpace

if TYPE_CHECKING:
    import optuna

METHODS = ("infer_relative_search_space", "sample_relative", "sample_independent", "before_trial", "after_trial")


def objective(trial: optuna.Trial) -> float:
    """Six continuous parameters."""
    return sum((trial.suggest_float(f"x{i}", -5, 5) - i / 3) ** 2 for i in range(6))


def seconds_of(sampler: optuna.samplers.BaseSampler, trials: int) -> float:
    """Seconds of processor that a sampler takes for a study in memory."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    taken = 0.0

    def timed(method: Callable[..., object], *arguments: object) -> object:
        nonlocal taken
        started = time.process_time()
        try:
            return method(*arguments)
        finally:
            taken += time.process_time() - started

    for name in METHODS:
        setattr(sampler, name, functools.partial(timed, getattr(sampler, name)))
    optuna.create_study(sampler=sampler).optimize(objective, n_trials=trials)
    return taken


def random_search(space: SearchSpace, seed: int, minimize: bool) -> sb.RandomSearch:
    """Policy that costs next to nothing."""
    return sb.RandomSearch(space, seed=seed, minimize=minimize)


def sampler(quick: bool) -> Iterator[Line]:
    """The default policy, and what the sampler costs without it."""
    from optuna.samplers import TPESampler
    from threadpoolctl import threadpool_limits

    from scalable_bandits.integrations.optuna import BanditSampler

    with threadpool_limits(1):
        for trials, asked in ((20, ""),) if quick else ((500, "< 15 s"), (5000, "< 600 s")):
            ours = seconds_of(BanditSampler(seed=0), trials)
            plain = seconds_of(BanditSampler(policy=random_search, seed=0), trials)
            tpe = seconds_of(TPESampler(seed=0, multivariate=True), trials)
            yield Line(
                f"Optuna, {trials:,} trials, 6 dimensions", f"{ours:.1f} s; with random search {plain:.2f} s",
                f"TPE {tpe:.1f} s", f"{tpe / ours:.1f}x", asked,
            )  # fmt: skip
