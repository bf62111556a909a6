"""Stored runs as studies of Optuna, for its dashboard and its plots: a trial an evaluation."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

try:
    import optuna
except ImportError as error:
    raise ImportError(f"{error}; pip install 'scalable_bandits[optuna]'") from error

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, JournalStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from scalable_bandits import checks
from scalable_bandits.integrations.optuna_study import CONSTRAINTS, distribution_of
from scalable_bandits.policies.outputs import Limit, Output, Outputs
from scalable_bandits.runs.limits import others_of, outputs_in, outputs_of
from scalable_bandits.runs.readable import setting_of
from scalable_bandits.runs.resuming import labelled_space
from scalable_bandits.spaces import Space
from scalable_bandits.spaces.named import NamedSpace
from scalable_bandits.status import minimizes
from scalable_bandits.store import StoredRun
from scalable_bandits.tickets import OPEN, Ticket

RUN = "scalable_bandits.run"  # user attribute of a study: identity of the stored run
TICKET = "ticket"  # user attribute of a trial: number of the evaluation


def storage_of(to: Any) -> BaseStorage:
    """Return the storage that a URL, the path of a journal file, or a storage of Optuna names."""
    if isinstance(to, BaseStorage):
        return to
    if "://" not in str(to):
        return JournalStorage(JournalFileBackend(str(to)))
    try:
        return get_storage(str(to))
    except (ImportError, ValueError) as error:
        raise ValueError(f"to: {error}") from None


def export_study(run: StoredRun, to: Any, name: str) -> int:
    """Write a run to a study of Optuna, or add to the study what is new in the run; return the number of its trials.

    Parameters
    ----------
    run
        Run in which evaluations were told, open for reading.
    to
        URL of a database, path of a journal file, or storage of Optuna.
    name
        Name of the study.

    Raises
    ------
    ValueError
        If there is another study of that name, or the storage is not one.
    """
    space = labelled_space(run)
    distributions = distributions_of(space)
    study = _study(run, storage_of(to), name)
    known = {trial.user_attrs.get(TICKET): trial for trial in study.get_trials(deepcopy=False)}
    told, outputs = evaluations_of(run), outputs_of(run)
    for ticket in told:
        trial, there = _trial(space, distributions, ticket, outputs), known.get(ticket.number)
        if there is None:
            study.add_trial(trial)
        elif not there.state.is_finished() and trial.state.is_finished():
            for key, value in trial.user_attrs.items():
                study._storage.set_trial_user_attr(there._trial_id, key, value)
            for key, value in trial.system_attrs.items():
                study._storage.set_trial_system_attr(there._trial_id, key, value)
            study._storage.set_trial_state_values(there._trial_id, trial.state, trial.values)
    return len(told)


def evaluations_of(run: StoredRun) -> list[Ticket]:
    """Return the evaluations of a run as tickets, whose numbers stay the same as the run grows.

    Parameters
    ----------
    run
        Run in which evaluations were told. Of one that was recorded there are rounds, with numbers from 0, and
        failures, with negative numbers.
    """
    if run.kept:
        return [ticket for _, ticket in sorted(run.tickets.items())]
    columns, tickets = run.read(), list[Ticket]()
    x, times = columns["x"].reshape(len(run), -1).tolist(), columns["time"].tolist()
    outputs, beside = Outputs(None, others_of(run)), columns.get("outputs")
    for i, (point, y, time) in enumerate(zip(x, columns["y"].tolist(), times, strict=True)):
        told = None if beside is None else outputs.recorded(beside[i])
        tickets.append(Ticket(
            i, 0, "done", y=None if y != y else y, x=tuple(point), asked=time, changed=time, round=i + 1, result=told,
        ))  # fmt: skip
    return tickets + [failure._replace(number=-1 - i) for i, failure in enumerate(run.failures)]


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """Return the distributions of a space by parameter, or by coordinate.

    Parameters
    ----------
    space
        Space of a run.
    """
    if isinstance(space, NamedSpace):
        return {name: distribution_of(kind) for name, kind in zip(space.names, space.kinds, strict=True)}
    return {
        axis.name: FloatDistribution(axis.low, axis.high, log=axis.log)
        if axis.ordered
        else IntDistribution(0, int(axis.high))  # arms, or candidates
        for axis in space.axes
    }


def _study(run: StoredRun, storage: BaseStorage, name: str) -> optuna.Study:
    """Return the study of a run, which is made if need be."""
    signs = [-1.0 if minimizes(run) else 1.0, *(each.SIGN for each in _further(others_of(run)).values())]
    directions = [StudyDirection.MINIMIZE if sign < 0.0 else StudyDirection.MAXIMIZE for sign in signs]
    run_id = run.attributes["id"]
    study = optuna.create_study(storage=storage, study_name=name, directions=directions, load_if_exists=True)
    has = study.user_attrs.get(RUN)
    if has is None and not study.get_trials(deepcopy=False):
        policy = run.specification["policy"]
        study.set_user_attr("policy", policy["type"])
        study.set_user_attr("function", str(run.specification.get("function", {}).get("function", "")))
        study.set_user_attr("version", run.attributes.get("version"))
        study.set_user_attr(RUN, run_id)
    elif has != run_id:
        given = f"{name!r}, a study of " + ("another run" if has else "other trials") + " in that storage"
        checks.refuse("name", given, f"another name for the run in {run.location.name}")
    return study


def _further(others: Mapping[str, Output]) -> dict[str, Output]:
    """Return the objectives besides the first one."""
    return {name: each for name, each in others.items() if not isinstance(each, Limit)}


def _violations(ticket: Ticket, others: Mapping[str, Output]) -> dict[str, Any]:
    """Return by how much each output misses its limit, as Optuna keeps it: above 0 where it does."""
    limits = {name: each for name, each in others.items() if isinstance(each, Limit)}
    if ticket.state != "done" or not limits:
        return {}
    values = [(limit, ticket.result["outputs"][name]) for name, limit in limits.items()]
    return {CONSTRAINTS: [math.inf if v is None else limit.SIGN * (limit.limit - v) for limit, v in values]}


def _trial(
    space: Space, distributions: Mapping[str, BaseDistribution], ticket: Ticket, outputs: Outputs
) -> FrozenTrial:  # fmt: skip
    """Return an evaluation as a trial."""
    setting, others = setting_of(space, ticket), outputs.others
    numbers, values = dict(zip(distributions, ticket.x, strict=False)), dict(setting)
    label = None
    for key in setting:
        distribution = distributions[key]
        if isinstance(distribution, CategoricalDistribution):
            values[key] = distribution.choices[round(numbers[key])]
        elif isinstance(values[key], str):  # a candidate of a pool, which is a number there
            label, values[key] = values[key], int(numbers[key])
    states = {"done": TrialState.COMPLETE, **dict.fromkeys(OPEN, TrialState.RUNNING)}
    state = states.get(ticket.state, TrialState.FAIL)
    told = [ticket.y, *(ticket.result["outputs"][name] for name in _further(others))] if ticket.state == "done" else []
    error, measured = (ticket.error or ticket.state) if state == TrialState.FAIL else None, {}
    if None in told:  # Optuna knows no trial with some of its values: those that there are become attributes
        state, error = TrialState.FAIL, "an objective was not measured"
        measured = {outputs.objective or "value": ticket.y, **outputs_in(ticket)}
    more = {
        TICKET: ticket.number, "label": label, "seconds": ticket.seconds, "worker": ticket.where or None,
        "noise": ticket.noise,
        "error": error, **{f"measured {name}": value for name, value in measured.items()},
        "before the run": True if ticket.call == 0 else None,
    }  # fmt: skip
    began = ticket.asked if ticket.seconds is None else ticket.changed - ticket.seconds
    ended = datetime.datetime.fromtimestamp(ticket.changed) if state.is_finished() else None
    return FrozenTrial(
        number=-1, trial_id=-1, state=state, value=None, values=told if state == TrialState.COMPLETE else None,
        datetime_start=datetime.datetime.fromtimestamp(began), datetime_complete=ended,
        params=values,
        distributions={key: distributions[key] for key in setting},
        user_attrs={key: value for key, value in more.items() if value is not None and value == value},
        system_attrs=_violations(ticket, others), intermediate_values={},
    )  # fmt: skip
