"""A model that the observations contradict says so, once; one that fits is silent."""

import warnings

import numpy as np
import pytest
from naive import kernels
from naive.gp import GP

import scalable_bandits as sb
from scalable_bandits.policies.confidence import UnprovenWidth
from scalable_bandits.policies.contradiction import ContradictedModel, leave_one_out_errors

BOX = sb.Box([[0, 1], [0, 1]])
KERNEL = sb.Matern(0.3, nu=1.5)
X = np.random.default_rng(0).random((45, 2))
DRAWN = np.linalg.cholesky(KERNEL.block(X) + 1e-9 * np.eye(45)) @ np.random.default_rng(1).standard_normal(45)
NOISE = 0.1 * np.random.default_rng(2).standard_normal(45)


def warnings_of(policy, y):
    """Texts of the warnings while values are told one by one."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        for x, each in zip(X, y, strict=True):
            policy.tell(x, each)
    return [str(each.message) for each in caught if issubclass(each.category, ContradictedModel)]


def test_errors_are_those_of_models_without_the_observation():
    x, y, noise = X[:9], DRAWN[:9], np.linspace(0.01, 0.1, 9)
    found = leave_one_out_errors(KERNEL, x, y, noise)
    for i in range(9):
        gp = GP(kernels.matern32(0.3), x, np.zeros(9))
        for j in range(9):
            if j != i:
                gp.observe(j, y[j], noise[j])
        mean, variance = gp.mean_variance()
        assert found[i] == pytest.approx((y[i] - mean[i]) / np.sqrt(variance[i] + noise[i]))


def test_a_model_that_fits_is_silent():
    assert warnings_of(sb.GPEI(BOX, KERNEL, noise=0.1, regularization=0.01), DRAWN + NOISE) == []


@pytest.mark.parametrize(
    ("keywords", "scale", "text"),
    [
        ({"noise": 0.1, "regularization": 0.01}, 100.0, "too small"),
        ({"noise": 0.1, "regularization": 0.01}, 1e-4, "noise=0.1 is larger than the spread of y"),
        ({"noise": 1e-3, "regularization": 1.0}, 0.02, "too large"),
    ],
)
def test_a_contradicted_model_says_so_once(keywords, scale, text):
    found = warnings_of(sb.GPEI(BOX, KERNEL, **keywords), scale * (DRAWN + NOISE))
    assert len(found) == 1
    assert text in found[0]
    assert "GPEI: after 20 observations" in found[0]
    assert "would learn both" in found[0]


def test_a_learned_model_is_not_contradicted():
    assert warnings_of(sb.GPEI(BOX), 1e5 * (DRAWN + NOISE)) == []


def test_repeats_of_the_best_point_are_no_contradiction():
    policy = sb.GPEI(BOX, KERNEL, noise=0.2, regularization=0.04)
    with warnings.catch_warnings(action="error"):
        for i in range(60):
            policy.tell(X[i % 4], 0.15 * np.sin(17 * i))


@pytest.mark.parametrize(
    ("kind", "given", "proven"),
    [
        (sb.IGPUCB, {}, {"confidence": "flynn-reeb"}),
        (sb.GPTS, {}, {"confidence": "whitehouse"}),
        (sb.RGPUCB, {"memory": 9}, {"confidence": "flynn-reeb"}),
        (sb.SWGPUCB, {"memory": 9, "horizon": 50}, {"width": "theorem"}),
        (sb.WGPUCB, {}, {"confidence": "flynn-reeb"}),
        (sb.BKB, {}, {"confidence": "budgeted"}),
        (sb.BBKB, {}, {"confidence": "budgeted"}),
        (sb.PiGPUCB, {}, None),
    ],
)
def test_a_width_outside_its_theorem(kind, given, proven):
    fine = {"space": sb.Grid([[0, 1]], 9), "kernel": sb.Matern(0.3, nu=1.5), **given}
    with pytest.warns(UnprovenWidth, match=rf"^{kind.__name__}: .*regularization >= 1, not for 0\.01"):
        kind(**fine, noise=0.1, regularization=0.01)
    with warnings.catch_warnings(action="error"):
        kind(**fine, regularization=1.0)
        if proven is not None:
            kind(**fine, regularization=0.01, **proven)


def test_a_learned_model_has_no_proof_to_lose():
    """Its width is the practical one, whatever lambda is."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        sb.IGPUCB(sb.Box([[0, 1]]), noise=0.1)
    assert UnprovenWidth not in [each.category for each in caught]
