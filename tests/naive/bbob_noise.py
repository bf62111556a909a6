"""Noise of the bbob-noisy suite, from Hansen, Finck, Ros & Auger 2009, section 2, given the random numbers.

f is the value above the minimum, u and v uniform on [0, 1], n and m standard normal.
"""

import math

TARGET = 1e-8


def raised(f, noisy):
    """What is observed: no noise below the target value, else a constant more than the noisy value."""
    return f if f < TARGET else noisy + 1.01 * TARGET


def gauss(f, severe, n):
    beta = 1.0 if severe else 0.01
    return raised(f, f * math.e ** (beta * n))


def uniform(f, severe, dimension, u, v):
    if severe:
        alpha, beta = 0.49 + 1 / dimension, 1.0
    else:
        alpha, beta = 0.01 * (0.49 + 1 / dimension), 0.01
    factor = (1e9 / (f + 1e-99)) ** (alpha * v)
    return raised(f, f * u**beta * (factor if factor > 1 else 1))


def cauchy(f, severe, u, n, m):
    alpha, p = (1.0, 0.2) if severe else (0.01, 0.05)
    jump = 1000.0
    if u < p:
        jump += n / (abs(m) + 1e-199)
    return raised(f, f + alpha * (jump if jump > 0 else 0))
