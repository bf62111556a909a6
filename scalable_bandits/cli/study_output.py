"""A study's result as the command prints it: tables, or a record for JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from scalable_bandits.report.numbers import number, significant

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.analysis import Exponent, Mean
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
    """Tabulate mean regret and its standard error by case and policy, best policy first.

    Of a study whose measure is "best", the regret of the best point and the mean rank come first.
    """
    from scalable_bandits.analysis import BEST, case_ranks, horizons_of, means, measure_of

    sizes, tuning = result.sizes, measure_of(result) == BEST
    horizons = horizons_of(result)
    rounds = " and ".join(f"{each:,}" for each in horizons)
    count = f"{sizes['replicate']} replicate{'s' * (sizes['replicate'] > 1)} x {rounds} rounds"
    title = f"{result.attrs['title']}\n{'; '.join(filter(None, [result.attrs['source'], count]))}"
    caption = (TUNING_CAPTION if tuning else CAPTION).format(unit=result.attrs["unit"])
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("policy", no_wrap=True)
    for heading in TUNING_HEADINGS if tuning else HEADINGS:
        table.add_column(heading, justify="right")
    ranked = case_ranks(result) if tuning else {}
    last: tuple[str, int] | None = None
    for row in means(result):
        if (row.case, row.horizon) != last:
            _add_heading(table, result, row.case, row.horizon)
        last = row.case, row.horizon
        if tuning:
            _add_tuning_row(table, row, ranked.get((row.case, row.policy, row.horizon), math.nan))
            continue
        digits = (row.regret, 4), (row.standard_error, 2), (row.average, 3), (row.last_tenth, 3)
        table.add_row(row.policy, *(significant(*each) for each in digits), f"{row.fraction:.3f}")
    if tuning and sizes["case"] > 1:
        _add_ranks(table, result)
    return table


LEAST_WIDTH = 24  # at which the headings are wrapped; names of policies never are
HEADINGS = ("regret", "std. error", "per round", "last tenth", "of uniform")
CAPTION = (
    "regret: cumulative, in {unit}; per round, last tenth: mean regret of one round, over "
    "all rounds and over the last tenth of them; of uniform: regret as a fraction of uniform play's"
)
TUNING_HEADINGS = ("best\nregret", "std.\nerror", "mean\nrank", "cumulative\nregret", "std.\nerror", "of\nuniform")
TUNING_CAPTION = (
    "best regret: that of the best point played, in {unit}; mean rank: by best regret, over the replicates; "
    "of uniform: cumulative regret as a fraction of uniform play's"
)


def _add_heading(table: Table, result: xarray.Dataset, case: str, horizon: int) -> None:
    """Add a line that names the case and the horizon, where there are several."""
    from scalable_bandits.analysis import horizons_of

    several = len(horizons_of(result)) > 1
    parts = [case] * (result.sizes["case"] > 1) + [f"T = {horizon:,}"] * several
    if parts:
        table.add_section()
        width = max(LEAST_WIDTH, *(len(str(label)) for label in result["policy"].values))
        table.add_row(Text(textwrap.fill(", ".join(parts), width), style="bold"))


def _add_tuning_row(table: Table, row: Mean, rank: float) -> None:
    """Add the row of a policy in a study whose measure is the regret of the best point."""
    digits = (row.best, 3), (row.best_standard_error, 2), (rank, 3), (row.regret, 4), (row.standard_error, 2)
    table.add_row(row.policy, *(number(*each) for each in (*digits, (row.fraction, 3))))


def _add_ranks(table: Table, result: xarray.Dataset) -> None:
    """Add the mean ranks over all cases."""
    from scalable_bandits.analysis import ranks

    last: int | None = None
    for row in ranks(result):
        if row.horizon != last:
            _add_heading(table, result, "all cases", row.horizon)
        last = row.horizon
        table.add_row(row.policy, "", "", number(row.rank, 3))


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
