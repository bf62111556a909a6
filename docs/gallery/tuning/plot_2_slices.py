"""
The posterior along each parameter
==================================

The model's mean and 95 % band along each parameter through the recommended setting, which is the star. Dots are
evaluations; they fade with their distance from the slice.
"""

import math

import scalable_bandits as sb


def loss(setting):
    depth, rate, booster = setting["depth"], setting["rate"], setting["booster"]
    return (depth - 6) ** 2 / 40 + math.log10(rate / 0.01) ** 2 / 4 + (booster == "dart") / 4


parameters = {
    "rate": sb.Real(1e-4, 1e-1, log=True),
    "depth": sb.Integer(1, 12),
    "booster": sb.Categorical(["tree", "dart", "linear"]),
}
found = sb.minimize(loss, parameters, budget=30)
sb.plots.slices(found)
