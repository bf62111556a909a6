"""Expected improvement under constraints that are not known, but measured together with the objective.

Sources: Schonlau, Welch & Jones 1998; Gardner, Kusner, Xu, Weinberger & Cunningham 2014 (section 3.2); Gelbart, Snoek &
Adams 2014 (section 3).

    for t = 1, 2, ...:
        m_t = largest value, pending ones assumed, where feasible more likely than not         (1)
        play x_t = argmax of E[max(f(x) - m_t, 0)] prod_j P[g_j(x) keeps its limit]            (2)
            without such a point: argmax of prod_j P[g_j(x) keeps its limit]                   (3)
        observe f and g_1, ..., g_J at x_t, each with a model of its own                       (4)
    recommend the best point that is feasible with probability at least 1 - delta              (5)

Differs from the sources in: the first ten points are spread over the space, as those of `GPEI` are; where an output has
no noise, its measured value decides on (1) and (5), not the posterior; outputs are learned on a scale around their
limits, and f on one around the best feasible value (`posteriors/models/limited.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import ExpectedImprovement, ObjectiveIndex
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.gpei import GPEI
from scalable_bandits.policies.outputs import Limit, Margin, Outputs, check_limits
from scalable_bandits.posteriors.models.learned import NEGLIGIBLE, LearnedModel
from scalable_bandits.posteriors.models.limited import ConstrainedModel, LimitedOutputs
from scalable_bandits.posteriors.models.model import Model, Query
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.spaces import Indices, Mask

LIKELY = 0.5  # probability of being feasible from which a measured point may be the incumbent


class MeasuredPoints(NamedTuple):
    """Points at which the objective was measured."""

    numbers: Indices  # (k,)
    points: Floats  # (k, d)
    averages: Floats  # (k,) of the measured values, oriented, in units of y
    values: Floats  # (k,) the same where the noise is negligible, else posterior means
    chances: Floats  # (k,) probability of being feasible
    misses: Floats  # (k,) sum of what the outputs miss their limits by

    def part(self, which: Mask) -> MeasuredPoints:
        """Return some of the points, by a mask (k,)."""
        return self._replace(**{name: each[which] for name, each in self._asdict().items()})


@attrs.define(eq=False, kw_only=True, slots=False)
class ConstrainedGPEI(GPEI):
    """Policy that maximises the expected improvement times the probability that all constraints hold.

    It is told a dict of values by output: ``policy.tell(x, {"loss": 0.3, "latency": 41.0})``, where None is a value
    that was not measured. Each output has a model of its own, which is learned.

    Parameters
    ----------
    constraints
        Limits by output: ``{"latency": AtMost(50), "accuracy": AtLeast(0.9)}``.
    objective
        Name of the output that is minimised or maximised; if not given, it is the one without a limit.
    delta
        Probability with which the recommended point may violate a constraint.

    Other parameters are those of `GPEI` and `Policy`; without a kernel, which is learned.

    Raises
    ------
    ValueError
        If there are no constraints, or the objective has one; if a kernel or a `Pool` is given.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> limits = {"price": sb.AtMost(0.5)}
    >>> policy = sb.ConstrainedGPEI(sb.Box([[0, 1]]), constraints=limits)
    >>> for _ in range(15):
    ...     x = policy.ask()
    ...     policy.tell(x, {"gain": x[0], "price": x[0] ** 2})
    >>> bool(abs(policy.best().x[0] - 0.5**0.5) < 0.01)
    True
    """

    by_name: ClassVar[frozenset[str]] = frozenset({"constraints"})
    pools: ClassVar[bool] = False
    learns_outputs: ClassVar[bool] = True
    _assumes_draws: ClassVar[bool] = False
    _refines: ClassVar[bool] = False

    constraints: Mapping[str, Limit] = attrs.field(converter=check_limits)
    objective: str | None = attrs.field(default=None)
    _seen: tuple[int, MeasuredPoints] | None = attrs.field(default=None, init=False, repr=False)  # after so many rounds

    def __attrs_post_init__(self) -> None:
        if self.kernel is not None:
            checks.refuse("kernel", self.kernel, "None: the kernels of all outputs are learned")
        self.outputs.check()
        super().__attrs_post_init__()

    @property
    def outputs(self) -> Outputs:
        return Outputs(self.objective, self.constraints)

    def _fresh_model(self) -> Model:
        """Make the models of all outputs, without observations, and return the objective's."""
        models = [self._limited_model(each.SIGN * each.limit, int(each.SIGN)) for each in self.constraints.values()]
        self._limited, self._seen = LimitedOutputs(models, self._success_model), None
        known, lengthscales = (self.domain, self._make_engine, self.noise is not None), self._given_lengthscales
        return ConstrainedModel(self._prior, *known, lengthscales, self.refit, self._search())

    # ---- the algorithm

    def _is_ignorant(self) -> bool:
        """Whether nothing tells one point from another: what decides on the index has the same values everywhere.

        While no point is feasible, these are the outputs with a limit.
        """
        if self._limited.success is not None:
            return False
        feasible = (self._measured().chances >= LIKELY).any()
        return all(model.flat for model in (*self._limited.models, *(self._objective_models if feasible else ())))

    @property
    def _objective_models(self) -> Sequence[LearnedModel]:
        assert isinstance(self.model, LearnedModel)
        return [self.model]

    def _improvement(self, allowed: Mask | None) -> ObjectiveIndex | None:
        found = self._measured()
        values = found.averages if self.incumbent == "observation" else found.values
        best = values[found.chances >= LIKELY]
        if len(found.numbers):
            best = self.model.transform(best)
            if pending := self._pending.asked:
                points = self.domain.coordinates(pending)
                likely = self._limited.chances(points).prod(axis=0) >= LIKELY
                best = np.append(best, self.model.believed(points)[0][likely])
        if not len(best):
            return None  # (3)
        return ExpectedImprovement(float(best.max()), self.xi)  # (1), (2)

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        found = self._measured()
        near = [] if not len(found.numbers) else [int(found.numbers[self._best_of(found, LIKELY)])]
        return super()._next_query(allowed, draws)._replace(near=near)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        beside, self._beside = self._beside, None
        assert beside is not None
        oriented = self.outputs.oriented(beside)
        self._learn_outputs(candidate, y, noise_variance, oriented)  # (4)
        if y == y:
            assert isinstance(self.model, ConstrainedModel)
            self.model.kept[-1] = bool(self.outputs.kept(beside))
        self._limited.observe(candidate, oriented)

    def _learn_outputs(self, candidate: int, y: float, noise_variance: float, others: Floats) -> None:
        """Condition on a value of the objective and of the other outputs (J,); to lack one of them is no success."""
        if y == y and not np.isnan(others).any():
            super().learn(candidate, y, noise_variance)
            return
        self._limited.fail(candidate, np.flatnonzero(self._known_points))
        if y == y:
            self._learn_value(candidate, y, noise_variance)

    def recommend(self) -> Best:
        """Return the best measured point that is feasible with probability at least 1 - delta (5).

        Without such a point, the one of those measured that is likeliest to be feasible.
        """
        return self._recommended(self._measured())

    def _recommend_in(self, context: Mapping[Any, Any]) -> Best:
        return self._recommended(self._measured_with(context))

    def _recommended(self, found: MeasuredPoints) -> Best:
        """Return the best one of some measured points."""
        if not len(found.numbers):
            return super().recommend()
        best = self._best_of(found, 1.0 - self.delta)
        _, variance = self.model.predict(found.points[[best]])
        return Best(self.domain.value(int(found.numbers[best])), float(found.values[best]), float(np.sqrt(variance[0])))

    @staticmethod
    def _best_of(found: MeasuredPoints, probability: float) -> int:
        """Return the place of the best point that is feasible with a probability, or else of the likeliest one."""
        feasible = found.chances >= probability
        if feasible.any():
            return int(np.argmax(np.where(feasible, found.values, -np.inf)))
        likeliest = found.chances >= found.chances.max()
        return int(np.argmin(np.where(likeliest, found.misses, np.inf)))

    def _measured(self) -> MeasuredPoints:
        """Return the points at which the objective was measured, with the probabilities that they are feasible."""
        ended = self.rounds + self.failures
        if self._seen is None or self._seen[0] != ended:
            self._seen = ended, self._fresh_measured()
        return self._seen[1]

    def _measured_with(self, context: Mapping[Any, Any] | None) -> MeasuredPoints:
        """Return the measured points that have a context, or all; ValueError if none has it."""
        found = self._measured()
        if context is None:
            return found
        return found.part(self._measured_in(self.model.queried, context)[found.numbers])

    def _fresh_measured(self) -> MeasuredPoints:
        numbers, averages, _ = self.model.averages()
        points = self.domain.coordinates(numbers)
        exact = not len(numbers) or self.model.noise < NEGLIGIBLE
        values = averages if exact else self.model.means(points)
        chances, misses = self._limited.measured(numbers, points)
        return MeasuredPoints(numbers, points, averages, values, chances.prod(axis=0), misses.sum(axis=0))

    # ---- the constraints, for the user

    def feasibility(self, x: Any) -> Any:
        """Return the posterior probability that all constraints hold at x.

        Parameters
        ----------
        x
            Point (d,) or points (k, d), not only candidates.

        Returns
        -------
        float, or ndarray (k,)
            Product of the probabilities of the constraints.
        """
        points, single = self._described_points(x)
        with self._lock:
            found = self._limited.chances(self.space.encode(points)).prod(axis=0)
        return float(found[0]) if single else found

    def _margins_at(self, points: Floats) -> list[Margin]:
        numbers, points = self.domain.find(points), self.space.encode(points)
        chances, _ = self._limited.measured(numbers, points)
        found = self._limited.at(int(numbers[0]), points)
        return [
            Margin(name, limit, limit.SIGN * mean, std, float(chance[0]), int(numbers[0]) in model.numbers)
            for (name, limit), model, (mean, std), chance in zip(
                self.constraints.items(), self._limited.models, found, chances, strict=True
            )
        ]

    # ---- state

    @property
    def _known_points(self) -> Mask:
        return self.model.queried | self._limited.queried
