"""LoSBO, Lipschitz-only safe optimisation. Source: Fiedler, Menn, Kreiskoether & Trimpe 2024 (TMLR).

    input: GP(m, k), width beta, threshold h, safe start S_1, Lipschitz constant L, noise bound E
    for t = 1, 2, ...:
        l_t, u_t = mu_{t-1} -+ beta s_{t-1}, w_t = u_t - l_t                                    (1)
        M_t = {x in S_t : u_t(x) >= max over S_t of l_t}                                        (2)
        G_t = {x in S_t : u_t(x) - L |x - x'| >= h for some x' outside S_t}                     (3)
        play x_t = argmax of w_t(x) over the union of M_t and G_t                               (4)
        observe y_t, update mu_t and s_t                                                        (5)
        S_{t+1} = S_t and all x' with y_t - E - L |x_t - x'| >= h                               (6)

Since f(x') >= f(x_t) - L |x_t - x'| and f(x_t) >= y_t - E, no candidate with f < h is evaluated, with certainty and
whatever the kernel, if the start is safe, |noise| <= E, and L is a Lipschitz constant of f. The model only chooses
inside S_t.

Differs from the paper in: a measurement with a standard deviation of its own has E in proportion to it. Of the paper
only the abstract was read; the sets (2) and (3), the choice (4) and the constant width are those of the authors'
program, where S_t is made of (6) alone, without the start. There are no constraints on other outputs.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.policies.safe import SafePolicy, width_field
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class LoSBO(SafePolicy):
    """Safe optimisation that certifies candidates by a Lipschitz constant and a noise bound, not by the model.

    Parameters
    ----------
    lipschitz
        Lipschitz constant L of f, in units of y per unit of x, as in `SafePolicy`.
    noise_bound
        Bound E on the absolute value of the noise, in units of y.
    width
        Confidence width beta, which affects the choices inside the safe set and not their safety; None for the width
        named by `confidence`.

    Other parameters are those of `SafePolicy`, `GaussianProcessPolicy` and `Policy`, without constraints.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space, start = sb.Grid([[0, 1]], 11), [0.5]
    >>> policy = sb.LoSBO(space, sb.RBF(0.3), threshold=0.0, safe_start=start, lipschitz=2.0, noise_bound=0.1)
    >>> policy.tell(start, 0.55)
    >>> policy.safe.nonzero()[0].tolist()
    [3, 4, 5, 6, 7]
    """

    _certifies_by_width: ClassVar[bool] = False

    lipschitz: float = attrs.field(converter=checks.to_float, validator=checks.positive)
    noise_bound: float = attrs.field(converter=checks.to_float, validator=checks.nonnegative)
    _width: float | None = width_field(2.0)

    def choose(self, allowed: Mask | None = None) -> int:
        return self._least_known(allowed)  # (1) to (4)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        lowest = y - self.noise_bound * math.sqrt(noise_variance / self.regularization)
        reached = self._reached(np.array([candidate]), np.array([lowest]), np.arange(self.domain.size))[0]
        super().learn(candidate, y, noise_variance)
        self._set_safe(self._safe | reached, True)  # (6)

    def _certify(self) -> None:
        """Certify nothing by the posterior."""
