"""
A function that changes
=======================

The world moves. GP-UCB remembers everything, and stays where the best point was; a kernel that forgets, a sliding
window and restarts upon surprise follow it. Regret is against the best point of each round.
"""

import scalable_bandits as sb

line, kernel = sb.Grid([[0, 1]], 100), sb.Matern(0.2, nu=2.5)
world = sb.DriftingFunction.sparse(
    line, kernel, sb.GaussianNoise(0.1), knots=(1, 700, 1300, 2000), rkhs_norm=2.0, seed=2
)
known = {"noise": 0.1, "regularization": 0.01}
policies = {
    "GP-UCB": sb.GPUCB(line, kernel, **known, scale=5),
    "TV-GP-UCB": sb.TVGPUCB(line, kernel * sb.TemporalDecay(0.01), **known, scale=5),
    "SW-GP-UCB": sb.SWGPUCB(line, kernel, **known, rkhs_norm=2.0, horizon=2000, memory=100),
    "ET-GP-UCB": sb.ETGPUCB(line, kernel, **known, scale=5),
}
runs = {name: sb.simulate(policy, world, horizon=2000) for name, policy in policies.items()}
sb.plots.regret_curves(runs, log=False).legend(frameon=False)
