"""Points of a scrambled Sobol sequence."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.randomness import derived_seed


def sobol(dimension: int, count: int, seed: int) -> Floats:
    """Return the first points (count, dimension) of a scrambled Sobol sequence in the unit cube; a seed scrambles it.

    Source: Owen 1998 (scrambling), by `scipy.stats.qmc`.
    """
    from scipy.stats import qmc

    rng = np.random.default_rng(derived_seed(seed, "candidates"))  # Sobol spawns from it: Philox by key cannot
    points = qmc.Sobol(dimension, scramble=True, rng=rng).random_base2(max(0, int(np.ceil(np.log2(count)))))
    return np.asarray(points[:count])
