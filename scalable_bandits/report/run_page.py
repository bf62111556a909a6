"""Report of one run: overview, curves over rounds, best observations, the policy's posterior."""

from __future__ import annotations

import math
import shlex
import time
from typing import Any

import numpy as np

from scalable_bandits import plots
from scalable_bandits.analysis import exponent, indexed
from scalable_bandits.checks import Floats
from scalable_bandits.commands import command_of
from scalable_bandits.plots.arrangement import without_pyplot
from scalable_bandits.plots.style import COLOURS, POINTS, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.placement import is_local
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, new_axes, picture, provenance
from scalable_bandits.runs.limits import kept_values, others_of, outputs_of
from scalable_bandits.runs.readable import (
    NONE_KEEPS,
    by_name,
    counted,
    parameter_text,
    places_of,
    point_text,
    shown,
    significant,
    texts_of,
    told_apart,
    with_error,
)
from scalable_bandits.runs.recording import replay_calls
from scalable_bandits.runs.result import TuningResult, best_points
from scalable_bandits.runs.resuming import context_of, environment_of, in_context_of, known_space, policy_of
from scalable_bandits.runs.thinning import ROUND, keeps_some, rounds_played
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Arms, Indices
from scalable_bandits.status import minimizes, status
from scalable_bandits.store import StoredRun


def stored_result(run: StoredRun, policy: Policy) -> TuningResult:
    """Make the result of a run that was recorded, given its policy with all observations."""
    others = others_of(run)
    columns = run.read(names=["call", "x", "y", *(["outputs"] if others else [])])
    outputs = dict(zip(others, columns["outputs"].T, strict=True)) if others else {}
    tickets = tuple(ticket for _, ticket in sorted(run.tickets.items()) if ticket.call != 0)
    x, earlier = policy.space.gather(policy.space.arguments(columns["x"])), int((columns["call"] == 0).sum())
    context = context_of(run)
    try:
        best = policy.best(context=context)
    except ValueError:  # nothing was measured in it yet
        best, context = policy.best(), None
    return TuningResult(best, policy, x, columns["y"], tickets, earlier, outputs=outputs, context=context)


def result_section(found: TuningResult) -> Section:
    """Make the section of a result: a table of the best settings, and pictures of all that the space allows."""
    summarized = best_points(found)
    table = Block("table", headings=("", *summarized.columns), rows=summarized.rows, text=f"{summarized.heading}.")
    history = "Growth of the front" if found.objectives else "Measured values and the best so far"
    drawn = [picture(plots.history(found, new_axes()), history, "history")]
    if found.objectives:
        drawn.insert(0, picture(plots.front(found, new_axes()), "Measured values and the front", "front"))
    for draw in (_importance, _slices, _parallel):
        try:
            drawn.append(draw(found))
        except ValueError:  # the space or the policy does not have this picture
            continue
    return Section("Result", [table, Block("figures", figures=drawn)])


def _importance(found: TuningResult) -> Picture:
    axes = new_axes(height=1.0 + 0.3 * min(len(found.policy.space.axes), plots.tuning.MOST_BARS))
    note = "importance: share of the variance of the posterior mean over the space"
    return picture(plots.importance(found, axes), "Importance of the parameters", note)


def _slices(found: TuningResult) -> Picture:
    with without_pyplot():
        panels = plots.slices(found)
    note = "posterior along each parameter through the recommended point (star); dots: observations near"
    return picture(panels[0], "Posterior along each parameter", note, wide=len(panels) > 4 or len(panels) == 3)


def _parallel(found: TuningResult) -> Picture:
    count, note = len(found.policy.space.axes), "all settings, the darker the better"
    axes = plots.parallel(found, new_axes(1.2 * count + 2.6, 4.0))
    return picture(axes, "All settings", note, wide=count > 3)


MOST_ROUNDS = 5000  # rounds above which the posterior is not drawn, because rebuilding it takes too long
BEST_ROWS = 20  # rows of the table of best observations


