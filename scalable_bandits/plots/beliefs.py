"""Figures of what a policy believes: posterior and index in one and two dimensions; use and rejection of priors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.analysis import case_of, curves_of, index_of, lattice, plays_over_rounds, prior_shares
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.plots.arrangement import axes
from scalable_bandits.plots.style import COLOURS, plain, rows, star, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Indices

if TYPE_CHECKING:
    import xarray

SIDES = {1: 500, 2: 90}  # dimension -> points drawn along each axis
DEPTH = 12.0  # range below the maximum in which the logarithm of an index is drawn
LOGARITHMS = {
    "ExpectedImprovement": "log expected improvement",
    "ProbabilityOfImprovement": "score of improvement",
    "FeasibleImprovement": "log expected feasible improvement",
}
BINS = 240  # largest number of bins of a timeline along the axis of rounds
WIDEST = 60  # number of letters of all names that fit beside each other


def posterior(
    policy: Policy,
    environment: Environment | None = None,
    run: Trajectory | None = None,
    ax: Axes | None = None,
    *,
    of: str = "mean",
) -> Axes:
    """Draw the posterior of a policy on arms or on a space of one or two dimensions.

    In one dimension: the mean, a band of 1.96 standard deviations, and the policy's confidence width as dashed lines.
    In two dimensions: an image of the mean or of the standard deviation.

    Parameters
    ----------
    policy
        Policy with a posterior, before or after its first observation. Its own observations (`Policy.observations`) are
        drawn if no run is given.
    environment
        Environment whose f is drawn too, at the policy's round; in two dimensions as contours. Default: none.
    run
        Trajectory whose observations are drawn. In two dimensions each distinct point is a dot, larger the more rounds
        chose it (on `Points` a ring). Default: none.
    ax
        Axes to draw on. Default: those of a new figure.
    of
        Quantity to draw in two dimensions, "mean" or "deviation".

    Raises
    ------
    ValueError
        If the space has more than two dimensions, or `of` is neither.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.Grid([[0, 1]], 50)
    >>> policy = sb.IGPUCB(space, sb.RBF(0.2), noise=0.1, regularization=0.01)
    >>> function = sb.Benchmark("forrester", space, sb.GaussianNoise(0.1))
    >>> run = sb.simulate(policy, function, 10)
    >>> sb.plots.posterior(policy, function, run).get_xlabel()
    '$x$'
    """
    if of not in ("mean", "deviation"):
        checks.refuse("of", of, "'mean' or 'deviation'")
    _check_drawn(policy, run)
    if environment is not None:
        checks.kind("environment", environment, Environment, "an environment, or None")
    points, shape = lattice(policy, SIDES.get(policy.space.dimension, 1))
    mean, std = policy.posterior(points)
    if policy.space.dimension != 2:
        return _line(policy, points, (mean, std), environment, run, axes(ax))
    ax = axes(ax, (6.2, 5.0))
    scale = _surface(points, shape, mean if of == "mean" else std, f"posterior {of} (units of y)", ax)
    if environment is not None:
        where, f, sides = function_at(environment, policy.rounds + 1, SIDES[2])
        if sides is not None:
            scale.set_label(f"posterior {of} (units of y)\nwhite lines: contours of f")
            ax.contour(*_along(where, sides), f.reshape(sides).T, levels=7, colors="white", linewidths=0.7, alpha=0.8)
    told = policy.observations
    if run is not None:
        _dots(policy, *_chosen(policy, run), ax)
    elif told is not None:
        one = told.noise_variance.max() if policy.regularization is None else policy.regularization  # learned, or given
        _dots(policy, told.x, one / told.noise_variance, ax)
    return ax


def _check_drawn(policy: Policy, run: Trajectory | None) -> None:
    checks.kind("policy", policy, Policy, "a policy")
    if run is not None:
        checks.kind("run", run, Trajectory, "a Trajectory, as simulate returns it, or None")


def index(policy: Policy, run: Trajectory | None = None, ax: Axes | None = None) -> Axes:
    """Draw the index of a policy for the next round, in one or two dimensions, with a star at its maximum.

    Parameters
    ----------
    policy
        Policy that maximises an index over its space, or `PEGPUCB`. Pending points do not count.
    run
        Trajectory whose points are marked. Default: none.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If the space has more than two dimensions, or the policy does not maximise an index over it.
    """
    _check_drawn(policy, run)
    points, shape = lattice(policy, SIDES.get(policy.space.dimension, 1))
    values = index_of(policy, points)
    acquisition: Any = getattr(policy, "acquisition", None)
    index_name = type(acquisition(None)).__name__ if acquisition else ""
    name, top = LOGARITHMS.get(index_name, "index (units of y)"), int(np.argmax(values))
    if index_name in LOGARITHMS:
        values = np.maximum(values, values[top] - DEPTH)
    if policy.space.dimension == 2:
        ax = axes(ax, (6.2, 5.0))
        _surface(points, shape, values, name, ax)
        if run is not None:
            _dots(policy, *_chosen(policy, run), ax)
        star(ax, *points[top])
        return ax
    ax = axes(ax, (6.4, 2.8))
    x = np.asarray(points).reshape(-1)
    ax.plot(x, values, "-" if policy.space.has_coordinates else "o", color=COLOURS[2], linewidth=1.8)
    star(ax, x[top], values[top], label="maximum")
    if run is not None and policy.space.has_coordinates:
        played = policy.domain.points(run.candidate)[:, 0]
        ax.plot(played, np.full(len(played), 0.02), "|", color=COLOURS[1], transform=ax.get_xaxis_transform(),
                label="chosen")  # fmt: skip
    ax.legend(frameon=False, fontsize=8.5)
    ax.margins(y=0.12)
    return tidy(ax, "$x$" if policy.space.has_coordinates else "arm", name)


def _line(
    policy: Policy, points: NDArray[Any], moments: tuple[Floats, Floats], environment: Environment | None,
    run: Trajectory | None, ax: Axes,
) -> Axes:  # fmt: skip
    """Draw mean and standard deviation, two (k,) arrays, at points of one dimension or at arms."""
    mean, std = moments
    x = np.asarray(points).reshape(-1)
    if not policy.space.has_coordinates:
        ax.errorbar(x, mean, 1.96 * std, fmt="o", markersize=4, color=COLOURS[0], label="mean, 1.96 deviations")
        if environment is not None:
            ax.plot(x, environment.table_at(policy.rounds + 1), "_", color="black", markersize=12, label="f")
    else:
        ax.fill_between(x, mean - 1.96 * std, mean + 1.96 * std, color=COLOURS[0], alpha=0.2, linewidth=0,
                        label="1.96 deviations")  # fmt: skip
        ax.plot(x, mean, color=COLOURS[0], linewidth=1.8, label="mean")
        if np.isfinite(policy.width):
            for width, label in ((-policy.width, "_"), (policy.width, "confidence width")):
                ax.plot(x, mean + width * std, color=COLOURS[0], linewidth=0.9, linestyle="--", label=label)
        if environment is not None:
            where, f, _ = function_at(environment, policy.rounds + 1, SIDES[1])
            order = np.argsort(where[:, 0])
            ax.plot(where[order, 0], f[order], color="black", linewidth=1.3, linestyle=":", label="f")
    told = policy.observations if run is None else (policy.domain.points(run.candidate), run.y)
    if told is not None and len(told[0]):
        ax.plot(told[0][:, 0], told[1], "o", color=COLOURS[1], markersize=4, markeredgecolor="white",
                markeredgewidth=0.4, label="observations", zorder=3)  # fmt: skip
    if not policy.space.has_coordinates:  # their intervals fill the width: make room for the legend above
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.2 * (high - low))
    ax.legend(frameon=False, fontsize=8.5, ncols=2, loc="best" if policy.space.has_coordinates else "upper left")
    return tidy(ax, "$x$" if policy.space.has_coordinates else "arm", "units of y")


def function_at(environment: Environment, t: int, side: int) -> tuple[Floats, Floats, tuple[int, ...] | None]:
    """Return points and values of f in a round, on a box `side` each way, and their shape if they are a lattice."""
    drawn = environment.space.drawn(side)
    points = drawn.points()
    values = environment.table_at(t) if drawn is environment.space.finite else environment.values_at(points, t)
    return points, values, drawn.lattice


def _along(points: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the coordinates of a lattice along each of its two dimensions."""
    return points.reshape(*shape, 2)[:, 0, 0], points.reshape(*shape, 2)[0, :, 1]


