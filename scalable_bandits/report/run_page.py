"""Report of one run: what was played, what came of it, what the policy believes now."""

from __future__ import annotations

import json
import math
import shlex
import time
from typing import Any

import numpy as np

from scalable_bandits import plots
from scalable_bandits.analysis import exponent, indexed
from scalable_bandits.plots.style import COLOURS, POINTS, tidy
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, new_axes, number, picture
from scalable_bandits.report.machine import machine
from scalable_bandits.runs.recording import environment_of, policy_of
from scalable_bandits.runs.status import status
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Arms
from scalable_bandits.store import StoredRun

TOLD = 5000  # rounds, at the most, that are told again for a picture of the posterior
HEADS = 20  # best rounds that a table has


def run_report(run: StoredRun, place: str) -> Report:
    """Sections of a run's page."""
    now = status(place)
    against = now.environment or "by hand"
    written = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now.last_write)) if now.last_write > 0 else None
    overview = facts(
        [
            ("policy", now.policy),
            ("plays", against),
            ("rounds", f"{now.rounds:,}" + ("" if now.planned is None else f" of {now.planned:,}")),
            ("state", now.state),
            ("last written", written),
            ("size", None if now.size is None else f"{now.size:,} bytes"),
            ("cumulative regret", None if math.isnan(now.regret) else f"{now.regret:.6g} units of y"),
            ("largest y", None if math.isnan(now.largest) else f"{now.largest:.6g}"),
        ]
    )
    sections = [Section("Overview", [overview])]
    if len(run):
        sections += [_over_rounds(run), _best(run), _belief(run)]
    described = json.dumps(run.specification, indent=2, default=str, ensure_ascii=False)
    versions = facts([("scalable_bandits", run.attributes.get("version"))])._replace(title="It was started with")
    made_on = machine()._replace(title="This page: made on")
    sections.append(Section("Specification", [Block("command", text=described), versions, made_on]))
    return Report(f"{now.policy} plays {against}", place, [*sections, _again(run, place)])


def _over_rounds(run: StoredRun) -> Section:
    names = {field.name for field in run.fields}
    drawn, blocks = [], []
    if "cumulative_regret" in names:
        whole = Trajectory(Arms(1), 1, run, dict(run.specification))
        curve = whole.curve(min(POINTS, len(whole)), log=True)
        if np.isfinite(curve.cumulative_regret[-1]):
            linear = plots.regret_curves({"run": whole}, ax=new_axes(), log=False)
            drawn.append(picture(linear, "Cumulative regret over rounds", "cumulative regret"))
            power = exponent(curve.round, curve.cumulative_regret[None]).mean
            fitted = plots.regret_curves({"run": whole}, ax=new_axes(), log=True, fit=True)
            note = "" if np.isnan(power) else f"; fitted exponent of the last decade of rounds: {float(power):.3f}"
            drawn.append(picture(fitted, "Cumulative regret on logarithmic axes", f"cumulative regret, log-log{note}"))
    drawn.append(_values(run))
    for name, label in (("width", "confidence width"), ("information_gain", "information gain (nats)")):
        if name in names and (found := _series(run, name, label)) is not None:
            drawn.append(found)
    blocks.append(Block("figures", figures=drawn))
    return Section("Over rounds", blocks)


def _some(run: StoredRun) -> Any:
    return np.unique(np.rint(np.linspace(1, len(run), min(POINTS, len(run)))).astype(np.int64))


def _series(run: StoredRun, name: str, label: str) -> Picture | None:
    rounds = _some(run)
    values = run.sample(name, rounds)
    if not np.isfinite(values).any():
        return None
    ax = new_axes()
    ax.plot(rounds, values, color=COLOURS[0], linewidth=1.8)
    ax.set_xlabel("round")
    ax.set_ylabel(label)
    return picture(tidy(ax), f"{label} over rounds", label)


def _values(run: StoredRun) -> Picture:
    """Observations, and the largest so far."""
    rounds = _some(run)
    y, largest, before = run.sample("y", rounds), [], -math.inf
    for first, last in zip([0, *rounds[:-1]], rounds, strict=True):  # of all rounds, not only those drawn
        before = max(before, float(run.read(int(first), int(last), ["y"])["y"].max()))
        largest.append(before)
    ax = new_axes()
    ax.plot(rounds, y, ".", color=COLOURS[5], markersize=4, label="y")
    ax.plot(rounds, largest, color=COLOURS[0], linewidth=1.8, label="largest so far")
    ax.set_xlabel("round")
    ax.set_ylabel("observation")
    return picture(tidy(ax), "Observations over rounds", "observations", legend=True)