def run_report(run: StoredRun, place: str) -> Report:
    """Make the report of a run; `place` is its path or URL."""
    now = status(place)
    written = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now.last_write)) if now.last_write > 0 else None
    best = shown(now.best, 6, places_of(now.largest - now.smallest))
    if math.isnan(now.best):
        best = NONE_KEEPS if now.limited and now.rounds else ""
    overview = facts(
        [
            ("policy", now.policy),
            ("environment", now.environment),
            ("rounds", f"{now.rounds:,}" + ("" if now.planned is None else f" of {now.planned:,}")),
            ("state", now.state),
            ("last written", written),
            ("size", None if now.size is None else f"{now.size:,} bytes"),
            ("cumulative regret", None if math.isnan(now.regret) else f"{now.regret:.6g} units of y"),
            ("failed evaluations", f"{now.failures:,}" if now.failures else None),
            ("better is", "smaller" if now.minimize else None),
            (f"{_better(run)} y", best),
        ]
    )
    sections = [Section("Overview", [overview])]
    if len(run):
        policy = rebuilt(run)
        if isinstance(policy, Policy) and run.attributes.get("kind") != "simulate":
            found = stored_result(run, policy)
            sections += [result_section(found), _front(found) if found.objectives else _best(run)]
            sections += [] if policy.space.named else [_posterior(run, policy)]
        else:
            sections += [_over_rounds(run), _best(run), _posterior(run, policy)]
    if run.failures:
        sections.append(_failures(run))
    sections.append(provenance(run.specification, [("scalable_bandits", run.attributes.get("version"))], "run"))
    title = f"{now.policy} on {now.environment}" if now.environment else f"{now.policy}, asked and told by a program"
    return Report(title, place, [*sections, _commands(run, place)])


def _over_rounds(run: StoredRun) -> Section:
    """Draw regret, observations, confidence width and information gain over rounds."""
    names = {field.name for field in run.fields}
    drawn = []
    if "cumulative_regret" in names:
        whole = Trajectory(Arms(1), 1, run, dict(run.specification))
        curve = whole.curve(min(POINTS, len(whole)), log=True)
        if np.isfinite(curve.cumulative_regret[-1]):
            linear = plots.regret_curves({"run": whole}, ax=new_axes(), log=False)
            drawn.append(picture(linear, "Cumulative regret over rounds", "cumulative regret"))
            power = exponent(curve.round, curve.cumulative_regret[None]).exponent
            fitted = plots.regret_curves({"run": whole}, ax=new_axes(), log=True, fit=True)
            note = "" if np.isnan(power) else f"; fitted exponent of the last decade of rounds: {power:.3f}"
            drawn.append(picture(fitted, "Cumulative regret on logarithmic axes", f"cumulative regret, log-log{note}"))
    drawn.append(_values(run))
    for name, label in (("width", "confidence width"), ("information_gain", "information gain (nats)")):
        if name in names and (found := _series(run, name, label)) is not None:
            drawn.append(found)
    return Section("Over rounds", [Block("figures", figures=drawn)])


def _drawn(run: StoredRun) -> tuple[Any, Any]:
    """Return rows (k,) of the store, from 1 on and evenly spaced to the last, and the numbers (k,) of their rounds."""
    rows = np.unique(np.rint(np.linspace(1, len(run), min(POINTS, len(run)))).astype(np.int64))
    return rows, run.sample(ROUND, rows) if keeps_some(run) else rows


def _series(run: StoredRun, name: str, label: str) -> Picture | None:
    """Draw a stored array over rounds; None where it has no finite value."""
    rows, rounds = _drawn(run)
    values = run.sample(name, rows)
    if not np.isfinite(values).any():
        return None
    ax = new_axes()
    ax.plot(rounds, values, color=COLOURS[0], linewidth=1.8)
    return picture(tidy(ax, "round", label), f"{label} over rounds", label)


def _values(run: StoredRun) -> Picture:
    """Draw the observations and the best observation so far."""
    rows, rounds = _drawn(run)
    better, y = min if minimizes(run) else max, run.sample("y", rows)
    best: list[float] = []
    for first, last in zip([0, *rows[:-1]], rows, strict=True):  # over all rows, not only the drawn ones
        values = run.read(int(first), int(last), ["y"])["y"].tolist()
        best.append(better([*best[-1:], *values]))
    return observations_picture(rounds, y, best)


