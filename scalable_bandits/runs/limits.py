"""Limits of the outputs of a stored run (`constraints`), and the values that count as best: those that keep them.

Parameters
----------
run
    Run, open for reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.policies.outputs import Limit, Outputs
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    from scalable_bandits.store import StoredRun


def limits_of(run: StoredRun) -> dict[str, Limit]:
    """Return the limits of a run's outputs by name; empty for a run with one output.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    policy = run.specification.get("policy")
    given = policy.get("constraints") if isinstance(policy, Mapping) else None
    return {name: Limit.from_dict(each) for name, each in (given or {}).items()}


def kept_values(run: StoredRun, first: int = 0, last: int | None = None) -> Floats:
    """Return y (k,) of some rounds, NaN where an output missed its limit.

    Parameters
    ----------
    run
        Run, open for reading.
    first, last
        Numbers of rounds, from 0, as in a slice.
    """
    limits = limits_of(run)
    columns = run.read(first, last, ["y", *(["outputs"] if limits else [])])
    return kept(columns["y"], columns["outputs"], limits) if limits else columns["y"]


def kept(y: Floats, outputs: Floats, limits: Mapping[str, Limit]) -> Floats:
    """Return y (k,), NaN where an output missed its limit.

    Parameters
    ----------
    y, outputs
        Values (k,) of the objective, and (k, J) of the outputs that have limits.
    limits
        Limits (J) by name.
    """
    return np.where(Outputs(None, limits).kept(outputs), y, np.nan)


def keeps(ticket: Ticket, limits: Mapping[str, Limit]) -> bool:
    """Return whether an evaluation has a value of the objective, and keeps all limits.

    Parameters
    ----------
    ticket
        Ticket of the evaluation.
    limits
        Limits by name; empty for none.
    """
    if ticket.y is None or not limits:
        return ticket.y is not None
    values = ticket.result["outputs"]
    return all(values[name] is not None and limit.holds(values[name]) for name, limit in limits.items())
