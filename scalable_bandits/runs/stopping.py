"""What callbacks and rules see of a run of `minimize` or `maximize`; rules that end it before its budget is used.

A rule is a function of a `RunView`: no further evaluation begins once it is true. Any function will do. A callback is
one too, whose result is not used. It may have two methods: `begin`, called with a `RunStart` before the first
evaluation, and `end`, called after the run with its result, or with None if the run raised an exception.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import width
from scalable_bandits.identity import function_name
from scalable_bandits.policies import Policy
from scalable_bandits.policies.confidence import practical_width
from scalable_bandits.policies.first_points import FIRST
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.tickets import Ticket

RECENT = 5  # last measurements whose gain may be made again
SLACK = 1e-3  # share of the range of the values by which all bounds may be below a value of a model that is right
PLAINLY = 3.0  # deviations from the model's mean beyond which a measured value contradicts the model


@attrs.frozen(eq=False)
class RunStart:
    """Run that begins or goes on, for the method `begin` of callbacks.

    Attributes
    ----------
    policy
        Policy of the run, which knows the observations so far.
    function
        Name of the function, or line of the command, that is evaluated.
    budget
        Number of evaluations of the run, those of earlier processes included.
    tickets
        Tickets of the evaluations that have ended in earlier processes, in the order in which they ended; those of
        `warm_start` among them, with call number 0.
    run_id
        Identity of the stored run, the same whenever it goes on; None without a store.
    place
        Folder of the store; None without one.
    """

    policy: Policy
    function: str
    budget: int
    tickets: tuple[Ticket, ...] = ()
    run_id: str | None = None
    place: str | None = None


class Measured(NamedTuple):
    """Best observation, and what the posterior says at its point."""

    x: Any  # point (d,), an arm number, or a dict
    y: float  # in units of y
    value: float = math.nan  # posterior mean at x, in units of y; NaN while the run goes on
    std: float = math.nan  # posterior standard deviation at x, in units of y; NaN while the run goes on


@attrs.frozen(eq=False)
class RunView:
    """View of a run after an evaluation, for callbacks and stopping rules; read only, with points of its own.

    Attributes
    ----------
    number
        Number of evaluations that have ended, failures and those of earlier processes included.
    x
        Point (d,) of the evaluation that has just ended; an arm number, or a dict.
    y
        Its value, in units of y; None if it failed.
    error
        Error of a failed evaluation, in one line.
    best
        Best observation so far; None before the first.
    since_best
        Number of evaluations that have ended since the best observation was made; with several objectives, since
        there was one that no earlier one is as good as in all of them.
    policy
        Policy of the run. Callbacks may call `best` and `posterior`; they must not call `ask`, `tell` or `abandon`.
    seconds
        Time since the call began.
    ticket
        Ticket of the evaluation: its number, worker, times.
    """

    number: int
    x: Any
    y: float | None
    error: str
    best: Measured | None
    since_best: int
    policy: Policy
    seconds: float
    ticket: Ticket


Rule = Callable[[RunView], Any]  # also a callback, whose result is not used


def name_of(rule: Rule) -> str:
    """Return the name of a rule: of this module's as it is made, of a function its own."""
    own = isinstance(rule, RegretBelow | NoImprovement | Deadline)
    return repr(rule) if own else function_name(rule).rpartition(":")[2]


@attrs.frozen
class NoImprovement:
    """Rule that ends a run when `k` evaluations in succession have not improved upon the best one, or the front.

    Parameters
    ----------
    k
        Number of evaluations, failures included.

    Raises
    ------
    ValueError
        If k is not positive.
    """

    k: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))

    def __call__(self, run: RunView) -> bool:
        return run.since_best >= self.k


@attrs.frozen
class Deadline:
    """Rule that ends a run some seconds after its call began; evaluations in flight are waited for.

    Parameters
    ----------
    seconds
        Duration of the call.

    Raises
    ------
    ValueError
        If the duration is not positive.
    """

    seconds: float = attrs.field(converter=checks.to_float, validator=checks.positive)

    def __call__(self, run: RunView) -> bool:
        return run.seconds >= self.seconds


