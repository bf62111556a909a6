"""
What a round costs
==================

Time per round of one core. The exact posterior on 10,000 candidates costs more with every distinct point that is
played; pi-GP-UCB's cells keep a round at what a cell costs.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1], [0, 1]], 100), sb.Matern(0.2, nu=1.5)
function = sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=0)
known = {"noise": 1.0, "rkhs_norm": function.rkhs_norm, "regularization": 1.0}
policies = {"IGP-UCB": sb.IGPUCB(space, kernel, **known), "pi-GP-UCB": sb.PiGPUCB(space, kernel, **known)}
times = {name: sb.analysis.time_rounds(policy, function, horizon=1000) for name, policy in policies.items()}
sb.plots.time_per_round(times)
