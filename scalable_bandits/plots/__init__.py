"""Figures of runs, studies, results. Functions draw on the given axes, or on those of a new figure, and return them."""

from scalable_bandits.plots.beliefs import index as index
from scalable_bandits.plots.beliefs import posterior as posterior
from scalable_bandits.plots.beliefs import prior_histogram as prior_histogram
from scalable_bandits.plots.beliefs import prior_timeline as prior_timeline
from scalable_bandits.plots.curves import coverage as coverage
from scalable_bandits.plots.curves import regret_curves as regret_curves
from scalable_bandits.plots.curves import scaling as scaling
from scalable_bandits.plots.curves import scaling_panels as scaling_panels
from scalable_bandits.plots.curves import time_per_round as time_per_round
from scalable_bandits.plots.figures import Played as Played
from scalable_bandits.plots.figures import cover_panels as cover_panels
from scalable_bandits.plots.figures import growth_panels as growth_panels
from scalable_bandits.plots.figures import partition as partition
from scalable_bandits.plots.figures import study_panels as study_panels
from scalable_bandits.plots.front import front as front
from scalable_bandits.plots.style import COLOURS as COLOURS
from scalable_bandits.plots.tuning import history as history
from scalable_bandits.plots.tuning import importance as importance
from scalable_bandits.plots.tuning import parallel as parallel
from scalable_bandits.plots.tuning import slices as slices
