"""Samplers of Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from benchmarks.tuners.intervals import Interval, Parameter, Parameters, Setting, is_ordered


class _Optuna:
    """A sampler of Optuna in a study in memory."""

    requirements: ClassVar[Sequence[str]] = ("optuna>=4.0",)
    modules: ClassVar[Sequence[str]] = ("optuna",)
    objectives: ClassVar[int] = 1  # number of values that are told

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.parameters = parameters
        self.distributions = {name: self._distribution(each) for name, each in parameters.items()}
        sampler = self.sampler(seed % 2**32)  # numpy allows no more
        self.study = optuna.create_study(directions=["minimize"] * self.objectives, sampler=sampler)

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

    requirements = ("optuna>=4.0", "torch>=2.2")
    modules = ("optuna", "torch")

    def sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.GPSampler(seed=seed)


class TPE(_Optuna):
    """`TPESampler(multivariate=True, seed=seed)`, ten random trials first."""

    def sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.TPESampler(multivariate=True, seed=seed)
