"""CONFIG, constrained efficient global optimisation. Source: Xu, Jiang, Svetozarevic & Jones 2022 (arXiv 2211.00162).

    input: a GP(m, k) of every output, parameters B, R, lambda, delta
    for t = 1, 2, ...:
        D_t = {x : UCB of g_j is at least 0 for every constraint j}                  (1)
        if D_t is empty: declare the problem infeasible                              (2)
        play x_t = argmax over D_t of the UCB of f                                   (3)
        observe f and all g_j at x_t, update their models                            (4)

The paper minimises f subject to g_j <= 0, so that its optimistic bounds are lower ones. While the bounds hold, which is
at all times with probability 1 - delta, D_t has every feasible candidate: an empty one proves that there is none.

Differs from the paper in: any width of `formulas/confidence.py`; pending points lower the standard deviation of f in
(3), but not those in (1), so that D_t depends on observations alone. Of the paper only the abstract was read; (1) to
(3) are from a summary.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies.bounded_outputs import BoundedOutputsPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.spaces import Mask


class Infeasible(RuntimeError):
    """No candidate keeps all constraints, with probability at least 1 - delta."""


@attrs.define(eq=False, kw_only=True, slots=False)
class CONFIG(BoundedOutputsPolicy):
    """Policy that plays the most optimistic candidate of those that may keep all constraints.

    The parameters are those of `BoundedOutputsPolicy`, `GaussianProcessPolicy` and `Policy`. `ask` raises `Infeasible`
    once no candidate that may be chosen can keep all constraints; the policy is unchanged then.

    Attributes
    ----------
    infeasible : bool
        Whether no candidate can keep all constraints, with probability at least 1 - delta; read only.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> limits = {"price": sb.AtMost(0.5)}
    >>> policy = sb.CONFIG(sb.Grid([[0, 1]], 21), sb.RBF(0.3), constraints=limits, noise=0.01, regularization=1e-4)
    >>> for _ in range(15):
    ...     x = policy.ask()
    ...     policy.tell(x, {"gain": x[0], "price": x[0] ** 2})
    >>> policy.best().x.tolist(), policy.infeasible
    ([0.7], False)
    """

    def choose(self, allowed: Mask | None = None) -> int:
        upper = self._upper()
        possible = self._possible(upper) if allowed is None else self._possible(upper) & allowed  # (1)
        if not possible.any():
            raise Infeasible(self._impossible(upper, allowed))  # (2)
        numbers = self._pending.numbers
        return choose(self._upper(numbers)[0] if numbers else upper[0], self._salt, possible)[0]  # (3)

    def _possible(self, upper: Floats) -> Mask:
        """Return the mask (n,) of the candidates that may keep all constraints, given bounds (1 + J, n)."""
        possible = (upper[1:] >= self._least[:, None]).all(axis=0)
        possible[self.domain.choosable :] = False  # points that were told only
        return np.asarray(possible)

    @property
    def infeasible(self) -> bool:
        with self._lock:
            return not self._possible(self._upper()).any()

    def _impossible(self, upper: Floats, allowed: Mask | None) -> str:
        """Say which constraints cannot be kept, and by how much they are missed at best."""
        among = np.arange(self.domain.choosable) if allowed is None else np.flatnonzero(allowed)
        room: Any = upper[1:, among] - self._least[:, None]
        nearest = np.argmin((np.maximum(-room, 0.0) / self._largest[1:, None]).sum(axis=0))
        alone = room.max(axis=1) < 0.0
        missed = -room.max(axis=1) if alone.any() else -room[:, nearest]
        pairs = zip(self.constraints.items(), missed.tolist(), strict=True)
        listed = "; ".join(f"{name} ({limit}) is missed by at least {by:.3g}" for (name, limit), by in pairs if by > 0)
        where = "everywhere" if alone.any() else "where least is missed, though each constraint by itself can be kept"
        which = "candidate" if allowed is None else "candidate that may be chosen"
        return f"ask: with probability {1 - self.delta:g}, no {which} keeps all constraints: {listed} {where}"
