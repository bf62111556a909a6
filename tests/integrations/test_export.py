"""Exported runs: tables in files, and studies of Optuna."""

from __future__ import annotations

import itertools
import json
import math
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import hypothesis
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
import pyarrow.parquet
import pytest
from cases.command import command
from cases.drawn_spaces import Plan, plans
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import scalable_bandits as sb
from scalable_bandits.integrations import tables
from scalable_bandits.integrations.optuna_study import distribution_of, parameter_of

SPACE = {
    "rate": sb.Real(1e-3, 1.0, log=True),
    "kind": sb.Categorical(["net", None, True]),
    "depth": sb.Integer(1, 9, when={"kind": "net"}),
    "batch": sb.Ordinal([16, 32, 64, 128]),
    "momentum": sb.Ordinal([0.0, 0.1, 0.2, 0.3, 0.4]),
    "value": sb.Categorical([math.sin, math.cos]),  # functions, of which a store has the names
}


def loss(setting: dict[str, Any]) -> float:
    if setting["rate"] > 0.3:
        raise OSError("too hot")
    return abs(math.log10(setting["rate"]) + 2.0) + 0.1 * abs(setting.get("depth", 20) - 4)


@pytest.fixture
def found(tmp_path: Path) -> sb.TuningResult:
    """Result of a stored run with failures."""
    result = sb.minimize(
        loss, sb.RandomSearch(sb.SearchSpace(SPACE), seed=1, minimize=True), 25, store=tmp_path / "run"
    )
    assert 0 < len(result.failed) < 25
    return result


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


# ---- tables


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_evaluations(found: sb.TuningResult, tmp_path: Path, suffix: str) -> None:
    """It has the columns of `found.table()`; functions are their names, and values of several types texts."""
    path = tmp_path / f"run{suffix}"
    assert sb.export(tmp_path / "run", path) == 25
    table, expected = read(path), found.table()
    assert list(expected) == [name for name in table if name in expected]
    for name in ("rate", "depth", "batch", "momentum", "value_", "seconds"):
        np.testing.assert_array_equal(table[name].astype(float), expected[name].astype(float))
    names = [
        value if isinstance(value, float) and value != value else f"math:{value.__name__}"
        for value in expected["value"]
    ]
    assert table["value"].tolist() == names
    kinds = ["" if value is None else str(value) for value in expected["kind"]]
    assert table["kind"].fillna("").tolist() == kinds
    assert table["error"].fillna("").tolist() == expected["error"].tolist()
    assert table["evaluation"].tolist() == expected.index.tolist()
    by_ticket = {ticket.number: ticket for ticket in found.tickets}
    for _, row in table.iterrows():
        ticket = by_ticket[row["ticket"]]
        assert (row["state"], row["worker"]) == (ticket.state, ticket.where)
        assert pd.Timestamp(row["changed"]).timestamp() == pytest.approx(ticket.changed, abs=1e-3)


@pytest.mark.parametrize("constraints", [None, {"cost": sb.AtMost(1.0)}])
def test_a_table_of_several_outputs(tmp_path: Path, constraints: Any) -> None:
    """Its columns are those of `found.table()`, of each objective one."""

    def measure(setting: dict[str, Any]) -> dict[str, float]:
        cost = {} if constraints is None else {"cost": 2.0 * setting["x"]}
        return {"loss": setting["x"], "speed": 1.0 - setting["x"], **cost}

    given: Any = {"objectives": {"loss": "minimize", "speed": "maximize"}, "constraints": constraints}
    result = sb.minimize(measure, {"x": sb.Real(0.0, 1.0)}, 8, **given, store=tmp_path / "run")
    sb.export(tmp_path / "run", tmp_path / "run.csv")
    columns = ["x", "loss", "speed", *(["cost", "feasible"] if constraints else []), "error"]
    expected = result.table()[columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "run.csv", keep_default_na=False)[columns], expected)


