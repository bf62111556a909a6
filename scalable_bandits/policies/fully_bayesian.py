"""Fully Bayesian GP-UCB, which averages over all priors. Source: Ziomek et al. 2025, section 7 (a baseline).

    for t = 1, 2, ...:
        P(p) proportional to the marginal likelihood of all data under p (a uniform hyperprior)     (1)
        play x_t = argmax of sum over p in U of P(p) (mu_p(x, t) + beta_t s_p(x, t))                (2)
        observe y_t, update all priors                                                              (3)

An observation is credited to every prior by its probability.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.prior_model import PriorShard
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class FullyBayesianGPUCB(UnknownPriorPolicy):
    """Upper confidence bound averaged over the priors by their posterior probabilities.

    Parameters are those of `UnknownPriorPolicy` and `Policy`. `posterior` and `best` use the mixture of all priors.
    """

    compiled_rule: ClassVar[int | None] = numba_priors.AVERAGE

    def belief(self) -> Floats:
        """Return the posterior probabilities (|U|,) of the priors."""
        weights: Floats = numba_priors.belief(self.tally.evidence)  # (1)
        return weights

    @property
    def plays(self) -> dict[str, float]:
        """Observations credited to each prior: the sum of its probabilities."""
        return {prior.name: float(count) for prior, count in zip(self.priors, self.tally.counts, strict=True)}

    def choose(self, allowed: Mask | None = None) -> int:
        weights = self.belief()
        numbers = np.flatnonzero(weights).tolist()
        bounds = self._ask_in_round(numbers, PriorShard.upper, self._pending.numbers)
        return choose(numba_priors.average(weights[numbers], np.array(bounds)), self._salt, allowed)[0]  # (2)
