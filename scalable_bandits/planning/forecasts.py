"""Forecast of a study's time before it is run, in a few seconds."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from scalable_bandits.planning.plans import plan
from scalable_bandits.studies import Study

PILOT_SECONDS = 0.3  # that each policy is played for
FEW = 20_000  # rounds in all, of which nobody wants a forecast
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Forecast(NamedTuple):
    """What a study takes in one process."""

    seconds: float
    slowest: str  # policy that takes most of it; empty if not known


def forecast(study: Study, **options: Any) -> Forecast | None:
    """Predict what a study takes, from its stated duration or from short pilots of its policies in the first case.

    Parameters
    ----------
    study
        Study.
    **options
        Options of `Study.run`; those that are None are the study's.

    Returns
    -------
    Forecast or None
        None if it has few rounds.

    Raises
    ------
    ValueError
        If an option is invalid.
    """
    given = {name: value for name, value in options.items() if value is not None}
    runs, rounds = given.get("replicates", study.replicates), given.get("horizon", study.horizon)
    last = max(rounds) if isinstance(rounds, list | tuple) else rounds
    stated = re.match(r"(\d+) (\w+)", study.duration)
    if stated and stated[2] in UNITS:
        share = runs / study.replicates * last / study.horizons[-1]
        return Forecast(share * float(stated[1]) * UNITS[stated[2]], "")
    cases = list(given.get("cases", study.cases))
    if runs * last * len(cases) < FEW:
        return None
    known = {name: given[name] for name in ("horizon", "policies", "axes", "data") if name in given}
    made = plan(study, seconds=PILOT_SECONDS, replicates=runs, cases=cases[:1], **known)
    taken: dict[str, float] = {}
    for row in made.rows:
        taken[row.policy] = taken.get(row.policy, 0.0) + row.runs * row.found.seconds * len(cases)
    return Forecast(sum(taken.values()), max(taken, key=taken.__getitem__, default=""))
