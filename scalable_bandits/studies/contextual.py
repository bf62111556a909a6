"""Measured tables in which each round gives a context: policies that know it beside policies that do not.

Films (Harper & Konstan 2015, MovieLens latest-small): a round's context is a user, the choice one of the 100 films with
most ratings, of those that the user rated, and f the user's own rating. A replicate has 30 of the 113 users of
`movielens.py`, from whose ratings the prior was not learned. The prior: mean, the average rating of a film; covariance
of one user's ratings of two films, that of the factor model, and a variance of its own for each film.

Light (Chowdhury & Gopalan 2017, Fig. 4b): the context is the time, the choice one of 41 sensors, and f the sensor's
reading at that time. A replicate has every fourth of the 192 test readings, which the file lists in the order of time,
without their hours. The prior: mean and covariance of the training readings. In most of them it is dark, and a tenth
of the variance is therefore taken to be each sensor's own.

To all policies f is a function of the choice alone plus one of context and choice. The covariance of the second one is
a product of a kernel of the contexts and one of the choices (Krause & Ong 2011): whether the user is the same, or a
Matern kernel of the times. To policies that do not know the context the second function is noise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.environments import ContextualEnvironment, GaussianNoise, TableEnvironment, load_light
from scalable_bandits.environments.published import load_movielens
from scalable_bandits.environments.sensors import empirical_covariance
from scalable_bandits.kernels import Covariance, Kernel, Matern, OnDimensions
from scalable_bandits.policies import GPUCB, MLEGPUCB, PEGPUCB, UCB1, IndependentTS, Policy, RandomSearch
from scalable_bandits.priors import Prior
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Points
from scalable_bandits.studies.baselines import GivenScores
from scalable_bandits.studies.movielens import film_model
from scalable_bandits.studies.runs import Problem, Replicate

USERS, FILMS = 30, 100  # users of a replicate, and films that most people rated
EVERY, OWN = 4, 0.1  # a replicate has every fourth reading; share of the variance that is each sensor's own
CONTEXT, CHOICE = 0, 1  # dimensions of a candidate


class ContextTable(NamedTuple):
    """Table of a replicate, and what is known of it beforehand."""

    points: Floats  # (n, 2) number or time of the context, and number of the choice
    values: Floats  # (n,) f, in units of y
    mean: Floats  # (m,) prior mean of the choices, in units of y
    covariance: Floats  # (m, m) covariance of the choices in one context, in squared units of y
    contexts: Kernel  # correlation of the contexts
    shared: float  # share of the covariance that the function of the choice alone has
    scale: float  # divisor of beta_t


def films(replicate: Replicate) -> ContextTable:
    """Return the ratings of popular films by users that the model does not know, in stars."""
    ratings, model = load_movielens(), film_model()
    users = generator(replicate.number, "users").choice(model.users, USERS, replace=False)
    popular = np.argsort(-np.bincount(ratings.film), kind="stable")[:FILMS]
    user, film = (_places(numbers, known) for numbers, known in ((ratings.user, users), (ratings.film, popular)))
    rated = np.flatnonzero((user >= 0) & (film >= 0))
    factors = model.factors[popular]
    covariance = factors @ model.covariance @ factors.T + model.residual**2 * np.eye(FILMS)
    points = np.column_stack([user, film])[rated].astype(np.float64)
    same = Covariance(np.eye(USERS))
    return ContextTable(points, ratings.rating[rated], model.mean[popular], covariance, same, 1.0 / USERS, 20.0)


def _places(numbers: Any, known: Any) -> Any:
    """Return the place of each number (k,) among known ones (n,), -1 if it has none."""
    places = np.full(max(numbers.max(), known.max()) + 1, -1)
    places[known] = np.arange(len(known))
    return places[numbers]


def light(replicate: Replicate, lengthscale: float) -> ContextTable:
    """Return readings of the light sensors through a day, standardised by those before, at times in readings."""
    data = load_light(replicate.data)
    center, scale = data.train.mean(), math.sqrt(data.train.var(axis=0).mean())
    times = np.arange(replicate.number % EVERY, len(data.test), EVERY)
    readings = (data.test[times] - center) / scale
    time, sensor = np.meshgrid(times, np.arange(readings.shape[1]), indexing="ij")
    points = np.column_stack([time.ravel(), sensor.ravel()]).astype(np.float64)
    mean, covariance = (data.train.mean(axis=0) - center) / scale, empirical_covariance(data.train / scale)
    covariance = (1.0 - OWN) * covariance + OWN * np.eye(len(mean))  # the average variance is 1
    return ContextTable(points, readings.ravel(), mean, covariance, Matern(lengthscale, nu=2.5), 0.5, 5.0)


def problem(
    replicate: Replicate, *, rating_noise: float = 0.5, reading_noise: float = 0.2, lengthscale: float = 24.0
) -> Problem:
    """Make the table of a case, a context of which is drawn in each round, and the policies.

    Parameters
    ----------
    replicate
        Replicate of the case "films" or "light".
    rating_noise
        Standard deviation of the noise of a rating, in stars.
    reading_noise
        Standard deviation of the noise of a reading, in standard deviations of the training readings.
    lengthscale
        Lengthscale of the times, in readings.
    """
    is_films = replicate.case == "films"
    table, noise = (films(replicate), rating_noise) if is_films else (light(replicate, lengthscale), reading_noise)
    function = TableEnvironment(Points(table.points), table.values, GaussianNoise(noise), replicate.seed)
    return Problem(ContextualEnvironment(function, [CONTEXT]), policies(table, noise, replicate.seed))


def policies(table: ContextTable, noise: float, seed: int) -> dict[str, Policy]:
    """Make policies that know the context, that do not, and that do not know whether it matters."""
    space, choices = Points(table.points), OnDimensions(Covariance(table.covariance), [CHOICE])
    mean = table.mean[table.points[:, CHOICE].astype(np.int64)]
    blind = table.shared * choices
    known = blind + (1.0 - table.shared) * OnDimensions(table.contexts, [CONTEXT]) * choices
    priors = [Prior("context", known, mean), Prior("no context", blind, mean)]
    own: dict[str, Any] = {"noise": noise, "regularization": noise**2, "delta": 0.1, "seed": seed}
    deviation = math.sqrt(np.diag(table.covariance).mean())
    spread = math.hypot(noise, deviation)
    wide = {**own, "noise": spread, "regularization": spread**2, "prior_mean": mean}
    return {
        "GP-UCB": GPUCB(space, known, theorem=1, scale=table.scale, prior_mean=mean, **own),
        "MLE": MLEGPUCB(space, priors, scale=table.scale, **own),
        "PE-GP-UCB": PEGPUCB(space, priors, scale=table.scale, on_exhaustion="warn", **own),
        "GP-UCB, blind": GPUCB(space, blind, theorem=1, scale=table.scale, **wide),
        "average": GivenScores(space, scores=mean[None], seed=seed),
        "UCB1": UCB1(space, **own),
        "Thompson sampling": IndependentTS(space, prior_mean=float(table.mean.mean()), prior_std=deviation, **own),
        "random": RandomSearch(space, seed=seed),
    }
