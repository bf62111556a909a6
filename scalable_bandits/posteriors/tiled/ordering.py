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


def tile_order(points: Floats, width: int) -> Indices:
    """Permutation (n,) of candidates (n, d) into compact tiles, of which neighbours in the order are far apart.

    Candidates that are available, or likely to be played, lie together in space. In an order of the tiles by the
    reversed bits of their numbers (van der Corput 1935), any stretch of tiles has about its share of every region, so
    that those who hold such stretches have as much to do as the others. A last tile that is not full stays the last.
    See `spatial_order`.
    """
    numbers = spatial_order(points, width)
    full = len(points) // width
    apart = _reversed_bits(max(full - 1, 0).bit_length())
    apart = apart[apart < full]
    return np.append(numbers[: full * width].reshape(full, width)[apart].ravel(), numbers[full * width :])


def _reversed_bits(bits: int) -> Indices:
    """Numbers from 0 to 2^bits - 1, each with its bits reversed."""
    found = np.zeros(1, dtype=np.int64)
    for _ in range(bits):
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


def best_of_neighbours(scores: Floats, width: int, start: int = 0) -> tuple[int, Floats, Indices]:
    """The best of each group of neighbours: of two, playing one makes the other less promising.

    Parameters
    ----------
    scores
        (n,), in spatial order; -inf: not to be taken.
    width
        Candidates in a group.
    start
        Position of the first of these candidates; groups are cut from position 0 on.

    Returns
    -------
    first : int
        Number of the first group.
    tops : ndarray
        (groups,) largest score in each.
    where : ndarray
        (groups,) position of the candidate that has it.
    """
    first, last = start // width, -(-(start + len(scores)) // width)
    padded = np.full((last - first) * width, -np.inf)
    padded[start - first * width :][: len(scores)] = scores
    groups = padded.reshape(-1, width)
    best, numbers = groups.argmax(axis=1), np.arange(last - first)
    return first, groups[numbers, best], (first + numbers) * width + best


def best_of_groups(tops: Floats, where: Indices, count: int) -> Indices:
    """Of the best of each group, with these scores, the best (count,); fewer where fewer may be taken."""
    count = min(count, int((tops > -np.inf).sum()))
    return where[np.argpartition(-tops, count - 1)[:count]]