def _surface(points: Floats, shape: tuple[int, ...] | None, values: Floats, name: str, ax: Axes) -> Any:
    """Draw values as an image, or as coloured points if they are not a lattice, and return the colour bar."""
    drawn: Any
    if shape is None:
        drawn = ax.scatter(points[:, 0], points[:, 1], c=values, cmap="viridis", s=30, linewidth=0)
    else:
        drawn = ax.pcolormesh(*_along(points, shape), values.reshape(shape).T, cmap="viridis", shading="gouraud")
    figure: Any = ax.figure
    scale = figure.colorbar(drawn, ax=ax, pad=0.02)
    scale.outline.set_visible(False)
    scale.set_label(name)
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    return scale


def _chosen(policy: Policy, run: Trajectory) -> tuple[Floats, Indices]:
    """Return the distinct points (k, d) of a run, and how many rounds chose each (k,)."""
    distinct, counts = np.unique(run.candidate, return_counts=True)
    return policy.domain.points(distinct), counts


def _dots(policy: Policy, points: Floats, counts: NDArray[Any], ax: Axes) -> None:
    """Mark points (k, 2) by dots, the larger, the more observations there are."""
    sizes = 10.0 + 14.0 * np.log10(np.maximum(counts, 1.0)) ** 2
    look: dict[str, Any] = {"s": sizes, "color": COLOURS[1], "edgecolor": "white", "linewidth": 0.5}
    if policy.space.box is None:  # rings, because dots would hide the colours of the points
        look = {"s": sizes + 45.0, "facecolor": "none", "edgecolor": COLOURS[1], "linewidth": 1.4}
    ax.scatter(*points.T, zorder=3, **look)


