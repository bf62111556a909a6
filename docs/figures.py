"""Write `docs/figures.md` and its pictures from `docs/results/`: what the papers publish, and what comes out here.

Its second part, on data and functions that others published, is made by `docs/measured.py`; the pictures are drawn by
`docs/pictures.py`; the tables of the tuner beside others, which stand on other pages, are made by `docs/records.py`.

A result is what ``scalable-bandits run NAME --json`` prints; several of one study (``NAME.json``, ``NAME.more.json``)
stand below each other. ``python -m docs.figures`` writes the pages and draws the pictures whose results are others;
``--check`` says whether pages and pictures are as they should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from docs import measured, records
from docs.measured import folded, replicates, shown
from docs.pictures import FOLDER as PICTURES
from docs.pictures import Picture, of_published, of_regret, seen, wrapped
from scalable_bandits.runs.readable import significant
from scalable_bandits.studies import Study

FOLDER = Path(__file__).parent
PAGE = FOLDER / "figures.md"
PUBLISHED = {  # statements of the papers
    "chowdhury2017-benchmarks": "GP-EI and GP-PI perform better than the rest on both functions; IGP-UCB and GP-TS are "
    "competitive (cumulative regret over 30,000 rounds, linear axes, 25 trials).",
    "chowdhury2017-light": "GP-TS is better than the others, and IGP-UCB better than GP-EI and GP-PI (cumulative "
    "regret, linear axes).",
    "chowdhury2017-synthetic": "IGP-UCB is the best of all, significantly ahead of GP-UCB, on functions of the RKHS "
    "(Fig. 1) and likewise on draws from the prior (Fig. 2); GP-TS fares reasonably well beside GP-UCB, GP-EI and "
    "GP-PI (cumulative regret over 30,000 rounds with standard deviations, linear axes, 25 trials).",
    "chowdhury2017-temperature": "GP-TS outperforms all its competitors; IGP-UCB and GP-UCB perform the same "
    "(cumulative regret, linear axes).",
    "janz2020-benchmarks": "pi-GP-UCB, with B = 1 as for IGP-UCB, performs competitively on the four functions (regret "
    "with 95 % confidence intervals, linear axes).",
    "janz2020-table1": "pi-GP-UCB has less regret than IGP-UCB in each dimension, and takes minutes where IGP-UCB "
    "takes hours (Table 1; Fig. 1 has the curves for d = 2; means of 12 runs, regret as a share of uniform play's).",
    "srinivas2010-synthetic": "GP-UCB performs at least on par with EI and MPI (here GP-PI), all three far below mean "
    "only and variance only (mean average regret, linear axes, the first 100 rounds; 30 trials).",
    "srinivas2010-temperature": "GP-UCB and EI clearly outperform the others and do not differ significantly; MPI, "
    "mean only and variance only follow (mean average regret in degrees, linear axes, 46 rounds, 2,000 functions).",
    "srinivas2010-traffic": "GP-UCB, EI and MPI do equally well, far below mean only and variance only (mean average "
    "regret in miles per hour, linear axes, 357 rounds, 900 runs).",
    "zhou2021-abrupt": "No experiment; the dynamic regret of R-GP-UCB and SW-GP-UCB is proven to be sublinear under a "
    "variation budget P_T that is known, and with a little more regret under one that is not.",
    "zhou2021-slow": "No experiment; the same theorems as above.",
    "ziomek2025-temperature": "PE-GP-UCB has the least regret, most visibly in the beginning, then fully Bayesian, "
    "then MLE; regret balancing is hardly better than random. MLE commits to one day, PE-GP-UCB mostly relies on "
    "two others (average regret with standard errors, linear axes, 30 seeds; 13 priors from a day each).",
    "ziomek2025-toy": "PE-GP-UCB has the least regret and commits to the true prior, number 2; MLE, fully Bayesian and "
    "regret balancing perform alike and outperform random search. MLE keeps selecting a wrong prior, regret balancing "
    "tries all in a roughly uniform manner (cumulative regret with standard errors, linear axes, 30 seeds).",
}
HERE = {  # what comes out, written after reading the results
    "bogunovic2016-synthetic": "TV-GP-UCB, which knows how fast the process forgets, has the least regret in each "
    "case. WGP-UCB comes next where the process forgets fast; windows and restarts stay behind even GP-UCB, which "
    "never forgets.",
    "calandriello2020-sketches": "Exact IGP-UCB has the least regret. With 900 arms the sketches cost a tenth to a "
    "quarter more, the most with rarer updates or a smaller sketch; with 8,000 arms, where all still explore, the "
    "differences are within the errors.",
    "chowdhury2017-benchmarks": "GP-EI and GP-PI are best, as published, if they improve on the best posterior mean; "
    "over the best observed y they are far behind IGP-UCB and GP-TS. IGP-UCB has less regret than GP-TS; GP-UCB with "
    "its theoretical width plays no better than at random.",
    "chowdhury2017-light": "With B = 1 GP-TS is best, by half, as published. With the norm of f as B it is not: "
    "IGP-UCB has the least regret and GP-TS is level with EI and PI. IGP-UCB is ahead of GP-EI and GP-PI in both; "
    "GP-UCB is last by far.",
    "chowdhury2017-synthetic": "IGP-UCB is far ahead of GP-UCB, and ahead of GP-TS and GP-PI, in all four cases, as "
    "published. It is not the best: GP-EI that improves on the best posterior mean is ahead of it or level with it. "
    "Over the best observed y, EI and PI stay where they are early and lose by two orders of magnitude.",
    "chowdhury2017-temperature": "Not as published: GP-EI and GP-PI are best, with B = 1 level with IGP-UCB, and "
    "GP-TS has more than ten times their regret. GP-UCB with its theoretical width plays as at random, and not as "
    "IGP-UCB does.",
    "flynn2024-widths": "With the width of Flynn & Reeb IGP-UCB has about a third less regret with the RBF kernel, "
    "and about a seventh less with the Matern kernel. That of Whitehouse et al. is hardly narrower than the improved "
    "one here.",
    "janz2020-benchmarks": "pi-GP-UCB has less regret on Rosenbrock's function and the camel, by about a fifth to a "
    "quarter. On the eggholder and Schaffer's function IGP-UCB has less, by no more than the errors.",
    "janz2020-table1": "The same order in each dimension, with shares that are like the published ones for d = 1 and "
    "lower for d = 2; run times, measured beside other work, are seconds where the paper has minutes and hours.",
    "janz2020-theory": "The bounds hold for d = 1 and d = 2. For d = 3 cells are far fewer than the bound allows, and "
    "the exponent of the regret, fitted to the last decade of rounds, is a little above it: a bound is for the limit, "
    "and without logarithms.",
    "janz2022-hierarchical": "The tightened pi-GP-UCB is level with the plain one, ahead by little on Bukin's "
    "function. Both have less regret than IGP-UCB on Rosenbrock's function and the camel, more on Bukin's, and on the "
    "other two the errors of IGP-UCB are large. SupKernelUCB hardly learns in so few rounds.",
    "srinivas2010-synthetic": "GP-EI and GP-UCB are lowest from the first rounds on, EI by a little. GP-PI follows, "
    "since some runs stay at a local maximum for long. Mean only ends at about a quarter of uniform play's regret, "
    "variance only at all of it.",
    "srinivas2010-temperature": "GP-EI and GP-UCB are lowest, as published, but they differ: EI has about two thirds "
    "of GP-UCB's regret. GP-PI is third, mean only not far behind, and variance only as bad as random.",
    "srinivas2010-traffic": "As published: GP-EI, GP-PI and GP-UCB differ by less than their errors. Mean only has "
    "more than twice their regret, and variance only nearly that of random.",
    "zhou2021-abrupt": "All policies that forget are far below IGP-UCB, which does not recover from the first "
    "changes. The tunings for an unknown P_T are ahead of those for a known one or level with them; the window of "
    "Theorem 2 is too short and has two to three times their regret.",
    "zhou2021-slow": "As with jumps: policies that forget are far below IGP-UCB, the tunings for an unknown P_T are "
    "ahead of those for a known one, and the window of Theorem 2 is too short.",
    "ziomek2025-temperature": "PE-GP-UCB has the least regret, but by little: regret balancing is next, here not the "
    "worst, then fully Bayesian and MLE, and all are far below random. PE-GP-UCB used one of the three days in all "
    "rounds, MLE another one.",
    "ziomek2025-toy": "As published, PE-GP-UCB has the least regret and used the true prior in nine rounds of ten. "
    "The other three have two to five times its regret, with large errors: they, too, use the true prior in most "
    "rounds, and stay with a wrong one in some of the runs.",
}
COMES_OUT = {  # in a word, where a paper has an experiment
    "chowdhury2017-benchmarks": "yes",
    "chowdhury2017-light": "in part: with B = 1",
    "chowdhury2017-synthetic": "in part: IGP-UCB is ahead of GP-UCB, but not of GP-EI",
    "chowdhury2017-temperature": "no: GP-TS is far behind",
    "janz2020-benchmarks": "yes",
    "janz2020-table1": "yes; run times are seconds here",
    "srinivas2010-synthetic": "yes, with GP-EI a little ahead of GP-UCB",
    "srinivas2010-temperature": "in part: GP-EI is clearly ahead of GP-UCB",
    "srinivas2010-traffic": "yes",
    "ziomek2025-temperature": "in part: PE-GP-UCB is best, but by little",
    "ziomek2025-toy": "yes for PE-GP-UCB; the others use the true prior more often",
}
QUANTITIES = {  # pictures of numbers beside published ones: quantity, words, and whether the axis is logarithmic
    "janz2020-table1": {
        "regret": ("fraction of uniform play's regret", "share of uniform play's regret", False),
        "seconds": ("run time (s)", "run time (s)", True),
    },
    "janz2020-theory": {
        "cells": ("exponent of cells", "exponent of cells", False),
        "exponents": ("exponent of regret", "exponent of regret", False),
    },
}
HEAD = """# Published and measured

