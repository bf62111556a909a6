"""Ax (Olson et al. 2025)."""

from __future__ import annotations

from typing import Any

from benchmarks.tuners.intervals import Parameter, Parameters, Setting
from benchmarks.tuners.peers.base import interval_of, setting_of


class Ax:
    """`Client` with its default generation strategy, one trial at a time; recommends its best parameterisation."""

    requirements = ("ax-platform>=1.0", "torch>=2.2")
    modules = ("ax",)

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None:
        import torch
        from ax.api.client import Client

        torch.set_num_threads(1)
        self.parameters = parameters
        self.client = Client(random_seed=seed % 2**31)
        self.client.configure_experiment([self._parameter(name, each) for name, each in parameters.items()])
        self.client.configure_optimization(objective="-y")

    @staticmethod
    def _parameter(name: str, each: Parameter) -> Any:
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

        interval = interval_of(each)
        if interval is None:
            return ChoiceParameterConfig(name=name, values=each, parameter_type="str")
        low, high, log, whole = interval
        if low == high:
            return ChoiceParameterConfig(name=name, values=[low], parameter_type="int" if whole else "float")
        bounds = (int(low), int(high)) if whole else (low, high)
        kind, scale = "int" if whole else "float", "log" if log else "linear"
        return RangeParameterConfig(name=name, bounds=bounds, parameter_type=kind, scaling=scale)

    def ask(self) -> Setting:
        ((self.number, told),) = self.client.get_next_trials(max_trials=1).items()
        return setting_of(self.parameters, told)

    def tell(self, x: Setting, y: float) -> None:
        self.client.complete_trial(trial_index=self.number, raw_data={"y": y})

    def recommend(self) -> Setting:
        return setting_of(self.parameters, self.client.get_best_parameterization()[0])