def test_a_table_is_there_whole_or_not_at_all(found: sb.TuningResult, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    sb.export(tmp_path / "run", path)
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"^to: the folder .*nowhere does not exist; make it"):
        sb.export(tmp_path / "run", tmp_path / "nowhere" / "run.csv")
    with pytest.raises(FileExistsError, match=r"^to: .*run\.csv exists already"):
        sb.export(tmp_path / "run", path)

    def blocks() -> Any:
        yield pd.DataFrame({"a": [1]})
        raise OSError("no more")

    for suffix in tables.SUFFIXES:
        with pytest.raises(OSError, match="no more"):
            tables.write(blocks(), tmp_path / f"run{suffix}", overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "run.csv"]
    assert path.read_bytes() == before
    assert sb.export(tmp_path / "run", path, overwrite=True) == 25


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rounds_of_a_simulation(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks, which are row groups; also of a run that keeps some rounds only."""
    monkeypatch.setattr(tables, "BLOCK", 8)
    grid = sb.Grid([[0, 1], [0, 2]], 3)
    for keep in ("all", 5):
        store, path = tmp_path / f"{keep}", tmp_path / f"{keep}{suffix}"
        run = sb.simulate(sb.RandomSearch(grid), sb.TableEnvironment(grid, np.arange(9.0)), 30, store=store, keep=keep)
        expected = run.dataset()
        assert sb.export(store, path) == len(run)
        table = read(path)
        np.testing.assert_array_equal(table["round"], expected["round"])
        np.testing.assert_array_equal(table[["x0", "x1"]], grid.points(expected["candidate"].to_numpy()))
        for name in ("candidate", "y", "value", "regret", "cumulative_regret"):
            np.testing.assert_array_equal(table[name], expected[name])
        if suffix == ".parquet":
            assert pyarrow.parquet.ParquetFile(path).num_row_groups == math.ceil(len(run) / 8)


def test_rounds_of_a_recording(tmp_path: Path) -> None:
    """By the names of its space."""
    space = sb.SearchSpace({"round": sb.Integer(1, 9), "kind": sb.Categorical(["a", "b"])})
    policy = sb.RandomSearch(space)
    with sb.record(policy, tmp_path / "run"):
        for _ in range(5):
            policy.tell(policy.ask(), 1.0)
        policy.ask()
    assert sb.export(tmp_path / "run", tmp_path / "run.csv") == 5
    table = read(tmp_path / "run.csv")
    assert table["round_"].tolist() == [1, 2, 3, 4, 5]
    settings = [space.setting(point) for point in sb.ObservationStore.open(tmp_path / "run").read(names=["x"])["x"]]
    assert table[["round", "kind"]].to_dict("records") == settings
    policy = sb.RandomSearch(sb.Pool.write(tmp_path / "pool", np.eye(3), progress=False))
    with sb.record(policy, tmp_path / "of a pool"):
        policy.tell([2, 1], [1.0, 2.0])
    (table,) = tables.rounds(sb.ObservationStore.open(tmp_path / "of a pool"))
    assert table["candidate"].tolist() == [2, 1]


@pytest.mark.slow
def test_rounds_of_a_study(tmp_path: Path) -> None:
    """The long table of its dataset."""
    study = sb.Study.load("zhou2021-abrupt")
    study.run(replicates=2, horizon=20, store=tmp_path / "study")
    expected = sb.Study.open(tmp_path / "study")
    for suffix in (".csv", ".parquet"):
        assert sb.export(tmp_path / "study", tmp_path / f"long{suffix}") == expected["regret"].size
        table = read(tmp_path / f"long{suffix}").set_index(["case", "policy", "replicate", "round"])
        for name in ("regret", "candidate", "width"):
            np.testing.assert_array_equal(table[name].to_xarray().reindex_like(expected[name]), expected[name])


# ---- Optuna


def opened(to: Any, name: str = "run") -> optuna.Study:
    storage = to if "://" in str(to) else JournalStorage(JournalFileBackend(str(to)))
    return optuna.load_study(study_name=name, storage=storage)


def text_of(value: Any) -> Any:
    return f"math:{value.__name__}" if callable(value) else value


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.sampled(2)
def test_a_study_of_optuna(found: sb.TuningResult, tmp_path: Path, journal: bool) -> None:
    """A trial for each evaluation, once, however often it is exported."""
    to = tmp_path / "runs.log" if journal else f"sqlite:///{tmp_path}/runs.db"
    assert sb.export(tmp_path / "run", to) == sb.export(tmp_path / "run", to) == 25
    study = opened(to)
    assert study.direction.name == "MINIMIZE"
    assert study.user_attrs["policy"] == "RandomSearch"
    assert len(study.trials) == 25
    rows = zip(study.trials, found.tickets, found.evaluations(), strict=True)  # one at a time: asked as they end
    for trial, ticket, evaluation in rows:
        assert trial.params == {name: text_of(value) for name, value in evaluation.x.items()}
        assert trial.distributions["rate"] == FloatDistribution(1e-3, 1.0, log=True)
        assert trial.distributions["kind"] == CategoricalDistribution(["net", None, True])
        assert trial.distributions.get("depth", IntDistribution(1, 9)) == IntDistribution(1, 9)
        assert trial.state == (TrialState.FAIL if evaluation.error else TrialState.COMPLETE)
        assert trial.value == (None if evaluation.error else evaluation.value)
        assert trial.user_attrs.get("error", "") == evaluation.error
        assert trial.datetime_complete.timestamp() == pytest.approx(ticket.changed, abs=1e-3)
        assert trial.datetime_start.timestamp() == pytest.approx(ticket.changed - ticket.seconds, abs=1e-3)
    assert study.best_value == found.measured.y
    assert study.best_params == {name: text_of(value) for name, value in found.measured.x.items()}


@pytest.mark.slow
def test_while_the_run_is_written(tmp_path: Path) -> None:
    """What is in flight is a running trial, which the next export ends."""
    to, gate, seen = f"sqlite:///{tmp_path}/runs.db", threading.Event(), []

    def function(setting: dict[str, Any]) -> float:
        if setting["x"] > 0.5:
            gate.wait(60)
        return setting["x"]

    def callback(run: sb.RunView) -> None:
        if run.number == 1:
            sb.export(tmp_path / "run", to)
            sb.export(tmp_path / "run", tmp_path / "run.csv")
            seen.extend(opened(to).trials)
            gate.set()

    space = sb.SearchSpace({"x": sb.Real(0, 1)})
    policy = sb.RandomSearch(space, seed=3)
    found = sb.maximize(function, policy, 6, parallel=4, store=tmp_path / "run", callbacks=callback)
    states = {trial.state for trial in seen}
    assert states == {TrialState.COMPLETE, TrialState.RUNNING}
    assert {"asked", "running"} & set(read(tmp_path / "run.csv")["state"])
    sb.export(tmp_path / "run", to)
    trials = opened(to).trials
    assert [trial.number for trial in trials] == [trial.user_attrs["ticket"] for trial in trials]
    assert [trial.value for trial in trials] == [ticket.y for ticket in found.tickets]


def test_a_recorded_run_as_a_study(tmp_path: Path) -> None:
    policy = sb.RandomSearch(sb.Box([[0, 1], [0, 2]]))
    with sb.record(policy, tmp_path / "run.zarr"):
        for y in (3.0, 1.0, 2.0):
            policy.tell(policy.ask(), y)
            if y == 1.0:
                policy.tell_failure(policy.ask(), error="broken")
            assert sb.export(tmp_path / "run.zarr", tmp_path / "runs.log") == policy.rounds + policy.failures
    study = opened(tmp_path / "runs.log")
    assert [trial.value for trial in study.trials] == [3.0, 1.0, None, 2.0]
    points = sb.ObservationStore.open(tmp_path / "run.zarr").read(names=["x"])["x"].tolist()
    params = [list(trial.params.values()) for trial in study.trials if trial.value is not None]
    assert params == points
    assert study.direction.name == "MAXIMIZE"


def test_candidates_with_labels_are_numbers_beside_their_labels(tmp_path: Path) -> None:
    names = [f"molecule {i}" for i in range(20)]
    pool = sb.Pool.write(tmp_path / "pool.zarr", {"numbers": np.arange(20.0)[:, None], "labels": names})
    sb.screen(lambda name: float(name.split()[1]), pool, 5, batch=2, store=tmp_path / "run", progress=False)
    assert sb.export(tmp_path / "run", tmp_path / "runs.log") == 5
    trials = opened(tmp_path / "runs.log").trials
    assert [names[trial.params["candidate"]] for trial in trials] == [trial.user_attrs["label"] for trial in trials]
    assert [trial.params["candidate"] for trial in trials] == [trial.value for trial in trials]


def test_what_one_objective_measured_is_kept_where_another_was_not(tmp_path: Path) -> None:
    """Optuna has no trial with some of its values: it is one that failed, with the others as attributes."""
    sb.minimize(
        lambda s: {"loss": s["x"], "cost": None if s["x"] > 0.5 else 1.0 - s["x"]},
        {"x": sb.Real(0.0, 1.0)}, 6, objectives=["loss", "cost"], store=tmp_path / "run",
    )  # fmt: skip
    assert sb.export(tmp_path / "run", tmp_path / "runs.log") == 6
    trials = opened(tmp_path / "runs.log").trials
    assert len({trial.state for trial in trials}) == 2
    for trial in trials:
        x = trial.params["x"]
        if x > 0.5:
            assert trial.state == TrialState.FAIL
            assert trial.user_attrs["measured loss"] == x
            assert trial.user_attrs["error"] == "an objective was not measured"
        else:
            assert trial.values == [x, 1.0 - x]


def test_what_is_refused(found: sb.TuningResult, tmp_path: Path) -> None:
    to, run = f"sqlite:///{tmp_path}/runs.db", tmp_path / "run"
    sb.export(run, to, name="mine")
    sb.minimize(loss, sb.RandomSearch(sb.SearchSpace(SPACE), minimize=True), 2, store=tmp_path / "other")
    arms = sb.Arms(2)
    sb.simulate(sb.RandomSearch(arms), sb.TableEnvironment(arms, [0.0, 1.0]), 3, store=tmp_path / "simulation")
    with pytest.raises(ValueError, match=r"^name: got .*'mine', a study of another run"):
        sb.export(tmp_path / "other", to, name="mine")
    optuna.create_study(storage=to, study_name="yours", direction="minimize").optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(ValueError, match=r"^name: got .*'yours', a study of other trials"):
        sb.export(run, to, name="yours")
    for target in ("run.txt", "https://a.b/c", "run", 3):
        with pytest.raises(ValueError, match=r"^to: got .*allowed: a file"):
            sb.export(run, target)
    with pytest.raises(ValueError, match=r"^store: got .*a simulation"):
        sb.export(tmp_path / "simulation", to)
    with pytest.raises(FileNotFoundError, match="there is no run"):
        sb.export(tmp_path / "nothing", to)
    with pytest.raises(FileExistsError, match="not a run"):
        sb.export(tmp_path, to)


def test_without_a_package(found: sb.TuningResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'scalable_bandits\[parquet\]'"):
        sb.export(tmp_path / "run", tmp_path / "run.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_the_command(found: sb.TuningResult, tmp_path: Path) -> None:
    done = command("export", tmp_path / "run", "--to", tmp_path / "run.csv")
    assert done.exit_code == 0, done.output
    assert f"Saved: {tmp_path}/run.csv, 25 rows" in done.stdout
    assert command("export", tmp_path / "run", "--to", f"sqlite:///{tmp_path}/runs.db", "--name", "mine").exit_code == 0
    assert len(opened(f"sqlite:///{tmp_path}/runs.db", "mine").trials) == 25
    refused = command("export", tmp_path / "run", "--to", "run.xlsx")
    assert refused.exit_code == 2
    assert "error: to: got 'run.xlsx'" in refused.stderr


@hypothesis.given(plan=plans())
def test_any_space_can_be_exported(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each value has a text of its own, whatever it is; parameters that do not exist are left out."""
    folder, space = tmp_path_factory.mktemp("any"), plan.make()
    found = sb.maximize(lambda setting: 0.0, sb.RandomSearch(space), 6, store=folder / "run")
    assert sb.export(folder / "run", folder / "run.parquet") == sb.export(folder / "run", folder / "runs.log") == 6
    trials, table = opened(folder / "runs.log").trials, read(folder / "run.parquet")
    for name, kind in zip(space.names, space.kinds, strict=True):
        given = [setting.get(name, math.nan) for setting in found.x]
        exists = [name in setting for setting in found.x]
        assert [name in trial.params for trial in trials] == exists
        column = table[name if name in table else f"{name}_"][exists].tolist()
        texts = [trial.params[name] for trial in trials if name in trial.params]
        pairs = set(zip(map(repr, itertools.compress(given, exists)), map(repr, texts), strict=True))
        if kind.count is None or kind.ordered:
            continue
        assert len({text for _, text in pairs}) == len(pairs)
        assert len(set(map(str, column))) == len(set(map(str, texts)))


@hypothesis.given(plan=plans(constrained=False))
def test_parameters_are_distributions(plan: Plan) -> None:
    """Of a distribution that a parameter becomes, the parameter is made again; some values are texts then."""
    for parameter in plan.make().kinds:
        distribution = distribution_of(parameter)
        again = parameter_of(distribution)
        if distribution.single():
            assert again is None
        else:
            assert again is not None
            assert again.count == parameter.count
            assert distribution_of(again) == distribution


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-1.0, 2.0), FloatDistribution(1e-5, 1.0, log=True), FloatDistribution(0.1, 0.7, step=0.1),
        IntDistribution(1, 12), IntDistribution(1, 1024, log=True), IntDistribution(2, 20, step=3),
        CategoricalDistribution(["sqrt", "log2", None]), CategoricalDistribution([True, False]),
        CategoricalDistribution([1, "1", 2.5]),
    ],
)  # fmt: skip
def test_distributions_that_were_parameters(distribution: Any) -> None:
    parameter = parameter_of(distribution)
    assert parameter is not None
    assert distribution_of(parameter) == distribution


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning", "ignore::UserWarning:optuna")
def test_the_pictures_of_optuna(found: sb.TuningResult, tmp_path: Path) -> None:
    sb.export(tmp_path / "run", tmp_path / "runs.log")
    study, drawn = opened(tmp_path / "runs.log"), optuna.visualization.matplotlib
    draws = (
        drawn.plot_optimization_history, drawn.plot_slice, drawn.plot_parallel_coordinate, drawn.plot_edf,
        drawn.plot_param_importances, drawn.plot_contour, drawn.plot_timeline, drawn.plot_rank,
    )  # fmt: skip
    for draw in draws:
        arguments = {"params": ["rate", "batch"]} if draw in (drawn.plot_contour, drawn.plot_rank) else {}
        axes = np.ravel(draw(study, **arguments))
        assert any(each.has_data() for each in axes), draw
        plt.close("all")


