"""The second part of `docs/figures.md`: what comes out on data and functions that others published.

Results of policies are what ``scalable-bandits run NAME --json`` prints (``docs/results/NAME.json``). Results of
tuners, this package's and others', are lines of ``docs/results/measured/NAME/TUNER.jsonl``, written by ``python -m
benchmarks tuners --study NAME``. Results of tasks (``docs/results/NAME.tasks.json``) are written by ``python -m
docs.measured STORE ...`` from stores of a study whose replicates are different tasks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks.tuners import lines as tuner_lines
from benchmarks.tuners import peers, standings
from benchmarks.tuners.report import markdown
from docs.pictures import LOOKS, Picture, bars, of_regret, seen, wrapped
from scalable_bandits import analysis
from scalable_bandits.runs.readable import significant
from scalable_bandits.studies import Study, transfer

RESULTS = Path(__file__).parent / "results"
TUNERS = ("hpolib-short", "nasbench201", "chemistry", "bbob", "bbob-noisy")
BESIDE = ("bbob-six", "bbob-long", "bbob-20-40", "bbob-mixint", "bbob-largescale")  # of tuners, not the package's
POLICIES = ("hpolib-long", "movielens-new-user", "contextual", "traffic-drift", "intel-drift")
TASKS = ("hpob-transfer",)
NEWER = ("frontier", "frontier-drift", "frontier-tables")
COLD = "GP-EI, cold"  # policy with which those that know other tasks are compared
TUNED_ON = ("rpart 4796", "glmnet 5970")  # search spaces that were looked at when widths and variances were chosen
VERDICTS = {
    "frontier": "PIMS has no width or other number to be set, and is level with GP-UCB's beta_t over 5, the best "
    "confidence bound here, at every horizon; in the longest runs it also varies least from function to function on "
    "draws from the prior. PS-EI and IRGP-UCB come next, far ahead of the widths that are proven for functions of an "
    "RKHS. ET-GP-UCB plays as GP-UCB does, since nothing changes. GP-EI is best in a hundred rounds and then stays at "
    "a local maximum in some runs, hence its errors; with xi = R it never stops exploring. LB-GP-UCB pays for not "
    "knowing the lengthscale: it is ahead of IGP-UCB in a hundred rounds, about level in a thousand, and has two and "
    "a half to three times its regret in the longest runs. IGP-UCB with four times the true lengthscale, for which "
    "nothing is proven, is ahead of IGP-UCB with the true one, since it explores less; on draws from the prior it "
    "stays at a local maximum in some runs.",
    "frontier-drift": "Resets that the observations cause are best when the function jumps, without a rate or a budget "
    "to be known, and cost nothing when it does not change. When it moves slowly they are level with weights "
    "(WGP-UCB) whose rate was given. The windows and restarts of the theory forget too fast, and policies that do not "
    "forget lose after the first change, the newer ones, too.",
    "frontier-tables": "With a plain prior PIMS and PS-EI are as good as GP-UCB with beta_t over 5. GP-EI is ahead in "
    "a hundred rounds; in three hundred it has stayed at a lesser setting in some runs, as its errors say, and so has "
    "IGP-UCB with B = 1. IRGP-UCB and GP-TS explore for longer than that, and LB-GP-UCB, which tries shorter "
    "lengthscales, for longest.",
    "hpolib-short": "An evaluation returns one of four measured losses; compared are averages of the four. "
    "Since repeats count, the lead over TPE on parkinsons_telemonitoring after 500 evaluations is smaller (it was "
    "17-3-0).",
    "nasbench201": "An evaluation returns one of two or three measured accuracies; compared are their averages.",
    "chemistry": "The settings are those that were measured. Peers choose in the box around them and are given the "
    "nearest one, since they have no spaces of listed settings. Of this package the runs of alkox, colors_n9 and "
    "fullerenes are newer than the others: before repeats counted, it lost to random search there (0-13-7, 0-3-17 and "
    "1-8-11 at 500 evaluations) because it asked for a few settings over and over.",
    "bbob": "Without noise, instances from 5 on of each function. On functions 2, 6, 10, 14, 17 and 21 decisions about "
    "this package's tuner were made.",
    "bbob-noisy": "Severe noise that grows with the distance from the optimum, or has outliers. The three functions "
    "with many minima (17, 19, 21) have twenty seeds, the others three. Where noise has a heavy tail (uniform) neither "
    "this tuner nor TPE is ahead of random search on these three by more than chance.",
    "bbob-six": "Few evaluations, beside tuners that people name most, of which some take seconds an evaluation and "
    "have played few runs. Instances from 31 on of six functions that were not looked at while this tuner was "
    "made. NGOpt begins in the middle, and is ahead at first.",
    "bbob-long": "Instances from 31 on. Functions 1, 4, 5, 8, 11, 12, 15, 20 and 23 were not looked at while this "
    "package's tuner was made. CMA-ES begins again with twice the population where it ends. It is ahead in ten "
    "dimensions, after a thousand evaluations, on functions with many minima (4, 18, 20), whose order its first, wide "
    "steps see, and on a sharp ridge (13).",
    "bbob-20-40": "No function was looked at in these dimensions while this package's tuner was made.",
    "bbob-mixint": "Four fifths of the coordinates are integers with 2, 4, 8 and 16 values. CMA-ES rounds them.",
    "bbob-largescale": "Tuners know the bounds alone.",
    "hpolib-long": "Policies that know how alike settings are against policies that learn each arm by itself. UCB1 and "
    "successive rejects play each arm once before anything else, which takes more rounds than there are. The prior of "
    "Thompson sampling decides how many arms it looks at. Seconds and memory are of a worker process, two at once.",
    "movielens-new-user": "Learning what a user likes from the films they were shown is better than the films' average "
    "ratings by a few per cent: there are twenty films to learn from, and tastes differ less than films.",
    "contextual": "Each round gives a user or a time. To know it halves the regret of 3,000 rounds, and more than that "
    "once each context has come some dozens of times. With both priors, playing the likelier one (MLE) or eliminating "
    "(PE-GP-UCB) finds out that the context matters, at little cost. Without it only the choice that is best on "
    "average can be learned; of the light that is what the readings before say, too. UCB1 and Thompson sampling learn "
    "each pair of context and choice by itself, of which there are too many. Kernels and divisors of beta_t were "
    "chosen on three of the twenty replicates.",
    "traffic-drift": "Forgetting does not pay here: which detectors are slow is much the same on every day, and the "
    "one that was slowest on average before is as good as any policy that learns on the way. Of those that forget "
    "ET-GP-UCB, which knows no rate, is best.",
    "intel-drift": "The time of day, as the days before have it, says most: no policy that learns on the way is ahead "
    "of it. Policies that do not forget do little better than uniform play, since they stay with what they learned in "
    "the night.",
    "hpob-transfer": "Warm starts from the tables of other data sets, each policy on every task once or twice. A ratio "
    "is the cumulative regret over that of this package's tuner that knows nothing beforehand, a mean of six "
    "or seven runs, since its first points are random. Averaging over the priors by their likelihood "
    "pays, though not on every task. So does prior elimination, with hardly any width: its optimism over "
    "the priors explores enough, while with the widths of the theory it plays nearly uniformly in so few "
    "rounds, and no prior is ever rejected for being too wide.",
}
NEWER_HEAD = """## Newer policies

