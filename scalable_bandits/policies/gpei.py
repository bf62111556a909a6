"""Expected improvement, GP-EI, and probability of improvement, GP-PI.

Sources: Mockus, Tiesis & Zilinskas 1978; Kushner 1964; as EI and MPI in Srinivas et al. 2010, section 6.

    for t = 1, 2, ...:
        m_t = max of mu_{t-1} over the points queried                                (1)
        GP-EI: play x_t = argmax of E[max(f(x) - m_t - xi, 0)] under the posterior   (2)
        GP-PI: play x_t = argmax of P[f(x) > m_t + xi] under the posterior           (2')
        observe y_t, update mu_t and s_t                                             (3)

Differs from the sources in: the incumbent is the best posterior mean at a queried point, not the best
observation, which the noise biases upwards (`incumbent="observation"` selects it).
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ProbabilityOfImprovement
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.posteriors.models.model import MEAN, Query
from scalable_bandits.posteriors.state import StateEntry, number
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class GPEI(GaussianProcessPolicy):
    """Policy that maximises the expected improvement over the best posterior mean at a queried point.

    Parameters
    ----------
    xi
        Smallest improvement that counts, in units of y (without a kernel, in deviations of the transformed y); 0 in the
        sources. With noisy measurements, R keeps the policy from staying at the first local maximum that it finds.
    incumbent
        Value to be improved. "mean": largest posterior mean at a point queried or pending, which the noise does not
        bias. "observation": largest y observed, the definition of the sources for functions without noise. If not
        given, "mean", or without a kernel "observation". With pending="sample", values drawn at pending points count
        as observed in both.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`.

    Notes
    -----
    For f drawn from the prior and a known kernel, Wang et al. 2025 (arXiv 2508.15674) bound the cumulative regret of
    two incumbents sublinearly, for RBF and Matern kernels: the largest posterior mean at a queried point
    (`incumbent="mean"`), and the largest one of all points, which is not offered. For the largest observation
    (`incumbent="observation"`) they prove less: in each case either the cumulative regret is sublinear, or the simple
    regret converges. They cover
    neither `xi` above 0, pending points, nor a kernel that is learned, for which "observation" is the default.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (number("_largest", float),)
    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True

    xi: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.nonnegative)
    incumbent: str | None = attrs.field(default=None, validator=checks.one_of(("mean", "observation", None)))
    _largest: float = attrs.field(default=-np.inf, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.incumbent is None:
            self.incumbent = "observation" if self.kernel is None else "mean"

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        self._largest = max(self._largest, y)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ExpectedImprovement(self.best_so_far(allowed), self.xi)  # (1), (2)

    def best_so_far(self, allowed: Mask | None) -> float:
        """Return the incumbent's value, in units of the engine's y; before there is one, the largest prior mean.

        Parameters
        ----------
        allowed
            Mask (n,) of the candidates whose prior mean counts; None for all.
        """
        draws = self._pending_draws() if self.pending_values == "sample" else None
        if self.incumbent == "observation":
            told = self.model.transform(np.array([self._largest])).tolist() if np.isfinite(self._largest) else []
            if values := [*told, *([] if draws is None else draws.values.tolist())]:
                return max(values)
        queried = self.model.queried
        if self._pending.numbers:
            queried = queried.copy()
            queried[self._pending.numbers] = True
        some = queried if queried.any() else allowed
        return self.model.argmax(MEAN, Query(self._salt, (self.seed, self.round), some, draws=draws))[1]


@attrs.define(eq=False, kw_only=True, slots=False)
class GPPI(GPEI):
    """Policy that maximises the probability of improvement over the best posterior mean at a queried point.

    Parameters are those of `GPEI`, and it is one in all but its index.
    """

    # With xi = 0 the incumbent itself always has probability 1/2, and the policy plays it again and again.
    xi: float = attrs.field(default=0.01, converter=checks.to_float, validator=checks.nonnegative)

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ProbabilityOfImprovement(self.best_so_far(allowed), self.xi)  # (1), (2')
