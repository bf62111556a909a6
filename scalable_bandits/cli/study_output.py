"""A study's result as the command prints it: tables, or a record for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from scalable_bandits.report.numbers import significant

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.analysis import Exponent
    from scalable_bandits.studies import Comparison, Study


def record_of(study: Study, result: xarray.Dataset) -> dict[str, Any]:
    """Return what was run, the table of regrets and the comparison with published numbers, as plain data."""
    from scalable_bandits.analysis import all_exponents, means

    attributes = {name: result.attrs[name] for name in ("study", "title", "source", "unit", "seed", "version")}
    timed: dict[str, Any] = {}
    if "seconds" in result:
        timed = {"costs": costs_of(result), "exponents": [row._asdict() for row in all_exponents(result)]}
    published = [] if study.published is None else study.published(result)
    return {
        **attributes, "replicates": result.sizes["replicate"], "horizon": int(result["round"][-1]),
        "planned": {"replicates": study.replicates, "horizon": study.horizons[-1]},
        "table": [row._asdict() for row in means(result)],
        **timed,
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


def costs_of(result: xarray.Dataset) -> list[dict[str, Any]]:
    """Return what the runs of a timed study took, means over the replicates: a row for each case and policy."""
    import numpy as np

    from scalable_bandits.analysis import present

    known = [name for name in COSTS if name in result and np.isfinite(result[name].values).any()]
    cases, policies = ([str(label) for label in result[over].values] for over in ("case", "policy"))
    played = present(result)
    return [
        {"case": case, "policy": policy, **{name: _mean(result[name].values[row, column]) for name in known}}
        for row, case in enumerate(cases)
        for column, policy in enumerate(policies)
        if played[row, column]
    ]


def costs_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Tabulate what the runs of a timed study took."""
    known = [name for name in COSTS if name in rows[0]]
    table = Table(
        title="\ntime, memory and messages",
        title_justify="left",
        caption="means over the replicates; a round: median, and what 90 and 99 of 100 rounds do not exceed; warm-up: "
        "compiling, loading and the first rounds of a copy; memory: largest, beyond what was there before",
        caption_justify="left",
    )
    table.add_column("policy")
    for name in known:
        table.add_column(COSTS[name][0], justify="right", no_wrap=True)
    last, several = "", len({row["case"] for row in rows}) > 1
    for row in rows:
        if row["case"] != last and several:
            table.add_section()
            table.add_row(Text(row["case"], style="bold"))
        last = row["case"]
        table.add_row(row["policy"], *("" if row[name] is None else COSTS[name][1](row[name]) for name in known))
    return table


def _mean(values: Any) -> float | None:
    """Return the mean of the values that are known; None without any."""
    import numpy as np

    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def duration_in_words(value: float) -> str:
    """Write seconds in a unit in which they are neither small nor many."""
    long = ((86_400.0, 172_800.0, "days"), (3600.0, 7200.0, "h"), (60.0, 120.0, "min"), (1.0, 0.9995, "s"))
    for size, least, unit in (*long, (1e-3, 0.9995e-3, "ms")):
        if value >= least:
            return f"{significant(value / size, 3)} {unit}"
    return f"{significant(value * 1e6, 3)} us"


def bytes_in_words(value: float) -> str:
    """Write a number of bytes in kB, MB or GB."""
    unit, size = next((each for each in (("GB", 1e9), ("MB", 1e6)) if value >= each[1]), ("kB", 1e3))
    return f"{significant(value / size, 3)} {unit}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


COSTS: dict[str, tuple[str, Callable[[float], str]]] = {  # headings and formats of what a timed study measures
    "round_seconds": ("a round", duration_in_words), "round_seconds_90": ("90 %", duration_in_words),
    "round_seconds_99": ("99 %", duration_in_words), "seconds": ("run", duration_in_words),
    "warm_up_seconds": ("warm-up", duration_in_words),
    "peak_memory": ("memory", bytes_in_words), "peak_memory_of_workers": ("of workers", bytes_in_words),
    "messages": ("messages", _count), "bytes_sent": ("sent", bytes_in_words),
}  # fmt: skip


def exponents_table(rows: Sequence[Exponent], expected: Mapping[str, Any]) -> Table:
    """Tabulate fitted exponents beside those of the theory."""
    table = Table(
        title="\nexponents of growth",
        title_justify="left",
        caption="fitted to the mean over the runs; [95 % interval, bootstrap over runs]",
        caption_justify="left",
    )
    several = len({row.case for row in rows}) > 1
    for heading in ("quantity", *["case"] * several, "policy"):
        table.add_column(heading)
    for heading in ("range", "exponent", "expected"):
        table.add_column(heading, justify="right", no_wrap=True)
    last: tuple[str, str] | None = None
    for row in rows:
        if last not in (None, (row.quantity, row.over)):
            table.add_section()
        last = row.quantity, row.over
        span = f"{row.first:,.6g} to {row.last:,.6g}"
        number = expected.get(row.over, {}).get(row.quantity, {}).get(row.policy)
        interval = f" [{row.low:.2f}, {row.high:.2f}]" if math.isfinite(row.low) else ""
        table.add_row(
            f"{row.quantity} over {row.over}", *[row.case] * several, row.policy, span,
            f"{row.exponent:.2f}{interval}", "" if number is None else f"{number:.3g}",
        )  # fmt: skip
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
