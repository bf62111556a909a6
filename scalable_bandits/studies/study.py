"""What a study is: cases x policies x replicates, and how it is run."""

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
from scalable_bandits.specification import nearest
from scalable_bandits.store.studies import StudyInMemory, StudyStore, study_record
from scalable_bandits.studies import files
from scalable_bandits.studies.runs import Played, Player, Problem, Replicate, StudyIncomplete, Task, play_all
from scalable_bandits.studies.summary import Comparison

if TYPE_CHECKING:
    import xarray


@attrs.frozen
class Study:
    """A comparison of policies: a named one, one of a file, or one made in Python.

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
    labels
        Policies that are played, by name; all that `build` makes if None.
    seed, on, store, data
        Defaults of `run`.
    specification
        Tables of the study file that says the same; None of a study that is made of functions.
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
    labels: Sequence[str] | None = None
    seed: int = 0
    on: str | None = None
    store: str | None = None
    data: str | None = None
    specification: dict[str, Any] | None = attrs.field(default=None, repr=False)

    def register(self) -> Self:
        """Make the study known by its name."""
        Study.registry[self.name] = self
        return self

    @classmethod
    def load(cls, name: str | Path, *, function: Callable[[Any], float] | None = None) -> Study:
        """Study of a name, or of a study file (TOML).

        Parameters
        ----------
        name
            Of a named study, or the path of a file: what ends in ".toml", or is a `Path`.
        function
            What environments of the type FunctionEnvironment evaluate: no file brings code of its own.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If there is no study of this name (the message has the nearest), or the file is not right: the message names
            the key.
        """
        if isinstance(name, Path) or name.endswith(".toml"):
            return cls.from_dict(files.read(name), function=function)
        if name not in cls.registry:
            checks.refuse("study", name, f"{nearest(name, cls.registry)}; or a file NAME.toml")
        return cls.registry[name]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, function: Callable[[Any], float] | None = None) -> Study:
        """Study of the tables of a study file, given as dicts; kernels, spaces and noises may be values themselves.

        Parameters
        ----------
        data
            The tables.
        function
            As in `load`.

        Raises
        ------
        ValueError
            If a key or a name is unknown or missing, or a value is of the wrong kind.

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
        return cls(**files.fields(files.simple(data), function))

    def to_dict(self) -> dict[str, Any]:
        """Tables from which `from_dict` makes this study; ValueError of one that is made of functions."""
        if self.specification is None:
            checks.refuse("study", self.name, "a named study, or one of a file: this one is made of functions")
        return dict(self.specification)

    def to_toml(self) -> str:
        """Text of a study file; of a named study with its comments."""
        tables = self.to_dict()
        own = Path(__file__).parent / f"{self.name}.toml"
        if self.name in self.registry and own.is_file() and files.read(own) == tables:
            return own.read_text(encoding="utf-8")
        return files.text(tables)

    @staticmethod
    def open(place: str | Path) -> xarray.Dataset:
        """The study that `run` keeps in a store, as far as it has come; lazy, a chunk a run.

        Parameters
        ----------
        place
            Folder or URL of the study.

        Returns
        -------
        xarray.Dataset
            As of `run`, NaN where nothing was played yet.

        Raises
        ------
        FileNotFoundError
            If there is none.
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
        replicates, horizon
            How many, how long; the study's if not given.
        seed
            Every number is a function of it and the study's name, wherever it runs; the study's if not given.
        cases, policies
            Some of them, by name; all if not given. What is left out changes no number of the others.
        data
            Folder of the measured files, for a study that reads them; workers read them there too.
        on
            Where runs are played: None (this process), "threads:4" (its threads), "local:4" (worker processes), the
            address of a Dask scheduler, a `distributed.Client`, or a recipe file (``cluster/``).
        store
            Folder (or URL) of the study: a zarr group with a store for every run, written by whoever plays it. If it
            has runs of this study already, only what is missing is played. (`data`, `on`, `store`: also by the file.)
        progress
            Show a progress bar.

        Returns
        -------
        xarray.Dataset
            ``regret``, ``candidate``, ``width``, ``information_gain`` over (case, policy, replicate, round), in units
            of y; ``uniform_regret`` (case, replicate), that of uniform play a round; the study's `series`; ``seconds``
            (case, policy, replicate) of a timed one; of policies with several priors ``plays`` (..., prior). Attribute
            ``specification``: the study file's tables, as JSON. With a store it is lazy.

        Raises
        ------
        ValueError, DataMissing
            If a number is out of its range or a name unknown; a measured file is not there.
        StudyIncomplete, ClusterError, SpecificationDiffers
            If runs failed twice (all others are there); the cluster is lost; the store holds another study.
        """
        count = checks.integer("replicates", _first(replicates, self.replicates), 1)
        rounds = checks.integer("horizon", _first(horizon, self.horizon), 1)
        seed = checks.integer("seed", _first(seed, self.seed), 0)
        data, on, store = _first(data, self.data), _first(on, self.on), _first(store, self.store)
        folder = None if data is None else Path(data).resolve()
        _ = on is None or resolve(on)  # refused before anything is made
        chosen = _some("cases", cases, self.cases)
        runs = itertools.product(range(len(chosen)), range(count))
        jobs = {(c, i): self.replicate(chosen[c], i, rounds, seed, folder) for c, i in runs}
        player = Player(self.build, self.series)
        _ = store is None or StudyStore.check_place(store)
        record = {
            **self._attributes(seed), "timed": self.timed, "cases": chosen, "replicates": count, "horizon": rounds,
            "policies": self._labels(policies, player.labels(jobs[0, 0])),
            "data": None if folder is None else str(folder), **self._kept_tables(),
        }  # fmt: skip
        kept = StudyInMemory(record) if store is None else StudyStore.take_up(store, record)
        failed = self._play(player, jobs, kept, on, progress)
        if failed:
            raise StudyIncomplete(self.name, failed, kept.dataset(), store is not None)
        return kept.dataset()

    def replicate(
        self, case: str, number: int, horizon: int, seed: int = 0, data: str | Path | None = None
    ) -> Replicate:
        """A replicate of a case, with the seed that `run` gives it.

        Parameters
        ----------
        case
            Name of one of `cases`.
        number
            Of the replicate, from 0.
        horizon
            Rounds.
        seed
            Of the study.
        data
            Folder of measured files.
        """
        own = derived_seed(seed, self.name, case, number)
        return Replicate(case, number, own, horizon, None if data is None else Path(data))

    def _play(
        self, player: Player, jobs: Mapping[tuple[int, int], Replicate], kept: StudyInMemory | StudyStore, on: Any,
        progress: bool,
    ) -> dict[str, str]:  # fmt: skip
        """Play the runs that are missing; tells which ones failed."""
        labels = kept.record["policies"]
        tasks = [
            Task(run, jobs[run[0], run[2]], labels[run[1]], kept.place_of(run))
            for run in kept.missing()
            if (run[0], run[2]) in jobs
        ]
        total = len(jobs) * len(labels)
        with (
            blas_threads(),  # here, for runs on threads: threadpoolctl heeds the first thread that asks, and no other
            executing(on, player, self.name) as execution,
            progress_bar(progress, self.name, total, total - len(tasks), execution.dashboard, " runs") as advance,
        ):

            def keep(task: Task, played: Played) -> None:
                kept.keep(task.run, played.uniform, played.seconds, played.series, played.plays)
                advance(1)

            try:
                return play_all(execution, self.name, tasks, keep)
            finally:
                kept.close()

    def _labels(self, chosen: Sequence[str] | None, made: Sequence[str]) -> list[str]:
        """Policies to play, of those that were made."""
        return _some("policies", chosen, _some("policies", self.labels, made))

    def _kept_tables(self) -> dict[str, Any]:
        return {} if self.specification is None else {"specification": self.decisive()}

    def decisive(self) -> dict[str, Any] | None:
        """Tables of the study file that decide its numbers, sizes and seed apart; None of one made of functions."""
        if self.specification is None:
            return None
        return {key: value for key, value in self.specification.items() if key not in files.HOW}

    def _attributes(self, seed: int) -> dict[str, Any]:
        """What the study is, for its dataset."""
        from scalable_bandits import __version__

        return {
            "study": self.name, "title": self.title, "source": self.source, "unit": self.unit, "seed": seed,
            "measure": self.measure, "version": __version__, "python": platform.python_version(),
        }  # fmt: skip


def _first(given: Any, usual: Any) -> Any:
    return usual if given is None else given


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
