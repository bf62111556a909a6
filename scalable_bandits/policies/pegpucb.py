"""PE-GP-UCB, prior elimination. Source: Ziomek, Adachi & Osborne 2025, Algorithm 1 and Theorem 4.1 (A).

    input: candidate priors U, one of them true; R, delta
    for t = 1, 2, ...:
        for every p in U: fit its Gaussian process to all data                              (line 4)
        beta_t = sqrt(2 log(2 |D| pi^2 t^2 / delta)), xi_t = 2 R^2 log(|U| pi^2 t^2 / delta)
        play (x_t, p_t) = argmax over x in X_t and p in U of mu_p(x, t) + beta_t s_p(x, t)  (line 7)
        observe y_t; S = the rounds played by p_t so far                                    (line 8)
        eta_t = y_t - mu_{t-1}(x_t) under p_t                                               (line 11)
        if |sum over S of eta_i| > sqrt(xi_t |S|) + sum over S of beta_i s_{i-1}(x_i):      (line 12)
            take p_t out of U                                                               (line 13)

Differs from the paper in: line 12 has s_{i-1}, as in the paper's proof (the algorithm there has s_i); p_t is the prior
of largest upper confidence bound at x_t when y_t is told, which is the prior that proposed x_t if each point is told
before the next `ask`; a measurement with its own noise counts in |S| by its noise variance over lambda.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.rounds import Columns
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Mask


class PriorsExhausted(RuntimeError):
    """Every prior has been rejected: none of them explains the observations."""


@attrs.define(eq=False, kw_only=True, slots=False)
class PEGPUCB(UnknownPriorPolicy):
    """Prior elimination GP-UCB: optimistic over candidates and priors, rejecting priors with too large errors.

    Parameters
    ----------
    on_exhaustion
        Action of `ask` once every prior has been rejected: "raise" raises `PriorsExhausted`; "warn" warns once and
        continues with the prior that was rejected last.

    Other parameters are those of `UnknownPriorPolicy` and `Policy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> priors = [sb.Prior("low", sb.RBF(0.2), mean=0.0), sb.Prior("high", sb.RBF(0.2), mean=50.0)]
    >>> policy = sb.PEGPUCB(sb.Grid([[0, 1]], 20), priors, noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.3)
    >>> policy.surviving, policy.rejections["high"].round
    (('low',), 1)
    """

    compiled_rule: ClassVar[int | None] = numba_priors.ELIMINATION  # lines 8, 11-13

    on_exhaustion: str = attrs.field(default="raise", validator=checks.one_of(("raise", "warn")))
    _warned_of_exhaustion: bool = attrs.field(init=False, default=False, repr=False)

    def choose(self, allowed: Mask | None = None) -> int:
        if self.exhausted:
            self._report_exhaustion()
        candidates, uppers = zip(*self.proposals(self._playing, allowed), strict=True)
        return candidates[choose(np.array(uppers), self._salt, numbers=np.array(candidates))[0]]  # line 7

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        if self.exhausted:
            self._report_exhaustion()
        return super()._play(table, noise, available)

    def _report_exhaustion(self) -> None:
        """Raise or warn that no prior is left; `tell` does not call it, so as not to fail where warnings are errors."""
        if self.on_exhaustion == "raise":
            raise PriorsExhausted(
                f"{self._rejections_text()}. Give other priors, or on_exhaustion='warn' to continue with the last"
            )
        if not self._warned_of_exhaustion:
            self._warned_of_exhaustion = True
            last = self.priors[self._playing[0]].name
            checks.warn(f"{self._rejections_text()}; continuing with {last!r}")

    @property
    def exhausted(self) -> bool:
        """Whether every prior has been rejected."""
        return bool(numba_priors.exhausted(self.tally))

    def _rejections_text(self) -> str:
        rejected = (
            f"{name!r} in round {r.round} (errors {r.statistic:.4g}, bound {r.bound:.4g})"
            for name, r in self.rejections.items()
        )
        return f"PEGPUCB: no prior is left, none explains the observations; rejected: {', '.join(rejected)}"
