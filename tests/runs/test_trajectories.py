"""Whole trajectories: by hand, by `simulate`, by either engine, in any process."""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from cases.policies import EVERY_POLICY, NOISE, PROBLEMS, on

import scalable_bandits as sb


def table_environment(problem, seed=7):
    space = problem.space
    values = [problem.truth(x) for x in space.points()]
    return sb.TableEnvironment(space, values, sb.GaussianNoise(NOISE), seed=seed)


def play_by_hand(policy, environment, rounds, available=None):
    """Candidate, y, width and gain of every round of an ask, observe, tell loop."""
    rows = []
    for t in range(1, rounds + 1):
        width, gain = policy.width, policy.information_gain
        x = policy.ask(available=None if available is None else available(t))
        y = environment.observe(x, t)
        policy.tell(x, y)
        rows.append((int(policy.domain.numbered.index(x)[0]), y, width, gain))
    return np.array(rows).T


def assert_same_run(run, by_hand):
    np.testing.assert_array_equal(run.candidate, by_hand[0])
    np.testing.assert_array_equal(run.y, by_hand[1])
    np.testing.assert_array_equal(run.width, by_hand[2])
    np.testing.assert_array_equal(run.information_gain, by_hand[3])


def every_third(t):
    return np.arange(t % 3, 90, 3)


@on(["arms"], EVERY_POLICY)
@pytest.mark.sampled(6)
def test_simulate_is_the_loop_by_hand(name, space):
    """With an availability set that changes; without one, `test_compiled_rounds.py` compares them."""
    problem, case, available = PROBLEMS[space], EVERY_POLICY[name], every_third
    run = sb.simulate(case.make(problem), table_environment(problem), horizon=80, available=available)
    assert_same_run(run, play_by_hand(case.make(problem), table_environment(problem), 80, available))
    values = np.array([problem.truth(x) for x in problem.space.points()])
    np.testing.assert_array_equal(run.value, values[run.candidate])
    best = [values[available(t)].max() for t in range(1, 81)]
    np.testing.assert_allclose(run.regret, best - run.value, atol=1e-15)
    np.testing.assert_allclose(run.cumulative_regret[-1], run.regret.sum())


@pytest.mark.parametrize("name", ["igpucb", "ts", "random"])
def test_simulate_is_the_loop_by_hand_for_functions_that_are_evaluated(name):
    """A value read off the table is, to the last bit, the one observed at a single point."""
    problem = PROBLEMS["points"]
    environment = sb.RKHSFunction.sparse(problem.space, problem.kernel, sb.GaussianNoise(NOISE), seed=2)
    run = sb.simulate(EVERY_POLICY[name].make(problem), environment, horizon=60)
    assert_same_run(run, play_by_hand(EVERY_POLICY[name].make(problem), environment, 60))


@pytest.mark.parametrize("name", ["igpucb", "ei", "random"])
def test_simulate_on_a_box_is_the_loop_by_hand(name):
    problem = PROBLEMS["box"]
    environment = sb.FunctionEnvironment(problem.space, problem.truth, sb.GaussianNoise(NOISE), seed=3)
    run = sb.simulate(EVERY_POLICY[name].make(problem), environment, horizon=30)
    assert_same_run(run, play_by_hand(EVERY_POLICY[name].make(problem), environment, 30))


TRAJECTORIES = """
import json
import sys

import scalable_bandits as sb

runs = {}
space = sb.Grid([[0, 1], [0, 1]], 20)
environment = sb.RKHSFunction.sparse(space, sb.RBF(0.4), sb.UniformNoise(0.3), seed=4)
for name in sys.argv[1:]:
    policy = getattr(sb, name)(space, sb.RBF(0.2), noise=0.2, regularization=0.05, seed=3)
    runs[name] = sb.simulate(policy, environment, horizon=100).candidate.tolist()
runs["function"] = sb.GPSample(space, sb.RBF(0.2), seed=5).table().tolist()
print(json.dumps(runs))
"""


ONE_THREAD = {"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
POLICY_NAMES = ["GPUCB", "IGPUCB", "GPTS", "GPEI", "GPPI", "MeanOnly", "VarianceOnly", "RandomSearch"]


@functools.cache
def fresh_trajectories(**variables):
    """Candidates that each policy plays, and a drawn function, in a process with these environment variables."""
    command = [sys.executable, "-c", TRAJECTORIES, *POLICY_NAMES]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, **variables})
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_trajectories(capsys, monkeypatch):
    """Whatever its hash seed."""
    fresh = fresh_trajectories(**ONE_THREAD)
    assert fresh_trajectories(PYTHONHASHSEED="2") == fresh
    monkeypatch.setattr(sys, "argv", ["", *POLICY_NAMES])
    exec(compile(TRAJECTORIES, "trajectories", "exec"), {})
    assert json.loads(capsys.readouterr().out) == fresh


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    """Last bits may differ; on a symmetric grid, where eigenvalues repeat, nothing more may follow from them."""
    one, two = fresh_trajectories(**ONE_THREAD), fresh_trajectories(OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2")
    assert one.keys() == two.keys() == {*POLICY_NAMES, "function"}
    for name, expected in one.items():
        np.testing.assert_allclose(two[name], expected, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("points", [1, 7, 40, 500])
def test_a_curve_reaches_from_the_first_round_to_the_last(points, log):
    space = sb.Grid([[0, 1]], 12)
    run = sb.simulate(sb.RandomSearch(space), sb.GPSample(space, sb.RBF(0.2), seed=5), 40)
    curve = run.curve(points, log)
    assert len(curve.round) <= points
    assert curve.round[-1] == 40
    assert points == 1 or curve.round[0] == 1
    assert log or points < 40 or len(curve.round) == 40
    np.testing.assert_array_equal(curve.cumulative_regret, run.cumulative_regret[curve.round - 1])
