"""SupKernelUCB against the paper's loop over stages that are refitted in every round."""

import numpy as np
import pytest
from naive import kernels as naive_kernels
from naive.phased import Phased

import scalable_bandits as sb

SETTINGS = {"noise": 0.05, "regularization": 0.05, "delta": 0.2}
SPACE, LENGTHSCALE = sb.Grid([[0, 1], [0, 1]], 5), 0.8


def both(horizon, own, norm=0.3, scale=1.0, space=SPACE, **options):
    policy = sb.SupKernelUCB(
        space, sb.Matern(LENGTHSCALE, nu=1.5), horizon=horizon, rkhs_norm=norm, scale=scale, seed=2, **SETTINGS,
        **options,
    )  # fmt: skip
    oracle = Phased(
        naive_kernels.matern32(LENGTHSCALE), policy.domain.points(), horizon=horizon, norm=norm, scale=scale,
        own=own, **SETTINGS,
    )  # fmt: skip
    return policy, oracle


def value(x):
    return float(0.5 * np.sin(4.0 * x[0]) - 0.4 * x[-1] ** 2)


def assert_chosen(oracle, candidate, allowed, pending=()):
    """The chosen point is left in the oracle's stage and has the largest index there; the stage."""
    left, index, stage = oracle.round(allowed, pending)
    assert candidate in left
    assert index[left.index(candidate)] >= index.max() - 1e-8
    return stage


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("engine", ["dense", "tiled"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.sampled(4)
def test_plays_what_the_paper_plays(engine, scale):
    """In every round, through several stages down to the greedy one."""
    policy, oracle = both(60, own=False, scale=scale, engine=engine)
    rng, stages = np.random.default_rng(0), []
    for _ in range(220):
        x = policy.ask()
        candidate = int(SPACE.index(x)[0])
        stages.append(assert_chosen(oracle, candidate, range(SPACE.size)))
        assert policy.width == pytest.approx(oracle.beta, rel=1e-12)
        assert stages[-1] in (0, policy.stage)
        y = value(x) + 0.05 * rng.standard_normal()
        policy.tell(x, y)
        oracle.tell(candidate, y, stages[-1])
    assert {1, 2, 3, 0} <= set(stages)
    assert stages == sorted(stages, key=lambda s: s or 99)  # what a stage has eliminated stays eliminated


def test_available_candidates_and_measurements_with_a_noise_of_their_own():
    policy, oracle = both(60, own=True)
    rng, stages = np.random.default_rng(1), set()
    for _ in range(150):
        allowed = sorted(rng.choice(25, size=6, replace=False).tolist())
        x = policy.ask(available=allowed)
        candidate = int(SPACE.index(x)[0])
        stages.add(assert_chosen(oracle, candidate, allowed))
        policy.tell(x, value(x), noise=0.04)
        oracle.tell(candidate, value(x), None, 0.05 * 0.8**2)
        if rng.random() < 0.2:  # nobody asked for it
            other = int(rng.integers(25))
            policy.tell(SPACE.value(other), 0.1)
            oracle.tell(other, 0.1, None)
    assert {1, 2, 3} <= stages


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("engine", ["dense", "tiled"])
def test_pending_points_spread_within_a_stage(engine):
    """Pending points narrow the deviations by which the next is chosen, and do not end a stage."""
    policy, oracle = both(60, own=True, engine=engine)
    distinct = []
    for _ in range(16):
        asked = [int(SPACE.index(x)[0]) for x in policy.ask(5)]
        for i, candidate in enumerate(asked):
            assert_chosen(oracle, candidate, range(25), asked[:i])
        distinct.append(len(set(asked)))
        for candidate in reversed(asked):
            y = value(SPACE.value(candidate))
            policy.tell(SPACE.value(candidate), y)
            oracle.tell(candidate, y, None)
    assert distinct[0] == 5


def test_a_box_takes_the_points_of_others():
    """They are learnt from, and never chosen."""
    box = sb.Box([[0, 1], [0, 1]])
    policy, oracle = both(40, own=True, space=box, candidates=16)
    for x in ([0.21, 0.34], [0.77, 0.5]):
        for _ in range(3):
            policy.tell(x, value(x))
    number = [oracle.empty.add_point(x, 0.0) for x in ([0.21, 0.34], [0.77, 0.5])]
    for i in number:
        for _ in range(3):
            oracle.tell(i, value(oracle.empty.points[i]), None)
    for _ in range(25):
        x = policy.ask()
        candidate = int(policy.domain.numbered.index(x)[0])
        assert_chosen(oracle, candidate, range(16))
        policy.tell(x, value(x))
        oracle.tell(candidate, value(x), None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^horizon"), ({"horizon": 9, "scale": 0.0}, "^scale"), ({"rkhs_norm": -1}, "^rkhs"),
        ({"horizon": 9, "refit": 5}, "^refit"),
    ],
)  # fmt: skip
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        sb.SupKernelUCB(sb.Arms(2), sb.Covariance(np.eye(2)), **options)
