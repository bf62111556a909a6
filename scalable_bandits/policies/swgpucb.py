"""SW-GP-UCB. Source: Zhou & Shroff 2021, Algorithm 2 and Theorem 2.

    input: prior GP(m, k), parameters B, R, lambda, delta, window size w
    for t = 1, 2, ...:
        beta_t = B + R sqrt(2 (g_{min(t, w)} + 1 + log(1 / delta)))                       (1)
            or, of the theorem, B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta))         (1')
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x)                              (2)
        observe y_t, update mu_t and s_t with the last w observations                     (3)

Differs from the paper in: g is the realised information gain of the observations in the window unless asked otherwise.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import sliding_theorem
from scalable_bandits.policies.limited_memory import MemoryPolicy
from scalable_bandits.posteriors import Engine, SlidingWindowEngine

LARGEST_WINDOW = 1e9  # numbers held: 8 GB


def _kind(value: Any) -> str:
    if value in ("algorithm", "theorem"):
        return str(value)
    checks.refuse("width", value, "'algorithm' or 'theorem'")


@attrs.define(eq=False, kw_only=True, slots=False)
class SWGPUCB(MemoryPolicy):
    """Sliding-window GP-UCB: improved GP-UCB on the last `memory` observations.

    Parameters
    ----------
    width
        "algorithm": the width of Algorithm 2. "theorem": that of Theorem 2, which needs the horizon.

    Other parameters are those of `MemoryPolicy`, `ConfidencePolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If the theorem's width lacks its horizon, or the window on so many candidates would take more than 8 GB.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.SWGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), memory=2)
    >>> policy.tell([0.0, 0.5, 1.0], [3.0, 2.0, 1.0])
    >>> policy.remembered, policy.best().x.tolist()
    (2, [0.5])
    """

    engines: ClassVar[tuple[str, ...]] = ("sliding",)

    _width: str = attrs.field(default="algorithm", alias="width", converter=_kind)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._width == "theorem" and self.horizon is None:
            checks.refuse("horizon", None, "a number, for width='theorem'")
        if self.memory != "auto":
            self._check_window()

    def _check_window(self) -> None:
        w = self.memory_length
        if w * (w + self._finite.size) > LARGEST_WINDOW:
            checks.refuse(
                "memory", w, f"w with w (w + candidates) up to {LARGEST_WINDOW:.0e}: so many numbers are held"
            )

    def fresh_engine(self, points: Floats, prior_mean: Floats) -> Engine:
        self._check_window()
        return SlidingWindowEngine(self.kernel, points, prior_mean, self.memory_length)  # (3)

    @property
    def remembered(self) -> int:
        return min(self.rounds, self.memory_length)

    @property
    def width(self) -> float:
        """beta_t of the round to come."""
        gain = self.information_gain
        if self._width == "theorem":
            assert self.horizon is not None
            return sliding_theorem(
                gain, self.delta, self.rkhs_norm, self.noise, self.regularization, self.horizon
            )  # (1')
        return self._width_for(gain, self.delta)  # (1)
