"""
Growth of the regret
====================

On logarithmic axes a power law is a line. Its exponent is fitted to the last decade of rounds; the legend has it, with
its 95 % interval: 1 is no learning, and what is below 1 is sublinear.
"""

import scalable_bandits as sb

study = sb.Study.load("janz2020-table1")
result = study.run(replicates=4, horizon=10_000, cases=["d = 2"])
sb.plots.scaling(result).legend(frameon=False)
