"""Other packages' tuners with their recommended settings, and random search.

A tuner has `ask`, `tell` (values are minimised) and `recommend`. Lists of numbers are given to all peers as integers,
the positions in the list; whole numbers of an interval as integers, lists of strings as categories.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from benchmarks.tuners.ours import Ours
from benchmarks.tuners.spaces import Interval, Parameter, Parameters, Setting, is_ordered

FIRST = 10  # Sobol points of BoTorch, as many as Optuna's GPSampler has random ones
SHORT = 20  # values of a range that BoTorch is given one by one


class NotItsKind(ValueError):
    """A tuner does not take parameters of some kind."""


class Tuner(Protocol):
    """What is asked for settings and told their values."""

    package: ClassVar[str]

    def __init__(self, parameters: Parameters, seed: int) -> None: ...
    def ask(self) -> Setting: ...
    def tell(self, x: Setting, y: float) -> None: ...
    def recommend(self) -> Setting: ...


class _Remembering:
    """What recommends the best measured setting."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Setting]] = []

    def tell(self, x: Setting, y: float) -> None:
        self.told.append((y, x))

    def recommend(self) -> Setting:
        return min(self.told, key=lambda each: each[0])[1]


class Random(_Remembering):
    """Independent uniform settings."""

    package = "numpy"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        super().__init__()
        self.parameters, self.rng = parameters, np.random.default_rng([seed, 21])

    def ask(self) -> Setting:
        return {
            name: Interval(*each).spread(float(self.rng.random()))
            if isinstance(each, tuple)
            else each[self.rng.integers(len(each))]
            for name, each in self.parameters.items()
        }


