"""Random steps around the best point, whose length and directions are learned from those that gain: (1+1)-CMA-ES.

    x = best + sigma C^(1/2) z with a standard normal z
    after each:  p = (1 - 1/12) p + 1/12 [gain],  sigma = sigma exp((p - 2/11) / (9/11 (1 + d/2)))
    after a gain by a step s, in units of sigma:
        p < 0.44:  c = (1 - cc) c + sqrt(cc (2 - cc)) s,  C = (1 - cv) C + cv c c'
        else:      c = (1 - cc) c,  C = (1 - cv) C + cv (c c' + cc (2 - cc) C)
    with cc = 2 / (d + 2) and cv = 2 / (d^2 + 6)

Source: Igel, Suttorp & Hansen 2006, A computational efficient covariance matrix update and a (1+1)-CMA for evolution
strategies.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.state import StateEntry, Stateful, array, number
from scalable_bandits.randomness import generator

LENGTH = 0.01  # first length of a step, in sides of the space
SHORTEST = 1e-7  # length from which on what is left to be gained is left to the model of the region
TARGET = 2.0 / 11.0  # share of steps with a gain at which their length stays
LEARNING = 1.0 / 12.0  # weight of the last step in that share
OFTEN = 0.44  # share above which steps are too short to learn directions from


class RandomSteps(Stateful):
    """Steps from the best point, in coordinates of the unit cube.

    Parameters
    ----------
    dimension
        Number of coordinates.
    seed
        Seed of the steps.

    Attributes
    ----------
    length : float
        Length of a step in each coordinate at first, sigma, in sides of the space.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("length", float), number("_share", float), array("_path", "(d,)"), array("_covariance", "(d, d)"),
    )  # fmt: skip

    def __init__(self, dimension: int, seed: int):
        self._seed = seed
        self._path, self._covariance = np.empty(dimension), np.empty((dimension, dimension))
        self.begin()

    def begin(self) -> None:
        """Forget what was learned."""
        self.length, self._share = LENGTH, TARGET
        self._path[:], self._covariance[:] = 0.0, np.eye(len(self._path))

    def step(self, counter: int) -> Floats:
        """Return a step (d,), a function of what was learned and of the counter."""
        normal = generator(self._seed, "random step", counter).standard_normal(len(self._path))
        return np.asarray(self.length * (np.linalg.cholesky(self._covariance) @ normal))

    def observe(self, step: Floats, gained: bool) -> None:
        """Learn from a step (d,) that gained or did not."""
        d, length = len(step), self.length
        self._share += LEARNING * (gained - self._share)
        self.length *= math.exp((self._share - TARGET) / ((1.0 - TARGET) * (1.0 + 0.5 * d)))
        if not gained:
            return
        along, rate = 2.0 / (d + 2.0), 2.0 / (d * d + 6.0)
        self._path *= 1.0 - along
        kept = 1.0 - rate
        if self._share < OFTEN:
            self._path += math.sqrt(along * (2.0 - along)) / length * step
        else:
            kept += rate * along * (2.0 - along)
        self._covariance[:] = kept * self._covariance + rate * np.outer(self._path, self._path)
