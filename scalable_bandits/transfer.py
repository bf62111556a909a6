"""Priors from the tables of earlier tasks, for policies with several candidate priors.

    for every table p: m_p = posterior mean of a Gaussian process whose kernel is learned from the table       (1)
    for every table p: k_p = v + s k, learned from the differences y_q - m_p(x_q) of all other tables q        (2)
    the average: m = average of all m_p, k = v + s k learned from y_q - average of the m_p of the others       (3)
    no table: m = average of all y, k = v + s k learned from y_q - m of all tables                             (4)

(2) is what the earlier tasks say of how far from task p a new one is: v is the variance of the difference in level, s
that of the rest. (4) is for a new task that is like none of the earlier ones. A prior that claims more than it knows
is refuted by the observations (Ziomek, Adachi & Osborne 2025).

Each prior comes with copies of another variance c: mean = level of m + sqrt(c) (m - its level), k = v + c s k. They are
for a task that varies less, or more, than the earlier ones. No rejection shows that a prior is too wide: policies that
are optimistic over all priors do better without the wider copies.

Learned are the values of largest posterior density, under the priors of `LearnedModel`, of standardised differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Constant, Kernel
from scalable_bandits.kernels.base import Scaled, Sum
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.posteriors.collapsed import Scatter
from scalable_bandits.posteriors.hyperparameters import learned_prior
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import Likelihood, likeliest
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.priors import Prior
from scalable_bandits.randomness import generator
from scalable_bandits.runs.result import earlier_observations
from scalable_bandits.spaces import Space

FITTED = 100  # largest number of points of a table from which kernels are learned
KNOWN = 1000  # largest number of points of a table that its mean function knows
BLOCK = 4096  # points at which a mean is computed at a time
PRECISION = 1e-6  # relative gain of the log density below which a climb ends
AVERAGE, NO_TABLE = "average of the tables", "no table"


class EarlierTasks(NamedTuple):
    """Priors made from the tables of earlier tasks."""

    priors: list[Prior]  # for each table, for their average, and without a table, each at every variance
    noise: float  # standard deviation of the noise of a measurement, in units of y


class _Task(NamedTuple):
    """Measurements of an earlier task, averaged at each point."""

    points: Floats  # (n, d) distinct coordinates
    y: Floats  # (n,) averages, in units of y
    counts: Floats  # (n,) numbers of measurements
    squares: Floats  # (n,) sums of the squared deviations of the measurements from the averages, in squared units of y

    def scatter(self, scale: float) -> Scatter:
        """Return the scatter of the measurements, in units of `scale` units of y, but for a constant of its density."""
        return Scatter(int(self.counts.sum()) - len(self.counts), float(self.squares.sum()) / scale**2)

    def some(self, most: int, seed: int, number: int) -> _Task:
        """Return at most so many points: half of them drawn, the others those of smallest and largest y."""
        if len(self.y) <= most:
            return self
        order = np.argsort(self.y, kind="stable")
        ends = np.concatenate([order[: most // 4], order[-(most // 4) :]])
        others = np.setdiff1d(np.arange(len(self.y)), ends)
        drawn = generator(seed, "some of a table", number).permutation(others)[: most - len(ends)]
        kept = np.sort(np.concatenate([ends, drawn]))
        return _Task(self.points[kept], self.y[kept], self.counts[kept], self.squares[kept])


class _Fit(NamedTuple):
    """Learned kernel, with the noise variance of a measurement and a constant mean."""

    kernel: Kernel  # in squared units of y
    noise: float  # in squared units of y
    mean: float  # in units of y


@attrs.frozen(eq=False)
class TaskMean:
    """Prior mean that is known from earlier tasks: the average of their posterior means.

    Called with points (k, d), in the coordinates of a model, and a round; returns (k,), in units of y.
    """

    posteriors: tuple[tuple[float, Regression], ...]  # constant mean and regression of each task
    level: float  # average of the values of the tasks, in units of y
    variance: float = 1.0  # factor of the squared difference from the level

    def __call__(self, points: Floats, t: int = 1) -> Floats:
        return self.level + math.sqrt(self.variance) * (self._average(points) - self.level)

    def _average(self, points: Floats) -> Floats:
        found = np.empty(len(points))
        for start in range(0, len(points), BLOCK):
            block = points[start : start + BLOCK]
            each = [mean + posterior.mean(block) for mean, posterior in self.posteriors]
            found[start : start + BLOCK] = np.mean(each, axis=0)
        return found


def priors_from_tables(
    tables: Mapping[str, Any] | Sequence[Any],
    space: Space,
    *,
    variances: Sequence[float] = (1.0, 10.0, 0.1, 0.01, 0.001),
    seed: int = 0,
) -> EarlierTasks:
    """Make priors for a new task from the tables of earlier ones, such as the logs of earlier tuning.

    There is one prior for each table, one for the average of all, and one that has learned no more than kernel and
    level. How far the new task may be from a prior's mean is learned from how far the earlier tasks are from each
    other. With one table alone that is unknown; the kernel is then the table's own. A policy with several priors then
    finds out which of them the new task follows. On the tables of HPO-B (the study "hpob-transfer") `PEGPUCB` with
    ``scale=6000``, without the wider priors, did best; of the policies that take all priors, `FullyBayesianGPUCB` with
    ``scale=20``. With ``scale=1``, `PEGPUCB` has a guarantee, if one of the priors is true.

    Parameters
    ----------
    tables
        Tables by name, or a list of them: earlier results of `minimize` or `maximize`, tables with a column for each
        parameter and one of values (structured arrays or DataFrames), or pairs of points (n, d) and values (n,).
    space
        Space of the new task. Points of the tables have its coordinates; they need not be among its candidates.
    variances
        Variances of the new task over those of the earlier ones, each tried: every prior has a copy for each.
    seed
        Seed of the choice of points, where a table has more than 1000 (its mean function) or 100 (the kernels).

    Returns
    -------
    EarlierTasks
        `priors`, for `PEGPUCB` and its baselines, and `noise`, the standard deviation of a measurement's noise, both in
        units of the tables' values. On a finite space the means are arrays.

    Raises
    ------
    ValueError
        If there is no table, the space has no coordinates, a variance is not positive, or a table is invalid; the
        message names it.

    Examples
    --------
    >>> import numpy as np, scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 50)
    >>> x = space.points()
    >>> earlier = {f"week {i}": (x, np.sin(6 * x[:, 0]) + 0.1 * i) for i in (1, 2, 3)}
    >>> tasks = sb.priors_from_tables(earlier, space)
    >>> options = {"noise": tasks.noise, "regularization": tasks.noise**2, "scale": 20}
    >>> policy = sb.FullyBayesianGPUCB(space, tasks.priors, **options)
    >>> len(tasks.priors), round(float(policy.ask()[0]), 1)  # three weeks, their average, no table; five variances
    (25, 0.3)
    """
    checks.kind("space", space, Space, "a space with coordinates")
    if not space.has_coordinates:
        checks.refuse("space", space, "a space with coordinates: arms have `prior_from_panel`")
    checks.integer("seed", seed, 0)
    factors = checks.finite("variances", variances, ndim=1)
    if not factors.size or (factors <= 0.0).any() or len(set(factors.tolist())) < len(factors):
        checks.refuse("variances", variances, "different positive numbers, at least one")
    named = _named(tables, factors)
    with blas_threads():  # small matrices, in two libraries in turn, whose threads would wait for each other
        return _learned(named, space, factors, seed)


def _learned(named: Mapping[str, Any], space: Space, factors: Floats, seed: int) -> EarlierTasks:
    """Learn the priors from the tables, at each of some variances (k,)."""
    tasks = [_task(f"tables[{name!r}]", table, space) for name, table in named.items()]
    few = [task.some(FITTED, seed, i) for i, task in enumerate(tasks)]
    own = [_learn(learned_prior.standard_kernel(space), [(task, task.y)], space, None) for task in few]
    means = [_posterior(task.some(KNOWN, seed, i), fit) for i, (task, fit) in enumerate(zip(tasks, own, strict=True))]
    learned = _from_differences(few, means, space) if len(tasks) > 1 else own
    levels = [float(task.y.mean()) for task in tasks]
    made = [TaskMean((mean,), level) for mean, level in zip(means, levels, strict=True)]
    level = float(np.mean(levels))
    named_means: dict[str, TaskMean | float] = dict(zip(named, made, strict=True))
    if len(tasks) > 1:
        named_means[AVERAGE] = TaskMean(tuple(means), level)
    alone = _learn(_standard(space), [(task, task.y - level) for task in few], space, 0.0)
    kernels = [*(fit.kernel for fit in learned), alone.kernel]
    named_means[NO_TABLE] = level
    priors = [
        prior
        for (name, mean), kernel in zip(named_means.items(), kernels, strict=True)
        for prior in _copies(name, kernel, mean, factors, space)
    ]
    return EarlierTasks(priors, math.sqrt(float(np.median([fit.noise for fit in own]))))


def _named(tables: Any, factors: Floats) -> dict[str, Any]:
    """Return the tables by name; each of them gives names to priors at some variances (k,)."""
    if isinstance(tables, Mapping):
        found = {str(name): table for name, table in tables.items()}
    elif isinstance(tables, Sequence) and not isinstance(tables, str):
        found = {f"table {i}": table for i, table in enumerate(tables, 1)}
    else:
        checks.refuse("tables", tables, "tables by name, or a list of them")
    if not found:
        checks.refuse("tables", tables, "at least one table")
    for name in (AVERAGE, NO_TABLE):
        if name in found:
            checks.refuse("tables", name, f"other names than {AVERAGE!r} and {NO_TABLE!r}")
    labels = [_label(name, variance) for name in (*found, AVERAGE, NO_TABLE) for variance in factors.tolist()]
    if len(found) < len(tables) or len(set(labels)) < len(labels):
        checks.refuse("tables", list(tables), "names that differ, also from those of copies of another variance")
    return found


def _label(name: str, variance: float) -> str:
    """Return the name of a prior's copy of some variance."""
    return name if variance == 1.0 else f"{name}, variance x {variance:g}"


