"""A study's result in words, tables and files: what the command prints and writes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from scalable_bandits.report.numerals import significant

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.plots import Played
    from scalable_bandits.studies import Comparison, Study


def record_of(study: Study, result: xarray.Dataset) -> dict[str, Any]:
    """Numbers of a result, JSON-ready: what was run, the table, and what is beside the published."""
    from scalable_bandits.analysis import means

    attributes = {name: result.attrs[name] for name in ("study", "title", "source", "unit", "seed", "version")}
    published = [] if study.published is None else study.published(result)
    return {
        **attributes, "replicates": result.sizes["replicate"], "horizon": result.sizes["round"],
        "planned": {"replicates": study.replicates, "horizon": study.horizon},
        "table": [finite(row._asdict()) for row in means(result)],
        "published": [finite(row._asdict()) for row in published],
    }  # fmt: skip


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with None for what is no finite number: JSON has no NaN."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def save(study: Study, result: xarray.Dataset, folder: Path, data: bool = True) -> list[Path]:
    """Write a study's result (zarr; not if `data` is unset), tables (csv) and pictures (png) into a folder."""
    from scalable_bandits import plots, store
    from scalable_bandits.analysis import Mean, means
    from scalable_bandits.studies import Comparison

    files = [folder / "table.csv", folder / "regret.png"]
    _write(files[0], Mean._fields, means(result))
    plots.study_figure(result).savefig(files[1])
    if data:
        files.insert(0, folder / "result.zarr")
        store.save(result, files[0])
    if study.published is not None:
        files.append(folder / "published.csv")
        _write(files[-1], Comparison._fields, study.published(result))
    if study.rates is not None:
        files.append(folder / "growth.png")
        plots.growth_figure(result, study.rates).savefig(files[-1])
    played = _covers(study, result)
    if played:
        files.append(folder / "partition.png")
        plots.cover_figure(played, f"{study.cover}, {study.source}").savefig(files[-1])
    return files


def _write(file: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    import csv

    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(heading)
        writer.writerows(rows)


def _covers(study: Study, result: xarray.Dataset) -> dict[str, Played]:
    """The partitioned policy of every two-dimensional case, its first replicate played once more."""
    from scalable_bandits.plots import Played
    from scalable_bandits.policies import PiGPUCB
    from scalable_bandits.runs.simulate import simulate

    played = {}
    for case in map(str, result["case"].values):
        if study.cover is None or study.cover not in result["policy"].values:
            break
        horizon, seed = result.sizes["round"], result.attrs["seed"]
        environment, policies = study.build(study.replicate(case, 0, horizon, seed))
        policy = policies[study.cover]
        if isinstance(policy, PiGPUCB) and policy.space.dimension == 2:
            played[case] = Played(policy, environment, simulate(policy, environment, horizon).candidate)
    return played


def published_table(rows: list[Comparison]) -> Table:
    """Our numbers beside the published ones."""
    table = Table(title="\nbeside the published", title_justify="left")
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


def table_of(result: xarray.Dataset) -> Table:
    """Mean regret and standard error by policy, best first."""
    from scalable_bandits.analysis import means

    sizes = result.sizes
    count = f"{sizes['replicate']} replicate{'s' * (sizes['replicate'] > 1)} x {sizes['round']:,} rounds"
    title = f"{result.attrs['title']}\n{'; '.join(filter(None, [result.attrs['source'], count]))}"
    table = Table(
        title=title,
        title_justify="left",
        caption=f"regret: sum over the rounds, in {result.attrs['unit']}; a round, last tenth: mean over all rounds, "
        "over the last tenth of them; of uniform: share of what uniform play loses",
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("regret", "std. error", "a round", "last tenth", "of uniform"):
        table.add_column(heading, justify="right")
    held = None
    for row in means(result):
        if row.case != held and sizes["case"] > 1:
            table.add_section()
            table.add_row(f"[bold]{row.case}[/bold]")
        held = row.case
        digits = (row.regret, 4), (row.standard_error, 2), (row.average, 3), (row.last_tenth, 3)
        table.add_row(row.policy, *(significant(*each) for each in digits), f"{row.fraction:.3f}")
    return table
