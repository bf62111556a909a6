"""A new user of a film service, to whom those of the offered films shall be shown that they like.

Ratings: MovieLens latest-small (Harper & Konstan 2015). A replicate is a user who rated at least 200 of the films that
ten or more people rated. 200 of them are offered, ten in each of 20 rounds, so that no film comes twice; f is the
user's own rating, which the environment alone knows. The prior of all policies is learned from the other users
that are never played: mean, the average rating of a film; covariance, that of the ratings of two films by one user,
from a factor model (ratings = user's level + film's level + factors, fitted by alternating ridge regressions).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.environments import GaussianNoise, MovingSearchSpace, TableEnvironment
from scalable_bandits.environments.published import load_movielens
from scalable_bandits.kernels import Covariance
from scalable_bandits.policies import GPEI, GPUCB, MeanOnly, Policy, RandomSearch
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Arms
from scalable_bandits.studies.baselines import GivenScores
from scalable_bandits.studies.runs import Problem, Replicate

RATED = 10  # smallest number of ratings of a film
FILMS, OFFERED = 200, 10  # films of a user that are played, and those of a round
RANK, RIDGE, SWEEPS = 8, 8.0, 8  # number of factors, ridge penalty and number of sweeps of the factor model
SHRINKAGE = 5.0  # ratings of average height that a level counts beside the given ones


class FilmModel(NamedTuple):
    """What other users' ratings say of the films."""

    users: NDArray[np.int64]  # (u,) users that are played; their ratings were not looked at
    mean: Floats  # (m,) average rating of each film, in stars; NaN for films with few ratings
    covariance: Floats  # (r + 1, r + 1) covariance of the users' factors, the first of which is their level
    factors: Floats  # (m, r + 1) factors of the films, the first of which is 1
    residual: float  # standard deviation of a rating from the model, in stars


@functools.lru_cache(maxsize=1)
def film_model() -> FilmModel:
    """Learn from the users that are not played."""
    ratings = load_movielens()
    counts = np.bincount(ratings.film)
    known = counts[ratings.film] >= RATED
    many = np.flatnonzero(np.bincount(ratings.user[known], minlength=len(ratings.user_ids)) >= FILMS)
    played = generator(0, "users that are played").permutation(many)
    used = known & ~np.isin(ratings.user, played)
    user, film, stars = ratings.user[used], ratings.film[used], ratings.rating[used]
    average = float(stars.mean())
    levels = _levels(film, stars - average, len(counts))
    own = _levels(user, stars - average - levels[film], len(ratings.user_ids))
    rest = stars - average - levels[film] - own[user]
    users, films = _factors(user, film, rest, len(own), len(counts))
    present = np.unique(user)
    stacked = np.column_stack([own[present], users[present]])
    residual = float(np.sqrt(np.mean((rest - np.einsum("ij,ij->i", users[user], films[film])) ** 2)))
    mean = np.where(counts >= RATED, average + levels, np.nan)
    return FilmModel(played, mean, np.cov(stacked.T), np.column_stack([np.ones(len(counts)), films]), residual)


def _levels(number: NDArray[np.int64], values: Floats, size: int) -> Floats:
    """Return the shrunken averages (size,) of the values (k,) that belong to each number (k,)."""
    counts = np.bincount(number, minlength=size)
    return np.asarray(np.bincount(number, values, minlength=size) / (counts + SHRINKAGE))


def _factors(user: NDArray[np.int64], film: NDArray[np.int64], rest: Floats, users: int, films: int) -> Any:
    """Return the factors (users, r) and (films, r) whose products fit the rest of the ratings (k,)."""
    right = 0.1 * generator(0, "factors").standard_normal((films, RANK))
    left = np.zeros((users, RANK))
    for _ in range(SWEEPS):
        left = _ridge(user, right[film], rest, users)
        right = _ridge(film, left[user], rest, films)
    return left, right


def _ridge(number: NDArray[np.int64], features: Floats, values: Floats, size: int) -> Floats:
    """Return the ridge regressions (size, r) of the values (k,) on the features (k, r) of each number (k,)."""
    order = np.argsort(number, kind="stable")
    cuts = np.searchsorted(number[order], np.arange(size + 1))
    found = np.zeros((size, features.shape[1]))
    for i in np.flatnonzero(np.diff(cuts)):
        rows = order[cuts[i] : cuts[i + 1]]
        x = features[rows]
        found[i] = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ values[rows])
    return found


def policies(space: Arms, model: FilmModel, films: NDArray[np.int64], seed: int) -> dict[str, Policy]:
    """Make policies that learn from the ratings of the user, and one that goes by the average ratings alone."""
    factors = model.factors[films]
    kernel = Covariance(factors @ model.covariance @ factors.T)
    noise = model.residual  # what the factors do not say of a rating is noise to the model
    options: dict[str, Any] = {
        "prior_mean": model.mean[films], "noise": noise, "regularization": noise**2, "delta": 0.1, "seed": seed,
    }  # fmt: skip
    return {
        "mean only": MeanOnly(space, kernel, **options),
        "GP-UCB": GPUCB(space, kernel, theorem=1, scale=20.0, **options),
        "GP-EI": GPEI(space, kernel, **options),
        "average rating": GivenScores(space, scores=model.mean[films][None], seed=seed),
        "random": RandomSearch(space, seed=seed),
    }


def new_user(replicate: Replicate) -> Problem:
    """Make the films of a user, ten of which are offered in each round."""
    ratings, model = load_movielens(), film_model()
    rng = generator(replicate.seed, "films that are offered")
    own = np.flatnonzero(ratings.user == model.users[replicate.number % len(model.users)])
    own = rng.permutation(own[~np.isnan(model.mean[ratings.film[own]])])[:FILMS]
    masks = np.zeros((FILMS // OFFERED, FILMS), dtype=np.bool_)
    masks[np.repeat(np.arange(len(masks)), OFFERED), np.arange(FILMS)] = True
    space = Arms(FILMS)
    function = TableEnvironment(space, ratings.rating[own], GaussianNoise(0.0), replicate.seed)
    return Problem(MovingSearchSpace(function, masks), policies(space, model, ratings.film[own], replicate.seed))
