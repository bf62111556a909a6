"""Studies: every policy plays every replicate of every case."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from scalable_bandits import analysis, checks
from scalable_bandits.checks import Floats
from scalable_bandits.execution import resolve
from scalable_bandits.identity import function_name
from scalable_bandits.policies import Policy
from scalable_bandits.randomness import derived_seed
from scalable_bandits.runs.readable import Text
from scalable_bandits.runs.thinning import Keep, Thinning, checked
from scalable_bandits.specification import differences, nearest, specify
from scalable_bandits.studies import files, layout
from scalable_bandits.studies.growth import AXES, HORIZON, KEEP, LISTS, TABLES, Value, runs_of
from scalable_bandits.studies.layout import checked_axes, checked_horizons
from scalable_bandits.studies.runs import Player, Problem, Replicate, RunTask, StudyIncomplete, play_all
from scalable_bandits.studies.stored import StudyResults, refuse_another, study_record
from scalable_bandits.studies.summary import Comparison, sentences

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
        Title, by default the name, and source in the literature.
    cases
        Names of the cases; the figure has a panel for each.
    build
        Function that makes the problem of a replicate.
    horizon, replicates
        Number of rounds and of replicates in the source; defaults of `run`. A list of horizons makes of each policy
        that depends on the horizon one for each; all others are played once, up to the longest.
    axes
        Values (at least two numbers or words) of each axis by its name. `build` finds them in `Replicate.values`. An
        axis on which an environment depends makes a case for each value, any other a policy for each value.
    keep
        Rounds in the result and the stores, as in `simulate`.
    measure
        Regret by which policies are compared: "cumulative", "average", or that of the "best" point played so far.
    unit
        Unit of y.
    duration
        Duration of the default run on two cores, as text.
    family
        Name of the studies that draw the same functions and noise for the cases that they name alike; the study's own
        name if None.
    needs_data
        Whether the study reads measured files.
    starts_clusters, packages
        Whether each run starts a cluster; names of the packages with the study's data (`published.SOURCES`).
    published
        Function that compares a result with published numbers.
    series
        Function that returns further series (rounds,) by name, given a policy that has played all rounds.
    rates
        Function that returns the theoretical growth (k,) of series by name, given a case and rounds (k,).
    timed
        Whether the result has what the runs took, the only numbers that are not functions of the seed.
    expected
        Exponents of the theory by "round" or axis, quantity and policy, which figures show beside the fitted ones.
    cover
        Label of the partitioned policy whose cover is drawn if points have two coordinates.
    labels
        Labels of the policies that are played; all policies of `build` if None.
    seed, on, store, data
        Defaults of `run`.
    specification
        Tables of the study file; None if the study was made in Python.

    Raises
    ------
    ValueError
        If an axis has no usable name or not two different values, or `keep` is not one of those of `simulate`.
    """

    registry: ClassVar[dict[str, Study]] = {}

    name: str
    title: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True), kw_only=True)
    source: str = attrs.field(default="", kw_only=True)
    cases: tuple[str, ...]
    build: Callable[[Replicate], Problem]
    horizon: int | Sequence[int]
    replicates: int
    duration: str = ""
    axes: Mapping[str, Sequence[Value]] = attrs.field(factory=dict, converter=checked_axes, kw_only=True)
    keep: Keep = attrs.field(default=None, converter=checked, kw_only=True)
    family: str | None = None
    measure: str = "cumulative"
    unit: str = "units of y"
    needs_data: bool = False
    starts_clusters: bool = False
    packages: tuple[str, ...] = ()
    published: Callable[[xarray.Dataset], list[Comparison]] | None = None
    series: Callable[[Policy], Mapping[str, Floats]] | None = None
    rates: Callable[[str, Floats], Mapping[str, Floats]] | None = None
    timed: bool = False
    expected: Mapping[str, Mapping[str, Mapping[str, float]]] = attrs.field(factory=dict, kw_only=True)
    cover: str | None = None
    labels: Sequence[str] | None = None
    seed: int = 0
    on: str | None = None
    store: str | None = None
    data: str | None = None
    specification: dict[str, Any] | None = attrs.field(default=None, repr=False)

    @property
    def horizons(self) -> tuple[int, ...]:
        """Horizons in ascending order, also a single one."""
        return checked_horizons("horizon", self.horizon)

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
        return cls(**files.study_arguments(data, function, classes))

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
        return StudyResults(record, place).dataset()

    def run(
        self,
        *,
        replicates: int | None = None,
        horizon: int | Sequence[int] | None = None,
        seed: int | None = None,
        cases: Sequence[str] | None = None,
        policies: Sequence[str] | None = None,
        axes: Mapping[str, Sequence[Value]] | None = None,
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
            Names of the cases and of the policies to play, with the value of an axis or without; all if not given. No
            number depends on the choice.
        axes
            Values of axes to play, by name, others than the study's among them; all of the study's if not given.
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
            ``plays`` (..., prior) if a policy has several priors; if the study is timed ``seconds`` (case, policy,
            replicate) and the costs that `studies.runs` measures. The attribute ``specification`` has the tables as
            JSON. Axes are coordinates of the cases or policies that have their values, beside ``case_name`` and
            ``policy_name``. With a store: all that is in it, lazily. Of a study that keeps some rounds,
            ``cumulative_regret`` sums the regrets of all.

        Raises
        ------
        ValueError, DataMissing
            If a number is out of range, a name is unknown, or stored runs cannot be continued to a longer horizon since
            something depends on it; if a measured file is missing.
        StudyIncomplete, ClusterError, SpecificationDiffers
            If runs failed twice (all others are complete); if the cluster is lost; if the store has another study.
        """
        checks.forget_warnings()
        data, horizon = _default(data, self.data), _default(horizon, self.horizon)
        count = checks.integer("replicates", _default(replicates, self.replicates), 1)
        horizons = checked_horizons("horizon", horizon)
        seed = checks.integer("seed", _default(seed, self.seed), 0)
        data = None if data is None else Path(data).resolve()
        on, store = _default(on, self.on), _default(store, self.store)
        if on is not None:
            resolve(on)  # refuse an invalid executor or store before anything is made
        stored = None if store is None else StudyResults.find(store)
        best = self.measure == analysis.BEST
        from_all = self.series is not None or self.published is not None  # computed from all rounds
        wanted = "all" if from_all or (best and self.keep is None) else self.keep
        keep = layout.keep_of(wanted, horizons[-1], stored)
        if best and len(Thinning(keep, horizons).rounds(1, horizons[-1] + 1)) < horizons[-1]:
            checks.refuse("keep", keep, 'one that keeps all rounds where measure = "best", which is of one of them')
        play = Player(self.build, self.series, keep, horizons, self.timed, self.name)

        made: dict[Replicate, Any] = {}  # specifications of problems, with which what is stored is compared

        def problem_at(case: str, rounds: int, values: Mapping[str, Value]) -> Problem:
            replicate = self.replicate(case, 0, rounds, seed, data, values)
            problem = play.problem(replicate)
            if stored is not None:
                made[replicate], _ = specify(problem._asdict())
            return problem

        choice = layout.LayoutChoice(cases, policies, axes or {})
        chosen = layout.lay_out(problem_at, self.cases, self.labels, self.axes, horizon, choice)
        record = {
            **self._attributes(seed, chosen.axes), **chosen.record, "replicates": count,
            "data": None if data is None else str(data), **({} if keep == "all" else {KEEP: keep}),
        }  # fmt: skip
        if stored is not None and stored[HORIZON] < record[HORIZON]:
            layout.check_longer(problem_at, stored, record, chosen.axes, str(store))
        results = StudyResults.take_up(record, {**chosen.order, "priors": chosen.priors}, store)
        every = self._tasks(results, chosen, count, seed, data)
        if stored is not None:
            _check_stored(results, every, lambda each: made.get(each) or specify(play.problem(each)._asdict())[0])
        results.write()
        tasks = [task for task in every if results.lacks(task.run, task.replicate.horizon)]
        failed = play_all(self.name, play, tasks, len(every), results, on, progress)
        found = results.dataset()
        if failed:
            raise StudyIncomplete(self.name, failed, len(every), found, store is not None)
        return found

    def _tasks(
        self, results: StudyResults, chosen: layout.Layout, count: int, seed: int, data: Path | None
    ) -> list[RunTask]:
        """Return the chosen runs, those of one replicate of a case together."""
        cases, policies = (list(results.record[name]) for name in LISTS)
        tasks = []
        for case, number, policy in itertools.product(chosen.cases, range(count), chosen.policies):
            if (case.label, policy.name) not in chosen.absent:
                values, rounds = chosen.values(case, policy), chosen.rounds(policy)
                replicate = self.replicate(case.name, number, rounds, seed, data, values)
                run = cases.index(case.label), policies.index(policy.label), number
                tasks.append(RunTask(run, replicate, policy.name, (case.label, policy.label)))
        return tasks

    def summary(self, result: xarray.Dataset | str | Path | None = None) -> str:
        """Say in at most ten lines what the study found and how sure it is, at its longest horizon.

        A policy is not clearly worse than the best one if the 95 % interval of their paired differences, replicate by
        replicate, contains 0. The best one was selected on the same data, so that this is weak evidence where many
        policies are compared.

        Parameters
        ----------
        result
            Result of `run` or `open`, also an unfinished one, or folder or URL of the study. Default: the study's
            store.

        Returns
        -------
        str
            Size and unfinished runs; of each case (the first five) the best policy, its regret with its standard error,
            and those not clearly worse; of several cases the mean ranks; and, of a finished study of its own horizon,
            how many published numbers are within 2 standard errors.

        Raises
        ------
        ValueError
            If the result is not one of this study, or is not given and the study has no store.
        FileNotFoundError
            If there is no study at the place.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> study = sb.Study.load("janz2020-table1")
        >>> result = study.run(replicates=2, horizon=20, cases=["d = 1"])
        >>> study.summary(result).splitlines()[0].rpartition(": ")[2]
        '1 case, 2 policies, 2 replicates, 20 rounds'
        """
        result = _default(result, self.store)
        if isinstance(result, str | Path):
            result = Study.open(result)
        made_by = getattr(result, "attrs", {}).get("study")
        if result is None or made_by != self.name:
            allowed = f"a result of the study {self.name!r}, or its folder or URL"
            checks.refuse("result", result if made_by is None else f"one of {made_by!r}", allowed)
        needed = [name for name in ("regret", "cumulative_regret", "uniform_regret") if name in result]
        whole = result[needed].load()
        done = analysis.complete(whole) | ~analysis.present(whole)[..., None]
        own = done.all() and analysis.horizons_of(whole) == list(self.horizons)
        compared = self.published(result) if own and self.published is not None else []
        return Text("\n".join(sentences(whole, compared)))

    def replicate(
        self, case: str, number: int, horizon: int, seed: int = 0, data: str | Path | None = None,
        values: Mapping[str, Value] | None = None,
    ) -> Replicate:  # fmt: skip
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
        values
            Value of each axis; the first if not given.
        """
        own = derived_seed(seed, self.family or self.name, case, number)
        given = {name: of_axis[0] for name, of_axis in self.axes.items()} | dict(values or {})
        return Replicate(case, number, own, horizon, None if data is None else Path(data), tuple(given.items()))

    def decisive(self) -> dict[str, Any] | None:
        """Return the tables that determine the numbers, except sizes and seed; None if the study was made in Python."""
        if self.specification is None:
            return None
        return {key: value for key, value in self.specification.items() if key not in files.NOT_DECISIVE}

    def _attributes(self, seed: int, axes: Mapping[str, Sequence[Value]]) -> dict[str, Any]:
        """Return the attributes of the study's dataset."""
        from scalable_bandits import __version__

        made: dict[str, Any] = {"build": function_name(self.build)}
        if self.specification is not None:
            made = {TABLES: self.decisive()}
            made[TABLES] |= {AXES: {name: list(values) for name, values in axes.items()}} if axes else {}
        return {
            "study": self.name, "title": self.title, "source": self.source, "unit": self.unit, "seed": seed,
            "measure": self.measure, "version": __version__, "python": platform.python_version(),
            "timed": self.timed, **({} if self.family is None else {"family": self.family}),
            **made,
        }  # fmt: skip


def _check_stored(results: StudyResults, tasks: Sequence[RunTask], specified: Callable[[Replicate], Any]) -> None:
    """Refuse to go on if the first stored run of a policy in a case was made by something else than it would be now."""
    known, rounds, replicate, lines = set(), runs_of(results.record), None, list[str]()
    for task in tasks:
        found = None if task.run[:2] in known else results.specification(task.run)
        if found is None:
            continue
        known.add(task.run[:2])
        if replicate != task.replicate._replace(horizon=rounds[task.run]):
            replicate = task.replicate._replace(horizon=rounds[task.run])
            made = specified(replicate)
        lines += differences(found.get("environment"), made["environment"], f"{task.labels[0]}, environment")
        lines += differences(found.get("policy"), made["policies"][task.policy], f"{task.labels[0]}, {task.policy}")
    refuse_another(results.place, list(dict.fromkeys(lines)))


def _default(given: Any, default: Any) -> Any:
    return default if given is None else given
