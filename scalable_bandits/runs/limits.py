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
    """Return whether an evaluation has values of all objectives, and keeps all limits.

    Parameters
    ----------
    ticket
        Ticket of the evaluation.
    others
        Outputs besides the first objective by name; empty for none.
    """
    values = outputs_in(ticket)
    return ticket.y is not None and all(each.holds(values.get(name, np.nan)) for name, each in others.items())


def feasible(ticket: Ticket, others: Mapping[str, Output]) -> bool:
    """Return whether an evaluation that did not fail keeps all limits, also if it did not measure all objectives.

    Parameters
    ----------
    ticket
        Ticket of the evaluation.
    others
        Outputs besides the first objective by name; empty for none.
    """
    limits, values = Outputs(None, others).limits, outputs_in(ticket)
    return ticket.state == "done" and all(each.holds(values.get(name, np.nan)) for name, each in limits.items())


def outputs_in(ticket: Ticket) -> dict[str, float]:
    """Return the values of an evaluation's outputs besides the first objective by name, without those not measured.

    Parameters
    ----------
    ticket
        Ticket of the evaluation.
    """
    found = ticket.result.get("outputs", {}) if isinstance(ticket.result, Mapping) else {}
    return {name: value for name, value in found.items() if value is not None}
