"""The maximum of a sum of functions of groups that overlap, by messages on a tree.

Source: Rolland, Scarlett, Bogunovic & Cevher 2018 (groups that overlap); Han, Arora & Scarlett 2021 (trees). Of the
second the abstract could be read, of the first what others say of it. The algorithm is max-sum on a junction tree.

    order the groups so that each shares dimensions with at most one of those before it, its parent              (1)
    from the last to the first: message to the parent = max over the dimensions that it has not, of the
        group's values plus the messages to it                                                                (2)
    from the first to the last: the best point of the group, given the coordinates that are chosen already      (3)

Groups that share no dimension are maximised one by one. The maximum is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.spaces import Indices


@functools.lru_cache(maxsize=64)
def ordered(groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int | None], ...]:
    """Return the numbers of the groups in an order (1), each with the number of its parent, or None.

    Parameters
    ----------
    groups
        Dimensions of each group.

    Raises
    ------
    ValueError
        If there is no such order: the groups overlap in a circle.

    Examples
    --------
    >>> ordered(((0, 1), (3,), (1, 2)))
    ((0, None), (2, 0), (1, None))
    """
    sets, found = [set(group) for group in groups], list[tuple[int, int | None]]()
    left, seen = list(range(len(sets))), set[int]()
    while left:
        shared = {(i, j): len(sets[i] & sets[j]) for i in left for j, _ in found}
        best = max(shared, key=lambda pair: shared[pair], default=None)
        child, parent = best if best is not None and shared[best] else (left[0], None)
        if not sets[child] & seen <= (set() if parent is None else sets[parent]):
            allowed = "groups that are disjoint, or overlap as a tree: no circle of dimensions"
            checks.refuse("groups", [sorted(group) for group in sets], allowed)
        found.append((child, parent))
        seen |= sets[child]
        left.remove(child)
    return tuple(found)


def highest(
    groups: tuple[tuple[int, ...], ...], values: Sequence[Floats], sides: Mapping[int, int], salt: int
) -> Indices:
    """Return the numbers of steps (d,) along the sides of a grid at which a sum of functions of groups is largest.

    Parameters
    ----------
    groups
        Dimensions of each group, ascending.
    values
        Function (n,) of each group at the points of its grid, the last dimension fastest, in units of y.
    sides
        Number of points along each dimension.
    salt
        Seed of the hash that breaks ties.
    """
    order = ordered(groups)
    totals = [np.array(v).reshape([sides[k] for k in group]) for v, group in zip(values, groups, strict=True)]
    for child, parent in reversed(order):  # (2)
        if parent is None:
            continue
        own, above = groups[child], groups[parent]
        message = totals[child].max(axis=tuple(i for i, k in enumerate(own) if k not in above))
        totals[parent] += message.reshape([sides[k] if k in own else 1 for k in above])
    steps = np.full(1 + max(max(group) for group in groups), -1)
    for group, _ in order:  # (3)
        dimensions = np.array(groups[group])
        free = dimensions[steps[dimensions] < 0]
        if not len(free):
            continue
        rest = np.asarray(totals[group][tuple(int(steps[k]) if steps[k] >= 0 else slice(None) for k in dimensions)])
        best = choose(np.ascontiguousarray(rest).ravel(), (salt + group) % 2**64)[0]
        steps[free] = np.array(np.unravel_index(best, rest.shape))
    return steps
