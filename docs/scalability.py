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

from scalable_bandits.report.numbers import duration_in_words, significant
from scalable_bandits.report.study_page import COSTS
from scalable_bandits.studies import Study

FOLDER = Path(__file__).parent
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


def costs(record: dict[str, Any]) -> list[str]:
    """Time of a round, memory and messages."""
    rows = record["costs"]
    known = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    several = len({row["case"] for row in rows}) > 1
    regret = {(row["case"], row["policy"], row["horizon"]): row["regret"] for row in record["table"]}
    found = []
    for row in rows:
        total = regret.get((row["case"], row["policy"], record["horizon"]))
        cells = ["" if row.get(name) is None else COSTS[name][1](row[name]) for name in known]
        shown = [] if not several else ["" if total is None else significant(total, 4)]
        found.append([*[row["case"]] * several, row["policy"], *cells, *shown])
    heads = [*["case"] * several, "policy", *(COSTS[name][0] for name in known), *["regret"] * several]
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
    words = _wrapped(record["command"])
    size = f"{record['replicates']} replicates"
    lines = [f"## {study.title}", "", "```sh", words, "```", "", f"{size}, version {record['version']}.", ""]
    lines += [f"![{name}]({name}.png)", "", *exponents(record, study), "", *costs(record), ""]
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
    order = sorted(names, key=lambda name: ("horizon", "arms", "dimension", "memory", "workers").index(name[12:]))
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
