"""Order of candidates in which neighbours in space are neighbours in memory."""

from __future__ import annotations

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

LEAF = 32  # candidates that are not divided further


def spatial_order(points: Floats, width: int) -> Indices:
    """Permute the candidates so that runs of `width` of them are compact tiles.

    Groups of candidates are halved along their longest side, at a multiple of the tile width, until they fit a tile,
    and then in the middle down to `LEAF` candidates, so that neighbours within a tile are near each other too. The
    order depends on the points alone: it is the same on all workers.

    Parameters
    ----------
    points
        (n, d) coordinates of the candidates.
    width
        Number of candidates in a tile.

    Returns
    -------
    ndarray
        (n,) numbers of the candidates, tile after tile.
    """
    done: list[Indices] = []
    undivided = [np.arange(len(points))]
    while undivided:
        some = undivided.pop()
        if len(some) <= LEAF:
            done.append(np.sort(some))
            continue
        coordinates = points[some]
        longest = int(np.argmax(np.ptp(coordinates, axis=0)))
        half = width * max(1, round(len(some) / width / 2)) if len(some) > width else len(some) // 2
        order = np.argsort(coordinates[:, longest], kind="stable")
        undivided += [some[order[half:]], some[order[:half]]]
    return np.concatenate(done)


def tile_order(points: Floats, width: int) -> Indices:
    """Permute candidates (n, d) into compact tiles, (n,), so that consecutive tiles are far apart in space.

    Candidates that are available, or have a large index, lie together in space. The tiles of `spatial_order` are
    ordered by the reversed bits of their numbers (van der Corput 1935): any run of tiles then covers all regions about
    equally, so that shards made of such runs have equal work. A last tile that is not full stays the last.
    """
    numbers = spatial_order(points, width)
    full = len(points) // width
    apart = _reversed_bits(max(full - 1, 0).bit_length())
    apart = apart[apart < full]
    return np.append(numbers[: full * width].reshape(full, width)[apart].ravel(), numbers[full * width :])


def _reversed_bits(bits: int) -> Indices:
    """Return the numbers from 0 to 2^bits - 1, each with its bits reversed."""
    found = np.zeros(1, dtype=np.int64)
    for _ in range(bits):
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


def best_of_neighbours(index: Floats, width: int, start: int = 0) -> tuple[int, Floats, Indices]:
    """Find the largest index in each group of neighbours.

    A batch of candidates that may be observed next has one of each group, because observing a candidate lowers the
    indices of its neighbours.

    Parameters
    ----------
    index
        (n,) index in spatial order; -inf for candidates that are left out.
    width
        Number of candidates in a group.
    start
        Position of the first candidate; the first group begins at position 0.

    Returns
    -------
    first : int
        Number of the group with position `start`.
    maxima : ndarray
        (g,) largest index of each group from this one on.
    positions : ndarray
        (g,) positions of the candidates that have it.
    """
    first, last = start // width, -(-(start + len(index)) // width)
    padded = np.full((last - first) * width, -np.inf)
    padded[start - first * width :][: len(index)] = index
    groups = padded.reshape(-1, width)
    best, numbers = groups.argmax(axis=1), np.arange(last - first)
    return first, groups[numbers, best], (first + numbers) * width + best


def best_of_groups(maxima: Floats, positions: Indices, count: int) -> Indices:
    """Return the positions (count,) of the largest of the groups' maxima (g,); fewer if fewer are above -inf."""
    count = min(count, int((maxima > -np.inf).sum()))
    return positions[np.argpartition(-maxima, count - 1)[:count]]
