"""Callbacks that log to MLflow and Weights & Biases: what they log is read back from files, without a network."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import scalable_bandits as sb
from scalable_bandits.integrations.tensorboard import TensorBoardCallback

if TYPE_CHECKING:  # two seconds of every process of a run of all tests; imported where they are used
    from scalable_bandits.integrations.mlflow import MLflowCallback
    from scalable_bandits.integrations.wandb import WandbCallback

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*noload:sqlalchemy.exc.SADeprecationWarning"),  # MLflow's tables
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(mlflow|alembic|wandb)"),
]
SPACE = {
    "rate": sb.Real(1e-3, 1.0, log=True),
    "kind": sb.Categorical(["net", None]),
    "depth": sb.Integer(1, 9, when={"kind": "net"}),
    "activation": sb.Categorical([math.sin, math.cos]),
}


OUTPUTS = {"latency", "size", "feasible"}


def loss(setting: dict[str, Any]) -> float:
    if setting["rate"] > 0.3:
        raise OSError("too hot")
    return abs(math.log10(setting["rate"]) + 2.0) + 0.1 * abs(setting.get("depth", 20) - 4)


class Logged(NamedTuple):
    """What a tracker has of a tuning run."""

    settings: dict[int, dict[str, str]]  # by number of the ticket
    values: dict[int, float]  # by number of the ticket; not of those that failed
    errors: dict[int, str]
    best: list[float]  # over the evaluations that ended
    best_setting: dict[str, str]
    ended_by: str | None  # None while it is running
    succeeded: bool | None  # None while it is running
    space: dict[str, Any]
    runs: int  # runs of the tracker, without those of evaluations
    outputs: dict[int, dict[str, float]]  # values of other outputs and "feasible", by number of the ticket


class MLflow:
    """Runs of MLflow in an SQLite database."""

    def __init__(self, folder: Path):
        self.uri = f"sqlite:///{folder}/mlflow.db"

    def callback(self, **arguments: Any) -> MLflowCallback:
        from scalable_bandits.integrations.mlflow import MLflowCallback

        return MLflowCallback("tuning", tracking_uri=self.uri, **arguments)

    def logged(self) -> Logged:
        from mlflow.tracking import MlflowClient  # late, as below: each process of the tests collects this file

        client = MlflowClient(self.uri)
        experiment = client.get_experiment_by_name("tuning")
        found = list(client.search_runs([experiment.experiment_id]))
        parents = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
        children = {int(run.data.tags["scalable_bandits.ticket"]): run for run in found if run not in parents}
        assert len(found) == len(parents) + len(children)
        (parent,) = parents
        assert {run.data.tags["mlflow.parentRunId"] for run in children.values()} == {parent.info.run_id}
        assert {run.info.status for run in children.values()} <= {"FINISHED", "FAILED"}
        series = sorted(client.get_metric_history(parent.info.run_id, "best_value"), key=lambda each: each.step)
        tags = parent.data.tags
        return Logged(
            {number: run.data.params for number, run in children.items()},
            {number: run.data.metrics["value"] for number, run in children.items() if "value" in run.data.metrics},
            {number: run.data.tags["error"] for number, run in children.items() if run.info.status == "FAILED"},
            [each.value for each in series],
            {name.removeprefix("best."): value for name, value in tags.items() if name.startswith("best.") and value},
            tags.get("ended_by"),
            {"RUNNING": None, "FINISHED": True}.get(parent.info.status, False),
            json.loads(tags["space"]),
            len(parents),
            {
                number: {k: run.data.metrics[k] for k in OUTPUTS & set(run.data.metrics)}
                for number, run in children.items()
            },
        )


class Wandb:
    """Offline runs of W&B: a folder, with a log of records, for each process, of which the last has everything."""

    def __init__(self, folder: Path):
        self.folder = folder

    def callback(self, **arguments: Any) -> WandbCallback:
        from scalable_bandits.integrations.wandb import WandbCallback

        return WandbCallback("tuning", mode="offline", dir=str(self.folder), settings={"silent": True}, **arguments)

    def logged(self) -> Logged:
        files = sorted(self.folder.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime_ns)
        rows: list[dict[str, Any]] = []
        summary: dict[str, Any] = {}
        config: dict[str, Any] = {}
        code = None
        while not any(record.HasField("exit") for record in records(files[-1].read_bytes())):
            time.sleep(0.02)  # it is written after `finish` has returned
        for record in records(files[-1].read_bytes()):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                assert record.run.run_id in files[-1].name
                config |= values(record.run.config.update)
            elif kind == "history":
                rows.append(values(record.history.item))
            elif kind == "summary":
                summary |= values(record.summary.update)
            elif kind == "exit":
                code = record.exit.exit_code
        assert [row["_step"] for row in rows] == sorted({row["_step"] for row in rows}), "each step once"
        by_ticket = {row["ticket"]: row for row in rows}
        best = {name.removeprefix("best_setting."): value for name, value in summary.items() if "best_setting" in name}
        settings = {
            number: {k.removeprefix("setting."): str(v) for k, v in row.items() if k.startswith("setting.")}
            for number, row in by_ticket.items()
        }
        assert not rows or summary["best"] == min(row.get("best", math.inf) for row in rows)
        return Logged(
            settings,
            {number: row["value"] for number, row in by_ticket.items() if "value" in row},
            {number: row["error"] for number, row in by_ticket.items() if "error" in row},
            [row["best"] for row in rows if "best" in row],
            {name: str(value) for name, value in best.items() if value is not None},
            summary.get("ended_by"),
            None if code is None else code == 0,
            config["space"],
            len({file.name for file in files}),  # named after the id
            {
                number: {
                    name.removeprefix("output."): float(row[name])
                    for name in row
                    if name.removeprefix("output.") in OUTPUTS
                }
                for number, row in by_ticket.items()
            },
        )


class TensorBoard:
    """Event files: of the tuning, one a process, and of each evaluation."""

    def __init__(self, folder: Path):
        self.folder = folder / "events"

    def callback(self, **arguments: Any) -> TensorBoardCallback:
        return TensorBoardCallback(self.folder, **arguments)

    def logged(self) -> Logged:
        from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

        (tuning,) = self.folder.iterdir()
        texts: dict[str, str] = {}
        curve: dict[int, float] = {}
        for file in sorted(tuning.glob("*tfevents*"), key=lambda file: file.stat().st_mtime_ns):
            for event in events(file.read_bytes()):
                for each in event.summary.value:
                    if each.tensor.string_val:
                        texts[each.tag.removesuffix("/text_summary")] = each.tensor.string_val[0].decode()
                    elif each.tag == "best":
                        curve[event.step] = each.simple_value
        settings: dict[int, dict[str, str]] = {}
        single: dict[int, float] = {}
        outputs: dict[int, dict[str, float]] = {}
        for folder in (path for path in tuning.iterdir() if path.is_dir()):
            (file,) = folder.iterdir()
            for event in events(file.read_bytes()):
                for each in event.summary.value:
                    if each.tag == "_hparams_/session_start_info":
                        data = HParamsPluginData.FromString(each.metadata.plugin_data.content).session_start_info
                        pairs = data.hparams.items()
                        settings[int(folder.name)] = {k: text_of(getattr(v, v.WhichOneof("kind"))) for k, v in pairs}
                    elif each.tag == "evaluation/value":
                        single[int(folder.name)] = each.simple_value
                    elif (name := each.tag.removeprefix("evaluation/").removeprefix("output/")) in OUTPUTS:
                        outputs.setdefault(int(folder.name), {})[name] = each.simple_value
        ended_by = texts.get("ended_by")
        return Logged(
            settings,
            single,
            {number: setting.pop("error") for number, setting in settings.items() if "error" in setting},
            [value for _, value in sorted(curve.items())],
            {name: text_of(value) for name, value in json.loads(texts["best_setting"]).items()},
            ended_by,
            ended_by not in ("error", "interrupted"),
            json.loads(texts["tuning"])["space"],
            1,
            outputs,
        )


def text_of(value: Any) -> str:
    """A number as text: TensorBoard has whole ones as floats."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def events(data: bytes) -> Iterator[Any]:
    """Events of a file: each after its length and a checksum, and before another checksum."""
    from tensorboardX.proto import event_pb2

    place = 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        yield event_pb2.Event.FromString(data[place + 12 : place + 12 + length])
        place += length + 16


