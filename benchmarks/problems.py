"""The problem that all loops play, and the loops of the others: naive, scikit-learn, BoTorch.

Each scores every candidate in every round with fixed hyperparameters, takes the same width, the same noise
and the same rule for ties, and so plays the same points.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

import scalable_bandits as sb
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.randomness import derived_seed

LENGTHSCALE = 0.2
REGULARIZATION = 1.0
DELTA = 0.1


def problem(side: int, dimension: int, seed: int = 0) -> tuple[sb.Grid, sb.Matern, sb.RKHSFunction]:
    """The problem of Janz et al. 2020, section 5: Matern 3/2, uniform noise on [-1, 1]."""
    space, kernel = sb.Grid([[0.0, 1.0]] * dimension, side), sb.Matern(LENGTHSCALE, nu=1.5)
    return space, kernel, sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=seed)


def policy(
    space: sb.Grid, kernel: sb.Matern, function: sb.RKHSFunction, kind: type[Any] = sb.IGPUCB, **options: Any
) -> Any:
    """IGP-UCB, or another, with the exact norm and R = 1."""
    return kind(
        space, kernel, noise=1.0, rkhs_norm=function.rkhs_norm, regularization=REGULARIZATION, delta=DELTA, **options
    )


def partitioned(space: sb.Grid, kernel: sb.Matern, function: sb.RKHSFunction, horizon: int) -> sb.PiGPUCB:
    """pi-GP-UCB with the same settings."""
    return sb.PiGPUCB(
        space, kernel, noise=1.0, rkhs_norm=function.rkhs_norm, regularization=REGULARIZATION, delta=DELTA,
        horizon=horizon,
    )  # fmt: skip


def ours(side: int, dimension: int, horizon: int, **options: Any) -> sb.Trajectory:
    """Play IGP-UCB by `simulate`."""
    space, kernel, function = problem(side, dimension)
    return sb.simulate(policy(space, kernel, function, **options), function, horizon)


class Loop(ABC):
    """A loop around somebody's posterior; subclasses say how mean and std come about."""

    def __init__(self, side: int, dimension: int, seed: int = 0):
        self.space, self.kernel, self.function = problem(side, dimension, seed)
        self.points = self.space.points()
        self.salt = derived_seed(seed, "ties")

    @abstractmethod
    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std at all candidates given observations."""

    def play(self, horizon: int) -> list[int]:
        """Candidates played."""
        return list(itertools.islice(self.rounds(), horizon))

    def rounds(self) -> Iterator[int]:
        """Play without end; yield each round's candidate."""
        values = self.function.table()
        played: list[int] = []
        ys: list[float] = []
        gain = 0.0
        for t in itertools.count(1):
            width = self.function.rkhs_norm + math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / DELTA)))
            if played:
                mean, std = self.posterior(self.points[played], np.array(ys))
            else:
                mean, std = np.zeros(len(self.points)), np.ones(len(self.points))
            candidate, _ = choose(mean + width * std, self.salt)
            gain += 0.5 * math.log1p(float(std[candidate]) ** 2 / REGULARIZATION)
            played.append(candidate)
            ys.append(values[candidate] + self.function.noise_at(t))
            yield candidate


class Naive(Loop):
    """From scratch each round: kernel blocks in numpy, `numpy.linalg.solve`."""

    def block(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Matern 3/2 covariances."""
        a = math.sqrt(3.0) / LENGTHSCALE * np.sqrt(((x[:, None] - z[None]) ** 2).sum(axis=2))
        return (1.0 + a) * np.exp(-a)

    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rasmussen & Williams 2006, eqs. 2.25 and 2.26."""
        cross = self.block(x, self.points)
        solved = np.linalg.solve(self.block(x, x) + REGULARIZATION * np.eye(len(x)), np.column_stack([y, cross]))
        variance = 1.0 - np.einsum("ij,ij->j", cross, solved[:, 1:])
        return cross.T @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))


class ScikitLearn(Loop):
    """`GaussianProcessRegressor`, fitted and evaluated each round."""

    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`predict` at all candidates."""
        from sklearn.gaussian_process import GaussianProcessRegressor, kernels

        kernel = kernels.Matern(LENGTHSCALE, "fixed", nu=1.5)
        model = GaussianProcessRegressor(kernel, alpha=REGULARIZATION, optimizer=None)
        mean, std = model.fit(x, y).predict(self.points, return_std=True)
        return mean, std


class BoTorch(Loop):
    """`SingleTaskGP` with fixed hyperparameters, made and evaluated each round."""

    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`model.posterior` at all candidates, its diagonal only."""
        import gpytorch
        import torch
        from botorch.models import SingleTaskGP

        kernel = gpytorch.kernels.MaternKernel(nu=1.5)
        kernel.lengthscale = LENGTHSCALE
        mean = gpytorch.means.ZeroMean()
        noise = torch.full((len(x), 1), REGULARIZATION, dtype=torch.float64)
        model = SingleTaskGP(
            torch.from_numpy(x), torch.from_numpy(y[:, None]), noise, covar_module=kernel.double(), mean_module=mean,
            outcome_transform=None,
        )  # fmt: skip
        model.eval()
        with torch.no_grad(), gpytorch.settings.skip_posterior_variances(False):
            posterior = model.posterior(torch.from_numpy(self.points))
            return posterior.mean.numpy()[:, 0], posterior.variance.numpy()[:, 0] ** 0.5
