"""Standard prior of models without a given kernel, whose values are learned (`models/learned.py`).

    kernel: output scale x Matern 5/2 with a lengthscale for each coordinate (x a `Hamming` factor for categories,
    x `Tanimoto` for the fingerprints of a pool)
    log lengthscale ~ N(log 0.3 + log(D) / 2, 1) in sides of the space,   log output scale ~ N(0, 2^2)
    log noise variance ~ N(-8, 4^2),   mean: its optimal value given the kernel (profiled)

All are in units of the transformed y (`transform.py`).
"""

from __future__ import annotations

import math

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel, Matern, OnDimensions, Tanimoto
from scalable_bandits.kernels.structured import with_categories
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.spaces import Pool, Space

LENGTHSCALE = 0.3  # median over the root of the number of coordinates, in sides of the space
LENGTHSCALE_RANGE = (0.01, 100.0)  # in sides of the space
OUTPUT_SCALE, OUTPUT_SCALE_RANGE = LogNormal(1.0, 2.0), (1e-3, 1e3)
NOISE, NOISE_RANGE = LogNormal(math.exp(-8.0), 4.0), (1e-8, 100.0)


def standard_kernel(space: Space) -> Kernel:
    """Return the kernel whose values are learned where none is given, with its initial values.

    Parameters
    ----------
    space
        Space with coordinates.
    """
    sides, unordered = sides_of(space), space.unordered
    if isinstance(space, Pool) and space.words:
        return 1.0 * _of_fingerprints(space.words, sides[space.words :])
    lengths = LENGTHSCALE * math.sqrt(len(sides)) * np.delete(sides, list(unordered))
    return with_categories(1.0 * Matern(lengths.tolist() or 1.0, nu=2.5), unordered, len(sides))


def _of_fingerprints(words: int, sides: Floats) -> Kernel:
    """Return the kernel of fingerprints, in so many first coordinates, and of numbers with these extents (d,)."""
    if not len(sides):
        return Tanimoto()
    lengths = LENGTHSCALE * math.sqrt(len(sides)) * sides
    numbers = OnDimensions(Matern(lengths.tolist(), nu=2.5), range(words, words + len(sides)))
    return OnDimensions(Tanimoto(), range(words)) * numbers


def standard_lengthscales(space: Space) -> LogNormal:
    """Return the prior on the lengthscales of a space, in units of its coordinates, where none is given."""
    sides = sides_of(space)
    return LogNormal((LENGTHSCALE * math.sqrt(len(sides)) * sides).tolist(), 1.0)


def bounds(kernel: Kernel, space: Space, learns_noise: bool) -> tuple[Floats, Floats]:
    """Return the bounds (p,) of the logarithms of a kernel's hyperparameters, and of the noise if it is learned."""
    sides, ranges = sides_of(space), []
    for parameter in kernel.hyperparameters:
        side = sides[(parameter.dimensions or (0,))[0]]
        low, high = OUTPUT_SCALE_RANGE if parameter.name == "factor" else np.array(LENGTHSCALE_RANGE) * side
        ranges.append((float(low), float(high)))
    low, high = np.log([*ranges, *([NOISE_RANGE] if learns_noise else [])]).T
    return low, high


def sides_of(space: Space) -> Floats:
    """Return the extent (D,) of a space along each coordinate; 1 where it has none."""
    sides = space.side_lengths
    assert sides is not None
    return np.where(sides > 0.0, sides, 1.0)