def _task(argument: str, table: Any, space: Space) -> _Task:
    """Return a table's distinct points, in the coordinates of a model, and its measurements of each."""
    given = earlier_observations(table, space, argument, anywhere=True)
    points, where = np.unique(space.encode(given.points), axis=0, return_inverse=True)
    where = where.ravel()
    counts = np.bincount(where).astype(np.float64)
    averages = np.bincount(where, given.y) / counts
    return _Task(points, averages, counts, np.bincount(where, (given.y - averages[where]) ** 2).astype(np.float64))


def _standard(space: Space) -> Kernel:
    """Return the kernel of a difference between tasks, with its initial values: an unknown level and the rest."""
    return Sum.of(Scaled(1.0, Constant()), learned_prior.standard_kernel(space))


def _learn(kernel: Kernel, data: Sequence[tuple[_Task, Floats]], space: Space, mean: float | None) -> _Fit:
    """Learn a kernel and the noise from values at the points of several tasks, which are independent functions.

    The density is the product of those of the tasks, and of one prior.

    Parameters
    ----------
    kernel
        Kernel with its initial values, for standardised values.
    data
        Tasks, each with values (n,) at its points, in units of y.
    space
        Space of the points.
    mean
        Mean of the values, in units of y; None: a constant is learned (of one task).
    """
    values = np.concatenate([y for _, y in data])
    center = float(values.mean()) if mean is None else mean
    scale = float(np.sqrt(np.mean((values - center) ** 2))) or 1.0
    first, *rest = [
        Likelihood(
            kernel, task.points, (y - center) / scale, 1.0 / task.counts, mean if mean is None else 0.0,
            learned_prior.standard_lengthscales(space), learned_prior.OUTPUT_SCALE, learned_prior.NOISE,
            task.scatter(scale),
        )
        for task, y in data
    ]  # fmt: skip

    def density(logs: Floats) -> tuple[float, Floats]:
        parts = [first(logs), *(each.likelihood(logs) for each in rest)]
        return sum(value for value, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)

    start = np.log([*(p.value for p in kernel.hyperparameters), float(np.max(learned_prior.NOISE.median))])
    best = likeliest(density, [start], *learned_prior.bounds(kernel, space, True), PRECISION)
    density(best)
    *found, noise = np.exp(best).tolist()
    learned = kernel.with_hyperparameters(found)
    return _Fit(_times(scale**2, learned), noise * scale**2, center + scale * first.mean)


