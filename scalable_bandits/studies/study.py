"""What a study is: cases x policies x replicates, and how it is run."""

from __future__ import annotations

import difflib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.policies import Policy
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.randomness import derived_seed
from scalable_bandits.simulate import simulate
from scalable_bandits.specification import nearest
from scalable_bandits.studies.summary import Comparison

if TYPE_CHECKING:
    import xarray


class Problem(NamedTuple):
    """What one replicate of one case plays."""

    environment: Environment
    policies: Mapping[str, Policy]  # label to a fresh policy


class Replicate(NamedTuple):
    """Which replicate of which case, and its seed."""

    case: str
    number: int  # from 0
    seed: int  # a function of the study's seed, the case and the number
    horizon: int
    data: Path | None  # folder of measured data; None for the default places


@attrs.frozen
class Study:
    """A named comparison of policies.

    Attributes
    ----------
    name, title, source
        What it is called and where it comes from.
    cases
        Names of its problems; one panel of the picture each.
    build
        Makes the problem of a replicate.
    horizon, replicates
        The paper's, and the defaults of `run`.
    measure
        "cumulative" or "average" regret in the picture.
    unit
        Of y.
    duration
        How long the default run takes on two cores, in words.
    needs_data
        Whether it reads measured files.
    published
        From a result to its numbers beside the published ones.
    series
        From a policy that has played all rounds to more series over them, (rounds,) each.
    rates
        From a case and rounds (k,) to the rates (k,) at which theory has series grow.
    timed
        Whether the result has the seconds of each run, the only numbers that the seed does not decide.
    cover
        Label of the partitioned policy whose cover is drawn where points have two coordinates.
    """

    registry: ClassVar[dict[str, Study]] = {}

    name: str
    title: str
    source: str
    cases: tuple[str, ...]
    build: Callable[[Replicate], Problem]
    horizon: int
    replicates: int
    duration: str
    measure: str = "cumulative"
    unit: str = "units of y"
    needs_data: bool = False
    published: Callable[[xarray.Dataset], list[Comparison]] | None = None
    series: Callable[[Policy], Mapping[str, Floats]] | None = None
    rates: Callable[[str, Floats], Mapping[str, Floats]] | None = None
    timed: bool = False
    cover: str | None = None

    def register(self) -> Self:
        """Make the study known by its name."""
        Study.registry[self.name] = self
        return self

    @classmethod
    def load(cls, name: str) -> Study:
        """Study of a name; KeyError's cousin with the nearest name for an unknown one.

        Raises
        ------
        ValueError
            If there is no study of this name.
        """
        if name not in cls.registry:
            close = difflib.get_close_matches(name, cls.registry, n=1, cutoff=0.0)
            checks.refuse("study", name, f"did you mean {close[0]!r}? known: {', '.join(sorted(cls.registry))}")
        return cls.registry[name]

    def run(
        self,
        *,
        replicates: int | None = None,
        horizon: int | None = None,
        seed: int = 0,
        cases: Sequence[str] | None = None,
        policies: Sequence[str] | None = None,
        data: str | Path | None = None,
        store: str | Path | None = None,
        progress: bool = False,
    ) -> xarray.Dataset:
        """Play every policy in every replicate of every case.

        Parameters
        ----------
        replicates, horizon
            How many, how long; the paper's if not given.
        seed
            Every number of the study is a function of it.
        cases, policies
            Some of them, by name; all if not given. What is left out changes no number of the others.
        data
            Folder of the measured files, for a study that reads them.
        store
            Folder of a zarr group to write the result to; it must not exist yet.
        progress
            Show a progress bar.

        Returns
        -------
        xarray.Dataset
            ``regret``, ``candidate``, ``width``, ``information_gain`` over (case, policy, replicate, round), in units
            of y; ``uniform_regret`` (case, replicate), the mean regret a round of uniform play; the study's `series`;
            ``seconds`` (case, policy, replicate) of a timed one; where policies have several priors, ``plays`` (case,
            policy, replicate, prior), NaN for the policies without.

        Raises
        ------
        DataMissing
            If a measured file is not there.
        """
        count = checks.integer("replicates", self.replicates if replicates is None else replicates, 1)
        rounds = checks.integer("horizon", self.horizon if horizon is None else horizon, 1)
        seed = checks.integer("seed", seed, 0)
        if store is not None:
            from scalable_bandits.store import check_new

            check_new(store)
        chosen = _some("cases", cases, self.cases)
        jobs = [self.replicate(case, i, rounds, seed, data) for case in chosen for i in range(count)]
        labels = _some("policies", policies, list(self.build(jobs[0]).policies))
        result = self._collect(jobs, labels, count, rounds, seed, progress)
        if store is not None:
            from scalable_bandits.store import save

            save(result, store)
        return result

    def replicate(
        self, case: str, number: int, horizon: int, seed: int = 0, data: str | Path | None = None
    ) -> Replicate:
        """A replicate of a case, with the seed that `run` gives it."""
        own = derived_seed(seed, self.name, case, number)
        return Replicate(case, number, own, horizon, None if data is None else Path(data))

    def _collect(
        self, jobs: list[Replicate], labels: list[str], replicates: int, horizon: int, seed: int, progress: bool
    ) -> xarray.Dataset:
        import xarray
        from rich.progress import Progress

        cases = list(dict.fromkeys(job.case for job in jobs))
        shape = (len(cases), len(labels), replicates, horizon)
        kept: dict[str, Any] = {name: np.empty(shape) for name in ("regret", "width", "information_gain")}
        kept["candidate"] = np.empty(shape, dtype=np.int64)
        uniform, seconds = np.empty((len(cases), replicates)), np.empty(shape[:3])
        priors: list[str] = []
        plays: dict[tuple[int, int, int], list[float]] = {}
        with Progress(disable=not progress, transient=True) as bar:
            task = bar.add_task(self.name, total=len(jobs) * len(labels))
            for job in jobs:
                environment, policies = self.build(job)
                case = cases.index(job.case)
                uniform[case, job.number] = uniform_regret(environment, horizon)
                for p, label in enumerate(labels):
                    started = time.perf_counter()
                    run = simulate(policies[label], environment, horizon)
                    seconds[case, p, job.number] = time.perf_counter() - started
                    more = {} if self.series is None else self.series(policies[label])
                    kept.update({name: np.empty(shape) for name in more if name not in kept})
                    for name, array in kept.items():
                        array[case, p, job.number] = more[name] if name in more else getattr(run, name)
                    played = policies[label]
                    if isinstance(played, UnknownPriorPolicy):
                        priors = [prior.name for prior in played.priors]
                        plays[case, p, job.number] = list(played.plays.values())
                    bar.advance(task)
        dimensions = ("case", "policy", "replicate", "round")
        variables: dict[str, Any] = {name: (dimensions, array) for name, array in kept.items()}
        variables["uniform_regret"] = (dimensions[::2], uniform)
        if self.timed:
            variables["seconds"] = (dimensions[:3], seconds)
        if priors:
            counts = np.full((*shape[:3], len(priors)), np.nan)
            for place, credited in plays.items():
                counts[place] = credited
            variables["plays"] = ((*dimensions[:3], "prior"), counts)
        coordinates = {
            # Variable-length strings: fixed-length ones have no zarr v3 specification.
            "case": np.array(cases, dtype=object),
            "policy": np.array(labels, dtype=object),
            "replicate": np.arange(replicates),
            "round": np.arange(1, horizon + 1),
            **({"prior": np.array(priors, dtype=object)} if priors else {}),
        }
        return xarray.Dataset(variables, coords=coordinates, attrs=self._attributes(seed))

    def _attributes(self, seed: int) -> dict[str, Any]:
        from scalable_bandits import __version__

        return {
            "study": self.name, "title": self.title, "source": self.source, "unit": self.unit, "seed": seed,
            "measure": self.measure, "version": __version__, "python": platform.python_version(),
        }  # fmt: skip


def _some(name: str, chosen: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The chosen names in the order in which they are known; all if none is given."""
    if chosen is None:
        return list(known)
    if isinstance(chosen, str) or not chosen:
        checks.refuse(name, chosen, f"a list of some of {', '.join(known)}")
    for given in chosen:
        if given not in known:
            checks.refuse(name, given, nearest(given, known))
    return [label for label in known if label in chosen]


def uniform_regret(environment: Environment, horizon: int) -> float:
    """Mean regret a round of uniform play on what is available, over `horizon` rounds."""
    if not environment.changing and environment.available(1) is None:
        return float(environment.optimum() - environment.table().mean())
    total = 0.0
    for t in range(1, horizon + 1):
        available = environment.available(t)
        values = environment.table(t) if available is None else environment.table(t)[available]
        total += float(values.max() - values.mean())
    return total / horizon
