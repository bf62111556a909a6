"""
The index that a policy maximises
=================================

Expected improvement after six observations, with a star where the policy will measure next.
"""

import matplotlib.pyplot as plt

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1]], 300), sb.RBF(0.12)
function = sb.Benchmark("forrester", space, sb.GaussianNoise(0.1), scaled=True)
policy = sb.GPEI(space, kernel, noise=0.1, regularization=0.01)
run = sb.simulate(policy, function, horizon=6)

_, (above, below) = plt.subplots(2, 1, figsize=(6.4, 6.0), sharex=True, layout="constrained")
sb.plots.posterior(policy, function, run, ax=above).legend(frameon=False)
sb.plots.index(policy, run, ax=below)