Policies of the last years beside the classics: on functions drawn by this package, and on two measured tables. Widths
are those of the sources, except where the study's file says so (`scalable-bandits show NAME`).
"""
HEAD = """## On measured data

Data and functions that others published (`pip install '.[data]'`, and `pip install --no-deps bocode` for HPO-B), this
package's policies and tuners beside others', wins and losses alike. Made by the commands that stand with each table,
then `python -m docs.figures`. CPU times of tuners were measured beside other work on the same two cores.
"""


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a table in Markdown."""
    return [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)] + [""]


def replicates(count: int) -> str:
    return f"{count} replicate{'s' * (count != 1)}"


def command(text: str) -> list[str]:
    return ["```sh", text, "```", ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a reader opens by a click, on a code host and in the documentation alike."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "</details>", ""]


def shown(found: Sequence[Picture], caption: str) -> list[str]:
    """Lines of pictures and of what they have in common."""
    return [*(line for each in found for line in each.lines()), "", *wrapped(caption), ""] if found else []


def of_tuners(name: str, folder: Path) -> tuple[list[str], list[Picture]]:
    """Lines and pictures about a study that tuners play."""
    found = {tuner: tuner_lines.load(folder / "measured", name, tuner) for tuner in ("ours", *peers.PEERS)}
    kept = {tuner: each for tuner, each in found.items() if each}
    again = command(f"python -m benchmarks tuners --study {_file_of(name) if name in BESIDE else name}")
    if not kept:
        return [*again, "Not kept here.", ""], []
    tables = [line for sheet in standings.sheets(name, kept, "ours") for line in (markdown(sheet), "")]
    drawn = _of_ranks(name, kept, [tuner_lines.path_of(folder / "measured", name, tuner) for tuner in kept])
    caption = (
        "Mean rank ± standard error over all problems and seeds that the tuners of a picture have in common, 1 the "
        "best; *ours* is `GPEI(space)`, as `sb.minimize` uses it. Left: tuners with all runs; right: with those whose "
        "time allowed fewer runs or evaluations."
    )
    caption = caption if len(drawn) > 1 else caption.partition(" Left:")[0] + "."
    made_by = ", ".join(sorted({line["version"] for runs in kept.values() for line in runs.values()}))
    words = shown(drawn, f"{caption} Versions: {made_by}.")
    marks = standings.marks(kept)
    scores = []
    for tuner in kept:
        played = {mark: standings.results_at(kept[tuner], mark) for mark in marks}
        at = max(marks, key=lambda mark: (len(played[mark]), mark))  # at which the tuner has the most runs
        score = standings.score(standings.results_at(kept["ours"], at), played[at])
        scores += [f"{score} against {tuner} after {at}"] if tuner != "ours" else []
    here = wrapped(f"**Here:** wins, losses and ties of *ours* are {', '.join(scores)} evaluations.")
    return [*here, "", *words, *folded("Ranks, wins and losses, medians, CPU time", [*tables, *again])], drawn


def _file_of(name: str) -> str:
    """Return the path of a study beside the benchmarks, from the repository's folder."""
    return f"benchmarks/tuners/{name}.toml"


def _of_ranks(name: str, kept: Mapping[str, Any], files: Sequence[Path]) -> list[Picture]:
    """Return pictures of mean ranks over evaluations: of the tuners that have all runs of ours, and of all tuners."""
    every = ((mark, {tuner: standings.results_at(runs, mark) for tuner, runs in kept.items()})
             for mark in standings.marks(kept))  # fmt: skip
    at = {mark: results for mark, results in every if sum(map(bool, results.values())) > 1}
    most = max((len(results["ours"]) for results in at.values()), default=0)
    whole = [tuner for tuner in kept if all(len(results[tuner]) >= most for results in at.values())]
    groups = [whole] if set(whole) == set(kept) else [whole, list(kept)]
    return [
        _of_group(f"{name}-ranks{'-of-all' * number}", files, {
            mark: standings.ranks({tuner: results[tuner] for tuner in group if results[tuner]})
            for mark, results in at.items()
        }) for number, group in enumerate(groups)
    ]  # fmt: skip


def _of_group(name: str, files: Sequence[Path], ranks: Mapping[int, Mapping[str, list[float]]]) -> Picture:
    """Return a picture of mean ranks, by number of evaluations and tuner."""
    means = {mark: {tuner: analysis.spread(np.array(each)) for tuner, each in by.items()} for mark, by in ranks.items()}
    runs = {mark: len(next(iter(by.values()))) for mark, by in ranks.items()}

    def draw(ax: Axes) -> None:
        joined = len(set(runs.values())) == 1  # the same runs at all marks
        curves = joined and len(means) > 2
        for number, tuner in enumerate(dict.fromkeys(name for by in means.values() for name in by)):
            known = [mark for mark in means if tuner in means[mark]]
            x = [list(means).index(mark) + (0.0 if curves else 0.05 * number) for mark in known]
            y, error = ([getattr(means[mark][tuner], key) for mark in known] for key in ("mean", "standard_error"))
            if curves:
                ax.plot(x, y, label=tuner, **LOOKS[tuner])
                low, high = np.array(y) - error, np.array(y) + error
                ax.fill_between(x, low, high, color=LOOKS[tuner]["color"], alpha=0.15, linewidth=0)
                continue
            ax.errorbar(x, y, error, fmt="o", markersize=4, capsize=2.5, label=tuner,
                        **{**LOOKS[tuner], **({} if joined else {"linestyle": ""})})  # fmt: skip
        if curves:
            ax.set_xticks(range(len(means)), [f"{mark:,}" for mark in means])
            ax.set_xlabel(f"evaluations ({max(runs.values())} runs)")
        else:
            places = [place + 0.1 for place in range(len(means))]
            ax.set_xticks(places, [f"{mark}\n({runs[mark]} runs)" for mark in means])
            ax.set_xlim(-0.4, len(means) - 0.4)
            ax.set_xlabel("evaluations")
        ax.invert_yaxis()
        ax.set_ylabel("mean rank")
        ax.grid(axis="y", alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)

    words = [
        f"after {mark} evaluations ({runs[mark]} runs) "
        + ", ".join(f"{tuner} {each.mean:.2f}" for tuner, each in sorted(by.items(), key=lambda pair: pair[1].mean))
        for mark, by in means.items()
    ]
    return Picture(name, f"Mean ranks of tuners, 1 the best: {'; '.join(words)}.", files, draw, 2.2)


def of_policies(name: str, folder: Path) -> tuple[list[str], list[Picture]]:
    """Lines and pictures about a study that policies play."""
    path = folder / f"{name}.json"
    words = command(f"scalable-bandits run {name} --json > docs/results/{name}.json")
    if not path.is_file():
        return [*words, "Not kept here.", ""], []
    record = json.loads(path.read_text())
    planned, costs = record["planned"]["replicates"], record.get("costs", [])
    horizons = np.unique([row["horizon"] for row in record["table"]]).tolist()
    *some, last = (f"{each:,}" for each in horizons)
    rounds = f"{', '.join(some)} and {last}" if some else last
    size = f"{replicates(record['replicates'])} of {rounds} rounds, seed {record['seed']}, version {record['version']}"
    size += f" (the study has {planned} replicates)." if planned != record["replicates"] else "."
    drawn = of_regret(record, [path])
    of_run = {(row["case"], row["policy"]): row for row in costs}
    rows = []
    for row in record["table"]:
        error = "" if row["standard_error"] is None else f" ± {significant(row['standard_error'], 2)}"
        cost = of_run.get((row["case"], row["policy"]))
        more = [f"{cost['seconds']:.0f}", f"{cost['peak_memory'] / 1e6:.0f}"] if cost else []
        regret = f"{significant(row['regret'], 4)}{error}"
        case = row["case"] + (f", T = {row['horizon']:,}" if len(horizons) > 1 else "")
        rows.append([case, row["policy"], regret, significant(row["fraction"], 3), *more])
    header = ["case", "policy", f"cumulative regret ({record['unit']})", "of uniform play's"]
    tables = table(header + (["seconds a run", "MB"] if costs else []), rows)
    return [*shown(drawn, f"{seen(record)} {size}"), *folded("Numbers", [*tables, *words])], drawn


def of_tasks(name: str, folder: Path) -> tuple[list[str], list[Picture]]:
    """Lines and pictures about a study whose replicates are different tasks."""
    path = folder / f"{name}.tasks.json"
    words = command(
        f"scalable-bandits run {name} --store tasks\n"
        f"scalable-bandits run {name} --store cold --policy '{COLD}' --policy random --replicates 42\n"
        "python -m docs.measured tasks cold"
    )
    if not path.is_file():
        return [*words, "Not kept here.", ""], []
    record, tables = json.loads(path.read_text()), []
    for title, chosen in (("reported on", False), ("looked at before", True)):
        cases = [case for case in record["regret"] if any(case.endswith(space) for space in TUNED_ON) is chosen]
        cold = _of_tasks(record, cases, COLD)
        rows = []
        for policy in record["policies"]:
            ratios = _of_tasks(record, cases, policy) / cold
            counts = int((ratios < 1.0).sum()), int((ratios > 1.0).sum()), int((ratios > 1.1).sum())
            middle = [f"{ratios.mean():.2f}", f"{np.median(ratios):.2f}", f"{ratios.max():.2f}"]
            total = f"{_of_tasks(record, cases, policy).sum() / cold.sum():.2f}"
            rows.append([policy, total, *middle, *counts])
        rows.sort(key=lambda row: float(row[1]))
        what = f"*{len(cold)} tasks of {len(cases)} search spaces, {title}; {record['rounds']} rounds*"
        header = ["policy", "sum of regrets, ratio", "mean ratio", "median", "largest", "better", "worse", "above 1.1"]
        tables += [what, "", *table(header, rows)]
    rows = []
    for case in record["regret"]:
        cold = _of_tasks(record, [case], COLD)
        ratios = [f"{(_of_tasks(record, [case], policy) / cold).mean():.2f}" for policy in record["policies"]]
        rows.append([case.rpartition("= ")[2], len(cold), *ratios])
    tables += ["*Mean ratio by search space*", "", *table(["space", "tasks", *record["policies"]], rows)]
    drawn = [_of_ratios(record, path)]
    caption = (
        "Mean ratio over the tasks that are reported on, with its 95 % confidence interval (Student's t); below 1: "
    )
    caption += f"better than a start from nothing. Version {record['version']}."
    return [*shown(drawn, caption), *folded("Ratios by policy and by search space", [*tables, *words])], drawn


def _of_ratios(record: dict[str, Any], path: Path) -> Picture:
    """Return a picture of the mean ratio of each policy's regret to that of a start from nothing."""
    cases = [case for case in record["regret"] if not any(case.endswith(space) for space in TUNED_ON)]
    cold = _of_tasks(record, cases, COLD)
    found = {policy: analysis.spread(_of_tasks(record, cases, policy) / cold) for policy in record["policies"]}
    found = dict(sorted(found.items(), key=lambda pair: float(pair[1].mean)))

    def draw(ax: Axes) -> None:
        bars(
            ax, list(found), [each.mean for each in found.values()], [each.high - each.mean for each in found.values()]
        )
        ax.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
        ax.set_xlabel("regret, ratio to that of GP-EI from nothing")

    words = ", ".join(f"{policy} {each.mean:.2f}" for policy, each in found.items())
    return Picture(
        f"{record['study']}-ratios", f"Mean ratio of regrets on {len(cold)} tasks: {words}.", [path], draw, 2.0
    )


def _of_tasks(record: dict[str, Any], cases: Sequence[str], policy: str) -> np.ndarray:
    """Return the cumulative regrets of a policy in the tasks of some cases."""
    return np.array([regret for case in cases for regret in record["regret"][case][policy]])


def keep_tasks(stores: Sequence[Path], folder: Path = RESULTS) -> Path:
    """Write the cumulative regret of each policy in each task, a mean over its replicates, from stores of a study.

    A policy's results are those of the last store that has it. Returns the file.
    """
    results = [Study.open(store).load() for store in stores]
    first = results[0]
    source = {policy: result for result in results for policy in result["policy"].values.tolist()}
    regret: dict[str, dict[str, list[float]]] = {}
    for case in first["case"].values.tolist():
        count = transfer.tasks(case.rpartition("= ")[2])
        regret[case] = {}
        for policy, result in source.items():
            total = result["regret"].sel(case=case, policy=policy).sum("round").values
            regret[case][policy] = [float(total[task::count].mean()) for task in range(count)]
    record = {
        "study": first.attrs["study"], "version": first.attrs["version"], "rounds": first.sizes["round"],
        "replicates": {policy: result.sizes["replicate"] for policy, result in source.items()},
        "policies": list(source), "regret": regret,
    }  # fmt: skip
    path = folder / f"{record['study']}.tasks.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def part(folder: Path = RESULTS) -> tuple[list[str], list[Picture]]:
    """Lines and pictures of the page's parts on newer policies and on measured data."""
    found, drawn = [], []
    parts: tuple[tuple[str, Callable[[str, Path], tuple[list[str], list[Picture]]], Sequence[str]], ...] = (
        (NEWER_HEAD, of_policies, NEWER),
        (HEAD, of_tuners, TUNERS),
        ("", of_tuners, BESIDE),
        ("", of_policies, POLICIES),
        ("", of_tasks, TASKS),
    )
    for head, make, names in parts:
        found += [head] if head else []
        for name in names:
            study = Study.load(_file_of(name) if name in BESIDE else name)
            lines, pictures = make(name, folder)
            words = [*wrapped(f"{study.title} ({study.source})."), "", *wrapped(VERDICTS[name])]
            found += [f"### {name}", "", *words, "", *lines]
            drawn += pictures
    return found, drawn


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m docs.measured", description=keep_tasks.__doc__)
    parser.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    print(keep_tasks(parser.parse_args().stores))
