"""Old names of version 0.1 for modules, classes, functions and methods that were renamed since.

They work in version 0.2, with a `DeprecationWarning`, and are gone in 0.3.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

from scalable_bandits import checks

PACKAGE = __name__.rpartition(".")[0]
MODULES = {  # old module -> new module, inside the package
    "acquisition": "formulas.acquisition",
    "analysis.played": "analysis.diagnostics",
    "confidence": "formulas.confidence",
    "evaluations": "runs.evaluations",
    "execution.places": "execution.connect",
    "execution.sheltered": "execution.local_worker",
    "execution.warming": "warmup",
    "information": "formulas.information_gain",
    "maximize": "runs.maximize",
    "numerals": "report.numbers",
    "policies.confident": "policies.confidence_policy",
    "policies.gaussian_process": "policies.gp_policy",
    "policies.held": "policies.base",
    "policies.learned_prior": "posteriors.hyperparameters.schedule",
    "policies.measured": "policies.measurements",
    "policies.memory": "policies.limited_memory",
    "policies.played": "spaces.domain",
    "policies.shards": "policies.prior_model",
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
    "results": "report.study_files",
    "simulate": "runs.simulate",
    "status": "runs.status",
    "store.holders": "store.lock_owner",
    "store.places": "store.resolve",
    "store.stored": "store.reader",
    "studies.declared": "studies.tables",
    "theory": "formulas.rates",
    "trajectory": "runs.trajectory",
}
CLASSES = {  # old class, function or constant -> its new name
    "AskedEngine": "OnDemandEngine",
    "AutoregressiveEngine": "KalmanEngine",
    "BlockedEngine": "TiledEngine",
    "Built": "ProblemsFromBuilder",
    "Declared": "ProblemsFromTables",
    "HeldPolicy": "Policy",
    "DENSE_MAXIMUM": "DenseEngine.limit",
    "Observations": "CollapsedObservations",
    "IndexPolicy": "GaussianProcessPolicy",
    "Maximum": "TuningResult",
    "PATHWISE_MAXIMUM": "PathwiseEngine.limit",
    "QueriedEngine": "BoxEngine",
    "Sketch": "EngineOptions",
    "SlidingEngine": "SlidingWindowEngine",
    "Told": "ObservationLog",
    "table_of": "regret_table",
}
MOVED = {  # (old module, name) -> new module of this name alone
    ("information", "GreedyInformationGain"): "posteriors.greedy_gain",
    ("recording", "replay"): "runs.replaying",
    ("results", "finite"): "cli.messages",
    ("results", "published_table"): "cli.study_output",
    ("results", "record_of"): "cli.study_output",
    ("results", "table_of"): "cli.study_output",
}
MEMBERS: dict[str, dict[str, str]] = {  # class -> old method or property -> new one
    "Policy": {
        "anticipate": "precheck",
        "asks_matter": "ask_is_stateful",
        "give_up": "pending_points.exclude",
        "visit": "extend",
        "wait_for": "pending_points.replace",
    },
    "GaussianProcessPolicy": {
        "forget": "model.forget",
        "fresh_engine": "make_engine",
        "pending_covariance": "model.pending_covariance",
        "reduction": "model.reduction",
    },
    "UnknownPriorPolicy": {"book": "add_play", "foresee": "prefetch_next"},
    "Engine": {"asks_matter": "ask_is_stateful"},
}
ADDED: dict[str, Callable[[Any], Any]] = {  # new member -> first argument that its old form did not have
    "make_engine": attrgetter("present_kernel"),
    "model.pending_covariance": attrgetter("pending_points.numbers"),
    "model.reduction": attrgetter("pending_points.numbers"),
}


PUBLIC = {"Maximum": "runs.result"}  # old names in the package itself -> module of the new one


class RenamedMember:
    """Old name of a method or property, which gets the new one.

    Parameters
    ----------
    old, new
        Old and new name.
    """

    def __init__(self, old: str, new: str):
        self._old, self._new = old, new

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        if instance is None:
            return self
        checks.deprecated(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        found = attrgetter(self._new)(instance)
        return partial(found, ADDED[self._new](instance)) if self._new in ADDED else found


class RenamedMembers:
    """Base of the classes whose methods or properties were renamed: the old ones can be called and overridden."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(f"{PACKAGE}."):
            for old, new in MEMBERS.get(cls.__name__, {}).items():
                setattr(cls, old, RenamedMember(old, new))
            return
        for base in cls.__mro__[1:]:
            for old, new in MEMBERS.get(base.__name__, {}).items():
                if old in vars(cls) and hasattr(cls, new):
                    checks.deprecated(f"{cls.__name__}.{old}", f"{cls.__name__}.{new}")
                    setattr(cls, new, _without_added(vars(cls)[old]) if new in ADDED else vars(cls)[old])


def _without_added(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the new form that calls one of the old form."""
    return lambda self, _, *args: method(self, *args)


class RenamedModule(ModuleType):
    """Stand-in for a renamed module, under its old name.

    Parameters
    ----------
    old, new
        Old and new name of the module, inside the package.
    """

    def __init__(self, old: str, new: str):
        super().__init__(f"{PACKAGE}.{old}")
        self._names = old, new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by the interpreter and by tools that inspect every module: no warning
            raise AttributeError(name)
        old, new = self._names
        return renamed(old, MOVED.get((old, name), new), name)


def renamed(old: str, new: str, name: str) -> Any:
    """Return what an old name refers to and emit a `DeprecationWarning`.

    Parameters
    ----------
    old, new
        Module that had the name in 0.1 and module that has it now, inside the package.
    name
        Old name.

    Raises
    ------
    AttributeError
        If the new module does not have the name.
    """
    current = CLASSES.get(name, name)
    try:
        found = attrgetter(current)(import_module(f"{PACKAGE}.{new}"))
    except AttributeError:
        raise AttributeError(f"module {f'{PACKAGE}.{old}'!r} has no attribute {name!r}") from None
    checks.deprecated(f"{PACKAGE}.{old}.{name}", f"{PACKAGE}.{new}.{current}")
    return found


def public(name: str) -> Any:
    """Return what an old name in the package itself refers to and emit a `DeprecationWarning`.

    Parameters
    ----------
    name
        Old name, a key of `PUBLIC`.
    """
    checks.deprecated(f"{PACKAGE}.{name}", f"{PACKAGE}.{CLASSES[name]}")
    return getattr(import_module(f"{PACKAGE}.{PUBLIC[name]}"), CLASSES[name])


def install() -> None:
    """Register the old modules in `sys.modules`, where ``import`` looks first."""
    for old, new in MODULES.items():
        sys.modules.setdefault(f"{PACKAGE}.{old}", RenamedModule(old, new))
