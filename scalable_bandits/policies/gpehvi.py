"""Expected hypervolume improvement of two objectives, GP-EHVI.

Sources: Emmerich, Giannakoglou & Naujoks 2006; in closed form Emmerich, Deutz & Klinkenberg 2011.

    for t = 1, 2, ...:
        P = front of the posterior means at the points queried, r = a little beyond its worst values   (1)
        play x_t = argmax of E[hypervolume of P and (f_1(x), f_2(x)) beyond r]                         (2)
        observe f_1 and f_2 at x_t, each with a model of its own
    recommend P

Differs from the sources in: with constraints, (2) is multiplied by the probability that all hold, and P has the points
that are feasible more likely than not; the first ten points are spread over the space, as those of `GPEI` are; pending
points count with their posterior means; every fifth round improves one objective alone (`several_objectives.py`).
"""

from __future__ import annotations

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.hypervolume import HypervolumeImprovement
from scalable_bandits.policies.several_objectives import Front, SeveralObjectivesPolicy


@attrs.define(eq=False, kw_only=True, slots=False)
class GPEHVI(SeveralObjectivesPolicy):
    """Policy that maximises the expected growth of the hypervolume of two objectives' front.

    It is told a dict of values by output: ``policy.tell(x, {"loss": 0.3, "seconds": 41.0})``.

    Parameters
    ----------
    objectives
        Names of two outputs; `HypervolumeUCB` takes more.

    Other parameters are those of `SeveralObjectivesPolicy`.

    Raises
    ------
    ValueError
        If there are not two objectives; as of `SeveralObjectivesPolicy`.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.GPEHVI(sb.Box([[0, 1]]), objectives=["price", "weight"], minimize=True)
    >>> for _ in range(15):
    ...     x = policy.ask()
    ...     policy.tell(x, {"price": x[0], "weight": (x[0] - 0.5) ** 2})
    >>> [bool(0 <= point.x[0] <= 0.51) for point in policy.front()].count(False)
    0
    """

    def __attrs_post_init__(self) -> None:
        if len(self.objectives) != 2:
            checks.refuse("objectives", list(self.objectives), "two; `HypervolumeUCB` takes more")
        super().__attrs_post_init__()

    def _improvement_of(self, front: Front) -> HypervolumeImprovement:
        return HypervolumeImprovement.over(front.values, front.reference)  # (2)
