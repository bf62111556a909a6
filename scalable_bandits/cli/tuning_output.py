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
    x = found.recommended.x
    return {**found.recommended._asdict(), "x": x if isinstance(x, dict) else np.asarray(x).tolist()}


def show_best(found: TuningResult) -> None:
    """Print the recommended point, and of a space with names a table with the best measured one beside it."""
    best, measured = found.recommended, found.measured
    if measured is None:
        console.print("nothing was measured")
        return
    if not isinstance(best.x, dict):
        x = ", ".join(f"{number:.6g}" for number in np.ravel(best.x).tolist())
        console.print(f"best: x = {x}, posterior mean {best.mean:.4g} +- {best.std:.2g}", soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    table.add_column("recommended", justify="right")
    table.add_column("best measured", justify="right")
    for name in dict.fromkeys([*best.x, *measured.x]):
        table.add_row(name, *(_written(setting.get(name, "")) for setting in (best.x, measured.x)))
    table.add_section()
    table.add_row("value", f"{best.mean:.4g} +- {best.std:.2g}", f"{measured.y:.6g}")
    console.print(table)


def show_failures(failed: Sequence[Ticket]) -> None:
    """Print how many evaluations failed, by error."""
    alike: dict[str, list[int]] = {}
    for ticket in failed:
        alike.setdefault(ticket.error, []).append(ticket.number)
    for error, numbers in alike.items():
        tickets = ", ".join(map(str, numbers))
        say("failed", f"{len(numbers)} evaluation{'s' * (len(numbers) > 1)}: {error} (tickets {tickets})", "yellow")


def _written(value: Any) -> str:
    """Format a value of a parameter: of a number as many digits as one reads."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
