"""A tuning run's result as the command prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from scalable_bandits.cli.messages import console, say, show_table
from scalable_bandits.runs.readable import point_text

if TYPE_CHECKING:
    from scalable_bandits.policies import Best
    from scalable_bandits.runs.result import Measured, TuningResult
    from scalable_bandits.tickets import Ticket


def plain_best(found: TuningResult) -> dict[str, Any]:
    """Return the recommendation as plain data."""
    return _plain(found.recommended)


def _plain(best: Best | Measured) -> dict[str, Any]:
    x = best.x
    return {**best._asdict(), "x": x if isinstance(x, dict) or x is None else np.asarray(x).tolist()}


def plain_result(found: TuningResult) -> dict[str, Any]:
    """Return a result as plain data."""
    measured = found.measured
    return {
        "evaluations": len(found.tickets), "minimize": found.minimize, "interrupted": found.interrupted,
        "best": plain_best(found), "measured": None if measured is None else _plain(measured),
        "failed": plain_failures(found.failed),
    }  # fmt: skip


def plain_failures(failed: Sequence[Ticket]) -> list[dict[str, Any]]:
    """Return failed evaluations as plain data."""
    return [{"ticket": ticket.number, "error": ticket.error} for ticket in failed]


def show_best(found: TuningResult) -> None:
    """Print the recommended and the best measured point as a table, and the former in one line with more digits."""
    from scalable_bandits.report.blocks import Block

    summarized, best = found.summary(), found.recommended
    numbers = len(summarized.columns)
    show_table(Block("table", summarized.heading, ("", *summarized.columns), summarized.rows, numbers))
    if best.x is not None:
        line = f"best: {point_text(best.x)}, posterior mean {best.mean:.4g} +- {best.std:.2g}"
        console.print(Text(line), soft_wrap=True)


def show_failures(failed: Sequence[Ticket]) -> None:
    """Print how many evaluations failed, by error."""
    alike: dict[str, list[int]] = {}
    for ticket in failed:
        alike.setdefault(ticket.error, []).append(ticket.number)
    for error, numbers in alike.items():
        tickets = ", ".join(map(str, numbers))
        say("failed", f"{len(numbers)} evaluation{'s' * (len(numbers) > 1)}: {error} (tickets {tickets})", "yellow")
