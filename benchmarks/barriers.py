"""Regret, barriers, numbers sent and seconds of policies that wait for values often, in batches, or rarely.

Measured for `docs/barriers.md` by ``python -m docs.barriers --play``. Every finished run is kept at once in
`docs/results/barriers.json`, and is not played again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import numpy as np

import scalable_bandits as sb

RESULT = Path(__file__).parent.parent / "docs" / "results" / "barriers.json"
WORKERS = (1, 2, 16, 256)
HORIZONS = (10_000, 100_000, 1_000_000, 10_000_000)
LONG = 100_000  # longest horizon that is played before the runs on workers
SEEDS = {10_000: 5, 100_000: 5, 1_000_000: 3, 10_000_000: 1}
FEWER = {
    ("BBKB", 1_000_000): 1,
    ("BBKB", 10_000_000): 0,
}  # a million rounds of BBKB take minutes, ten times as many hours
PLAYED = ((0.01, 2000), (1.0, 100))  # seconds of an evaluation, and how many of them are played on workers
AGENTS, SHRINKAGE = 4, 1.1
TASKS, REPEATS = 1000, 3  # tasks whose time is measured, and how often

Make = Callable[[sb.RKHSFunction, int, int], Any]  # of a function, a horizon and a seed


def problem(seed: int) -> sb.RKHSFunction:
    """A function on 900 arms, with Gaussian noise of standard deviation 1."""
    space, kernel = sb.Grid([[0, 1]] * 2, 30), sb.Matern(0.2, nu=1.5)
    return sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(1.0), seed=seed)


class BatchSizes:
    """Record of the sizes of a policy's batches, for policies that count them; see `barriers_of`."""

    begun: list[int]  # observations before the first one of each batch

    def note(self, count: int) -> None:
        """Note that so many observations came before a batch."""
        self.__dict__.setdefault("begun", []).append(count)

    def sizes(self, horizon: int) -> np.ndarray:
        """Sizes (b,) of the batches of a run of so many rounds."""
        return np.diff([*self.begun, horizon])


