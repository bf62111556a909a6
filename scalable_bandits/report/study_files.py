"""Files of a study's result: the data (zarr), tables (csv) and figures (png)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.plots import Played
    from scalable_bandits.studies import Study


def save(study: Study, result: xarray.Dataset, folder: Path, data: bool = True) -> list[Path]:
    """Write a study's tables and figures and, if `data` is set, its result into a folder; return the files."""
    from scalable_bandits import plots, store
    from scalable_bandits.analysis import BEST, Mean, means
    from scalable_bandits.studies import Comparison

    files = [folder / "table.csv", folder / "regret.png"]
    _write(files[0], Mean._fields, means(result))
    plots.study_figure(result).savefig(files[1])
    if data:
        files.insert(0, folder / "result.zarr")
        store.save(result, files[0])
    if study.measure != BEST and plots.scaling_panels(result):
        files.append(folder / "scaling.png")
        plots.scaling_figure(result, study.expected).savefig(files[-1])
    if study.published is not None:
        files.append(folder / "published.csv")
        _write(files[-1], Comparison._fields, study.published(result))
    if study.rates is not None:
        files.append(folder / "growth.png")
        plots.growth_figure(result, study.rates).savefig(files[-1])
    played = _partitions(study, result)
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


def _partitions(study: Study, result: xarray.Dataset) -> dict[str, Played]:
    """Simulate the partitioned policy again in the first replicate of each two-dimensional case, to draw its cover."""
    from scalable_bandits.plots import Played
    from scalable_bandits.policies import PiGPUCB
    from scalable_bandits.runs.simulate import simulate

    played = {}
    for case in map(str, result["case"].values):
        if study.cover is None or study.cover not in result["policy"].values or case not in study.cases:
            break
        horizon, seed = int(result["round"].values[-1]), result.attrs["seed"]
        environment, policies = study.build(study.replicate(case, 0, horizon, seed))
        policy = policies[study.cover]
        if isinstance(policy, PiGPUCB) and policy.space.dimension == 2:
            played[case] = Played(policy, environment, simulate(policy, environment, horizon).candidate)
    return played