def values(items: Any) -> dict[str, Any]:
    """Values of a record by name."""
    return {each.key or ".".join(each.nested_key): json.loads(each.value_json) for each in items}


def records(data: bytes) -> Iterator[Any]:
    """Records of a log of W&B: a header of seven bytes, then blocks of 32 KiB, as those of LevelDB."""
    from wandb.proto import wandb_internal_pb2

    assert data[:4] == b":W&B"
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = 32_768 - place % 32_768
        if left < 7:  # too short for a header: padding
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        if place + 7 + length > len(data):
            return  # the rest of it is being written
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or its last part
            record, parts = wandb_internal_pb2.Record(), parts
            record.ParseFromString(parts)
            parts = b""
            yield record


KINDS = (MLflow, Wandb, TensorBoard)


@pytest.fixture(params=KINDS)
def tracker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def texts(setting: dict[str, Any]) -> dict[str, str]:
    return {name: f"math:{value.__name__}" if callable(value) else str(value) for name, value in setting.items()}


def check(logged: Logged, found: sb.TuningResult) -> None:
    """What was logged is what the table of evaluations has."""
    table = found.table()
    ended = sorted((ticket for ticket in found.tickets if ticket.ended is not None), key=lambda each: each.ended)
    assert sorted(logged.settings) == sorted(ticket.number for ticket in ended)
    for ticket, (_, row) in zip(ended, table.iterrows(), strict=True):
        values = {name: row[name] for name in SPACE}
        values = {name: value for name, value in values.items() if not (isinstance(value, float) and value != value)}
        if "depth" in values:
            values["depth"] = int(values["depth"])
        assert logged.settings[ticket.number] == texts(values)
        assert logged.errors.get(ticket.number, "") == row["error"]
        value = None if math.isnan(row["value"]) else pytest.approx(row["value"], rel=1e-6)  # a float32 in TensorBoard
        assert logged.values.get(ticket.number) == value
    assert logged.best == pytest.approx(found.history()["best"].dropna().tolist(), rel=1e-6)
    assert found.measured is not None
    assert logged.best_setting == texts(found.measured.x)
    assert logged.space["parameters"].keys() == SPACE.keys()
    assert sb.Real.from_dict(logged.space["parameters"]["rate"]) == SPACE["rate"]
    assert logged.runs == 1


