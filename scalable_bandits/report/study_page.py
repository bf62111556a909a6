"""Report of a study: regret curves and tables, priors, times, and the commands that reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import plots
from scalable_bandits.analysis import BEST, complete, horizons_of, measure_of, present
from scalable_bandits.report import study_tables
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, machine, new_axes, picture
from scalable_bandits.studies import Study, builders, files

if TYPE_CHECKING:
    import xarray


def study_report(result: xarray.Dataset, place: str, record: dict[str, Any] | None) -> Report:
    """Make the report of a study.

    Parameters
    ----------
    result
        Result of the study, as `Study.run` and `Study.open` return it.
    place
        Path or URL of the study's store or dataset.
    record
        Specification kept in the study's store; None if the result comes from a dataset instead.
    """
    result = result.load()  # once, because every section reads all of it
    attributes, sizes = result.attrs, result.sizes
    runs = complete(result)
    planned = present(result)[..., None] & np.ones_like(runs)
    done = f"{int(runs.sum()):,} of {int(planned.sum()):,} runs"
    overview = facts(
        [
            ("study", attributes["study"]),
            ("source", attributes["source"]),
            ("finished", done),
            ("cases", ", ".join(map(str, result["case"].values))),
            ("policies", ", ".join(map(str, result["policy"].values))),
            ("replicates", f"{sizes['replicate']:,}"),
            ("rounds", " and ".join(f"{each:,}" for each in horizons_of(result))),
            ("seed", attributes["seed"]),
            ("unit of regret", attributes["unit"]),
        ]
    )
    sections = [Section("Overview", [overview])]
    if runs.any():
        sections += [_curves(result), _tables(result)]
        sections += [Section("Priors", [_panels(result, _priors)])] if "plays" in result else []
        sections += [_times(result)] if "seconds" in result else []
        sections += _published(result) if runs[planned].all() else []
    return Report(
        str(attributes["title"]),
        str(attributes["source"]),
        [*sections, _specification(result, record), _commands(result, place, record)],
    )


def _panels(result: xarray.Dataset, draw: Callable[[xarray.Dataset, str], Picture]) -> Block:
    """Draw one figure per case."""
    return Block("figures", figures=[draw(result, case) for case in map(str, result["case"].values)])


def _curves(result: xarray.Dataset) -> Section:
    """Draw regret over rounds, twice per case: the study's measure, and cumulative regret on logarithmic axes."""
    tuning = measure_of(result) == BEST
    first = "The first figure of a case shows the smallest regret of a point played so far. " if tuning else ""
    note = (
        f"{first}Mean over the finished runs, with a 95 % confidence band (Student's t, round by round). Where a "
        "policy has fewer than four runs, each run is a thin line instead. On the log-log figures a dotted line is a "
        "power of t fitted to the last decade of rounds; the legend gives its exponent [95 % interval, bootstrap over "
        "runs]."
    )

    def linear(result: xarray.Dataset, case: str) -> Picture:
        if tuning:
            ax = plots.regret_curves(result, case, new_axes())
            return picture(ax, f"Regret of the best point in {case}", f"{case}, best point", legend=True)
        ax = plots.regret_curves(result, case, new_axes(), log=False)
        return picture(ax, f"Regret curves of {case}", case, legend=True)

    def log(result: xarray.Dataset, case: str) -> Picture:
        ax = plots.regret_curves(result, case, new_axes(), "cumulative", log=True, fit=True)
        return picture(ax, f"Regret curves of {case} on logarithmic axes", f"{case}, log-log", legend=True)

    both = [draw(result, case) for case in map(str, result["case"].values) for draw in (linear, log)]
    return Section("Regret over rounds", [Block("text", text=note), Block("figures", figures=both)])


def _tables(result: xarray.Dataset) -> Section:
    """Tabulate mean regret, paired differences, fitted exponents, and what the runs took."""
    study = _named_study(result)
    blocks = [study_tables.regrets_table(result)]
    blocks += [study_tables.ranks_table(result)] if measure_of(result) == BEST else []
    blocks += [study_tables.differences_table(result)]
    blocks += [study_tables.exponents_table(result, {} if study is None else study.expected)]
    blocks += [study_tables.costs_table(result)] if "seconds" in result else []
    return Section("Tables", [block for block in blocks if block.rows])


def _priors(result: xarray.Dataset, case: str) -> Picture:
    """Draw how often each prior was used."""
    ax = plots.prior_histogram(result, case, new_axes())
    return picture(ax, f"Share of the rounds in which each policy used each prior in {case}", case, legend=True)


def _times(result: xarray.Dataset) -> Section:
    """Draw the time per round of each policy."""

    def draw(result: xarray.Dataset, case: str) -> Picture:
        axes = new_axes(height=1.4 + 0.36 * result.sizes["policy"])
        return picture(plots.time_per_round(result, case, axes), f"Time per round in {case}", case)

    return Section("Time per round", [_panels(result, draw)])


