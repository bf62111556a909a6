"""Order of candidates in which neighbours in space are neighbours in memory, and the best candidates of its groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices

LEAF = 32  # candidates that are not divided further
TILES_A_SHARD = 12  # tiles in a shard, approximately; more where that would be more shards than `SHARDS`
SHARDS = 32  # largest number of shards


def spatial_order(points: Floats, tile_size: int) -> Indices:
    """Permute the candidates so that runs of `tile_size` of them are compact tiles.

    Groups of candidates are halved along their longest side, at a multiple of the tile size, until they fit a tile,
    and then in the middle down to `LEAF` candidates, so that neighbours within a tile are near each other too. The
    order depends on the points alone: it is the same on all workers.

    Parameters
    ----------
    points
        (n, d) coordinates of the candidates.
    tile_size
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
        half = tile_size * max(1, round(len(some) / tile_size / 2)) if len(some) > tile_size else len(some) // 2
        order = np.argsort(coordinates[:, longest], kind="stable")
        undivided += [some[order[half:]], some[order[:half]]]
    return np.concatenate(done)


def tile_order(points: Floats, tile_size: int) -> Indices:
    """Permute candidates (n, d) into compact tiles, (n,), so that consecutive tiles are far apart in space.

    Candidates that are available, or have a large index, lie together in space. The tiles of `spatial_order` are
    ordered by the reversed bits of their numbers (van der Corput 1935): any run of tiles then covers all regions about
    equally, so that shards made of such runs have equal work. A last tile that is not full stays the last.
    """
    numbers = spatial_order(points, tile_size)
    full = len(points) // tile_size
    apart = _reversed_bits(max(full - 1, 0).bit_length())
    apart = apart[apart < full]
    tiles, rest = numbers[: full * tile_size].reshape(full, tile_size), numbers[full * tile_size :]
    return np.append(tiles[apart].ravel(), rest)


def _reversed_bits(bits: int) -> Indices:
    """Return the numbers from 0 to 2^bits - 1, each with its bits reversed."""
    found = np.zeros(1, dtype=np.int64)
    for _ in range(bits):
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


def shard_edges(tiles: int) -> Indices:
    """Divide a number of tiles into shards; return the first tile of each, and one after the last tile of all."""
    return np.linspace(0, tiles, int(np.clip(tiles // TILES_A_SHARD, 1, SHARDS)) + 1).astype(int)


class GroupMaxima(NamedTuple):
    """Largest index in each of some consecutive groups of neighbours, and the candidate that has it."""

    first: int  # number of the first of these groups
    maxima: Floats  # (g,) largest index; -inf for a group without candidates to choose from
    positions: Indices  # (g,) position of the candidate


def maxima_by_group(index: Floats, group_size: int, start: int = 0) -> GroupMaxima:
    """Find the largest index in each group of neighbours.

    A batch of candidates that may be observed next has one of each group, because observing a candidate lowers the
    indices of its neighbours.

    Parameters
    ----------
    index
        (n,) index of consecutive positions; -inf for candidates that are left out.
    group_size
        Number of candidates in a group.
    start
        Position of the first of these candidates; group 0 begins at position 0.
    """
    first, last = start // group_size, -(-(start + len(index)) // group_size)
    whole = np.full((last - first) * group_size, -np.inf)
    whole[start - first * group_size :][: len(index)] = index
    groups = whole.reshape(-1, group_size)
    best, numbers = groups.argmax(axis=1), np.arange(last - first)
    return GroupMaxima(first, groups[numbers, best], (first + numbers) * group_size + best)


def best_of_groups(maxima: Floats, positions: Indices, count: int) -> Indices:
    """Return the positions (count,) that have the largest of the maxima (g,); fewer if fewer are above -inf."""
    count = min(count, int((maxima > -np.inf).sum()))
    return positions[np.argpartition(-maxima, count - 1)[:count]]
