"""Posteriors: engines that keep mean and standard deviation of the candidates, and refits at any points."""

from scalable_bandits.posteriors.engine import Acquisition, Engine, EngineOptions, ForgettingEngine
from scalable_bandits.posteriors.exact.dense import DenseEngine
from scalable_bandits.posteriors.forgetting.kalman import KalmanEngine
from scalable_bandits.posteriors.forgetting.sliding_window import SlidingWindowEngine
from scalable_bandits.posteriors.forgetting.weighted import WeightedEngine
from scalable_bandits.posteriors.registry import check_engine, check_size, find_engine, make_engine, register_engine
from scalable_bandits.posteriors.sampling.features import quadrature_features, random_features, register_frequencies
from scalable_bandits.posteriors.sampling.pathwise import PathwiseEngine
from scalable_bandits.posteriors.sketched.engine import SketchedEngine
from scalable_bandits.posteriors.state import State
from scalable_bandits.posteriors.tiled.engine import TiledEngine

__all__ = [
    "Acquisition",
    "DenseEngine",
    "Engine",
    "EngineOptions",
    "ForgettingEngine",
    "KalmanEngine",
    "PathwiseEngine",
    "SketchedEngine",
    "SlidingWindowEngine",
    "State",
    "TiledEngine",
    "WeightedEngine",
    "check_engine",
    "check_size",
    "find_engine",
    "make_engine",
    "quadrature_features",
    "random_features",
    "register_engine",
    "register_frequencies",
]
