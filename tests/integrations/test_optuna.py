"""The sampler for Optuna: Optuna's own tests of samplers, and what this one promises beyond them."""

from collections.abc import Callable

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing import pytest_samplers

from scalable_bandits.integrations.optuna import BanditSampler


class OfSampler:
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return BanditSampler


class TestBasic(OfSampler, pytest_samplers.BasicSamplerTestCase):
    pass


class TestRelative(OfSampler, pytest_samplers.RelativeSamplerTestCase):
    pass


class TestSingleObjective(OfSampler, pytest_samplers.SingleOnlySamplerTestCase):
    pass
