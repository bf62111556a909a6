"""Safe exploration from the formulas: sets of numbers, loops over points, a posterior solved anew for every question.

Sources: Sui, Gotovos, Burdick & Krause 2015 (SafeOpt); Sui, Zhuang, Burdick & Yue 2018 (StageOpt); Fiedler, Menn,
Kreiskoether & Trimpe 2024 (LoSBO); with several outputs Berkenkamp, Krause & Schoellig 2021. Larger is better, and a
point is safe where f >= h.
"""

from math import dist, log, sqrt

from naive.gp import GP


class SafeOpt:
    """What is known to be safe, and what may be played.

    `gp` is the posterior on the candidates, perhaps with further points behind them that are told and never played.
    """

    def __init__(
        self, gp, threshold, start, *, noise, regularization, norm, delta, lipschitz=None, width=None, size=None
    ):  # fmt: skip
        self.gp, self.threshold, self.safe = gp, threshold, set(start)
        self.noise, self.regularization, self.norm, self.delta = noise, regularization, norm, delta
        self.lipschitz, self.constant = lipschitz, width
        self.size = len(gp.points) if size is None else size  # of the candidates
        self.certify()

    @property
    def width(self):
        """Flynn & Reeb 2024: sqrt(B^2 + 2 R^2 / lambda (g + log(1 / delta)))."""
        if self.constant is not None:
            return self.constant
        gain = self.gp.information_gain()
        return sqrt(self.norm**2 + 2 * self.noise**2 / self.regularization * (gain + log(1 / self.delta)))

    def ends(self, gp):
        """Lower and upper confidence bounds of all points, two lists."""
        mean, variance = gp.mean_variance()
        std = [sqrt(max(v, 0.0)) for v in variance]
        width = self.width  # for all points the same, and long to compute
        lower = [m - width * s for m, s in zip(mean, std, strict=True)]
        return lower, [m + width * s for m, s in zip(mean, std, strict=True)]

    def distance(self, i, j):
        return dist(self.gp.points[i], self.gp.points[j])

    def outside(self):
        return [j for j in range(self.size) if j not in self.safe]

    # ---- the safe set

    def certify(self):
        """S_t, from S_{t-1} and the present lower bounds."""
        lower, _ = self.ends(self.gp)
        found = set()
        for j in self.outside():
            if self.lipschitz is None:
                certified = lower[j] >= self.threshold
            else:
                certified = any(lower[i] - self.lipschitz * self.distance(i, j) >= self.threshold for i in self.safe)
            if certified:
                found.add(j)
        self.safe |= found

    def observe(self, number, y, noise_variance=None):
        self.gp.observe(number, y, self.regularization if noise_variance is None else noise_variance)
        self.certify()

    # ---- choices

    def given(self, pending):
        """Posterior with pending points observed at their means."""
        return self.gp.with_fantasies(pending, self.regularization) if pending else self.gp

    def maximisers(self, among, pending=()):
        lower, upper = self.ends(self.given(pending))
        best = max(lower[i] for i in among)
        return {i for i in among if upper[i] >= best}

    def expanders(self, among, pending=()):
        """Those for which the optimistic value would certify a point outside."""
        gp, width = self.given(pending), self.width
        _, upper = self.ends(gp)
        found = set()
        for i in among:
            if self.lipschitz is not None:
                enlarges = any(
                    upper[i] - self.lipschitz * self.distance(i, j) >= self.threshold for j in self.outside()
                )
            else:
                after = GP(gp.kernel, gp.points, gp.prior_mean, gp.gram)
                after.observations = [*gp.observations, (i, upper[i], self.regularization)]
                mean, variance = after.mean_variance()
                enlarges = any(mean[j] - width * sqrt(max(variance[j], 0.0)) >= self.threshold for j in self.outside())
            if enlarges:
                found.add(i)
        return found

    def allowed(self, available):
        return self.safe if available is None else self.safe & set(available)

    def widths(self, among, pending):
        lower, upper = self.ends(self.given(pending))
        return {i: upper[i] - lower[i] for i in among}

    def scores(self, available=None, pending=()):
        """What the choice maximises, by number, of the points that may be chosen."""
        among = self.allowed(available)
        return self.widths(self.maximisers(among, pending) | self.expanders(among, pending), pending)

    def best(self):
        """The safe point of best posterior mean among those measured, or else of all safe ones; and its mean."""
        mean, _ = self.gp.mean_variance()
        measured = self.safe & {number for number, _, _ in self.gp.observations}
        number = max(measured or self.safe, key=lambda i: mean[i])
        return number, mean[number]


class StageOpt(SafeOpt):
    """In two stages."""

    def __init__(self, *given, epsilon=None, stage=None, **options):
        self.epsilon, self.stage, self.ended = epsilon, stage, False
        super().__init__(*given, **options)

    def certify(self):
        super().certify()
        told = len(self.gp.observations)
        if self.epsilon is not None and not (self.stage is not None and told >= self.stage):
            widths = self.widths(self.expanders(self.safe), ())
            self.ended = self.ended or (bool(widths) and max(widths.values()) < self.epsilon)

    def scores(self, available=None, pending=()):
        among, t = self.allowed(available), len(self.gp.observations) + len(pending) + 1
        if not self.ended and (self.stage is None or t <= self.stage):
            widths = self.widths(self.expanders(among, pending), pending)
            if widths and max(widths.values()) >= (self.epsilon or 0.0):
                return widths
        _, upper = self.ends(self.given(pending))
        return {i: upper[i] for i in among}