def _best(run: StoredRun) -> Section:
    """The rounds of largest y."""
    y = run.read(names=["y"])["y"]
    order = np.argsort(-y, kind="stable")[:HEADS]
    points = run.read(names=["x"])["x"]
    rows = [
        (f"{t + 1:,}", ", ".join(f"{value:.6g}" for value in np.atleast_1d(points[t])), number(float(y[t])))
        for t in order
    ]
    table = Block("table", f"The {len(rows)} largest observations", ("round", "x", "y"), rows, 1)
    return Section("Observations", [table])


def _belief(run: StoredRun) -> Section:
    """Posterior and index after the run, where they can be drawn from the store alone; else why not."""
    try:
        policy = _told(run)
    except ValueError as error:  # a function in the specification, or a size that is too much
        return Section("What the policy believes", [Block("text", text=f"Not drawn. {error}")])
    whole = Trajectory(policy.finite_space, 1, run, dict(run.specification))
    drawn = []
    if isinstance(policy, UnknownPriorPolicy):
        timeline = plots.prior_timeline(policy, whole, new_axes(height=1.4 + 0.38 * len(policy.priors)))
        drawn.append(picture(timeline, "Which prior survived until when, and was played when", "priors"))
    if policy.space.dimension <= 2:
        flat = policy.space.dimension == 1
        try:
            environment = environment_of(run) if "environment" in run.specification else None
        except ValueError:
            environment = None
        dots = whole if len(run) <= TOLD else None
        axes = plots.posterior(policy, environment, dots, new_axes())
        told = "" if dots is None else "; dots: what was measured" if flat else "; dots: where it measured"
        lines = "" if environment is None or flat else "; white lines: f"
        note = f"posterior after the last round{lines}{told}"
        drawn.append(picture(axes, "Posterior after the run", note, image=not flat))
        if indexed(policy):
            axes = plots.index(policy, dots, new_axes())
            drawn.append(
                picture(
                    axes,
                    "Index of the round to come",
                    "index of the round to come; star: where it is largest",
                    image=not flat,
                )
            )
    missing = Block("text", text="Not drawn: more than two dimensions.")
    return Section(
        "What the policy believes", [_recommended(policy), Block("figures", figures=drawn) if drawn else missing]
    )


def _recommended(policy: Policy) -> Block:
    """The point that the policy would settle on."""
    best = policy.best()
    x = ", ".join(f"{value:.6g}" for value in np.ravel(best.x).tolist())
    found = facts([("x", x), ("mean there", f"{best.mean:.4g}"), ("its standard deviation", f"{best.std:.2g}")])
    return found._replace(title="It recommends")


def _told(run: StoredRun) -> Policy:
    """The policy of a run, told again what was observed."""
    if len(run) > TOLD:
        raise ValueError(f"The run has more than {TOLD:,} rounds.")
    policy = policy_of(run)
    columns = run.read()
    noise = columns.get("noise")
    policy.introduce(columns["candidate"], columns["x"])  # numbered as they were, given up evaluations among them
    for t in range(len(run)):
        own = None if noise is None or not np.isfinite(noise[t]) else float(noise[t])
        policy.tell(columns["x"][t], float(columns["y"][t]), noise=own)
    return policy


def _again(run: StoredRun, place: str) -> Section:
    command = f"scalable-bandits resume {shlex.quote(place)}"
    kind = run.attributes.get("kind")
    if run.planned is not None and len(run) >= run.planned:
        command += f" --rounds {2 * run.planned}"
    if kind == "maximize":
        known = str(run.specification.get("function", {}).get("function", "<"))
        command += f" --function {'module:name' if '<' in known else shlex.quote(known)}"  # a lambda has no name
    blocks = [Block("command", "This page", text=f"scalable-bandits report {shlex.quote(place)}")]
    if kind in ("simulate", "maximize"):
        blocks.insert(0, Block("command", "Go on with it", text=command))
    text = "import xarray\n\n" + f"run = xarray.open_zarr({place!r}, consolidated=False)  # without this package"
    python = Block("command", "In Python", text=text)
    return Section("How to go on", [*blocks, python])
