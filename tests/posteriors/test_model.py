"""A model's posterior is that of its observations, also after it is extended, restored or made of other parts."""

import functools

import numpy as np
import pytest
from naive import kernels
from naive.gp import GP

import scalable_bandits as sb
from scalable_bandits.posteriors import EngineOptions, make_engine
from scalable_bandits.posteriors.models.model import MEAN, GivenPrior, Model, Query
from scalable_bandits.posteriors.models.search import search_of
from scalable_bandits.spaces import make_domain

KERNEL, NAIVE, LAMBDA = sb.Matern(0.3, nu=1.5), kernels.matern32(0.3), 0.05
BOX = sb.Box([[0, 1], [0, 1]])


def mean_of(points):
    return np.asarray(points)[:, 0] - 0.5


def model_of(domain, engine="dense"):
    make = functools.partial(make_engine, engine, options=EngineOptions())
    return Model(GivenPrior(KERNEL, mean_of), domain, make, LAMBDA, search_of(domain))


def both(domain, engine="dense"):
    """A model, and the oracle of the same prior on the candidates."""
    return model_of(domain, engine), GP(NAIVE, domain.points(), mean_of(domain.points()))


def test_extended_by_a_point_that_was_told():
    """The model before it stays as it is."""
    domain = make_domain(BOX, 8, 1)
    model, gp = both(domain)
    model.observe(2, 0.7, LAMBDA)
    gp.observe(2, 0.7, LAMBDA)
    x = np.array([[0.3, 0.9]])
    grown = model.extended(domain.grown(x))
    number = gp.add_point(x[0], mean_of(x)[0])
    grown.observe(number, -0.4, LAMBDA)
    gp.observe(number, -0.4, LAMBDA)
    np.testing.assert_allclose(grown.engine.mean(), gp.mean_variance()[0], atol=1e-9)
    assert model.engine.size == 8


def test_a_kernel_that_forgets():
    """The engine alone has the observations; one candidate more has their posterior."""
    kernel = KERNEL * sb.TemporalDecay(0.1)
    domain = make_domain(BOX, 8, 1)
    make = functools.partial(make_engine, "auto", options=EngineOptions())
    model = Model(GivenPrior(kernel, mean_of, 0.0), domain, make, LAMBDA)
    model.observe(2, 0.7, LAMBDA)
    assert model.forgets
    assert not len(model.observations)
    assert np.flatnonzero(model.queried).tolist() == [2]
    x = np.array([[0.3, 0.9]])
    grown = model.extended(domain.grown(x))
    np.testing.assert_allclose(grown.predict(x), model.predict(x), atol=1e-9)
    assert float(grown.engine.at(np.array([8]))[0][0]) == pytest.approx(float(model.predict(x)[0][0]))


def test_whole_box():
    """Its index is maximised over all points."""
    domain = make_domain(BOX, None, 1)
    model = model_of(domain)
    x = np.array([[0.3, 0.9], [0.6, 0.1]])
    model = model.extended(domain.grown(x))
    gp = GP(NAIVE, x, mean_of(x))
    for number, y in ((0, 0.4), (1, -0.6), (0, 0.5)):
        model.observe(number, y, LAMBDA)
        gp.observe(number, y, LAMBDA)
    np.testing.assert_allclose(model.predict(x), gp.mean_variance(), atol=1e-9)
    top, value = model.argmax(MEAN, Query(key=(0, 1)))
    lattice = sb.Grid([[0, 1]] * 2, 40).points()
    assert value >= model.predict(lattice)[0].max() - 1e-9
    assert value == pytest.approx(float(model.predict(top[None])[0][0]))
