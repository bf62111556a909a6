"""
Values and the best so far
==========================

Each dot is an evaluation. The dashed line is what the recommended setting is expected to be worth, with its 95 % band;
crosses are evaluations that failed.
"""

import scalable_bandits as sb


def loss(setting):
    if setting["depth"] > 10:
        raise MemoryError("too deep")
    return (setting["depth"] - 6) ** 2 / 40 + abs(setting["rate"] - 0.01) ** 0.5


parameters = {"rate": sb.Real(1e-4, 1e-1, log=True), "depth": sb.Integer(1, 12)}
found = sb.minimize(loss, parameters, budget=30)
sb.plots.history(found)
