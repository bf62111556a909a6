"""Tuning runs in TensorBoard: curves of the tuning, and a row of its table of hyperparameters for each evaluation."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Container
from pathlib import Path

from scalable_bandits.integrations.tracking import TrackedEvaluation, Tracker, description
from scalable_bandits.runs.stopping import RunStart

try:
    from tensorboardX import SummaryWriter
except ImportError as error:
    raise ImportError(f"{error}; pip install 'scalable_bandits[tensorboard]'") from error

__all__ = ["TensorBoardCallback"]

PARTIAL = "partial"  # folder of an evaluation that is being written


class TensorBoardCallback(Tracker):
    """Callback that logs a run of `minimize` or `maximize` to files of TensorBoard.

    The folder has one for each tuning, with the values and the best value so far as curves over the evaluations, and in
    it one for each evaluation, with its setting, value and duration as a row of the table of hyperparameters. Outputs
    besides the first are there as "output/name", and whether they keep their limits. A stored run that goes on
    continues its folder.

    Parameters
    ----------
    folder
        Folder that TensorBoard is started with, ``tensorboard --logdir FOLDER``; it is made if need be.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def _open(self, run: RunStart) -> Container[int]:
        self._place = self.folder / (run.run_id or uuid.uuid4().hex[:16])
        # Names of files have a time in seconds, in which another process may have begun to write one. A process that
        # was killed has lost the last points of the curves: all of them are written again, in place of the others.
        self._writer = SummaryWriter(str(self._place), filename_suffix=f".{uuid.uuid4().hex[:8]}", purge_step=0)
        self._writer.add_text("tuning", json.dumps(description(run), default=str))
        return ()

    def _log(self, evaluation: TrackedEvaluation) -> None:
        ticket, writer = evaluation.ticket, self._writer
        kept = None if evaluation.feasible is None else float(evaluation.feasible)
        beside = {"feasible": kept, **{f"output/{name}": value for name, value in evaluation.outputs.items()}}
        for name, value in {"value": ticket.y, "best": evaluation.best, **beside}.items():
            if value is not None:
                writer.add_scalar(name, value, ticket.ended, ticket.changed)
        row = self._place / str(ticket.number)
        if row.exists():
            return
        shutil.rmtree(self._place / PARTIAL, ignore_errors=True)  # of a process that was killed
        measured = {"value": ticket.y, "seconds": ticket.seconds, **beside}
        metrics = {f"evaluation/{name}": value for name, value in measured.items() if value is not None}
        setting = dict(evaluation.setting) | ({"error": ticket.error} if ticket.gone else {})
        writer.add_hparams(setting, metrics, PARTIAL, ticket.ended)
        (self._place / PARTIAL).rename(row)  # now it is complete

    def _close(self, ended_by: str) -> None:
        best = {name: value for name, value in self._best_setting.items() if value is not None}
        self._writer.add_text("best_setting", json.dumps(best))
        self._writer.add_text("ended_by", ended_by)
        self._writer.close()
