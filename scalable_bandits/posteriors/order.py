"""Order of candidates in which neighbours in space are neighbours in memory."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

LEAF = 32  # candidates


def spatial_order(points: Floats, width: int) -> Indices:
    """Permutation of the candidates that cuts them into compact tiles of `width`.

    Parts are halved along their longest side, at a multiple of the tile width, until they fit a
    tile, and then at the middle down to `LEAF` candidates, so that neighbours in a tile are near too: a function of the
    points alone, so that tiles are the same wherever they are computed.

    Parameters
    ----------
    points
        (n, d) coordinates.
    width
        Candidates in a tile.

    Returns
    -------
    ndarray
        (n,) numbers of the candidates, tile after tile.
    """
    done: list[Indices] = []
    open_parts = [np.arange(len(points))]
    while open_parts:
        part = open_parts.pop()
        if len(part) <= LEAF:
            done.append(np.sort(part))
            continue
        held = points[part]
        longest = int(np.argmax(np.ptp(held, axis=0)))
        half = width * max(1, round(len(part) / width / 2)) if len(part) > width else len(part) // 2
        order = np.argsort(held[:, longest], kind="stable")
        open_parts += [part[order[half:]], part[order[:half]]]
    return np.concatenate(done)


def best_of_neighbours(scores: Floats, groups: int, count: int) -> Indices:
    """The best of each of so many groups of neighbours: of two, playing one makes the other less promising.

    Parameters
    ----------
    scores
        (n,), in spatial order; -inf: not to be taken.
    groups
        Into which the candidates are cut.
    count
        Candidates wanted, of the best groups; fewer are found where fewer may be taken.
    """
    starts = np.arange(0, len(scores), max(1, len(scores) // groups))
    tops = np.maximum.reduceat(scores, starts)
    count = min(count, int((tops > -np.inf).sum()))
    best = np.argpartition(-tops, count - 1)[:count]
    stops = np.append(starts[1:], len(scores))
    return np.array([starts[g] + np.argmax(scores[starts[g] : stops[g]]) for g in best.tolist()])
