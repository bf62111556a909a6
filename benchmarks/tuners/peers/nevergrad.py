"""NGOpt, the choice among optimisers that Nevergrad recommends."""

from __future__ import annotations

from typing import Any

from benchmarks.tuners.intervals import Parameter, Parameters, Setting
from benchmarks.tuners.peers.base import interval_of, setting_of


class NGOpt:
    """`NGOpt` of a dictionary of parameters, which knows the number of evaluations; recommends what it recommends."""

    requirements = ("nevergrad>=1.0",)
    modules = ("nevergrad",)

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None:
        import nevergrad as ng

        self.parameters = parameters
        space = ng.p.Dict(**{name: self._parameter(each) for name, each in parameters.items()})
        space.random_state.seed(seed % 2**32)
        self.optimizer = ng.optimizers.NGOpt(parametrization=space, budget=budget)

    @staticmethod
    def _parameter(each: Parameter) -> Any:
        import nevergrad as ng

        interval = interval_of(each)
        if interval is None:
            return ng.p.Choice(each)
        low, high, log, whole = interval
        made = ng.p.Log(lower=low, upper=high) if log else ng.p.Scalar(lower=low, upper=high)
        return made.set_integer_casting() if whole else made

    def ask(self) -> Setting:
        self.asked = self.optimizer.ask()
        return setting_of(self.parameters, self.asked.value)

    def tell(self, x: Setting, y: float) -> None:
        self.optimizer.tell(self.asked, y)

    def recommend(self) -> Setting:
        return setting_of(self.parameters, self.optimizer.provide_recommendation().value)
