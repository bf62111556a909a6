"""How long to remember: the length of a memory, given or from a variation budget."""

from __future__ import annotations

import math
from typing import Any

import attrs

from scalable_bandits import checks
from scalable_bandits.policies.confidence_policy import ConfidencePolicy
from scalable_bandits.posteriors.greedy_gain import GreedyInformationGain


def memory_length(horizon: int, gain: float, variation_budget: float | None = None) -> int:
    """Rounds to remember: ceil(g_T^(1/4) sqrt(T / P_T)), at least 1 and at most T; P_T = 1 where it is not known.

    Source: Zhou & Shroff 2021, remark after Theorem 2.

    Parameters
    ----------
    horizon
        T.
    gain
        g_T, the largest information gain of T observations, in nats.
    variation_budget
        P_T, the sum over rounds of the RKHS norm of f_{t+1} - f_t.

    Examples
    --------
    >>> memory_length(10_000, gain=16.0), memory_length(10_000, gain=16.0, variation_budget=4.0)
    (200, 100)
    """
    budget = 1.0 if variation_budget is None else variation_budget
    return min(max(math.ceil(gain**0.25 * math.sqrt(horizon / budget)), 1), horizon)


def _length(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value != "auto":
        if isinstance(value, str):
            checks.refuse(field.name, value, "a positive integer, or 'auto'")
        checks.integer(field.name, value, 1)


@attrs.define(eq=False, kw_only=True, slots=False)
class MemoryPolicy(ConfidencePolicy):
    """A policy that remembers a limited number of observations.

    Parameters
    ----------
    memory
        How many; "auto" takes ceil(g_T^(1/4) sqrt(T / P_T)), which needs the horizon T. g_T is the number or the
        function given as `information_gain`, and otherwise the greedy bound, which costs T rounds once.
    variation_budget
        P_T, for "auto": the sum over rounds of the RKHS norm of f_{t+1} - f_t. Taken as 1 if not given.

    Other parameters are those of `ConfidencePolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If `memory="auto"` lacks its horizon or a gain of a kernel that forgets, or B is to be learned.
    """

    memory: int | str = attrs.field(default="auto", converter=checks.to_int, validator=_length)
    variation_budget: float | None = attrs.field(
        default=None, converter=attrs.converters.optional(checks.to_float),
        validator=attrs.validators.optional(checks.positive),
    )  # fmt: skip
    _resolved: int | None = attrs.field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.rkhs_norm == "double":
            checks.refuse("rkhs_norm", "double", "a number where observations are forgotten")
        if self.memory == "auto" and self.horizon is None:
            checks.refuse("horizon", None, "a number, for memory='auto'")
        if self.memory == "auto" and self.kernel.epsilon and self._gain == "realised":
            allowed = "a number or a function, for memory='auto' with TemporalDecay"
            checks.refuse("information_gain", self._gain, allowed)

    @property
    def memory_length(self) -> int:
        """H of restarts, w of a window: as given, or as "auto" says."""
        if self._resolved is None:
            self._resolved = int(self.memory) if self.memory != "auto" else self._automatic()
        return self._resolved

    def _automatic(self) -> int:
        assert self.horizon is not None
        if isinstance(self._gain, str):
            gain = GreedyInformationGain(self.kernel, self._finite, self.regularization)(self.horizon)
        else:
            gain = self._given_gain(self.horizon)
        return memory_length(self.horizon, gain, self.variation_budget)