def _times(factor: float, kernel: Kernel) -> Kernel:
    """Return a kernel times a factor, which becomes a part of the output scales of a sum."""
    if isinstance(kernel, Sum):
        return Sum.of(*(_times(factor, part) for part in kernel.kernels))
    return attrs.evolve(kernel, factor=factor * kernel.factor) if isinstance(kernel, Scaled) else factor * kernel


def _posterior(task: _Task, fit: _Fit) -> tuple[float, Regression]:
    """Return constant mean and regression of a task."""
    return fit.mean, Regression(fit.kernel, task.points, fit.noise / task.counts, task.y - fit.mean)


def _from_differences(tasks: Sequence[_Task], means: Sequence[tuple[float, Regression]], space: Space) -> list[_Fit]:
    """Learn from the differences between tasks how far a new one may be from each of them, and from their average."""
    predicted = [[mean + posterior.mean(task.points) for mean, posterior in means] for task in tasks]
    found = []
    for p in range(len(tasks)):  # (2)
        others = [(tasks[q], tasks[q].y - predicted[q][p]) for q in range(len(tasks)) if q != p]
        found.append(_learn(_standard(space), others, space, 0.0))
    left_out = [
        (task, task.y - np.mean([predicted[q][p] for p in range(len(tasks)) if p != q], axis=0))
        for q, task in enumerate(tasks)
    ]
    return [*found, _learn(_standard(space), left_out, space, 0.0)]  # (3)


def _copies(name: str, kernel: Kernel, mean: TaskMean | float, variances: Floats, space: Space) -> list[Prior]:
    """Return a prior at each of some variances (k,); on a finite space its mean is an array (size,)."""
    whole = None  # at all candidates, evaluated once for all copies
    if isinstance(mean, TaskMean) and space.finite is not None:
        whole = mean(space.encode(space.finite.points()))
    found = []
    for variance in variances.tolist():
        own: Any = mean
        if isinstance(mean, TaskMean):
            own = attrs.evolve(mean, variance=variance)
            own = own if whole is None else mean.level + math.sqrt(variance) * (whole - mean.level)
        found.append(Prior(_label(name, variance), _with_variance(kernel, variance), own))
    return found


def _with_variance(kernel: Kernel, variance: float) -> Kernel:
    """Return a kernel whose parts, but for the level, are multiplied."""
    parts = kernel.kernels if isinstance(kernel, Sum) else (kernel,)
    level = [part for part in parts if isinstance(part, Scaled) and isinstance(part.kernel, Constant)]
    return Sum.of(*level, *(_times(variance, part) for part in parts if part not in level))
