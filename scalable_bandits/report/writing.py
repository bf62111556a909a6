"""From a store to a page."""

from __future__ import annotations

import time
from pathlib import Path

from scalable_bandits import store
from scalable_bandits.report.blocks import Report
from scalable_bandits.report.run_page import run_report
from scalable_bandits.report.study_page import study_report
from scalable_bandits.store.studies import study_record
from scalable_bandits.studies import Study

GENERATOR = "scalable_bandits report"  # in the page: what may be written over
RESULT = "result.zarr"  # in the folder that `scalable-bandits run` makes


def find(place: str) -> Report:
    """Report of what is in a place: a study's store or folder, or a run's store.

    Raises
    ------
    FileNotFoundError
        If there is neither.
    """
    record = study_record(place)
    if record is not None:
        return study_report(Study.open(place), place, record)
    for candidate in (Path(place) / RESULT, Path(place)):
        if "://" not in place and (candidate / "zarr.json").is_file() and (candidate / "uniform_regret").is_dir():
            return study_report(store.load(candidate), str(candidate), None)
    if "://" not in place and (Path(place) / "table.csv").is_file():
        raise FileNotFoundError(f"path: {place} holds tables and pictures alone; name the study's store")
    try:
        run = store.ObservationStore.open(place)
    except FileNotFoundError:
        raise FileNotFoundError(f"path: there is neither a study nor a run in {place}") from None
    return run_report(run, place)


def page(place: str | Path) -> str:
    """The page, as text.

    Parameters
    ----------
    place
        A study's store, the folder that ``scalable-bandits run`` made, or a run's store.
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
    """Write the page of a study or a run.

    Parameters
    ----------
    place
        As in `page`.
    out
        File to write. One that is there already is written over only if it is such a page.

    Raises
    ------
    FileExistsError
        If `out` is something else.
    """
    file = Path(out)
    if file.exists() and not (file.is_file() and GENERATOR in file.read_text(errors="replace")[:2000]):
        raise FileExistsError(f"--out: {file} exists already, and is no report; name another file")
    text = page(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
