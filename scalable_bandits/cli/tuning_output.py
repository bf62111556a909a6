"""A tuning run's result as the command prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from scalable_bandits.cli.messages import console, say

if TYPE_CHECKING:
    from scalable_bandits.runs.result import TuningResult
    from scalable_bandits.runs.tickets import Ticket


def plain_best(found: TuningResult) -> dict[str, Any]:
    """Return the recommendation as plain data."""
    best = found.recommended._asdict()
    return best if isinstance(best["x"], dict) or best["x"] is None else {**best, "x": np.asarray(best["x"]).tolist()}


def plain_result(found: TuningResult) -> dict[str, Any]:
    """Return a result as plain data."""
    measured = found.measured
    return {
        "evaluations": len(found.tickets), "minimize": found.minimize, "interrupted": found.interrupted,
        "best": plain_best(found), "measured": None if measured is None else measured._asdict(),
        "failed": plain_failures(found.failed),
    }  # fmt: skip


def plain_failures(failed: Sequence[Ticket]) -> list[dict[str, Any]]:
    """Return failed evaluations as plain data."""
    return [{"ticket": ticket.number, "error": ticket.error} for ticket in failed]


def show_best(found: TuningResult) -> None:
    """Print the recommended and the best measured point with what they are worth, as a table."""
    summarized = found.summary()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), title=summarized.heading, title_justify="left")
    table.add_column("", no_wrap=True)
    for title in summarized.columns:
        table.add_column(title, justify="right")
    for row in summarized.rows:
        table.add_row(*row)
    console.print(table)


def show_failures(failed: Sequence[Ticket]) -> None:
    """Print how many evaluations failed, by error."""
    alike: dict[str, list[int]] = {}
    for ticket in failed:
        alike.setdefault(ticket.error, []).append(ticket.number)
    for error, numbers in alike.items():
        tickets = ", ".join(map(str, numbers))
        say("failed", f"{len(numbers)} evaluation{'s' * (len(numbers) > 1)}: {error} (tickets {tickets})", "yellow")