class _Optuna:
    """A sampler of Optuna in a study in memory."""

    package = "optuna"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.parameters = parameters
        self.distributions = {name: self._distribution(each) for name, each in parameters.items()}
        self.study = optuna.create_study(
            direction="minimize", sampler=self.sampler(seed % 2**32)
        )  # numpy allows no more

    @staticmethod
    def _distribution(each: Parameter) -> Any:
        from optuna import distributions

        if isinstance(each, tuple):
            low, high, log, whole = Interval(*each)
            kind = distributions.IntDistribution if whole else distributions.FloatDistribution
            return kind(low, high, log=log)
        if is_ordered(each):
            return distributions.IntDistribution(0, len(each) - 1)
        return distributions.CategoricalDistribution(each)

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

    10 scrambled Sobol points; `optimize_acqf` with 10 restarts of 512 raw samples; where there are lists or short
    ranges of whole numbers, `optimize_acqf_mixed_alternating` with as many. Two categories are 0 and 1; more are
    `cat_dims`, and the model is `MixedSingleTaskGP`. The recommended setting is the measured one of smallest posterior
    mean.
    """

    package = "botorch"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        import torch
        from scipy.stats import qmc

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.parameters = parameters
        given = list(enumerate(parameters.values()))
        self.categories = {i: len(each) for i, each in given if _has_many_categories(each)}
        self.levels = {i: _levels(each) for i, each in given if i not in self.categories and _is_short(each)}
        self.first = [self._start(u) for u in qmc.Sobol(len(parameters), rng=seed).random(16)[:FIRST]]
        self.x: list[list[float]] = []  # in the unit cube; of more than two categories the position
        self.y: list[float] = []  # larger is better

    def ask(self) -> Setting:
        self.asked = self._allowed(self.first.pop(0) if self.first else self._best_index())
        return self._setting(self.asked)

    def tell(self, x: Setting, y: float) -> None:
        self.x.append(self.asked)
        self.y.append(-y)

    def recommend(self) -> Setting:
        import torch

        with torch.random.fork_rng(devices=[]), torch.no_grad():
            with torch.enable_grad():
                model = self._model()
            mean = model.posterior(torch.tensor(self.x, dtype=torch.double)).mean
        return self._setting(self.x[int(mean.argmax())])

    def _model(self) -> Any:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        x, y = torch.tensor(self.x, dtype=torch.double), torch.tensor(self.y, dtype=torch.double)[:, None]
        if self.categories:
            model = MixedSingleTaskGP(x, y, cat_dims=list(self.categories), outcome_transform=Standardize(m=1))
        else:
            model = SingleTaskGP(x, y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def _best_index(self) -> np.ndarray:
        import torch
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.optim import optimize_acqf
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        known = torch.tensor(self.x, dtype=torch.double)
        index = qLogNoisyExpectedImprovement(self._model(), X_baseline=known, prune_baseline=True)
        highest = [self.levels.get(i, [self.categories.get(i, 2) - 1.0])[-1] for i in range(known.shape[1])]
        bounds = torch.tensor([[0.0] * known.shape[1], highest], dtype=torch.double)
        effort: dict[str, Any] = {"q": 1, "num_restarts": 10, "raw_samples": 512}
        if self.levels or self.categories:
            places = {i: [float(k) for k in range(count)] for i, count in self.categories.items()}
            found, _ = optimize_acqf_mixed_alternating(
                index, bounds, discrete_dims=self.levels, cat_dims=places, **effort
            )
        else:
            found, _ = optimize_acqf(index, bounds, **effort)
        return found[0].numpy()

    def _start(self, u: np.ndarray) -> np.ndarray:
        """Return a point of the unit cube with the positions of categories in the place of their coordinates."""
        return np.array([int(x * self.categories[i]) if i in self.categories else x for i, x in enumerate(u)])

    def _allowed(self, point: np.ndarray) -> list[float]:
        """Return the point with every coordinate at the nearest allowed one."""
        found = []
        for i, (x, each) in enumerate(zip(map(float, point), self.parameters.values(), strict=True)):
            if isinstance(each, tuple):
                interval = Interval(*each)
                found.append(interval.place(interval.at(x)) if interval.whole else x)
            else:
                last = 1 if i in self.categories else max(len(each) - 1, 1)
                found.append(round(x * last) / last)
        return found

    def _setting(self, point: list[float]) -> Setting:
        found: Setting = {}
        for i, (x, (name, each)) in enumerate(zip(point, self.parameters.items(), strict=True)):
            if isinstance(each, tuple):
                found[name] = Interval(*each).at(x)
            else:
                found[name] = each[round(x if i in self.categories else x * (len(each) - 1))]
        return found


class CMAES(_Remembering):
    """`CMAEvolutionStrategy` from the middle of the unit cube with a step of a quarter of it.

    Where it ends, it begins again at a random point with twice the population (IPOP, Auger & Hansen 2005). Lists of
    numbers are positions; categories are refused.
    """

    package = "cma"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        super().__init__()
        self.intervals = _intervals(parameters)
        self.parameters, self.restarts = parameters, 0
        self.rng = np.random.default_rng([seed, 23])
        self.strategy = self._strategy(np.full(len(parameters), 0.5))
        self.asked: list[np.ndarray] = []
        self.values: list[float] = []

    def _strategy(self, start: np.ndarray) -> Any:
        import cma

        draw = self.rng.standard_normal  # not from numpy's global generator, which others use too
        options = {"bounds": [0, 1], "verbose": -9, "verb_log": 0, "seed": np.nan, "randn": lambda *shape: draw(shape)}
        if self.restarts:
            options["popsize"] = self.strategy.popsize * 2
        return cma.CMAEvolutionStrategy(start, 0.25, options)

    def ask(self) -> Setting:
        if len(self.values) == len(self.asked):
            if self.asked:
                self.strategy.tell(self.asked, self.values)
            if self.strategy.stop():
                self.restarts += 1
                self.strategy = self._strategy(self.rng.random(len(self.parameters)))
            self.asked, self.values = self.strategy.ask(), []
        return _setting_at(self.asked[len(self.values)], self.parameters, self.intervals)

    def tell(self, x: Setting, y: float) -> None:
        self.values.append(y)
        super().tell(x, y)


class TuRBO(_Remembering):
    """`TRustBOEngine` with its defaults (Eriksson et al. 2019), one point at a time.

    Lists of numbers are positions; categories are refused.
    """

    package = "trust-bo"

    def __init__(self, parameters: Parameters, seed: int) -> None:
        from trust_bo import Float, TRustBOEngine

        super().__init__()
        self.parameters, self.intervals = parameters, _intervals(parameters)
        space = [Float(name, 0.0, 1.0) for name in parameters]
        self.engine = TRustBOEngine(space=space, direction="minimize", seed=seed)

    def ask(self) -> Setting:
        (self.asked,) = self.engine.ask(batch_size=1)
        return _setting_at([self.asked[name] for name in self.parameters], self.parameters, self.intervals)

    def tell(self, x: Setting, y: float) -> None:
        self.engine.tell([self.asked], [{"value": y, "feasible": True}])
        super().tell(x, y)


def _intervals(parameters: Parameters) -> list[Interval]:
    """Return the intervals of parameters, of a list of numbers those of its positions."""
    found = []
    for name, each in parameters.items():
        if isinstance(each, list) and not is_ordered(each):
            raise NotItsKind(f"{name}: got categories; allowed: intervals and lists of numbers")
        found.append(Interval(*each) if isinstance(each, tuple) else Interval(0, len(each) - 1, whole=True))
    return found


def _setting_at(u: Sequence[float], parameters: Parameters, intervals: Sequence[Interval]) -> Setting:
    """Return the setting at a point of the unit cube."""
    found = {}
    for x, interval, (name, each) in zip(u, intervals, parameters.items(), strict=True):
        value = interval.at(min(max(float(x), 0.0), 1.0))
        found[name] = value if isinstance(each, tuple) else each[int(value)]
    return found


def _has_many_categories(each: Parameter) -> bool:
    return isinstance(each, list) and not is_ordered(each) and len(each) > 2


def _is_short(each: Parameter) -> bool:
    """Whether BoTorch is given the values one by one."""
    if isinstance(each, list):
        return True
    low, high, _, whole = Interval(*each)
    return whole and high - low < SHORT


def _levels(each: Parameter) -> list[float]:
    """Return the coordinates of the values of a list or a short range."""
    if isinstance(each, list):
        return [float(level) for level in np.linspace(0, 1, len(each))]
    interval = Interval(*each)
    return [interval.place(value) for value in range(int(interval.low), int(interval.high) + 1)]


TUNERS: dict[str, Any] = {
    "ours": Ours, "GPSampler": GPSampler, "TPE": TPE, "BoTorch": BoTorch, "CMA-ES": CMAES, "TuRBO": TuRBO,
    "random": Random,
}  # fmt: skip
PEERS = ("GPSampler", "TPE", "BoTorch", "CMA-ES", "TuRBO", "random")
NEEDS = {"GPSampler": ("optuna", "torch"), "TPE": ("optuna",), "BoTorch": ("botorch",), "CMA-ES": ("cma",),
         "TuRBO": ("trust_bo",)}  # modules  # fmt: skip


def missing(tuner: str) -> str:
    """Return the module that the tuner needs and that is not installed, "" if there is none."""
    return next((module for module in NEEDS.get(tuner, ()) if not importlib.util.find_spec(module)), "")


def version(tuner: str) -> str:
    """Return name and version of the tuner's package."""
    package = TUNERS[tuner].package
    return f"{package} {importlib.metadata.version(package)}"
