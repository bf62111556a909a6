"""What came out of a tuning run and how sure it is, in sentences, from the observations and the policy's posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import bdtr

from scalable_bandits.checks import Floats
from scalable_bandits.policies import Best, Policy, RandomSearch
from scalable_bandits.policies.contradiction import left_out_errors
from scalable_bandits.policies.first_points import FIRST
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.policies.several_objectives import SeveralObjectivesPolicy
from scalable_bandits.posteriors.models.learned import SMALL_NOISE, LearnedModel
from scalable_bandits.posteriors.models.model import Model
from scalable_bandits.runs.importance import Importance, importance_of
from scalable_bandits.runs.readable import counted, listed, places_beside, point_text, shown, told_apart, with_error
from scalable_bandits.runs.stopping import Measured, regret_bound

NORMAL = 1.959964  # half the width of the central 95 % of a normal distribution, in standard deviations
POINTS, ERROR = 64, 0.05  # of an estimate of the parameters' importance, and its largest standard error
LITTLE = 0.05  # share of the variance below which a parameter hardly matters
NAMED = 3  # parameters whose share is given
MOST_NAMES = 6  # names in a list
LONGEST = 200  # characters of a setting
END = 0.01  # distance from the end of a range, as a share of the range, that counts as its end
RARE = 0.01  # probability below which so few intervals that hold are not due to chance


def is_ignorant(policy: Policy) -> bool:
    """Return whether a policy's learned model has seen too few settings to say how sure it is."""
    model = _model(policy)
    return isinstance(model, LearnedModel) and len(np.unique(model.numbers)) < FIRST


def _model(policy: Policy) -> Model | None:
    """Return the model of a policy that has one."""
    return policy.model if isinstance(policy, GaussianProcessPolicy) else None


def lines_of(
    policy: Policy, best: Best, measured: Measured | None, number: int, values: Floats,
    context: Mapping[Any, Any] | None = None,
) -> list[str]:  # fmt: skip
    """Return up to nine sentences on a run.

    Parameters
    ----------
    policy
        Policy after the run.
    best
        Its recommendation.
    measured
        Best observation; None if nothing was measured.
    number
        Number of its evaluation, from 1.
    values
        Values (n,) of the evaluations, in units of y, in the order in which they ended; NaN of those that failed.
    context
        Values that were given, for which the recommendation is the best; None if all were chosen.
    """
    if not np.isfinite(values).any():
        return ["Nothing was measured: there is no recommendation"]
    ignorant = is_ignorant(policy)
    known = not ignorant and not isinstance(policy, RandomSearch)  # whether the posterior means anything
    setting = point_text(best.x, 4, policy.space)
    recommended = f"Recommended: {setting if len(setting) <= LONGEST else f'{setting[: LONGEST - 3]}...'}"
    if isinstance(policy, SeveralObjectivesPolicy):
        return [line for line in (recommended, *_front(policy, best, context)) if line]
    lines = [recommended, _expected(policy, best) if known else ""]
    lines += [_constraints(policy, best)]
    if measured is not None:
        text = shown(measured.y, places=places_beside(values, best.std if known else math.nan))
        lines += [_measured(policy, best, measured, f"{text} in evaluation {number:,} of {len(values):,}", known)]
    if ignorant:
        lines.append(f"How sure this is cannot be said before {FIRST} different settings are measured")
    elif known:
        shares = _importance(policy)
        room = _room(policy) if context is None else ""  # is one of all contexts
        lines += [room, _noise(_model(policy), values), _importance_line(policy, shares)]
        lines += [_ends(policy, best, shares, context or {}), _left_out(policy)]
    return [line for line in lines if line]


def _expected(policy: Policy, best: Best) -> str:
    """Say what the recommended setting is expected to be worth."""
    low, high = policy.interval(best.x)
    if not np.isfinite([best.mean, low, high]).all():
        return ""
    ends = [with_error(end, best.std).partition(" ±")[0] for end in (low, high)]  # with as many digits
    return f"Expected value there: {with_error(best.mean, best.std)}, 95 % interval {ends[0]} to {ends[1]}"


def _front(policy: SeveralObjectivesPolicy, best: Best, context: Mapping[Any, Any] | None) -> list[str]:
    """Say what the recommended setting is worth by each objective, what the front is, which constraints are kept."""
    front, here = policy.front(context=context), policy.measured_point(best.x)
    limits = _constraints(policy, best) if policy.constraints else ""
    values = [f"{name} {with_error(here.values[name], here.stds[name])}" for name in here.values]
    its = f"Its values: {listed(values, MOST_NAMES)}"
    if not front:
        return [its, limits]
    ends = {name: sorted(each.values[name] for each in front) for name in here.values}
    ranges = [f"{name} from {' to '.join(told_apart([found[0], found[-1]]))}" for name, found in ends.items()]
    count = counted(len(front), "setting")
    return [its, f"Front: {count}, {listed(ranges, MOST_NAMES)}", limits]


def _constraints(policy: Policy, best: Best) -> str:
    """Say whether the recommended setting keeps the constraints, if there are any, and by how much it misses them."""
    if not (margins := policy.margins(best.x)):
        return ""
    failed = [each for each in margins if each.probability < 1.0 - policy.delta]
    if not failed:
        kept = [f"{each.output} {shown(each.mean)} ({each.limit})" for each in margins]
        return f"It keeps all constraints: {listed(kept, MOST_NAMES)}"
    texts = []
    for each in failed:
        if math.isnan(each.mean):
            how = "was not measured"
        elif not each.measured:
            how = f"was not measured, and is expected to be {with_error(each.mean, each.std)}"
        else:
            how = f"is missed by {shown(each.missed_by, 2)}" if each.missed_by else "is in doubt"
        texts.append(f"{each.output} ({each.limit}) {how}")
    return f"No measured setting keeps all constraints for sure; at this one {listed(texts, MOST_NAMES)}"


