"""Upper confidence bounds of several objectives, scalarised in random directions.

Source: Golovin & Zhang 2020 (arXiv 2006.04655), Algorithm 1 with the hypervolume scalarisation (section 4).

    for t = 1, 2, ...:
        w_t uniform in the positive orthant of the unit sphere, r a little beyond the front's worst values    (1)
        play x_t = argmax of min over i of (mu_i(x) + beta_t s_i(x) - r_i) / w_ti                             (2)
        observe all f_i at x_t, each with a model of its own

Differs from the source in: kernels are learned, and the width is the practical one of policies that learn theirs;
with constraints, the logarithm of the probability that all hold is added to (2); every fifth round improves one
objective alone (`several_objectives.py`).
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits.formulas.confidence import Width
from scalable_bandits.formulas.hypervolume import ScalarizedConfidence
from scalable_bandits.policies.confidence import practical_width
from scalable_bandits.policies.several_objectives import Front, SeveralObjectivesPolicy
from scalable_bandits.randomness import generator

LEAST = 1e-3  # smallest coordinate of a direction, by which values are divided


@attrs.define(eq=False, kw_only=True, slots=False)
class HypervolumeUCB(SeveralObjectivesPolicy):
    """Policy that maximises the upper confidence bounds of two or more objectives in random directions.

    Parameters are those of `SeveralObjectivesPolicy`.

    Raises
    ------
    ValueError
        If there are fewer than two objectives; as of `SeveralObjectivesPolicy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.HypervolumeUCB(sb.Box([[0, 1]]), objectives={"gain": "maximize", "price": "minimize"})
    >>> x = policy.ask()
    >>> policy.tell(x, {"gain": x[0], "price": x[0] ** 2})
    >>> len(policy.front())
    1
    """

    def width_formula(self) -> Width:
        return practical_width(self.domain, self.delta, 1.0)

    def _improvement_of(self, front: Front) -> ScalarizedConfidence:
        direction = np.abs(generator(self.seed, "direction", self.round).standard_normal(len(front.reference)))
        direction = np.maximum(direction / np.linalg.norm(direction), LEAST)  # (1)
        return ScalarizedConfidence(self.width, front.reference, direction)  # (2)
