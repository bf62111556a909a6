"""BBKB. Source: Calandriello et al. 2020, Algorithm 1 and Theorem 1.

    input: prior GP(m, k), parameters B, R, lambda, delta, qbar, threshold C
    for t = 1, 2, ...:
        mean of the observations up to the last feedback; deviation s_{t-1} of all points played      (1)
        ratio = 1 + sum over the batch of s_fb(x_i)^2 / lambda                                         (2)
        play x_t = argmax of mu_fb(x) + beta_fb sqrt(ratio) s_{t-1}(x)                                (3)
        if ratio > C: observe the batch, redraw the dictionary, begin a new batch                     (4)

s_fb, mu_fb and beta_fb are the values at the last feedback. Since s_fb(x)^2 <= ratio s_{t-1}(x)^2 for every x, the
index is an upper bound wherever mu_fb + beta_fb s_fb is.

Differs from the paper in: the points listed at `BKB`; and the deviation is scaled by the root of the present ratio,
where the paper widens beta by the limit C of the ratio. Values told within a batch change the posterior (and with it
`best`) only at the end of the batch; pending points belong to the batch. Because of this delay neither the kernel nor
B can be learned. On pools the points of a batch are pending until it ends, whatever was told of them, so that a batch
needs one pass, and count with lambda.

Checked against the authors' program (`bkb_lib.py` of batch-bkb, `Batch_BKB`): the rule (2), (4), by Lemma 1, where the
point that exceeds C still belongs to the batch. In that program C is 2 and a factor under beta's root, and the gain is
the sum of log(1 + s_fb^2 / lambda) over the points played. The paper itself was not compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.policies.bkb import sketched_width
from scalable_bandits.policies.confidence import GAIN, NORM, Gain, width_name
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.models.model import Query
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.state import StateEntry, arrays, group, number, value
from scalable_bandits.spaces import Domain, Mask


class Feedback(NamedTuple):
    """Quantities that are constant from one feedback to the next."""

    variance: Floats  # (n,) posterior variances, in squared units of y; empty on a pool, where they are computed
    width: float
    gain: float  # information gain in the width, in nats


@attrs.define(eq=False, kw_only=True, slots=False)
class BBKB(GaussianProcessPolicy):
    """Batch budgeted kernelised bandit, whose batches grow as the posterior variances shrink.

    Parameters
    ----------
    threshold
        Accumulated variance ratio C > 1 beyond which a batch ends.
    rkhs_norm, information_gain, confidence
        Bound B on the RKHS norm of f, information gain and name of the width, as explained at `Confidence`.

    Other parameters and their defaults are those of `BKB`.

    Raises
    ------
    ValueError
        If the function changes over rounds, the kernel or B is to be learned, or `on` is given but for a pool.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.BBKB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=0.01)
    >>> policy.ask(3).shape
    (3, 1)
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("batches", int),
        number("_ratio", float),
        value(
            "late", "(k, 3)", float, lambda self: np.array(self._batch, dtype=np.float64).reshape(-1, 3),
            lambda self, rows: self._restore_batch(rows),
        ),
        group(
            "feedback", lambda self: arrays(**self._at_feedback()._asdict()),
            lambda self, state: self._restore_feedback(**state),
        ),
    )  # fmt: skip
    pools: ClassVar[bool] = True
    _repeats: ClassVar[bool] = True
    sharded: ClassVar[bool] = False  # since values wait for the end of a batch, and are then learned all at once

    rkhs_norm: float | str = NORM
    _gain_source: Gain = GAIN
    confidence: str = width_name("budgeted")
    engine: str = "sketched"
    threshold: float = attrs.field(default=1.5, converter=checks.to_float, validator=checks.above_one)
    batches: int = attrs.field(default=0, init=False)
    _ratio: float = attrs.field(default=1.0, init=False, repr=False)  # ratio (2) of the batch, without pending points
    # Candidate, y minus the posterior mean (on a pool y), and noise variance of each observation of the batch.
    _batch: list[tuple[int, float, float]] = attrs.field(init=False, factory=list, repr=False)
    _feedback: Feedback | None = attrs.field(init=False, default=None, repr=False)
    # Variances at the last feedback of candidates of a pool, by number.
    _before: dict[int, float] = attrs.field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.rkhs_norm == "double":
            checks.refuse("rkhs_norm", "double", "a number: values wait for the end of a batch")
        if self.refit is not None:  # before the base class warns about it
            checks.refuse("refit", self.refit, "None: values wait for the end of a batch")
        super().__attrs_post_init__()
        self._confidence.warn_where_unproven()
        if self._prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: values wait for the end of a batch")

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        if self.space.scanned:
            before = self._variance_at_feedback([candidate]) / noise_variance
            self._batch.append((candidate, y, noise_variance))
            self._ratio += before  # (2)
            if self._ratio > self.threshold:
                self._close()
            return
        engine = self.model.engine
        before = self._at_feedback().variance[candidate] / noise_variance
        mean, _ = engine.at(np.array([candidate]))
        super().learn(candidate, float(mean[0]), noise_variance)  # lowers variances, changes no mean
        self.model.observations.revise([candidate], [(y - float(mean[0])) / noise_variance])
        self._batch.append((candidate, y - float(mean[0]), noise_variance))
        self._ratio += float(before)  # (2)
        if self._ratio > self.threshold:
            self._close()

    def _close(self) -> None:
        """End the batch: replace the means that stood for its values by the values."""
        if self.space.scanned:
            for observation in self._batch:
                self.model.observe(*observation)
            self._begin()
            return
        candidates, changes, noise_variances = zip(*self._batch, strict=True)
        self.model.engine.revise(np.array(candidates), np.array(changes), np.array(noise_variances))
        self._begin()

    def _begin(self) -> None:
        """Begin a batch."""
        self.batches += len(self._batch) > 0  # (4)
        self._batch, self._feedback, self._ratio, self._before = [], None, 1.0, {}

    def _extend(self, grown: Domain) -> None:
        if not self.space.scanned:
            self._begin()  # since the new engine has the values of the batch, too
        super()._extend(grown)

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        query = super()._next_query(allowed, draws)
        if not self.space.scanned:
            return query
        return query._replace(pending=[*(candidate for candidate, _, _ in self._batch), *query.pending])  # (1)

    def width_formula(self) -> Width:
        return sketched_width(self)

    def _at_feedback(self) -> Feedback:
        if self._feedback is None:
            gain = super().information_gain
            width = self.width_formula().at(self.round, gain)
            variance = np.empty(0) if self.space.scanned else self.model.engine.variance().copy()
            self._feedback = Feedback(variance, width, gain)
        return self._feedback

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        if not (self.space.scanned and self._batch):
            return super().moments(points)
        candidates, _, noise_variances = zip(*self._batch, strict=True)
        engine = cast(QueriedEngine, self.model.engine)
        surface = engine.surface(self.domain.coordinates(candidates), np.array(noise_variances))
        return surface.predict(self.space.encode(points))

    def _variance_at_feedback(self, candidates: Sequence[int]) -> float:
        """Return the sum of the variances at the last feedback of some candidates."""
        if not self.space.scanned:
            return float(self._at_feedback().variance[candidates].sum())
        if new := [candidate for candidate in candidates if candidate not in self._before]:
            self._before.update(zip(new, self.model.engine.at(np.array(new))[1].tolist(), strict=True))
        return sum(self._before[candidate] for candidate in candidates)

    @property
    def width(self) -> float:
        """Confidence width beta_fb sqrt(ratio) of the next round."""
        feedback = self._at_feedback()
        pending = self._variance_at_feedback(self._pending.numbers) / self.regularization
        return feedback.width * math.sqrt(self._ratio + pending)  # (3)

    @property
    def information_gain(self) -> float:
        """Information gain (nats) that the width at the last feedback used."""
        return self._at_feedback().gain

    def _restore_feedback(self, variance: Floats, width: Floats, gain: Floats) -> None:
        self._feedback = Feedback(variance.copy(), float(width), float(gain))

    def _restore_batch(self, rows: Floats) -> None:
        self._batch = [(int(candidate), change, noise) for candidate, change, noise in rows.tolist()]
