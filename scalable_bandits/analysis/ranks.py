"""Ranks of a study's policies over all cases and replicates, and how often one policy is better than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.analysis.curves import horizons_of, labels_of, outcomes, policies_of
from scalable_bandits.checks import Floats

if TYPE_CHECKING:
    import xarray


class Rank(NamedTuple):
    """Mean rank of a policy at a horizon."""

    policy: str  # without its horizon, if it is played at several
    horizon: int  # number of rounds
    pairs: int  # number of pairs of a case and a replicate that the policy finished
    rank: float  # mean over these; 1 is the rank of the least regret


class Wins(NamedTuple):
    """How often a policy has less regret than another policy in the same replicate."""

    policy: str  # without its horizon, if it is played at several
    horizon: int  # number of rounds
    against: str  # the other policy
    pairs: int  # number of pairs of a case and a replicate that both finished
    wins: int  # pairs in which the policy has less regret
    losses: int  # pairs in which it has more
    ties: int  # pairs in which both have the same
    p_value: float  # p-value of the two-sided sign test, without the ties; 1 if there are only ties


def ranks(result: xarray.Dataset) -> list[Rank]:
    """Return the mean rank of each policy over all cases and replicates, least first, at each horizon.

    In each replicate of each case, the policies that finished it are ranked by their regret: that of the best point if
    the study's measure is "best", and else the cumulative one. Equal regrets share the average of their ranks.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.

    Returns
    -------
    list of Rank
        One for each horizon and each policy that finished a replicate.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> study = sb.Study.from_dict({
    ...     "name": "tuning", "horizon": 40, "replicates": 5, "measure": "best",
    ...     "environments": {"branin": {"type": "Benchmark", "name": "branin", "scaled": True,
    ...                                 "space": sb.Grid([[-5, 10], [0, 15]], 40), "noise": sb.GaussianNoise(0.01)}},
    ...     "policies": {"EI": {"type": "GPEI", "kernel": sb.RBF((4.0, 8.0))}, "random": {"type": "RandomSearch"}},
    ...     "shared": {"policies": {"noise": "exact", "regularization": "noise variance"}},
    ... })
    >>> result = study.run()
    >>> [(row.policy, row.pairs) for row in ranks(result)]
    [('EI', 5), ('random', 5)]
    >>> row = wins(result, against="random")[0]
    >>> row.wins, row.losses, row.ties, row.p_value
    (4, 1, 0, 0.375)
    """
    from scipy.stats import rankdata

    found = []
    for horizon in horizons_of(result):
        regrets = _regrets(result, horizon)
        if not regrets:
            continue
        placed = rankdata(np.array(list(regrets.values())), axis=0, nan_policy="omit")  # NaN stays NaN
        rows = []
        for policy, row in zip(regrets, placed, strict=True):
            known = row[np.isfinite(row)]
            rows += [Rank(policy, horizon, len(known), float(known.mean()))] if len(known) else []
        found += sorted(rows, key=lambda row: row.rank)
    return found


def case_ranks(result: xarray.Dataset) -> dict[tuple[str, str, int], float]:
    """Return the mean ranks over the replicates of each case, by case, policy and horizon.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    found: dict[tuple[str, str, int], float] = {}
    for case in map(str, result["case"].values):
        found |= {(case, row.policy, row.horizon): row.rank for row in ranks(result.sel(case=[case]))}
    return found


def wins(result: xarray.Dataset, against: str, tie: float = 0.0) -> list[Wins]:
    """Count in how many replicates of all cases each policy has less regret than another policy, at each horizon.

    The regret is that of the best point if the study's measure is "best", and else the cumulative one.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    against
        Label of the policy to compare with.
    tie
        Largest difference, in units of y, of two regrets that count as equal.

    Returns
    -------
    list of Wins
        One for each horizon and each policy that finished a replicate that `against` finished, in the study's order.

    Raises
    ------
    ValueError
        If no policy of the study has this label, or `tie` is negative.
    """
    from scipy.stats import binomtest

    known = policies_of(result)
    if against not in known:
        checks.refuse("against", against, f"one of {', '.join(known)}")
    if checks.finite("tie", tie, ndim=0) < 0.0:
        checks.refuse("tie", tie, "a number of at least 0")
    found = []
    for horizon in horizons_of(result):
        regrets = _regrets(result, horizon)
        if against not in regrets:
            continue
        other = regrets.pop(against)
        for policy, regret in regrets.items():
            difference = regret - other
            difference = difference[np.isfinite(difference)]
            won, lost = int((difference < -tie).sum()), int((difference > tie).sum())
            p_value = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
            if len(difference):
                ties = len(difference) - won - lost
                found.append(Wins(policy, horizon, against, len(difference), won, lost, ties, p_value))
    return found


def _regrets(result: xarray.Dataset, horizon: int) -> dict[str, Floats]:
    """Return the regrets (cases x replicates,) of the policies that play up to a horizon; NaN where one did not."""
    cases, count = [str(case) for case in result["case"].values], result.sizes["replicate"]
    found: dict[str, Floats] = {}
    for row, case in enumerate(cases):
        for policy, label in labels_of(result, case, horizon).items():
            regrets = found.setdefault(policy, np.full((len(cases), count), np.nan))
            regrets[row] = outcomes(result, case, label, horizon)
    return {policy: found[policy].ravel() for policy in policies_of(result) if policy in found}
