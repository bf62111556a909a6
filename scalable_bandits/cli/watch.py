"""The subcommand `watch`: a stored run or study in a full-screen view, or on a page, while other processes write it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scalable_bandits.checks import showable
from scalable_bandits.cli.charts import STYLES, DrawnCurve, bars, chart, stroke
from scalable_bandits.cli.messages import console, refusals
from scalable_bandits.cli.options import option
from scalable_bandits.runs.readable import parameter_text

if TYPE_CHECKING:
    from scalable_bandits.analysis import Importance, Slice
    from scalable_bandits.report.blocks import Block
    from scalable_bandits.report.watched_run import WatchedRun
    from scalable_bandits.report.watched_study import WatchedStudy
    from scalable_bandits.report.watching import PresentModel, Watched
    from scalable_bandits.runs.result import TuningResult

SECONDS = 1.0  # shortest time between two frames
COLOURS = {"running": "green", "complete": "blue", "closed": "blue", "interrupted": "red"}  # of states
TALL = 34  # lines from which a view has slices
PANEL = 34  # characters across a slice
INTERRUPTED = 3  # exit code of --once where the process that wrote the run has died


class Believed(NamedTuple):
    """What the view shows of a model."""

    importance: Importance | None  # None where the space has no independent parameters
    slices: list[Slice]


def watch(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Store of a run or a study.")],
    once: Annotated[
        bool, option("", "Print the present state and exit, with code 3 if interrupted.", "--once")
    ] = False,
    page: Annotated[bool, option("", "Show it on a page in the browser, on this machine alone.", "--page")] = False,
    port: Annotated[int, option("N", "Port of the page. Default: one that is free.", min=0)] = 0,
) -> None:
    """Watch a run or a study while other processes write it. Ends when it is complete or closed (a page: by Ctrl-C)."""
    from scalable_bandits.posteriors.blas import one_thread
    from scalable_bandits.report.watching import watched

    with refusals(), one_thread:
        if port and not page:
            raise ValueError("--port: got a port without --page; allowed: both")
        found = watched(path)
        try:
            _serve(found, port) if page else _show(found, once)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    if once and found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _serve(found: Watched, port: int) -> None:
    """Serve the page until nothing more comes, and it is no longer wanted."""
    from scalable_bandits.report.page_server import PageServer

    server = PageServer(found, port)
    try:
        console.print(f"page: {server.url}", soft_wrap=True)
        server.keep_up_to_date()
        console.print(f"{found.state}; Ctrl-C ends the page", soft_wrap=True)
        while True:
            time.sleep(3600.0)
    finally:
        server.stop()


def _show(found: Watched, once: bool) -> None:
    """Draw frames until nothing more comes; with `once`, or where there is no terminal, the last one alone."""
    from scalable_bandits.progress import paced
    from scalable_bandits.report.watched_run import WatchedRun
    from scalable_bandits.report.watching import PresentModel

    model = PresentModel(found.place, _believed) if isinstance(found, WatchedRun) else None
    if once:
        console.print(_frame(found, model, console.width, 40, wait=True))
        return
    with Live(console=console, screen=console.is_terminal, auto_refresh=False, vertical_overflow="crop") as live:
        for _ in paced(SECONDS):
            found.read()
            live.update(_frame(found, model, console.width, console.height, wait=found.over), refresh=True)
            if found.over:
                break
    if console.is_terminal:  # the screen is that of before again
        console.print(_frame(found, model, console.width, min(console.height, 40) - 2, wait=True))


def _believed(found: TuningResult) -> Believed:
    from scalable_bandits import analysis

    try:
        importance = analysis.importance(found)
    except ValueError:  # the parameters are not independent
        importance = None
    return Believed(importance, analysis.slices(found))


def _frame(found: Watched, model: PresentModel[Believed] | None, width: int, height: int, wait: bool) -> RenderableType:
    """Return the view of a run or study, of a size in characters."""
    from scalable_bandits.report.watched_page import words
    from scalable_bandits.report.watched_run import WatchedRun

    state = Text(showable(found.state, console.encoding), style=COLOURS.get(found.state.partition(" ")[0], "yellow"))
    title = Text(showable(found.title, console.encoding), style="bold")
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True)
    head.add_column(justify="right")
    head.add_row(title, state)
    lines: list[RenderableType] = [head, _line(", ".join(words(found)))]
    if isinstance(found, WatchedRun):
        assert model is not None
        return Group(*lines, *_run(found, model, width, height - 2, wait))
    return Group(*lines, *_study(found, width, height - 2))


def _line(text: str, style: str = "") -> Text:
    return Text(showable(text, console.encoding), style=style, no_wrap=True, overflow="ellipsis")


def _beside(parts: list[Text], widths: list[int]) -> Table:
    """Put parts side by side, a gap of two characters between them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in widths:
        grid.add_column(width=width, no_wrap=True)
    grid.add_row(*parts)
    return grid


