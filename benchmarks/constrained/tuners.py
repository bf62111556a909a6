"""Tuners that are told a list of numbers: the value, which is minimised, then constraints, which are to be at most 0.

Random search uses none of them. GPSampler is played in the environment that `python -m benchmarks tuners --install
GPSampler` makes, unless its packages are installed here.
"""

from __future__ import annotations

import atexit
import os
import subprocess
from typing import Any

from benchmarks.tuners import peers
from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers import apart, optuna

POLICY = "ConstrainedGPEI"  # class of the package
CONSTRAINTS = "constraints"  # attribute of a trial


class Ours(peers.Ours):
    """`POLICY(space, constraints=...)`: nothing else is given but the names of the outputs, and the seed."""

    def __init__(self, space: Any, seed: int, limits: dict[str, Any]) -> None:
        self._names = ("f", *limits)
        super().__init__(space, seed, policy=POLICY, constraints=limits, objective="f", minimize=True)

    def tell(self, x: Setting, y: list[float]) -> None:  # type: ignore[override]
        self.policy.tell(x, dict(zip(self._names, y, strict=True)))


class _Constrained:
    """Keeps the constraints of a trial where a sampler of Optuna looks for them."""

    study: Any
    trial: Any

    def tell(self, x: Setting, y: list[float]) -> None:
        self.trial.set_user_attr(CONSTRAINTS, y[1:])
        self.study.tell(self.trial, y[0])


def _constraints(trial: Any) -> list[float]:
    """Return the constraints of a trial."""
    return list(trial.user_attrs[CONSTRAINTS])


class GPSampler(_Constrained, optuna.GPSampler):  # type: ignore[misc]  # told other things
    """`GPSampler(constraints_func=..., seed=seed)`."""

    def sampler(self, seed: int) -> Any:
        from optuna import samplers

        return samplers.GPSampler(constraints_func=_constraints, seed=seed)


class TPE(_Constrained, optuna.TPE):  # type: ignore[misc]  # told other things
    """`TPESampler(multivariate=True, constraints_func=..., seed=seed)`."""

    def sampler(self, seed: int) -> Any:
        from optuna import samplers

        return samplers.TPESampler(multivariate=True, constraints_func=_constraints, seed=seed)


PEERS: dict[str, Any] = {"GPSampler": GPSampler, "TPE": TPE, "random": peers.Random}


class Process(apart.Process):
    """Process of a tuner's environment, which has the tuners of this module."""

    def __init__(self, tuner: str) -> None:
        self.tuner, self.cpu_seconds = tuner, 0.0
        variables = {**os.environ, **dict.fromkeys(apart.THREADS, "1"), "PYTHONPATH": str(apart.ROOT)}
        self._process = subprocess.Popen(
            [str(apart.python_of(tuner)), "-m", "benchmarks.constrained.server"], env=variables, cwd=apart.ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip
        atexit.register(self.end)
        self.version = self.asked("hello", tuner)


def make(tuner: str, parameters: Parameters, seed: int, budget: int) -> Any:
    """Make a tuner of another package, here or in its own environment."""
    if peers.is_here(tuner):
        return PEERS[tuner](parameters, seed, budget)
    if all(each.tuner != tuner or each.ended for each in apart._STARTED):
        apart._STARTED.append(Process(tuner))  # its CPU time counts
    return apart.Apart(apart.process_of(tuner), parameters, seed, budget)
