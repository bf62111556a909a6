"""Other packages' tuners with their recommended settings, random search, and this package's default tuner.

A tuner has `ask`, `tell` (values are minimised) and `recommend`. Lists of numbers are given to all peers as integers,
the positions in the list; whole numbers of an interval as integers, lists of strings as categories. A peer is played in
this process if its modules are installed here, else in an environment of its own (`apart`).
"""

from __future__ import annotations

import importlib.util
from typing import Any

from benchmarks.tuners.ours import Ours
from benchmarks.tuners.peers.ax import Ax
from benchmarks.tuners.peers.base import NotItsKind, Remembering
from benchmarks.tuners.peers.botorch import BoTorch
from benchmarks.tuners.peers.cma import CMAES
from benchmarks.tuners.peers.hebo import HEBO
from benchmarks.tuners.peers.nevergrad import NGOpt
from benchmarks.tuners.peers.optuna import TPE, GPSampler
from benchmarks.tuners.peers.smac import SMAC
from benchmarks.tuners.peers.turbo import TuRBO
from benchmarks.tuners.peers.uniform import Random
from benchmarks.tuners.peers.vizier import Vizier

__all__ = ["CMAES", "PEERS", "TPE", "TUNERS", "NotItsKind", "Ours", "Random", "Remembering", "is_here", "is_importable"]

TUNERS: dict[str, Any] = {
    "ours": Ours, "GPSampler": GPSampler, "TPE": TPE, "BoTorch": BoTorch, "CMA-ES": CMAES, "TuRBO": TuRBO, "HEBO": HEBO,
    "SMAC": SMAC, "Vizier": Vizier, "Ax": Ax, "NGOpt": NGOpt, "random": Random,
}  # fmt: skip
PEERS = tuple(name for name in TUNERS if name != "ours")


def is_here(tuner: str) -> bool:
    """Whether the modules of a tuner are installed in this environment."""
    return is_importable(TUNERS[tuner])


def is_importable(kind: Any) -> bool:
    """Whether the modules of a class of tuners are installed in this environment."""
    return all(importlib.util.find_spec(module) for module in getattr(kind, "modules", ()))