def prior_histogram(
    result: xarray.Dataset | Mapping[str, Any], case: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how often each policy used each prior: its share of all rounds of all replicates.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it, or its record, as for `regret_curves`, that has policies with
        several priors; other policies are left out.
    case, ax
        Case of the study and axes, as in `regret_curves`.

    Raises
    ------
    ValueError
        If no policy of the study has priors, if the study lacks the case, or if it has several cases and none is given.
    """
    given: Any = result
    policies, shares = [], {}
    if hasattr(given, "attrs") and "plays" in given:
        policies, shares = given["policy"].values.tolist(), prior_shares(given, case_of(given, case))
    elif "curves" in given:
        case = case_of(given, case)
        curves = [one for one in curves_of(given) if one.case == case]
        policies, shares = [one.policy for one in curves], {one.policy: one.shares for one in curves if one.shares}
    if not shares and "plays" not in given:  # of a study that has some in another case: an empty panel
        study = f"study {getattr(given, 'attrs', given).get('study')!r}"
        checks.refuse("result", study, "a study with policies that have several priors")
    colours = dict(zip(policies, itertools.cycle(COLOURS), strict=False))
    ax = axes(ax)
    names, width = list(dict.fromkeys(itertools.chain(*shares.values()))), 0.85 / max(1, len(shares))
    for position, (policy, share) in enumerate(shares.items()):
        left = np.arange(len(names)) + (position - (len(shares) - 1) / 2) * width
        ax.bar(left, [share.get(name, 0.0) for name in names], width, color=colours[policy], label=plain(policy))
    slanted: Any = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), map(plain, names), **(slanted if sum(map(len, names)) > WIDEST else {}))
    return tidy(ax, "prior", "share of the rounds", "y")


def prior_timeline(policy: Policy, run: Trajectory | None = None, ax: Axes | None = None) -> Axes:
    """Draw, for each prior, the rounds until its rejection and the rounds that used it.

    A prior's bar ends with the run or, marked by a cross, in the round of the rejection. Dark parts of the bar are
    rounds that used the prior. The text at the right is its share of all rounds.

    Parameters
    ----------
    policy
        Policy with several priors, after at least one round.
    run
        Trajectory of the policy from round 1 on, from which the choices of priors are reconstructed. Default: none, and
        bars without dark parts.
    ax
        Axes to draw on. Default: those of a new figure.

    Raises
    ------
    ValueError
        If the policy does not have several priors or has no rounds, or if the run does not begin with round 1.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space, priors = sb.Grid([[0, 1]], 20), [sb.Prior("low", sb.RBF(0.2)), sb.Prior("high", sb.RBF(0.2), mean=50.0)]
    >>> policy = sb.PEGPUCB(space, priors, noise=0.1, regularization=0.01)
    >>> run = sb.simulate(policy, sb.GPSample(space, sb.RBF(0.2), sb.GaussianNoise(0.1)), 30)
    >>> [label.get_text() for label in sb.plots.prior_timeline(policy, run).get_yticklabels()]
    ['low', 'high']
    """
    if not isinstance(policy, UnknownPriorPolicy):
        checks.refuse("policy", type(policy).__name__, "a policy with several priors, such as PEGPUCB")
    if not policy.rounds:
        checks.refuse("policy", "0 rounds", "a policy after at least one round")
    used, replayed = (None, policy) if run is None else plays_over_rounds(policy, run)
    names = [prior.name for prior in replayed.priors]
    ax = axes(ax, (6.4, 1.4 + 0.38 * len(names)))
    rounds, plays = replayed.rounds, np.array(list(replayed.plays.values()), dtype=np.float64)
    edges = np.unique(np.linspace(0, rounds, min(BINS, rounds) + 1).astype(int))
    for row, name in enumerate(names):
        colour = COLOURS[row % len(COLOURS)]
        rejection = replayed.rejections.get(name)
        end = rounds if rejection is None else rejection.round
        ax.barh(row, end, left=0.5, height=0.62, color=colour, alpha=0.16 if run is not None else 0.45, linewidth=0)
        if used is not None:
            shares = np.add.reduceat(used[:, row], edges[:-1]) / np.diff(edges)
            some = np.flatnonzero(shares)
            tints = [to_rgba(colour, min(1.0, 0.25 + 0.75 * share)) for share in shares[some].tolist()]
            ax.barh(np.full(len(some), row), np.diff(edges)[some], left=edges[some] + 0.5, height=0.62, color=tints,
                    linewidth=0, antialiased=False)  # fmt: skip
        if rejection is not None:
            ax.plot(end + 0.5, row, "x", color="black", markersize=7, markeredgewidth=1.8, zorder=4, clip_on=False)
        note = f"{plays[row] / plays.sum():.0%}" + ("" if rejection is None else f", rejected in {rejection.round:,}")
        ax.text(1.01, row, note, transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    rows(ax, names)
    ax.set_xlim(0.5, rounds + 0.5)
    return tidy(ax, "round", grid="x")
