"""Figures of policies with several priors: how often each prior was used, and when it was rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from scalable_bandits import checks
from scalable_bandits.analysis import case_of, plays_over_rounds
from scalable_bandits.plots.style import COLOURS, axes, plain, rows, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.runs.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

BINS = 240  # largest number of bins of a timeline along the axis of rounds
WIDEST = 60  # number of letters of all names that fit beside each other


def prior_histogram(result: xarray.Dataset, case: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw how often each policy used each prior: its share of all rounds of all replicates.

    Parameters
    ----------
    result
        Result of a study, as `Study.run` returns it, that has policies with several priors; other policies are left
        out.
    case, ax
        Case of the study and axes, as in `regret_curves`.

    Raises
    ------
    ValueError
        If no policy of the study has priors, if the study lacks the case, or if it has several cases and none is given.
    """
    if "plays" not in result:
        study = f"study {result.attrs.get('study')!r}"
        checks.refuse("result", study, "a study with policies that have several priors")
    case = case_of(result, case)
    ax = axes(ax)
    shares = result["plays"].sel(case=case).mean("replicate").transpose("policy", "prior").values
    drawn = [i for i in range(len(shares)) if np.isfinite(shares[i]).all()]
    places, width = np.arange(shares.shape[1]), 0.85 / max(1, len(drawn))
    for position, i in enumerate(drawn):
        label = plain(result["policy"].values[i])
        left = places + (position - (len(drawn) - 1) / 2) * width
        ax.bar(left, shares[i] / shares[i].sum(), width, color=COLOURS[i % len(COLOURS)], label=label)
    names = [plain(name) for name in result["prior"].values]
    slanted: Any = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(places, names, **(slanted if sum(map(len, names)) > WIDEST else {}))
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
