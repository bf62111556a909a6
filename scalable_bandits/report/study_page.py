"""Report of a study: regrets, their exponents and differences, priors, times, and how to run it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import plots
from scalable_bandits.analysis import differences, exponents, means
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, interval, new_axes, number, picture
from scalable_bandits.report.machine import machine
from scalable_bandits.studies import Study, builders, files

if TYPE_CHECKING:
    import xarray


def study_report(result: xarray.Dataset, place: str, record: dict[str, Any] | None) -> Report:
    """Sections of a study's page.

    Parameters
    ----------
    result
        The study.
    place
        Where it is.
    record
        Of a study's store; None for a finished dataset.
    """
    result = result.load()  # once, as everything below looks at all of it
    attributes, sizes = result.attrs, result.sizes
    runs = np.isfinite(result["regret"].isel(round=-1).values)
    done = f"{int(runs.sum()):,} of {runs.size:,} runs" + ("" if runs.all() else ": not complete yet")
    overview = facts(
        [
            ("study", attributes["study"]),
            ("source", attributes["source"]),
            ("finished", done),
            ("cases", ", ".join(map(str, result["case"].values))),
            ("policies", ", ".join(map(str, result["policy"].values))),
            ("replicates", f"{sizes['replicate']:,}"),
            ("rounds", f"{sizes['round']:,}"),
            ("seed", attributes["seed"]),
            ("regret in", attributes["unit"]),
        ]
    )
    sections = [Section("Overview", [overview])]
    if runs.any():
        sections += [_curves(result), _tables(result)]
        sections += [Section("Priors", [_panels(result, _priors)])] if "plays" in result else []
        sections += [_times(result)] if "seconds" in result else []
        sections += _published(result) if runs.all() else []
    return Report(
        str(attributes["title"]),
        str(attributes["source"]),
        [*sections, _specification(result, record), _again(result, place, record)],
    )


def _panels(result: xarray.Dataset, draw: Callable[[xarray.Dataset, str], Picture]) -> Block:
    return Block("figures", figures=[draw(result, case) for case in map(str, result["case"].values)])


def _curves(result: xarray.Dataset) -> Section:
    note = "Mean over the finished runs, with a 95 % confidence band (Student's t, round by round; of fewer than four "
    note += (
        "replicates each is a thin line instead). Log-log: dotted, a power of t fitted to the last decade of rounds, "
    )
    note += "run by run; its exponent ± standard error in the legend."

    def linear(result: xarray.Dataset, case: str) -> Picture:
        ax = plots.regret_curves(result, case, new_axes(), log=False)
        return picture(ax, f"Regret curves of {case}", case, legend=True)

    def log(result: xarray.Dataset, case: str) -> Picture:
        ax = plots.regret_curves(result, case, new_axes(), "cumulative", log=True, fit=True)
        return picture(ax, f"Regret curves of {case} on logarithmic axes", f"{case}, log-log", legend=True)

    both = [draw(result, case) for case in map(str, result["case"].values) for draw in (linear, log)]
    return Section("Regret over rounds", [Block("text", text=note), Block("figures", figures=both)])


def _tables(result: xarray.Dataset) -> Section:
    found = [
        (r.case, r.policy, str(r.runs), number(r.regret), number(r.standard_error, 2),
         interval(r.low, r.high), number(r.average, 3), number(r.last_tenth, 3), number(r.fraction, 3))
        for r in means(result)
    ]  # fmt: skip
    heads = ("case", "policy", "runs", "regret", "std. error", "95 % interval", "a round", "last tenth", "of uniform")
    pairs = [
        (r.case, r.policy, r.against, str(r.runs), number(r.difference), number(r.standard_error, 2),
         interval(r.low, r.high), f"{r.wins:.0%}")
        for r in differences(result)
    ]  # fmt: skip
    pair_heads = ("case", "policy", "against", "pairs", "difference", "std. error", "95 % interval", "wins")
    powers = [
        (r.case, r.policy, str(r.runs), number(r.exponent, 3), number(r.standard_error, 2)) for r in exponents(result)
    ]
    note = "Of the same replicates, against the policy of least mean regret in each case. An interval without 0 is a "
    note += "difference beyond chance, but for the winner having been chosen by the same data."
    blocks = [Block("table", "Cumulative regret", heads, found, 7)]
    if pairs:
        blocks += [Block("text", "Paired differences", text=note), Block("table", "", pair_heads, pairs, 5)]
    power_heads = ("case", "policy", "runs", "exponent", "std. error")
    return Section("Tables", [*blocks, Block("table", "Exponents of growth", power_heads, powers, 3)])


def _priors(result: xarray.Dataset, case: str) -> Picture:
    ax = plots.prior_histogram(result, case, new_axes())
    return picture(ax, f"How often each prior was played in {case}", case, legend=True)


def _times(result: xarray.Dataset) -> Section:
    def draw(result: xarray.Dataset, case: str) -> Picture:
        axes = new_axes(height=1.4 + 0.36 * result.sizes["policy"])
        return picture(plots.time_per_round(result, case, axes), f"Time per round in {case}", case)

    return Section("Time per round", [_panels(result, draw)])


def _published(result: xarray.Dataset) -> list[Section]:
    """Beside the published numbers and the theory's rates, where the study has them."""
    study, sections = _named(result), []
    if study is not None and study.published is not None:
        rows = [
            (r.case, r.policy, r.quantity, number(r.ours, 3), number(r.standard_error, 2), r.published)
            for r in study.published(result)
        ]
        heads = ("case", "policy", "quantity", "ours", "std. error", "published")
        sections.append(Section("Beside the published", [Block("table", "", heads, rows, 3)]))
    if study is not None and study.rates is not None:
        drawn = picture(plots.growth_figure(result, study.rates), "Series beside the rates of the theory")
        sections.append(Section("Beside the theory", [Block("figures", figures=[drawn])]))
    return sections


