"""The sampler for Optuna passes Optuna's own tests of samplers with several objectives and a relative search space."""

import functools
from collections.abc import Callable

import pytest
from optuna.samplers import BaseSampler

from scalable_bandits.integrations.optuna import BanditSampler

pytest_samplers = pytest.importorskip("optuna.testing.pytest_samplers", reason="old versions of Optuna ship none")

pytestmark = [
    pytest.mark.sampled(4),  # of the cases of each test, some of which are products of distributions
    pytest.mark.filterwarnings("ignore:.*settings have been measured"),  # some spaces are smaller than the budget
]


class OfSampler:
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return functools.partial(BanditSampler, seed=0)


class TestBasic(OfSampler, pytest_samplers.BasicSamplerTestCase):
    pass


class TestRelative(OfSampler, pytest_samplers.RelativeSamplerTestCase):
    pass


class TestMultiObjective(OfSampler, pytest_samplers.MultiObjectiveSamplerTestCase):
    pass
