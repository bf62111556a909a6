"""What a policy reports: its recommendation, and what it was told."""

from __future__ import annotations

from typing import Any, NamedTuple

from scalable_bandits.checks import Floats


class Best(NamedTuple):
    """A policy's recommendation."""

    x: Any  # point (d,), or an arm number
    mean: float  # estimate of f at x, in units of y
    std: float  # standard deviation of the estimate, in units of y


class Observations(NamedTuple):
    """Observations of a policy, those of one point collapsed into one."""

    x: Floats  # (m, d) distinct points; for `Arms` (m, 1) arm numbers
    y: Floats  # (m,) precision-weighted averages, in units of y
    noise_variance: Floats  # (m,) of the averages, in squared units of y
