"""The command ``python -m benchmarks search``: `BanditSearchCV` and other tuners on the same cross-validated loss.

Gradient boosting on scikit-learn's digits, six mixed parameters, log loss of three folds. Folds and estimator have
fixed seeds, so that the loss is one function for all; the seeds are the tuners'. Runs are kept as one JSON file each,
and a run that is kept is not played again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import scalable_bandits as sb

SPACE = {
    "learning_rate": sb.Real(0.01, 1.0, log=True),
    "max_iter": sb.Integer(5, 40),
    "max_leaf_nodes": sb.Integer(2, 32, log=True),
    "min_samples_leaf": sb.Integer(1, 100, log=True),
    "l2_regularization": sb.Real(1e-4, 100.0, log=True),
    "class_weight": sb.Categorical([None, "balanced"]),
}
Run = dict[str, Any]


class Loss:
    """Cross-validated log loss of settings, smaller is better; it keeps what it was asked for."""

    def __init__(self) -> None:
        from sklearn.datasets import load_digits
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.model_selection import StratifiedKFold

        self.X, self.y = load_digits(return_X_y=True)
        self.estimator = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
        self.folds = StratifiedKFold(3, shuffle=True, random_state=0)
        self.settings: list[dict[str, Any]] = []
        self.losses: list[float] = []
        self.cpu = 0.0  # of the evaluations

    def __call__(self, **setting: Any) -> float:
        from sklearn.model_selection import cross_val_score

        began = time.process_time()
        estimator = self.estimator.set_params(**setting)
        scores = cross_val_score(estimator, self.X, self.y, cv=self.folds, scoring="neg_log_loss")
        self.cpu += time.process_time() - began
        self.settings.append(setting)
        self.losses.append(-float(scores.mean()))
        return self.losses[-1]


def ours(loss: Loss, evaluations: int, seed: int) -> None:
    """`BanditSearchCV` with its defaults."""
    from scalable_bandits.integrations.sklearn import BanditSearchCV

    class Timed(BanditSearchCV):
        """Search that measures the CPU seconds of its evaluations."""

        def _evaluate(self, *arguments: Any) -> Any:
            began = time.process_time()
            found = super()._evaluate(*arguments)
            loss.cpu += time.process_time() - began
            return found

    search = Timed(
        loss.estimator, SPACE, n_iter=evaluations, scoring="neg_log_loss", cv=loss.folds, refit=False, random_state=seed
    ).fit(loss.X, loss.y)
    loss.settings, loss.losses = search.cv_results_["params"], (-search.cv_results_["mean_test_score"]).tolist()


def _optuna(sampler: str, **keywords: Any) -> Callable[[Loss, int, int], None]:
    def play(loss: Loss, evaluations: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed, **keywords))
        distributions = {name: _distribution(parameter) for name, parameter in SPACE.items()}
        for _ in range(evaluations):
            trial = study.ask(distributions)
            study.tell(trial, loss(**trial.params))

    return play


def _distribution(parameter: Any) -> Any:
    """Return Optuna's distribution of a parameter."""
    import optuna.distributions as to

    if isinstance(parameter, sb.Categorical):
        return to.CategoricalDistribution(parameter.values)
    kind = to.FloatDistribution if isinstance(parameter, sb.Real) else to.IntDistribution
    return kind(parameter.low, parameter.high, log=parameter.log)


def randomly(loss: Loss, evaluations: int, seed: int) -> None:
    """Independent uniform settings."""
    space = sb.SearchSpace(SPACE)
    for point in space.draw(evaluations, np.random.default_rng([seed, 21])):
        loss(**space.setting(point))


TUNERS: dict[str, Callable[[Loss, int, int], None]] = {
    "ours": ours,
    "GPSampler": _optuna("GPSampler"),
    "TPE": _optuna("TPESampler", multivariate=True),
    "TPE, independent": _optuna("TPESampler"),
    "random": randomly,
}


def played(name: str, evaluations: int, seed: int) -> Run:
    """Play one run; CPU seconds are the tuner's own, without those of the evaluations."""
    loss, began = Loss(), time.process_time()
    TUNERS[name](loss, evaluations, seed)
    return {
        "tuner": name, "seed": seed, "settings": loss.settings, "losses": loss.losses,
        "cpu_seconds": time.process_time() - began - loss.cpu, "evaluation_seconds": loss.cpu,
    }  # fmt: skip


def kept(folder: Path | None, name: str, evaluations: int, seed: int) -> Run:
    """Return a run from its file, or play it and write the file."""
    if folder is None:
        return played(name, evaluations, seed)
    path = folder / f"{name.replace(', ', '-')}-{evaluations}-{seed}.json"
    if not path.exists():
        run = played(name, evaluations, seed)
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(run))
        partial.replace(path)
    run: Run = json.loads(path.read_text())
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is not kept yet, and print a row for each tuner."""
    parser = argparse.ArgumentParser("python -m benchmarks search", description=__doc__)
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS), metavar="TUNER")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--runs", type=Path, help="folder of kept runs; they are not kept if it is not given")
    parser.add_argument("--quick", action="store_true", help="four evaluations of one seed")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.evaluations = [0], 4
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported
    warnings.filterwarnings("ignore")  # the peers'
    numba.set_num_threads(1)
    half = max(given.evaluations // 2, 1)
    table = Table("tuner", "best loss, median", "of each seed", f"after {half}, median", "its CPU an evaluation")
    with threadpool_limits(1):
        for name in given.tuners:
            runs = [kept(given.runs, name, given.evaluations, seed) for seed in given.seeds]
            best = [min(run["losses"]) for run in runs]
            early = statistics.median(min(run["losses"][:half]) for run in runs)
            cpu = statistics.median(run["cpu_seconds"] for run in runs) / given.evaluations
            row = f"{statistics.median(best):.5f}", " ".join(f"{each:.5f}" for each in best), f"{early:.5f}"
            table.add_row(name, *row, f"{cpu:.3f} s")
    Console(width=130).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
