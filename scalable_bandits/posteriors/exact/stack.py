"""Several dense engines on the same candidates that observe the same points, for loops over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalable_bandits.posteriors.exact._numba_window import DenseArrays
from scalable_bandits.posteriors.exact.dense import DenseEngine


def stacked(engines: Sequence[DenseEngine]) -> DenseArrays:
    """Return the engines' arrays stacked, with one more axis in front, of which each engine holds its part.

    Arrays that are not stacked yet are copied once.

    Parameters
    ----------
    engines
        Engines of the same size.
    """
    found = DenseArrays(*(held.base for held in engines[0].arrays))  # type: ignore[arg-type]  # None: no view
    if all(map(_holds, [found] * len(engines), range(len(engines)), engines)):
        return found
    made = DenseArrays(*(np.empty((len(engines), *held.shape)) for held in engines[0].arrays))
    for number, engine in enumerate(engines):
        engine.move(DenseArrays(*(whole[number] for whole in made)))
    return made


def _holds(stack: DenseArrays, number: int, engine: DenseEngine) -> bool:
    """Return whether an engine's arrays are views of the part of a stack with this number."""
    return all(
        whole is not None and held.base is whole and number < len(whole) and np.may_share_memory(held, whole[number])
        for held, whole in zip(engine.arrays, stack, strict=True)
    )


def in_step(engines: Sequence[DenseEngine]) -> bool:
    """Return whether the open windows of engines have the same points."""
    first, *others = (engine.window for engine in engines)
    return all(list(window.points) == list(first.points) for window in others)
