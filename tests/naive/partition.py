"""pi-GP-UCB from the paper: a list of cubes, each refitted from scratch in every round.

Janz, Burt & Gonzalez 2020, section 3. Cubes are kept as exact fractions; a point belongs to every closed cube that
contains it, or to one cube alone, which has its upper faces only where the space ends.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np


class NaivePartition:
    """The cover of [0, 1]^d, and the index of every point in every cube.

    `points` are exact: tuples of fractions. `covariance` is a function of two (d,) arrays.
    """

    def __init__(self, points, covariance, *, nu, horizon, norm, noise, alpha, delta, tightening, closed=True):
        self.points, self.closed = points, closed
        self.coordinates = np.array([[float(c) for c in point] for point in points])
        self.covariance = functools.cache(lambda i, j: covariance(self.coordinates[i], self.coordinates[j]))
        self.known_members = {}  # by corner and side
        self.d = len(points[0])
        self.b = (self.d + 1) / (self.d + 2 * nu)
        q = self.d * (self.d + 1) / (self.d * (self.d + 2) + 2 * nu)
        count = max(round(horizon ** (q / self.d)), 1) if horizon else 1
        self.nu = nu
        self.norm, self.noise, self.alpha, self.delta, self.tightening = norm, noise, alpha, delta, tightening
        side = Fraction(1, count)
        corners = itertools.product([side * k for k in range(count)], repeat=self.d)
        self.cubes = [(corner, side, {}) for corner in corners]  # corner, side, caps by point number
        self.data = []  # (point number, y, noise variance)
        self.splits = 0

    def roomy(self, side, count):
        """side^(-1 / b) >= count + 1, in whole numbers: 1 / b = (d + 2 nu) / (d + 1)."""
        power = (self.d + 2 * Fraction(self.nu)) / (self.d + 1)
        return (1 / side) ** power.numerator >= (count + 1) ** power.denominator

    def inside(self, cube, i):
        corner, side, _ = cube
        return all(
            c <= x <= c + side and (self.closed or x < c + side or x == 1)
            for c, x in zip(corner, self.points[i], strict=True)
        )

    def members(self, cube):
        """Numbers of the points in a cube, each of which is looked through once."""
        if cube[:2] not in self.known_members:
            self.known_members[cube[:2]] = [i for i in range(len(self.points)) if self.inside(cube, i)]
        return self.known_members[cube[:2]]

    def fit(self, cube, members, t, pending=()):
        """Index of the members, given the cube's data alone, at round t."""
        own = set(members)
        data = [row for row in self.data if row[0] in own]
        xs = [row[0] for row in data]
        waiting = [i for i in pending if i in own]
        k = self.block(xs, xs)
        noise = np.diag([row[2] for row in data])
        gain = 0.5 * np.linalg.slogdet(np.eye(len(xs)) + np.linalg.solve(noise, k))[1] if xs else 0.0
        cross = self.block(xs, members)
        mean = cross.T @ np.linalg.solve(k + noise, [row[1] for row in data]) if xs else np.zeros(len(members))
        every = xs + waiting
        cross = self.block(every, members)
        total = self.block(every, every) + np.diag([row[2] for row in data] + [self.alpha] * len(waiting))
        prior = np.array([self.covariance(i, i) for i in members])
        variance = prior - (np.einsum("ij,ij->j", cross, np.linalg.solve(total, cross)) if every else 0.0)
        n_t = 4 * (t + 1) ** (self.b * self.d)
        width = self.norm + self.noise * math.sqrt(2 * (gain + 1 + math.log(n_t / self.delta)))
        index = mean + width * np.sqrt(np.maximum(variance, 0.0))
        caps = cube[2]
        return (
            np.array([min(value, caps.get(i, math.inf)) for i, value in zip(members, index, strict=True)]),
            width,
            gain,
        )

    def block(self, rows, columns):
        return np.array([[self.covariance(i, j) for j in columns] for i in rows]).reshape(len(rows), len(columns))

    def index(self, t, pending=()):
        """Index of every point: its maximum over the cubes that hold it; and the width and gain of the best cube."""
        best = np.full(len(self.points), -math.inf)
        winners = []
        for cube in self.cubes:
            members = self.members(cube)
            if members:
                values, width, gain = self.fit(cube, members, t, pending)
                best[members] = np.maximum(best[members], values)
                winners.append((values.max(), width, gain))
        return best, winners

    def tell(self, i, y, noise_variance=None):
        t = len(self.data) + 1
        self.data.append((i, y, self.alpha if noise_variance is None else noise_variance))
        cubes = []
        for cube in self.cubes:
            corner, side, _ = cube
            own = set(self.members(cube))
            count = sum(row[0] in own for row in self.data)
            if self.roomy(side, count) or i not in own:
                cubes.append(cube)
                continue
            self.splits += 1
            caps = {}
            if self.tightening:
                members = self.members(cube)
                caps = dict(zip(members, self.fit(cube, members, t)[0].tolist(), strict=True))
            for half in itertools.product([0, 1], repeat=self.d):
                low = tuple(c + h * side / 2 for c, h in zip(corner, half, strict=True))
                child = (low, side / 2, {})
                cubes.append((low, side / 2, {i: caps[i] for i in self.members(child)} if self.tightening else {}))
        self.cubes = cubes
