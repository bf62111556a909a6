"""GP-UCB. Source: Srinivas et al. 2010, Algorithm 1 and Theorems 1-3.

    input: prior GP(m, k), noise variance lambda, delta
    for t = 1, 2, ...:
        beta_t by Theorem 1 (finite D), 2 (continuous D) or 3 (RKHS), divided by `scale`     (1)
        play x_t = argmax of mu_{t-1}(x) + sqrt(beta_t) s_{t-1}(x)                           (2)
        observe y_t, update mu_t and s_t                                                     (3)

Differs from the paper in: gamma_{t-1} in Theorem 3 is the realised information gain unless `information_gain` says
otherwise.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas._numba_widths import CONTINUOUS, FINITE, RKHS
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.confidence import GAIN, NAME, NORM, Gain, practical_width
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy

# Fields of the policies with such a width.
THEOREM: Any = attrs.field(default=None, validator=checks.one_of((1, 2, 3, None)))
SCALE: Any = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
CONSTANTS: Any = attrs.field(default=(1.0, 1.0))  # a pair of numbers, which `checked_theorem` checks


@attrs.define(eq=False, kw_only=True, slots=False)
class GPUCB(GaussianProcessPolicy):
    """GP-UCB, with the width of one of its three theorems.

    Parameters
    ----------
    theorem
        Number of the theorem: 1 for f drawn from the prior on a finite space, 2 for f drawn from the prior on a box or
        grid, with `constants`, 3 for f of RKHS norm at most `rkhs_norm`. None: 2 on a whole box and 1 elsewhere;
        without a kernel the practical width of `Confidence`.
    scale
        Divisor of beta_t; 5 in the paper's experiments.
    constants
        Pair (a, b) in Theorem 2: partial derivatives of f exceed L with probability at most a exp(-(L / b)^2).
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If the theorem does not hold for the space, or the constants are not positive with a > delta / (4 d).
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    pools: ClassVar[bool] = True
    _repeats: ClassVar[bool] = True
    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = NAME
    theorem: int | None = THEOREM
    scale: float = SCALE
    constants: tuple[float, float] = CONSTANTS

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.kernel is not None or self.theorem is not None:
            self.theorem = checked_theorem(self)

    def width_formula(self) -> Width:
        if self.kernel is None and self.theorem is None:
            return practical_width(self.domain, self.delta, self.scale)
        return theorem_width(self)


def checked_theorem(policy: Any) -> int:
    """Return the number of the theorem of a policy's width, None resolved.

    Parameters
    ----------
    policy
        Policy with the parameters `theorem` and `constants` of `GPUCB`.

    Raises
    ------
    ValueError
        If the theorem does not hold for the space, or the constants are not positive with a > delta / (4 d).

    """
    theorem, constants = policy.theorem, policy.constants
    finite = not policy.domain.by_visit or 0 < _candidates(policy) <= sys.float_info.max
    if theorem is None:
        theorem = 1 if finite else 2
    if theorem == 1 and not finite:
        checks.refuse("theorem", 1, "2 or 3 on a whole box (1 is for finite spaces, such as `candidates` points)")
    if theorem == 2 and policy.space.cube is None:
        checks.refuse("theorem", 2, "1 or 3 on a space without bounds (2 is for boxes and grids)")
    pair = checks.finite("constants", constants)
    if pair.shape != (2,) or pair.min() <= 0:
        checks.refuse("constants", constants, "two positive numbers (a, b)")
    least = policy.delta / (4.0 * policy.space.model_dimension)
    if theorem == 2 and pair[0] <= least:
        checks.refuse("constants", constants, f"a above delta / (4 d) = {least:.3g}, for Theorem 2")
    return int(theorem)


def _candidates(policy: Any) -> int:
    """Return |D| of a finite set of candidates, a grid or a pool; 0 for a whole box or space of named parameters."""
    listed = policy.space.lattice is not None or policy.space.scanned
    return int(policy.space.size if policy.domain.by_visit and listed else policy.domain.choosable)


def theorem_width(policy: Any) -> Width:
    """Return the width sqrt(beta_t / scale) of a policy.

    Parameters
    ----------
    policy
        Policy with the parameters `theorem`, `scale` and `constants` of `GPUCB`.
    """
    space, delta, scale = policy.space, policy.delta, policy.scale
    if policy.theorem == 1:
        return Width(FINITE, (float(_candidates(policy)), delta, scale))  # (1)
    if policy.theorem == 2:
        largest = float(space.side_lengths.max())
        return Width(CONTINUOUS, (space.model_dimension, delta, *policy.constants, largest, scale))  # (1)
    return Width(RKHS, (delta, policy.norm, scale))  # (1)
