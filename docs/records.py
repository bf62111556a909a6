"""Wins and losses of the default tuner in one table, in the README and in `docs/tuners.md`, from `docs/results/`.

``python -m docs.figures`` writes it between the marks of the two pages.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

from benchmarks.tuners import lines, peers, standings
from benchmarks.tuners.report import Sheet, inserted, markdown, marks_of
from benchmarks.tuners.standings import Results

FOLDER = Path(__file__).parent
MARKS = marks_of("in one table")
PROBLEMS = {  # by study
    "bbob-six": "six functions of bbob, d = 2, 5, 10",
    "bbob-long": "fifteen functions of bbob, d = 5, 10",
    "bbob-20-40": "the same, d = 20, 40",
    "bbob-largescale": "four functions of bbob-largescale, d = 80, 160",
    "bbob-mixint": "nine functions of bbob-mixint, d = 5, 10, 20",
    "bbob-noisy": "eight functions of bbob-noisy, d = 5",
    "hpolib-short": "four tables of hyperparameters, HPOLib",
    "nasbench201": "three tables of networks, NAS-Bench-201",
    "chemistry": "ten campaigns of chemistry, Olympus",
    "bbob": "fourteen functions of bbob, d = 2, 5 (decided on)",
}
ROWS = (  # studies and numbers of evaluations
    ("bbob-six", 100), ("bbob-long", 500), ("bbob-long", 1000), ("bbob-long", 2000), ("bbob-20-40", 500),
    ("bbob-20-40", 1000), ("bbob-largescale", 200), ("bbob-mixint", 200), ("bbob-noisy", 100), ("bbob-noisy", 500),
    ("hpolib-short", 100), ("hpolib-short", 500), ("nasbench201", 100), ("nasbench201", 500), ("chemistry", 100),
    ("bbob", 100), ("bbob", 500),
)  # fmt: skip
IN_README = (("bbob-six", 100), ("bbob-long", 1000), ("bbob-20-40", 1000), ("bbob-noisy", 100), ("hpolib-short", 100),
             ("bbob", 100))  # fmt: skip


def results(study: str, at: int) -> dict[str, Results]:
    """Return the kept results of all tuners after a number of evaluations."""
    kept = {name: lines.load(FOLDER / "results" / "measured", study, name) for name in ("ours", *peers.PEERS)}
    found = {name: standings.results_at(runs, at) for name, runs in kept.items()}
    return {name: each for name, each in found.items() if each}


def scores(rows: Mapping[tuple[str, int], Mapping[str, Results]]) -> Sheet:
    """Return the table of wins, losses and ties."""
    names = [name for name in peers.PEERS if any(name in found for found in rows.values())]
    cells = [
        [PROBLEMS[study], f"{at:,}", *(_score(found, name) for name in names)] for (study, at), found in rows.items()
    ]
    title = "Wins-losses-ties of sb.GPEI(space) on the runs that both tuners played"
    return Sheet(title, ["problems", "evaluations", *names], cells)


def _score(found: Mapping[str, Results], name: str) -> str:
    return str(standings.score(found["ours"], found[name])) if name in found else ""


def seconds(rows: Mapping[tuple[str, int], Mapping[str, Results]]) -> Sheet:
    """Return the table of CPU times."""
    names = [name for name in ("ours", *peers.PEERS) if any(name in found for found in rows.values())]
    cells = [
        [PROBLEMS[study], f"{at:,}", *(_seconds(found.get(name, {})) for name in names)]
        for (study, at), found in rows.items()
    ]
    return Sheet("CPU seconds of the tuner in a run, median", ["problems", "evaluations", *names], cells)


def _seconds(each: Results) -> str:
    if not each:
        return ""
    middle = statistics.median(result.seconds for result in each.values())
    return f"{middle:.0f}" if middle >= 10.0 else f"{middle:.2g}"


def pages() -> dict[Path, str]:
    """Return the texts of the two pages with their tables."""
    readme, page = FOLDER.parent / "README.md", FOLDER / "tuners.md"
    rows = {row: results(*row) for row in ROWS}
    short = markdown(scores({row: rows[row] for row in IN_README}))
    both = "\n\n".join(markdown(make(rows)) for make in (scores, seconds))
    return {readme: inserted(readme.read_text(), short, MARKS), page: inserted(page.read_text(), both, MARKS)}
