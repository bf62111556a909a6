"""HEBO (Cowen-Rivers et al. 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tuners.intervals import Parameter, Parameters, Setting
from benchmarks.tuners.peers.base import Remembering, interval_of, setting_of


class HEBO(Remembering):
    """`HEBO` with its defaults, one suggestion at a time."""

    # What it asks for is old; without bounds pip looks at hundreds of releases.
    requirements = (
        "HEBO==0.3.6", "torch>=2.2", "numpy<1.25", "pandas<2.3", "scipy<1.13", "scikit-learn<1.6", "matplotlib<3.9",
        "contourpy<1.3", "gpytorch<1.13", "linear-operator<0.6", "GPy>=1.13", "cma<4", "catboost<1.2.6",
    )  # fmt: skip
    modules = ("hebo",)

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None:
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO as Optimizer

        super().__init__()
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (it draws from this generator)
        self.parameters = parameters
        space = DesignSpace().parse([{"name": name, **self._parameter(each)} for name, each in parameters.items()])
        self.optimizer = Optimizer(space, scramble_seed=seed % 2**31)

    @staticmethod
    def _parameter(each: Parameter) -> dict[str, Any]:
        interval = interval_of(each)
        if interval is None:
            return {"type": "cat", "categories": each}
        low, high, log, whole = interval
        kind = {(False, False): "num", (True, False): "pow", (False, True): "int", (True, True): "pow_int"}
        return {"type": kind[log, whole], "lb": low, "ub": high}

    def ask(self) -> Setting:
        self.asked = self.optimizer.suggest(n_suggestions=1)
        return setting_of(self.parameters, self.asked.iloc[0].to_dict())

    def tell(self, x: Setting, y: float) -> None:
        self.optimizer.observe(self.asked, np.array([[y]]))
        super().tell(x, y)
