"""Making the page of a study or a run from its store."""

from __future__ import annotations

import time
from pathlib import Path

from scalable_bandits import store
from scalable_bandits.report.blocks import Report
from scalable_bandits.report.run_page import run_report
from scalable_bandits.report.study_page import study_report
from scalable_bandits.studies import Study
from scalable_bandits.studies.stored import study_record

GENERATOR = "scalable_bandits report"  # written into every page; only files that contain it are overwritten
RESULT = "result.zarr"  # name of the dataset in a folder made by `scalable-bandits run`


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from scalable_bandits import __version__

    template = Environment(
        loader=PackageLoader("scalable_bandits.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html.j2")
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return template.render(report=find(str(place)), generator=GENERATOR, made=made, version=__version__)


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
