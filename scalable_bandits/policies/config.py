"""CONFIG. Source: Xu, Jiang, Svetozarevic & Jones 2022 (arXiv 2211.00162), there for minimising with g <= 0.

    input: a GP(m, k) of every output, parameters B, R, lambda, delta
    for t = 1, 2, ...:
        D_t = {x : the UCB of g_j is at least 0 for every constraint j}              (1)
        if D_t is empty: declare the problem infeasible                              (2)
        play x_t = argmax over D_t of the UCB of f                                   (3)
        observe f and all g_j at x_t, update their models                            (4)

While the bounds hold, D_t has every feasible candidate. Differs from the paper in: pending points narrow the bounds in
(3), but not those in (1), so that D_t depends on observations alone; the widths are those of `formulas/confidence.py`.
Of the paper only the abstract was read: (1) to (3) are from a summary.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies.bounded_outputs import BoundedOutputsPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.spaces import Mask


class Infeasible(RuntimeError):
    """No candidate that may be chosen keeps all constraints, with probability at least 1 - delta."""


@attrs.define(eq=False, kw_only=True, slots=False)
class CONFIG(BoundedOutputsPolicy):
    """Policy that plays the most optimistic candidate of those that may keep all constraints.

    The parameters are those of `BoundedOutputsPolicy`, `GaussianProcessPolicy` and `Policy`. Once no candidate that may
    be chosen can keep all constraints, `ask` raises `Infeasible`; the policy is unchanged then.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> known = {"constraints": {"price": sb.AtMost(0.5)}, "noise": 0.01, "regularization": 1e-4}
    >>> policy = sb.CONFIG(sb.Grid([[0, 1]], 21), sb.RBF(0.3), **known)
    >>> for _ in range(15):
    ...     x = policy.ask()
    ...     policy.tell(x, {"gain": x[0], "price": x[0] ** 2})
    >>> policy.best().x.tolist(), policy.infeasible
    ([0.6000000000000001], False)
    """

    def choose(self, allowed: Mask | None = None) -> int:
        upper, pending = self._upper(), self._pending.numbers
        possible = self._possible(upper) & (True if allowed is None else allowed)  # (1)
        if not possible.any():
            raise Infeasible(self._misses(upper, allowed))  # (2)
        return choose(self._upper(pending)[0] if pending else upper[0], self._salt, possible)[0]  # (3)

    def _possible(self, upper: Floats) -> Mask:
        """Return the mask (n,) of the candidates that may keep all constraints, given upper bounds (1 + J, n)."""
        return np.asarray((upper[1:] >= self._least[:, None]).all(axis=0))

    @property
    def infeasible(self) -> bool:
        """Whether no candidate can keep all constraints, with probability at least 1 - delta."""
        with self._lock:
            return not self._possible(self._upper())[: self.domain.choosable].any()

    def _misses(self, upper: Floats, allowed: Mask | None) -> str:
        """Say which constraints cannot be kept, and by how much they are missed at best."""
        misses = self._least[:, None] - upper[1:, slice(None) if allowed is None else allowed]
        best, where = misses.min(axis=1), "everywhere"
        if (best <= 0.0).all():
            nearest = np.argmin((np.maximum(misses, 0.0) / self._largest[1:, None]).sum(axis=0))
            best, where = misses[:, nearest], "where least is missed; each constraint by itself can be kept"
        pairs = zip(self.constraints.items(), best.tolist(), strict=True)
        listed = "; ".join(f"{name} ({limit}) is missed by at least {by:.3g}" for (name, limit), by in pairs if by > 0)
        among = "candidate" if allowed is None else "candidate that may be chosen"
        return f"ask: no {among} keeps all constraints, at delta={self.delta:g}: {listed}, {where}"
