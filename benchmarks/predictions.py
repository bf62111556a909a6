"""What `plan` predicts beside what is measured: an engine of each kind, on one process and on two.

``python -m benchmarks.predictions`` measures (20 minutes on two cores) and writes `docs/results/predictions.json`, from
which `docs/scalability.md` has its table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import scalable_bandits as sb
from benchmarks.measure import Line
from scalable_bandits.planning import plan
from scalable_bandits.studies import Problem, Replicate, Study

FILE = Path(__file__).parent.parent / "docs" / "results" / "predictions.json"
RUNS = 4  # of a study
QUICK = 30  # rounds of a quick run


class Kind(NamedTuple):
    """A policy on an engine of one kind."""

    words: str
    make: Callable[[Any, Any, dict[str, Any], int], sb.Policy]  # given space, kernel, settings and horizon
    rounds: int
    space: sb.Grid | sb.Box
    lengthscale: float = 0.2


class Prediction(NamedTuple):
    """What was predicted, and what was measured."""

    kind: str
    words: str
    workers: int
    predicted: float  # seconds of a study, or of a round whose shards are on the workers
    measured: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def square(side: int, dimension: int = 2) -> sb.Grid:
    return sb.Grid([[0.0, 1.0]] * dimension, side)


def _known_priors(space: Any, kernel: Any, settings: dict[str, Any], horizon: int) -> sb.Policy:
    priors = [sb.Prior(f"{i}", sb.Matern(0.12 + 0.02 * i, nu=1.5)) for i in range(6)]
    return sb.PEGPUCB(space, priors, **{name: each for name, each in settings.items() if name != "rkhs_norm"})


def _forgetting(space: Any, kernel: Any, settings: dict[str, Any], horizon: int) -> sb.Policy:
    return sb.TVGPUCB(space, kernel * sb.TemporalDecay(0.01), noise=1.0, seed=settings["seed"])


KINDS = {
    "dense": Kind(
        "IGP-UCB, 1,600 arms", lambda space, kernel, known, T: sb.IGPUCB(space, kernel, **known), 100_000, square(40)
    ),
    "tiled": Kind(
        "IGP-UCB, 21,952 arms", lambda space, kernel, known, T: sb.IGPUCB(space, kernel, **known), 2_000, square(28, 3)
    ),
    "Kalman": Kind("TV-GP-UCB, 400 arms", _forgetting, 60_000, square(20)),
    "window": Kind(
        "SW-GP-UCB, 400 arms, window of 300",
        lambda space, kernel, known, T: sb.SWGPUCB(space, kernel, memory=300, **known), 60_000, square(20),
    ),
    "cells": Kind(
        "pi-GP-UCB, 8,000 arms", lambda space, kernel, known, T: sb.PiGPUCB(space, kernel, horizon=T, **known),
        1_000_000, square(20, 3),
    ),
    "priors": Kind("PE-GP-UCB, 6 priors, 200 arms", _known_priors, 200_000, sb.Grid([[0.0, 1.0]], 200)),
    "few choices": Kind(
        "MiniGP-UCB, 1,600 arms", lambda space, kernel, known, T: sb.MiniGPUCB(space, kernel, **known), 60_000,
        square(40),
    ),
    "sample paths": Kind(
        "GP-TS, 40,000 arms", lambda space, kernel, known, T: sb.GPTS(space, kernel, **known), 1_200, square(200)
    ),
    "sketched": Kind(
        "BBKB, 8,100 arms", lambda space, kernel, known, T: sb.BBKB(space, kernel, **known), 4_000, square(90)
    ),
    "box": Kind(
        "IGP-UCB, a box in 3 dimensions", lambda space, kernel, known, T: sb.IGPUCB(space, kernel, **known), 300,
        sb.Box([[0.0, 1.0]] * 3), 0.5,
    ),
}  # fmt: skip


def build(kind: str, replicate: Replicate) -> Problem:
    """Make the problem of a kind."""
    chosen = KINDS[kind]
    kernel = sb.Matern(chosen.lengthscale, nu=1.5)
    function = sb.RKHSFunction.sparse(chosen.space, kernel, sb.UniformNoise(1.0), seed=replicate.seed)
    known = {"noise": 1.0, "seed": replicate.seed, "rkhs_norm": function.rkhs_norm}
    return Problem(function, {kind: chosen.make(chosen.space, kernel, known, replicate.horizon)})


def of_runs(kind: str, quick: bool) -> Iterator[Prediction]:
    """A study of some runs of a kind, in this process and on two workers."""
    rounds, runs = (QUICK, 1) if quick else (KINDS[kind].rounds, RUNS)
    study = Study(
        name=f"prediction of {kind}", cases=("one",), build=partial(build, kind), horizon=rounds, replicates=runs
    )
    found = plan(study, (1,) if quick else (1, 2), seconds=0.1 if quick else 3.0)
    for each in found.workers:
        began = time.perf_counter()
        study.run(on=None if each.workers == 1 else f"local:{each.workers}", progress=False)
        yield Prediction(kind, KINDS[kind].words, each.workers, each.seconds, time.perf_counter() - began)


def of_rounds(case: str) -> Iterator[Prediction]:
    """A round of the policies of `scalability-workers`: predicted for one worker and for two from pilots on one."""
    named, sizes = Study.load("scalability-workers"), {"horizon": 400, "cases": [case]}
    found = plan(named, (1, 2), seconds=3.0, axes={"workers": [1]}, **sizes)
    result = named.run(**sizes, replicates=2, axes={"workers": [1, 2]}, seed=1, progress=False)
    for each in found.rounds:
        mine = result.isel(policy=[value == each.workers for value in result["workers"].values])
        seconds = float(mine["elapsed"].isel(mark=-1).mean()) / (sizes["horizon"] - 10)
        words = each.policy.partition(",")[0]
        yield Prediction(f"{case} on workers", f"{words}, a round", each.workers, each.seconds, seconds)


def predicted(quick: bool) -> Iterator[Prediction]:
    """All kinds, one after the other; few of them if quick."""
    for kind in ("dense",) if quick else KINDS:
        yield from of_runs(kind, quick)
    for case in () if quick else ("priors", "tiles", "cells"):
        yield from of_rounds(case)


def predictions(quick: bool) -> Iterator[Line]:
    """What `plan` predicts beside what is measured."""
    for each in predicted(quick):
        what = f"{each.kind}: {each.words}, {each.workers} {'process' if each.workers == 1 else 'processes'}"
        yield Line(what, f"{each.predicted:.4g} s", f"{each.measured:.4g} s", f"{each.ratio:.2f}", ".75 to 1.25")


def main() -> None:
    """Measure, and write the file."""
    rows = []
    for each in predicted(quick=False):
        rows.append({**each._asdict(), "ratio": each.ratio})
        print(
            f"{each.kind:14} {each.workers}  {each.predicted:9.4g} {each.measured:9.4g}  {each.ratio:.2f}", flush=True
        )
    FILE.write_text(json.dumps({"version": sb.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
