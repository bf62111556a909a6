"""Base class of the policies that draw sample paths of the posterior, and look for their maxima.

Up to 20,000 candidates are drawn jointly and exactly. On a whole box and on more candidates the draw is pathwise
(Wilson et al. 2020): the prior is drawn by finitely many features, the update by the data is exact. The maximum of a
path is searched in the most promising parts of a finite space (`posteriors/sampling/pathwise.py`), or on a box by exact
gradients from the best of many points (`posteriors/box/maximization.py`).
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import DenseEngine, Engine, PathwiseEngine, check_size, pending
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.surface import SearchSurface, Surface
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.models.pool_search import PoolSearch
from scalable_bandits.posteriors.models.search import BoxSearch
from scalable_bandits.posteriors.pool.draws import Paths, drawn_paths
from scalable_bandits.posteriors.pool.features import UnitFeatures, unit_features
from scalable_bandits.posteriors.registry import LEAST_RATIO, engine_names
from scalable_bandits.posteriors.sampling.features import Features, quadrature_features, random_features
from scalable_bandits.posteriors.sampling.pathwise import draw_path
from scalable_bandits.posteriors.weights.box import WeightsBoxEngine
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices, Mask


@attrs.define(eq=False, kw_only=True, slots=False)
class SamplePathPolicy(GaussianProcessPolicy):
    """Base class of policies that draw sample paths of the posterior.

    Parameters
    ----------
    samples
        Kind of draws: "exact" for joint draws of all candidates, up to 20,000 of them; "pathwise" for sample paths of
        stationary kernels, for millions of candidates and for whole boxes; "auto" by space and size. Draws under a
        kernel of few `features` are exact on millions of candidates and on whole boxes. Else exact draws and kernels
        that are not stationary replace a box by `candidates` Sobol points (1024 by default).
    features
        Number of frequencies of a sample path.
    basis
        Frequencies: "fourier" for random ones, with any stationary kernel; "quadrature" for Gauss-Hermite ones, with
        RBF in few dimensions, exact to rounding if each dimension has enough of them (Mutny & Krause 2018).

    Raises
    ------
    ValueError
        If engine, samples and basis do not fit each other, the kernel or the number of candidates.
    """

    continuous: ClassVar[bool] = True
    learns_kernel: ClassVar[bool] = True
    _assumes_draws: ClassVar[bool] = False  # since paths are drawn around the posterior means

    samples: str = attrs.field(default="auto", validator=checks.one_of(("auto", "exact", "pathwise")))
    features: int = attrs.field(default=512, converter=checks.to_int, validator=checks.whole(1))
    basis: str = attrs.field(default="fourier", validator=checks.one_of(("fourier", "quadrature")))

    @property
    def _feature_count(self) -> int:
        """Number of features of the kernel, by whose weights draws are exact, also of a whole box; 0 without them."""
        pathwise = self.engine == "pathwise" or self.samples == "pathwise"
        return 0 if pathwise else self._prior_kernel.feature_count(self.space.model_dimension)

    def _takes_boxes(self) -> bool:
        pathwise = self.engine in ("auto", "pathwise") and self.samples != "exact" and self._prior_kernel.stationary
        weights = self.engine in ("auto", "weights") and self._feature_count
        return super()._takes_boxes() and bool(pathwise or weights)

    def _checked_engine(self) -> str:
        if self.space.scanned:
            for name, kind, usual in (("samples", self.samples, "pathwise"), ("basis", self.basis, "fourier")):
                if kind not in ("auto", usual):
                    checks.refuse(name, kind, f"{usual!r} on a pool")
            if self.engine != "auto":
                checks.refuse("engine", self.engine, "'auto' on a pool, where paths are drawn")
            self._features_of_pool(self._prior_kernel)
            return self.engine
        forgets, size = bool(self._prior_kernel.epsilon), self.domain.size
        allowed = engine_names(lambda engine: engine.draws and engine.forgets == forgets)
        if not forgets:
            allowed.append("pathwise")
        if self.engine not in allowed:
            names = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
            checks.refuse("engine", self.engine, f"{names}, which can draw samples")
        if self.samples == "pathwise" and (forgets or self.engine not in ("auto", "pathwise")):
            given = "TemporalDecay" if forgets else f"the engine {self.engine!r}"
            checks.refuse("samples", self.samples, f"'auto' or 'exact' with {given}")
        if self.samples == "exact" and self.engine == "pathwise":
            checks.refuse("samples", self.samples, "'auto' or 'pathwise' with the pathwise engine")
        if not forgets and self.engine == "auto":
            searched = self._prior_kernel.stationary and self.enumerated is not None and size > self.enumerated
            large = self.domain.by_visit or size > DenseEngine.limit or searched
            pathwise = self.samples == "pathwise" or (self.samples == "auto" and large)
            weights = self._feature_count and (large or LEAST_RATIO * self._feature_count <= size)
            self.engine = "weights" if weights else "pathwise" if pathwise else "dense"
        if self.engine != "pathwise":
            return super()._checked_engine()
        check_size("pathwise", size, PathwiseEngine.limit)
        self._prior_features(self._prior_kernel)
        return "pathwise"

    def _features_of_pool(self, kernel: Kernel) -> UnitFeatures:
        return unit_features(kernel, self.space.model_dimension, 2 * self.features, generator(self.seed, "features"))

    def _prior_features(self, kernel: Kernel) -> Features:
        dimension = self.space.model_dimension
        if self.basis == "fourier":
            return random_features(kernel, dimension, self.features, generator(self.seed, "features"))
        return quadrature_features(kernel, dimension, max(1, int((2 * self.features) ** (1.0 / dimension) + 1e-9)))

    def _make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        if self.engine != "pathwise":
            return super()._make_engine(kernel, points, prior_mean)
        return PathwiseEngine(kernel, points, prior_mean, self._prior_features(kernel))

    def choice_of_path(self, improvement: bool = False) -> Floats:
        """Draw a path of the posterior given the observations, and return the point (1,) of a pool that it chooses.

        Parameters
        ----------
        improvement
            Whether the probability of improvement over the largest value of the path decides, not the path itself.
        """
        search = self.model.search
        assert isinstance(search, PoolSearch)
        rounds = range(self.round, self.round + self._batch_size)
        return search.choice_of_path(self.model, self._next_query(None), rounds, self._paths, improvement)

    def _paths(self, posterior: Surface, noise_variances: Floats, rounds: Indices) -> Paths:
        """Draw the paths of some rounds on a pool."""
        formula, gain = self.width_formula(), self.information_gain
        widths = np.array([1.0 if formula is None else formula.at(number, gain) for number in rounds.tolist()])
        features = self._features_of_pool(self.present_kernel)
        return drawn_paths(posterior, noise_variances, features, widths, self.seed, rounds)

    def highest_of_path(self, width: float, allowed: Mask | None) -> tuple[int | Floats, float]:
        """Draw from GP(mean, width^2 covariance), given that pending points will be observed; return its maximum.

        That is a candidate, or a point (d,) of a whole box, and the value there, in units of the engine's y.

        Parameters
        ----------
        width
            Factor of the deviation from the mean.
        allowed
            Mask (n,) of the candidates among which the maximum is; None for all, or for the whole box.
        """
        engine, numbers = self.model.engine, self._pending.numbers
        rng = generator(self.seed, "draws", self.round)
        if isinstance(engine, PathwiseEngine):
            path = engine.path(rng, width, np.array(numbers, dtype=np.int64), self.model.regularization)
            candidate = engine.highest(path, self._salt, allowed)
            return candidate, float(engine.values(path, np.array([candidate]))[0])
        if isinstance(engine, QueriedEngine):
            return self._highest_of_box(engine, width, rng, allowed)
        deviation = engine.draw(rng)
        if numbers:
            columns, covariance = self.model.pending_covariance(numbers)
            points, counts = pending.distinct(numbers)
            noise = rng.standard_normal(len(points)) * np.sqrt(self.model.regularization / counts)
            deviation = deviation - np.linalg.solve(covariance, deviation[points] + noise) @ columns
        return choose(engine.mean() + width * deviation, self._salt, allowed)

    def _highest_of_box(
        self, engine: QueriedEngine, width: float, rng: np.random.Generator, allowed: Mask | None
    ) -> tuple[Floats, float]:
        pending_points, noise_variance = self.domain.coordinates(self._pending.numbers), self.model.regularization
        path: SearchSurface
        if isinstance(engine, WeightsBoxEngine):
            path = engine.path(rng, width, pending_points, noise_variance)
        else:
            assert isinstance(engine, BoxEngine)
            features = self._prior_features(self.present_kernel)
            path = draw_path(engine, features, width, pending_points, noise_variance, rng)
        near = np.concatenate([self.model.queried.nonzero()[0], np.array(self._pending.numbers, dtype=np.int64)])
        search = self.model.search
        assert isinstance(search, BoxSearch)
        top = search.top_of_path(self.model, path, near, (self.seed, self.round), allowed, self._fixed)
        return top.x, top.value
