"""Random features of the kernels of pools, whose means of products are the kernel: E[phi_j(x) phi_j(z)] = k(x, z).

| kernel | feature | source |
| --- | --- | --- |
| `Tanimoto` | a random sign of the bit of smallest random priority | Broder 1997; Tripp et al. 2023, section 3 |
| `MinMax` | a random sign of a consistent weighted sample | Ioffe 2010; Tripp et al. 2023 |
| stationary | sqrt(2) cos(w'x + b), frequency w from the spectral measure, b uniform | Rahimi & Recht 2007 |
| multiple, product | the root of the factor; the product of independent features | |
| sum | a feature of a random one of the kernels, over the root of its probability | |

Two fingerprints have the same bit of smallest priority with a probability that is their Tanimoto similarity, and two
points of counts the same weighted sample with a probability that is the value of `MinMax`.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel, MinMax, OnDimensions, Tanimoto
from scalable_bandits.kernels.base import Product, Scaled, Sum
from scalable_bandits.posteriors.pool import _numba_pool as numba_pool
from scalable_bandits.posteriors.sampling.features import random_features
from scalable_bandits.spaces import Indices

BITS = 32  # bits of a word


class UnitFeatures(Protocol):
    """Features, each of which estimates a kernel."""

    def __call__(self, x: Floats) -> Floats:
        """Return phi at points x (k, D), shape (k, m)."""


@attrs.frozen(eq=False)
class SignsOfBits:
    """Random signs of fingerprints."""

    priorities: NDArray[np.uint32]  # (32 w + 1, m) of each bit, and of no bit

    def __call__(self, x: Floats) -> Floats:
        out = np.empty((len(x), self.priorities.shape[1]))
        numba_pool.signs(np.ascontiguousarray(x), self.priorities, out)
        return out


@attrs.frozen(eq=False)
class SignsOfCounts:
    """Random signs of points of counts."""

    rates: Floats  # (D, m)
    costs: Floats  # (D, m)
    shifts: Floats  # (D, m)
    salts: NDArray[np.uint64]  # (m,)

    def __call__(self, x: Floats) -> Floats:
        out = np.empty((len(x), len(self.salts)))
        numba_pool.signs_of_counts(np.ascontiguousarray(x), self.rates, self.costs, self.shifts, self.salts, out)
        return out


@attrs.frozen(eq=False)
class Waves:
    """Cosines of random frequencies and phases."""

    frequencies: Floats  # (m, D), in radians a unit of x
    phases: Floats  # (m,), in radians
    amplitude: float  # in units of y

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(self.amplitude * np.cos(x @ self.frequencies.T + self.phases))


@attrs.frozen(eq=False)
class Some:
    """Features of some coordinates."""

    features: UnitFeatures
    dimensions: Indices

    def __call__(self, x: Floats) -> Floats:
        return self.features(np.ascontiguousarray(x[:, self.dimensions]))


@attrs.frozen(eq=False)
class Multiplied:
    """Products of the features of several kernels, and of a factor."""

    factor: float
    parts: tuple[UnitFeatures, ...]

    def __call__(self, x: Floats) -> Floats:
        out = self.factor * self.parts[0](x)
        for part in self.parts[1:]:
            out *= part(x)
        return out


@attrs.frozen(eq=False)
class Mixture:
    """Features that are each of one of several kernels."""

    parts: tuple[UnitFeatures, ...]
    which: Indices  # (m,)
    factors: Floats  # one a kernel

    def __call__(self, x: Floats) -> Floats:
        out = self.parts[0](x) * self.factors[0]
        for number, part in enumerate(self.parts[1:], 1):
            of_part = self.which == number
            out[:, of_part] = part(x)[:, of_part] * self.factors[number]
        return out


def unit_features(kernel: Kernel, dimension: int, count: int, rng: np.random.Generator) -> UnitFeatures:
    """Draw random features of a kernel.

    Parameters
    ----------
    kernel
        Kernel.
    dimension
        Number D of the coordinates.
    count
        Number m of features.
    rng
        Random generator.

    Raises
    ------
    ValueError
        If a part of the kernel has no features.
    """
    if isinstance(kernel, Scaled):
        return Multiplied(float(np.sqrt(kernel.factor)), (unit_features(kernel.kernel, dimension, count, rng),))
    if isinstance(kernel, OnDimensions):
        some = np.array(kernel.dimensions)
        return Some(unit_features(kernel.kernel, len(some), count, rng), some)
    if isinstance(kernel, Product | Sum):
        parts = tuple(unit_features(part, dimension, count, rng) for part in kernel.kernels)
        if isinstance(kernel, Product):
            return Multiplied(1.0, parts)
        variances = np.array([float(part.diagonal(np.zeros((1, dimension)))[0]) for part in kernel.kernels])
        chances = variances / variances.sum()
        return Mixture(parts, rng.choice(len(parts), count, p=chances), 1.0 / np.sqrt(chances))
    if isinstance(kernel, Tanimoto):
        return SignsOfBits(rng.integers(2**32, size=(BITS * dimension + 1, count), dtype=np.uint32))
    if isinstance(kernel, MinMax):
        rates, costs = rng.gamma(2.0, size=(2, dimension, count))
        return SignsOfCounts(
            rates, costs, rng.random((dimension, count)), rng.integers(2**63, size=count, dtype=np.uint64)
        )
    if not kernel.stationary:
        checks.refuse(
            "kernel", kernel, "Tanimoto, MinMax, stationary kernels, their products, sums and multiples, for draws"
        )
    waves = random_features(kernel, dimension, count, rng)
    amplitude = float(np.sqrt(2.0 * kernel.diagonal(np.zeros((1, dimension)))[0]))
    return Waves(waves.frequencies, rng.uniform(0.0, 2.0 * np.pi, count), amplitude)
