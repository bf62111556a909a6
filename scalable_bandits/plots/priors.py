"""Several priors: whose turns there were, and who was rejected when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalable_bandits import checks
from scalable_bandits.analysis import case_of, plays_over_rounds
from scalable_bandits.plots.style import COLOURS, axes, plain, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.runs.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

BINS = 240  # of a timeline, along the rounds


def prior_histogram(result: xarray.Dataset, case: str | None = None, ax: Axes | None = None) -> Axes:
    """How often each policy played each prior: share of all rounds of all replicates.

    Parameters
    ----------
    result
        What `Study.run` gave, of a study whose policies have several priors; one without is left out.
    case, ax
        As in `regret_curves`.

    Raises
    ------
    ValueError
        If the study's policies have no priors, it has no such case, or several and none is named.
    """
    if "plays" not in result:
        checks.refuse("result", f"study {result.attrs.get('study')!r}", "a study of policies with several priors")
    case = case_of(result, case)
    ax = axes(ax)
    shares = result["plays"].sel(case=case).mean("replicate").transpose("policy", "prior").values
    drawn = [i for i in range(len(shares)) if np.isfinite(shares[i]).all()]
    places, width = np.arange(shares.shape[1]), 0.85 / max(1, len(drawn))
    for position, i in enumerate(drawn):
        label = plain(result["policy"].values[i])
        left = places + (position - (len(drawn) - 1) / 2) * width
        ax.bar(left, shares[i] / shares[i].sum(), width, color=COLOURS[i % len(COLOURS)], label=label)
    ax.set_xticks(places, [plain(name) for name in result["prior"].values])
    ax.set_xlabel("prior")
    ax.set_ylabel("share of the rounds")
    return tidy(ax, "y")


def prior_timeline(policy: Policy, run: Trajectory | None = None, ax: Axes | None = None) -> Axes:
    """Who of several priors survived until when, and when it was whose turn.

    A bar from round 1 to the end, or to the cross at a prior's rejection; in it, the darker, the more of the rounds
    were the prior's. Beside it, its share of all rounds.

    Parameters
    ----------
    policy
        That has played.
    run
        What it played, from round 1 on; the policy's decisions are reconstructed from it. Without one, bars only.
    ax
        Axes to draw on; new ones if not given.

    Raises
    ------
    ValueError
        If the policy has no priors to choose among, or has not played, or the run does not begin with round 1.

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
        checks.refuse("policy", "0 rounds", "a policy that has played")
    names = [prior.name for prior in policy.priors]
    ax = axes(ax, (6.4, 1.4 + 0.38 * len(names)))
    credits, told = (None, policy) if run is None else plays_over_rounds(policy, run)
    rounds, plays = told.rounds, np.array(list(told.plays.values()), dtype=np.float64)
    edges = np.unique(np.linspace(0, rounds, min(BINS, rounds) + 1).astype(int))
    for row, name in enumerate(names):
        colour = COLOURS[row % len(COLOURS)]
        rejection = told.rejections.get(name)
        end = rounds if rejection is None else rejection.round
        ax.barh(row, end, left=0.5, height=0.62, color=colour, alpha=0.16 if run is not None else 0.45, linewidth=0)
        if credits is not None:
            shares = np.add.reduceat(credits[:, row], edges[:-1]) / np.diff(edges)
            for first, last, share in zip(edges[:-1], edges[1:], shares, strict=True):
                if share > 0.0:
                    ax.barh(
                        row, last - first, left=first + 0.5, height=0.62, color=colour, linewidth=0, antialiased=False,
                        alpha=min(1.0, 0.25 + 0.75 * float(share)),
                    )  # fmt: skip
        if rejection is not None:
            ax.plot(
                end + 0.5, row, marker="x", color="black", markersize=7, markeredgewidth=1.8, zorder=4, clip_on=False
            )
        note = f"{plays[row] / plays.sum():.0%}" + ("" if rejection is None else f", out in {rejection.round:,}")
        ax.text(1.01, row, note, transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.set_yticks(range(len(names)), [plain(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0.5, rounds + 0.5)
    ax.set_xlabel("round")
    return tidy(ax, "x")
