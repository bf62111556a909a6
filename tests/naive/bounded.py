"""Oracle of policies for unknown constraints with proven bounds, from the formulas: a posterior solved anew each time.

Sources: Xu, Jiang, Svetozarevic & Jones 2022 (CONFIG); Zhou & Ji 2022 (CKB). Larger is better for every output, and an
output with a limit keeps it where it is at least that; its prior mean is the limit.
"""

from math import log, sqrt

from naive.gp import GP


class Output:
    """One output: its posterior on the candidates and its width, for a failure probability of its own."""

    def __init__(self, kernel, points, norm, noise, regularization, delta, prior_mean=0.0):
        self.gp = GP(kernel, points, prior_mean)
        self.center = self.gp.prior_mean
        self.norm, self.noise, self.regularization, self.delta = norm, noise, regularization, delta
        self.largest = norm * sqrt(max(kernel(x, x) for x in self.gp.points.tolist()))

    @property
    def width(self):
        """Flynn & Reeb 2024: sqrt(B^2 + 2 R^2 / lambda (g + log(1 / delta)))."""
        gain = self.gp.information_gain()
        return sqrt(self.norm**2 + 2 * self.noise**2 / self.regularization * (gain + log(1 / self.delta)))

    def moments(self, pending=()):
        """Means and standard deviations, two lists."""
        gp = self.gp.with_fantasies(pending, self.regularization) if pending else self.gp
        mean, variance = gp.mean_variance()
        return mean.tolist(), [sqrt(max(v, 0.0)) for v in variance]

    def bounds(self, pending=()):
        """Lower and upper bounds, two lists."""
        pairs, width = list(zip(*self.moments(pending), strict=True)), self.width
        return [m - width * s for m, s in pairs], [m + width * s for m, s in pairs]


class Bounded:
    """The outputs, first the objective, and what was played."""

    def __init__(self, objective, others, limits):
        self.objective, self.others, self.limits = objective, others, limits

    def observe(self, number, values, asked=True, noise_variance=None):
        """Values of the outputs, None where not measured; the noise variance is that of the objective."""
        for output, value in zip((self.objective, *self.others), values, strict=True):
            if value is not None:
                own = output is self.objective and noise_variance is not None
                output.gp.observe(number, value, noise_variance if own else output.regularization)

    def misses(self, values):
        """Sum of what values of the outputs with a limit miss, each in units of its largest distance from it."""
        triples = zip(values, self.limits, self.others, strict=True)
        return sum(max(limit - value, 0.0) / output.largest for value, limit, output in triples)

    def best(self):
        """The numbers that may be recommended (ties), and the mean of the objective there."""
        mean, _ = self.objective.moments()
        measured = sorted({number for number, _, _ in self.objective.gp.observations})
        lower = [output.bounds()[0] for output in self.others]
        means = [output.moments()[0] for output in self.others]
        among = [i for i in measured if self.misses([row[i] for row in lower]) == 0.0]
        among = among or [i for i in measured if self.misses([row[i] for row in means]) == 0.0]
        if not among:
            total = {i: self.misses([row[i] for row in means]) for i in measured}
            among = [i for i in measured if total[i] <= min(total.values()) + 1e-12]
        largest = max(mean[i] for i in among)
        return [i for i in among if mean[i] >= largest - 1e-9], largest


class Config(Bounded):
    """Optimistic about the objective, over the points where all bounds keep their limits."""

    def scores(self, among, pending=()):
        """What the choice maximises, by number; empty if the problem is infeasible."""
        uppers = [output.bounds()[1] for output in self.others]
        _, upper = self.objective.bounds(pending)
        return {
            i: upper[i] for i in among if all(row[i] >= limit for row, limit in zip(uppers, self.limits, strict=True))
        }

    def largest_bounds(self, among):
        """Largest optimistic bound of each output with a limit."""
        return [max(output.bounds()[1][i] for i in among) for output in self.others]


class Ckb(Bounded):
    """Primal-dual: g = limit - output has to be at most 0."""

    def __init__(self, objective, others, limits, horizon, rho):
        super().__init__(objective, others, limits)
        self.rho, self.horizon, self.duals = rho, horizon, [0.0] * len(others)

    def optimistic(self, pending=()):
        """Cut bounds: UCB of f (n,), and LCB of each g."""
        f, (_, upper) = self.objective, self.objective.bounds(pending)
        rewards = [min(max(u, m - f.largest), m + f.largest) for u, m in zip(upper, f.center, strict=True)]
        violations = []
        for output, limit in zip(self.others, self.limits, strict=True):
            lowest = [limit - u for u in output.bounds(pending)[1]]
            violations.append([min(max(g, -output.largest), output.largest) for g in lowest])
        return rewards, violations

    def scores(self, among, pending=()):
        rewards, violations = self.optimistic(pending)
        pairs = list(zip(self.duals, violations, strict=True))
        return {i: rewards[i] - sum(phi * g[i] for phi, g in pairs) for i in among}

    def observe(self, number, values, asked=True, noise_variance=None):
        _, violations = self.optimistic()
        super().observe(number, values, asked, noise_variance)
        for j, output in enumerate(self.others if asked else ()):
            step = violations[j][number] / (output.largest * sqrt(self.horizon) / self.rho)
            self.duals[j] = min(max(self.duals[j] + step, 0.0), self.rho)