class LoSBO(SafeOpt):
    """Certified by observations, a Lipschitz constant and a noise bound."""

    def __init__(self, *given, bound, **options):
        self.bound = bound
        super().__init__(*given, **options)

    def certify(self):
        for i, y, noise_variance in self.gp.observations:
            error = self.bound * sqrt(noise_variance / self.regularization)
            for j in range(self.size):
                if y - error - self.lipschitz * self.distance(i, j) >= self.threshold:
                    self.safe.add(j)


# ---- limits of several outputs


class SafeOutputs:
    """SafeOpt with limits of several outputs: Berkenkamp, Krause & Schoellig 2021.

    `outputs` are those of `naive.bounded`, first the objective, and `limits` the smallest values that are safe, None
    for an objective that may have any value.
    """

    def __init__(self, outputs, limits, start):
        self.outputs, self.safe, self.told = outputs, set(start), 0
        self.limited = [pair for pair in zip(outputs, limits, strict=True) if pair[1] is not None]
        self.certify()

    def outside(self):
        return [j for j in range(len(self.outputs[0].gp.points)) if j not in self.safe]

    def certify(self):
        """S_t: all limited outputs are safe."""
        lowers = [(output.bounds()[0], limit) for output, limit in self.limited]
        self.safe |= {j for j in self.outside() if all(lower[j] >= limit for lower, limit in lowers)}

    def observe(self, number, values, noise_variance=None):
        """Values of the outputs, None where not measured; the noise variance is that of the objective."""
        for place, (output, value) in enumerate(zip(self.outputs, values, strict=True)):
            if value is not None:
                own = noise_variance if place == 0 and noise_variance is not None else output.regularization
                output.gp.observe(number, value, own)
        self.told += 1
        self.certify()

    def maximisers(self, among, pending):
        lower, upper = self.outputs[0].bounds(pending)
        best = max(lower[i] for i in among)
        return {i for i in among if upper[i] >= best}

    def expanders(self, among, pending):
        """Points whose optimistic values would make one and the same point outside safe for all limited outputs."""
        certified = {i: set(self.outside()) for i in among}
        for output, limit in self.limited:
            gp = output.gp.with_fantasies(pending, output.regularization) if pending else output.gp
            (_, upper), width = output.bounds(pending), output.width
            for i in among:
                after = GP(gp.kernel, gp.points, gp.prior_mean, gp.gram)
                after.observations = [*gp.observations, (i, upper[i], output.regularization)]
                mean, variance = after.mean_variance()
                certified[i] -= {j for j in certified[i] if mean[j] - width * sqrt(max(variance[j], 0.0)) < limit}
        return {i for i in among if certified[i]}

    def widths(self, outputs, among, pending):
        """Largest width of some outputs, each in units of the largest value that its norm allows."""
        bounds = [(*output.bounds(pending), output.largest) for output in outputs]
        return {i: max((upper[i] - lower[i]) / largest for lower, upper, largest in bounds) for i in among}

    def allowed(self, available):
        return self.safe if available is None else self.safe & set(available)

    def scores(self, available=None, pending=()):
        """What the choice maximises, by number, of the points that may be chosen."""
        among = self.allowed(available)
        return self.widths(self.outputs, self.maximisers(among, pending) | self.expanders(among, pending), pending)

    def best(self):
        """Largest posterior mean among the safe points where the objective was measured, or else among all safe."""
        mean, _ = self.outputs[0].moments()
        return max(mean[i] for i in self.safe & {i for i, _, _ in self.outputs[0].gp.observations} or self.safe)


class StagedOutputs(SafeOutputs):
    """StageOpt with limits of several outputs: Sui, Zhuang, Burdick & Yue 2018."""

    def __init__(self, *given, epsilon=None, stage=None):
        self.epsilon, self.stage, self.ended = epsilon, stage, False
        super().__init__(*given)

    def expander_widths(self, among, pending):
        return self.widths([output for output, _ in self.limited], self.expanders(among, pending), pending)

    def certify(self):
        super().certify()
        if self.epsilon is not None and not (self.stage is not None and self.told >= self.stage):
            widths = self.expander_widths(self.safe, ())
            self.ended = self.ended or (bool(widths) and max(widths.values()) < self.epsilon)

    def scores(self, available=None, pending=()):
        among, t = self.allowed(available), self.told + len(pending) + 1
        if not self.ended and (self.stage is None or t <= self.stage):
            widths = self.expander_widths(among, pending)
            if widths and max(widths.values()) >= (self.epsilon or 0.0):
                return widths
        _, upper = self.outputs[0].bounds(pending)
        return {i: upper[i] for i in among}
