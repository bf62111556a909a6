"""CONFIG. Source: Xu, Jiang, Svetozarevic & Jones 2022 (arXiv 2211.00162), there for minimising with g <= 0.

    input: a GP(m, k) of every output, parameters B, R, lambda, delta
    for t = 1, 2, ...:
        D_t = {x : the UCB of g_j is at least 0 for every constraint j}              (1)
        if D_t is empty: declare the problem infeasible                              (2)
        play x_t = argmax over D_t of the UCB of f                                   (3)
        observe f and all g_j at x_t, update their models                            (4)

While the bounds hold, D_t has every feasible candidate. Differs from the paper in: pending points narrow the bounds in
(3), but not those in (1). Of the paper only the abstract was read: (1) to (3) are from a summary.
"""

from __future__ import annotations

import attrs
import numpy as np

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
    >>> policy = sb.CONFIG(sb.Grid([[0, 1]], 21), sb.RBF(0.3), constraints={"price": sb.AtMost(0.5)})
    >>> policy.tell([0.4], {"gain": 0.4, "price": 0.16})
    >>> policy.best().x.tolist(), policy.infeasible
    ([0.4], False)
    """

    def choose(self, allowed: Mask | None = None) -> int:
        possible = self._possible() if allowed is None else self._possible() & allowed  # (1)
        if not possible.any():
            raise Infeasible(self._misses(allowed))  # (2)
        return choose(np.add(*self._intervals(self._pending.numbers))[0], self._salt, possible)[0]  # (3)

    def _possible(self) -> Mask:
        """Return the mask (n,) of the points that may keep all constraints."""
        return np.asarray((np.add(*self._intervals())[1:] >= self._least[:, None]).all(axis=0))

    @property
    def infeasible(self) -> bool:
        """Whether no candidate can keep all constraints, with probability at least 1 - delta."""
        with self._lock:
            return not self._possible()[: self.domain.choosable].any()

    def _misses(self, allowed: Mask | None) -> str:
        """Say which constraints cannot be kept, and by how much they are missed at best."""
        misses = (self._least[:, None] - np.add(*self._intervals())[1:])[:, slice(None) if allowed is None else allowed]
        best, where = misses.min(axis=1), "everywhere"
        if (best <= 0.0).all():
            nearest = np.argmin((np.maximum(misses, 0.0) / self._largest[1:, None]).sum(axis=0))
            best, where = misses[:, nearest], "where least is missed; each constraint by itself can be kept"
        pairs = zip(self.constraints.items(), best.tolist(), strict=True)
        listed = "; ".join(f"{name} ({limit}) is missed by at least {by:.3g}" for (name, limit), by in pairs if by > 0)
        return f"ask: no candidate that may be chosen keeps all constraints, at delta={self.delta:g}: {listed}, {where}"
