"""Tuners that are told a list of two values, which are both minimised.

Random search uses none of them. GPSampler and BoTorch are played in the environments that `python -m benchmarks tuners
--install GPSampler BoTorch` makes, unless their packages are installed here. Nobody is told a reference point.
"""

from __future__ import annotations

from typing import Any

from benchmarks.tuners import peers
from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers import botorch, optuna

POLICY = "GPEHVI"  # class of the package
OBJECTIVES = ("f1", "f2")


class Ours(peers.Ours):
    """`POLICY(space, objectives=["f1", "f2"], minimize=True, seed=seed)`: nothing else is given."""

    def __init__(self, space: Any, seed: int) -> None:
        super().__init__(space, seed, policy=POLICY, objectives=list(OBJECTIVES), minimize=True)

    def tell(self, x: Setting, y: list[float]) -> None:  # type: ignore[override]
        self.policy.tell(x, dict(zip(OBJECTIVES, y, strict=True)))


class GPSampler(optuna.GPSampler):
    """`GPSampler(seed=seed)`: log expected hypervolume improvement, ten random trials first."""

    objectives = len(OBJECTIVES)


class TPE(optuna.TPE):
    """`TPESampler(multivariate=True, seed=seed)`, ten random trials first."""

    objectives = len(OBJECTIVES)


class NSGA2(optuna._Optuna):
    """`NSGAIISampler(seed=seed)`: Optuna's default population of 50."""

    objectives = len(OBJECTIVES)

    def sampler(self, seed: int) -> Any:
        from optuna import samplers

        return samplers.NSGAIISampler(seed=seed)


class BoTorch(botorch.BoTorch):
    """As with one objective, with a model of each and `qLogNoisyExpectedHypervolumeImprovement`, as in the tutorial.

    2 (d + 1) Sobol points; 128 paths; the reference point is `infer_reference_point` of the points that no other one
    dominates. The values are told without noise, but the models learn one, as with one objective.
    """

    def __init__(self, parameters: Parameters, seed: int, budget: int = 0) -> None:
        super().__init__(parameters, seed, budget)
        self.second: list[float] = []  # second objective, larger is better, as `y` is the first

    @staticmethod
    def start_size(dimension: int) -> int:
        return 2 * (dimension + 1)

    def tell(self, x: Setting, y: list[float]) -> None:  # type: ignore[override]
        super().tell(x, y[0])
        self.second.append(-y[1])

    def _index(self, known: Any) -> Any:
        import torch
        from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
        from botorch.models import ModelListGP
        from botorch.sampling.normal import SobolQMCNormalSampler
        from botorch.utils.multi_objective.hypervolume import infer_reference_point
        from botorch.utils.multi_objective.pareto import is_non_dominated

        values = torch.tensor([self.y, self.second], dtype=torch.double).T
        reference = infer_reference_point(values[is_non_dominated(values)])
        return qLogNoisyExpectedHypervolumeImprovement(
            ModelListGP(self._model(), self._model(self.second)), ref_point=reference, X_baseline=known,
            prune_baseline=True, sampler=SobolQMCNormalSampler(torch.Size([128])),
        )  # fmt: skip


PEERS: dict[str, Any] = {
    "GPSampler": GPSampler, "TPE": TPE, "NSGA-II": NSGA2, "BoTorch": BoTorch, "random": peers.Random,
}  # fmt: skip