class CountedBBKB(BatchSizes, sb.BBKB):
    """BBKB with the sizes of its batches."""

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Learn an observation, the first of a batch if the last one ended with the one before."""
        if not self._batch:
            self.note(self.rounds)
        super().learn(candidate, y, noise_variance)


class CountedMiniGPUCB(BatchSizes, sb.MiniGPUCB):
    """MiniGP-UCB with the numbers of plays of its choices."""

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        """Learn an observation, perhaps the first one of a choice."""
        before = self.choices
        super().learn(candidate, y, noise_variance)
        if self.choices > before:
            self.note(self.rounds)


def _known(function: sb.RKHSFunction, seed: int) -> dict[str, Any]:
    """Arguments that all policies take: the true norm of f, the true noise."""
    return {
        "space": function.space, "kernel": function.kernel, "noise": 1.0, "regularization": 1.0, "delta": 0.1,
        "rkhs_norm": function.rkhs_norm, "seed": seed,
    }  # fmt: skip


POLICIES: dict[str, Make] = {
    "IGP-UCB": lambda f, horizon, seed: sb.IGPUCB(**_known(f, seed)),
    "pi-GP-UCB": lambda f, horizon, seed: sb.PiGPUCB(**_known(f, seed), horizon=horizon),
    "MiniGP-UCB": lambda f, horizon, seed: CountedMiniGPUCB(**_known(f, seed), shrinkage=SHRINKAGE),
    "BBKB": lambda f, horizon, seed: CountedBBKB(**_known(f, seed)),
    "PhasedElimination": lambda f, horizon, seed: sb.PhasedElimination(
        **_known(f, seed), shrinkage=SHRINKAGE, horizon=horizon
    ),
    "DUETS": lambda f, horizon, seed: sb.DUETS(**_known(f, seed), agents=AGENTS, horizon=horizon),
}


def batch_sizes(policy: Any, horizon: int) -> np.ndarray:
    """Sizes (b,) of the batches that a policy has played: after each it waited for values, and chose again."""
    if isinstance(policy, BatchSizes):
        return policy.sizes(horizon)
    if hasattr(policy, "lengths"):
        return np.array(policy.lengths)
    return np.ones(horizon, dtype=np.int64)


def uniform_regret(function: sb.RKHSFunction, horizon: int) -> float:
    """Expected regret of uniform play."""
    return horizon * float(function.optimum() - function.table().mean())


def run(name: str, horizon: int, seed: int) -> dict[str, Any]:
    """Play a policy in this process; evaluations cost nothing."""
    function = problem(seed)
    sb.simulate(POLICIES[name](function, 300, seed), function, 300)  # so that all is compiled
    policy = POLICIES[name](function, horizon, seed)
    began = time.perf_counter()
    found = sb.simulate(policy, function, horizon)
    seconds = time.perf_counter() - began
    sizes = batch_sizes(policy, horizon)
    return {
        "policy": name, "horizon": horizon, "seed": seed, "regret": float(found.cumulative_regret[-1]),
        "uniform": uniform_regret(function, horizon), "barriers": len(sizes),
        "sent": policy.sent if isinstance(policy, sb.DUETS) else horizon, "seconds": seconds,
        "waves": {str(workers): int(np.ceil(sizes / workers).sum()) for workers in WORKERS},
    }  # fmt: skip


# ---- on workers


class Evaluation:
    """Noisy values of f that take their time.

    Parameters
    ----------
    function
        Function f.
    seconds
        Time that an evaluation takes.
    """

    def __init__(self, function: sb.RKHSFunction, seconds: float):
        self.function, self.seconds = function, seconds

    def __call__(self, x: np.ndarray) -> float:
        time.sleep(self.seconds)
        return float(self.function.mean(x) + np.random.default_rng().standard_normal())


def maximize(name: str, seconds: float, horizon: int, workers: int, parallel: int) -> dict[str, Any]:
    """Play a policy on the workers of a new cluster, with so many evaluations in flight."""
    function = problem(0)
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        warm = sb.RandomSearch(function.space, seed=1)
        sb.maximize(Evaluation(function, 0.0), warm, 20 * workers, parallel=4 * workers, on=client, progress=False)
        make = POLICIES.get(name, lambda f, horizon, seed: sb.RandomSearch(f.space, seed=seed))
        policy = make(function, horizon, 0)
        began = time.perf_counter()
        found = sb.maximize(
            Evaluation(function, seconds), policy, horizon, parallel=parallel, on=client, progress=False
        )
        took = time.perf_counter() - began
    regret = float(np.sum(function.optimum() - function.mean(found.x)))
    return {
        "policy": name, "evaluation": seconds, "horizon": horizon, "workers": workers, "parallel": parallel,
        "seconds": took, "regret": regret, "uniform": uniform_regret(function, horizon),
    }  # fmt: skip


def on_workers() -> Iterator[tuple[Any, ...]]:
    """Arguments of `maximize`: tasks that cost nothing, then elimination and IGP-UCB on one and two workers."""
    for _ in range(REPEATS):
        yield from (("random", 0.0, TASKS, 1, 1), ("random", 0.0, TASKS, 2, 8))
    for seconds, horizon in PLAYED:
        for workers in (1, 2):
            yield "PhasedElimination", seconds, horizon, workers, 4 * workers
            yield "IGP-UCB", seconds, horizon, workers, 1
            yield "IGP-UCB", seconds, horizon, workers, 4 * workers


# ---- what is kept


def load() -> dict[str, Any]:
    """Kept results."""
    return json.loads(RESULT.read_text()) if RESULT.is_file() else {"runs": [], "on_workers": []}


def save(record: dict[str, Any]) -> None:
    """Keep results, a line for each run."""
    parts = [f'"version": {json.dumps(sb.__version__)}']
    for name in ("runs", "on_workers"):
        rows = ",\n".join(f"  {json.dumps(row)}" for row in record[name])
        parts.append(f'"{name}": [\n{rows}\n ]')
    part = RESULT.with_suffix(".part")
    part.write_text("{\n " + ",\n ".join(parts) + "\n}\n")
    part.replace(RESULT)


def missing(record: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What is to be played, the shortest first: the kind of run, and its arguments."""
    kept = {(row["policy"], row["horizon"], row["seed"]) for row in record["runs"]}
    short = {horizon: 1 for _, horizon in PLAYED}  # for the cost model of what is played on workers
    runs = [
        (name, horizon, seed)
        for horizon, seeds in {**SEEDS, **short}.items()
        for name in POLICIES
        for seed in range(FEWER.get((name, horizon), seeds))
    ]
    runs.sort(key=lambda each: each[1] * (20 if each[0] == "BBKB" else 1))  # its rounds take longer
    yield from (("runs", each) for each in runs if each not in kept and each[1] <= LONG)
    names = ("policy", "evaluation", "horizon", "workers", "parallel")
    there = Counter(tuple(row[name] for name in names) for row in record["on_workers"])
    for arguments in on_workers():
        if there[arguments]:
            there[arguments] -= 1
        else:
            yield "on_workers", arguments
    yield from (("runs", each) for each in runs if each not in kept and each[1] > LONG)


def play() -> None:
    """Play what is missing, and keep each run when it has ended."""
    for kind, arguments in list(missing(load())):
        keep(kind, arguments)


def keep(kind: str, arguments: tuple[Any, ...]) -> None:
    """Play a run and keep it."""
    found = {"runs": run, "on_workers": maximize}[kind](*arguments)
    record = load()
    record[kind].append(found)
    save(record)
    print(f"{kind} {arguments}: {found['seconds']:.4g} s", flush=True)
