"""Functions of the bbob, bbob-largescale and bbob-mixint suites, optionally with noise models of the bbob-noisy suite.

The functions are computed by the package coco-experiment. Its noise comes from a generator that cannot be set to a
round. The noise models (Hansen, Finck, Ros & Auger 2009) are therefore computed here, as functions of seed and round.

    f is the function minus its minimum, U uniform on [0, 1], N and N' standard normal; all independent
    gauss:    f exp(beta N)
    uniform:  f U^beta max(1, (10^9 / (f + 10^-99))^(alpha U'))
    cauchy:   f + alpha max(0, 1000 + 1{U < p} N / (|N'| + 10^-199))
    observed is the result + 1.01 10^-8, or f itself where f < 10^-8

Differs from the source in: no penalty outside the box, since no policy leaves it.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import Environment
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.environments.published.sources import COCO, Source
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Integer, Real, SearchSpace
from scalable_bandits.specification import check_name

FUNCTIONS = 24
SIDE = 5.0  # each coordinate is from -5 to 5


class NoiseModel(NamedTuple):
    """Noise model of the bbob-noisy suite."""

    kind: str  # gauss, uniform or cauchy
    alpha: float  # for uniform times 0.49 + 1 / d
    beta: float  # for cauchy p


MODELS = {
    "gauss": NoiseModel("gauss", 0.0, 0.01),
    "severe gauss": NoiseModel("gauss", 0.0, 1.0),
    "uniform": NoiseModel("uniform", 0.01, 0.01),
    "severe uniform": NoiseModel("uniform", 1.0, 1.0),
    "cauchy": NoiseModel("cauchy", 0.01, 0.05),
    "severe cauchy": NoiseModel("cauchy", 1.0, 0.2),
}
TARGET = 1e-8  # no noise where f is nearer to the minimum
SHIFT = 1.01 * TARGET


class BBOB(Environment):
    """Function of the bbob suite, negated: f is minus the published function, on [-5, 5]^d.

    Source: Hansen et al. 2021. The space is a `SearchSpace` with parameters x0, x1, ....

    Parameters
    ----------
    function
        Number of the function, 1 to 24.
    dimension
        Number of coordinates: 2, 3, 5, 10, 20 or 40.
    instance
        Number of the instance, from 1. An instance is a shift and a rotation of the function.
    model
        Noise model of the bbob-noisy suite: "gauss", "uniform" or "cauchy" of moderate strength, or "severe gauss",
        "severe uniform" or "severe cauchy". Without one, observations are f plus `noise`. With one, the average of
        observations is not f, and no sub-Gaussian constant exists.
    share
        Standard deviation of Gaussian noise, as a share of the interquartile range of f over the box; not together
        with `noise`.
    noise, seed
        Noise that is added, none if not given; seed of all noise.

    Raises
    ------
    ValueError
        If the function, dimension, instance or model is unknown, or both `share` and `noise` are given.
    DataMissing
        If the package that has the functions is not installed.
    """

    SOURCE: ClassVar[Source] = COCO
    SUITE: ClassVar[str] = "bbob"
    DIMENSIONS: ClassVar[tuple[int, ...]] = (2, 3, 5, 10, 20, 40)

    def __init__(
        self, function: int, dimension: int, instance: int = 1, *, model: str | None = None, share: float = 0.0,
        noise: Noise | None = None, seed: int = 0,
    ):  # fmt: skip
        self.function = checks.integer("function", function, 1, FUNCTIONS)
        self.instance = checks.integer("instance", instance, 1)
        self.dimension = checks.integer("dimension", dimension, 2)
        if dimension not in self.DIMENSIONS:
            checks.refuse("dimension", dimension, f"one of {', '.join(map(str, self.DIMENSIONS))}")
        self.model = None if model is None else check_name("model", model, MODELS)
        share = float(checks.finite("share", share, ndim=0))
        if share < 0.0 or (share and noise is not None):
            checks.refuse("share", share, "a number >= 0, and 0 if a noise is given")
        self._problem: Any = None
        super().__init__(self._make_space(), GaussianNoise(0.0) if noise is None else noise, seed)
        self.same_noise_everywhere = model is None
        self._best = -self._minimum()
        self._share, self._share_noise = share, GaussianNoise(0.0)
        if share:
            self._share_noise = GaussianNoise(share * interquartile_range(self))
            self.set_noise(self._share_noise)

    @property
    def share(self) -> float:
        """Standard deviation of the noise as a share of the interquartile range of f; 0 for a noise that was given."""
        return self._share if self.noise == self._share_noise else 0.0

    @property
    def _published(self) -> Any:
        """Function of the package; made again in another process, since it cannot be pickled."""
        if self._problem is None:
            self._problem = self._make(self.dimension)
        return self._problem

    def _make_space(self) -> SearchSpace:
        return SearchSpace({f"x{i}": Real(-SIDE, SIDE) for i in range(self.dimension)})

    def _make(self, dimension: int) -> Any:
        """Return the function of the package; in dimensions that its suite does not have, that of bbob."""
        COCO.require()
        import cocoex  # type: ignore[import-untyped, import-not-found, unused-ignore]

        if self.SUITE == "bbob" or dimension not in self.DIMENSIONS:
            return cocoex.BareProblem("bbob", self.function, dimension, self.instance)
        suite = cocoex.Suite(self.SUITE, f"instances: {self.instance}", f"dimensions: {dimension}")
        return suite.get_problem_by_function_dimension_instance(self.function, dimension, self.instance)

    def _minimum(self) -> float:
        """Return the published minimum."""
        return float(self._published.best_value())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_problem": None}

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "noise": None if self.share else self.noise}

    def evaluate(self, points: Floats) -> Floats:
        return -np.array([float(self._published(np.array(point))) for point in points])

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        if available is not None:
            checks.refuse("available", available, "None on a space that is not finite")
        return self._best

    def measured(self, point: Floats, value: float, t: int) -> float:
        if self.model is None:
            return super().measured(point, value, t)
        above = max(self._best - value, 0.0)
        rng = generator(self.seed, "bbob noise", t)
        return self._best - observed_above(MODELS[self.model], above, self.dimension, rng) + self.noise_at(t)

    @property
    def sub_gaussian(self) -> float:
        return super().sub_gaussian if self.model is None else float("inf")


class LargeScaleBBOB(BBOB):
    """Function of the bbob-largescale suite, negated: as of `BBOB`, in up to 640 dimensions, on [-5, 5]^d.

    Rotations are products of permutations and block-diagonal orthogonal matrices, and cost d, not d^2.

    Source: Elhara, Varelas, Nguyen, Tusar, Brockhoff, Hansen & Auger 2019.

    Parameters are those of `BBOB`. The number of coordinates is 20, 40, 80, 160, 320 or 640.

    Raises
    ------
    ValueError
        If `BBOB` refuses an argument.
    DataMissing
        If the package that has the functions is not installed.
    """

    SUITE: ClassVar[str] = "bbob-largescale"
    DIMENSIONS: ClassVar[tuple[int, ...]] = (20, 40, 80, 160, 320, 640)

    def _minimum(self) -> float:
        """Return the published minimum: that of the function and the instance in any dimension, also of `BBOB`."""
        return float(self._make(2).best_value())


class MixedIntegerBBOB(BBOB):
    """Function of the bbob-mixint suite, negated: four fifths of the coordinates are integers.

    The first fifth of them is 0 or 1, the next ones are 0 to 3, 0 to 7 and 0 to 15, the last ones real, in [-5, 5].

    Source: Tusar, Brockhoff & Hansen 2019.

    Parameters are those of `BBOB`. The number of coordinates is 5, 10, 20, 40, 80 or 160.

    Raises
    ------
    ValueError
        If `BBOB` refuses an argument.
    DataMissing
        If the package that has the functions is not installed.
    """

    SUITE: ClassVar[str] = "bbob-mixint"
    DIMENSIONS: ClassVar[tuple[int, ...]] = (5, 10, 20, 40, 80, 160)
    LEVELS: ClassVar[tuple[int, ...]] = (2, 4, 8, 16)
    # Factors of the functions, by which values of different ones are of the same order; 1 for others.
    FACTORS: ClassVar[dict[int, float]] = {
        2: 1e-3, 3: 0.1, 4: 0.1, 6: 0.01, 8: 0.01, 9: 0.01, 10: 1e-3, 11: 0.01, 12: 1e-4, 13: 0.1, 15: 0.1, 17: 10.0,
        19: 10.0, 20: 0.1, 23: 10.0, 24: 0.1,
    }  # fmt: skip

    def _make_space(self) -> SearchSpace:
        kinds = [*(Integer(0, levels - 1) for levels in self.LEVELS), Real(-SIDE, SIDE)]
        return SearchSpace({f"x{i}": kinds[5 * i // self.dimension] for i in range(self.dimension)})

    def _minimum(self) -> float:
        """Return the published minimum, a multiple of that of the function of `BBOB` with the same instance."""
        return self.FACTORS.get(self.function, 1.0) * float(self._make(2).best_value())


def observed_above(model: NoiseModel, above: float, dimension: int, rng: np.random.Generator) -> float:
    """Return what is observed, by a noise model, of a function value above the minimum; see the head of the file."""
    alpha, beta = model.alpha, model.beta
    if above < TARGET:
        return above
    if model.kind == "gauss":
        noisy = above * np.exp(beta * rng.standard_normal())
    elif model.kind == "uniform":
        first, second = rng.random(2)
        power = alpha * (0.49 + 1.0 / dimension) * second
        noisy = first**beta * above * max(1.0, (1e9 / (above + 1e-99)) ** power)
    else:
        outlier, (first, second) = rng.random(), rng.standard_normal(2)
        noisy = above + alpha * max(0.0, 1000.0 + (outlier < beta) * first / (abs(second) + 1e-199))
    return float(noisy + SHIFT)


def interquartile_range(environment: Environment) -> float:
    """Return the interquartile range of f over its space, at Sobol points, in units of y."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(environment.space.dimension, scramble=False).random(1024)
    low, high = np.quantile(environment.evaluate(environment.space.spread(uniform)), [0.25, 0.75])
    return float(high - low)
