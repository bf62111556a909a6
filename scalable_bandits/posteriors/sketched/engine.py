"""Sketched engine: the posterior is compressed, from time to time, onto a random dictionary of observed points.

Source: Calandriello et al. 2019, section 3 (BKB), and 2020, section 4 (BBKB).

    observations since the last sketch condition the posterior exactly
    once they have added as many rows as the dictionary has points:
        p_i = min(1, qbar s^2(x_i) / noise_i) for every distinct observed point x_i                    (1)
        put x_i into the dictionary S with probability p_i, by systematic sampling along the tiles     (2)
        z(x) = L^-1 k_S(x) with L L' = K_S, V = I + sum_i z(x_i) z(x_i)' / noise_i                     (3)
        mean(x) = z(x)' V^-1 sum_i z(x_i) y_i / noise_i                                                (4)
        s^2(x) = k(x, x) - z(x)' (I - V^-1) z(x)                                                       (5)

noise_i is the noise variance of the average at x_i. A sketch is a row block (`tiled/tiles.py` has this and other words)
of which the points are S and the coordinates a triangular matrix T: its rows T^-1 k_S(x) have the products
z(x)' (I - V^-1) z(x'). So the number of rows follows the dictionary, and a round costs n |S| however many rounds came
before.

Differs from the papers in:

- Observations since a sketch are not projected on its dictionary, so that all rounds until the next sketch have its
  accuracy. (The papers draw a dictionary in every round or batch, and lose the part of a new point that the old
  dictionary does not span.)
- The observations of a point count as one, with the noise of their average.
- The draws are not independent but spread over the space, because one of two neighbours suffices.
- Points that are numerically in the span of others are left out of the dictionary; nothing is lost by this.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from scipy.linalg.blas import dtrsm

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import EngineOptions
from scalable_bandits.posteriors.exact.window import RowBlock
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.posteriors.sketched.sketch import compressed, drawn, independent
from scalable_bandits.posteriors.state import State, arrays, copied, group, nested, number, part
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.posteriors.tiled.tiles import Tiles
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices

GROWTH = 1.0  # rows between two sketches, as a fraction of the dictionary's points


class SketchedTiles(Tiles):
    """Tiles whose folded rows are rebuilt from a sketch when they are many more than the points of its dictionary.

    Parameters
    ----------
    kernel, points, prior_mean
        Prior covariance, candidates (n, d) in the order of the tiles, and their prior means (n,) in units of y.
    oversampling
        Factor qbar.
    seed
        Seed of the random dictionary.

    Attributes
    ----------
    sketches : int
        Number of sketches drawn.
    """

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, oversampling: float, seed: int):
        super().__init__(kernel, points, prior_mean)
        self._oversampling, self._seed = oversampling, seed
        self._row_blocks: list[RowBlock] = []  # the last sketch, if there is one, and the windows folded since
        self.sketches = 0

    @property
    def dictionary(self) -> Indices:
        """Positions (m,) of the points in the last sketch."""
        return self._row_blocks[0].points if self.sketches else np.empty(0, dtype=np.int64)

    def outgrown(self) -> bool:
        drawn = len(self.dictionary)
        return self._height - drawn > GROWTH * drawn + self.window.capacity

    def fold(self) -> None:
        window = self.window
        shift = window.shift[: window.rank].copy()
        self._row_blocks.append(RowBlock(window.numbers, window.coordinates, window.root(), shift))
        super().fold()

    def new_row_block(self) -> RowBlock | None:
        positions, averages, noise = self._observed.collapsed()
        self.sketches += 1
        leverage = self.variance[positions] / noise
        start = generator(self._seed, "sketch", self.sketches).random()
        order = np.argsort(positions)
        prior = self.kernel.diagonal(self.points[positions[order]])
        chosen = positions[order[drawn(leverage[order], prior, self._oversampling, start)]]  # (1), (2)
        kept, coordinates = independent(self.kernel, self.points[chosen])
        points = chosen[kept]
        features = covariances(self.kernel, self.points[positions], self.points[points])
        turned, shift = compressed(coordinates, features, averages - self._prior[0][positions], noise)  # (3), (4)
        self._row_blocks = [RowBlock(points, np.ascontiguousarray(turned), None, shift)]
        return self._row_blocks[0]

    def _block_states(self) -> State:
        named = (block._asdict().items() for block in self._row_blocks)
        blocks = [arrays(**{name: held for name, held in block if held is not None}) for block in named]
        return nested(**{str(i): block for i, block in enumerate(blocks)})

    def _restore_blocks(self, state: State) -> None:
        count = len({name.partition(".")[0] for name in state})
        blocks = [copied(part(state, str(i))) for i in range(count)]
        self._row_blocks = [RowBlock(b["points"], b["coordinates"], b.get("root"), b["shift"]) for b in blocks]

    STATE = (
        number("sketches", int),
        group("row_block", _block_states, _restore_blocks),
    )

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""
        mean, variance = np.zeros(len(x)), self.kernel.diagonal(x).astype(np.float64)
        held = np.empty((self._height, len(x)))
        height = 0
        for block in self._row_blocks:
            rows = self._rows_at(x, block.points, block.coordinates, held[:height])
            mean += block.shift @ rows
            if block.root is not None:
                rows = block.root.T @ rows
            variance -= np.einsum("ij,ij->j", rows, rows)
            held[height : height + len(rows)] = rows
            height += len(rows)
        rank = self.window.rank
        if rank:
            rows = self._rows_at(x, self.window.numbers, self.window.coordinates, held)
            mean += self.window.shift[:rank] @ rows
            variance -= np.einsum("ij,ij->j", rows, self.window.gram[:rank, :rank] @ rows)
        return mean, np.maximum(variance, 0.0)

    def _rows_at(self, x: Floats, points: Indices, coordinates: Floats, held: Floats) -> Floats:
        """Compute rows coordinates^-1 K_l(P, x) at points x (k, d), given the folded rows `held` (height, k) at x."""
        cross = covariances(self.kernel, self.points[points], x) - self._folded_rows_at(points, len(held)) @ held
        return np.asarray(dtrsm(1.0, np.asfortranarray(coordinates), np.asfortranarray(cross), lower=1))


class SketchedEngine(TiledEngine):
    """Approximate posterior, whose time a round follows a random dictionary of points, however many were observed.

    See `Engine` for the interface.

    Parameters
    ----------
    kernel, points, prior_mean
        Prior covariance, candidates (n, d), and their prior means (n,) in units of y.
    oversampling
        Factor qbar; a larger one is nearer to the exact posterior and slower, an infinite one keeps all points.
    seed
        Seed of the random dictionary.
    """

    exact: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    sharded: ClassVar[bool] = False
    _tiles: SketchedTiles

    def __init__(self, kernel: Kernel, points: Floats, prior_mean: Floats, oversampling: float = 1.5, seed: int = 0):
        self._oversampling, self._seed = oversampling, seed
        super().__init__(kernel, points, prior_mean)

    @classmethod
    def build(cls, kernel: Kernel, points: Floats, prior_mean: Floats, options: EngineOptions) -> Self:
        return cls(kernel, points, prior_mean, options.oversampling, options.seed)

    def tiled(self, points: Floats, prior_mean: Floats) -> Tiles:
        return SketchedTiles(self.kernel, points, prior_mean, self._oversampling, self._seed)

    @property
    def dictionary(self) -> Indices:
        """Candidates (m,) in the last sketch."""
        return self._numbers[self._tiles.dictionary]

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return posterior mean minus prior mean, and variance, at any points x (k, d): two (k,) arrays."""
        return self._tiles.predict(x)
