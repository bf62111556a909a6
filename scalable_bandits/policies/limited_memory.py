"""Number of observations that a policy of limited memory keeps, given or computed from a variation budget."""

from __future__ import annotations

import math
from typing import Any

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.whole import as_fraction


def memory_length(horizon: int, gain: float, variation_budget: float | None = None) -> int:
    """Return ceil(g_T^(1/4) sqrt(T / P_T)), the number of rounds to remember, between 1 and T.

    Source: Zhou & Shroff 2021, remark after Theorem 2.

    Parameters
    ----------
    horizon
        Number of rounds T.
    gain
        Largest information gain g_T of T observations, in nats.
    variation_budget
        Sum P_T over rounds of the RKHS norm of f_{t+1} - f_t; 1 if not given.

    Examples
    --------
    >>> memory_length(10_000, gain=16.0), memory_length(10_000, gain=16.0, variation_budget=4.0)
    (200, 100)
    """
    budget = as_fraction(1.0 if variation_budget is None else variation_budget)
    fourth = math.ceil(as_fraction(gain) * horizon**2 / budget**2)
    return min(math.isqrt(math.isqrt(max(fourth, 1) - 1)) + 1, horizon)


def _memory(policy: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a memory that is neither a positive integer nor "auto", or that does not fit the policy."""
    if value != "auto":
        if isinstance(value, str):
            checks.refuse(field.name, value, "a positive integer, or 'auto'")
        checks.integer(field.name, value, 1)
    elif policy.horizon is None:
        checks.refuse("horizon", None, "a number, for memory='auto'")
    elif policy._prior_kernel.epsilon and policy._gain_source == "realised":
        allowed = "a number or a function, for memory='auto' with TemporalDecay"
        checks.refuse("information_gain", policy._gain_source, allowed)


def resolved_memory(policy: Any) -> int:
    """Number of observations that the policy keeps, "auto" resolved."""
    if policy.memory != "auto":
        return int(policy.memory)
    gain = policy._confidence.information_gain(policy.model, policy.horizon)
    return memory_length(policy.horizon, gain, policy.variation_budget)


# Field of the policies of limited memory.
MEMORY: Any = attrs.field(default="auto", converter=checks.to_int, validator=_memory)
