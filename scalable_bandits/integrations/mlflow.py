"""Tuning runs in MLflow: a run for the tuning, and inside it one for each evaluation."""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
from collections.abc import Container, Mapping
from typing import Any

from scalable_bandits import checks
from scalable_bandits.integrations.tracking import FAILED, INTERRUPTED, TrackedEvaluation, Tracker, description
from scalable_bandits.runs.result import beside
from scalable_bandits.runs.stopping import RunStart

try:
    import mlflow
except ImportError as error:
    raise ImportError(f"{error}; pip install 'scalable_bandits[mlflow]'") from error

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.tracking import MlflowClient

__all__ = ["MLflowCallback"]

IDENTITY = "scalable_bandits.run"  # tag of the tuning's run: identity of the stored run
TICKET = "scalable_bandits.ticket"  # tag of an evaluation's run: number of its ticket
PARENT, NAME = "mlflow.parentRunId", "mlflow.runName"  # tags of MLflow's own
LONGEST = 5000  # characters of a tag; the limit of MLflow's oldest servers
LONGEST_PARAMETER = 500
AT_ONCE = 100  # parameters, or tags, of one request
MOST = 50_000  # runs of one answer, which MLflow limits


class MLflowCallback(Tracker):
    """Callback that logs a run of `minimize` or `maximize` to MLflow.

    The tuning is a run, with the values and the best value so far as metrics over the evaluations, and with policy,
    space, budget and the best setting as tags. Each evaluation is a run nested in it, with its parameters, value,
    duration and error. Of several outputs all are metrics, the first objective as the value, and "feasible" is 1 where
    they keep their limits. A stored run that goes on continues its MLflow run, which is found by a tag.

    Parameters
    ----------
    experiment
        Name of the experiment, which is made if need be. If not given, that of the active run, in which the tuning's
        run is nested then; else that of `mlflow.set_experiment`, of MLflow's environment variables, or the default one.
    run_name
        Name of the tuning's run; if not given, name of the function.
    tracking_uri
        Tracking server or database; if not given, that of `mlflow.set_tracking_uri`.
    metric
        Name of the values.
    tags
        Further tags of the tuning's run.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    def __init__(
        self,
        experiment: str | None = None,
        *,
        run_name: str | None = None,
        tracking_uri: str | None = None,
        metric: str = "value",
        tags: Mapping[str, str] | None = None,
    ):
        texts = {"experiment": experiment, "run_name": run_name, "tracking_uri": tracking_uri, "metric": metric}
        for name, text in texts.items():
            if not ((isinstance(text, str) and text) or (text is None and name != "metric")):
                checks.refuse(name, text, "a text")
        if tags is not None:
            checks.kind("tags", tags, Mapping, "a dict of texts")
        self.experiment, self.run_name, self.tracking_uri, self.metric = experiment, run_name, tracking_uri, metric
        self.tags = dict(tags or {})

    def _open(self, run: RunStart) -> Container[int]:
        self._client, active = MlflowClient(self.tracking_uri), mlflow.active_run()
        self._experiment = self._experiment_id(active)
        found = [] if run.run_id is None else self._tagged(IDENTITY, run.run_id)
        name = self.run_name or run.function.rpartition(":")[2]
        tags = self.tags | ({} if run.run_id is None else {IDENTITY: run.run_id})
        if found:
            self._parent = found[0].info.run_id
            self._client.update_run(self._parent, status="RUNNING")
        else:
            inside = {} if active is None else {PARENT: active.info.run_id}
            self._parent = self._client.create_run(self._experiment, tags=tags | inside, run_name=name).info.run_id
        plain = description(run)
        kind = plain["policy"]["type"]
        self._tag(self._parent, {**plain, "policy": kind, "policy.arguments": plain["policy"], "store": run.place})
        nested = [each for each in self._tagged(PARENT, self._parent) if TICKET in each.data.tags] if found else []
        finished = {int(each.data.tags[TICKET]) for each in nested if each.info.status != "RUNNING"}
        # A process that was killed has left these behind: they are written again.
        self._begun = {int(each.data.tags[TICKET]): each.info.run_id for each in nested}
        return finished

    def _experiment_id(self, active: Run | None) -> str:
        """Return the number of the experiment, which is made if need be."""
        name, client = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME"), self._client
        if self.experiment is None and active is not None:
            return str(active.info.experiment_id)
        if self.experiment is None and "MLFLOW_EXPERIMENT_ID" in os.environ:  # `mlflow.set_experiment` sets it
            return os.environ["MLFLOW_EXPERIMENT_ID"]
        if name is None:
            return "0"
        known = client.get_experiment_by_name(name)
        return str(client.create_experiment(name) if known is None else known.experiment_id)

    def _tagged(self, tag: str, value: str) -> list[Run]:
        """Return the runs of the experiment with a tag."""
        return list(self._client.search_runs([self._experiment], f"tags.`{tag}` = '{value}'", max_results=MOST))

    def _log(self, evaluation: TrackedEvaluation) -> None:
        client, ticket = self._client, evaluation.ticket
        end, step = round(1000 * ticket.changed), ticket.ended or 0
        start = round(1000 * (ticket.asked if ticket.seconds is None else ticket.changed - ticket.seconds))
        own = self._begun.get(ticket.number)
        if own is None:
            tags = {PARENT: self._parent, TICKET: str(ticket.number)}
            created = client.create_run(self._experiment, start_time=start, tags=tags, run_name=str(ticket.number))
            own = created.info.run_id
        setting = evaluation.setting.items()
        parameters = [Param(_key(name), str(value)[:LONGEST_PARAMETER]) for name, value in setting]
        for first in range(0, len(parameters), AT_ONCE):
            client.log_batch(own, params=parameters[first : first + AT_ONCE])
        error = ticket.error if ticket.gone else None
        self._tag(own, {"state": ticket.state, "worker": ticket.where or None, "error": error})
        kept = None if evaluation.feasible is None else float(evaluation.feasible)
        further: dict[str, dict[str, float | None]] = {
            own: {"seconds": ticket.seconds}, self._parent: {f"best_{self.metric}": evaluation.best},
        }  # fmt: skip
        for run, more in further.items():
            series = {self.metric: ticket.y, "feasible": kept, **more}
            series |= beside(series, evaluation.outputs)
            client.log_batch(run, metrics=[Metric(_key(k), v, end, step) for k, v in series.items() if v is not None])
        if evaluation.improved:
            best = self._best_setting.items()
            self._tag(self._parent, {f"best.{name}": "" if value is None else str(value) for name, value in best})
        client.set_terminated(own, "FAILED" if ticket.gone else "FINISHED", end_time=end)  # last: now it is complete

    def _close(self, ended_by: str) -> None:
        self._tag(self._parent, {"ended_by": ended_by})
        status = {FAILED: "FAILED", INTERRUPTED: "KILLED"}.get(ended_by, "FINISHED")
        self._client.set_terminated(self._parent, status, end_time=round(1000 * time.time()))

    def _tag(self, run: str, values: Mapping[str, Any]) -> None:
        """Set tags of a run; data that are no text become JSON, and None is left out."""
        texts = {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in values.items() if v is not None}
        tags = [RunTag(_key(name), text[:LONGEST]) for name, text in texts.items()]
        for first in range(0, len(tags), AT_ONCE):
            self._client.log_batch(run, tags=tags[first : first + AT_ONCE])


def _key(name: str) -> str:
    """Return a name that MLflow takes: other characters, and slashes and dots that would leave a path, as codes."""
    key = re.sub(r"[^\w./ -]", _code, name, flags=re.ASCII)
    path = posixpath.normpath(key)
    return key if path == key and not path.startswith((".", "/")) else re.sub(r"[./]", _code, key)


def _code(found: re.Match[str]) -> str:
    return f"_{ord(found[0]):x}_"
