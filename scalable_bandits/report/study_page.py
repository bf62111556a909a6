"""Report of a study: regret curves and tables, priors, times, and the commands that reproduce it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import analysis, plots
from scalable_bandits.analysis import BEST, complete, horizons_of, measure_of, present
from scalable_bandits.plots.arrangement import without_pyplot
from scalable_bandits.report.blocks import Block, Picture, Report, Section, facts, new_axes, picture, provenance, table
from scalable_bandits.report.numbers import MISSING, bytes_in_words, estimate, interval, number
from scalable_bandits.runs.readable import duration_in_words
from scalable_bandits.studies import Study, builders, files

if TYPE_CHECKING:
    import xarray

UNIFORM = "of uniform: cumulative regret as a fraction of uniform play's."
COSTS: dict[str, tuple[str, Callable[[float], str]]] = {  # headings and formats of what a timed study measures
    "round_seconds": ("a round", duration_in_words), "round_seconds_90": ("90 %", duration_in_words),
    "round_seconds_99": ("99 %", duration_in_words), "seconds": ("run", duration_in_words),
    "warm_up_seconds": ("warm-up", duration_in_words),
    "peak_memory": ("memory", bytes_in_words), "peak_memory_of_workers": ("of workers", bytes_in_words),
    "messages": ("messages", "{:,.0f}".format), "bytes_sent": ("sent", bytes_in_words),
}  # fmt: skip


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
    versions = [("scalable_bandits", attributes.get("version")), ("Python", attributes.get("python"))]
    sections.append(provenance(dict(attributes) if record is None else record, versions, "study"))
    sections.append(_commands(result, place, record))
    return Report(str(attributes["title"]), str(attributes["source"]), sections)


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
    blocks = [regrets_table(result)]
    blocks += [ranks_table(result)] if measure_of(result) == BEST else []
    blocks += [differences_table(result)]
    blocks += [exponents_table(result, {} if study is None else study.expected)]
    blocks += [costs_table(result)] if "seconds" in result else []
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
        sections.append(Section("Published results", [published_table(study, result)]))
    if study is not None and study.rates is not None:
        with without_pyplot():
            axes = plots.growth_panels(result, study.rates)[0, 0]
        drawn = picture(axes, "Measured growth and the rates of the theory")
        sections.append(Section("Rates of the theory", [Block("figures", figures=[drawn])]))
    return sections


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


def regrets_table(result: xarray.Dataset) -> Block:
    """Tabulate mean regrets, the best policy first; those of the best points with mean ranks if they are the measure.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    best, unit = analysis.measure_of(result) == analysis.BEST, result.attrs["unit"]
    ranked, rows = analysis.case_ranks(result) if best else {}, []
    for r in analysis.means(result):
        row = {"case": r.case, "T": f"{r.horizon:,}", "policy": r.policy, "runs": f"{r.runs:,}"}
        regret = estimate(r.regret, r.standard_error)
        if best:
            rank = number(ranked.get((r.case, r.policy, r.horizon), math.nan), 3)
            least = estimate(r.best, r.best_standard_error, 3)
            row |= {"best regret": least, "mean rank": rank, "cumulative regret": regret}
        else:
            row |= {"regret": regret, "95 % interval": interval(r.low, r.high)}
            row |= {"per round": number(r.average, 3), "last tenth": number(r.last_tenth, 3)}
        rows.append(row | {"of uniform": number(r.fraction, 3)})
    if best:
        text = (
            f"Best regret: that of the best point played, mean over the runs ± standard error, in {unit}; mean rank: "
            f"by best regret, over the replicates of the case, equal ones share the average; {UNIFORM}"
        )
        return table("Regret of the best point", rows, 5, text)
    text = (
        f"Mean cumulative regret over the runs ± standard error, in {unit}; per round: mean regret of "
        f"one round; last tenth: the same over the last tenth of the rounds, {MISSING} if too few of them were kept; "
        f"{UNIFORM}"
    )
    return table("Cumulative regret", rows, 6, text)


