"""TuRBO, as trust-bo has it in numpy."""

from __future__ import annotations

from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers.base import Remembering, intervals_of, setting_at


class TuRBO(Remembering):
    """`TRustBOEngine` with its defaults (Eriksson et al. 2019), one point at a time.

    Lists of numbers are positions; categories are refused.
    """

    requirements = ("trust-bo>=0.3",)
    modules = ("trust_bo",)

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        from trust_bo import Float, TRustBOEngine

        super().__init__()
        self.parameters, self.intervals = parameters, intervals_of(parameters)
        space = [Float(name, 0.0, 1.0) for name in parameters]
        self.engine = TRustBOEngine(space=space, direction="minimize", seed=seed)

    def ask(self) -> Setting:
        (self.asked,) = self.engine.ask(batch_size=1)
        return setting_at([self.asked[name] for name in self.parameters], self.parameters, self.intervals)

    def tell(self, x: Setting, y: float) -> None:
        self.engine.tell([self.asked], [{"value": y, "feasible": True}])
        super().tell(x, y)
