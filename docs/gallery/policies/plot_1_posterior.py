"""
Posterior and confidence width
==============================

The posterior of IGP-UCB after 25 noisy observations: mean, band of 1.96 standard deviations, and as dashed lines the
width of the theorem, within which the function lies everywhere with high probability.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1]], 200), sb.RBF(0.15)
function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.1), seed=3)
policy = sb.IGPUCB(space, kernel, noise=0.1, rkhs_norm=function.rkhs_norm, regularization=1.0)
run = sb.simulate(policy, function, horizon=25)
sb.plots.posterior(policy, function, run).legend(frameon=False)
