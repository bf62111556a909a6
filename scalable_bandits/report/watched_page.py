"""Watched run or study as a page, also in a notebook's output that is kept up to date."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from scalable_bandits.checks import Floats
from scalable_bandits.plots.curves import APART
from scalable_bandits.plots.style import line, logarithmic, plain, ticks, tidy
from scalable_bandits.progress import LiveOutput, in_notebook, rate_text, time_text
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, new_axes, picture
from scalable_bandits.report.numbers import estimate
from scalable_bandits.report.run_page import observations_picture, result_section
from scalable_bandits.report.watched_run import WatchedRun
from scalable_bandits.report.watched_study import WatchedStudy
from scalable_bandits.report.watching import PresentModel, Watched, watched
from scalable_bandits.report.writing import render
from scalable_bandits.runs.readable import NONE_KEEPS, OF_BATCH, places_of, point_text, shown, spread_of, told_apart
from scalable_bandits.spaces import Indices

SECONDS = 2.0  # shortest time between two states of a page


def watch(store: Any) -> LiveOutput:
    """Show a stored run or study in a notebook, and keep it up to date while other processes write it.

    The call returns at once; a thread reads what is new in the store, every two seconds or, where that takes long, less
    often. It ends when the run is complete or closed. The writing processes are neither slowed down nor changed.
    In a terminal, the command ``scalable-bandits watch`` does the same.

    Parameters
    ----------
    store
        Store of a run or a study: a folder, URL, or zarr store.

    Returns
    -------
    LiveOutput
        The output; its method `stop` ends the thread.

    Raises
    ------
    FileNotFoundError
        If there is nothing in the store.
    RuntimeError
        If this is no notebook.
    """
    page = WatchedPage(watched(store))
    if not in_notebook():
        raise RuntimeError(f"watch: this is no notebook; in a terminal use: scalable-bandits watch {store}")

    def frames() -> Iterator[dict[str, str]]:
        while True:
            yield {"text/html": page.html("output.html.j2"), "text/plain": page.line}
            if page.watched.over:
                return
            page.watched.read()

    return LiveOutput(frames(), SECONDS)


class WatchedPage:
    """Page of a watched run or study.

    Parameters
    ----------
    watched
        The run or the study, as it was read last.
    """

    def __init__(self, watched: Watched):
        self.watched = watched
        self._model = PresentModel(watched.place, result_section) if isinstance(watched, WatchedRun) else None
        self._drawn: dict[str, tuple[Any, list[Picture]]] = {}  # pictures by name, and of how much they are

    @property
    def line(self) -> str:
        """State in one line."""
        return f"{self.watched.title}: {', '.join(words(self.watched))}"

    def html(self, template: str = "page.html.j2", nonce: str = "") -> str:
        """Return the page as HTML text; see `render`."""
        found = self.watched
        made = _run_sections(found, self) if isinstance(found, WatchedRun) else _study_sections(found, self)
        return render(Report(found.title, str(found.place), made), template, nonce)

    def model(self, run: WatchedRun) -> Section | None:
        """Return what the present model of a run says; None before there is one."""
        assert self._model is not None
        if run.tuning and run.done:
            self._model.update(run.done, wait=run.over)
        last = self._model.last
        if last is None or last.made is None:
            return None
        title = f"Model after {last.observations:,} evaluations"
        return Section(title if last.observations < run.done else "Present model", last.made.blocks)

    def pictures(self, name: str, of: Any, draw: Any) -> list[Picture]:
        """Return pictures, drawn again only if they are of more than before."""
        known = self._drawn.get(name)
        if known is None or known[0] != of:
            self._drawn[name] = known = of, list(draw())
        return known[1]


def words(found: Watched) -> list[str]:
    """Return the state of a run or a study in a few words: what is done, how fast, how long it will take."""
    now = time.time()
    if isinstance(found, WatchedStudy):
        done = [f"{found.complete:,} of {found.runs:,} runs complete", f"{len(found.playing):,} running"]
        unit, at_work, written = " runs", bool(found.playing), 0.0
    else:
        of = "" if found.planned is None else f" of {found.planned:,}"
        done = [f"{found.done:,}{of} {'evaluations' if found.tuning else 'rounds'}"]
        done += [f"{found.failures:,} failed"] if found.failures else []
        done += [f"{found.measured:,} {OF_BATCH}"] if found.measured else []
        unit, at_work, written = "", found.writer is not None, 0.0 if found.run is None else found.run.last_write
    rate = found.pace.rate(now)
    done += [rate_text(rate, unit)] if at_work and rate is not None else []
    done += [f"{time_text(found.left)} left"] if found.left is not None and not found.over else []
    done += [f"written {time_text(max(now - written, 0.0))} ago"] if written and not found.over else []
    return done


def best_words(run: WatchedRun) -> str:
    """Return the best observation of a run, where it was made, and how long ago; without any, the reason."""
    best = run.best
    if best is None:
        if run.measured:
            return "no batch has ended yet"
        return NONE_KEEPS if run.limited and len(run.y) else "nothing measured yet"
    ago = time.time() - best.time
    since = f", {time_text(ago)} ago" if ago >= 0.0 and not run.over else ""
    where = f"{'evaluation' if run.tuning else 'round'} {best.number:,}{since}"
    of = f"{run.objective} " if run.objective else ""
    y = shown(best.y, 6, places_of(spread_of(run.y)))
    return f"{of}{y} in {where}: {point_text(best.x, 4, run.space)}"


def in_flight_table(run: WatchedRun) -> Block:
    """Tabulate the evaluations that have not ended, without those of a batch that are measured.

    Those that ran when the process that wrote the run ended were dropped; a run that goes on makes them again.
    """
    rows = []
    for each in run.in_flight:
        state, since = each.ticket.state, time_text(each.seconds)
        if run.writer is None:
            state, since = "dropped" if state == "running" else state, ""
        x = point_text(each.x, 4, run.space) if each.ticket.x else ""
        rows.append((str(each.ticket.number), state, since, each.ticket.where, x))
    title = "In flight" if run.writer is not None else "Pending"
    return Block("table", title, ("ticket", "state", "for", "where", "x"), rows)


def latest_table(run: WatchedRun) -> Block:
    """Tabulate the last evaluations or rounds."""
    values = told_apart([each.y for each in run.latest], 6)
    rows = []
    for each, y in zip(run.latest, values, strict=True):
        known = "not measured" if math.isnan(each.y) else y
        rows.append((f"{each.number:,}", each.error or known, point_text(each.x, 4, run.space)))
    return Block("table", "Latest", ("evaluation" if run.tuning else "round", "y", "x"), rows)


def playing_table(study: WatchedStudy) -> Block:
    """Tabulate the runs that are being played."""
    rows = []
    for run, each in study.playing.items():
        writer, planned = each.writer or {}, each.planned
        rounds = f"{each.done:,}" + ("" if planned is None else f" of {planned:,}")
        where = f"process {writer.get('pid', '')} on {writer.get('host', '')}"
        rows.append((*study.labels(run), str(run[2]), where, rounds))
    return Block("table", "Running", ("case", "policy", "replicate", "where", "rounds"), rows, 1)


def policies_table(study: WatchedStudy, case: str | None = None) -> Block:
    """Tabulate how far the runs of each policy are, and their mean regret; of one case or of all."""
    rows = [
        (row.case, row.policy, f"{row.complete:,} of {row.runs:,}", f"{row.running:,}",
         f"{row.round:,}" if row.round else "", estimate(row.regret, row.error) if row.round else "")
        for row in study.table() if case in (None, row.case)
    ]  # fmt: skip
    text = "Regret: mean over the complete runs ± standard error; without complete runs, over those that have begun."
    headings = ("case", "policy", "complete", "running", "at round", "regret")
    return Block("table", "Policies", headings, rows, 4, text)


# ---- sections


def _run_sections(run: WatchedRun, page: WatchedPage) -> list[Section]:
    writer = run.writer
    overview = facts(
        [
            ("state", run.state),
            ("done", ", ".join(words(run))),
            ("best so far", best_words(run)),
            ("process", None if writer is None else f"{writer['pid']} on {writer['host']}: {writer['command']}"),
            ("read at", time.strftime("%H:%M:%S")),
        ]
    )
    in_flight = in_flight_table(run)
    sections = [Section("Overview", [overview, *([in_flight] if in_flight.rows else [])])]
    model = page.model(run)
    if model is not None:
        sections.append(model)
    elif run.done:
        drawn = page.pictures("history", run.done, lambda: _run_pictures(run))
        sections.append(Section("So far", [Block("figures", figures=drawn)]))
    if run.run is not None and len(run.y):
        sections.append(Section("Evaluations" if run.tuning else "Rounds", [latest_table(run)]))
    return sections


def _run_pictures(run: WatchedRun) -> Iterator[Picture]:
    rounds, regret = run.regret()
    if len(rounds):
        axes = new_axes()
        axes.plot(rounds, regret, **line(0))
        yield picture(tidy(axes, "round", "cumulative regret"), "Cumulative regret over rounds", "cumulative regret")
    numbers, y, best = run.history()
    if len(numbers):
        yield observations_picture(numbers, y, best, "evaluation" if run.tuning else "round")


def _study_sections(study: WatchedStudy, page: WatchedPage) -> list[Section]:
    overview = facts(
        [("state", study.state), ("done", ", ".join(words(study))), ("read at", time.strftime("%H:%M:%S"))]
    )
    playing = playing_table(study)
    sections = [Section("Overview", [overview, *([playing] if playing.rows else [])])]
    if study.regrets:
        drawn = []
        for case in study.cases:
            curves = study.curves(case)
            reached = [(name, float(regret.sum()), len(regret)) for name, (_, regret) in curves.items()]
            drawn += page.pictures(case, reached, lambda case=case: [_curves_picture(study, case)]) if curves else []
        note = Block("text", text="Each curve is the mean over the runs of a policy that have got that far.")
        sections.append(Section("Regret so far", [note, Block("figures", figures=drawn), policies_table(study)]))
    return sections


def far_apart(curves: Mapping[str, tuple[Indices, Floats]]) -> bool:
    """Return whether curves of regret, all of them positive, are better seen on logarithmic axes."""
    last = [float(regret[-1]) for _, regret in curves.values()]
    return max(last) > APART * min(last) and all((regret > 0.0).all() for _, regret in curves.values())


def _curves_picture(study: WatchedStudy, case: str) -> Picture:
    axes, curves = new_axes(), study.curves(case)
    policies = list((study.record or {}).get("policies", {}))
    for policy, (rounds, regret) in curves.items():
        axes.plot(rounds, regret, label=plain(policy), **line(policies.index(policy)))
    if far_apart(curves):
        logarithmic(axes)
    else:
        ticks(axes, 5)
    tidy(axes, "round", "cumulative regret")
    return picture(axes, f"Regret of the policies in {case} so far", case, legend=True)
