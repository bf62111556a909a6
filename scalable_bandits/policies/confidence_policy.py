"""Base class of the policies with a confidence width that depends on B and on the information gain."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas import _numba_widths as formulas
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import WIDTHS, Width, largest_loss, named_width
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.posteriors.greedy_gain import GreedyInformationGain
from scalable_bandits.posteriors.rounds import Rule
from scalable_bandits.posteriors.state import StateEntry, number
from scalable_bandits.spaces import Domain, Mask, Points
from scalable_bandits.specification import nearest


class UnprovenWidth(UserWarning):
    """A confidence width is used where its theorem does not hold."""


def _norm(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value != "double" and not (isinstance(value, float) and 0.0 < value < np.inf):
        checks.refuse(field.name, value, "a positive number, or 'double'")


def _confidence(policy: ConfidencePolicy, field: attrs.Attribute[Any], value: Any) -> None:
    names = (*WIDTHS, *policy.own_widths)
    if not isinstance(value, str) or value not in names:
        checks.refuse(field.name, value, nearest(str(value), names))


PRACTICAL_WIDTH = 2.0  # width of a learned model on a space with more candidates than `MANY`
MANY = 1_000_000

GainGiven = str | float | Callable[[int], float]


def _checked_gain(value: Any) -> GainGiven:
    if callable(value) or (isinstance(value, str) and value in ("realised", "greedy")):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and np.isfinite(value):
        return float(value)
    checks.refuse("information_gain", value, "'realised', 'greedy', a number >= 0, or a function of the round")


def practical_width(domain: Domain, delta: float, scale: float = 1.0) -> Width:
    """Return the width of a learned model: Theorem 1's of Srinivas et al. 2010 if there are few candidates, else 2.

    Parameters
    ----------
    domain
        Numbered points of the space.
    delta
        Failure probability, which a learned model does not guarantee.
    scale
        Divisor of the squared width.
    """
    if domain.whole_box or domain.choosable > MANY:
        return Width(formulas.CONSTANT, (PRACTICAL_WIDTH / math.sqrt(scale),))
    return Width(formulas.FINITE, (domain.choosable, delta, scale))


@attrs.define(eq=False, kw_only=True, slots=False)
class ConfidencePolicy(GaussianProcessPolicy):
    """Base class of policies whose confidence width depends on B and on the information gain.

    Parameters
    ----------
    rkhs_norm
        Bound B on the RKHS norm of f. "double": 1 at first, doubled whenever the observations contradict it (Srinivas
        et al. 2010, section 4: "guess-and-doubling"; here by `confidence.largest_loss`). The last value may be smaller
        than the norm, and the width then narrower than the theorem's.
    information_gain
        Information gain in the width, in nats: "realised" (of the points played), "greedy" (upper bound over the
        space, Srinivas et al. 2010, section 5.1), a number, or a function of the number of observations in the
        posterior.
    confidence
        Name of the width: "improved" (Chowdhury & Gopalan 2017, proven for lambda >= 1), "whitehouse" (Whitehouse et
        al. 2023) or "flynn-reeb" (Flynn & Reeb 2024, the narrowest), the last two for any lambda. Not used by `GPUCB`,
        or by `SWGPUCB` with width="theorem".

    Without a kernel these are not used: B and R of a learned model are not known. The width is then that of Theorem 1
    of Srinivas et al. 2010 on finite spaces of up to a million candidates, and 2 on others, in deviations of the
    transformed y: practice, not a guarantee.

    Attributes
    ----------
    norm : float
        Present value of B: `rkhs_norm`, or the last of the doubled ones.
    gain_source : str, float or callable
        Value of the parameter `information_gain`.

    Raises
    ------
    ValueError
        If rkhs_norm="double" or information_gain="greedy" where the function changes over rounds, or rkhs_norm="double"
        where the kernel is learned.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("norm", float),
        number("_loss", float),
    )
    own_widths: ClassVar[tuple[str, ...]] = ()  # in addition to `confidence.WIDTHS`

    rkhs_norm: Any = attrs.field(default=2.0, converter=checks.to_float, validator=_norm)
    gain_source: GainGiven = attrs.field(default="realised", alias="information_gain", converter=_checked_gain)
    confidence: str = attrs.field(default="improved", validator=_confidence)
    _greedy: GreedyInformationGain | None = attrs.field(init=False, default=None, repr=False)
    _loss: float = attrs.field(init=False, default=0.0, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.gain_source == "greedy" and self.prior_kernel.epsilon:
            allowed = "'realised', a number or a function with TemporalDecay: the greedy bound is for a fixed function"
            checks.refuse("information_gain", self.gain_source, allowed)
        if self.rkhs_norm == "double" and (self.engines or self.prior_kernel.epsilon):
            checks.refuse("rkhs_norm", "double", "a number where the function changes over rounds")
        self.norm: float = 1.0 if self.rkhs_norm == "double" else self.rkhs_norm
        if self.kernel is None:
            checks.warn(f"{type(self).__name__}: its guarantees assume a known kernel; without one it is learned")
        elif self.refit is not None:
            if self.rkhs_norm == "double":
                checks.refuse(
                    "rkhs_norm", "double", "a number where the kernel is learned: each kernel has its own norm"
                )
            text = f"{type(self).__name__}: its guarantees assume a known kernel, and refit={self.refit} learns it"
            checks.warn(text)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        if self.rkhs_norm == "double" and self.kernel is not None:
            mean, variance = self.posterior_engine.at(np.array([candidate]))
            self._loss += (y - float(mean[0])) ** 2 / (float(variance[0]) + noise_variance)
            limit = functools.partial(
                largest_loss, self.rounds + 1, noise=self.noise, regularization=self.regularization, delta=self.delta
            )
            while self._loss > limit(rkhs_norm=self.norm):
                self.norm *= 2.0
        super().learn(candidate, y, noise_variance)

    def warn_where_unproven(self) -> None:
        """Warn if the width "improved" is used with a lambda for which its theorem does not hold."""
        if self.kernel is not None and self.confidence == "improved" and self.regularization < 1.0:
            checks.warn(
                f"{type(self).__name__}: the width 'improved' is proven for regularization >= 1, not for "
                f"{self.regularization:.3g}; confidence='flynn-reeb' and 'whitehouse' hold for any",
                UnprovenWidth,
            )

    @abstractmethod
    def width_formula(self) -> Width:
        """Return the width of the next rounds as a formula of round and information gain."""

    def named_width(self, delta: float) -> Width:
        """Return the width named by `confidence` with a failure probability; without a kernel the practical one."""
        if self.kernel is None:
            return practical_width(self._domain, self.delta)
        return named_width(self.confidence, delta, self.norm, self.noise, self.regularization)

    @property
    def width(self) -> float:
        """Confidence width of the next round."""
        return self.width_formula().at(self.round, self.information_gain)

    def rule(self) -> Rule | None:
        width, gain = self.width_formula(), math.nan if self.gain_source == "realised" else self.gain_source
        if callable(width.formula) or not isinstance(gain, float) or self.rkhs_norm == "double":
            return None
        return Rule(width.formula, np.array(width.constants), gain=gain)

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the width of the next round."""
        if self.gain_source == "realised":
            return self._model.information_gain
        if self.gain_source == "greedy":
            if self._greedy is None:
                some = self.space.encode(self._domain.sample(self.seed)) if self.domain.whole_box else None
                points = self._domain.model_space if some is None else Points(some)
                self._greedy = GreedyInformationGain(self.present_kernel, points, self.regularization)
            return self._greedy(self.remembered)
        return self.given_gain(self.remembered)

    def given_gain(self, count: int) -> float:
        """Return the given information gain (nats) for `count` observations; ValueError if it is invalid."""
        gain = checks.to_float(self.gain_source(count) if callable(self.gain_source) else self.gain_source)
        if not isinstance(gain, float) or not 0.0 <= gain < np.inf:
            checks.refuse("information_gain", f"{gain} for {count} observations", "a function with values >= 0, finite")
        return gain

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return UpperConfidence(self.width)