def observations_picture(numbers: Indices, y: Floats, best: Any, what: str = "round") -> Picture:
    """Draw observations (k,) and the best ones so far (k,) over the numbers (k,) of rounds or evaluations."""
    ax = new_axes()
    ax.plot(numbers, y, ".", color=COLOURS[5], markersize=4, label="y")
    ax.step(numbers, best, where="post", color=COLOURS[0], linewidth=1.8, label="best so far")
    tidy(ax, what, "observation")
    return picture(ax, f"Observations over {what}s, and the best so far", "observations", legend=True)


def _better(run: StoredRun) -> str:
    """Return which observation is the best one."""
    return "smallest" if minimizes(run) else "largest"


def _best(run: StoredRun) -> Section:
    """Tabulate the rounds with the best observations."""
    y = kept_values(run)
    if (here := in_context_of(run)) is not None:
        y = np.where(here(run.read(names=["x"])["x"]), y, np.nan)
    order = np.argsort(y if minimizes(run) else -y, kind="stable")[:BEST_ROWS]
    order = order[np.isfinite(y[order])]
    if not len(order):
        why = NONE_KEEPS if outputs_of(run).limits else "none has a value"
        return Section("Observations", [Block("text", text=f"Of {counted(len(y), 'observation')} {why}.")])
    numbers = run.read(names=[ROUND])[ROUND] if keeps_some(run) else np.arange(1, len(y) + 1)
    points, space = run.read(names=["x"])["x"][order], known_space(run)
    texts = [texts_of(x, 6, space) for x in (points if space is None else space.arguments(points))]
    headings = [axis.name for axis in space.axes] if space is not None and space.named else list(texts[0])
    cells = [[text.get(name, "") for name in headings] for text in texts]
    values = told_apart(y[order].tolist(), text=significant)
    rows = [(f"{numbers[i]:,}", *row, value) for i, row, value in zip(order, cells, values, strict=True)]
    title = f"The {len(rows)} {_better(run)} observations" + (" that keep all constraints" if others_of(run) else "")
    return Section("Observations", [Block("table", title, ("round", *headings, "y"), rows, 1)])


def _front(found: TuningResult) -> Section:
    """Tabulate the settings that no other one beats in all objectives, at most some of them, spread over the front."""
    front, space = found.front, found.policy.space
    rows = np.unique(np.linspace(0, len(front) - 1, min(len(front), BEST_ROWS)).round().astype(np.int64))
    axes, settings = space.axes, [by_name(space, front[i].x) for i in rows]
    cells = [[parameter_text(x[a.name], a, 6) if a.name in x else "" for a in axes] for x in settings]
    values = [[with_error(front[i].values[name], front[i].stds[name]) for name in found.directions] for i in rows]
    table = [(*setting, *each) for setting, each in zip(cells, values, strict=True)]
    title = f"{len(rows)} of the {len(front):,} settings of the front"
    headings = [*(axis.name for axis in axes), *found.directions]
    return Section("Front", [Block("table", title, headings, table, len(found.directions))])


def _failures(run: StoredRun) -> Section:
    """Tabulate the last failures of evaluations."""
    space, last = known_space(run), run.failures[-BEST_ROWS:][::-1]
    points = [np.array(each.x) for each in last]
    xs = [point_text(x if space is None else space.argument(x), 6, space) for x in points]
    errors = [(each.trace.strip() or each.error).rpartition("\n")[2] for each in last]
    rows = [(f"{each.round or 0:,}", *others) for each, *others in zip(last, xs, errors, strict=True)]
    title = f"The last {len(rows)} of {len(run.failures):,} failed evaluations"
    return Section("Failures", [Block("table", title, ("after round", "x", "error"), rows, 1)])


