"""Modules and classes of version 0.1 under their old names: they work in 0.2, with a `DeprecationWarning`."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from scalable_bandits import checks

PACKAGE = __name__.rpartition(".")[0]
MODULES = {  # old name -> new name, inside the package
    "acquisition": "formulas.acquisition",
    "analysis.played": "analysis.diagnostics",
    "confidence": "formulas.confidence",
    "evaluations": "runs.evaluations",
    "execution.places": "execution.connect",
    "execution.sheltered": "execution.ignore_sigint",
    "execution.warming": "warmup",
    "information": "formulas.information_gain",
    "maximize": "runs.maximize",
    "numerals": "report.numerals",
    "policies.confident": "policies.confidence_policy",
    "policies.gaussian_process": "policies.gp_policy",
    "policies.held": "policies.sharded",
    "policies.learned_prior": "posteriors.hyperparameters.schedule",
    "policies.measured": "policies.measurements",
    "policies.memory": "policies.limited_memory",
    "policies.played": "policies.candidates",
    "policies.shards": "policies.prior_model",
    "policies.whole_box": "posteriors.box.whole_box",
    "posteriors.ahead": "posteriors.tiled.column_cache",
    "posteriors.autoregression": "posteriors.forgetting.kalman",
    "posteriors.blocked": "posteriors.tiled.engine",
    "posteriors.box_paths": "posteriors.box.paths",
    "posteriors.box_shard": "posteriors.partition.box_cells",
    "posteriors.cell": "posteriors.partition.cell",
    "posteriors.contest": "posteriors.partition.argmax_tree",
    "posteriors.cover": "posteriors.partition.cover",
    "posteriors.dense": "posteriors.exact.dense",
    "posteriors.distant": "posteriors.partition.remote_cells",
    "posteriors.earlier": "posteriors.tiled.earlier",
    "posteriors.features": "posteriors.sampling.features",
    "posteriors.learning": "posteriors.hyperparameters.marginal_likelihood",
    "posteriors.observations": "posteriors.collapsed",
    "posteriors.order": "posteriors.tiled.ordering",
    "posteriors.parts": "posteriors.tiled.worker",
    "posteriors.pathwise": "posteriors.sampling.pathwise",
    "posteriors.queried": "posteriors.box.engine",
    "posteriors.shard": "posteriors.partition.finite_cells",
    "posteriors.sliding": "posteriors.forgetting.sliding_window",
    "posteriors.spread": "posteriors.tiled.coordinator",
    "posteriors.surface": "posteriors.box.surface",
    "posteriors.tiles": "posteriors.tiled.tiles",
    "posteriors.told": "posteriors.partition.observation_log",
    "posteriors.untouched": "posteriors.partition.empty_cells",
    "posteriors.weighted": "posteriors.forgetting.weighted",
    "posteriors.window": "posteriors.exact.window",
    "recording": "runs.recording",
    "report.of_run": "report.run_page",
    "report.of_study": "report.study_page",
    "results": "report.results",
    "simulate": "runs.simulate",
    "status": "runs.status",
    "store.holders": "store.lock_owner",
    "store.places": "store.resolve",
    "store.stored": "store.reader",
    "studies.declared": "studies.tables",
    "theory": "formulas.rates",
    "trajectory": "runs.trajectory",
}
CLASSES = {  # old name -> new name, in the same module
    "AskedEngine": "OnDemandEngine",
    "AutoregressiveEngine": "KalmanEngine",
    "BlockedEngine": "TiledEngine",
    "Built": "ProblemsFromBuilder",
    "Declared": "ProblemsFromTables",
    "HeldPolicy": "ShardedPolicy",
    "Observations": "CollapsedObservations",
    "QueriedEngine": "BoxEngine",
    "SlidingEngine": "SlidingWindowEngine",
    "Told": "ObservationLog",
}
MOVED = {("information", "GreedyInformationGain"): "posteriors.greedy_gain"}  # out of a module that was renamed


class RenamedModule(ModuleType):
    """A module's old name.

    Parameters
    ----------
    old, new
        Names of the module, inside the package.
    """

    def __init__(self, old: str, new: str):
        super().__init__(f"{PACKAGE}.{old}")
        self._names = old, new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by the interpreter and by tools that go through all modules
            raise AttributeError(name)
        old, new = self._names
        return renamed(old, MOVED.get((old, name), new), name)


def renamed(old: str, new: str, name: str) -> Any:
    """Look up a name that moved or was renamed, with a `DeprecationWarning`.

    Parameters
    ----------
    old, new
        Module that had the name in 0.1, and the one that has it now, inside the package.
    name
        Name in the old module.

    Raises
    ------
    AttributeError
        If the new module has no such name.
    """
    current = CLASSES.get(name, name)
    try:
        found = getattr(import_module(f"{PACKAGE}.{new}"), current)
    except AttributeError:
        raise AttributeError(f"module {f'{PACKAGE}.{old}'!r} has no attribute {name!r}") from None
    checks.deprecated(f"{PACKAGE}.{old}.{name}", f"{PACKAGE}.{new}.{current}")
    return found


def install() -> None:
    """Put the old names of modules where ``import`` finds them."""
    for old, new in MODULES.items():
        sys.modules.setdefault(f"{PACKAGE}.{old}", RenamedModule(old, new))
