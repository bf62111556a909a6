"""Regret and time over a long horizon, beside peers: measure `docs/horizon.json` and draw `docs/horizon.png` from it.

``python -m benchmarks.horizon`` measures (three minutes of one core; ``pip install scikit-learn optuna torch
bayesian-optimization`` for the peers) and draws; ``--draw`` draws what was measured, ``--quick`` shows that it runs.

The problem is that of Janz et al. 2020, Table 1, d = 2: 900 arms, a Matern 3/2 kernel, noise uniform on [-1, 1]. Each
seed is another function. Seconds are of processor, on one thread, without compiling and imports. A peer is stopped at a
time limit. scikit-learn's loop plays IGP-UCB with the same kernel and width, so the same points. The other peers are
black boxes with their default settings, except that bayesian-optimization is given the variance of the noise.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks import measure
from benchmarks.problems import ScikitLearn, partitioned, policy, problem

DOCS = Path(__file__).parent.parent / "docs"
RESULT, PICTURE = DOCS / "horizon.json", DOCS / "horizon.png"
BAYES = {"noise": 3**-0.5, "regularization": 1.0 / 3.0}  # the noise as it is: its standard deviation, its variance

Make = Callable[[sb.Grid, sb.Matern, sb.RKHSFunction, int, int], Any]
OURS: dict[str, Make] = {  # space, kernel, function, horizon, seed
    "IGP-UCB": lambda space, kernel, f, horizon, seed: policy(space, kernel, f, seed=seed),
    "pi-GP-UCB": lambda space, kernel, f, horizon, seed: partitioned(space, kernel, f, horizon),
    "GP-UCB, scale=5": lambda space, kernel, f, horizon, seed: sb.GPUCB(space, kernel, **BAYES, scale=5, seed=seed),
}


def optuna(function: sb.RKHSFunction, seed: int) -> Iterator[int]:
    """`GPSampler` with its defaults, on two integer parameters."""
    import optuna as package
    import torch

    torch.set_num_threads(1)
    package.logging.set_verbosity(package.logging.ERROR)
    side = round(function.space.size**0.5)
    study = package.create_study(direction="maximize", sampler=package.samplers.GPSampler(seed=seed))
    for t in itertools.count(1):
        trial = study.ask()
        candidate = trial.suggest_int("i", 0, side - 1) * side + trial.suggest_int("j", 0, side - 1)
        study.tell(trial, float(function.table()[candidate] + function.noise_at(t)))
        yield candidate


def bayesian_optimization(function: sb.RKHSFunction, seed: int) -> Iterator[int]:
    """`BayesianOptimization` with its defaults, but for `alpha`, the noise's variance; on two integer parameters."""
    from bayes_opt import BayesianOptimization

    side = round(function.space.size**0.5)
    bounds = dict.fromkeys(("i", "j"), (0, side - 1, int))
    optimizer = BayesianOptimization(None, bounds, random_state=seed, verbose=0, allow_duplicate_points=True)
    optimizer.set_gp_params(alpha=1.0 / 3.0)
    for t in itertools.count(1):
        found = optimizer.suggest() if t > 1 else {"i": side // 2, "j": side // 2}
        candidate = int(found["i"]) * side + int(found["j"])
        optimizer.register(found, float(function.table()[candidate] + function.noise_at(t)))
        yield candidate


def scikit_learn(function: sb.RKHSFunction, seed: int) -> Iterator[int]:
    """IGP-UCB around `GaussianProcessRegressor` with the function's kernel."""
    return ScikitLearn(round(function.space.size**0.5), 2, seed).rounds()


PEERS = {
    "scikit-learn, IGP-UCB": scikit_learn,
    "Optuna GPSampler": optuna,
    "bayesian-optimization": bayesian_optimization,
}


def marks(horizon: int) -> list[int]:
    """Rounds after which is noted how things are: about twelve a decade."""
    count = round(12 * np.log10(horizon)) + 1
    return sorted({round(t) for t in np.logspace(0.0, np.log10(horizon), count)})


def play_ours(make: Make, side: int, horizon: int, seed: int) -> tuple[list[float], list[float]]:
    """Cumulative regret and seconds at the marks."""
    space, kernel, function = problem(side, 2, seed)
    player, regret, seconds, played = make(space, kernel, function, horizon, seed), [0.0], [0.0], 0
    for mark in marks(horizon):
        started = time.process_time()
        run = sb.simulate(player, function, mark - played)
        seconds.append(seconds[-1] + time.process_time() - started)
        regret.append(regret[-1] + float(run.regret.sum()))
        played = mark
    return regret[1:], seconds[1:]


def play_peer(
    peer: Callable[..., Iterator[int]], side: int, horizon: int, seed: int, limit: float
) -> tuple[list[float], list[float]]:
    """Cumulative regret and seconds at the marks that are reached within the limit."""
    function = problem(side, 2, seed)[2]
    list(itertools.islice(peer(function, seed), 2))  # imports
    losses, found, spent, so_far = function.optimum() - function.table(), peer(function, seed), 0.0, 0.0
    regret, seconds, noted = [], [], set(marks(horizon))
    for t in range(1, horizon + 1):
        started = time.process_time()
        candidate = next(found)
        spent += time.process_time() - started
        so_far += float(losses[candidate])
        if spent > limit:
            break
        if t in noted:
            regret.append(so_far)
            seconds.append(spent)
    return regret, seconds


def curve(side: int, runs: list[tuple[list[float], list[float]]], horizon: int) -> dict[str, Any]:
    """Mean over seeds at the marks that all of them reached: regret as a share of uniform play's, and seconds."""
    reached = min(len(regret) for regret, _ in runs)
    rounds = marks(horizon)[:reached]
    uniform = []
    for seed in range(len(runs)):
        function = problem(side, 2, seed)[2]
        uniform.append(float(function.optimum() - function.table().mean()))
    shares = [np.array(regret[:reached]) / (np.array(rounds) * u) for (regret, _), u in zip(runs, uniform, strict=True)]
    seconds = np.mean([taken[:reached] for _, taken in runs], axis=0)
    error = np.std(shares, axis=0, ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else np.zeros(reached)
    return {
        "rounds": rounds,
        "fraction": np.mean(shares, axis=0).round(5).tolist(),
        "error": error.round(5).tolist(),
        "seconds": seconds.round(5).tolist(),
    }


def measured(
    side: int, horizon: int, seeds: int, limit: float, names: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Play all functions with each of the names; yield name and curve. A peer that is not installed is left out."""
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers'
        sb.warmup()
        for name in names:
            if name in OURS:
                play_ours(OURS[name], side, 30, 0)
                runs = [play_ours(OURS[name], side, horizon, seed) for seed in range(seeds)]
            else:
                try:
                    runs = [play_peer(PEERS[name], side, horizon, seed, limit) for seed in range(seeds)]
                except ModuleNotFoundError as error:
                    print(f"{name}: {error}")
                    continue
            yield name, curve(side, runs, horizon)


def about(seeds: int, limit: float) -> dict[str, Any]:
    """What was measured, with what, and on what."""
    versions = {}
    for package in ("scalable_bandits", "numpy", "scikit-learn", "optuna", "bayesian-optimization", "torch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    size = {"side": 30, "horizon": 100_000, "seeds": seeds, "limit": limit}
    return {**size, "machine": measure.machine(), "versions": versions}


def draw(record: dict[str, Any], picture: Path) -> None:
    """Regret and seconds over rounds."""
    import matplotlib.pyplot as plt

    from scalable_bandits.plots import style

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.3), layout="constrained")
    for number, (name, found) in enumerate(record["curves"].items()):
        ours = name in OURS
        look = {"color": style.COLOURS[number], "linewidth": 2.0, "linestyle": "-" if ours else "--"}
        for ax, key in ((left, "fraction"), (right, "seconds")):
            ax.plot(found["rounds"], found[key], label=name, **look)
            if not ours:  # where the time was up
                ax.plot(found["rounds"][-1], found[key][-1], "x", color=look["color"], markersize=8, mew=2.5)
    for ax in (left, right):
        style.tidy(ax)
        style.logarithmic(ax)
        ax.set_xlim(10, record["horizon"])
        ax.set_xlabel("round")
    left.set_title("regret so far, as a fraction of uniform play's", fontsize=11)
    right.set_title("seconds of one core so far", fontsize=11)
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.suptitle(
        f"{record['side'] ** 2} arms, Matern 3/2 (Janz et al. 2020, Table 1, d = 2), "
        f"mean of {record['seeds']} functions; x: stopped after {record['limit']:.0f} s",
        fontsize=12,
    )
    figure.savefig(picture, dpi=130)
    plt.close(figure)


def table(record: dict[str, Any]) -> list[str]:
    """Rows of Markdown: what each had reached at its end, and at the last round that all the peers reached."""
    peers = [found["rounds"][-1] for name, found in record["curves"].items() if name in PEERS]
    shared = min(peers, default=record["horizon"])
    lines = [f"| | rounds | seconds | regret | regret after {shared:,} rounds |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, found in record["curves"].items():
        at = found["rounds"].index(shared)
        lines.append(
            f"| {name} | {found['rounds'][-1]:,} | {found['seconds'][-1]:.1f} | "
            f"{found['fraction'][-1]:.3f} | {found['fraction'][at]:.2f} |"
        )
    return lines


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.horizon", description=__doc__)
    parser.add_argument("--draw", action="store_true", help="measure nothing: draw what was measured")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is written")
    parser.add_argument("--only", nargs="+", choices=[*OURS, *PEERS], help="measure these, keep the other curves")
    parser.add_argument("--seeds", type=int, default=3, help="number of functions")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of processor for each run of a peer")
    arguments = parser.parse_args()
    names = arguments.only or [*OURS, *PEERS]
    if arguments.quick:
        print("\n".join(table({"horizon": 30, "curves": dict(measured(6, 30, 1, 1.0, names))})))
        return
    if not arguments.draw:
        record = about(arguments.seeds, arguments.limit)
        kept = json.loads(RESULT.read_text())["curves"] if arguments.only and RESULT.exists() else {}
        for name, found in measured(30, record["horizon"], record["seeds"], record["limit"], names):
            kept[name] = found
            curves = {name: kept[name] for name in (*OURS, *PEERS) if name in kept}
            RESULT.write_text(json.dumps({**record, "curves": curves}) + "\n")
    record = json.loads(RESULT.read_text())
    draw(record, PICTURE)
    print("\n".join(table(record)))


if __name__ == "__main__":
    main()
