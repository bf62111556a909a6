"""Vizier's default (Song et al. 2024)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers.base import Remembering, interval_of, setting_of

PROGRAMS = 10  # questions after which compiled programs leave memory; those of a hundred are more than Linux can map


class Vizier(Remembering):
    """`VizierGPUCBPEBandit` with its defaults, which is what its service takes, one suggestion at a time."""

    requirements = ("google-vizier-dev[jax]",)  # releases without dev are older
    modules = ("vizier", "jax")

    def __init__(self, parameters: Parameters, seed: int, budget: int) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)  # else suggestions are empty
        # each number of trials is another program, which takes three times as long to compile as to run; kept in the
        # environment, they are compiled in one run of each space
        jax.config.update("jax_compilation_cache_dir", str(Path(sys.prefix) / "compiled"))
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        from vizier import pyvizier as vz
        from vizier._src.algorithms.designers.gp_ucb_pe import VizierGPUCBPEBandit

        super().__init__()
        self.parameters, self.number = parameters, 0
        problem = vz.ProblemStatement()
        for name, each in parameters.items():
            self._add(problem.search_space.root, name, each)
        problem.metric_information.append(vz.MetricInformation("y", goal=vz.ObjectiveMetricGoal.MINIMIZE))
        self.designer = VizierGPUCBPEBandit(problem, rng=jax.random.PRNGKey(seed % 2**31))

    @staticmethod
    def _add(root: Any, name: str, each: Any) -> None:
        from vizier import pyvizier as vz

        interval = interval_of(each)
        if interval is None:
            root.add_categorical_param(name, each)
            return
        low, high, log, whole = interval
        scale = vz.ScaleType.LOG if log else vz.ScaleType.LINEAR
        if whole:
            root.add_int_param(name, int(low), int(high), scale_type=scale)
        else:
            root.add_float_param(name, low, high, scale_type=scale)

    def ask(self) -> Setting:
        import jax

        self.number += 1
        if self.number % PROGRAMS == 0:
            jax.clear_caches()
        self.asked = self.designer.suggest(1)[0].to_trial(self.number)
        return setting_of(self.parameters, {name: each.value for name, each in self.asked.parameters.items()})

    def tell(self, x: Setting, y: float) -> None:
        from vizier import algorithms
        from vizier import pyvizier as vz

        self.asked.complete(vz.Measurement({"y": y}))
        self.designer.update(algorithms.CompletedTrials([self.asked]), algorithms.ActiveTrials())
        super().tell(x, y)
