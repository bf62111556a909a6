"""Write `docs/barriers.md` from the runs in `docs/results/barriers.json`.

``python -m docs.barriers --play`` plays the runs that are missing there (`benchmarks/barriers.py`) and writes the page;
``python -m docs.barriers`` writes the page, ``--check`` says whether it is as it should be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

from benchmarks import barriers as measured
from docs.scalability import table
from scalable_bandits.runs.readable import duration_in_words

FOLDER = Path(__file__).parent
PAGE = FOLDER / "barriers.md"
SHOWN = (0.01, 1.0)  # seconds of an evaluation in the table of the cost model
ALIKE = {"pi-GP-UCB": "IGP-UCB", "DUETS": "PhasedElimination"}  # policies with the same batches: one row of the model
Runs = dict[tuple[str, int], list[dict[str, Any]]]


class Results:
    """Numbers of the page.

    Parameters
    ----------
    record
        Contents of `docs/results/barriers.json`.
    """

    def __init__(self, record: dict[str, Any]):
        self.version, self.on_workers = record["version"], record["on_workers"]
        self.runs: Runs = {}
        for row in sorted(record["runs"], key=lambda row: int(row["seed"])):
            self.runs.setdefault((row["policy"], row["horizon"]), []).append(row)

    def fractions(self, name: str, horizon: int) -> list[float]:
        """Regrets of the seeds as fractions of uniform play's."""
        return [row["regret"] / row["uniform"] for row in self.runs.get((name, horizon), [])]

    def regret(self, name: str, horizon: int) -> str:
        """Mean fraction, with its standard error if there are several seeds."""
        found = self.fractions(name, horizon)
        error = f" ± {statistics.stdev(found) / len(found) ** 0.5:.3f}" if len(found) > 1 else ""
        return f"{statistics.mean(found):.3f}{error}" if found else ""

    def of(self, name: str, horizon: int, quantity: str) -> float:
        """Median of a quantity over the seeds."""
        return statistics.median(row[quantity] for row in self.runs[name, horizon])

    def ahead(self, name: str, rival: str) -> list[int]:
        """Horizons at which a policy has less regret than another one."""
        both = [h for h in measured.HORIZONS if (name, h) in self.runs and (rival, h) in self.runs]
        return [h for h in both if statistics.mean(self.fractions(name, h)) < statistics.mean(self.fractions(rival, h))]

    def wins(self, name: str, rival: str, horizon: int) -> str:
        """On how many functions a policy has less regret than another one."""
        pairs = list(zip(self.fractions(name, horizon), self.fractions(rival, horizon), strict=True))
        return f"{sum(own < other for own, other in pairs)} of {len(pairs)}"

    def task(self, parallel: int) -> float:
        """Seconds of a task that costs nothing, with so many in flight: the least, since other work only adds to it."""
        rows = [row for row in self.on_workers if row["policy"] == "random" and row["parallel"] == parallel]
        return float(min(row["seconds"] / row["horizon"] for row in rows))

    def model(self, name: str, horizon: int, evaluation: float, workers: int) -> float:
        """Seconds of a run with costly evaluations on so many workers, by the cost model."""
        rows = self.runs[name, horizon]
        waves = statistics.median(row["waves"][str(workers)] for row in rows)
        barriers = self.of(name, horizon, "barriers")
        tasks = barriers * self.task(1) + (horizon - barriers) * self.task(8)
        return self.of(name, horizon, "seconds") + evaluation * waves + tasks


def paragraph(text: str) -> list[str]:
    """Lines of at most 120 columns, and an empty one."""
    return [*textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), ""]


