"""Grids with more candidates than are enumerated, or than have numbers, are played as boxes are."""

import copy
import math

import numpy as np
import pytest

import scalable_bandits as sb

LARGE = {"of 10^12": sb.Grid([[0.0, 1.0]] * 12, 10), "of 10^70": sb.Grid([[-2.0, 1.0]] * 70, 10)}
NUMBERS = {"noise": 0.1, "regularization": 1.0}
KERNEL = sb.Matern(1.0)
POLICIES = {
    "IGPUCB": lambda grid: sb.IGPUCB(grid, KERNEL, **NUMBERS),
    "GPUCB": lambda grid: sb.GPUCB(grid, KERNEL, **NUMBERS),
    "GPTS": lambda grid: sb.GPTS(grid, KERNEL, features=64, **NUMBERS),
    "GPEI": lambda grid: sb.GPEI(grid, KERNEL, **NUMBERS),
    "GPEI refitted": lambda grid: sb.GPEI(grid, 1.0 * KERNEL, refit=4, **NUMBERS),
    "GPEI learned": lambda grid: sb.GPEI(grid),
    "PIMS": lambda grid: sb.PIMS(grid, KERNEL, features=64, **NUMBERS),
    "BKB": lambda grid: sb.BKB(grid, KERNEL, **NUMBERS),
    "random": lambda grid: sb.RandomSearch(grid),
    "sample": lambda grid: sb.GPEI(grid, KERNEL, pending="sample", **NUMBERS),
    "of candidates": lambda grid: sb.PhasedElimination(grid, KERNEL, horizon=60, candidates=100, **NUMBERS),
}


def value(x):
    return -float(((x - 1 / 3) ** 2).sum())


@pytest.mark.parametrize("space", LARGE)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(8)
def test_points_of_the_grid_are_played(name, space):
    """With others pending, after a failure, told what was not asked for; a restored policy goes on alike."""
    grid = LARGE[space]
    policy = POLICIES[name](grid)
    for _ in range(14):
        x = policy.ask()
        assert (grid.steps(x[None]) >= 0).all()
        policy.tell(x, value(x))
    failed, *rest = policy.ask(3)
    policy.tell_failure(failed, "no value")
    policy.tell(rest, [value(x) for x in rest])
    if name != "of candidates":
        own = grid.at(np.full((1, grid.dimension), 4))[0]
        policy.tell(own + 1e-13, value(own))  # nearly a point of the grid, which it is taken for
        assert policy.observations.x[-1].tolist() == own.tolist()
    assert all(x.tolist() != failed.tolist() for x in policy.ask(2))
    policy.abandon()
    other = copy.deepcopy(policy)
    assert other.ask(2).tolist() == policy.ask(2).tolist()
    assert policy.best().x.tolist() in policy.observations.x.tolist()


@pytest.mark.parametrize("name", ["GPEI", "GPEI learned", "BKB", "PIMS"])
@pytest.mark.sampled(4)
def test_a_run_is_stored_and_resumed(name, tmp_path):
    grid = LARGE["of 10^70"]
    whole = sb.maximize(value, POLICIES[name](grid), budget=12)
    sb.maximize(value, POLICIES[name](grid), budget=7, store=tmp_path / "run.zarr")
    resumed = sb.maximize(value, POLICIES[name](grid), budget=12, store=tmp_path / "run.zarr")
    assert resumed.policy.observations.x.tolist() == whole.policy.observations.x.tolist()


def test_the_width_counts_the_candidates():
    """Theorem 1 of Srinivas et al. 2010, for a grid of 10^70 candidates too."""
    policy = sb.GPUCB(LARGE["of 10^70"], KERNEL, delta=0.1, **NUMBERS)
    assert policy.width**2 == pytest.approx(2 * (70 * math.log(10) + math.log(math.pi**2 / 0.6)))


def test_who_cannot_search_says_what_to_give():
    with pytest.raises(ValueError, match=r"^space: got '1,000,000,000,000 candidates'; allowed: at most .*candidates="):
        sb.SWGPUCB(LARGE["of 10^12"], KERNEL, memory=5)
    with pytest.raises(ValueError, match=r"^prior_mean"):
        sb.IGPUCB(LARGE["of 10^70"], KERNEL, prior_mean=np.zeros(5))
    with pytest.raises(ValueError, match=r"^context: got .*; allowed: None for AddGPUCB where candidates are not enum"):
        sb.AddGPUCB(LARGE["of 10^12"], KERNEL, groups=[[k] for k in range(12)]).ask(context={0: 0.0})


def test_what_is_searched_is_said():
    """One number, `enumerated`, decides; a model says what came of it."""
    searched, small = sb.GPEI(LARGE["of 10^12"], KERNEL, **NUMBERS), sb.Grid([[0, 1]] * 2, 30)
    assert searched.enumerated == 2_000_000
    assert sb.GPEI(small).enumerated == 20_000
    assert str(searched.model.describe()).endswith("largest index: searched for among 1,000,000,000,000 candidates")
    for most, told in ((900, "computed at each of 900 candidates"), (899, "searched for among 900 candidates")):
        policy = sb.GPEI(small, KERNEL, enumerated=most, **NUMBERS)
        policy.tell(policy.ask(), 1.0)
        assert policy.model.describe().search == told
