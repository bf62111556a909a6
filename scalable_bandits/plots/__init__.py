"""Figures of runs, studies, results. Functions draw on the given axes, or on those of a new figure, and return them."""

from scalable_bandits.plots.covers import Played, partition
from scalable_bandits.plots.curves import coverage, regret_curves, time_per_round
from scalable_bandits.plots.figures import cover_figure, growth_figure, study_figure
from scalable_bandits.plots.parallel import parallel
from scalable_bandits.plots.posteriors import index, posterior
from scalable_bandits.plots.priors import prior_histogram, prior_timeline
from scalable_bandits.plots.scaling import scaling, scaling_figure, scaling_panels
from scalable_bandits.plots.slices import slices
from scalable_bandits.plots.style import COLOURS
from scalable_bandits.plots.tuning import history, importance

__all__ = [
    "COLOURS",
    "Played",
    "cover_figure",
    "coverage",
    "growth_figure",
    "history",
    "importance",
    "index",
    "parallel",
    "partition",
    "posterior",
    "prior_histogram",
    "prior_timeline",
    "regret_curves",
    "scaling",
    "scaling_figure",
    "scaling_panels",
    "slices",
    "study_figure",
    "time_per_round",
]
