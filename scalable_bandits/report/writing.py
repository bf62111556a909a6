"""Writing the page of a study or a run, and the files of a study's result: data (zarr), tables (csv), figures (png)."""

from __future__ import annotations

import csv
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalable_bandits import plots, store
from scalable_bandits.analysis import BEST, Mean, means
from scalable_bandits.plots.arrangement import AxesArray, without_pyplot
from scalable_bandits.plots.curves import growing
from scalable_bandits.policies import PiGPUCB
from scalable_bandits.report.blocks import Report
from scalable_bandits.report.run_page import run_report
from scalable_bandits.report.study_page import study_report
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.status import RESULT
from scalable_bandits.studies import Comparison, Study
from scalable_bandits.studies.stored import study_record

if TYPE_CHECKING:
    import jinja2
    import xarray

GENERATOR = "scalable_bandits report"  # written into every page; only files that contain it are overwritten
DPI = 130  # dots per inch of a study's pictures


def find(place: str) -> Report:
    """Make the report of the study or run at a path or URL.

    Raises
    ------
    FileNotFoundError
        If there is neither a study nor a run.
    """
    record = study_record(place)
    if record is not None:
        return study_report(Study.open(place), place, record)
    for candidate in (Path(place) / RESULT, Path(place)):
        if "://" not in place and (candidate / "zarr.json").is_file() and (candidate / "uniform_regret").is_dir():
            return study_report(store.load(candidate), str(candidate), None)
    if "://" not in place and (Path(place) / "table.csv").is_file():
        raise FileNotFoundError(f"path: {place} has only tables and pictures; give the study's store instead")
    try:
        run = store.ObservationStore.open(place)
    except FileNotFoundError:
        raise FileNotFoundError(f"path: there is neither a study nor a run in {place}") from None
    return run_report(run, place)


def page(place: str | Path) -> str:
    """Return the page as HTML text.

    Parameters
    ----------
    place
        Path or URL of a study's store, of a folder made by ``scalable-bandits run``, or of a run's store.
    """
    return render(find(str(place)))


def render(report: Report, template: str = "page.html.j2", nonce: str = "") -> str:
    """Return a report as HTML text.

    Parameters
    ----------
    report
        The report.
    template
        Name of the template.
    nonce
        Text that allows the script which keeps a watched page up to date; without one there is no script.
    """
    from scalable_bandits import __version__

    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    given = {"report": report, "generator": GENERATOR, "made": made, "version": __version__, "nonce": nonce}
    return _templates().get_template(template).render(**given)


@functools.cache
def _templates() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("scalable_bandits.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_report(place: str | Path, out: str | Path) -> Path:
    """Write the page of a study or a run to a file and return the file's path.

    Parameters
    ----------
    place
        Path or URL of the study or the run, as in `page`.
    out
        File to write. An earlier report is overwritten, another file is not.

    Raises
    ------
    FileExistsError
        If `out` exists and is not a report.
    """
    file = Path(out)
    if file.exists() and not (file.is_file() and GENERATOR in file.read_text(errors="replace")[:2000]):
        raise FileExistsError(f"--out: {file} exists already and is not a report; give another file name")
    text = page(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def save(study: Study, result: xarray.Dataset, folder: Path, data: bool = True) -> list[Path]:
    """Write a study's tables and figures and, if `data` is set, its result into a folder; return the files."""
    files = [folder / "table.csv", folder / "regret.png"]
    _write(files[0], Mean._fields, means(result))
    _draw(files[1], lambda: plots.study_panels(result))
    if data:
        files.insert(0, folder / RESULT)
        store.save(result, files[0])
    if study.measure != BEST and growing(result):
        files.append(folder / "scaling.png")
        _draw(files[-1], lambda: plots.scaling_panels(result, study.expected))
    if study.published is not None:
        files.append(folder / "published.csv")
        _write(files[-1], Comparison._fields, study.published(result))
    if (rates := study.rates) is not None:
        files.append(folder / "growth.png")
        _draw(files[-1], lambda: plots.growth_panels(result, rates))
    played = _partitions(study, result)
    if played:
        files.append(folder / "partition.png")
        _draw(files[-1], lambda: plots.cover_panels(played, f"{study.cover}, {study.source}"))
    return files


def _draw(file: Path, picture: Callable[[], AxesArray]) -> None:
    with without_pyplot():
        picture().flat[0].figure.savefig(file, dpi=DPI)


def _write(file: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(heading)
        writer.writerows(rows)


def _partitions(study: Study, result: xarray.Dataset) -> dict[str, plots.Played]:
    """Simulate the partitioned policy again in the first replicate of each two-dimensional case, to draw its cover."""
    played = {}
    for case in map(str, result["case"].values):
        if study.cover is None or study.cover not in result["policy"].values or case not in study.cases:
            break
        horizon, seed = int(result["round"].values[-1]), result.attrs["seed"]
        environment, policies = study.build(study.replicate(case, 0, horizon, seed))
        policy = policies[study.cover]
        if isinstance(policy, PiGPUCB) and policy.space.dimension == 2:
            played[case] = plots.Played(policy, environment, simulate(policy, environment, horizon).candidate)
    return played
