"""Maxima of an index or of a sample path over a whole box."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors.box.maximization import SCAN, STARTS, Top, maximize_over_box
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import derived_seed

PATH_SCAN, PATH_STARTS = 4096, 24  # a path has more local maxima than an index
LIKELY = 3  # number of observed points of largest index, and of largest mean, near which the search has more points


def top_of_box(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, near: Floats, key: tuple[int, int], scan: int = SCAN,
    starts: int = STARTS,
) -> Top:  # fmt: skip
    """Find the maximum of an index over a box.

    Parameters
    ----------
    surface
        Posterior, or sample path.
    index
        Index of mean and variance.
    bounds
        Bounds (d, 2) of the box, in units of x.
    near
        Points (k, d), in units of x, such as those observed; the search has more points near the best of them.
    key
        Seed of the search: the policy's seed and the round.
    scan, starts
        Number of points at which the index is computed first, and of those from which it is climbed.
    """
    seed = derived_seed(key[0], "box", key[1])
    best = promising(surface, index, near)
    return maximize_over_box(surface, index, bounds, seed, near[best], scan, starts)


def promising(surface: SearchSurface, index: SmoothIndex, near: Floats) -> list[int]:
    """Return the rows of `near` (k, d) of largest index and of largest mean, each `LIKELY` of them."""
    if not len(near):
        return []
    mean, variance = surface.predict(near)
    best = [np.argsort(-array, kind="stable")[:LIKELY] for array in (index(mean, variance), mean)]
    return list(dict.fromkeys(np.concatenate(best).tolist()))


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
    return top_of_box(path, UpperConfidence(width=0.0), bounds, near, key, PATH_SCAN, PATH_STARTS)
