"""Where an index, or a sample path, is largest over a whole box."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import SCAN, STARTS, Top, maximize_over_box
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.surface import Searched, SmoothIndex
from scalable_bandits.randomness import derived_seed

PATH_SCAN, PATH_STARTS = 4096, 24  # a path has more local maxima than an index
LIKELY = 3  # number of points of largest index, and of largest mean, around which a box is searched more closely


def top_of_box(
    engine: BoxEngine, bounds: Floats, index: SmoothIndex, known: Floats, pending: Floats, noise: float,
    key: tuple[int, int],
) -> Top:  # fmt: skip
    """Find where an index is largest.

    Parameters
    ----------
    engine
        Posterior.
    bounds
        (d, 2) bounds of the box, in units of x.
    index
        Index of mean and variance.
    known
        (k, d) points observed; the search looks more closely around the likeliest of them.
    pending
        (q, d) points whose values will come.
    noise
        Noise variance of the pending values, in squared units of y.
    key
        Seed and round, from which the points of the search follow.
    """
    return _top(engine.surface(pending, noise), index, bounds, known, key)


def top_of_path(path: PathSurface, bounds: Floats, known: Floats, key: tuple[int, int]) -> Top:
    """Find where a sample path is largest.

    Parameters
    ----------
    path
        Sample path.
    bounds, key
        As of `top_of_box`.
    known
        (k, d) points; the search looks more closely around those where the path is largest.
    """
    return _top(path, UpperConfidence(width=0.0), bounds, known, key, PATH_SCAN, PATH_STARTS)


def _top(
    surface: Searched, index: SmoothIndex, bounds: Floats, known: Floats, key: tuple[int, int], scan: int = SCAN,
    starts: int = STARTS,
) -> Top:  # fmt: skip
    near = known
    if len(known):
        mean, variance = surface.predict(known)
        values = index(mean, variance)
        first = np.concatenate([np.argsort(-of, kind="stable")[:LIKELY] for of in (values, mean)])
        near = known[list(dict.fromkeys(first.tolist()))]
    seed = derived_seed(key[0], "box", key[1])
    return maximize_over_box(surface, index, bounds, seed, near, scan, starts)