Does the package reproduce the papers? Each of their tables and figures that is a named study is here: what was
published, and a picture of what comes out. [Another part](#newer-policies) compares newer policies with these,
[the last one](#on-measured-data) tuners and policies on data that others measured.

{overview}

No entry: a theorem, or an experiment whose outcome is not quoted here.

A policy has the same colour in all pictures. *Numbers* below a picture unfolds: regret is the sum over all rounds,
mean over replicates ± standard error of the mean; *of uniform* is its share of the regret of uniform play. A result
that is smaller than its study says so; its numbers cannot be compared with the paper's.

To make a result again, and then this page with its pictures from `docs/results/`:

```sh
scalable-bandits run NAME --json > docs/results/NAME.json
python -m docs.figures
```
"""


def overview() -> str:
    """Return the table of the papers' studies: what each is from, and whether the published statement comes out."""
    rows = [f"| [{study.name}](#{study.name}) | {study.source} | {COMES_OUT.get(study.name, '')} |"
            for study in of_papers()]  # fmt: skip
    return "\n".join(["| study | source | as published? |", "| --- | --- | --- |", *rows])


def number(value: float | None, digits: int = 4) -> str:
    """In words for a table."""
    return "" if value is None else significant(value, digits)


def with_error(value: float | None, error: float | None) -> str:
    """A number and its standard error."""
    return number(value) + ("" if error is None else f" ± {number(error, 2)}")


def size(record: dict[str, Any], study: Study) -> str:
    """How much was run, and whether that is all."""
    ran, planned = (record["replicates"], record["horizon"]), (study.replicates, study.horizons[-1])
    words = f"{replicates(ran[0])} of {ran[1]:,} rounds, seed {record['seed']}, version {record['version']}"
    if record.get("seconds") is not None:
        words += f", {record['seconds']:.0f} s"
    played = [row for row in record["table"] if row["regret"] is not None]
    cases = list(dict.fromkeys(row["case"] for row in played))
    policies = [row["policy"] for row in played] if len(played) == 1 else []
    part = "" if len(cases) == len(study.cases) else f" ({', '.join([*cases, *policies])})"
    if ran == planned:
        return f"Full scale{part}: {words}."
    return f"**Small scale** (the study has {planned[0]} replicates of {planned[1]:,} rounds): {words}."


def section(study: Study, folder: Path) -> tuple[list[str], list[Picture]]:
    """Lines and pictures of one study."""
    files = [folder / f"{study.name}.json", *sorted(folder.glob(f"{study.name}.*.json"))]
    files = [file for file in files if file.is_file()]
    records = [json.loads(file.read_text()) for file in files]
    lines = [f"## {study.name}", "", *wrapped(f"{study.title} ({study.source})."), ""]
    for words, known in (("Published", PUBLISHED), ("Here", HERE)):
        if study.name in known:
            lines += [*wrapped(f"**{words}:** {known[study.name]}"), ""]
    if not records:
        return [*lines, f"Not kept here; it takes {study.duration}.", ""], []
    drawn, rows = [], [row for record in records for row in record["published"]]
    for name, (quantity, words, log) in QUANTITIES.get(study.name, {}).items() if rows else ():
        drawn.append(of_published(rows, quantity, f"{study.name}-of-{name}", files, words, log=log))
    curves = [record for record in records if "curves" in record or not drawn]
    drawn += [picture for record in curves for picture in of_regret(record, files)]
    caption = [*dict.fromkeys(map(seen, curves)), *(["Bars: standard errors."] if rows else [])]
    sizes = dict.fromkeys(size(record, study) for record in records)
    tables = [line for record in records for line in numbers(record)]
    return [*lines, *shown(drawn, " ".join([*caption, *sizes])), *folded("Numbers", tables)], drawn


def numbers(record: dict[str, Any]) -> list[str]:
    """Lines of the table of a result."""
    if record["published"]:
        header = ["| case | policy | quantity | measured | published |", "| --- | --- | --- | ---: | ---: |"]
        return [*header, *(
            f"| {row['case']} | {row['policy']} | {row['quantity']} | "
            f"{with_error(row['ours'], row['standard_error'])} | {row['published']} |"
            for row in record["published"] if row["ours"] is not None
        ), ""]  # fmt: skip
    header = [f"| case | policy | regret ({record['unit']}) | of uniform |", "| --- | --- | ---: | ---: |"]
    return [*header, *(
        f"| {row['case']} | {row['policy']} | {with_error(row['regret'], row['standard_error'])} | "
        f"{number(row['fraction'], 3)} |"
        for row in record["table"]
    ), ""]  # fmt: skip


def made(folder: Path = FOLDER / "results") -> tuple[dict[Path, str], list[Picture]]:
    """Return the texts of the pages, and the pictures."""
    lines, pictures = [HEAD.format(overview=overview())], []
    for more, drawn in [*(section(study, folder) for study in of_papers()), measured.part(folder)]:
        lines, pictures = [*lines, *more], [*pictures, *drawn]
    return {PAGE: "\n".join(lines).rstrip() + "\n", **records.pages()}, pictures


def of_papers() -> list[Study]:
    """Studies that are a table or figure of a paper."""
    others = (*measured.NEWER, *measured.TUNERS, *measured.POLICIES, *measured.TASKS)
    return [study for name, study in sorted(Study.registry.items()) if study.source and name not in others]


def stale(pages: dict[Path, str], pictures: list[Picture]) -> list[str]:
    """Return the names of the files that are not what the results say, or not of the page."""
    wrong = [page.name for page, text in pages.items() if page.read_text() != text]
    wrong += [picture.path.name for picture in pictures if not picture.is_current]
    return wrong + sorted({path.name for path in PICTURES.iterdir()} - {picture.path.name for picture in pictures})


def main() -> None:
    """Write pages and pictures, or check them."""
    parser = argparse.ArgumentParser(prog="python -m docs.figures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; code 1 if pages or pictures are others")
    parser.add_argument("--all", action="store_true", help="draw the pictures whose results are the same, too")
    given, (pages, pictures) = parser.parse_args(), made()
    if given.check:
        wrong = stale(pages, pictures)
        sys.exit(f"not what the results say: {', '.join(wrong)}; python -m docs.figures" if wrong else 0)
    PICTURES.mkdir(exist_ok=True)
    for picture in pictures:
        if given.all or not picture.is_current:
            picture.save()
    for path in PICTURES.iterdir():
        if path not in {picture.path for picture in pictures}:
            path.unlink()
    for page, text in pages.items():
        page.write_text(text)
        print(page)


if __name__ == "__main__":
    main()
