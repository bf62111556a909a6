"""Posteriors: engines that keep mean and standard deviation of the candidates, and refits at any points."""

from scalable_bandits.posteriors.engine import Acquisition as Acquisition
from scalable_bandits.posteriors.engine import Engine as Engine
from scalable_bandits.posteriors.engine import EngineOptions as EngineOptions
from scalable_bandits.posteriors.engine import ForgettingEngine as ForgettingEngine
from scalable_bandits.posteriors.exact.dense import DenseEngine as DenseEngine
from scalable_bandits.posteriors.forgetting.kalman import KalmanEngine as KalmanEngine
from scalable_bandits.posteriors.forgetting.sliding_window import SlidingWindowEngine as SlidingWindowEngine
from scalable_bandits.posteriors.forgetting.weighted import WeightedEngine as WeightedEngine
from scalable_bandits.posteriors.registry import check_engine as check_engine
from scalable_bandits.posteriors.registry import check_size as check_size
from scalable_bandits.posteriors.registry import find_engine as find_engine
from scalable_bandits.posteriors.registry import make_engine as make_engine
from scalable_bandits.posteriors.registry import register_engine as register_engine
from scalable_bandits.posteriors.sampling.features import quadrature_features as quadrature_features
from scalable_bandits.posteriors.sampling.features import random_features as random_features
from scalable_bandits.posteriors.sampling.features import register_frequencies as register_frequencies
from scalable_bandits.posteriors.sampling.pathwise import PathwiseEngine as PathwiseEngine
from scalable_bandits.posteriors.sketched.engine import SketchedEngine as SketchedEngine
from scalable_bandits.posteriors.state import State as State
from scalable_bandits.posteriors.tiled.engine import TiledEngine as TiledEngine
from scalable_bandits.posteriors.weights.engine import WeightsEngine as WeightsEngine
