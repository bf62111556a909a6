"""
Cells that split where it pays
==============================

pi-GP-UCB keeps an exact posterior in each cell of a partition, and splits a cell when enough observations fell into it:
after 10,000 rounds the cells are small where the function is large, and a round costs what a cell costs.
"""

import scalable_bandits as sb

space, kernel = sb.Grid([[0, 1], [0, 1]], 40), sb.Matern(0.2, nu=1.5)
function = sb.Benchmark("cosines", space, sb.UniformNoise(0.1), unit_cube=True, scaled=True)
policy = sb.PiGPUCB(space, kernel, noise=0.1, rkhs_norm=1.0)
run = sb.simulate(policy, function, horizon=10_000)
sb.plots.partition(policy, function, run.candidate)