@pytest.mark.slow
def test_a_run_that_goes_on(tracker: Any, tmp_path: Path) -> None:
    """Each evaluation once: those of a process that did not log, and of one in which something raised."""

    def fail(run: sb.RunView) -> None:
        if run.number == 9:
            raise LookupError("enough")

    store = tmp_path / "run"
    sb.minimize(loss, SPACE, 3, store=store, parallel=2)
    with pytest.raises(LookupError):
        sb.minimize(loss, SPACE, 12, store=store, parallel=2, callbacks=[tracker.callback(), fail])
    logged = tracker.logged()
    assert len(logged.settings) == 9
    assert (logged.ended_by, logged.succeeded) == ("error", False)
    found = sb.minimize(loss, SPACE, 12, store=store, parallel=2, callbacks=tracker.callback())
    logged = tracker.logged()
    check(logged, found)
    assert logged.errors
    assert (logged.ended_by, logged.succeeded) == ("budget", True)
    found = sb.minimize(loss, SPACE, 99, store=store, callbacks=tracker.callback(), stop=lambda run: run.number >= 14)
    logged = tracker.logged()
    check(logged, found)
    assert (logged.ended_by, logged.succeeded) == (found.stopped_by, True)


@pytest.mark.slow
def test_all_outputs_are_logged(tracker: Any) -> None:
    """Those that were measured; and whether the limits are kept, not of an evaluation that failed."""

    def measure(setting: dict[str, Any]) -> dict[str, float | None]:
        rate = setting["rate"]
        return {"loss": loss(setting), "latency": None if rate < 2e-3 else rate, "size": 1.0 - rate}

    found = sb.minimize(
        measure, SPACE, 10, objectives=["loss", "latency"], constraints={"size": sb.AtLeast(0.9)},
        callbacks=tracker.callback(), seed=1,
    )  # fmt: skip
    logged = tracker.logged()
    ended = sorted((ticket for ticket in found.tickets if ticket.ended is not None), key=lambda each: each.ended)
    expected = {}
    for ticket, (_, row) in zip(ended, found.table().iterrows(), strict=True):
        values = {"latency": row["latency"], "size": row["size"]}
        kept = {} if row["error"] else {"feasible": float(row["feasible"])}
        expected[ticket.number] = {name: value for name, value in values.items() if not math.isnan(value)} | kept
    assert {len(values) for values in expected.values()} == {0, 2, 3}
    for number, values in expected.items():
        assert logged.outputs.get(number, {}) == pytest.approx(values, rel=1e-6)
    assert {values["feasible"] for values in expected.values() if values} == {0.0, 1.0}


