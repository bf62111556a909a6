"""The prior of a model, before hyperparameters are learned, and the type of functions that make engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine

MakeEngine = Callable[[Kernel, Floats, Floats], Engine]  # arguments: kernel, candidates (n, d), prior means (n,)


class ModelPrior(NamedTuple):
    """Prior of a model, before hyperparameters are learned."""

    kernel: Kernel
    mean: Callable[[Floats], Floats]  # prior mean (k,) at points (k, d), in units of y
    constant: float | None = None  # value of a constant mean, in units of y
    direction: int = 1  # -1 if the model's y is the negative of the user's
