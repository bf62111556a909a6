"""Tuning runs in Weights & Biases: a run for the tuning, and a step of it for each evaluation."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from scalable_bandits import checks
from scalable_bandits.integrations.tracking import FAILED, INTERRUPTED, TrackedEvaluation, Tracker, description
from scalable_bandits.runs.stopping import RunStart

try:
    import wandb
except ImportError as error:
    raise ImportError(f"{error}; pip install 'scalable_bandits[wandb]'") from error

__all__ = ["WandbCallback"]

OWN = ("id", "resume", "config", "reinit")  # arguments of `wandb.init` that the callback sets


class WandbCallback(Tracker):
    """Callback that logs a run of `minimize` or `maximize` to Weights & Biases.

    The tuning is a run. Step t is the t-th evaluation that ended, with its setting, value, duration and error, and the
    best value so far; of several outputs the others as "output.name", and whether they keep their limits. The summary
    has the best value and its setting, the config policy, space and budget. A stored run that goes on continues the run
    of W&B with the same id. Offline, each process writes a folder that has all
    evaluations so far, since what W&B had not written yet when a process was killed is lost: sync the last folder.

    Parameters
    ----------
    project
        Name of the project.
    name
        Name of the run; if not given, name of the function.
    **arguments
        Further arguments of `wandb.init`, such as ``mode="offline"``, `group`, `tags` and `dir`.

    Raises
    ------
    ValueError
        If an argument is one that the callback sets itself.
    """

    def __init__(self, project: str | None = None, *, name: str | None = None, **arguments: Any):
        for own in OWN:
            if own in arguments:
                checks.refuse(own, arguments[own], f"arguments of wandb.init other than {', '.join(OWN)}")
        self.arguments = {"project": project, "name": name, **arguments}

    def _open(self, run: RunStart) -> Container[int]:
        name = self.arguments["name"] or run.function.rpartition(":")[2]
        continued = {} if run.run_id is None else {"id": run.run_id, "resume": "allow"}
        # A run of the user's own that is active, and of which the function may be logging, stays as it is.
        self._run = wandb.init(
            **{**self.arguments, "name": name, **continued}, config=description(run), reinit="create_new"
        )
        first = self._run.starting_step  # 0 if it is new, and in each folder of an offline run
        return {ticket.number for ticket in run.tickets if (ticket.ended or 0) < first}

    def _log(self, evaluation: TrackedEvaluation) -> None:
        ticket, run = evaluation.ticket, self._run
        row = {"value": ticket.y, "best": evaluation.best, "seconds": ticket.seconds, "worker": ticket.where or None}
        row |= {"ticket": ticket.number, "state": ticket.state, "error": ticket.error if ticket.gone else None}
        row |= {f"output.{name}": value for name, value in evaluation.outputs.items()}
        row |= {"feasible": evaluation.feasible}
        row |= {f"setting.{name}": value for name, value in evaluation.setting.items()}
        run.log({name: value for name, value in row.items() if value is not None}, step=ticket.ended, commit=True)
        if evaluation.improved:
            self._summarize()

    def _summarize(self) -> None:
        """Write the best value and its setting to the summary."""
        best = {f"best_setting.{name}": value for name, value in self._best_setting.items()}
        self._run.summary.update({"best": self._best, **best} if best else {})

    def _close(self, ended_by: str) -> None:
        self._summarize()
        self._run.summary["ended_by"] = ended_by
        self._run.finish(exit_code={FAILED: 1, INTERRUPTED: 130}.get(ended_by, 0))
