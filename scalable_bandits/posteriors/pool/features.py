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

import functools
from collections.abc import Callable, Sequence

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


# Features, each of which estimates a kernel: function of points x (k, D) that returns phi (k, m).
UnitFeatures = Callable[[Floats], Floats]


def _signs_of_bits(priorities: NDArray[np.uint32], x: Floats) -> Floats:
    """Return random signs of fingerprints, by priorities (32 w + 1, m) of each bit, and of no bit."""
    out = np.empty((len(x), priorities.shape[1]))
    numba_pool.signs(np.ascontiguousarray(x), priorities, out)
    return out


def _signs_of_counts(rates: Floats, costs: Floats, shifts: Floats, salts: NDArray[np.uint64], x: Floats) -> Floats:
    """Return random signs of points of counts, by rates, costs and shifts (D, m), and salts (m,)."""
    out = np.empty((len(x), len(salts)))
    numba_pool.signs_of_counts(np.ascontiguousarray(x), rates, costs, shifts, salts, out)
    return out


def _waves(frequencies: Floats, phases: Floats, amplitude: float, x: Floats) -> Floats:
    """Return cosines of frequencies (m, D), in radians a unit of x, and phases (m,), in radians."""
    return np.asarray(amplitude * np.cos(x @ frequencies.T + phases))


def _of_some(features: UnitFeatures, dimensions: Indices, x: Floats) -> Floats:
    """Return the features of some coordinates."""
    return features(np.ascontiguousarray(x[:, dimensions]))


def _multiplied(factor: float, parts: Sequence[UnitFeatures], x: Floats) -> Floats:
    """Return products of the features of several kernels, and of a factor."""
    out = factor * parts[0](x)
    for part in parts[1:]:
        out *= part(x)
    return out


def _mixture(parts: Sequence[UnitFeatures], which: Indices, factors: Floats, x: Floats) -> Floats:
    """Return features that are each of one of several kernels, by number `which` (m,), times the kernel's factor."""
    out = parts[0](x) * factors[0]
    for number, part in enumerate(parts[1:], 1):
        of_part = which == number
        out[:, of_part] = part(x)[:, of_part] * factors[number]
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
        part = unit_features(kernel.kernel, dimension, count, rng)
        return functools.partial(_multiplied, float(np.sqrt(kernel.factor)), (part,))
    if isinstance(kernel, OnDimensions):
        some = np.array(kernel.dimensions)
        return functools.partial(_of_some, unit_features(kernel.kernel, len(some), count, rng), some)
    if isinstance(kernel, Product | Sum):
        parts = tuple(unit_features(part, dimension, count, rng) for part in kernel.kernels)
        if isinstance(kernel, Product):
            return functools.partial(_multiplied, 1.0, parts)
        variances = np.array([float(part.diagonal(np.zeros((1, dimension)))[0]) for part in kernel.kernels])
        chances = variances / variances.sum()
        which = rng.choice(len(parts), count, p=chances)
        return functools.partial(_mixture, parts, which, 1.0 / np.sqrt(chances))
    if isinstance(kernel, Tanimoto):
        priorities = rng.integers(2**32, size=(BITS * dimension + 1, count), dtype=np.uint32)
        return functools.partial(_signs_of_bits, priorities)
    if isinstance(kernel, MinMax):
        rates, costs = rng.gamma(2.0, size=(2, dimension, count))
        shifts, salts = rng.random((dimension, count)), rng.integers(2**63, size=count, dtype=np.uint64)
        return functools.partial(_signs_of_counts, rates, costs, shifts, salts)
    if not kernel.stationary:
        checks.refuse(
            "kernel", kernel, "Tanimoto, MinMax, stationary kernels, their products, sums and multiples, for draws"
        )
    waves = random_features(kernel, dimension, count, rng)
    amplitude = float(np.sqrt(2.0 * kernel.diagonal(np.zeros((1, dimension)))[0]))
    return functools.partial(_waves, waves.frequencies, rng.uniform(0.0, 2.0 * np.pi, count), amplitude)
