"""GP-TS. Source: Chowdhury & Gopalan 2017, Algorithm 2 and Theorem 4.

    input: prior GP(m, k), parameters B, R, lambda, delta
    for t = 1, 2, ...:
        v_t = B + R sqrt(2 (g_{t-1} + 1 + log(2 / delta)))                    (1)
        draw f_t from GP(mu_{t-1}, v_t^2 k_{t-1}), jointly over D_t           (2)
        play x_t = argmax of f_t over D_t                                     (3)
        observe y_t, update mu_t and k_t                                      (4)

Differs from the paper in: D_t is the available part of a finite space, or the whole box, not a discretisation that
grows with t; g is the realised information gain unless `information_gain` says otherwise (`confidence` has sharper
widths); on large spaces and boxes the draw of the prior has finitely many features (`policies/sample_paths.py`).
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain
from scalable_bandits.policies.sample_paths import SamplePathPolicy
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class GPTS(SamplePathPolicy):
    """Gaussian-process Thompson sampling.

    Parameters
    ----------
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `SamplePathPolicy`, `GaussianProcessPolicy` and `Policy`.

    Notes
    -----
    On a `Pool` each round has its own path of the posterior given the observations alone, and chooses its best
    candidate that is not taken; the paths of a batch are evaluated in one pass.

    Raises
    ------
    ValueError
        If engine, samples and basis do not fit each other, the kernel or the number of candidates.
    """

    pools: ClassVar[bool] = True
    _repeats: ClassVar[bool] = True

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()

    def width_formula(self) -> Width:
        return Width.constant(1.0) if self.kernel is None else self._confidence.width(self.delta / 2.0)  # (1)

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        if self.kernel is None:
            first, allowed = self._worth_measuring(allowed)
            if first is not None:
                return first
        if self.space.scanned:
            return self.choice_of_path()
        return self.highest_of_path(self.width, allowed)[0]  # (2), (3)
