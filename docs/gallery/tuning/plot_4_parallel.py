"""
Every setting as a line
=======================

Parallel coordinates: a line for each evaluation, the darker the better, and the recommended setting on top.
"""

import scalable_bandits as sb


def loss(setting):
    return abs(setting["rate"] - 0.01) ** 0.5 + (setting["layers"] - 3) ** 2 / 20 + 8 / setting["batch"]


parameters = {
    "rate": sb.Real(1e-4, 1e-1, log=True),
    "layers": sb.Integer(1, 8),
    "batch": sb.Ordinal([16, 32, 64, 128]),
    "dropout": sb.Real(0.0, 0.5),
}
found = sb.minimize(loss, parameters, budget=40)
sb.plots.parallel(found)
