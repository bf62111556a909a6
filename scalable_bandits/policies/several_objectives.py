"""Policies of several objectives: a learned model of each, the front of what was measured, and its reference point.

Values of all objectives are oriented (larger is better) and in units of their engines' y, in which the front, the
reference point and the indices are. Reference point: the worst values on the front, less a tenth of the front's ranges
(Ishibuchi, Imada, Setoguchi & Nojima 2018, on how it is chosen). So near to the front it lets the index fill the front,
and hardly look for its ends: without a given one, every fifth round improves one objective alone, each in turn. A round
whose point is pending already, or is an end that was measured, takes that of another kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import ExpectedImprovement, FeasibleImprovement, ObjectiveIndex
from scalable_bandits.formulas.hypervolume import ImprovementOfOne, on_front
from scalable_bandits.policies.base import Best
from scalable_bandits.policies.constrainedgpei import LIKELY, ConstrainedGPEI, MeasuredPoints
from scalable_bandits.policies.gpei import GPEI
from scalable_bandits.policies.outputs import DIRECTIONS, Limit, Outputs, check_objectives, directions_of, limits_if_any
from scalable_bandits.posteriors import Acquisition
from scalable_bandits.posteriors.models.learned import SMALL_NOISE, LearnedModel
from scalable_bandits.posteriors.models.limited import ObjectiveModel, OutputModels, measured
from scalable_bandits.posteriors.models.model import GivenPrior, Model, Query
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.state import StateEntry, member
from scalable_bandits.spaces import Domain, Mask

ALONE = 5  # in every round whose number is a multiple of this, one objective alone is improved
FRONT = -1  # what is improved if it is no objective alone
MARGIN = 0.1  # distance of the reference point from the front, in ranges of the front; of one point in units of z


class FrontPoint(NamedTuple):
    """Measured point that no other one dominates, and what is believed of its objectives."""

    x: Any  # point (d,), or a dict of a named space
    values: dict[str, float]  # means by objective, in their units; measured where exact, NaN where never measured
    stds: dict[str, float]  # posterior standard deviations, in the same units


class Front(NamedTuple):
    """Points that no other one dominates, in units of the engines' y."""

    values: Floats  # (m, p) of those beyond the reference point
    reference: Floats  # (p,)
    largest: Floats  # (p,) values of the ends of the front


