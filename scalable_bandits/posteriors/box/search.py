"""Maxima of an index or of a sample path over a whole box."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.maximization import PRECISION, SCAN, STARTS, Top, maximize_over_box
from scalable_bandits.posteriors.box.surface import SearchSurface, SmoothIndex
from scalable_bandits.randomness import derived_seed


class Sizes(NamedTuple):
    """Size of a search."""

    scan: int  # number of points at which the index is computed first
    starts: int  # number of those from which it is climbed
    precision: float = PRECISION  # relative gain below which a climb has ended
    finish: bool = True  # whether the best end is refined as far as rounding allows
    likely: int = 3  # number of points of largest index, and of largest mean, around which the search has more points


SIZES = Sizes(SCAN, STARTS)
LEARNED_SIZES = Sizes(512, 5)  # for learned priors
LONG_SIZES = Sizes(256, 3, precision=1e-4, finish=False, likely=1)  # the same with many observations
PATH_SIZES = Sizes(4096, 24)  # a path has more local maxima than an index


def top_of_box(
    surface: SearchSurface, index: SmoothIndex, bounds: Floats, near: Floats, key: tuple[int, int],
    sizes: Sizes = SIZES,
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
    sizes
        Size of the search.
    """
    seed = derived_seed(key[0], "box", key[1])
    best = near[promising(surface, index, near, sizes.likely)]
    return maximize_over_box(
        surface, index, bounds, seed, best, sizes.scan, sizes.starts, sizes.precision, sizes.finish
    )


def promising(surface: SearchSurface, index: SmoothIndex, near: Floats, likely: int = 3) -> list[int]:
    """Return the rows of `near` (k, d) of largest index and of largest mean, `likely` of each."""
    if not len(near):
        return []
    mean, variance = surface.predict(near)
    best = [np.argsort(-array, kind="stable")[:likely] for array in (index(mean, variance), mean)]
    return list(dict.fromkeys(np.concatenate(best).tolist()))
