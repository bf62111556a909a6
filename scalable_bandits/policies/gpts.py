"""GP-TS. Source: Chowdhury & Gopalan 2017, Algorithm 2 and Theorem 4.

    input: prior GP(m, k), parameters B, R, lambda, delta
    for t = 1, 2, ...:
        v_t = B + R sqrt(2 (g_{t-1} + 1 + log(2 / delta)))                    (1)
        draw f_t from GP(mu_{t-1}, v_t^2 k_{t-1}), jointly over D_t           (2)
        play x_t = argmax of f_t over D_t                                     (3)
        observe y_t, update mu_t and k_t                                      (4)

Differs from the paper in: D_t is the finite space (or what of it is available), not a discretisation
that grows with t; g is the realised information gain unless asked otherwise.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.confidence import improved
from scalable_bandits.policies.base import Mask
from scalable_bandits.policies.confident import ConfidencePolicy
from scalable_bandits.posteriors import AutoregressiveEngine, DenseEngine
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.randomness import generator


@attrs.define(eq=False, kw_only=True, slots=False)
class GPTS(ConfidencePolicy):
    """Gaussian-process Thompson sampling, by exact joint draws, which need the full covariance.

    Parameters are those of `ConfidencePolicy`, `GaussianProcessPolicy` and `Policy`.
    """

    def __attrs_post_init__(self) -> None:
        drawing = "autoregressive" if self.kernel.epsilon else "dense"
        if self.engine not in ("auto", drawing):
            checks.refuse("engine", self.engine, f"'auto' or {drawing!r}: joint draws need the full covariance")
        self.engine = drawing
        super().__attrs_post_init__()

    @property
    def width(self) -> float:
        """v_t of the round to come."""
        return improved(self.information_gain, self.delta / 2.0, self.norm, self.noise)  # (1)

    def choose(self, allowed: Mask | None = None) -> int:
        engine = self.posterior_engine
        assert isinstance(engine, DenseEngine | AutoregressiveEngine)
        rng = generator(self.seed, "draws", self.round)
        deviation = engine.draw(rng)
        if self._waiting:
            columns, covariance = self.pending_covariance()
            pending, counts = np.unique(self._waiting, return_counts=True)
            noise = rng.standard_normal(len(pending)) * np.sqrt(self.regularization / counts)
            deviation = deviation - np.linalg.solve(covariance, deviation[pending] + noise) @ columns
        return choose(engine.mean() + self.width * deviation, self._salt, allowed)[0]  # (2), (3)
