"""BoTorch, with its recommended model and index."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tuners.intervals import Interval, Parameter, Parameters, Setting, is_ordered

FIRST = 10  # Sobol points of BoTorch, as many as Optuna's GPSampler has random ones
SHORT = 20  # values of a range that BoTorch is given one by one


class BoTorch:
    """`SingleTaskGP` on standardised values and the unit cube, refitted each time; log noisy expected improvement.

    10 scrambled Sobol points; `optimize_acqf` with 10 restarts of 512 raw samples; where there are lists or short
    ranges of whole numbers, `optimize_acqf_mixed_alternating` with as many. Two categories are 0 and 1; more are
    `cat_dims`, and the model is `MixedSingleTaskGP`. The recommended setting is the measured one of smallest posterior
    mean.
    """

    requirements = ("botorch>=0.11", "torch>=2.2")
    modules = ("botorch", "torch")

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        import torch
        from scipy.stats import qmc

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.parameters = parameters
        given = list(enumerate(parameters.values()))
        self.categories = {i: len(each) for i, each in given if _has_many_categories(each)}
        self.levels = {i: _levels(each) for i, each in given if i not in self.categories and _is_short(each)}
        first = self.start_size(len(parameters))
        drawn = qmc.Sobol(len(parameters), rng=seed).random_base2((first - 1).bit_length())
        self.first = [self._start(u) for u in drawn[:first]]
        self.x: list[list[float]] = []  # in the unit cube; of more than two categories the position
        self.y: list[float] = []  # larger is better

    @staticmethod
    def start_size(dimension: int) -> int:
        """Return the number of Sobol points of a space of so many parameters."""
        return FIRST

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

    def _model(self, values: list[float] | None = None) -> Any:
        """Return a model of the values, by default of y."""
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        x = torch.tensor(self.x, dtype=torch.double)
        y = torch.tensor(self.y if values is None else values, dtype=torch.double)[:, None]
        if self.categories:
            model = MixedSingleTaskGP(x, y, cat_dims=list(self.categories), outcome_transform=Standardize(m=1))
        else:
            model = SingleTaskGP(x, y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def _index(self, known: Any) -> Any:
        """Return the index that is maximised, given the known points."""
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement

        return qLogNoisyExpectedImprovement(self._model(), X_baseline=known, prune_baseline=True)

    def _best_index(self) -> np.ndarray:
        import torch
        from botorch.optim import optimize_acqf
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        known = torch.tensor(self.x, dtype=torch.double)
        index = self._index(known)
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
