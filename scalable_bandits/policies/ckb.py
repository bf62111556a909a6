"""CKB with upper confidence bounds. Source: Zhou & Ji 2022, "On kernelized multi-armed bandits with constraints".

    input: a GP(m, k) of every output, parameters B, R, lambda, delta, horizon T, largest dual variable rho
    phi_1 = 0; G: largest |g| that the norm allows; V = G sqrt(T) / rho
    for t = 1, 2, ...:
        f^_t = UCB of f, g^_t = LCB of g, cut to what the norms allow                (1)
        play x_t = argmax of f^_t(x) - phi_t g^_t(x)                                 (2)
        observe f and g at x_t, update their models                                  (3)
        phi_{t+1} = phi_t + g^_t(x_t) / V, cut to [0, rho]                           (4)

The constraint g <= 0 is soft: rounds may violate it, and the sum of g(x_t) is of lower order than T. In the sign of
`bounded_outputs.py` g is -g_j, so that g^_t is minus the UCB of g_j.

Differs from the paper in: it has one constraint; here each has phi, G and V of its own, and (2) subtracts the sum. It
has k(x, x) <= 1 and cuts to [-B, B]; here |f - m| and |g| are at most B sqrt(max k(x, x)), and G is that of g. (4) is
done when values are told, with the bounds just before they are learned. Failures, and points told without being asked
for, leave phi as it is. Of the paper only the abstract was read: (1), (2) and (4) are from a summary.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies.bounded_outputs import BoundedOutputsPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.state import StateEntry, array
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class CKB(BoundedOutputsPolicy):
    """Primal-dual policy for soft constraints, which are kept on average over the rounds.

    Parameters
    ----------
    rho
        Largest dual variable, in units of the objective per unit of an output. Where a candidate keeps the limit with
        some slack, the best dual variable is at most 2 B sqrt(max k(x, x)) / slack, and rho should be larger.
    horizon
        Number of rounds T, on which the steps of the dual variables depend.

    Other parameters are those of `BoundedOutputsPolicy`, `GaussianProcessPolicy` and `Policy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> limits = {"price": sb.AtMost(0.5)}
    >>> policy = sb.CKB(sb.Grid([[0, 1]], 21), sb.RBF(0.3), constraints=limits, horizon=60, rho=8.0)
    >>> policy.tell(policy.ask(), {"gain": 0.3, "price": 0.2})
    >>> policy.dual_variables
    {'price': 0.0}
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (array("_duals", "(J,)"),)

    horizon: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))
    rho: float = attrs.field(converter=checks.to_float, validator=checks.positive)
    _duals: Floats = attrs.field(  # (J,)
        default=attrs.Factory(lambda self: np.zeros(len(self.constraints)), takes_self=True), init=False, repr=False
    )

    @property
    def dual_variables(self) -> dict[str, float]:
        """Present dual variables phi by output, in units of the objective per unit of the output."""
        return dict(zip(self.constraints, self._duals.tolist(), strict=True))

    def choose(self, allowed: Mask | None = None) -> int:
        upper = np.add(*self._intervals(self._pending.numbers))
        mean, largest = self.model.prior_mean(self.domain.coordinates()), self._largest[0]
        index = np.clip(upper[0], mean - largest, mean + largest) - self._duals @ self._violations(upper)  # (1)
        return choose(index, self._salt, allowed)[0]  # (2)

    def _violations(self, upper: Floats) -> Floats:
        """Return g^ (J, k), given upper bounds (1 + J, k) of all outputs (1)."""
        return np.clip(self._least[:, None] - upper[1:], -self._largest[1:, None], self._largest[1:, None])

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        violations = self._violations(np.add(*self._intervals()))[:, candidate]
        super().learn(candidate, y, noise_variance)  # (3)
        if self._asked:
            V = self._largest[1:] * np.sqrt(self.horizon) / self.rho
            self._duals = np.clip(self._duals + violations / V, 0.0, self.rho)  # (4)
