"""CMA-ES."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers.base import Remembering, intervals_of, setting_at


class CMAES(Remembering):
    """`CMAEvolutionStrategy` from the middle of the unit cube with a step of a quarter of it.

    Where it ends, it begins again at a random point with twice the population (IPOP, Auger & Hansen 2005). Lists of
    numbers are positions; categories are refused.
    """

    requirements = ("cma>=4.0",)
    modules = ("cma",)

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        super().__init__()
        self.intervals = intervals_of(parameters)
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
        return setting_at(self.asked[len(self.values)], self.parameters, self.intervals)

    def tell(self, x: Setting, y: float) -> None:
        self.values.append(y)
        super().tell(x, y)
