"""CKB, kernelised bandits with soft constraints. Source: Zhou & Ji 2022 (NeurIPS), the rule with upper bounds.

    input: a GP(m, k) of every output, parameters B, R, lambda, delta, horizon T, largest dual variable rho
    phi_1 = 0; G = largest |g| that the norm allows; V = G sqrt(T) / rho
    for t = 1, 2, ...:
        f^_t = UCB of f, g^_t = LCB of g, cut to what the norms allow                (1)
        play x_t = argmax of f^_t(x) - phi_t g^_t(x)                                 (2)
        phi_{t+1} = phi_t + g^_t(x_t) / V, cut to [0, rho]                           (3)
        observe f and g at x_t, update their models                                  (4)

Here g <= 0 is to be kept. The constraint is soft: it is violated in some rounds, and the sum of g(x_t) stays of lower
order than T. In this package's sign (`bounded_outputs.py`) g is -g_j, so that g^_t is minus the UCB of g_j.

Differs from the paper in: it has one constraint; several have a dual variable each, with G and V of their own, and
(2) subtracts the sum. The paper has k(x, x) <= 1 and cuts to [-B, B]; here |f - m| <= B sqrt(max of k(x, x)), and G is
this bound for g. (3) is done when the values of x_t are told, with the bounds just before they are learned: with
points pending these are not the bounds with which x_t was chosen. A failure, and a point that was told without having
been asked for, leave phi as it is. Of the paper only the abstract was read; (1) to (3) are from a summary.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.bounded_outputs import BoundedOutputsPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.state import StateEntry, value
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class CKB(BoundedOutputsPolicy):
    """Primal-dual policy for soft constraints, which keeps them on average over the rounds.

    Parameters
    ----------
    rho
        Largest dual variable, in units of the objective per unit of an output. If some candidate keeps a limit with a
        slack, the optimal dual variable is at most 2 B / slack for kernels with k(x, x) <= 1; rho should be larger.
    horizon
        Number of rounds T, which has to be given.

    Other parameters are those of `BoundedOutputsPolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If there is no horizon.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> known = {"constraints": {"price": sb.AtMost(0.3)}, "noise": 0.01, "regularization": 1e-4}
    >>> policy = sb.CKB(sb.Grid([[0, 1]], 21), sb.RBF(0.3), horizon=60, rho=8.0, **known)
    >>> prices = []
    >>> for _ in range(60):
    ...     x = policy.ask()
    ...     policy.tell(x, {"gain": x[0], "price": x[0]})
    ...     prices.append(x[0])
    >>> 0.2 < sum(prices[30:]) / 30 < 0.4
    True
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        value("duals", "(J,)", np.float64, lambda self: self._duals, lambda self, held: self._set_duals(held)),
    )

    rho: float = attrs.field(converter=checks.to_float, validator=checks.positive)
    _duals: Floats = attrs.field(init=False, repr=False)  # replaced and never changed

    def __attrs_post_init__(self) -> None:
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the steps of the dual variables depend on it")
        super().__attrs_post_init__()
        self._set_duals(np.zeros(len(self.constraints)))

    @property
    def dual_variables(self) -> dict[str, float]:
        """Present dual variables phi by output, in units of the objective per unit of the output."""
        return dict(zip(self.constraints, self._duals.tolist(), strict=True))

    def _set_duals(self, duals: Floats) -> None:
        self._duals = np.array(duals, dtype=np.float64)

    def choose(self, allowed: Mask | None = None) -> int:
        upper = self._upper(self._pending.numbers)
        index = self._cut_objective(upper[0]) + self._duals @ self._cut_others(upper[1:])
        return choose(index, self._salt, allowed)[0]  # (2)

    def _cut_objective(self, upper: Floats) -> Floats:
        """Return bounds (n,) of the objective, cut to what its norm allows (1)."""
        center, largest = self.model.constant_mean, self._largest[0]
        mean = self.model.prior_mean(self.domain.coordinates()) if center is None else center
        return np.clip(upper, mean - largest, mean + largest)

    def _cut_others(self, upper: Floats) -> Floats:
        """Return bounds (J, k) of the outputs minus their limits, -g^, cut to what the norms allow (1)."""
        largest = self._largest[1:, None]
        return np.clip(upper - self._least[:, None], -largest, largest)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        if self._asked:
            mean, half = self._moments_at([candidate])
            violation = -self._cut_others((mean + half)[1:])[:, 0]
            V = self._largest[1:] * np.sqrt(self.horizon or 1) / self.rho
            self._set_duals(np.clip(self._duals + violation / V, 0.0, self.rho))  # (3)
        super().learn(candidate, y, noise_variance)  # (4)