def _posterior(run: StoredRun, policy: Policy | str) -> Section:
    """Draw posterior and index after the run; where the store alone does not suffice, say why."""
    if isinstance(policy, str):
        return Section("Posterior", [Block("text", text=f"Not drawn. {policy}")])
    whole = Trajectory(policy.domain.numbered, 1, run, dict(run.specification))
    drawn = []
    if isinstance(policy, UnknownPriorPolicy):
        timeline = plots.prior_timeline(policy, whole, new_axes(height=1.4 + 0.38 * len(policy.priors)))
        alt = "Rounds in which each prior was used, and the round in which it was rejected"
        drawn.append(picture(timeline, alt, "priors: rounds that used each (dark), and its rejection (cross)"))
    space = policy.space
    if space.dimension <= 2 and not (space.named or space.scanned):
        drawn += _surfaces(run, policy, whole)
    why = "its parameters have names" if space.named else "more than two dimensions"
    why = "the candidates of a pool are not on a line" if space.scanned else why
    pictures = Block("figures", figures=drawn) if drawn else Block("text", text=f"Not drawn: {why}.")
    return Section("Posterior", [_recommendation(policy), pictures])


def _surfaces(run: StoredRun, policy: Policy, whole: Trajectory) -> list[Picture]:
    """Draw posterior and, if the policy has one, index over arms or a space of one or two dimensions."""
    line = policy.space.dimension == 1
    try:
        environment = environment_of(run) if "environment" in run.specification else None
    except ValueError:  # a user's function: the posterior is drawn without f
        environment = None
    axes = plots.posterior(policy, environment, whole, new_axes())
    note = "posterior after the last round; dots: " + ("observations" if line else "observed points")
    drawn = [picture(axes, "Posterior after the last round", note, image=not line)]
    if indexed(policy):
        axes = plots.index(policy, whole, new_axes())
        note = "index for the next round; star: its maximum"
        drawn.append(picture(axes, "Index for the next round", note, image=not line))
    return drawn


def _recommendation(policy: Policy) -> Block:
    """List the point that the policy recommends, with its posterior mean and standard deviation."""
    best = policy.best()
    point, mean = texts_of(best.x, 6, policy.space), shown(best.mean, places=places_of(best.std, 2))
    pairs = [*point.items(), ("posterior mean", mean), ("standard deviation", f"{best.std:.2g}")]
    return facts(pairs, "Recommended point")


def rebuilt(run: StoredRun) -> Policy | str:
    """Make the policy of a run anew from its specification and tell it all observations; or return why not."""
    if rounds_played(run) > MOST_ROUNDS:
        return f"The run has more than {MOST_ROUNDS:,} rounds."
    if keeps_some(run):
        return "The store does not have all rounds."
    try:
        policy = policy_of(run, constrained=False)
    except ValueError as error:  # the specification has a function of the user
        return str(error)
    if "call" in {field.name for field in run.fields}:
        replay_calls(policy, run)
        return policy
    columns = run.read(names=["candidate", "x", "y"])
    policy._introduce(columns["candidate"], columns["x"])
    for x, y in zip(columns["x"], columns["y"].tolist(), strict=True):
        policy.tell(x, y)
    return policy


def _commands(run: StoredRun, place: str) -> Section:
    """List the commands that continue the run, make the page again and open the data."""
    command = f"scalable-bandits resume {shlex.quote(place)}"
    kind = run.attributes.get("kind")
    if run.planned is not None and rounds_played(run) + len(run.failures) >= run.planned:
        command += f" --rounds {2 * run.planned}"
    if kind in ("minimize", "maximize"):
        line, on = command_of(run), run.attributes.get("settings", {}).get("on")
        known = str(run.specification.get("function", {}).get("function", "<"))
        name = "module:name" if "<" in known else shlex.quote(known)  # a lambda has no name
        command += f" --function {name}" if line is None else f" --command {shlex.quote(str(line))}"
        command += "" if is_local(on) else f" --on {shlex.quote(str(on))}"
    blocks = [Block("command", "Make this page again", text=f"scalable-bandits report {shlex.quote(place)}")]
    if kind in ("simulate", "minimize", "maximize"):
        blocks.insert(0, Block("command", "Continue the run", text=command))
    text = "import xarray\n\n" + f"run = xarray.open_zarr({place!r}, consolidated=False)  # without this package"
    return Section("How to continue", [*blocks, Block("command", "Open the data in Python", text=text)])
