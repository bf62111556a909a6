"""
Which prior each policy used
============================

The toy problem of Ziomek et al. (2025): the share of the rounds in which each policy played each of its priors.
"""

import scalable_bandits as sb

study = sb.Study.load("ziomek2025-toy")
result = study.run(replicates=2, horizon=100)
sb.plots.prior_histogram(result).legend(frameon=False)
