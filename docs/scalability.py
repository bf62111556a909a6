"""Write `docs/scalability.md` from `docs/scalability.head.md` and the results of the scalability studies.

A result is what ``scalable-bandits run NAME --json`` prints, in `docs/results/`. ``python -m docs.scalability`` writes
the page; ``--check`` says whether it is as it should be.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from pathlib import Path
from typing import Any

from scalable_bandits.report.study_page import COSTS
from scalable_bandits.runs.readable import duration_in_words, significant
from scalable_bandits.studies import Study

FOLDER = Path(__file__).parent
ORDER = ("horizon", "arms", "dimension", "structure", "memory", "workers")
RANDOM, NO_BETTER = "random", 0.98
PREDICTIONS = "predictions.json"
HEAD, PAGE = FOLDER / "scalability.head.md", FOLDER / "scalability.md"
SHOWN = ("round_seconds", "round_seconds_99", "peak_memory", "peak_memory_of_workers", "messages", "bytes_sent")


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    return ["| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows)]


def exponents(record: dict[str, Any], study: Study) -> list[str]:
    """Fitted exponents with their intervals, beside those of the theory."""
    rows = []
    for row in record["exponents"]:
        expected = study.expected.get(row["over"], {}).get(row["quantity"], {}).get(row["policy"])
        low, high = row["low"], row["high"]
        interval = "" if low is None or math.isnan(low) else f" [{low:.2f}, {high:.2f}]"
        rows.append([
            f"{row['quantity'].replace('_', ' ')} over {row['over']}", row["case"], row["policy"],
            f"{row['first']:,.6g} to {row['last']:,.6g}", f"{row['exponent']:.2f}{interval}",
            "" if expected is None else significant(expected, 3),
        ])  # fmt: skip
    heads = ["quantity", "case", "policy", "range", "exponent", "expected"]
    if len({row[1] for row in rows}) == 1:
        heads.pop(1)
        rows = [[*row[:1], *row[2:]] for row in rows]
    return table(heads, rows)


def beside_random(record: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Regret as a share of random play's, by case and policy; nothing where random play is not in the study."""
    total = {(row["case"], row["policy"]): row["regret"] for row in record["table"] if _whole(record, row)}
    return {key: value / total[key[0], RANDOM] for key, value in total.items() if (key[0], RANDOM) in total}


def _whole(record: dict[str, Any], row: dict[str, Any]) -> bool:
    return bool(row["horizon"] == record["horizon"] and row["regret"] is not None)


