"""Part of a run's report on what tuning found: the best settings, the history, and what matters."""

from __future__ import annotations

from matplotlib.figure import Figure

from scalable_bandits import plots
from scalable_bandits.plots.slices import arrangement, figure_size
from scalable_bandits.policies import Policy
from scalable_bandits.report.blocks import Block, Picture, Section, new_axes, picture
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.tickets import tickets_of
from scalable_bandits.store import StoredRun
from scalable_bandits.store.tickets import read_tickets


def stored_result(run: StoredRun, policy: Policy) -> TuningResult:
    """Make the result of a run that was recorded, given its policy with all observations."""
    columns, tickets = run.read(names=["call", "x", "y"]), tickets_of(read_tickets(run))
    x, earlier = policy.space.gather(policy.space.arguments(columns["x"])), int((columns["call"] == 0).sum())
    return TuningResult(policy.best(), policy, x, columns["y"], tuple(tickets.values()), earlier)


def result_section(found: TuningResult) -> Section:
    """Make the section of a result: a table of the best settings, and pictures of all that the space allows."""
    summarized = found.summary()
    table = Block("table", headings=("", *summarized.columns), rows=summarized.rows, text=f"{summarized.heading}.")
    drawn = [picture(plots.history(found, new_axes()), "Measured values and the best so far", "history")]
    for draw in (_importance, _slices, _parallel):
        try:
            drawn.append(draw(found))
        except ValueError:  # of a space or a policy that does not have this picture
            continue
    return Section("Result", [table, Block("figures", figures=drawn)])


def _importance(found: TuningResult) -> Picture:
    axes = new_axes(height=1.0 + 0.3 * min(len(found.policy.space.axes), plots.tuning.MOST_BARS))
    note = "importance: share of the variance of the posterior mean over the space"
    return picture(plots.importance(found, axes), "Importance of the parameters", note)


def _slices(found: TuningResult) -> Picture:
    figure = Figure(layout="constrained")
    panels = plots.slices(found, figure=figure)
    shape = arrangement(len(panels))
    figure.set_size_inches(*figure_size(shape))
    note = "posterior along each parameter through the recommended point (star); dots: observations near"
    return picture(figure, "Posterior along each parameter", note, wide=shape[1] > 2)


def _parallel(found: TuningResult) -> Picture:
    count, note = len(found.policy.space.axes), "all settings, the darker the better"
    axes = plots.parallel(found, new_axes(1.2 * count + 2.6, 4.0))
    return picture(axes, "All settings", note, wide=count > 3)
