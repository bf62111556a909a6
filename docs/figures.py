"""Write `docs/figures.md` from the results in `docs/results/`: what the papers publish, and what comes out here.

Its second part, on data and functions that others published, is made by `docs/measured.py`.

A result is what ``scalable-bandits run NAME --json`` prints; several of one study (``NAME.json``, ``NAME.more.json``)
stand below each other. ``python -m docs.figures`` writes the page; ``--check`` says whether it is as it should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from docs import measured
from docs.measured import replicates
from scalable_bandits.report.numbers import significant
from scalable_bandits.studies import Study

FOLDER = Path(__file__).parent
PAGE = FOLDER / "figures.md"
FINDINGS = {  # of the papers, in words, where they print curves and no numbers
    "chowdhury2017-benchmarks": "GP-EI and GP-PI are ahead of IGP-UCB on the benchmark functions.",
    "chowdhury2017-light": "GP-TS is best on the light sensors.",
    "chowdhury2017-synthetic": "IGP-UCB is best on functions of the RKHS and on draws from the prior.",
    "chowdhury2017-temperature": "GP-TS is best on the temperatures.",
    "janz2020-benchmarks": "pi-GP-UCB performs competitively on the four functions.",
    "srinivas2010-synthetic": "GP-UCB is level with EI, and ahead of mean only and variance only.",
    "srinivas2010-temperature": "GP-UCB is level with EI, and ahead of mean only and variance only.",
    "srinivas2010-traffic": "GP-UCB is level with EI, and ahead of mean only and variance only.",
    "zhou2021-abrupt": "No experiment; dynamic regret is proven to be sublinear under a variation budget.",
    "zhou2021-slow": "No experiment; dynamic regret is proven to be sublinear under a variation budget.",
    "ziomek2025-temperature": "PE-GP-UCB is below MLE, fully Bayesian and regret balancing.",
    "ziomek2025-toy": "PE-GP-UCB is below MLE, fully Bayesian and regret balancing, and comes to play the true prior.",
}
HEAD = """# Published and measured

Every table and figure of the papers that is a named study, beside what this package measures. Made by
`python -m docs.figures` from the results in `docs/results/`; one of them is made, or made again, by

```sh
scalable-bandits run NAME --json > docs/results/NAME.json  # then: python -m docs.figures
```

Regret is the sum over all rounds, mean over replicates ± standard error of the mean; *of uniform* is its share of
uniform play's. Where a result is smaller than the study, it says so: its numbers are not to be set beside the paper's.
[Another part](#newer-policies) compares newer policies with these, and [the last one](#on-measured-data) is on measured
data, with other packages beside.
"""


def results(name: str, folder: Path) -> list[dict[str, Any]]:
    """Kept results of a study."""
    files = [folder / f"{name}.json", *sorted(folder.glob(f"{name}.*.json"))]
    return [json.loads(file.read_text()) for file in files if file.is_file()]


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
    if ran == planned:
        return f"Full scale: {words}."
    return f"**Small scale** (the study has {planned[0]} replicates of {planned[1]:,} rounds): {words}."


def section(study: Study, records: list[dict[str, Any]]) -> list[str]:
    """Lines of one study."""
    lines = [f"## {study.name}", "", f"{study.title} ({study.source}).", ""]
    if study.name in FINDINGS:
        lines += [f"Published: {FINDINGS[study.name]}", ""]
    if not records:
        return [*lines, f"Not kept here; it takes {study.duration}.", ""]
    for record in records:
        lines += [size(record, study), ""]
        if record["published"]:
            lines += ["| case | policy | quantity | measured | published |", "| --- | --- | --- | ---: | ---: |"]
            for row in record["published"]:
                measured = with_error(row["ours"], row["standard_error"])
                lines.append(
                    f"| {row['case']} | {row['policy']} | {row['quantity']} | {measured} | {row['published']} |"
                )
            lines.append("")
            continue
        lines += [f"| case | policy | regret ({record['unit']}) | of uniform |", "| --- | --- | ---: | ---: |"]
        for row in record["table"]:
            regret = with_error(row["regret"], row["standard_error"])
            lines.append(f"| {row['case']} | {row['policy']} | {regret} | {number(row['fraction'], 3)} |")
        lines.append("")
    return lines


def page(folder: Path = FOLDER / "results") -> str:
    """The page's text."""
    lines = [line for study in of_papers() for line in section(study, results(study.name, folder))]
    return "\n".join([HEAD, *lines, *measured.part(folder)]).rstrip() + "\n"


def of_papers() -> list[Study]:
    """Studies that are a table or figure of a paper."""
    others = (*measured.NEWER, *measured.TUNERS, *measured.POLICIES, *measured.TASKS)
    return [study for name, study in sorted(Study.registry.items()) if study.source and name not in others]


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m docs.figures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; code 1 if the page is another one")
    if parser.parse_args().check:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE} is not what the results say: python -m docs.figures")
    PAGE.write_text(page())
    print(PAGE)


if __name__ == "__main__":
    main()