def in_rounds(record: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Exponents a of regret R(T) = c T^a by case and policy, from the last tenth of the rounds.

    The mean regret of these is l = (R(T) - R(.9 T)) / (.1 T), so that a = log(1 - .1 T l / R(T)) / log(.9).
    """
    found = {}
    for row in record["table"]:
        if _whole(record, row) and row["regret"] > 0.0 and row["last_tenth"] is not None:
            share = 0.1 * record["horizon"] * row["last_tenth"] / row["regret"]
            found[row["case"], row["policy"]] = math.log(max(1.0 - share, 1e-9)) / math.log(0.9)
    return found


def verdicts(record: dict[str, Any]) -> str:
    """Where each policy stops being better than random play: from which case on its regret is within `NO_BETTER`."""
    shares, found = beside_random(record), []
    families: dict[str, list[str]] = {}
    for case in dict.fromkeys(row["case"] for row in record["table"]):
        families.setdefault(case.partition(", ")[0], []).append(case)
    for family, cases in families.items():
        for policy in dict.fromkeys(policy for _, policy in shares if policy != RANDOM):
            known = [case for case in cases if (case, policy) in shares]
            better = [case for case in known if shares[case, policy] < NO_BETTER]
            if len(known) < 2 or better[-1:] == known[-1:]:
                continue
            since = known[known.index(better[-1]) + 1 if better else 0].partition(", ")[2]
            found.append(f"{policy} from {since} on" + (f" ({family})" if len(families) > 1 else ""))
    return f"No better than random play (regret at least {NO_BETTER:.0%} of its): {'; '.join(found)}." if found else ""


def costs(record: dict[str, Any]) -> list[str]:
    """Time of a round, memory and messages, and the regret beside random play's."""
    rows = record["costs"]
    known = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    several = len({row["case"] for row in rows}) > 1
    regret = {(row["case"], row["policy"], row["horizon"]): row["regret"] for row in record["table"]}
    shares, powers, found = beside_random(record), in_rounds(record), []
    several_shown = several and bool(shares)
    for row in rows:
        key = row["case"], row["policy"]
        total = regret.get((row["case"], row["policy"], record["horizon"]))
        cells = ["" if row.get(name) is None else COSTS[name][1](row[name]) for name in known]
        shown = [] if not several else ["" if total is None else significant(total, 4)]
        if several_shown:
            both = (shares.get(key), powers.get(key))
            shown += ["" if number is None else f"{round(number, 2) + 0.0:.2f}" for number in both]  # never "-0.00"
        found.append([*[row["case"]] * several, row["policy"], *cells, *shown])
    heads = [*["case"] * several, "policy", *(COSTS[name][0] for name in known), *["regret"] * several]
    heads += ["regret / random", "exponent in T"] if several_shown else []
    return table(heads, found)


def _wrapped(command: str) -> str:
    """A command on lines that are not long."""
    return " \\\n  ".join(textwrap.wrap(command, 100, break_on_hyphens=False))


def section(name: str, folder: Path) -> list[str]:
    """One study: its title, command, figure and tables; nothing without a result."""
    file = folder / f"{name}.json"
    if not file.is_file():
        return []
    record, study = json.loads(file.read_text()), Study.load(name)
    words = _wrapped(record.get("command", f"scalable-bandits run {name}"))
    size = f"{record['replicates']} replicates"
    lines = [f"## {study.title}", "", "```sh", words, "```", "", f"{size}, version {record['version']}.", ""]
    lines += [f"![{name}]({name}.png)", "", *exponents(record, study), "", *costs(record), ""]
    verdict = verdicts(record)
    lines += [*textwrap.wrap(verdict, 120), ""] if verdict else []
    return lines


def predictions(folder: Path) -> list[str]:
    """What `plan` predicts beside what was measured; nothing without a result."""
    file = folder / PREDICTIONS
    if not file.is_file():
        return []
    record = json.loads(file.read_text())
    rows = [
        [
            row["kind"], row["words"], str(row["workers"]), duration_in_words(row["predicted"]),
            duration_in_words(row["measured"]), f"{row['ratio']:.2f}",
        ]
        for row in record["rows"]
    ]  # fmt: skip
    near = sum(0.75 <= row["ratio"] <= 1.25 for row in record["rows"])
    text = (
        "An engine of each kind: a study of four runs in one process and on two worker processes of a machine with two "
        "cores, its start and end included; and a round of policies whose shards are on one worker and on two, both "
        "predicted from a pilot on one. Runs differ from each other by more than pilots do: the cells that "
        f"pi-GP-UCB makes are others for every function. {near} of {len(rows)} are within 25 %."
    )
    heads = ["engine", "policy", "processes", "predicted", "measured", "ratio"]
    lines = ["## Predicted and measured", "", "```sh", "python -m benchmarks.predictions", "```", ""]
    return [*lines, *textwrap.wrap(text, 120), "", *table(heads, rows), ""]


def page(folder: Path = FOLDER / "results") -> str:
    """The page's text."""
    names = sorted(name for name in Study.registry if name.startswith("scalability-"))
    order = sorted(names, key=lambda name: ORDER.index(name[12:]))
    lines = [line for name in order for line in section(name, folder)] + predictions(folder)
    return "\n".join([HEAD.read_text(), *lines]).rstrip() + "\n"


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m docs.scalability", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; code 1 if the page is another one")
    if parser.parse_args().check:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
