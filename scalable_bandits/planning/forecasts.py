"""Forecast of a study's time before it is run, in a few seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scalable_bandits.planning.plans import plan
from scalable_bandits.studies import Study

PILOT_SECONDS = 0.3  # that each policy is played for
FEW = 20_000  # rounds in all, which are over before a forecast is read
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Forecast(NamedTuple):
    """What a study takes in one process."""

    seconds: float
    slowest: str  # policy that takes most of it; empty if not known


def forecast(
    study: Study, *, replicates: int | None = None, horizon: int | Sequence[int] | None = None,
    cases: Sequence[str] | None = None, policies: Sequence[str] | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None, data: str | Path | None = None,
) -> Forecast | None:  # fmt: skip
    """Predict what a study takes: from its stated duration, or from short pilots of its policies in the first case.

    Parameters
    ----------
    study
        Study.
    replicates, horizon
        Number of replicates and rounds of each run; the study's if not given.
    cases, policies, axes
        Names of the cases and of the policies, and values of axes by name; all of the study's if not given. The stated
        duration, which is that of all of them, serves no part.
    data
        Folder of the measured files, for a study that reads them.

    Returns
    -------
    Forecast or None
        None if it has few rounds.

    Raises
    ------
    ValueError
        If a number is out of range or a name is unknown.
    """
    runs = study.replicates if replicates is None else replicates
    rounds = study.horizon if horizon is None else horizon
    last = rounds if isinstance(rounds, int) else max(rounds)
    stated = re.match(r"(\d+) (\w+)", study.duration)
    if stated and stated[2] in UNITS and cases is None and policies is None and axes is None:
        share = runs / study.replicates * last / study.horizons[-1]
        return Forecast(share * float(stated[1]) * UNITS[stated[2]], "")
    played = list(study.cases if cases is None else cases)
    if runs * last * len(played) < FEW:
        return None
    made = plan(
        study, seconds=PILOT_SECONDS, replicates=runs, horizon=horizon, cases=played[:1], policies=policies, axes=axes,
        data=data,
    )  # fmt: skip
    taken: dict[str, float] = {}
    for row in made.rows:
        taken[row.policy] = taken.get(row.policy, 0.0) + row.runs * row.found.seconds * len(played)
    return Forecast(sum(taken.values()), max(taken, key=taken.__getitem__, default=""))
