"""
Which parameters matter
=======================

The share of the variance of the model's mean that each parameter explains: alone, and with its interactions. The
fourth parameter has no effect, and the model finds that out.
"""

import scalable_bandits as sb


def yield_of(x):
    return -((x[0] - 0.3) ** 2) - 0.3 * (x[1] - 0.6) ** 2 + 0.5 * (x[1] - 0.5) * (x[2] - 0.5)


found = sb.maximize(yield_of, sb.Box([[0, 1]] * 4), budget=40)
sb.plots.importance(found)
