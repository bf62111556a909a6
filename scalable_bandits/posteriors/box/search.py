"""Maxima of an index or of a sample path over a whole box."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import SCAN, STARTS, Top, maximize_over_box
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import derived_seed

PATH_SCAN, PATH_STARTS = 4096, 24  # a path has more local maxima than an index
LIKELY = 3  # number of observed points of largest index, and of largest mean, near which the search has more points


def top_of_box(
    engine: BoxEngine, bounds: Floats, index: SmoothIndex, observed: Floats, pending: Floats, noise: float,
    key: tuple[int, int],
) -> Top:  # fmt: skip
    """Find the maximum of an index over a box.

    Parameters
    ----------
    engine
        Posterior.
    bounds
        Bounds (d, 2) of the box, in units of x.
    index
        Index of mean and variance.
    observed
        Observed points (k, d), in units of x; the search has more points near the best of them.
    pending
        Pending points (q, d), in units of x.
    noise
        Noise variance of the pending points, in squared units of y.
    key
        Seed of the search: the policy's seed and the round.
    """
    return _top(engine.surface(pending, noise), index, bounds, observed, key)


def top_of_path(path: PathSurface, bounds: Floats, near: Floats, key: tuple[int, int]) -> Top:
    """Find the maximum of a sample path over a box.

    Parameters
    ----------
    path
        Sample path.
    bounds
        Bounds (d, 2) of the box, in units of x.
    near
        Observed and pending points (k, d), in units of x; the search has more points near the best of them.
    key
        Seed of the search: the policy's seed and the round.
    """
    return _top(path, UpperConfidence(width=0.0), bounds, near, key, PATH_SCAN, PATH_STARTS)


def _top(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, near: Floats, key: tuple[int, int], scan: int = SCAN,
    starts: int = STARTS,
) -> Top:  # fmt: skip
    if len(near):
        mean, variance = surface.predict(near)
        values = index(mean, variance)
        best = np.concatenate([np.argsort(-array, kind="stable")[:LIKELY] for array in (values, mean)])
        near = near[list(dict.fromkeys(best.tolist()))]
    seed = derived_seed(key[0], "box", key[1])
    return maximize_over_box(surface, index, bounds, seed, near, scan, starts)
