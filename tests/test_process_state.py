"""The user's process: every public call leaves it as it was, also while a cluster of this machine lives."""

import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import distributed  # noqa: F401 (sets the levels of its loggers)
import matplotlib as mpl
import matplotlib.pyplot as plt
import numba
import numpy as np
import optuna
import pytest
import threadpoolctl
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import scalable_bandits as sb
from scalable_bandits.integrations.optuna import BanditSampler
from scalable_bandits.integrations.sklearn import BanditSearchCV
from scalable_bandits.report import write_report
from scalable_bandits.runs.resuming import resume
from scalable_bandits.studies import Study

SPACE = {"a": sb.Real(0, 1), "b": sb.Integer(1, 5)}


def state(during: bool = False) -> dict[str, Any]:
    """What a process has one of; during a call without the handler of Ctrl-C, and without the level of Dask's log."""
    loggers = [logging.root, *map(logging.getLogger, ("scalable_bandits", "distributed", "optuna", "matplotlib"))]
    signals = {s: signal.getsignal(s) for s in signal.valid_signals() if not (during and s == signal.SIGINT)}
    found = {
        "environment": dict(os.environ),
        "threads of BLAS": [(pool["filepath"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()],
        "threads of numba": (numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "signals": signals,
        "matplotlib": (dict(mpl.rcParams), mpl.get_backend()),
        "random": (random.getstate(), np.random.get_state()),  # noqa: NPY002
        "floating point": (np.geterr(), np.get_printoptions()),
        "loggers": [(each.level, each.propagate, each.disabled, list(each.handlers)) for each in loggers],
        "folder and path": (os.getcwd(), list(sys.path)),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "hooks": (sys.excepthook, threading.excepthook, sys.displayhook, sys.getrecursionlimit()),
    }
    if not during:
        found["handlers"] = [[handler.level for handler in each.handlers] for each in loggers]
    return found


def check(before: dict[str, Any], during: bool = False) -> None:
    now = state(during)
    for part in now:
        np.testing.assert_equal(now[part], before[part], err_msg=part)


def objective(given: dict[str, Any]) -> float:
    return (given["a"] - 0.3) ** 2 + given["b"]


def simulate(place: Path) -> None:
    grid = sb.Grid([[0, 1]], 9)
    sb.simulate(sb.IGPUCB(grid, sb.RBF(0.3)), sb.TableEnvironment(grid, np.arange(9.0)), 5, store=place)


def tune(place: Path) -> None:
    before = state(during=True)

    def watched(given: dict[str, Any]) -> float:
        check(before, during=True)
        return objective(given)

    sb.minimize(watched, SPACE, 4, store=place)


def record(place: Path) -> None:
    policy = sb.GPEI(sb.SearchSpace(SPACE))
    with sb.record(policy, place):
        policy.tell(policy.ask(), 1.0)


def resumed(place: Path) -> None:
    sb.minimize(objective, SPACE, 3, store=place)
    resume(place, rounds=4, function=f"{__name__}:objective")


def study(place: Path) -> None:
    environment = {"type": "GPSample", "space": sb.Arms(3), "kernel": sb.Covariance(np.eye(3))}
    tables = {"name": "one", "horizon": 5, "replicates": 2, "policies": {"random": {"type": "RandomSearch"}}}
    Study.from_dict({**tables, "environments": {"arms": environment}}).run(store=place)


def pictures(place: Path) -> None:
    found = sb.minimize(objective, SPACE, 4)
    for plot in (sb.plots.history, sb.plots.slices, sb.plots.importance):
        plot(found)
    plt.close("all")


def report(place: Path) -> None:
    sb.minimize(objective, SPACE, 3, store=place)
    write_report(place, place.with_suffix(".html"))


def search(place: Path) -> None:
    tuned = BanditSearchCV(SVC(random_state=0), {"C": sb.Real(0.1, 10, log=True)}, n_iter=3, cv=2)
    tuned.fit(*load_iris(return_X_y=True))


def sampler(place: Path) -> None:
    optimization = optuna.create_study(sampler=BanditSampler(seed=0))
    optimization.optimize(lambda trial: trial.suggest_float("a", 0, 1), n_trials=4)


def workers(place: Path) -> None:
    """While they live, the next function is compiled, by whom it may be; the threads of numba were launched before."""
    before = state(during=True)

    def watch(*_: Any) -> None:
        check(before, during=True)
        assert numba.njit(lambda x: x + 1)(1) == 2

    found = sb.minimize(most_threads, SPACE, 4, on="local:2", callbacks=[watch])
    np.testing.assert_array_equal(found.y, 1.0)  # the threads are limited there


def most_threads(given: dict[str, Any]) -> float:
    """Most threads that a library of this process would use."""
    total(np.ones(3))
    return max(numba.get_num_threads(), *(pool["num_threads"] for pool in threadpoolctl.threadpool_info()))


@numba.njit(parallel=True)
def total(values: np.ndarray) -> float:
    found = 0.0
    for i in numba.prange(values.size):
        found += values[i]
    return found


@pytest.mark.parametrize(
    "call",
    [
        simulate, tune, record, resumed, study, pictures, report, search, sampler,
        pytest.param(workers, marks=pytest.mark.slow),
    ],
)  # fmt: skip
@pytest.mark.sampled(3)
def test_the_process_is_left_as_it_was(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numba has launched threads, after which other numbers of them are refused."""
    monkeypatch.setattr(plt, "show", lambda: None)
    total(np.ones(3))
    before = state()
    call(tmp_path / "run")
    check(before)