def _published(result: xarray.Dataset) -> list[Section]:
    """Compare with published numbers and with the rates of the theory, where the study has them."""
    study, sections = _named_study(result), []
    if study is not None and study.published is not None:
        sections.append(Section("Published results", [study_tables.published_table(study, result)]))
    if study is not None and study.rates is not None:
        drawn = picture(plots.growth_figure(result, study.rates), "Measured growth and the rates of the theory")
        sections.append(Section("Rates of the theory", [Block("figures", figures=[drawn])]))
    return sections


def _specification(result: xarray.Dataset, record: dict[str, Any] | None) -> Section:
    """Show the specification, the versions that started the study, and the machine that made this page."""
    described = dict(result.attrs) if record is None else record
    text = json.dumps(described, indent=2, default=str, ensure_ascii=False)
    versions = [("scalable_bandits", result.attrs.get("version")), ("Python", result.attrs.get("python"))]
    blocks = [Block("command", text=text), facts(versions, "Versions that started the study"), machine()]
    return Section("Specification", blocks)


def _commands(result: xarray.Dataset, place: str, record: dict[str, Any] | None) -> Section:
    """List the commands that run the study again, complete it, make the page again and open the data."""
    blocks = _run_again(result)
    if record is not None and (present(result)[..., None] & ~complete(result)).any():
        blocks.append(Block("command", "Run what is missing", text=f"scalable-bandits resume {shlex.quote(place)}"))
    blocks.append(Block("command", "Make this page again", text=f"scalable-bandits report {shlex.quote(place)}"))
    opened = f"import scalable_bandits as sb\n\nresult = sb.Study.open({place!r})"
    if record is None:
        opened = f"from scalable_bandits import store\n\nresult = store.load({place!r})"
    return Section("How to reproduce it", [*blocks, Block("command", "Open the data in Python", text=opened)])


def _file_tables(result: xarray.Dataset) -> dict[str, Any] | None:
    """Return the tables of the study file; None for a study made of functions."""
    found: dict[str, Any] | None = json.loads(result.attrs.get("specification", "null"))
    return found


def _named_study(result: xarray.Dataset) -> Study | None:
    """Return the named study that made the result; None for any other study, also a changed copy of a named one."""
    study, tables = Study.registry.get(str(result.attrs["study"])), _file_tables(result)
    same = study is not None and tables in (None, json.loads(json.dumps(study.decisive())))
    return study if same else None


def _run_again(result: xarray.Dataset) -> list[Block]:
    """Show the command that gives the same numbers and, unless the study is a named one, the study file for it.

    A study made of functions has neither.
    """
    named, tables = _named_study(result), _file_tables(result)
    cases, policies = (_names(result, over) for over in ("case", "policy"))
    horizons = horizons_of(result)
    if named is not None:
        sizes = f"--replicates {result.sizes['replicate']}", *(f"--horizon {each}" for each in horizons)
        words = [f"scalable-bandits run {shlex.quote(named.name)}", *sizes, f"--seed {result.attrs['seed']}"]
        known, labels, needed = list(named.cases), None, ["--data FOLDER"] * named.needs_data
    elif tables is not None:
        words, labels = ["scalable-bandits run study.toml"], list(tables.get("policies", []))
        known, needed = list(tables.get("cases", tables.get("environments", cases))), _needed_options(tables)
    else:
        return []
    words += [f"--case {shlex.quote(case)}" for case in cases] if cases != known else []
    words += [f"--policy {shlex.quote(policy)}" for policy in policies] if policies != labels else []
    again = Block("command", "Run the study again, with the same numbers", text=" \\\n  ".join([*words, *needed]))
    if named is not None or tables is None:
        return [again]
    given = {key: result.attrs[key] for key in ("seed", "title", "source") if result.attrs[key] != ""}
    horizon = horizons if "horizons" in result.attrs else horizons[0]
    whole = files.text({**tables, "horizon": horizon, "replicates": result.sizes["replicate"], **given})
    return [Block("command", "Study file: save it as study.toml", text=whole.rstrip()), again]


def _names(result: xarray.Dataset, dimension: str) -> list[str]:
    """Return the names of the cases or policies, without the values of axes."""
    names = result.coords.get(f"{dimension}_name", result[dimension]).values
    return list(dict.fromkeys(str(name) for name in names))


def _needed_options(tables: dict[str, Any]) -> list[str]:
    """Return the options without which the study of a file does not run."""
    environments = [*tables.get("environments", {}).values(), tables.get("shared", {}).get("environments", {})]
    own = any(table.get("type") == "FunctionEnvironment" for table in environments)
    builder = builders.BUILDERS.get(tables.get("builder", ""))
    measured = builder is not None and builder.needs_data
    return ["--environment MODULE:FUNCTION"] * own + ["--data FOLDER"] * measured
