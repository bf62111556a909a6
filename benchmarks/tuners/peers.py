"""Other packages' tuners with their recommended settings, and random search.

A tuner has `ask`, `tell` (values are minimised) and `recommend`. Lists of numbers are given to all peers as integers,
the positions in the list; lists of strings as categories.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any, ClassVar, Protocol

import numpy as np

from benchmarks.tuners.ours import Ours
from benchmarks.tuners.problems import Parameters, Setting

FIRST = 10  # Sobol points of BoTorch, as many as Optuna's GPSampler has random ones


class Tuner(Protocol):
    """What is asked for settings and told their values."""

    package: ClassVar[str]

    def __init__(self, parameters: Parameters, seed: int) -> None: ...
    def ask(self) -> Setting: ...
    def tell(self, x: Setting, y: float) -> None: ...
    def recommend(self) -> Setting: ...


def is_ordered(values: Any) -> bool:
    """Whether the values of a list are numbers, whose order means something."""
    return not isinstance(values[0], str)


class Random:
    """Independent uniform settings."""

    package = "numpy"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        self.parameters, self.rng = parameters, np.random.default_rng([seed, 21])
        self.told: list[tuple[float, Setting]] = []

    def ask(self) -> Setting:
        return {
            name: float(self.rng.uniform(*each)) if isinstance(each, tuple) else each[self.rng.integers(len(each))]
            for name, each in self.parameters.items()
        }

    def tell(self, x: Setting, y: float) -> None:
        self.told.append((y, x))

    def recommend(self) -> Setting:
        return min(self.told, key=lambda each: each[0])[1]


class _Optuna:
    """A sampler of Optuna in a study in memory."""

    package = "optuna"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        make = optuna.distributions
        self.parameters = parameters
        self.distributions: dict[str, Any] = {
            name: make.FloatDistribution(*each)
            if isinstance(each, tuple)
            else make.IntDistribution(0, len(each) - 1)
            if is_ordered(each)
            else make.CategoricalDistribution(each)
            for name, each in parameters.items()
        }
        self.study = optuna.create_study(direction="minimize", sampler=self.sampler(seed))

    def sampler(self, seed: int) -> Any:
        raise NotImplementedError

    def ask(self) -> Setting:
        self.trial = self.study.ask(self.distributions)
        return self._setting(self.trial.params)

    def tell(self, x: Setting, y: float) -> None:
        self.study.tell(self.trial, y)

    def recommend(self) -> Setting:
        """Return the setting of the best measured trial, which is what a study offers."""
        return self._setting(self.study.best_trial.params)

    def _setting(self, params: dict[str, Any]) -> Setting:
        return {
            name: each[params[name]] if isinstance(each, list) and is_ordered(each) else params[name]
            for name, each in self.parameters.items()
        }


class GPSampler(_Optuna):
    """`GPSampler(seed=seed)`: Matern 5/2, log expected improvement, ten random trials first."""

    def sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.GPSampler(seed=seed)


class TPE(_Optuna):
    """`TPESampler(multivariate=True, seed=seed)`, ten random trials first."""

    def sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.TPESampler(multivariate=True, seed=seed)


class BoTorch:
    """`SingleTaskGP` on standardised values and the unit cube, refitted each time; log noisy expected improvement.

    10 scrambled Sobol points; `optimize_acqf` with 10 restarts of 512 raw samples; where there are lists,
    `optimize_acqf_mixed_alternating` with as many (all categories of the problems here are two, as 0 and 1). The
    recommended setting is the measured one of smallest posterior mean.
    """

    package = "botorch"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        import torch
        from scipy.stats import qmc

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.parameters = parameters
        self.first = list(qmc.Sobol(len(parameters), rng=seed).random(16)[:FIRST])
        self.x: list[list[float]] = []  # in the unit cube
        self.y: list[float] = []  # larger is better

    def ask(self) -> Setting:
        self.asked = self._allowed(self.first.pop(0) if self.first else self._best_index())
        return self._setting(self.asked)

    def tell(self, x: Setting, y: float) -> None:
        self.x.append(self.asked)
        self.y.append(-y)

    def recommend(self) -> Setting:
        import torch

        model = self._model()
        with torch.no_grad():
            mean = model.posterior(torch.tensor(self.x, dtype=torch.double)).mean
        return self._setting(self.x[int(mean.argmax())])

    def _model(self) -> Any:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        y = torch.tensor(self.y, dtype=torch.double)[:, None]
        model = SingleTaskGP(torch.tensor(self.x, dtype=torch.double), y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def _best_index(self) -> np.ndarray:
        import torch
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.optim import optimize_acqf
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        known = torch.tensor(self.x, dtype=torch.double)
        index = qLogNoisyExpectedImprovement(self._model(), X_baseline=known, prune_baseline=True)
        bounds = torch.tensor([[0.0] * known.shape[1], [1.0] * known.shape[1]], dtype=torch.double)
        effort: dict[str, Any] = {"q": 1, "num_restarts": 10, "raw_samples": 512}
        levels = {i: self._levels(each) for i, each in enumerate(self.parameters.values()) if isinstance(each, list)}
        if levels:
            found, _ = optimize_acqf_mixed_alternating(index, bounds, discrete_dims=levels, **effort)
        else:
            found, _ = optimize_acqf(index, bounds, **effort)
        return found[0].numpy()

    def _levels(self, values: list[Any]) -> list[float]:
        return [float(level) for level in np.linspace(0, 1, len(values))]

    def _allowed(self, point: np.ndarray) -> list[float]:
        """Return the point with every list's coordinate at the nearest of its levels."""
        return [
            float(x) if isinstance(each, tuple) else round(float(x) * (len(each) - 1)) / (len(each) - 1)
            for x, each in zip(point, self.parameters.values(), strict=True)
        ]

    def _setting(self, point: list[float]) -> Setting:
        return {
            name: each[0] + x * (each[1] - each[0]) if isinstance(each, tuple) else each[round(x * (len(each) - 1))]
            for x, (name, each) in zip(point, self.parameters.items(), strict=True)
        }


TUNERS: dict[str, Any] = {
    "ours": Ours, "GPSampler": GPSampler, "TPE": TPE, "BoTorch": BoTorch, "random": Random,
}  # fmt: skip
PEERS = ("GPSampler", "TPE", "BoTorch", "random")
NEEDS = {"GPSampler": ("optuna", "torch"), "TPE": ("optuna",), "BoTorch": ("botorch",)}  # modules


def missing(tuner: str) -> str:
    """Return the module that the tuner needs and that is not installed, "" if there is none."""
    return next((module for module in NEEDS.get(tuner, ()) if not importlib.util.find_spec(module)), "")


def version(tuner: str) -> str:
    """Return name and version of the tuner's package."""
    package = TUNERS[tuner].package
    return f"{package} {importlib.metadata.version(package)}"