@attrs.frozen
class RegretBelow:
    """Rule that ends a run when the recommended point is provably, or presumably, good enough.

    The run ends when the largest upper confidence bound over the space is at most `eps` above the lower confidence
    bound of the recommended point (`policy.best()`). With a given kernel the width of the bounds is that of Flynn &
    Reeb 2024: if the norm of f is at most B and the noise R-sub-Gaussian, the regret of the recommended point is at
    most `eps` with probability 1 - delta. Without a kernel (or with ``refit=``) it is an estimate: the width is the one
    with which a learned model is played, about 2, and no run ends before ten points have been measured.

    On finite spaces the largest bound is exact; on a box, a `SearchSpace` and, without a kernel, a grid of more than
    20,000 points it is the largest that the search for it finds.

    Parameters
    ----------
    eps
        Regret, in units of y.
    rkhs_norm
        Bound B on the norm of f. If not given, the policy's own; not used without a given kernel.
    delta
        Failure probability of the guarantee; if not given, the policy's.

    Raises
    ------
    ValueError
        If a number is not positive, or delta not between 0 and 1; in `minimize`, if the policy has no exact model of a
        fixed function, or the norm is not known.
    """

    eps: float = attrs.field(converter=checks.to_float, validator=checks.positive)
    rkhs_norm: float | None = checks.optional_number(checks.positive)
    delta: float | None = checks.optional_number(checks.probability)

    def check(self, policy: Policy) -> None:
        """Raise ValueError unless the policy has a model of a fixed function, and the norm is known where it counts."""
        fixed = isinstance(policy, GaussianProcessPolicy) and not policy._engines and not policy._prior_kernel.epsilon
        if not isinstance(policy, GaussianProcessPolicy) or not fixed or policy.engine == "sketched" or policy.outputs:
            allowed = "other rules, or a policy with one exact posterior of a fixed function, such as GPEI"
            checks.refuse("stop", f"{self} with {type(policy).__name__}", allowed)
        if not _learns(policy) and self._norm(policy) is None:
            allowed = "RegretBelow(eps, rkhs_norm=B), where the kernel is given: the policy has no bound B on the norm"
            checks.refuse("stop", f"{self} with {type(policy).__name__}", allowed)

    def _norm(self, policy: GaussianProcessPolicy) -> float | None:
        own = getattr(policy, "rkhs_norm", None)
        given = own if self.rkhs_norm is None else self.rkhs_norm
        return given if isinstance(given, float) else None  # "double" is a guess

    def __call__(self, run: RunView) -> bool:
        return self.bound(run.policy) <= self.eps

    def bound(self, policy: Policy) -> float:
        """Return the bound on the regret of the recommended point, in units of y.

        Where the model is learned, it is at least what the last evaluations have gained, and infinite where the
        recommended point is measured plainly better or worse than the model can believe, whose bounds then mean
        nothing.
        """
        assert isinstance(policy, GaussianProcessPolicy)
        delta = policy.delta if self.delta is None else self.delta
        if _learns(policy):
            values = policy.model.averages()[1]
            if len(values) < FIRST or values.min() == values.max():  # nothing to learn the scale of y from
                return math.inf
            factor = practical_width(policy.domain, delta).at(policy.rounds + 1, math.nan)
        else:
            norm = self._norm(policy)
            assert norm is not None
            gain = policy.model.engine.information_gain
            factor = width("flynn-reeb", gain, delta, norm, policy.noise, policy.regularization)
        point = policy.space.parse(policy.best().x)[0]
        low, _ = policy._bounds(point, factor)
        bound = policy.model.highest(factor, (policy.seed, policy.round)) - float(low[0])
        if not _learns(policy):
            return bound
        contradicted = bound < -SLACK * np.ptp(values) or _contradicts(policy, point)
        return math.inf if contradicted else max(bound, _gained(policy))


def _gained(policy: GaussianProcessPolicy) -> float:
    """Return by how much the last `RECENT` measurements have improved the best one, in units of y, at least 0."""
    found = policy.observations
    ys = np.empty(0) if found is None else -found.y if policy.minimize else found.y
    return max(float(ys[-RECENT:].max() - ys[:-RECENT].max()), 0.0) if len(ys) > RECENT else 0.0


def _contradicts(policy: GaussianProcessPolicy, point: Floats) -> bool:
    """Return whether the mean of the measurements of a point (1, d) is beyond `PLAINLY` deviations of the model's."""
    model, number = policy.model, policy.domain.find(point)
    known, averages, _ = model.averages()
    mean, variance = model.believed(policy.space.encode(point))
    z = model.transform(averages[known == number])
    return bool((np.abs(z - mean) > PLAINLY * np.sqrt(variance + model.noise)).any())


def regret_bound(policy: Policy) -> tuple[float, bool] | None:
    """Return the bound of `RegretBelow` on the regret of the recommended point, and whether it is only an estimate.

    None if the policy has no such bound, or too few values are measured.

    Parameters
    ----------
    policy
        Policy after a run.
    """
    rule = RegretBelow(1.0)
    try:
        rule.check(policy)
    except ValueError:
        return None
    bound = rule.bound(policy)
    assert isinstance(policy, GaussianProcessPolicy)
    return (bound, _learns(policy)) if math.isfinite(bound) else None


def _learns(policy: GaussianProcessPolicy) -> bool:
    """Return whether a policy learns its kernel."""
    return policy.kernel is None or policy.refit is not None
