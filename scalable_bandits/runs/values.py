"""Values that a user's function returns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies.measurements import LARGEST


class NotANumber(ValueError):
    """A function returned something else than a number."""


def parse_value(result: Any) -> float:
    """Convert a function's result to a number that can be told.

    Raises
    ------
    NotANumber
        If the result is not a number.
    ValueError
        If the result is not finite, or too large.
    """
    y: Any = float(result) if isinstance(result, bool | np.bool_) else checks.to_float(result)  # success is 1
    if not isinstance(y, float):
        shown = " ".join(repr(result).split())
        raise NotANumber(f"function: got {shown[:200]}; allowed: a function that returns a number")
    if not math.isfinite(y) or abs(y) > LARGEST:
        checks.refuse("function", y, f"a function that returns finite numbers, up to {LARGEST:.0e} in size")
    return float(y)
