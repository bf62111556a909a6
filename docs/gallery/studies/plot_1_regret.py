"""
Regret of a study
=================

Figure 5a of Srinivas et al. (2010) at a small size: a named study, played with ten seeds. Lines are means, bands are
95 % confidence intervals over the replicates.
"""

import scalable_bandits as sb

study = sb.Study.load("srinivas2010-synthetic")
result = study.run(replicates=10, horizon=200)
sb.plots.regret_curves(result).legend(frameon=False)