@pytest.mark.slow
def test_the_dashboard_of_optuna(found: sb.TuningResult, tmp_path: Path) -> None:
    """It is served on a free port of this machine, and its API answers with the trials."""
    url = f"sqlite:///{tmp_path}/runs.db"
    sb.export(tmp_path / "run", url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["from optuna_dashboard._cli import main; main()", url, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answer(path: str) -> Any:
        while True:
            assert server.poll() is None
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}") as response:
                    return json.load(response)
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:  # it does not listen yet
                time.sleep(0.1)

    try:
        (listed,) = answer("studies")["study_summaries"]
        assert (listed["study_name"], listed["directions"]) == ("run", ["minimize"])
        detail = answer(f"studies/{listed['study_id']}")
        assert len(detail["trials"]) == 25
        for trial, evaluation in zip(detail["trials"], found.evaluations(), strict=True):
            assert trial["state"] == ("Fail" if evaluation.error else "Complete")
            values = {each["name"]: each["param_external_value"] for each in trial["params"]}
            assert values == {name: str(text_of(value)) for name, value in evaluation.x.items()}
            assert trial.get("values") == (None if evaluation.error else [evaluation.value])
        assert {tuple(trial["values"]) for trial in detail["best_trials"]} == {(found.measured.y,)}
    finally:
        server.terminate()
        server.wait()
