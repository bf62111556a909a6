"""SupKernelUCB. Source: Valko, Korda, Munos, Flaounas & Cristianini 2013, Algorithm 2 (after SupLinUCB).

    input: kernel, T, parameters B, R, lambda, delta; stages s = 1, 2, ... with a posterior each, mu_s and s_s
    for t = 1, 2, ..., T:
        s = 1, A_1 = X_t
        repeat, with w_s(x) = beta s_s(x):
            if w_s(x) <= 1 / sqrt(T) for all x in A_s: play argmax of mu_s(x) + w_s(x) over A_s         (1)
            else if w_s(x) <= 2^-s for all x in A_s:
                A_{s+1} = {x in A_s: mu_s(x) + w_s(x) >= max over A_s of mu_s + w_s - 2^(1-s)}, s = s + 1    (2)
            else play x in A_s with w_s(x) > 2^-s                                                       (3)
        add the observation to the first stage with w_s(x_t) > 2^-s                                     (4)

The points of a stage were chosen independently of the values in it. Hence the noise of a stage is independent given its
points, and beta need not grow with the information gain.

Differs from the paper in: rewards there are in [0, 1]; here beta depends on B and R, and `scale` multiplies the
thresholds; (3) plays the point of largest deviation; (4) is the paper's stage after (3), but after (1), where the paper
adds the observation to no stage, (4) may add it to a later one.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import independent
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import Engine
from scalable_bandits.posteriors.models.model import DEVIATION, Model
from scalable_bandits.posteriors.state import State, StateEntry, group, nested, part
from scalable_bandits.spaces import Domain, Mask


class Phase(NamedTuple):
    """Stage at which the elimination of a round stops."""

    stage: int  # s, from 1
    remaining: Mask | None  # (n,) A_s; None for all candidates
    explores: bool  # whether (3) applies, not (1)


@attrs.define(eq=False, kw_only=True, slots=False)
class SupKernelUCB(GaussianProcessPolicy):
    """Phased elimination, for a known horizon.

    A pending point lowers the deviations in the stage that its observation will be added to, for the choice (3) only.
    Elimination uses observations alone. `posterior`, `best` and `information_gain` use all observations.

    Parameters
    ----------
    rkhs_norm
        Bound B on the RKHS norm of f.
    scale
        Scale of f, in units of y: the thresholds are scale 2^-s and scale / sqrt(T).

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. Each stage has an engine of its own.

    Raises
    ------
    ValueError
        If there is no horizon, the kernel forgets or is to be learned (`refit`), or the engine is not exact.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.SupKernelUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), horizon=100, noise=0.1, rkhs_norm=1.0)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.stage
    1
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        group(
            "stages", lambda self: nested(**{str(s): stage.state() for s, stage in enumerate(self._stages)}),
            lambda self, states: self._restore_stages(states),
        ),
    )  # fmt: skip

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.positive)
    _stages: list[Model] = attrs.field(init=False, factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: stages do not forget")
        if self.engine == "sketched":
            checks.refuse("engine", self.engine, "'auto', 'dense' or 'tiled', which are exact")
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the stages have the kernel that is given")
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the thresholds and the width depend on it")
        intervals = self.domain.choosable * self.horizon * max(1, math.ceil(math.log(self.horizon)))
        self._width = independent(intervals, self.delta, self.rkhs_norm, self.noise, self.regularization)
        self._finest = self.scale / math.sqrt(self.horizon)

    # ---- the algorithm

    @property
    def width(self) -> float:
        """Confidence width beta of all rounds and stages."""
        return self._width

    @property
    def stage(self) -> int:
        """Stage s of the next round if all candidates are available."""
        return self._phase(self.domain.allowed(None)).stage

    def _threshold(self, stage: int) -> float:
        return self.scale * 2.0**-stage

    def _phase(self, allowed: Mask | None) -> Phase:
        """Eliminate candidates until a stage has a point to play."""
        remaining, s = allowed, 1
        while True:
            engine = self._stage_model(s).engine
            widest = self._width * engine.argmax(DEVIATION, self._salt, remaining)[1]
            if widest <= self._finest or widest > self._threshold(s):  # ends when 2^-s <= 1 / sqrt(T)
                return Phase(s, remaining, widest > self._finest)
            remaining, s = self._surviving(engine, remaining, 2.0 * self._threshold(s)), s + 1

    def _surviving(self, engine: Engine, remaining: Mask | None, margin: float) -> Mask:
        """Return the mask (n,) of candidates whose upper bound is within a margin of the largest one."""
        numbers = np.arange(engine.size) if remaining is None else np.flatnonzero(remaining)
        upper = UpperConfidence(self._width)(*engine.at(numbers))
        mask = np.zeros(engine.size, dtype=np.bool_)
        mask[numbers[upper >= upper.max() - margin]] = True  # (2)
        return mask

    def choose(self, allowed: Mask | None = None) -> int:
        phase = self._phase(allowed)
        engine, remaining = self._stage_model(phase.stage).engine, phase.remaining
        if not phase.explores:
            return engine.argmax(UpperConfidence(self._width), self._salt, remaining)[0]  # (1)
        pending, reduction = [c for c in self._pending.numbers if self._stage_of(c) == phase.stage], None
        if pending:
            reduction = self._stage_model(phase.stage).reduction(pending)
            exploring = self._width * np.sqrt(engine.variance()) > self._threshold(phase.stage)
            remaining = exploring if remaining is None else remaining & exploring
        return engine.argmax(DEVIATION, self._salt, remaining, reduction)[0]  # (3)

    def _stage_of(self, candidate: int) -> int:
        """Return the stage that observations of a candidate are added to; 0 if its deviation is small in all stages."""
        s = 1
        while True:
            _, variance = self._stage_model(s).engine.at(np.array([candidate]))
            if self._width * math.sqrt(variance[0]) > self._threshold(s):
                return s
            if self._threshold(s) <= self._finest:
                return 0
            s += 1

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        stage = self._stage_of(candidate)  # (4)
        super().learn(candidate, y, noise_variance)
        if stage:
            self._stage_model(stage).observe(candidate, y, noise_variance)

    # ---- the stages

    def _stage_model(self, stage: int) -> Model:
        """Return the model of a stage, made when the stage is first reached."""
        while len(self._stages) < stage:
            self._stages.append(self._make_model())
        return self._stages[stage - 1]

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._stages = [stage.extended(grown) for stage in self._stages]

    def _restore_stages(self, states: State) -> None:
        self._stages = []
        while stage := part(states, str(len(self._stages))):
            self._stage_model(len(self._stages) + 1).restore(stage)
