"""SMAC3 (Lindauer et al. 2022)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.tuners.intervals import Parameter, Parameters, Setting
from benchmarks.tuners.peers.base import Remembering, interval_of, setting_of


class SMAC(Remembering):
    """The facade recommended for the kind of space, which knows the number of evaluations.

    `BlackBoxFacade`, a Gaussian process, where all parameters are real; else `HyperparameterOptimizationFacade`, a
    random forest.
    """

    requirements = ("smac>=2.3",)
    modules = ("smac",)

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None:
        from ConfigSpace import ConfigurationSpace
        from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario

        super().__init__()
        self.parameters, self.folder = parameters, tempfile.TemporaryDirectory()
        space = ConfigurationSpace(seed=seed % 2**31)
        space.add([self._parameter(name, each) for name, each in parameters.items()])
        scenario = Scenario(
            space, deterministic=True, n_trials=budget, seed=seed % 2**31, output_directory=Path(self.folder.name)
        )
        real = all(isinstance(each, tuple) and not interval_of(each).whole for each in parameters.values())
        facade = BlackBoxFacade if real else HyperparameterOptimizationFacade
        self.facade = facade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=False)

    @staticmethod
    def _parameter(name: str, each: Parameter) -> Any:
        from ConfigSpace import Categorical, Float, Integer

        interval = interval_of(each)
        if interval is None:
            return Categorical(name, each)
        low, high, log, whole = interval
        if low == high:
            return Categorical(name, [int(low) if whole else low])
        return Integer(name, (int(low), int(high)), log=log) if whole else Float(name, (low, high), log=log)

    def ask(self) -> Setting:
        self.asked = self.facade.ask()
        return setting_of(self.parameters, dict(self.asked.config))

    def tell(self, x: Setting, y: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self.facade.tell(self.asked, TrialValue(cost=y))
        super().tell(x, y)
