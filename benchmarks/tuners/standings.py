"""Tables of tuners on studies: ranks, wins and losses with a sign test, medians of regrets, and CPU time.

Compared is the true value of the recommended point where observations have noise, otherwise the best measured value.
Values that are equal are ties; on bbob, values that differ by at most 1e-8. The median regret of a tuner is over all of
its runs. It is that of log10 of the regret, where regrets below 1e-8 count as 1e-8, if the regrets above 0 of all
tuners in the table span more than three decades from their 10 % to their 90 % quantile.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.tuners.lines import Key, Line
from benchmarks.tuners.report import Sheet

TIE = 1e-8  # values of a bbob function that differ by less are equal
LEAST = TIE  # regrets below it count as it in logarithms
SHOWN = (100, 500, 1000, 2000)  # numbers of evaluations with tables, if there is one of them; else the last
MOST = 8  # largest number of cases that have a row each
DECADES = 3.0  # regrets that span more are shown as logarithms


class Result(NamedTuple):
    """Result of a run at a checkpoint."""

    value: float  # that is compared; larger is better
    regret: float
    tie: float  # largest difference to a value that is called equal
    seconds: float  # of CPU
    groups: tuple[str, ...]
    version: str


Results = Mapping[Key, Result]


def results_at(kept: Mapping[Key, Line], at: int) -> dict[Key, Result]:
    """Return the results of kept runs that have a checkpoint."""
    found = {}
    for key, line in kept.items():
        for each in line["checkpoints"]:
            if each["at"] == at:
                value = each["recommended_value" if line["noisy"] else "best_value"]
                regret = max(line["optimum"] - value, 0.0)
                made_by = (tuple(line["groups"]), line["version"])
                found[key] = Result(value, regret, line["tie"], each["cpu_seconds"], *made_by)
    return found


def marks(kept: Mapping[str, Mapping[Key, Line]]) -> list[int]:
    """Return the numbers of evaluations at which a result of any tuner was kept."""
    return sorted({each["at"] for runs in kept.values() for line in runs.values() for each in line["checkpoints"]})


class Score(NamedTuple):
    """Wins, losses and ties on the runs that both tuners played."""

    wins: int
    losses: int
    ties: int

    def __str__(self) -> str:
        return f"{self.wins}-{self.losses}-{self.ties}" if sum(self) else ""

    @property
    def p(self) -> float:
        """Two-sided p-value of the sign test, without ties; 1 if there is neither a win nor a loss."""
        from scipy.stats import binomtest

        played = self.wins + self.losses
        return float(binomtest(self.wins, played).pvalue) if played else 1.0


def score(ours: Results, theirs: Results, keys: Iterable[Key] | None = None) -> Score:
    """Count wins, losses and ties of `ours` on the keys, or all, that both have."""
    both = [key for key in (ours if keys is None else keys) if key in ours and key in theirs]
    ahead = [(ours[key].value - theirs[key].value, ours[key].tie) for key in both]
    wins = sum(by > tie for by, tie in ahead)
    losses = sum(by < -tie for by, tie in ahead)
    return Score(wins, losses, len(both) - wins - losses)


def ranks(results: Mapping[str, Results]) -> dict[str, list[float]]:
    """Return the ranks of each tuner, 1 the best, on the keys that all have.

    A rank is 1, and 1 for each better tuner, and 1/2 for each tied one.
    """
    common = set.intersection(*(set(each) for each in results.values())) if results else set()
    found: dict[str, list[float]] = {name: [] for name in results}
    for key in sorted(common):
        for name, each in results.items():
            gaps = [other[key].value - each[key].value for rival, other in results.items() if rival != name]
            tie = each[key].tie
            found[name].append(1.0 + sum(1.0 if gap > tie else 0.5 if gap >= -tie else 0.0 for gap in gaps))
    return found


def mean_ranks(results: Mapping[str, Results]) -> tuple[dict[str, float], int]:
    """Return the mean of the ranks of each tuner, NaN without a common key, and the number of common keys."""
    found = ranks(results)
    means = {name: statistics.fmean(each) if each else math.nan for name, each in found.items()}
    return means, min(map(len, found.values()), default=0)


def shows_logarithms(results: Mapping[str, Results]) -> bool:
    """Whether the regrets above 0 span more than three decades, from the 10 % to the 90 % quantile."""
    regrets = [result.regret for each in results.values() for result in each.values() if result.regret > 0.0]
    if not regrets:
        return False
    low, high = np.quantile(np.log10(regrets), [0.1, 0.9])
    return bool(high - low > DECADES)


def sheets(study: str, kept: Mapping[str, Mapping[Key, Line]], ours: str) -> list[Sheet]:
    """Make the tables of a study: two for each checkpoint of the kept runs, by name of the tuner."""
    every = [line for each in kept.values() for line in each.values()]
    made: list[Sheet] = []
    every_mark = marks(kept)
    for at in [mark for mark in every_mark if mark in SHOWN] or every_mark[-1:]:
        found = {name: results_at(each, at) for name, each in kept.items()}
        found = {name: each for name, each in found.items() if each}
        made.append(_standings(f"{study}, {at} evaluations", found, ours, _compared(every)))
        if ours in found and len(found) > 1:
            made.append(_by_case(f"{study}, {at} evaluations", found, ours))
    return made


def _compared(every: Sequence[Line]) -> str:
    names = {True: "true value of the recommended point", False: "best measured value"}
    found = [names[noisy] for noisy in (True, False) if any(line["noisy"] is noisy for line in every)]
    return found[0] if len(found) == 1 else f"{found[0]} where there is noise, else {found[1]}"


def _standings(title: str, found: Mapping[str, Results], ours: str, compared: str) -> Sheet:
    ranks, common = mean_ranks(found)
    as_logarithms = shows_logarithms(found)
    rows = []
    for name, each in found.items():
        replicates = len({key.replicate for key in each})
        against = score(found.get(ours, {}), each) if name != ours else Score(0, 0, 0)
        regrets = [math.log10(max(r.regret, LEAST)) if as_logarithms else r.regret for r in each.values()]
        middle, rank = statistics.median(regrets), ranks[name]
        rows.append([
            name, f"{replicates} ({len(each)})", "" if math.isnan(rank) else f"{rank:.2f}", str(against),
            f"{against.p:.2g}" if sum(against) else "", f"{middle:.2f}" if as_logarithms else f"{middle:.3g}",
            f"{statistics.median(r.seconds for r in each.values()):.3g}",
            ", ".join(sorted({r.version for r in each.values()})),
        ])  # fmt: skip
    header = [
        "tuner", "replicates (runs)", f"mean rank ({common} runs of all)", f"{ours} against it: wins-losses-ties",
        "p of the sign test", "median log10 regret" if as_logarithms else "median regret", "CPU seconds a run",
        "version",
    ]  # fmt: skip
    return Sheet(f"{title}: {compared}", header, rows)


def _by_case(title: str, found: Mapping[str, Results], ours: str) -> Sheet:
    others = [name for name in found if name != ours]
    rows = [[name, *(str(score(found[ours], found[other], keys)) for other in others)] for name, keys in rows_of(found)]
    head = ["cases", *(f"against {other}" for other in others)]
    return Sheet(f"{title}: wins-losses-ties of {ours}", head, rows)


def rows_of(found: Mapping[str, Results]) -> Iterator[tuple[str, list[Key]]]:
    """Yield name and keys of each row: a case, or where there are more than eight a group, if cases have groups."""
    groups: dict[Key, tuple[str, ...]] = {key: r.groups for each in found.values() for key, r in each.items()}
    cases: dict[str, list[Key]] = {}
    for key in groups:
        cases.setdefault(key.case, []).append(key)
    several = max(map(len, groups.values()), default=0)
    names = dict.fromkeys(name for i in range(several) for each in groups.values() for name in each[i : i + 1])
    if len(cases) <= MOST or not names:
        yield from cases.items()
    else:
        yield from ((name, [key for key, each in groups.items() if name in each]) for name in names)