def _measured(policy: Policy, best: Best, measured: Measured, which: str, known: bool) -> str:
    """Say which value is the best measured one, when it was measured, and whether that is luck."""
    parse = policy.space.parse
    same = np.array_equal(parse(measured.x)[0], parse(best.x)[0])
    where = "at the recommended setting" if same else "at another setting"
    text = f"Best measured value: {which}, {where}"
    low, high = policy.interval(measured.x)
    if not known or not np.isfinite([measured.value, low, high]).all():
        return text
    if not same:
        text += f", where {with_error(measured.value, measured.std)} is expected"
    return text + (": partly luck" if (measured.y < low if policy.minimize else measured.y > high) else "")


def _room(policy: Policy) -> str:
    """Say how much better another setting may be."""
    found = regret_bound(policy)
    if found is None:
        return ""
    bound, estimated = found
    how = "an estimate by the learned model" if estimated else "if the model's assumptions hold"
    return f"Another setting may be better by up to {shown(bound, 2)} ({how})"


def _noise(model: Model | None, values: Floats) -> str:
    """Compare the learned noise of a measurement with the spread of the values."""
    spread = float(np.nanstd(values))
    if not isinstance(model, LearnedModel) or model.known_noise or not spread > 0.0:
        return ""
    noise = math.sqrt(model.noise) * model.transform.scale
    share = "less than 1" if noise < 0.01 * spread else f"{100.0 * noise / spread:.0f}"
    text = f"Learned noise of a measurement: {shown(noise, 2)}, {share} % of the standard deviation of all values"
    if model.domain.space.scanned and model.noise < SMALL_NOISE and len(set(model.numbers)) == len(model.numbers):
        text += "; it may be more, since no candidate was measured twice"
    return text


def _importance(policy: Policy) -> Importance | None:
    """Estimate which parameters matter; None where the space or the policy does not allow it."""
    if len(policy.space.axes) < 2:
        return None
    try:
        return importance_of(policy, POINTS, ERROR)
    except ValueError:
        return None


def _importance_line(policy: Policy, shares: Importance | None) -> str:
    """Name the parameters that matter most, and those that hardly matter."""
    if shares is None:
        return ""
    if not shares.variance > 0.0:
        return "No parameter makes a difference, as far as the model knows"
    order = np.argsort(-shares.total, kind="stable")
    little = shares.total + NORMAL * shares.total_error < LITTLE
    total = 100.0 * np.minimum(shares.total, 1.0)  # the estimate may be above
    most = [
        f"{shares.names[i]} {total[i]:.0f} % ± {max(1.0, math.ceil(100.0 * shares.total_error[i])):.0f}"
        for i in order[:NAMED]
        if not little[i]
    ]
    text = f"What matters (shares of the variance, with interactions): {', '.join(most)}"
    constant = {axis.name for axis in policy.space.axes if axis.low == axis.high}
    hardly = [shares.names[i] for i in order if little[i] and shares.names[i] not in constant]
    return text + (f"; hardly: {listed(hardly, MOST_NAMES)}" if hardly else "")


def _ends(policy: Policy, best: Best, shares: Importance | None, context: Mapping[Any, Any]) -> str:
    """Name the parameters that matter and are recommended at an end of their range."""
    space = policy.space
    if not space.named and space.box is None:
        return ""
    point = space.parse(best.x)[0]
    exist, found, inside = space.active(point)[0], list[str](), list[str]()
    for i, axis in enumerate(space.axes):
        place = float(axis.places(point[0, i]))
        several = axis.low < axis.high and axis.ordered and (axis.values is None or len(axis.values) > 2)
        matters = shares is None or shares.total[i] + NORMAL * shares.total_error[i] >= LITTLE
        chosen = i not in context and axis.name not in context
        if chosen and exist[i] and several and matters and not END < place < 1.0 - END:
            scalable = axis.values is None and not axis.log and axis.low >= 0.0
            (inside if scalable and 0.0 < place <= END else found).append(axis.name)
    kinds = ("at the end", found, "a wider range"), ("near the lower end", inside, "a log scale")
    text = "; ".join(
        f"{where} of {'its range' if len(names) == 1 else 'their ranges'}: {listed(names, MOST_NAMES)} "
        f"({what} may be better)"
        for where, names, what in kinds if names
    )  # fmt: skip
    return text[:1].upper() + text[1:]


def _left_out(policy: Policy) -> str:
    """Say how many values the model predicts within its 95 % intervals when they are left out one by one."""
    if not isinstance(policy, GaussianProcessPolicy) or policy._engines or policy.engine == "sketched":
        return ""
    errors = left_out_errors(policy.model)
    if errors is None or (isinstance(policy.model, LearnedModel) and policy.model.failed):
        return ""
    held, count = int((np.abs(errors) <= NORMAL).sum()), len(errors)
    narrow = bdtr(held, count, 0.95) < RARE
    note = ": they are too narrow" if narrow else ""
    return f"Check: of {count} values left out one by one, {held} are in the model's 95 % intervals{note}"
