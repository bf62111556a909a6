"""How a policy plays a whole box: its engine knows the points visited, its index is maximised over all others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import SCAN, STARTS, Top, maximize_over_box
from scalable_bandits.posteriors.box.paths import PathSurface
from scalable_bandits.posteriors.box.surface import Searched, SmoothIndex, constant_mean, differenced
from scalable_bandits.randomness import derived_seed
from scalable_bandits.spaces import Box, Visited

PATH_SCAN, PATH_STARTS = 4096, 24  # a path has more tops than an index
LIKELY = 3  # points of largest index, and of largest mean, around which a box is looked through


def box_engine(kernel: Kernel, box: Box, visited: Visited, prior_mean: float | Callable[[Floats], Floats]) -> BoxEngine:
    """An engine that knows the points visited and has seen nothing."""
    prior = differenced(prior_mean, np.array(box.bounds)) if callable(prior_mean) else constant_mean(prior_mean)
    engine = BoxEngine(kernel, box.dimension, prior)
    engine.points = visited.points()
    return engine


def top_of_box(
    engine: BoxEngine, box: Box, index: SmoothIndex, known: Floats, pending: Floats, noise: float,
    key: tuple[int, int],
) -> Top:  # fmt: skip
    """Where an index is largest.

    Parameters
    ----------
    engine, box, index
        The posterior, where, and what.
    known
        (k, d) points observed; the likeliest of them are looked around.
    pending
        (q, d) points whose values will come, with this noise variance.
    key
        Seed and round, of the points that are looked at.
    """
    return _top(engine.surface(pending, noise), index, box, known, key)


def top_of_path(path: PathSurface, box: Box, known: Floats, key: tuple[int, int]) -> Top:
    """Where a sample path is largest, looked for also around the likeliest of points (k, d); `key` as above."""
    return _top(path, UpperConfidence(width=0.0), box, known, key, PATH_SCAN, PATH_STARTS)


def _top(
    surface: Searched, index: SmoothIndex, box: Box, known: Floats, key: tuple[int, int], scan: int = SCAN,
    starts: int = STARTS,
) -> Top:  # fmt: skip
    near = known
    if len(known):
        mean, variance = surface.predict(known)
        values = index(mean, variance)
        first = np.concatenate([np.argsort(-of, kind="stable")[:LIKELY] for of in (values, mean)])
        near = known[list(dict.fromkeys(first.tolist()))]
    seed = derived_seed(key[0], "box", key[1])
    return maximize_over_box(surface, index, np.array(box.bounds), seed, near, scan, starts)
