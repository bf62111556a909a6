"""Wins, losses and ties of one tuner against others, medians of regrets, and CPU time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rich.table import Table

from benchmarks.tuners.problems import GROUPS, REPORTED_ON, TIE, TUNED_ON, Task
from benchmarks.tuners.runs import Run

Runs = Mapping[Task, Run]
MARKS = ("<!-- results -->", "<!-- end of results -->")  # of a page
LEAST = TIE  # regrets below it count as it in logarithms


class Sheet(NamedTuple):
    """A table that is printed."""

    title: str
    header: list[str]
    rows: list[list[str]]


class Record(NamedTuple):
    """Comparison of two tuners on the tasks that both played."""

    wins: int
    losses: int
    ties: int
    gap: float  # median of log10 of the ratio of regrets; below 0: the first is better. nan without a task

    def __str__(self) -> str:
        if not self.wins + self.losses + self.ties:
            return ""
        return f"{self.wins}-{self.losses}-{self.ties} ({self.gap:+.2f})"


def final_value(task: Task, run: Run) -> float:
    """Return the true value of the result: of the recommended point with noise, else of the best measured one."""
    return float(run["recommended_value"] if task.noisy else min(run["value"]))


def log_regret(task: Task, run: Run) -> float:
    """Return log10 of the regret of the result."""
    return math.log10(max(final_value(task, run) - run["optimum"], LEAST))


def record(ours: Runs, theirs: Runs, tasks: Iterable[Task]) -> Record:
    """Count wins, losses and ties of `ours` on the tasks that both played."""
    both = [task for task in tasks if task in ours and task in theirs]
    ahead = [final_value(task, theirs[task]) - final_value(task, ours[task]) for task in both]
    wins = sum(by > task.tie for task, by in zip(both, ahead, strict=True))
    losses = sum(by < -task.tie for task, by in zip(both, ahead, strict=True))
    gaps = [log_regret(task, ours[task]) - log_regret(task, theirs[task]) for task in both]
    return Record(wins, losses, len(both) - wins - losses, statistics.median(gaps) if gaps else math.nan)


def rows_of(tasks: Iterable[Task]) -> Iterator[tuple[str, list[Task]]]:
    """Yield name and tasks of every row: the two sets of functions apart, then tables and what else there is."""
    tasks = sorted(set(tasks))
    bbob = [task for task in tasks if task.problem == "bbob"]
    others = sorted(set(bbob) - {t for t in bbob if t.function in TUNED_ON + REPORTED_ON})
    chosen = {
        "tuned on": [task for task in bbob if task.function in TUNED_ON],
        "reported on": [task for task in bbob if task.function in REPORTED_ON],
        "other functions": others,
    }
    for name, each in chosen.items():
        dimensions = sorted({task.dimension for task in each})
        parts = {f"{name}, all": each}
        parts |= {f"{name}, d = {d}": [task for task in each if task.dimension == d] for d in dimensions}
        parts |= {f"{name}, {group}": [task for task in each if task.group == group] for group in GROUPS}
        yield from ((title, part) for title, part in parts.items() if part)
    tables = [task for task in tasks if task.kind == "table"]
    if tables:
        yield "tables, all", tables
    rest = [task for task in tasks if task.problem != "bbob"]
    yield from ((name, [t for t in rest if t.problem == name]) for name in sorted({t.problem for t in rest}))


def sheets(kept: Mapping[str, Runs], ours: str) -> list[Sheet]:
    """Make the tables of kept runs by tuner; comparisons are those of the tuner named `ours`."""
    made = []
    for noisy, title in ((False, "without noise, best measured point"), (True, "with noise, recommended point")):
        runs = {name: {task: run for task, run in each.items() if task.noisy == noisy} for name, each in kept.items()}
        runs = {name: each for name, each in runs.items() if each}
        rows = list(rows_of(task for each in runs.values() for task in each))
        if ours in runs and len(runs) > 1:
            made.append(_comparison(runs, ours, rows, title))
        if runs:
            made.append(_medians(runs, rows, title))
    return [*made, _costs(kept)] if kept else []


def _comparison(runs: Mapping[str, Runs], ours: str, rows: list[tuple[str, list[Task]]], title: str) -> Sheet:
    others = [name for name in runs if name != ours]
    lines = [[name, *(str(record(runs[ours], runs[other], tasks)) for other in others)] for name, tasks in rows]
    what = f"{ours}: wins-losses-ties (median log10 of the ratio of regrets), {title}"
    return Sheet(what, ["problems", *(f"against {other}" for other in others)], lines)


def _medians(runs: Mapping[str, Runs], rows: list[tuple[str, list[Task]]], title: str) -> Sheet:
    def shown(each: Runs, tasks: list[Task]) -> str:
        regrets = [log_regret(task, each[task]) for task in tasks if task in each]
        return f"{statistics.median(regrets):.2f} ({len(regrets)})" if regrets else ""

    lines = [[name, *(shown(each, tasks) for each in runs.values())] for name, tasks in rows]
    return Sheet(f"Median log10 regret (runs), {title}", ["problems", *runs], lines)


def _costs(kept: Mapping[str, Runs], reference: str = "GPSampler") -> Sheet:
    """CPU time an evaluation by kind of problem, and against the reference on the tasks that both played."""
    every = sorted({task for each in kept.values() for task in each})
    kinds: dict[str, list[Task]] = {}
    for task in every:
        kinds.setdefault(f"bbob, d = {task.dimension}" if task.problem == "bbob" else task.kind, []).append(task)

    def shown(each: Runs, tasks: list[Task]) -> str:
        found = [task for task in tasks if task in each]
        if not found:
            return ""
        own = statistics.median(each[task]["cpu_seconds"] / each[task]["evaluations"] for task in found) * 1e3
        both = [task for task in found if task in kept.get(reference, {})]
        if not both:
            return f"{own:.3g} ms"
        ratio = total(each, both) / total(kept[reference], both)
        return f"{own:.3g} ms, {ratio:.2g}"

    def total(each: Runs, tasks: list[Task]) -> float:
        return sum(each[task]["cpu_seconds"] for task in tasks)

    lines = [[name, *(shown(each, tasks) for each in kept.values())] for name, tasks in kinds.items()]
    lines.append(["runs", *(str(len(each)) for each in kept.values())])
    lines.append(["version", *(_version(each) for each in kept.values())])
    return Sheet(f"The tuner's CPU time an evaluation (median), {reference} = 1", ["problems", *kept], lines)


def _version(runs: Runs) -> str:
    return ", ".join(sorted({str(run["version"]) for run in runs.values()}))


def drawn(sheet: Sheet) -> Table:
    """Return the table for a terminal, without its title."""
    table = Table(*sheet.header)
    for row in sheet.rows:
        table.add_row(*row)
    return table


def markdown(sheet: Sheet) -> str:
    """Return the table as Markdown, its title in italics above it."""

    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(map(str, cells)) + " |"

    return "\n".join([f"*{sheet.title}*", "", line(sheet.header), line(["---"] * len(sheet.header)),
                      *map(line, sheet.rows)])  # fmt: skip


def marks_of(study: str) -> tuple[str, str]:
    """Return the marks of a page between which the tables of a study are."""
    return f"<!-- results {study} -->", f"<!-- end of results {study} -->"


def inserted(page: str, text: str, marks: tuple[str, str] = MARKS) -> str:
    """Return the page with the text in the place of what stands between its marks.

    Parameters
    ----------
    page, text
        Page, and text that is inserted.
    marks
        First and last mark.

    Raises
    ------
    ValueError
        If the page does not have the two marks, each once, in their order.
    """
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end or any(page.count(mark) != 1 for mark in marks):
        raise ValueError(f"page: got one without the marks; allowed: one with {marks[0]} and then {marks[1]}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
