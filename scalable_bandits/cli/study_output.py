"""A study's result as the command prints it: tables, or a record for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from scalable_bandits.report.numbers import significant

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.studies import Comparison, Study


def record_of(study: Study, result: xarray.Dataset) -> dict[str, Any]:
    """Return what was run, the table of regrets and the comparison with published numbers, as plain data."""
    from scalable_bandits.analysis import means

    attributes = {name: result.attrs[name] for name in ("study", "title", "source", "unit", "seed", "version")}
    published = [] if study.published is None else study.published(result)
    return {
        **attributes, "replicates": result.sizes["replicate"], "horizon": int(result["round"][-1]),
        "planned": {"replicates": study.replicates, "horizon": study.horizons[-1]},
        "table": [row._asdict() for row in means(result)],
        "published": [row._asdict() for row in published],
    }  # fmt: skip


def regret_table(result: xarray.Dataset) -> Table:
    """Tabulate mean regret and its standard error by case and policy, best policy first."""
    from scalable_bandits.analysis import horizons_of, means

    sizes = result.sizes
    horizons = horizons_of(result)
    rounds = " and ".join(f"{each:,}" for each in horizons)
    count = f"{sizes['replicate']} replicate{'s' * (sizes['replicate'] > 1)} x {rounds} rounds"
    title = f"{result.attrs['title']}\n{'; '.join(filter(None, [result.attrs['source'], count]))}"
    table = Table(
        title=title,
        title_justify="left",
        caption=f"regret: cumulative, in {result.attrs['unit']}; per round, last tenth: mean regret of one round, over "
        "all rounds and over the last tenth of them; of uniform: regret as a fraction of uniform play's",
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("regret", "std. error", "per round", "last tenth", "of uniform"):
        table.add_column(heading, justify="right")
    last: tuple[str, int] | None = None
    for row in means(result):
        parts = [row.case] * (sizes["case"] > 1) + [f"T = {row.horizon:,}"] * (len(horizons) > 1)
        if (row.case, row.horizon) != last and parts:
            table.add_section()
            table.add_row(Text(", ".join(parts), style="bold"))
        last = row.case, row.horizon
        digits = (row.regret, 4), (row.standard_error, 2), (row.average, 3), (row.last_tenth, 3)
        table.add_row(row.policy, *(significant(*each) for each in digits), f"{row.fraction:.3f}")
    return table


def published_table(rows: list[Comparison]) -> Table:
    """Tabulate our numbers and the published ones side by side."""
    table = Table(title="\ncompared with the published results", title_justify="left")
    for heading in ("case", "policy", "quantity"):
        table.add_column(heading)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("published", justify="right", no_wrap=True)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.case != row.case:
            table.add_section()
        same = before is not None and before[:2] == row[:2]
        error = "" if math.isnan(row.standard_error) else f" +- {significant(row.standard_error, 2)}"
        ours = f"{significant(row.ours, 3)}{error}"
        table.add_row(*(("", "") if same else row[:2]), row.quantity, ours, row.published)
    return table
