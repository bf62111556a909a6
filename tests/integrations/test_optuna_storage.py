"""The sampler for Optuna on storages that several processes share, and that processes leave without a word."""

import signal
import subprocess
import sys

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import scalable_bandits as sb
from scalable_bandits.integrations.optuna import BanditSampler

SCRIPT = """
import os, signal, sys
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
import scalable_bandits as sb
from scalable_bandits.integrations.optuna import BanditSampler

path, trials, where, number = sys.argv[1], *map(eval, sys.argv[2:])

def die_at(place, at):
    if (place, at) == (where, number):
        os.kill(os.getpid(), signal.SIGKILL)

class Sampler(BanditSampler):
    def sample_relative(self, study, trial, search_space):
        found = super().sample_relative(study, trial, search_space)
        die_at("chosen", trial.number)
        return found

    def after_trial(self, study, trial, state, values):
        die_at("measured", trial.number)
        super().after_trial(study, trial, state, values)

def objective(trial):
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
    die_at("measuring", trial.number)
    return (x - 1) ** 2 + (y + 2) ** 2

storage = JournalStorage(JournalFileBackend(path))
study = optuna.create_study(study_name="one", storage=storage, load_if_exists=True, sampler=Sampler(seed=3))
study.optimize(objective, n_trials=trials)
"""


def started(path, trials, where=None, number=None):
    """Start a process that plays some trials, and kills itself at a place of one."""
    command = [sys.executable, "-c", SCRIPT, str(path), *map(repr, (trials, where, number))]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ended(process):
    """How it ended, and what it said."""
    said = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode


def opened(path):
    return optuna.load_study(
        study_name="one", storage=JournalStorage(JournalFileBackend(str(path))), sampler=BanditSampler(seed=3)
    )


def settings(study, state):
    return [trial.params for trial in study.trials if trial.state == state]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["chosen", "measuring", "measured"])
@pytest.mark.sampled(3)
def test_a_process_that_is_killed(tmp_path, where):
    """No completed trial is lost; the next process goes on like a sampler that was never killed."""
    path = tmp_path / "journal"
    assert ended(started(path, 8, where, 5)) == -signal.SIGKILL
    before = settings(opened(path), TrialState.COMPLETE)
    assert len(before) == 5
    assert ended(started(path, 8)) == 0
    study = opened(path)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 5 + [TrialState.RUNNING] + [
        TrialState.COMPLETE
    ] * 8
    after = settings(study, TrialState.COMPLETE)
    assert after[:5] == before
    told = study.sampler.current_policy(study)
    assert told.rounds == 13

    alike = optuna.create_study(sampler=BanditSampler(seed=3))
    for trial in study.trials[:5]:
        alike.add_trial(trial)
    lost = alike.ask()
    assert lost.relative_params == {name: lost.suggest_float(name, -5, 5) for name in ("x", "y")}
    for _ in range(8):
        trial = alike.ask()
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
        alike.tell(trial, (x - 1) ** 2 + (y + 2) ** 2)
    assert settings(alike, TrialState.COMPLETE) == after


@pytest.mark.slow
def test_two_processes_at_once(tmp_path):
    path = tmp_path / "journal"
    processes = [started(path, 10) for _ in range(2)]
    assert [ended(process) for process in processes] == [0, 0]
    study = opened(path)
    found = settings(study, TrialState.COMPLETE)
    assert len(found) == len(study.trials) == 20
    assert len({tuple(each.values()) for each in found}) >= 18
    assert study.sampler.current_policy(study).rounds == 20
    assert study.best_value < 3.0


def test_what_another_process_chooses_meanwhile_is_not_chosen_again():
    """It runs, or has ended, when this process has made its choice."""
    storage = optuna.storages.InMemoryStorage()
    meanwhile, choices = [], []

    class Fixed(sb.RandomSearch):
        def choose(self, allowed=None):
            if meanwhile:
                meanwhile.pop()()
            return self.domain.space.parse({"x": choices.pop(0)})[0][0]

    def opened():
        sampler = BanditSampler(policy=lambda space, seed, minimize: Fixed(space, seed=seed), seed=1)
        return optuna.create_study(study_name="one", storage=storage, load_if_exists=True, sampler=sampler)

    def ask(study):
        trial = study.ask()
        return trial, trial.suggest_float("x", 0, 1)

    one, other = opened(), opened()
    one.tell(ask(one)[0], 0.0)
    meanwhile.append(lambda: ask(other))
    choices[:] = [0.1, 0.5, 0.5, 0.7]  # the other's second one is its own, since this trial is waiting for its values
    assert ask(one)[1] == 0.7
    meanwhile.append(lambda: other.tell(*ask(other)))
    choices[:] = [0.2, 0.6, 0.6, 0.8]
    assert ask(one)[1] == 0.8
    assert [trial.params["x"] for trial in one.trials[1:]] == [0.7, 0.5, 0.8, 0.6]


@pytest.mark.parametrize("kind", ["journal", pytest.param("database", marks=pytest.mark.slow)])
def test_running_trials_of_another_process_are_pending(tmp_path, kind):
    """Also before they have suggested anything, and until they end."""
    pending = []

    class Spy(sb.RandomSearch):
        def choose(self, allowed=None):
            pending.append([self.domain.value(number)["x"] for number in self.pending_points.numbers])
            return super().choose(allowed)

    def opened(create):
        if kind == "journal":
            storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
        else:
            storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
        sampler = BanditSampler(policy=lambda space, seed, minimize: Spy(space, seed=seed), seed=1)
        return (optuna.create_study if create else optuna.load_study)(
            study_name="one", storage=storage, sampler=sampler
        )

    one, other = opened(True), opened(False)
    first = one.ask()
    one.tell(first, first.suggest_float("x", 0, 1))
    here = one.ask()
    x = here.relative_params["x"]
    there = other.ask()
    z = there.suggest_float("x", 0, 1)
    other.tell(there, z)
    assert here.suggest_float("x", 0, 1) == x
    assert one.ask().relative_params["x"] not in (x, z)
    one.tell(here, x)
    assert other.ask().relative_params["x"] not in (x, z)
    assert [len(each) for each in pending] == [0, 1, 1, 1]
    assert pending[1:3] == [[x], [x]]
    for study in (one, other):
        study._storage.remove_session()
        if kind == "database":
            study._storage._backend.engine.dispose()