@pytest.mark.slow
def test_ctrl_c(tracker: Any) -> None:
    def press(run: sb.RunView) -> None:
        if run.number == 4:
            os.kill(os.getpid(), signal.SIGINT)

    found = sb.minimize(loss, SPACE, 12, callbacks=[tracker.callback(), press])
    assert found.interrupted
    logged = tracker.logged()
    check(logged, found)
    assert (logged.ended_by, logged.succeeded) == ("interrupted", False)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import scalable_bandits as sb
from integrations import test_trackers as tests

def kill(run):
    if run.number == 5:
        os.kill(os.getpid(), signal.SIGKILL)

callbacks = [kind(Path(sys.argv[2]) / kind.__name__).callback() for kind in tests.KINDS]
sb.minimize(tests.loss, tests.SPACE, 9, store=sys.argv[2] + "/run", callbacks=[kill, *callbacks])
"""


@pytest.mark.slow
def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """Its last evaluation was stored and not logged; the next process logs it. To all trackers at once."""
    tests = str(Path(__file__).parents[1])
    for kind in KINDS:
        (tmp_path / kind.__name__).mkdir()
    command = [sys.executable, "-c", KILLED, tests, str(tmp_path)]
    alone = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}  # not this process' service
    done = subprocess.run(command, capture_output=True, text=True, env=alone)
    assert done.returncode == -signal.SIGKILL, done.stderr
    trackers = [kind(tmp_path / kind.__name__) for kind in KINDS]
    found = sb.minimize(loss, SPACE, 9, store=tmp_path / "run", callbacks=[each.callback() for each in trackers])
    for each in trackers:
        check(each.logged(), found)


@pytest.mark.slow
def test_inside_a_run_of_the_users(tmp_path: Path) -> None:
    """MLflow's active run is the parent of the tuning's, and stays active."""
    import mlflow

    from scalable_bandits.integrations.mlflow import MLflowCallback

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    try:
        with mlflow.start_run() as outer:
            sb.minimize(lambda x: float(x[0]), sb.Box([[0, 1]]), 2, callbacks=MLflowCallback(metric="loss"))
            assert mlflow.active_run().info.run_id == outer.info.run_id
            tuning, *others = mlflow.MlflowClient().search_runs(["0"], "tags.ended_by = 'budget'")
        assert not others
        assert tuning.data.tags["mlflow.parentRunId"] == outer.info.run_id
        assert set(tuning.data.metrics) == {"loss", "best_loss"}
        assert "best.x0" in tuning.data.tags
    finally:
        mlflow.set_tracking_uri(None)


def test_bad_arguments() -> None:
    from scalable_bandits.integrations.mlflow import MLflowCallback
    from scalable_bandits.integrations.wandb import WandbCallback

    for arguments in ({"experiment": 3}, {"metric": ""}, {"tags": "x"}):
        with pytest.raises((ValueError, TypeError), match=f"^{next(iter(arguments))}: got"):
            MLflowCallback(**arguments)
    with pytest.raises(ValueError, match=r"^resume: got"):
        WandbCallback(resume="must")
