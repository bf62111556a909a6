"""Random search."""

from __future__ import annotations

import numpy as np

from benchmarks.tuners.intervals import Interval, Parameters, Setting
from benchmarks.tuners.peers.base import Remembering


class Random(Remembering):
    """Independent uniform settings."""

    requirements = modules = ("numpy",)

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        super().__init__()
        self.parameters, self.rng = parameters, np.random.default_rng([seed, 21])

    def ask(self) -> Setting:
        return {
            name: Interval(*each).spread(float(self.rng.random()))
            if isinstance(each, tuple)
            else each[self.rng.integers(len(each))]
            for name, each in self.parameters.items()
        }
