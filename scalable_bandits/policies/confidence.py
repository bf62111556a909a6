"""Confidence of a policy: what its parameters `rkhs_norm`, `information_gain` and `confidence` mean for its width.

A policy that has these parameters declares them as this file does; the base class makes its `Confidence` of them:

    class IGPUCB(GaussianProcessPolicy):
        rkhs_norm: float | str = NORM
        _gain_source: Gain = GAIN
        confidence: str = NAME
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas import _numba_widths as formulas
from scalable_bandits.formulas.confidence import WIDTHS, Width, largest_loss, named_width
from scalable_bandits.posteriors.greedy_gain import GreedyInformationGain
from scalable_bandits.posteriors.models.model import Model
from scalable_bandits.posteriors.state import StateEntry, Stateful, number
from scalable_bandits.spaces import Domain, Points
from scalable_bandits.specification import check_name

PRACTICAL_WIDTH = 2.0  # width of a learned model on a space with more candidates than `MANY`
MANY = 1_000_000

Gain = str | float | Callable[[int], float]


class UnprovenWidth(UserWarning):
    """A confidence width is used where its theorem does not hold."""


def _norm(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value != "double" and not (isinstance(value, float) and 0.0 < value < np.inf):
        checks.refuse(field.name, value, "a positive number, or 'double'")


def _checked_gain(value: Any) -> Gain:
    if callable(value) or (isinstance(value, str) and value in ("realised", "greedy")):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and np.isfinite(value):
        return float(value)
    allowed = "'realised', 'greedy', a number >= 0, or a function of the number of observations"
    checks.refuse("information_gain", value, allowed)


def width_name(*own: str, default: str = "improved") -> Any:
    """Declare the parameter `confidence` of a policy, with the names of its own widths."""

    def check(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        check_name(field.name, value, (*WIDTHS, *own))

    return attrs.field(default=default, validator=check)


# Fields of the policies with a confidence.
NORM: Any = attrs.field(default=2.0, converter=checks.to_float, validator=_norm)
GAIN: Any = attrs.field(default="realised", alias="information_gain", converter=_checked_gain)
NAME: Any = width_name()


def warn_where_unproven(policy: str, regularization: float, otherwise: str = "") -> None:
    """Warn if the width "improved" is used with a lambda for which its theorem does not hold.

    Parameters
    ----------
    policy
        Name of the policy's class.
    regularization
        lambda, in squared units of y.
    otherwise
        End of the message: what else a user can do.
    """
    if regularization < 1.0:
        text = f"the width 'improved' is proven for regularization >= 1, not for {regularization:.3g}"
        checks.warn(f"{policy}: {text}{otherwise}", UnprovenWidth)


@attrs.define(eq=False)
class Confidence(Stateful):
    """Bound on the RKHS norm, information gain and named width of a policy; without arguments of one that has none.

    Parameters
    ----------
    norm
        Present value of the bound B on the RKHS norm of f, the policy's `rkhs_norm`.
    doubles
        Whether `rkhs_norm` is "double": B is 1 at first, and doubled whenever the observations contradict it (Srinivas
        et al. 2010, section 4: "guess-and-doubling"; here by `largest_loss`). The last value may be smaller than the
        norm, and the width then narrower than the theorem's.
    gain
        Information gain in the width, in nats, the policy's `information_gain`: "realised" (of the points played),
        "greedy" (upper bound over the space, Srinivas et al. 2010, section 5.1), a number, or a function of the number
        of observations in the posterior.
    name
        Name of the width, the policy's `confidence`: "improved" (Chowdhury & Gopalan 2017, proven for lambda >= 1),
        "whitehouse" (Whitehouse et al. 2023) or "flynn-reeb" (Flynn & Reeb 2024, the narrowest), the last two for any
        lambda. Policies with a theorem's width do not use it.
    policy
        Name of the policy's class, for messages.
    noise, regularization, delta, seed
        Parameters of the policy.
    practical
        Width where no kernel is given, since B and R of a learned model are not known: that of Theorem 1 of Srinivas et
        al. 2010 on finite spaces of up to a million candidates, and 2 on others, in deviations of the transformed y. It
        is practice, not a guarantee.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (number("norm", float), number("_loss", float))

    norm: float = 0.0
    doubles: bool = False
    gain: Gain = "realised"
    name: str = "improved"
    policy: str = ""
    noise: float = 1.0
    regularization: float = 1.0
    delta: float = 0.1
    seed: int = 0
    practical: Width | None = None
    _loss: float = attrs.field(init=False, default=0.0)
    _greedy: GreedyInformationGain | None = attrs.field(init=False, default=None)

    @classmethod
    def of(cls, policy: Any) -> Self:
        """Return the confidence of a policy.

        Parameters
        ----------
        policy
            Policy with a Gaussian-process model, and with the parameters of this file or without them.

        Raises
        ------
        ValueError
            If rkhs_norm="double" where observations are forgotten, information_gain="greedy" with TemporalDecay, or
            rkhs_norm="double" where the kernel is learned.
        """
        if not hasattr(policy, "_gain_source"):
            return cls()
        name, gain, doubles = type(policy).__name__, policy._gain_source, policy.rkhs_norm == "double"
        if gain == "greedy" and policy._prior_kernel.epsilon:
            allowed = "'realised', a number or a function with TemporalDecay: the greedy bound is for a fixed function"
            checks.refuse("information_gain", gain, allowed)
        if doubles and policy._forgets:
            checks.refuse("rkhs_norm", "double", "a number where observations are forgotten")
        if doubles and policy.kernel is not None and policy.refit is not None:
            allowed = "a number where the kernel is learned: each kernel has its own norm"
            checks.refuse("rkhs_norm", "double", allowed)
        if policy.kernel is None:
            if not policy.space.scanned:  # on a pool that is the usual way, of which no guarantee is expected
                checks.warn(f"{name}: its guarantees assume a known kernel; without one it is learned")
        elif policy.refit is not None:
            checks.warn(f"{name}: its guarantees assume a known kernel, and refit={policy.refit} learns it")
        known = policy.noise, policy.regularization, policy.delta, policy.seed
        practical = practical_width(policy.domain, policy.delta) if policy.kernel is None else None
        return cls(1.0 if doubles else policy.rkhs_norm, doubles, gain, policy.confidence, name, *known, practical)

    def warn_where_unproven(self) -> None:
        """Warn if the width "improved" is used with a lambda for which its theorem does not hold."""
        if self.practical is None and self.name == "improved":
            hold = "; confidence='flynn-reeb' and 'whitehouse' hold for any"
            warn_where_unproven(self.policy, self.regularization, hold)

    def width(self, delta: float) -> Width:
        """Return the width named by `confidence` with a failure probability; without a kernel the practical one."""
        return self.practical or named_width(self.name, delta, self.norm, self.noise, self.regularization)

    def information_gain(self, model: Model, count: int) -> float:
        """Return the information gain (nats) of so many observations: given, or else the greedy bound for a model.

        Raises
        ------
        ValueError
            If the given function of the number of observations returns an invalid value.
        """
        if not isinstance(self.gain, str):
            found = checks.to_float(self.gain(count) if callable(self.gain) else self.gain)
            if not isinstance(found, float) or not 0.0 <= found < np.inf:
                allowed = "a function with values >= 0, finite"
                checks.refuse("information_gain", f"{found} for {count} observations", allowed)
            return found
        if (greedy := self._greedy) is None:
            domain = model.domain
            some = Points(domain.space.encode(domain.sample(self.seed))) if domain.by_visit else domain.model_space
            greedy = GreedyInformationGain(model.kernel, some, self.regularization)
            self._greedy = greedy if self.gain == "greedy" else None  # every round asks for it, not a horizon alone
        return greedy(count)

    def expect(self, y: float, mean: float, variance: float, noise_variance: float, rounds: int) -> None:
        """Double B until the predictions of so many observations do not contradict it, the last one included.

        Parameters
        ----------
        y, noise_variance
            Observation and its noise variance, in units of y and squared ones.
        mean, variance
            Posterior mean and variance at its point, before it is learned.
        rounds
            Number of observations.
        """
        self._loss += (y - mean) ** 2 / (variance + noise_variance)
        while self._loss > largest_loss(rounds, self.norm, self.noise, self.regularization, self.delta):
            self.norm *= 2.0


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
    if domain.by_visit or domain.choosable > MANY:
        return Width.constant(PRACTICAL_WIDTH / math.sqrt(scale))
    return Width(formulas.FINITE, (domain.choosable, delta, scale))