def _table(block: Block, width: int, rows: int, fold: str) -> list[RenderableType]:
    """Return the first rows of a table in so many lines, heading included; one column, `fold`, gives way."""
    if rows < 3 or not block.rows:
        return []
    table = Table(box=None, pad_edge=False, padding=(0, 1), title=None, header_style="dim", width=width)
    for i, heading in enumerate(block.headings):
        side: Any = "right" if i >= len(block.headings) - block.numbers else "left"
        table.add_column(heading, justify=side, no_wrap=True, overflow="ellipsis", ratio=1 if heading == fold else None)
    shown = block.rows[: rows - 2]
    for row in shown:
        table.add_row(*(Text(showable(cell, console.encoding)) for cell in row))
    more = len(block.rows) - len(shown)
    return [_line(block.title + (f" ({more} more)" if more and block.title != "Latest" else ""), "bold"), table]


# ---- a run


def _run(run: WatchedRun, model: PresentModel[Believed], width: int, height: int, wait: bool) -> list[RenderableType]:
    from scalable_bandits.report.watched_page import best_words, in_flight_table, latest_table

    lines: list[RenderableType] = [_line(f"{'' if run.best is None else 'best '}{best_words(run)}")]
    in_flight, latest = in_flight_table(run), latest_table(run)
    tables = min(len(in_flight.rows), 4) + 2 * bool(in_flight.rows) + 5
    room = height - 1 - tables
    if run.tuning and run.done:
        model.update(run.done, wait=wait)
    believed = None if model.last is None else model.last.made
    slices = [] if believed is None or height < TALL else believed.slices[: max(width // PANEL, 1)]
    tall = min(room // 2, 12) if slices else 0
    if len(run.y):
        lines.append(_charts(run, believed, width, max(min(room - tall, 20), 5)))
    if believed is not None and slices:
        each = (width - 2 * (len(slices) - 1)) // len(slices)
        drawn = [_slice_chart(one, each, tall) for one in slices]
        lines.append(_beside(drawn, [each] * len(drawn)))
    lines += _table(in_flight, width, min(len(in_flight.rows), 4) + 2, "x")
    lines += _table(latest, width, 5 if height < TALL else 9, "x")
    return lines


def _charts(run: WatchedRun, believed: Believed | None, width: int, height: int) -> Table:
    """Draw the history and, beside it, the importance of the parameters or the regret."""
    rounds, regret = run.regret()
    share = believed is not None and believed.importance is not None
    left = width - 2 - max(width // 3, 24) if share else (width - 2) // 2 if len(rounds) else width
    parts, right = [_history_chart(run, left, height)], width - 2 - left
    if believed is not None and believed.importance is not None:
        shares = list(zip(believed.importance.names, believed.importance.total.tolist(), strict=True))
        parts.append(bars(shares, right, height, "importance", console.encoding))
    elif len(rounds):
        curve = DrawnCurve(rounds.astype(float), regret)
        parts.append(chart([curve], right, height, "cumulative regret", encoding=console.encoding))
    return _beside(parts, [left, right][: len(parts)])


def _history_chart(run: WatchedRun, width: int, height: int) -> Text:
    from scalable_bandits.plots.tuning import shown_values

    numbers, y, best = run.history()
    x, finite = numbers.astype(float), np.isfinite(y)  # of some the objective was not measured
    shown = shown_values(y[finite], run.minimize) if finite.any() else None
    measured = DrawnCurve(x, y, "bright_black", joined=False)
    so_far = DrawnCurve(np.repeat(x, 2)[1:], np.repeat(best, 2)[:-1], STYLES[0])
    better = "smaller" if run.minimize else "larger"
    title = f"{run.objective or 'values'}, best so far ({better} is better)"  # fits half of 80 columns
    log, limits = (False, None) if shown is None else (shown.log, (shown.low, shown.high))
    return chart(
        [measured, so_far], width, height, title, log=log, limits=limits, encoding=console.encoding
    )  # fmt: skip


def _slice_chart(one: Slice, width: int, height: int) -> Text:
    """Draw mean and interval along a parameter through the recommended point."""
    axis, allowed = one.axis, one.allowed
    x = axis.places(one.numbers)[allowed]
    curves = [DrawnCurve(x, band[allowed], "bright_black", axis.ordered) for band in (one.low, one.high)]
    curves.append(DrawnCurve(x, one.mean[allowed], STYLES[0], axis.ordered))
    low, high = (parameter_text(end, axis) for end in (axis.low, axis.high))
    ends = (axis.labels[0], axis.labels[-1]) if axis.labels else (low, high)
    return chart(curves, width, height, axis.name, ends=ends, encoding=console.encoding)


# ---- a study


def _study(study: WatchedStudy, width: int, height: int) -> list[RenderableType]:
    from scalable_bandits.report.watched_page import playing_table, policies_table

    drawn = [case for case in study.cases if study.curves(case)][: max(width // 60, 1)]
    playing = playing_table(study)
    table = policies_table(study, drawn[0] if drawn else None)
    room = height - min(len(playing.rows), 4) - 2 * bool(playing.rows)
    lines: list[RenderableType] = []
    if drawn:
        each = (width - 2 * (len(drawn) - 1)) // len(drawn)
        tall = max(min(room - min(len(table.rows), 8) - 3, 24), 6)
        room -= tall + 1
        lines.append(_beside([_curves_chart(study, case, each, tall) for case in drawn], [each] * len(drawn)))
        lines.append(_names(study, drawn))
    lines += _table(playing, width, min(len(playing.rows), 4) + 2, "where")
    return [*lines, *_table(table, width, max(room, 3), "policy")]


def _style(study: WatchedStudy, policy: str) -> str:
    return STYLES[list((study.record or {}).get("policies", {})).index(policy) % len(STYLES)]


def _curves_chart(study: WatchedStudy, case: str, width: int, height: int) -> Text:
    from scalable_bandits.report.watched_page import far_apart

    found = study.curves(case)
    log = far_apart(found)
    curves = [
        DrawnCurve(np.log(at) if log else at.astype(float), regret, _style(study, policy))
        for policy, (at, regret) in found.items()
    ]
    rounds = np.concatenate([each for each, _ in found.values()])
    ends = f"{rounds.min():,}", f"{rounds.max():,}"
    title = f"cumulative regret, {case}{' (logarithmic axes)' if log else ''}"
    return chart(curves, width, height, title, log=log, ends=ends, encoding=console.encoding)


def _names(study: WatchedStudy, cases: list[str]) -> Text:
    """Name the curves in their colours."""
    names = dict.fromkeys(policy for case in cases for policy in study.curves(case))
    found = Text("   ").join(
        Text.assemble((f"{stroke(console.encoding)} ", _style(study, name)), showable(name, console.encoding))
        for name in names
    )
    found.no_wrap, found.overflow = True, "ellipsis"
    return found
