"""Tuners that are told a list of numbers: the value, which is minimised, then constraints, which are to be at most 0.

`FAILING` are those that are told of a failure instead, where a constraint is violated; what they know is in no number.
Random search uses none of them. GPSampler and BoTorch are played in the environments that `python -m benchmarks tuners
--install GPSampler BoTorch` makes, unless their packages are installed here.
"""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.tuners import peers
from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers import botorch, optuna

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


class BoTorch(botorch.BoTorch):
    """As without constraints, with a model of each, and `constraints` of the index (Monte Carlo, 128 paths)."""

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        super().__init__(parameters, seed, budget)
        self.outputs: list[list[float]] = []

    def tell(self, x: Setting, y: list[float]) -> None:  # type: ignore[override]
        super().tell(x, y[0])
        self.outputs.append(y[1:])

    def _index(self, known: Any) -> Any:
        import torch
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.acquisition.objective import GenericMCObjective
        from botorch.models import ModelListGP
        from botorch.sampling.normal import SobolQMCNormalSampler

        others = [self._model(list(column)) for column in zip(*self.outputs, strict=True)]
        return qLogNoisyExpectedImprovement(
            ModelListGP(self._model(), *others), X_baseline=known, prune_baseline=True,
            sampler=SobolQMCNormalSampler(torch.Size([128])),
            objective=GenericMCObjective(lambda z, X=None: z[..., 0]),
            constraints=[functools.partial(_output, j) for j in range(1, 1 + len(others))],
        )  # fmt: skip


def _output(j: int, z: Any) -> Any:
    return z[..., j]


PEERS: dict[str, Any] = {"GPSampler": GPSampler, "TPE": TPE, "BoTorch": BoTorch, "random": peers.Random}


# ---- where a violated constraint is a failure


def has_failed(y: list[float]) -> bool:
    """Return whether a constraint is violated."""
    return any(each > 0.0 for each in y[1:])


class FailingOurs(peers.Ours):
    """`GPEI(space, seed=seed)`, the default tuner."""

    def __init__(self, space: Any, seed: int) -> None:
        super().__init__(space, seed, minimize=True)

    def tell(self, x: Setting, y: list[float]) -> None:  # type: ignore[override]
        if has_failed(y):
            self.policy.tell_failure(x)
        else:
            self.policy.tell(x, y[0])


class _Failing:
    """Tells a study of Optuna of a failed trial."""

    study: Any
    trial: Any

    def tell(self, x: Setting, y: list[float]) -> None:
        from optuna.trial import TrialState

        if has_failed(y):
            self.study.tell(self.trial, state=TrialState.FAIL)
        else:
            self.study.tell(self.trial, y[0])


class FailingGPSampler(_Failing, optuna.GPSampler):  # type: ignore[misc]  # told other things
    """`GPSampler(seed=seed)`."""


class FailingTPE(_Failing, optuna.TPE):  # type: ignore[misc]  # told other things
    """`TPESampler(multivariate=True, seed=seed)`."""


FAILING: dict[str, Any] = {"GPSampler": FailingGPSampler, "TPE": FailingTPE, "random": peers.Random}
