"""mini-GP-UCB and mini-GP-EI. Source: Calandriello et al. 2022, mini-GP-Opt with the indices of GP-UCB and of GP-EI.

    input: prior GP(m, k), noise variance lambda, factor C; for GP-UCB B, R, delta
    for h = 1, 2, ...:
        beta_h = B + R sqrt(2 (g_h + 1 + log(1 / delta))), g_h of all rounds so far              (1)
        mini-GP-UCB: choose x_h = argmax of mu_h(x) + beta_h s_h(x)                              (2)
        mini-GP-EI: choose x_h = argmax of E[max(f(x) - m_h - xi, 0)] under the posterior,       (2')
            m_h = max of mu_h over the points queried
        play x_h max(1, floor((C^2 - 1) lambda / s_h^2(x_h))) times, update mu and s             (3)

Differs from the source in: beta is the width of IGP-UCB (Chowdhury & Gopalan 2017, Theorem 2), or as `confidence` says;
the deviation in the index of mini-GP-EI is not widened.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.whole import number_of_plays
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.gpei import GPEI
from scalable_bandits.policies.igpucb import IGPUCB
from scalable_bandits.posteriors.models.repeated import RepeatedModel
from scalable_bandits.posteriors.state import StateEntry, number
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class RepeatedChoice(GaussianProcessPolicy):
    """Base class of policies that play a chosen point several times before they choose again.

    A point x is played max(1, floor((C^2 - 1) lambda / s^2(x))) times. By then no posterior deviation anywhere is
    smaller than at the choice by more than the factor C, so that the next choice is as good as one made earlier, up to
    that factor (Calandriello et al. 2022). The cost follows the number of distinct points, not of rounds.

    Parameters
    ----------
    shrinkage
        Factor C > 1. The larger it is, the fewer choices are made.

    Attributes
    ----------
    choices : int
        Number of choices whose point was observed; read only.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. A point that was not asked for may be told. If
    it is not the one that would be, it is no play of a choice, and the next point is then chosen anew, unless a chosen
    one is pending.

    Raises
    ------
    ValueError
        If the function changes over rounds, or the kernel is to be learned.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("choices", int),
        number("_present", int),
        number("_planned", int),
        number("_done", int),
    )
    continuous: ClassVar[bool] = False
    learns_kernel: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    model: RepeatedModel = attrs.field(init=False, repr=False)

    shrinkage: float = attrs.field(default=1.1, converter=checks.to_float, validator=checks.above_one)
    choices: int = attrs.field(default=0, init=False, on_setattr=attrs.setters.NO_OP)
    _present: int = attrs.field(default=-1, init=False, repr=False)  # candidate whose plays have begun, or -1
    _planned: int = attrs.field(default=0, init=False, repr=False)  # number of its plays
    _done: int = attrs.field(default=0, init=False, repr=False)  # number of those observed

    def __attrs_post_init__(self) -> None:
        if self.refit is not None:  # before the base class warns about it
            checks.refuse("refit", self.refit, "None: the posterior is updated between choices alone")
        super().__attrs_post_init__()
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: a point is played several times")
        if self._confidence.doubles:
            checks.refuse("rkhs_norm", "double", "a number: the posterior is updated between choices alone")

    def _make_model(self) -> RepeatedModel:
        return RepeatedModel(self._prior, self.domain, self._make_engine, self.regularization)

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        """Return the candidate of the last choice until it was played often enough, then choose from a mask (size,)."""
        pending = self._pending.numbers
        last = pending[-1] if pending else self._present
        if last >= 0 and (allowed is None or allowed[last]):
            present = last == self._present
            planned, begun = (self._planned, self._done) if present else (self._plays_of(last), 0)
            if begun + pending.count(last) < planned:
                return last
        return super().choose(allowed)

    def _plays_of(self, candidate: int) -> int:
        """Return how often a candidate is played if it is chosen now."""
        _, variance = self.model.engine.at(np.array([candidate]))
        return number_of_plays(self.shrinkage, self.regularization, float(variance[0]))

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        asked, self._asked = self._asked, True
        if not asked and (self._plays_of(candidate) == 1 or self.choose() != candidate):
            self.model.settle()
            super().learn(candidate, y, noise_variance)
            self.model.settle()
            self._present = -1
            return
        if candidate != self._present:
            self.model.settle()
            self._present, self._planned, self._done = candidate, self._plays_of(candidate), 0
            self.choices += 1
        super().learn(candidate, y, noise_variance)
        self._done += 1
        if self._done == self._planned:
            self.model.settle()
            self._present = -1


@attrs.define(eq=False, kw_only=True, slots=False)
class MiniGPUCB(RepeatedChoice, IGPUCB):
    """Improved GP-UCB that plays a chosen point several times before it chooses again.

    Parameters are those of `RepeatedChoice`, `IGPUCB`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If the function changes over rounds, the kernel is to be learned, or rkhs_norm="double".

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.MiniGPUCB(sb.Grid([[0, 1]], 30), sb.RBF(0.2), shrinkage=2.0)
    >>> run = sb.simulate(policy, sb.Benchmark("forrester", policy.space, sb.GaussianNoise(0.5)), 100)
    >>> policy.choices < 50
    True
    """


@attrs.define(eq=False, kw_only=True, slots=False)
class MiniGPEI(RepeatedChoice, GPEI):
    """Expected improvement, where a chosen point is played several times before the next choice.

    Parameters are those of `RepeatedChoice`, `GPEI`, `GaussianProcessPolicy` and `Policy`.
    """
