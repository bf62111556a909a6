"""
A hundred thousand rounds
=========================

Three policies on 900 arms, in compiled loops: seconds. With its fitted exponents; some of the rounds are kept, with the
cumulative regret of all.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1], [0, 1]], 30), sb.Matern(0.2, nu=1.5)
function = sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=0)
known = {"noise": 1.0, "regularization": 1.0}
policies = {
    "IGP-UCB": sb.IGPUCB(space, kernel, **known, rkhs_norm=function.rkhs_norm),
    "pi-GP-UCB": sb.PiGPUCB(space, kernel, noise=1.0, rkhs_norm=function.rkhs_norm, horizon=100_000),
    "GP-UCB, scale=5": sb.GPUCB(space, kernel, **known, scale=5),
}
runs = {name: sb.simulate(policy, function, horizon=100_000) for name, policy in policies.items()}
sb.plots.regret_curves(runs, log=True, fit=True).legend(frameon=False)
