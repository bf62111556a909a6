"""SupKernelUCB. Source: Valko, Korda, Munos, Flaounas & Cristianini 2013, Algorithm 2 (after SupLinUCB).

    input: kernel, T, parameters B, R, lambda, delta; stages s = 1, 2, ... with a posterior each, mu_s and s_s
    for t = 1, 2, ..., T:
        s = 1, A_1 = X_t
        repeat, with w_s(x) = beta s_s(x):
            if w_s(x) <= 1 / sqrt(T) for all x in A_s: play argmax of mu_s(x) + w_s(x) over A_s         (1)
            else if w_s(x) <= 2^-s for all x in A_s:
                A_{s+1} = {x in A_s: mu_s(x) + w_s(x) >= max over A_s of mu_s + w_s - 2^(1-s)}, s = s + 1    (2)
            else play x in A_s with w_s(x) > 2^-s                                                       (3)
        the observation joins the first stage with w_s(x_t) > 2^-s                                      (4)

Nothing that joins a stage was chosen by the values in it, so that the noise there is independent given the points, and
beta need not grow with the information gain. Differs from the paper in: rewards are in [0, 1] there, here beta
states B and R, and `scale` multiplies the thresholds; of the points that (3) leaves open, the one of largest
deviation is played; after (3) the paper's stage is that of (4), after (1) it has none, where (4) takes a later one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import independent
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Engine, State, arrays, nested, part
from scalable_bandits.posteriors.model import DEVIATION, Model
from scalable_bandits.spaces import Domain, Mask


class Phase(NamedTuple):
    """Where a round's elimination stops."""

    stage: int  # s, from 1
    left: Mask | None  # A_s; None if everything is
    explores: bool  # (3), not (1)


@attrs.define(eq=False, kw_only=True, slots=False)
class SupKernelUCB(GaussianProcessPolicy):
    """Phased elimination. Needs the horizon.

    A pending point narrows the choice of the next exploring point in the stage it would join, and nothing else: stages
    are left on values told. `posterior`, `best` and `information_gain` know all observations.

    Parameters
    ----------
    rkhs_norm
        B, a bound on the RKHS norm of f.
    scale
        Of f, in units of y: the thresholds are scale 2^-s and scale / sqrt(T).

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. Each stage in use holds an engine.

    Raises
    ------
    ValueError
        If there is no horizon, the kernel forgets, or the engine is not an exact one.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.SupKernelUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), horizon=100, noise=0.1, rkhs_norm=1.0)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.stage
    1
    """

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    _stages: list[Model] = attrs.field(init=False, factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: what a stage learned stays")
        if self.engine == "sketched":
            checks.refuse("engine", self.engine, "'auto', 'dense' or 'blocked': exact ones")
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the thresholds and the width depend on it")
        intervals = self.domain.choosable * self.horizon * max(1, math.ceil(math.log(self.horizon)))
        self._width = independent(intervals, self.delta, self.rkhs_norm, self.noise, self.regularization)
        self._finest = self.scale / math.sqrt(self.horizon)

    # ---- the algorithm

    @property
    def width(self) -> float:
        """beta, of all rounds and stages."""
        return self._width

    @property
    def stage(self) -> int:
        """Stage s that the next round is played in, if everything is available."""
        return self._phase(self.allowed(None)).stage

    def _threshold(self, stage: int) -> float:
        return self.scale * 2.0**-stage

    def _phase(self, allowed: Mask | None) -> Phase:
        """Eliminate until a stage has something to play."""
        left, s = allowed, 1
        while True:
            engine = self._at(s).engine
            widest = self._width * engine.maximize(DEVIATION, self._salt, left)[1]
            if widest <= self._finest or widest > self._threshold(s):  # where 2^-s <= 1 / sqrt(T) at the latest
                return Phase(s, left, widest > self._finest)
            left, s = self._surviving(engine, left, 2.0 * self._threshold(s)), s + 1

    def _surviving(self, engine: Engine, left: Mask | None, margin: float) -> Mask:
        """Candidates whose upper bound reaches, within a margin, the largest."""
        numbers = np.arange(engine.size) if left is None else np.flatnonzero(left)
        upper = UpperConfidence(self._width)(*engine.at(numbers))
        mask = np.zeros(engine.size, dtype=np.bool_)
        mask[numbers[upper >= upper.max() - margin]] = True  # (2)
        return mask

    def choose(self, allowed: Mask | None = None) -> int:
        phase = self._phase(allowed)
        engine, left = self._at(phase.stage).engine, phase.left
        if not phase.explores:
            return engine.maximize(UpperConfidence(self._width), self._salt, left)[0]  # (1)
        taken = self._taken(phase.stage)
        if taken is not None:
            open_ = self._width * np.sqrt(engine.variance()) > self._threshold(phase.stage)
            left = open_ if left is None else left & open_
        return engine.maximize(DEVIATION, self._salt, left, taken)[0]  # (3)

    def _joins(self, candidate: int) -> int:
        """Stage that an observation of a candidate joins; 0 if all know it well enough."""
        s = 1
        while True:
            _, variance = self._at(s).engine.at(np.array([candidate]))
            if self._width * math.sqrt(variance[0]) > self._threshold(s):
                return s
            if self._threshold(s) <= self._finest:
                return 0
            s += 1

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        stage = self._joins(candidate)  # (4)
        super().learn(candidate, y, noise_variance)
        if stage:
            self._at(stage).observe(candidate, y, noise_variance)

    def _taken(self, stage: int) -> Floats | None:
        """Return the variance (n,) that pending points take off a stage's; None if none will."""
        return self._at(stage).reduction([c for c in self._pending.numbers if self._joins(c) == stage])

    # ---- the stages

    def _at(self, stage: int) -> Model:
        """Return the model of a stage, from its own observations alone; made when the stage is first reached."""
        while len(self._stages) < stage:
            self._stages.append(self.make_model())
        return self._stages[stage - 1]

    def extend(self, grown: Domain) -> None:
        super().extend(grown)
        self._stages = [stage.extended(grown) for stage in self._stages]

    def state(self) -> State:
        stages = {
            name.replace(".", f"{s}.", 1): held  # engine0.mean, observed0.points, ...
            for s, stage in enumerate(self._stages)
            for name, held in stage.state().items()
        }
        return {**super().state(), **arrays(stages=len(self._stages)), **stages}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._stages = []
        for s in range(int(state["stages"])):
            held = {name: part(state, f"{name}{s}") for name in ("engine", "observed")}
            self._at(s + 1).restore(nested(**held))
