"""Studies: every policy plays every replicate of every case."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.execution import executing, resolve
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.blas import blas_threads
from scalable_bandits.progress import progress_bar
from scalable_bandits.randomness import derived_seed
from scalable_bandits.specification import differences, function_name, nearest, specify
from scalable_bandits.store.studies import StudyInMemory, StudyStore, study_record
from scalable_bandits.studies import files
from scalable_bandits.studies.runs import Player, Problem, Replicate, RunSummary, StudyIncomplete, Task, play_all
from scalable_bandits.studies.summary import Comparison

if TYPE_CHECKING:
    import xarray


@attrs.frozen
class Study:
    """Comparison of policies, read from a study file or made in Python.

    Attributes
    ----------
    name
        Name of the study.
    title, source
        Title, the name if there is none, and source in the literature.
    cases
        Names of the cases; the figure has a panel for each.
    build
        Function that makes the problem of a replicate.
    horizon, replicates
        Number of rounds and of replicates in the source; defaults of `run`.
    measure
        Regret shown in the figure: "cumulative" or "average".
    unit
        Unit of y.
    duration
        Duration of the default run on two cores, as text.
    family
        Name of the studies that draw the same functions and noise for the cases that they name alike; the study's own
        name if None.
    needs_data
        Whether the study reads measured files.
    published
        Function that compares a result with published numbers.
    series
        Function that returns further series (rounds,) by name, given a policy that has played all rounds.
    rates
        Function that returns the theoretical growth (k,) of series by name, given a case and rounds (k,).
    timed
        Whether the result has the run times, the only numbers that are not functions of the seed.
    cover
        Label of the partitioned policy whose cover is drawn if points have two coordinates.
    labels
        Labels of the policies that are played; all policies of `build` if None.
    seed, on, store, data
        Defaults of `run`.
    specification
        Tables of the study file; None if the study was made in Python.
    """

    registry: ClassVar[dict[str, Study]] = {}

    name: str
    title: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True), kw_only=True)
    source: str = attrs.field(default="", kw_only=True)
    cases: tuple[str, ...]
    build: Callable[[Replicate], Problem]
    horizon: int
    replicates: int
    duration: str = ""
    family: str | None = None
    measure: str = "cumulative"
    unit: str = "units of y"
    needs_data: bool = False
    published: Callable[[xarray.Dataset], list[Comparison]] | None = None
    series: Callable[[Policy], Mapping[str, Floats]] | None = None
    rates: Callable[[str, Floats], Mapping[str, Floats]] | None = None
    timed: bool = False
    cover: str | None = None
    labels: Sequence[str] | None = None
    seed: int = 0
    on: str | None = None
    store: str | None = None
    data: str | None = None
    specification: dict[str, Any] | None = attrs.field(default=None, repr=False)

    def register(self) -> Self:
        """Make the study available by its name."""
        Study.registry[self.name] = self
        return self

    @classmethod
    def load(
        cls, name: str | Path, *, function: Callable[[Any], float] | None = None, classes: Sequence[str] = ()
    ) -> Study:
        """Return the study of a name, or read a study file (TOML).

        Parameters
        ----------
        name
            Name of a study, or path of a study file: a `Path`, or text that ends in ".toml".
        function
            Function that environments of the type FunctionEnvironment evaluate; a study file cannot contain code.
        classes
            Policies, environments, kernels and spaces of the user's that the file has, each as "module:Class". They
            are imported, and nothing else that a file names is.

        Raises
        ------
        FileNotFoundError
            If the file does not exist.
        ValueError
            If no study has this name (the message has the nearest name), or the file is invalid (the message names the
            key).
        """
        if isinstance(name, Path) or name.endswith(".toml"):
            return cls.from_dict(files.read(name), function=function, classes=classes)
        if name not in cls.registry:
            checks.refuse("study", name, f"{nearest(name, cls.registry)}; or a file NAME.toml")
        return cls.registry[name]

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, function: Callable[[Any], float] | None = None, classes: Sequence[str] = ()
    ) -> Study:
        """Make a study from the tables of a study file; kernels, spaces and noises in them may be objects.

        Parameters
        ----------
        data
            Tables of the study file, as dicts.
        function
            Function that environments of the type FunctionEnvironment evaluate.
        classes
            Classes of the user's, as in `load`.

        Raises
        ------
        ValueError
            If a key or a name is unknown or missing, or a value is invalid.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> line = sb.Grid([[0.0, 1.0]], 50)
        >>> study = sb.Study.from_dict({
        ...     "name": "mine", "horizon": 100, "replicates": 3,
        ...     "environments": {"rough": {"type": "GPSample", "space": line, "kernel": sb.Matern(0.1, nu=1.5)}},
        ...     "policies": {"EI": {"type": "GPEI"}, "random": {"type": "RandomSearch"}},
        ...     "shared": {"policies": {"noise": "exact", "regularization": "noise variance"}},
        ... })
        >>> study.run(horizon=5).sizes["policy"]
        2
        """
        return cls(**files.study_arguments(files.plain_tables(data), function, classes))

    def to_dict(self) -> dict[str, Any]:
        """Return the tables from which `from_dict` makes this study; ValueError if it was made in Python."""
        if self.specification is None:
            checks.refuse("study", self.name, "a named study, or one read from a file: this one was made in Python")
        return dict(self.specification)

    def to_toml(self) -> str:
        """Return the text of the study file, for a named study with its comments."""
        tables = self.to_dict()
        own = Path(__file__).parent / f"{self.name}.toml"
        if self.name in self.registry and own.is_file() and files.read(own) == tables:
            return own.read_text(encoding="utf-8")
        return files.text(tables)

    @staticmethod
    def open(place: str | Path) -> xarray.Dataset:
        """Open the study that `run` keeps in a store, finished or not, as a lazy dataset with a chunk for each run.

        Parameters
        ----------
        place
            Folder or URL of the study.

        Returns
        -------
        xarray.Dataset
            Result as returned by `run`, NaN where nothing has been played yet.

        Raises
        ------
        FileNotFoundError
            If there is no study at `place`.
        """
        record = study_record(place)
        if record is None:
            raise FileNotFoundError(f"store: there is no study in {place}")
        return StudyStore(place, record).dataset()

    def run(
        self,
        *,
        replicates: int | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        cases: Sequence[str] | None = None,
        policies: Sequence[str] | None = None,
        data: str | Path | None = None,
        on: Any = None,
        store: str | Path | None = None,
        progress: bool = False,
    ) -> xarray.Dataset:
        """Play every policy in every replicate of every case.

        Parameters
        ----------
        replicates, horizon, seed
            Number of replicates, rounds of each run, and seed of all random numbers; the study's if not given.
        cases, policies
            Names of the cases and labels of the policies to play; all if not given. No number depends on the choice.
        data
            Folder of the measured files, for a study that reads them. Workers read from the same folder.
        on
            Executor of the runs: None (this process), "threads:4" (its threads), "local:4" (worker processes), the
            address of a Dask scheduler, a `distributed.Client`, or a recipe file (``cluster/``).
        store
            Folder or URL: a zarr group with a store for each run, written by the worker that plays it. What is complete
            is not played again: cases, policies, replicates and rounds may be added later.
        progress
            Whether to show a progress bar.

        Returns
        -------
        xarray.Dataset
            ``regret``, ``candidate``, ``width``, ``information_gain`` over (case, policy, replicate, round), in units
            of y; ``uniform_regret`` (case, replicate), the regret of uniform play per round; the study's `series`;
            ``seconds`` (case, policy, replicate) if the study is timed; ``plays`` (..., prior) if a policy has several
            priors. The attribute ``specification`` has the tables as JSON. With a store: all that is in it, lazily.

        Raises
        ------
        ValueError, DataMissing
            If a number is out of range, a name is unknown, or stored runs cannot be continued to a longer horizon since
            something depends on it; if a measured file is missing.
        StudyIncomplete, ClusterError, SpecificationDiffers
            If runs failed twice (all others are complete); if the cluster is lost; if the store has another study.
        """
        count = checks.integer("replicates", _default(replicates, self.replicates), 1)
        rounds = checks.integer("horizon", _default(horizon, self.horizon), 1)
        seed = checks.integer("seed", _default(seed, self.seed), 0)
        data, on, store = _default(data, self.data), _default(on, self.on), _default(store, self.store)
        folder = None if data is None else Path(data).resolve()
        if on is not None:
            resolve(on)  # refuse an invalid executor or store before anything is made
        StudyStore.check_place(store)
        chosen = _selected("cases", cases, self.cases)
        pairs = itertools.product(chosen, range(count))
        jobs = {(case, i): self.replicate(case, i, rounds, seed, folder) for case, i in pairs}
        player = Player(self.build, self.series)
        labels = _selected("policies", self.labels, player.labels(jobs[chosen[0], 0]))
        record = {
            **self._attributes(seed), "cases": chosen, "replicates": count, "horizon": rounds,
            "policies": _selected("policies", policies, labels), "data": None if folder is None else str(folder),
        }  # fmt: skip
        results = self._results(store, record, labels)
        failed = self._play(player, jobs, record["policies"], results, on, progress)
        if failed:
            raise StudyIncomplete(self.name, failed, results.dataset(), store is not None)
        return results.dataset()

    def replicate(
        self, case: str, number: int, horizon: int, seed: int = 0, data: str | Path | None = None
    ) -> Replicate:
        """Return a replicate of a case, with the seed that `run` gives it.

        Parameters
        ----------
        case
            Name of the case.
        number
            Number of the replicate, from 0.
        horizon
            Number of rounds.
        seed
            Seed of the study.
        data
            Folder of the measured files.
        """
        own = derived_seed(seed, self.family or self.name, case, number)
        return Replicate(case, number, own, horizon, None if data is None else Path(data))

    def _results(
        self, store: str | Path | None, record: Mapping[str, Any], labels: Sequence[str]
    ) -> StudyInMemory | StudyStore:
        """Return what keeps the results of a study; `labels` is the order of its policies."""
        if store is None:
            return StudyInMemory(record)
        self._check_longer(store, record)
        return StudyStore.take_up(store, record, {"cases": self.cases, "policies": labels})

    def _check_longer(self, store: str | Path, record: Mapping[str, Any]) -> None:
        """Refuse a horizon longer than a store's if its runs cannot go on from where they ended."""
        stored = study_record(store)
        if stored is None or stored["horizon"] >= record["horizon"]:
            return
        lines: list[str] = []
        for case in (case for case in self.cases if case in stored["cases"]):
            short, long = (
                self.build(self.replicate(case, 0, rounds, record["seed"], record["data"]))
                for rounds in (stored["horizon"], record["horizon"])
            )
            pairs: dict[str, tuple[Any, Any]] = {f"{case}, environment": (short.environment, long.environment)}
            labels = [label for label in short.policies if label in stored["policies"]]
            pairs |= {f"{case}, {label}": (short.policies[label], long.policies[label]) for label in labels}
            for name, pair in pairs.items():
                one, other = (specify({name: each})[0][name] for each in pair)
                lines += differences(one, other, name)
        if lines:
            allowed = f"{stored['horizon']:,}, as in {store}, since this depends on it:\n  " + "\n  ".join(lines)
            checks.refuse("horizon", record["horizon"], allowed)

    def _play(
        self, player: Player, jobs: Mapping[tuple[str, int], Replicate], labels: Sequence[str],
        results: StudyInMemory | StudyStore, on: Any, progress: bool,
    ) -> dict[str, str]:  # fmt: skip
        """Play the missing runs; return the tracebacks of those that failed."""
        cases, policies = (results.record[name] for name in ("cases", "policies"))
        tasks = [
            Task((c, p, i), jobs[cases[c], i], policies[p], results.place_of((c, p, i)))
            for c, p, i in results.missing(next(iter(jobs.values())).horizon)
            if (cases[c], i) in jobs and policies[p] in labels
        ]
        total = len(jobs) * len(labels)
        with (
            blas_threads(),  # set before any thread starts a run: threadpoolctl keeps the limits of the first thread
            executing(on, player, self.name) as execution,
            progress_bar(progress, self.name, total, total - len(tasks), execution.dashboard, " runs") as advance,
        ):

            def keep(task: Task, summary: RunSummary) -> None:
                results.keep(task.run, *summary)
                advance(1)

            try:
                return play_all(execution, self.name, tasks, keep)
            finally:
                results.close()

    def decisive(self) -> dict[str, Any] | None:
        """Return the tables that determine the numbers, except sizes and seed; None if the study was made in Python."""
        if self.specification is None:
            return None
        return {key: value for key, value in self.specification.items() if key not in files.NOT_DECISIVE}

    def _attributes(self, seed: int) -> dict[str, Any]:
        """Return the attributes of the study's dataset."""
        from scalable_bandits import __version__

        made: dict[str, Any] = {"specification": self.decisive()}
        if self.specification is None:
            made = {"build": function_name(self.build)}
        return {
            "study": self.name, "title": self.title, "source": self.source, "unit": self.unit, "seed": seed,
            "measure": self.measure, "version": __version__, "python": platform.python_version(),
            "timed": self.timed, **({} if self.family is None else {"family": self.family}),
            **made,
        }  # fmt: skip


def _default(given: Any, default: Any) -> Any:
    return default if given is None else given


def _selected(name: str, chosen: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the chosen names in the order of the known ones; all known names if `chosen` is None."""
    if chosen is None:
        return list(known)
    if isinstance(chosen, str) or not chosen:
        checks.refuse(name, chosen, f"a list of names out of {', '.join(known)}")
    for given in chosen:
        if given not in known:
            checks.refuse(name, given, nearest(given, known))
    return [label for label in known if label in chosen]
