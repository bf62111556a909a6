"""
Do the intervals hold?
======================

The share of the candidates at which the function lies inside a policy's intervals, round by round. With the true norm
of the function the theorem's width holds everywhere; with a bound that is too small it may not.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1], [0, 1]], 20), sb.Matern(0.2, nu=1.5)
function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.1), seed=0)
found = {}
for share in (1.0, 0.1):
    policy = sb.IGPUCB(space, kernel, noise=0.1, rkhs_norm=share * function.rkhs_norm, regularization=1.0)
    run = sb.simulate(policy, function, horizon=1000)
    found[f"B = {share:g} of the norm"] = sb.analysis.coverage(policy, function, run)
sb.plots.coverage(found)
