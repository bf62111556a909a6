"""Oracle of the ranking of a generation: a row for each observation, and pairs that are counted."""

import itertools
import math

import numpy as np


def terms(u, kind):
    d = len(u)
    pairs = {"linear": [], "diagonal": [(i, i) for i in range(d)],
             "full": list(itertools.combinations_with_replacement(range(d), 2))}[kind]  # fmt: skip
    return [1.0, *u, *(u[i] * u[j] for i, j in pairs)]


def kind_of(n, d):
    for kind in ("full", "diagonal", "linear"):
        if n >= 1.1 * len(terms([0.0] * d, kind)):
            return kind
    return None


def fitted(points, x, y):
    """Values of a quadratic function, which fits the nearest observations, at points; None where they are too few."""
    d = len(points[0])
    nearest = sorted(range(len(x)), key=lambda i: (math.hypot(*x[i]), i))[: min(500, (d + 1) * (d + 2))]
    if (kind := kind_of(len(nearest), d)) is None:
        return None
    order, n = sorted(nearest, key=lambda i: -y[i]), len(nearest)
    offset = y[order[0]]
    rows, values = [], []
    for rank, i in enumerate(order):
        root = math.sqrt(20.0 - 19.0 * rank / (n - 1))  # of the observation's weight
        rows.append([root * term for term in terms(x[i], kind)])
        values.append(root * (y[i] - offset))
    coefficients, *_ = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)
    return [float(np.dot(terms(u, kind), coefficients)) + offset for u in points]


def agree(predicted, values):
    """Whether Kendall's tau of 15 pairs is .75 at least."""
    pairs = list(itertools.combinations(range(15), 2))
    signs = [(predicted[i] - predicted[j]) * (values[i] - values[j]) for i, j in pairs]
    return sum(s > 0 for s in signs) - sum(s < 0 for s in signs) >= 0.75 * len(pairs)


def play(points, function, x, y, pairs):
    """Evaluate a generation's points as far as is needed.

    x, y and pairs, of predictions and values, are added to. Returns the order of the evaluations, and all values.
    """
    order, needed = [], math.ceil(0.2 * len(points))
    predicted = fitted(points, x, y)
    while True:
        while len(order) < needed and len(order) < len(points):
            others = [i for i in range(len(points)) if i not in order]
            best = others[0] if predicted is None else max(others, key=lambda i: predicted[i])
            order.append(best)
            x.append(list(points[best]))
            y.append(function(points[best]))
            pairs.append((math.nan if predicted is None else predicted[best], y[-1]))
        known = dict(zip(order, y[-len(order) :], strict=True))
        if len(order) == len(points):
            return order, [known[i] for i in range(len(points))]
        reliable = len(pairs) >= 15 and agree(*zip(*pairs[-15:], strict=True))
        predicted = fitted(points, x, y)
        if reliable:
            top, reference = max(known.values()), max(predicted[i] for i in order)
            return order, [known.get(i, min(top, top + predicted[i] - reference)) for i in range(len(points))]
        needed = math.ceil(1.5 * len(order))
