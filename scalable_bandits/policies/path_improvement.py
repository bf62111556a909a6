"""Improvement over the maximum of a sample path: PIMS and PS-EI.

Sources: Takeno et al. 2024 (arXiv 2311.03760), PIMS; Takeno et al. 2025 (arXiv 2507.09828), PS-EI.

    input: prior GP(m, k), noise variance lambda
    for t = 1, 2, ...:
        draw f_t from GP(mu_{t-1}, k_{t-1}), jointly over D_t; g*_t = max of f_t       (1)
        PIMS: play x_t = argmax of (mu_{t-1}(x) - g*_t) / s_{t-1}(x) over D_t          (2)
        PS-EI: play x_t = argmax of E[max(f(x) - g*_t, 0)] under the posterior         (2')
        observe y_t, update mu_t and s_t                                               (3)

PIMS plays the point of GP-UCB with the random width min over x of (g*_t - mu(x)) / s(x). PS-EI is GP-EI whose incumbent
is the maximum of a sample path, so that no single noisy value becomes the incumbent. For both the Bayesian regret is
bounded for f drawn from the prior, and no width has to be chosen.

Differs from the papers in: D_t is the available part of a finite space, or the whole box; on large spaces and boxes the
draw of the prior has finitely many features (`policies/sample_paths.py`); pending points count as observed at their
posterior mean in (2), and the path of (1) is one of the posterior after them. Of the papers only the abstracts and
summaries could be read.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ProbabilityOfImprovement
from scalable_bandits.policies.sample_paths import SamplePathPolicy
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.spaces import Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class PIMS(SamplePathPolicy):
    """Policy that maximises the probability of improvement over the maximum of a sample path of the posterior.

    Parameters are those of `SamplePathPolicy`, `GaussianProcessPolicy` and `Policy`.

    Notes
    -----
    On a `Pool` each round has its own path of the posterior given the observations alone, and plays the best candidate
    of (2) given these that is not taken: a batch takes one pass for the maxima of the paths, and one for the choices.

    Raises
    ------
    ValueError
        If engine, samples and basis do not fit each other, the kernel or the number of candidates.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.PIMS(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.rounds
    1
    """

    pools: ClassVar[bool] = True

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        if not self.space.scanned:
            return super().choose(allowed)
        first = self._worth_measuring(allowed)[0] if self.kernel is None else None
        return self.choice_of_path(improvement=True) if first is None else first

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ProbabilityOfImprovement(self.highest_of_path(1.0, allowed)[1])  # (1), (2)


@attrs.define(eq=False, kw_only=True, slots=False)
class PSEI(SamplePathPolicy):
    """Policy that maximises the expected improvement over the maximum of a sample path of the posterior.

    Parameters are those of `SamplePathPolicy`, `GaussianProcessPolicy` and `Policy`.

    Raises
    ------
    ValueError
        If engine, samples and basis do not fit each other, the kernel or the number of candidates.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.PSEI(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.rounds
    1
    """

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return ExpectedImprovement(self.highest_of_path(1.0, allowed)[1])  # (1), (2')
