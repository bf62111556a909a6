"""A policy's recommendation."""

from __future__ import annotations

from typing import Any, NamedTuple


class Best(NamedTuple):
    """A policy's recommendation."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f at x, in units of y
    std: float  # standard deviation of the estimate, in units of y