def item(text: str) -> list[str]:
    """Lines of an item of a list."""
    return textwrap.wrap(f"- {text}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def costless(results: Results) -> list[str]:
    """Table of regret, barriers, numbers sent and seconds."""
    rows = []
    for horizon in measured.HORIZONS:
        for name in measured.POLICIES:
            if (name, horizon) not in results.runs:
                rows.append([f"{horizon:,}", name, "", "", "", "", "0"])
                continue
            counts = [f"{results.of(name, horizon, quantity):,.0f}" for quantity in ("barriers", "sent")]
            seconds = duration_in_words(results.of(name, horizon, "seconds"))
            seeds = str(len(results.runs[name, horizon]))
            rows.append([f"{horizon:,}", name, results.regret(name, horizon), *counts, seconds, seeds])
    return table(["T", "policy", "regret, of uniform", "barriers", "numbers sent", "time", "runs"], rows)


def has_model(row: dict[str, Any]) -> bool:
    """Whether the cost model says how long a run on workers takes: its policy waits for the values of its batches."""
    return bool(row["policy"] != "IGP-UCB" or row["parallel"] == 1)


def played(results: Results) -> list[str]:
    """Table of the runs on workers."""
    rows = []
    order = ("evaluation", "policy", "parallel", "workers")
    for row in sorted(results.on_workers, key=lambda row: [row[name] for name in order]):
        if row["policy"] == "random":
            continue
        name = row["policy"]
        model = results.model(name, row["horizon"], row["evaluation"], row["workers"])
        rows.append([
            duration_in_words(row["evaluation"]), f"{row['horizon']:,}", name, str(row["workers"]),
            str(row["parallel"]), duration_in_words(row["seconds"]), duration_in_words(model) if has_model(row) else "",
            f"{row['regret'] / row['uniform']:.3f}",
        ])  # fmt: skip
    heads = ["evaluation", "T", "policy", "workers", "in flight", "played", "by the cost model", "regret, of uniform"]
    return table(heads, rows)


def modelled(results: Results) -> list[str]:
    """Table of seconds by the cost model."""
    rows = [
        [
            f"{horizon:,}", name,
            *(
                duration_in_words(results.model(name, horizon, evaluation, workers))
                for evaluation in SHOWN
                for workers in measured.WORKERS
            ),
        ]
        for horizon in measured.HORIZONS
        for name in measured.POLICIES
        if (name, horizon) in results.runs and name not in ALIKE
    ]  # fmt: skip
    heads = [f"{duration_in_words(e)}, {w}" for e in SHOWN for w in measured.WORKERS]
    return table(["T", "policy", *heads], rows)


def alike(results: Results) -> list[str]:
    """How much the policies without a row of the model differ from those with one."""
    differences = [
        abs(results.model(name, h, e, workers) / results.model(other, h, e, workers) - 1.0)
        for name, other in ALIKE.items()
        for h in measured.HORIZONS
        for e in SHOWN
        for workers in measured.WORKERS
    ]
    return paragraph(
        "`PiGPUCB` has the batches of `IGPUCB`, `DUETS` those of `PhasedElimination`: their times differ by at most "
        f"{100 * max(differences):.1f} %, and are left out."
    )


def where(horizons: list[int]) -> str:
    """Horizons in a sentence."""
    words = [f"{horizon:,}" for horizon in horizons]
    return f"at T = {' and '.join([', '.join(words[:-1]), words[-1]][len(words) == 1 :])}" if words else "at no T"


def answer(results: Results) -> list[str]:
    """Where elimination pays, and where it does not."""
    first, second, elimination = *measured.HORIZONS[:2], "PhasedElimination"
    lines = item(
        f"*Regret at T = {first:,}*: elimination has more of it than IGP-UCB. In fractions of uniform play's, "
        f"`PhasedElimination` has {results.regret(elimination, first)} and `DUETS` {results.regret('DUETS', first)}, "
        f"`IGPUCB` {results.regret('IGP-UCB', first)} and `PiGPUCB` {results.regret('pi-GP-UCB', first)}."
    )
    for name in (elimination, "DUETS"):
        lines += item(
            f"*Regret of `{name}`*: less than that of `IGPUCB` {where(results.ahead(name, 'IGP-UCB'))} "
            f"({results.regret(name, second)} and {results.regret('IGP-UCB', second)} at T = {second:,}, less on "
            f"{results.wins(name, 'IGP-UCB', second)} functions); "
            f"less than that of `PiGPUCB` {where(results.ahead(name, 'pi-GP-UCB'))}."
        )
    e, workers = SHOWN[1], measured.WORKERS[1]
    few, many = (duration_in_words(results.model(name, second, e, workers)) for name in (elimination, "IGP-UCB"))
    lines += item(
        f"*Time*: elimination begins to pay with two workers, if an evaluation takes longer than a message. {second:,} "
        f"evaluations of {duration_in_words(e)} on {workers} workers take {few}, with `IGPUCB` {many} on any number of "
        "workers, by the cost model."
    )
    return lines


NEVER = """\
- *Never*: with one worker, or evaluations that cost nothing. Both kinds then take about the same time, and `PiGPUCB`
  has the least regret at every T measured. Nor at short horizons without need of a proof: `IGPUCB` with several
  evaluations in flight is as fast as elimination below, with less regret.
"""


def times(results: Results) -> list[str]:
    """What the tables of seconds say."""
    alone, among = results.task(1), results.task(8)
    e, least, most = SHOWN[1], *measured.HORIZONS[:3:2]
    one, other = (
        duration_in_words(results.model(*what, e, measured.WORKERS[-1]))
        for what in (("IGP-UCB", least), ("PhasedElimination", most))
    )
    regrets = results.regret("IGP-UCB", least), results.regret("PhasedElimination", most)
    return [
        *item(
            f"One task of Dask takes {duration_in_words(alone)} if it is waited for alone, and "
            f"{duration_in_words(among)} as one of eight in flight: the least of {measured.REPEATS} times "
            f"{measured.TASKS:,} tasks that cost nothing, beside other work on the machine. A task has one "
            f"evaluation, so that about {1 / among:.0f} evaluations begin in a second. With evaluations of "
            f"{duration_in_words(SHOWN[0])}, more than a few workers have nothing to do; with those of "
            f"{duration_in_words(e)}, more than about {e / among:.0f}."
        ),
        *item(
            f"Workers buy evaluations. With those of {duration_in_words(e)}, `IGPUCB` makes {least:,} in {one}, "
            f"`PhasedElimination` on {measured.WORKERS[-1]} workers {most:,} in {other}, by the cost model. The regret "
            f"of one evaluation is then {regrets[0]} and {regrets[1]} of uniform play's; their sum is larger for the "
            "latter, which makes more."
        ),
    ]


def sent(results: Results) -> list[str]:
    """What DUETS sends."""
    shares = [
        f"{results.of('DUETS', h, 'sent'):,.0f} at T = {h:,}" for h in measured.HORIZONS if ("DUETS", h) in results.runs
    ]
    asked = measured.HORIZONS[1]
    shares_of_seeds = sorted(row["sent"] / asked for row in results.runs["DUETS", asked])
    return item(
        f"`DUETS` sends {', '.join(shares)}. Of {asked:,} values that is a share of "
        f"{results.of('DUETS', asked, 'sent') / asked:.3f} in the median, {shares_of_seeds[0]:.3f} to "
        f"{shares_of_seeds[-1]:.3f} over the seeds. At T = {measured.HORIZONS[0]:,} it is "
        f"{results.of('DUETS', measured.HORIZONS[0], 'sent') / measured.HORIZONS[0]:.2f}: what is sent follows the "
        "distinct points, not the rounds."
    )


def checked(results: Results) -> list[str]:
    """What the cost model says of the runs on workers."""
    rows = [row for row in results.on_workers if row["policy"] != "random" and has_model(row)]
    ratios = [
        results.model(row["policy"], row["horizon"], row["evaluation"], row["workers"]) / row["seconds"] for row in rows
    ]
    return item(
        f"Of the {len(rows)} runs on workers that have a modelled time, it is {min(ratios):.2f} to {max(ratios):.2f} "
        "times the time played: too long where Dask's messages overlap with short evaluations. The regrets of these "
        "rows are of one run each, too short for elimination."
    )


MEANING = """\
- `MiniGPUCB` keeps the regret of `IGPUCB` within a few hundredths, with a barrier for each choice: at long horizons
  most of what batches save is saved by it, too, as long as workers are few.
"""


HEAD = """# Barriers

A *barrier* is a place of a run where values have to be known before the next point can be chosen. Evaluations between
two barriers may be made at the same time, on as many workers as there are; at a barrier all wait for the last value.
`IGPUCB` and `PiGPUCB` have a barrier in every round, `MiniGPUCB` one for each choice, `BBKB` one for each batch, and
`PhasedElimination` and `DUETS` a few in all. What comes out on one problem:
"""

COSTLESS = """## Evaluations that cost nothing

```sh
python -m docs.barriers --play  # plays what is missing in docs/results/barriers.json, about an hour for all of it
python -m docs.barriers         # this page from it
```

900 arms in two dimensions, a Matern 3/2 kernel with lengthscale 0.2, functions of its RKHS, Gaussian noise of standard
deviation 1; regularization 1, delta 0.1, the true norm given, C = 1.1 in `MiniGPUCB` and `PhasedElimination`, `DUETS`
with four agents. *Regret* is the sum over all rounds as a fraction of uniform play's, whose expectation is exact; mean
over the seeds ± its standard error, each seed another function. *Numbers sent* go to or from the process that chooses:
the values, and for `DUETS` what its agents and it send to each other. *Time* is the wall time of `simulate` in one
process with one thread, without compilation, beside other work on the machine; the median, as that of barriers and
numbers sent. A row without numbers was not run: it takes more than ten minutes.
"""

PLAYED = """## Evaluations on workers, played

The same commands. `maximize` on the worker processes of a `distributed.LocalCluster` with one thread each, on a machine
with two cores; an evaluation sleeps, then returns a noisy value. One run a row, seed 0. `IGPUCB` with one evaluation in
flight has a barrier in every round. With more in flight it chooses points while others are pending, and has none; its
proof does not cover this, and the cost model says nothing about it.
"""

MODEL = """## More rounds and workers, by the cost model

No number of this table was measured. A run is modelled to take

    seconds of the policy + e * (sum over its batches of ceil(n / W)) + barriers * a + (T - barriers) * c

with the first table's times, n evaluations of e seconds in a batch, W workers, a the time of a Dask task that is waited
for alone, and c that of one among many. Batches are single rounds for `IGPUCB` and `PiGPUCB`, the plays of a choice for
`MiniGPUCB`. The columns are e and W. What the policy and Dask do is taken not to overlap with evaluations, which is too
much for batches; that all workers of a batch end together is too little where evaluations differ in length.
"""


def page(file: Path = measured.RESULT) -> str:
    """The page's text."""
    results = Results(json.loads(file.read_text()))
    return (
        "\n".join([
            HEAD, *answer(results), NEVER, COSTLESS, *costless(results), "", PLAYED, *played(results), "", MODEL,
            *alike(results), *modelled(results), "", "## What they mean", "", *times(results), *sent(results),
            *checked(results), MEANING,
        ]).rstrip()
        + "\n"
    )  # fmt: skip


def main() -> None:
    """Play what is missing if asked to, then write the page; or check it."""
    parser = argparse.ArgumentParser(prog="python -m docs.barriers", description=__doc__)
    parser.add_argument("--play", action="store_true", help="first play the runs that are missing in the results")
    parser.add_argument("--check", action="store_true", help="write nothing; code 1 if the page is another one")
    given = parser.parse_args()
    if given.check:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE} is not what the results say: python -m docs.barriers")
    if given.play:
        measured.play()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