def ranks_table(result: xarray.Dataset) -> Block:
    """Tabulate mean ranks over all cases, and how often each policy is better than the first.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    ranked, rows = analysis.ranks(result), []
    for horizon in analysis.horizons_of(result):
        here = [row for row in ranked if row.horizon == horizon]
        first = here[0].policy if here else ""
        compared = {row.policy: row for row in analysis.wins(result, first) if row.horizon == horizon} if here else {}
        for row in here:
            one = compared.get(row.policy)  # None for the first
            counts = ("",) * 4 if one is None else (*map(str, one[4:7]), number(one.p_value, 2))
            cells = {"T": f"{horizon:,}", "policy": row.policy, "against": "" if one is None else first}
            cells |= {"pairs": str(row.pairs), "mean rank": number(row.rank, 3)}
            rows.append(cells | dict(zip(("wins", "losses", "ties", "p"), counts, strict=True)))
    text = (
        "Mean rank by best regret over all cases and replicates (pairs); wins, losses and ties against the policy with "
        "the least mean rank; p: two-sided sign test of wins against losses, too small because that policy was "
        "selected on the same data."
    )
    return table("Ranks", rows, 6, text)


def differences_table(result: xarray.Dataset) -> Block:
    """Tabulate paired differences from the best policy.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = [
        {"case": r.case, "T": f"{r.horizon:,}", "policy": r.policy, "against": r.against, "pairs": str(r.runs),
         "difference": estimate(r.difference, r.standard_error), "95 % interval": interval(r.low, r.high),
         "wins": f"{r.wins:.0%}"}
        for r in analysis.differences(result)
    ]  # fmt: skip
    what = "Regret of the best point" if analysis.measure_of(result) == analysis.BEST else "Cumulative regret"
    text = (
        f"{what} minus that of the policy with the least mean regret, replicate by replicate, mean ± standard error; "
        "wins: share of the replicates with less regret than that policy. An interval that excludes 0 is evidence of a "
        "difference, but weaker than 95 %, because the best policy was selected on the same data."
    )
    return table("Paired differences", rows, 4, text)


def exponents_table(result: xarray.Dataset, expected: Mapping[str, Any]) -> Block:
    """Tabulate fitted exponents beside those of the theory.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    expected
        Exponents of the theory, as in `Study`.
    """
    rows = []
    for r in analysis.all_exponents(result):
        theory = expected.get(r.over, {}).get(r.quantity, {}).get(r.policy, math.nan)
        rows.append(
            {"growth of": f"{r.quantity} over {r.over}", "case": r.case, "policy": r.policy, "runs": str(r.runs),
             "range": f"{r.first:,.6g} to {r.last:,.6g}", "exponent": number(r.exponent, 3),
             "95 % interval": interval(r.low, r.high), "expected": "" if math.isnan(theory) else f"{theory:.3g}"}
        )  # fmt: skip
    text = (
        "Exponent b of a power law x^b fitted to the mean over the runs: over the last decade of rounds, or over an "
        "axis from its first to its last value. The interval is that of the bootstrap over runs, which is too narrow "
        "for fewer than five."
    )
    return table("Exponents of growth", rows, 5, text)


def costs_of(result: xarray.Dataset) -> list[dict[str, Any]]:
    """Return what the runs of a timed study took, means over the replicates: a row for each case and policy.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    known = [name for name in COSTS if name in result and np.isfinite(result[name].values).any()]
    mean, played, rows = result[known].mean("replicate"), analysis.present(result), []
    for c, p in zip(*np.nonzero(played), strict=True):
        numbers = {name: float(mean[name].values[c, p]) for name in known}
        labels = {"case": str(result["case"].values[c]), "policy": str(result["policy"].values[p])}
        rows.append({**labels, **{name: None if math.isnan(each) else each for name, each in numbers.items()}})
    return rows


def costs_table(result: xarray.Dataset) -> Block:
    """Tabulate what the runs of a timed study took.

    Parameters
    ----------
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = costs_of(result)
    known = [name for name in COSTS if name in rows[0]]
    written = [
        {"case": row["case"], "policy": row["policy"],
         **{COSTS[name][0]: "" if row[name] is None else COSTS[name][1](row[name]) for name in known}}
        for row in rows
    ]  # fmt: skip
    text = (
        "Means over the replicates; a round: median, and what 90 and 99 of 100 rounds do not exceed; warm-up: "
        "compiling, loading and the first rounds of a copy; memory: largest, beyond what was there before."
    )
    return table("Time, memory and messages", written, len(known), text)


def published_table(study: Study, result: xarray.Dataset) -> Block:
    """Tabulate our numbers beside the published ones.

    Parameters
    ----------
    study
        Study that has published numbers.
    result
        Result of `Study.run` or `Study.open`.
    """
    rows = [] if study.published is None else study.published(result)
    cells = [
        {"case": r.case, "policy": r.policy, "quantity": r.quantity, "ours": estimate(r.ours, r.standard_error, 3),
         "published": r.published}
        for r in rows
    ]  # fmt: skip
    return table("Compared with the published results", cells, 2)
