"""Models of several outputs of a function, objectives and those that have to keep a limit, in one domain.

Values and limits are oriented: a larger value is better, and a limit is the smallest value that keeps it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal
from scalable_bandits.posteriors.hyperparameters.transform import Transform, around_limit
from scalable_bandits.posteriors.models.learned import Fit, LearnedModel
from scalable_bandits.posteriors.models.model import CANDIDATES, Candidates, GivenPrior, MakeEngine, Model
from scalable_bandits.posteriors.state import State, StateEntry, Stateful, group, listed, nested, part
from scalable_bandits.spaces import Domain, Indices, Mask

LEAST_OF_FLAG = 10  # measurements of two values from which they are yes and no
OBJECTIVE_REACH = 3.0  # distance from the median, in median distances, up to which an objective is nearly linear


class LimitedModel(LearnedModel):
    """Learned model of one output, which has to be at least `limit`, in units of the oriented y.

    Other parameters are those of `LearnedModel`.
    """

    def __init__(
        self, limit: float, prior: GivenPrior, domain: Domain, make_engine: MakeEngine,
        lengthscales: LogNormal | None = None, every: int | None = None, search: Candidates = CANDIDATES,
    ):  # fmt: skip
        self.limit = limit
        super().__init__(prior, domain, make_engine, False, lengthscales, every, search)

    @property
    def least(self) -> float:
        """Limit, in units of the engine's y."""
        return float(self.transform(np.array([self.limit]))[0])

    @property
    def is_flag(self) -> bool:
        """Whether the output says yes or no: two values, of which repeated measurements of a point have the same.

        A step is likeliest to be learned as noise around a slope; yet a value that was measured is the output's.
        """
        if len(self.ys) < LEAST_OF_FLAG or len(set(self.ys)) != 2:
            return False
        return len(set(zip(self.numbers, self.ys, strict=True))) == len(set(self.numbers))

    @property
    def values_decide(self) -> bool:
        return super().values_decide or self.is_flag

    def _transform_of(self, count: int) -> Transform:
        return around_limit(self._values(count), self.limit)

    def _worth(self, ys: Floats) -> Floats:
        return -np.abs(ys - self.limit)


class SuccessModel(LimitedModel):
    """Learned model of whether evaluations succeed: the values are 1 and -1, and the limit is 0.

    While all have failed nothing is learned: the likeliest function would fail everywhere, for sure.
    """

    is_flag = False  # accidents are noise

    def _present_fit(self) -> Fit | None:
        return super()._present_fit() if len(set(self.ys)) > 1 else None