def _specification(result: xarray.Dataset, record: dict[str, Any] | None) -> Section:
    described = dict(result.attrs) if record is None else record
    text = json.dumps(described, indent=2, default=str, ensure_ascii=False)
    played = facts(
        [("scalable_bandits", result.attrs.get("version")), ("Python", result.attrs.get("python"))]
    )._replace(title="It was started with")
    return Section(
        "Specification", [Block("command", text=text), played, machine()._replace(title="This page: made on")]
    )


def _again(result: xarray.Dataset, place: str, record: dict[str, Any] | None) -> Section:
    blocks = _numbers_again(result)
    if record is not None and not np.isfinite(result["regret"].isel(round=-1).values).all():
        blocks.append(Block("command", "What is missing", text=f"scalable-bandits resume {shlex.quote(place)}"))
    blocks.append(Block("command", "This page", text=f"scalable-bandits report {shlex.quote(place)}"))
    opened = f"import scalable_bandits as sb\n\nresult = sb.Study.open({place!r})"
    if record is None:
        opened = f"from scalable_bandits import store\n\nresult = store.load({place!r})"
    return Section("How to reproduce it", [*blocks, Block("command", "In Python", text=opened)])


def _file_of(result: xarray.Dataset) -> dict[str, Any] | None:
    """Tables of the study file."""
    found: dict[str, Any] | None = json.loads(result.attrs.get("specification", "null"))
    return found


def _named(result: xarray.Dataset) -> Study | None:
    """The named study that this is; a copy that was changed is none."""
    study, tables = Study.registry.get(str(result.attrs["study"])), _file_of(result)
    same = study is not None and tables in (None, json.loads(json.dumps(study.decisive())))
    return study if same else None


def _numbers_again(result: xarray.Dataset) -> list[Block]:
    """The command of a named study; of another one its file, and the command. None of one that is made of functions."""
    named, tables = _named(result), _file_of(result)
    cases, policies = ([str(label) for label in result[over].values] for over in ("case", "policy"))
    if named is not None:
        sizes = f"--replicates {result.sizes['replicate']}", f"--horizon {result.sizes['round']}"
        words = [f"scalable-bandits run {shlex.quote(named.name)}", *sizes, f"--seed {result.attrs['seed']}"]
        known, labels, needs = list(named.cases), None, ["--data FOLDER"] * named.needs_data
    elif tables is not None:
        words, labels = ["scalable-bandits run study.toml"], list(tables.get("policies", []))
        known, needs = list(tables.get("cases", tables.get("environments", cases))), _needs(tables)
    else:
        return []
    words += [f"--case {shlex.quote(case)}" for case in cases] if cases != known else []
    words += [f"--policy {shlex.quote(policy)}" for policy in policies] if policies != labels else []
    again = Block("command", "The same numbers again", text=" \\\n  ".join([*words, *needs]))
    if named is not None or tables is None:
        return [again]
    told = {key: result.attrs[key] for key in ("seed", "title", "source") if result.attrs[key] != ""}
    whole = {**tables, "horizon": result.sizes["round"], "replicates": result.sizes["replicate"], **told}
    return [Block("command", "The study: save it as study.toml", text=files.text(whole).rstrip()), again]


def _needs(tables: dict[str, Any]) -> list[str]:
    """Options without which a study of a file does not run."""
    environments = [*tables.get("environments", {}).values(), tables.get("shared", {}).get("environments", {})]
    own = any(table.get("type") == "FunctionEnvironment" for table in environments)
    builder = builders.BUILDERS.get(tables.get("builder", ""))
    measured = builder is not None and builder.needs_data
    return ["--environment MODULE:FUNCTION"] * own + ["--data FOLDER"] * measured
