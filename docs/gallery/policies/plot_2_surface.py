"""
Posterior in two dimensions
===========================

The posterior mean as an image, the function as white contours, and a dot for each point that was played, larger the
more rounds played it.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1], [0, 1]], 40), sb.Matern(0.2, nu=2.5)
function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.1), seed=4)
policy = sb.GPUCB(space, kernel, noise=0.1, regularization=0.01, scale=5)
run = sb.simulate(policy, function, horizon=150)
sb.plots.posterior(policy, function, run)