def measured(
    model: LearnedModel, numbers: Indices, points: Floats, noisy: bool = False
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return mean and variance (k,) at candidates, in units of the engine's y; where y is exact, its value.

    Parameters
    ----------
    model
        Model of an output.
    numbers, points
        Numbers (k,) and coordinates (k, d) of the candidates.
    noisy
        Whether values that are not exact count like those that are.
    """
    transform, here = model.transform, np.zeros(len(numbers), dtype=np.bool_)
    mean, variance = np.zeros((2, len(numbers)))
    if model.ys and (noisy or model.values_decide):
        here, averages = model.averages_at(numbers)
        mean[here] = transform(averages)
    if not here.all():
        mean[~here], variance[~here] = Model.believed(model, points[~here])
    return mean, variance


class ConstrainedModel(LearnedModel):
    """Learned model of an objective under constraints: what matters are values near the best one that keeps them.

    Parameters are those of `LearnedModel`.

    Attributes
    ----------
    kept : list of bool
        Whether each observation keeps all limits, by the measured values.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (*LearnedModel.STATE, listed("kept", np.bool_, name="learned.kept"))

    def __init__(self, *arguments: Any):
        self.kept: list[bool] = []
        super().__init__(*arguments)

    def add(self, candidate: int, y: float, noise_variance: float) -> None:
        super().add(candidate, y, noise_variance)
        self.kept.append(False)

    def _transform_of(self, count: int) -> Transform:
        if self.known_noise:  # in units of y, which only a linear function scales
            return super()._transform_of(count)
        ys, kept = self._values(count), np.array(self.kept)[self.shown[:count]]
        return around_limit(ys, float(ys[kept].max() if kept.any() else np.median(ys)))


class ObjectiveModel(LearnedModel):
    """Learned model of one of several objectives. Parameters are those of `LearnedModel`."""

    def _transform_of(self, count: int) -> Transform:
        if self.known_noise:  # in units of y, which only a linear function scales
            return super()._transform_of(count)
        ys = self._values(count)
        return around_limit(ys, float(np.median(ys)), OBJECTIVE_REACH)


class OutputModels(Stateful):
    """Models of J outputs of a function in one domain.

    Parameters
    ----------
    models
        Models, without observations.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        group("", lambda self: self._states(), lambda self, states: self._restore_states(states)),
    )

    def __init__(self, models: Sequence[Model]):
        self.models = tuple(models)

    def observe(self, candidate: int, values: Floats, noise_variance: float = 1.0) -> None:
        """Learn the oriented values (J,) of a candidate; NaN where an output was not measured."""
        for model, value in zip(self.models, values.tolist(), strict=True):
            if value == value:
                model.observe(candidate, value, noise_variance)

    def extended(self, domain: Domain) -> Self:
        """Return the models on a larger domain, with the same observations."""
        grown = copy.copy(self)
        grown.models = tuple(model.extended(domain) for model in self.models)
        return grown

    @property
    def queried(self) -> Mask:
        """Mask (n,) of the candidates of which at least one output was measured."""
        return np.asarray(np.any([model.queried for model in self.models], axis=0))

    def _states(self) -> State:
        return nested(**{str(j): model.state() for j, model in enumerate(self.models)})

    def _restore_states(self, states: State) -> None:
        for j, model in enumerate(self.models):
            model.restore(part(states, str(j)))


class LimitedOutputs(OutputModels):
    """Learned models of J outputs, each with the smallest value that is allowed, and of whether evaluations succeed.

    The latter is made at the first failure.

    Parameters
    ----------
    models
        Models of the outputs, without observations.
    make
        Function that makes a model of success on the present domain, without observations.
    """

    models: tuple[LimitedModel, ...]

    def __init__(self, models: Sequence[LimitedModel], make: Callable[[], LimitedModel]):
        super().__init__(models)
        self.success: LimitedModel | None = None
        self._make = make

    @property
    def every(self) -> tuple[LimitedModel, ...]:
        """Models of all that is limited: the outputs, and once an evaluation has failed, success."""
        return self.models if self.success is None else (*self.models, self.success)

    @property
    def limits(self) -> Floats:
        """Limits of `every` model, in units of the engines' y."""
        return np.array([model.least for model in self.every])

    def succeed(self, candidate: int) -> None:
        """Learn that the function was evaluated at a candidate."""
        if self.success is not None:
            self.success.observe(candidate, 1.0, 1.0)

    def fail(self, candidate: int, before: Indices) -> None:
        """Learn that the function failed at a candidate, given those (k,) at which it was evaluated before."""
        if self.success is None:
            self.success = self._make()
            for number in before.tolist():
                self.succeed(number)
        self.success.observe(candidate, -1.0, 1.0)

    def extended(self, domain: Domain) -> Self:
        grown = super().extended(domain)
        grown.success = None if self.success is None else self.success.extended(domain)
        return grown

    def _states(self) -> State:
        return {**super()._states(), **({} if self.success is None else nested(success=self.success.state()))}

    def _restore_states(self, states: State) -> None:
        super()._restore_states(states)
        found = part(states, "success")
        self.success = self._make() if found else None
        if self.success is not None:
            self.success.restore(found)

    def chances(self, points: Floats) -> Floats:
        """Return the posterior probabilities (J, k) that the outputs keep their limits at points (k, d)."""
        found = [_chance(model, *model.believed(points)) for model in self.models]
        return np.array(found).reshape(-1, len(points))

    def measured(self, numbers: Indices, points: Floats) -> tuple[Floats, Floats]:
        """Return these probabilities (J, k) at candidates, and by how much the outputs miss their limits (J, k).

        Where the noise of an output is negligible, or it says yes or no, its measured value decides. Misses are in
        units of the engines' y.

        Parameters
        ----------
        numbers, points
            Numbers (k,) and coordinates (k, d) of the candidates.
        """
        chances, misses = np.empty((2, len(self.models), len(numbers)))
        for j, model in enumerate(self.models):
            mean, variance = measured(model, numbers, points)
            chances[j], misses[j] = _chance(model, mean, variance), np.maximum(model.least - mean, 0.0)
        return chances, misses

    def at(self, number: int, point: Floats) -> list[tuple[float, float]]:
        """Return mean and standard deviation of each output at a candidate (1, d), in units of y.

        Where its noise is negligible, or it says yes or no, its measured value decides; both are NaN where it was never
        measured.
        """
        return [_believed_at(model, number, point) for model in self.models]


def _believed_at(model: LimitedModel, number: int, point: Floats) -> tuple[float, float]:
    """Return mean and deviation of an output at a candidate (1, d), in units of y; NaN if it was never measured."""
    if not model.ys:
        return math.nan, math.nan
    if model.values_decide and number in model.numbers:
        return float(model.averages_at(np.array([number]))[1][0]), 0.0
    mean, variance = model.predict(point)
    return float(mean[0]), math.sqrt(variance[0])


def _chance(model: LimitedModel, mean: Floats, variance: Floats) -> Floats:
    """Return the probabilities (k,) that an output with means and variances (k,) is at least the limit.

    It is 1 for a value that is exactly there, and 1/2 while nothing was measured, in whatever unit the limit is.
    """
    from scipy.special import ndtr

    if not model.ys:
        return np.full(len(mean), 0.5)
    std = np.sqrt(variance)
    return np.where(std > 0.0, ndtr((mean - model.least) / np.maximum(std, 1e-150)), mean >= model.least)
