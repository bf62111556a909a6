"""Further outputs of a stored run, and the values that count as best: those that keep all limits (`constraints`).

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
from scalable_bandits.policies.outputs import Output, Outputs
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    from scalable_bandits.store import StoredRun


def outputs_of(run: StoredRun) -> Outputs:
    """Return a run's outputs; the first objective has a name where there are several.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    policy = run.specification.get("policy")
    return Outputs.stored(policy if isinstance(policy, Mapping) else {})


def others_of(run: StoredRun) -> Mapping[str, Output]:
    """Return a run's outputs besides the first objective by name; empty for a run with one output.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    return outputs_of(run).others


def kept_values(run: StoredRun, first: int = 0, last: int | None = None) -> Floats:
    """Return y (k,) of some rounds, NaN where an output missed its limit.

    Parameters
    ----------
    run
        Run, open for reading.
    first, last
        Numbers of rounds, from 0, as in a slice.
    """
    others = others_of(run)
    columns = run.read(first, last, ["y", *(["outputs"] if others else [])])
    return kept(columns["y"], columns["outputs"], others) if others else columns["y"]


def kept(y: Floats, outputs: Floats, others: Mapping[str, Output]) -> Floats:
    """Return y (k,), NaN where an output missed its limit.

    Parameters
    ----------
    y, outputs
        Values (k,) of the first objective, and (k, J) of the other outputs.
    others
        Other outputs (J) by name.
    """
    return np.where(Outputs(None, others).kept(outputs), y, np.nan)


def keeps(ticket: Ticket, others: Mapping[str, Output]) -> bool:
    """Return whether an evaluation has a value of the objective, and keeps all limits.

    Parameters
    ----------
    ticket
        Ticket of the evaluation.
    others
        Outputs besides the first objective by name; empty for none.
    """
    if ticket.y is None or not others:
        return ticket.y is not None
    values = ticket.result["outputs"]
    return all(values[name] is not None and each.holds(values[name]) for name, each in others.items())