@attrs.define(eq=False, kw_only=True, slots=False)
class SeveralObjectivesPolicy(ConstrainedGPEI):
    """Base class of policies of several objectives, each with a learned model, and of constraints beside.

    Parameters
    ----------
    objectives
        Names of the outputs that are minimised or maximised, as `minimize` says, such as ``["loss", "seconds"]``; or
        a dict with "minimize" or "maximize" of each, the first one as `minimize` says.
    constraints
        Limits of further outputs by name, as of `ConstrainedGPEI`; none if not given.
    reference
        Values by objective beyond which points do not count, in units of the objectives; if not given, the worst
        values on the front, less a tenth of its ranges.

    Other parameters are those of `ConstrainedGPEI`.

    Raises
    ------
    ValueError
        If there are fewer than two objectives, or two of one name; if an objective has a limit, or its direction is
        another than that of `minimize`.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (member("_goals", name="goals"),)
    by_name: ClassVar[frozenset[str]] = frozenset({"constraints", "reference"})

    objectives: Mapping[str, str] | Sequence[str] = attrs.field(converter=check_objectives)
    constraints: Mapping[str, Limit] = attrs.field(default=None, converter=limits_if_any)
    reference: Mapping[str, float] | None = attrs.field(default=None)
    objective: str | None = attrs.field(init=False, default=None, repr=False)
    _goals: OutputModels = attrs.field(init=False, repr=False)
    _other_aim: int | None = attrs.field(default=None, init=False, repr=False)  # of a choice; None for the round's

    def __attrs_post_init__(self) -> None:
        directions = self.directions
        for name in directions:
            if name in self.constraints:
                checks.refuse("constraints", name, "names of outputs that are no objective")
        first, own = next(iter(directions.items())), "minimize" if self.minimize else "maximize"
        if first[1] != own:
            allowed = f"{own!r} first, as minimize={self.minimize} says; those after it may differ"
            checks.refuse(f"objectives[{first[0]!r}]", first[1], allowed)
        if self.reference is not None:
            if not isinstance(self.reference, Mapping) or set(self.reference) != set(directions):
                checks.refuse("reference", self.reference, f"a number for each objective: {', '.join(directions)}")
            self.reference = {
                name: float(checks.finite(f"reference[{name!r}]", value, ndim=0))
                for name, value in self.reference.items()
            }
        super().__attrs_post_init__()

    @property
    def outputs(self) -> Outputs:
        return Outputs.of(self.objectives, self.constraints, self.minimize)

    def _fresh_model(self) -> Model:
        """Make the models of all outputs, without observations, and return the first objective's."""
        super()._fresh_model()  # makes those of the limits
        known, models = (self.domain, self._make_engine, self.noise is not None, self._given_lengthscales), []
        for sign in self._signs.astype(int).tolist():
            prior = GivenPrior(self._prior_kernel, self._given_mean_at, self._constant_mean, sign)
            models.append(ObjectiveModel(prior, *known, self.refit, self._search()))
        self._goals = OutputModels(models[1:])
        return models[0]

    @property
    def directions(self) -> dict[str, str]:
        """Direction, "minimize" or "maximize", by objective."""
        return directions_of(self.objectives, self.minimize)

    @property
    def _signs(self) -> Floats:
        """Numbers (p,) by which values of the objectives are multiplied, so that larger ones are better."""
        return np.array([DIRECTIONS[each].SIGN for each in self.directions.values()])

    @property
    def _objective_models(self) -> list[LearnedModel]:
        return [self.model, *self._goals.models]  # type: ignore[list-item]

    # ---- the algorithm

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        found, beside = self._measured(), (*self._goals.models, *self._limited.every)
        near = found.numbers[self._front_mask(found)].tolist()
        return GPEI._next_query(self, allowed, draws)._replace(beside=beside, near=near)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        beside, self._beside = self._beside, None
        assert beside is not None
        oriented, further = self.outputs.oriented(beside), len(self._goals.models)
        self._learn_outputs(candidate, y, noise_variance, oriented)
        self._goals.observe(candidate, oriented[:further])
        self._limited.observe(candidate, oriented[further:])

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        chosen, usual = super().choose(allowed), self._aim
        try:
            for other in (FRONT, *range(len(self.directions))):
                if not self._is_reached(chosen):
                    break
                if other != usual:
                    self._other_aim = other
                    chosen = super().choose(allowed)
        finally:
            self._other_aim = None
        return chosen

    @property
    def _aim(self) -> int:
        """Place of the objective that the next round improves alone; `FRONT` if it improves the front."""
        if self._other_aim is not None:
            return self._other_aim
        alone = self.reference is None and self.round % ALONE == 0
        return self.round // ALONE % len(self.directions) if alone else FRONT

    def _is_reached(self, chosen: int | Floats) -> bool:
        """Whether a choice is pending already, with little noise; or of one objective alone, measured so."""
        number = int(self.domain.find(chosen[None])[0]) if isinstance(chosen, np.ndarray) else chosen
        models = self._objective_models if self._aim == FRONT else [self._objective_models[self._aim]]
        if number < 0 or max(model.noise for model in models) >= SMALL_NOISE:
            return False
        return number in self._pending.asked or (self._aim != FRONT and bool(models[0].queried[number]))

    def acquisition(self, allowed: Mask | None) -> Acquisition:
        return FeasibleImprovement(self._improvement(allowed), self._limited.limits)

    def _improvement(self, allowed: Mask | None) -> ObjectiveIndex | None:
        front = self._front_with_pending()
        if front is None:
            return None
        if self._aim != FRONT:
            return ImprovementOfOne(self._aim, ExpectedImprovement(float(front.largest[self._aim])))
        return self._improvement_of(front)

    @abstractmethod
    def _improvement_of(self, front: Front) -> ObjectiveIndex:
        """Return the index of the objectives, given the front of measured and pending points."""

    def _front_with_pending(self) -> Front | None:
        """Return the front of the points that are measured or pending and likely to be feasible; None without any."""
        found, pending = self._measured(), self._pending.asked
        values = found.averages if self.incumbent == "observation" else found.values
        chances = found.chances
        if pending:
            points = self.domain.coordinates(pending)
            means = np.stack(
                [model.deviation(points)[0] + model.prior_mean(points) for model in self._objective_models]
            )
            values = np.concatenate([values, means.T])
            chances = np.append(chances, self._limited.chances(points).prod(axis=0))
        values = values[chances >= LIKELY]
        if not len(values):
            return None
        values = np.unique(values[on_front(values)], axis=0)
        reference = self._reference_of(values)
        return Front(values[(values > reference).all(axis=1)], reference, values.max(axis=0))

    def _reference_of(self, front: Floats) -> Floats:
        """Return the reference point (p,) of a front (m, p): that which was given, or one a little beyond it."""
        if self.reference is not None:
            given = self._signs * [self.reference[name] for name in self.directions]
            return np.array([m.transform(np.array([v]))[0] for m, v in zip(self._objective_models, given, strict=True)])
        worst, ranges = front.min(axis=0), np.ptp(front, axis=0)
        return worst - MARGIN * np.where(ranges > 0.0, ranges, 1.0)

    def _fresh_measured(self) -> MeasuredPoints:
        """Return the points at which all objectives were measured; averages and values (k, p) are of all.

        Without such a point they are those of the first objective, with what is believed of the others.
        """
        numbers = whole = self.model.averages()[0]
        for model in self._objective_models:
            whole = whole[np.isin(whole, model.averages()[0])] if model.ys else whole
        numbers = whole if len(whole) else numbers
        points = self.domain.coordinates(numbers)
        averages, values = (
            np.stack([measured(model, numbers, points, noisy)[0] for model in self._objective_models], axis=1)
            for noisy in (True, False)
        )
        chances, misses = self._limited.measured(numbers, points)
        return MeasuredPoints(numbers, points, averages, values, chances.prod(axis=0), misses.sum(axis=0))

    @staticmethod
    def _front_mask(found: MeasuredPoints, probability: float = LIKELY) -> Mask:
        """Return the mask (k,) of the front of those measured points that are feasible with a probability."""
        mask = found.chances >= probability
        mask[mask] = on_front(found.values[mask])
        return mask

    # ---- for the user

    def recommend(self) -> Best:
        """Return the point of the front that alone dominates most, beyond the reference point.

        If no point is feasible with probability at least 1 - delta, it is the one that is likeliest to be.
        """
        return self._recommended(self._measured())

    def _recommended(self, found: MeasuredPoints) -> Best:
        if not len(found.numbers):
            return GPEI.recommend(self)
        sure = found.chances >= 1.0 - self.delta
        among = np.flatnonzero(sure if sure.any() else np.ones_like(sure))
        among = among[on_front(found.values[among])]
        merit = np.maximum(found.values - self._reference_of(found.values[among]), 0.0).prod(axis=1)
        if not merit[among].any():  # nothing is beyond the reference: the best by the first objective
            merit = np.full(len(merit), -np.inf)
            merit[among] = found.values[among, 0]
        best = self._best_of(found._replace(values=merit), 1.0 - self.delta)
        mean, std = self._described_front(found, np.array([best]))
        return Best(self.domain.value(int(found.numbers[best])), float(mean[0, 0]), float(std[0, 0]))

    def front(self, *, context: Mapping[Any, Any] | None = None) -> list[FrontPoint]:
        """Return the measured points that no other one dominates, of those that are surely feasible.

        Parameters
        ----------
        context
            Fixed coordinates, as in `ask`: the front of the points that have them.

        Returns
        -------
        list of FrontPoint
            By the first objective, the best first; empty if no point is feasible with probability 1 - delta.

        Raises
        ------
        ValueError
            If no measured point has the context, or the space has no contexts.
        """
        with self._lock:
            found = self._measured_with(context)
            rows = np.flatnonzero(self._front_mask(found, 1.0 - self.delta))
            return self._points_of(found, rows[np.argsort(-found.values[rows, 0], kind="stable")])

    def measured_point(self, x: Any) -> FrontPoint:
        """Return what is believed of the objectives at a measured point, on the front or not.

        Parameters
        ----------
        x
            Point (d,), or a dict of a named space.

        Raises
        ------
        ValueError
            If it is not a point of the space, or none that was measured.
        """
        with self._lock:
            found, points = self._measured(), self.space.check(self.space.parse(x)[0])
            rows = np.flatnonzero(np.isin(found.numbers, self.domain.find(points)))
            if not len(rows):
                checks.refuse("x", x, "a point that was measured")
            return self._points_of(found, rows)[0]

    @property
    def reference_point(self) -> dict[str, float] | None:
        """Values by objective beyond which points of the front count, in their units; None before there is a front."""
        with self._lock:
            found = self._measured()
            front = found.values[self._front_mask(found)]
            if not len(front):
                return None
            ends = [
                m.transform.inverse(z[None])[0]
                for m, z in zip(self._objective_models, self._reference_of(front), strict=True)
            ]
        return dict(zip(self.directions, (self._signs * ends).tolist(), strict=True))

    def _points_of(self, found: MeasuredPoints, rows: Any) -> list[FrontPoint]:
        """Return what is believed of the objectives at measured points."""
        means, stds = self._described_front(found, rows)
        names, xs = list(self.directions), self.domain.values(found.numbers[rows].tolist())
        each = zip(xs, (means.T * self._signs + 0.0).tolist(), stds.T.tolist(), strict=True)
        return [
            FrontPoint(x, dict(zip(names, mean, strict=True)), dict(zip(names, std, strict=True)))
            for x, mean, std in each
        ]

    def _described_front(self, found: MeasuredPoints, rows: Any) -> tuple[Floats, Floats]:
        """Return oriented means and standard deviations (p, k) of the objectives at measured points, in their units.

        Both are NaN of an objective that was never measured.
        """
        moments = np.array(
            [m.in_units(*measured(m, found.numbers[rows], found.points[rows])) for m in self._objective_models]
        )
        moments[[not model.ys for model in self._objective_models]] = np.nan
        return moments[:, 0], np.sqrt(moments[:, 1])

    # ---- state

    @property
    def _known_points(self) -> Mask:
        return super()._known_points | self._goals.queried

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._goals = self._goals.extended(grown)
