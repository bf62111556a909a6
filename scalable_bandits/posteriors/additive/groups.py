"""Additive kernels, sums of kernels of a few dimensions each, taken apart into groups and put together."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs

from scalable_bandits import checks
from scalable_bandits.kernels import Constant, Kernel, OnDimensions
from scalable_bandits.kernels.base import Combination, Lengthscaled, Scaled, Sum


class Group(NamedTuple):
    """One summand of an additive kernel."""

    kernel: Kernel  # of the group's own coordinates, in the order of its dimensions
    dimensions: tuple[int, ...]  # ascending, counted from 0


def additive_kernel(kernel: Kernel, groups: Sequence[Sequence[int]]) -> Kernel:
    """Return the sum over groups of a kernel of the group's dimensions.

    Parameters
    ----------
    kernel
        Prior covariance of the function of each group, in squared units of y. If it has several lengthscales, they are
        those of all dimensions.
    groups
        Dimensions of each group, counted from 0.

    Raises
    ------
    ValueError
        If a dimension has no lengthscale.
    """
    return Sum.of(*(OnDimensions(_with_lengthscales_of(kernel, group), group) for group in groups))


def _with_lengthscales_of(kernel: Kernel, dimensions: Sequence[int]) -> Kernel:
    """Return a kernel with the lengthscales of some dimensions, of those that it has for all."""
    if isinstance(kernel, Lengthscaled) and isinstance(kernel.lengthscale, tuple):
        kernel.check(max(len(kernel.lengthscale), 1 + max(dimensions)))
        return attrs.evolve(kernel, lengthscale=[kernel.lengthscale[k] for k in dimensions])
    if isinstance(kernel, Scaled):
        return attrs.evolve(kernel, kernel=_with_lengthscales_of(kernel.kernel, dimensions))
    if isinstance(kernel, Combination):
        return type(kernel)(tuple(_with_lengthscales_of(part, dimensions) for part in kernel.kernels))
    return kernel


@functools.lru_cache(maxsize=64)
def groups_of(kernel: Kernel) -> tuple[Group, ...]:
    """Take an additive kernel apart; summands on the same dimensions are one group.

    Parameters
    ----------
    kernel
        Sum of kernels, also multiplied by numbers, each of which is an `OnDimensions` or made of these.

    Raises
    ------
    ValueError
        If a summand is not on some named dimensions: a kernel of all of them, or a constant.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> kernel = 2.0 * (sb.OnDimensions(sb.RBF(0.2), [3, 0]) + sb.OnDimensions(sb.Matern(0.4), [1]))
    >>> [group.dimensions for group in groups_of(kernel)]
    [(0, 3), (1,)]
    """
    found: dict[tuple[int, ...], list[Kernel]] = {}
    for summand in _summands(kernel):
        named = _named_dimensions(summand)
        if not named:
            allowed = "a sum of kernels on groups of dimensions, such as OnDimensions(RBF(0.2), [0, 1]) + ..."
            checks.refuse("kernel", f"the summand {summand}", allowed)
        dimensions = tuple(sorted(named))
        found.setdefault(dimensions, []).append(_on_own_coordinates(summand, dimensions))
    return tuple(Group(Sum.of(*parts) if parts[1:] else parts[0], group) for group, parts in found.items())


def _summands(kernel: Kernel) -> Iterator[Kernel]:
    if isinstance(kernel, Sum):
        for part in kernel.kernels:
            yield from _summands(part)
    elif isinstance(kernel, Scaled) and isinstance(kernel.kernel, Sum | Scaled):
        yield from (attrs.evolve(kernel, kernel=part) for part in _summands(kernel.kernel))
    else:
        yield kernel


def _named_dimensions(kernel: Kernel) -> set[int] | None:
    """Return the dimensions of which a kernel is a function; None if it does not name them."""
    if isinstance(kernel, OnDimensions):
        return set(kernel.dimensions)
    if type(kernel) is Constant:
        return set()
    inside = [_named_dimensions(part) for part in kernel.parts]
    return set().union(*(part or () for part in inside)) if inside and None not in inside else None


def _on_own_coordinates(kernel: Kernel, dimensions: tuple[int, ...]) -> Kernel:
    """Return a kernel of some dimensions as a function of these alone."""
    if isinstance(kernel, OnDimensions):
        if kernel.dimensions == dimensions:
            return kernel.kernel
        return attrs.evolve(kernel, dimensions=[dimensions.index(k) for k in kernel.dimensions])
    if isinstance(kernel, Scaled):
        return attrs.evolve(kernel, kernel=_on_own_coordinates(kernel.kernel, dimensions))
    if isinstance(kernel, Combination):
        return type(kernel)(tuple(_on_own_coordinates(part, dimensions) for part in kernel.kernels))
    return kernel
