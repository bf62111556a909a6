"""LBGPUCB against an implementation of the paper's formulas that refits every lengthscale from scratch."""

import math
import pickle
import warnings

import numpy as np
import pytest
from naive import kernels as naive_kernels
from naive.lengthscales import Balancing

import scalable_bandits as sb
from scalable_bandits.posteriors.state import copied

NOISE, LAMBDA, DELTA = 0.1, 0.02, 0.2


def bump(x):
    """A narrow hill far from the middle."""
    return np.exp(-(((x - 0.9 * x.max(axis=0)) / 0.08) ** 2).sum(axis=1)) - 0.2 * x[:, 0]


def waves(x):
    return np.sin(4 * x.sum(axis=1)) + 0.5 * np.cos(9 * x[:, 0])


def ripples(x):
    return np.sin(25 * x[:, 0]) + 0.3 * x[:, 0]


def problem(name):
    """Space, kernel, and what the oracle needs: kernel by factor, lengthscales over the sides, smoothness, function."""
    if name == "line":
        return sb.Grid([[0, 2]], 18), sb.RBF(1.0), lambda f: naive_kernels.rbf((f,)), [0.5], math.inf, waves
    if name == "ripples":
        return sb.Grid([[0, 1]], 40), sb.RBF(0.6), lambda f: naive_kernels.rbf((0.6 * f,)), [0.6], math.inf, ripples
    if name == "bump":
        return sb.Grid([[0, 1]], 16), sb.RBF(0.5), lambda f: naive_kernels.rbf((0.5 * f,)), [0.5], math.inf, bump
    if name == "plane":
        kernel = 2.0 * sb.Matern([0.5, 0.8], nu=2.5)
        oracle = lambda f: naive_kernels.scaled(2.0, naive_kernels.matern52((0.5 * f, 0.8 * f)))  # noqa: E731
        return sb.Grid([[0, 1], [-1, 1]], (5, 4)), kernel, oracle, [0.5, 0.4], 2.5, waves
    points = np.random.default_rng(1).random((20, 3))
    lengths = 0.7 / np.ptp(points, axis=0)
    return sb.Points(points), sb.Matern(0.7, nu=1.5), lambda f: naive_kernels.matern32(0.7 * f), lengths, 1.5, waves


class Duel:
    """A policy and the oracle, told the same."""

    def __init__(self, name, batch=None, available=True, uninvited=False, norm=1.0, growth=0.5, initial=2, **options):
        self.space, kernel, oracle, lengths, nu, function = problem(name)
        noise, mean = options.pop("noise", NOISE), options.get("prior_mean", 0.0)
        lam = options.pop("regularization", LAMBDA)
        self.policy = sb.LBGPUCB(
            self.space, kernel, rkhs_norm=norm, growth=growth, initial=initial, noise=noise, regularization=lam,
            delta=DELTA, seed=4, **options,
        )  # fmt: skip
        self.oracle = Balancing(
            oracle, self.space.points(), lengths, nu, norm=norm, noise=noise, lam=lam, delta=DELTA, growth=growth,
            initial=initial, mean=-mean if options.get("minimize") else mean, scale=options.get("scale", 1.0),
        )  # fmt: skip
        self.sign = -1.0 if options.get("minimize") else 1.0
        self.f, self.size, self.noise = function(self.space.points()), self.space.size, noise
        self.batch, self.limited, self.uninvited = batch, available, uninvited
        self.rng, self.pending = np.random.default_rng(17), []

    def ask(self):
        allowed = np.arange(self.size)
        if self.limited:
            allowed = self.rng.permutation(self.size)[: self.rng.integers(1, self.size + 1)]
        eligible = self.oracle.turns_after(len(self.pending))
        assert min(abs(self.policy.width / self.oracle.width(i) - 1) for i in eligible) < 1e-8
        gains = [self.oracle.gp(i).information_gain() for i in eligible]
        assert min(abs(self.policy.information_gain - gain) for gain in gains) < 1e-8
        asked = self.policy.ask(self.batch, available=allowed)
        for x in [asked] if self.batch is None else asked:
            (chosen,) = self.space.index(x)
            assert chosen in allowed
            uppers = [self.oracle.upper(i, self.pending) for i in self.oracle.turns_after(len(self.pending))]
            assert min(upper[allowed].max() - upper[chosen] for upper in uppers) < 1e-7
            self.pending.append(int(chosen))

    def tell(self, x, own=None):
        y = self.f[x] + self.noise * self.rng.standard_normal()
        before = self.policy.plays
        self.policy.tell(self.space.points([x])[0], self.sign * y, noise=own)
        after = self.policy.plays
        (played,) = [i for i, name in enumerate(after) if after[name] > before.get(name, 0)]
        assert played in self.oracle.turns()
        self.oracle.tell(played, x, y, 1.0 if own is None else (own / self.noise) ** 2)
        self.check(played)

    def check(self, played):
        """Introductions, rejections, and sums are those of the oracle."""
        names = [prior.name for prior in self.policy.priors]
        assert len(names) == len(set(names)) == self.oracle.last + 1
        assert list(self.policy.plays.values()) == [len(self.oracle.plays[i]) for i in range(len(names))]
        slacks = sum(play.slack for play in self.oracle.plays[played])
        assert self.policy.tally.slacks[played] == pytest.approx(slacks, rel=1e-6, abs=1e-7)
        assert self.policy.surviving == tuple(names[i] for i in self.oracle.alive)
        found = {names.index(name): rejection for name, rejection in self.policy.rejections.items()}
        assert found.keys() == self.oracle.rejected.keys()
        for i, (t, least, upper) in self.oracle.rejected.items():
            assert found[i].round == t
            assert found[i][1:] == pytest.approx((least, upper), abs=1e-6)

    def play(self, rounds):
        step = 0
        while len(self.oracle.told) < rounds:
            self.ask()
            step += 1
            later = int(self.batch is not None and step % 2)
            for x in self.rng.permutation(self.pending)[later:].tolist():
                self.pending.remove(x)
                self.tell(x)
            if self.uninvited and step % 4 == 3:
                free = np.setdiff1d(np.arange(self.size), self.pending)
                self.tell(int(self.rng.choice(free)), own=self.rng.choice([0.5, 3.0]) * self.noise)
        self.check_posteriors()
        return self

    def check_posteriors(self):
        """Also of a lengthscale that was introduced late: it has learned all that came before."""
        evidence, points = self.policy.log_likelihoods, self.space.points()
        for i in self.oracle.alive:
            name = self.policy.priors[i].name
            assert evidence[name] == pytest.approx(self.oracle.log_likelihood(i), rel=1e-7, abs=1e-6)
            mean, std = self.policy.posterior(points, prior=name)
            expected, variance = self.oracle.gp(i).mean_variance()
            np.testing.assert_allclose(self.sign * mean, expected, rtol=0, atol=1e-7)
            np.testing.assert_allclose(std, np.sqrt(np.maximum(variance, 0)), rtol=0, atol=1e-6)
        likeliest = max(self.oracle.alive, key=self.oracle.log_likelihood)
        mean, _ = self.oracle.gp(likeliest).mean_variance()
        assert self.sign * self.policy.best().mean == pytest.approx(
            max(mean[x] for x, _, _ in self.oracle.told), abs=1e-7
        )


@pytest.mark.parametrize("available", [False, True])
@pytest.mark.parametrize("name", ["line", "bump", "plane", "cloud"])
@pytest.mark.sampled(4)
def test_every_choice_width_and_introduction(name, available):
    duel = Duel(name, available=available).play(70)
    assert len(duel.oracle.introduced) == {"line": 1, "bump": 1, "plane": 3, "cloud": 5}[name]


@pytest.mark.parametrize("name", ["line", "plane", "cloud"])
def test_with_points_pending_and_points_nobody_asked_for(name):
    Duel(name, batch=3, uninvited=True).play(60)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("line", {"scale": 9.0}),
        ("line", {"minimize": True, "prior_mean": 0.7}),
        ("cloud", {"growth": 1.0, "initial": 1}),
        ("plane", {"growth": 0.0, "initial": 5}),
        ("plane", {"engine": "tiled"}),
    ],
    ids=str,
)
@pytest.mark.sampled(5)
def test_with_other_parameters(name, options):
    duel = Duel(name, **options).play(60)
    if "growth" in options:  # at most one a round, although more would be allowed
        assert list(duel.oracle.introduced.values())[:4] == ([] if options["growth"] == 0.0 else [2, 3, 4, 5])


@pytest.mark.parametrize(("batch", "uninvited"), [(None, False), (None, True), (3, True)])
@pytest.mark.parametrize(("norm", "initial"), [(0.05, 2), (0.05, 4), (0.3, 4)])
@pytest.mark.sampled(3)
def test_every_rejection(norm, initial, batch, uninvited):
    """Of lengthscales that are too long, in the very round; those that come later are never too long."""
    duel = Duel(
        "ripples", batch=batch, available=False, uninvited=uninvited, norm=norm, initial=initial, noise=0.05,
        regularization=0.05,
    )  # fmt: skip
    duel.play(90)
    assert len(duel.oracle.rejected) >= (1 if uninvited else 2)
    assert duel.oracle.introduced or initial == 4


# ---- lengthscales that come later


def small(**options):
    return sb.LBGPUCB(
        sb.Grid([[0, 1]], 30),
        sb.RBF(0.6),
        **{"noise": 0.1, "regularization": 0.01, "initial": 1, "growth": 1.0, **options},
    )


def environment():
    return sb.GPSample(sb.Grid([[0, 1]], 30), sb.RBF(0.1), sb.GaussianNoise(0.1), seed=5)


def test_when_lengthscales_are_added():
    """q(i) once theta_0 / g(t) <= q(i): from round ceil(exp(i / (d growth))) on."""
    policy = small(growth=0.5)
    counts = []
    for _ in range(60):
        policy.tell(policy.ask(), 0.0)
        counts.append(len(policy.priors))
    starts = [t for t in range(2, 61) if counts[t - 1] > counts[t - 2]]
    assert starts == [math.ceil(math.exp(2 * i)) for i in (1, 2)]
    lengthscales = [prior.kernel.lengthscale for prior in policy.priors]
    np.testing.assert_allclose(lengthscales, 0.6 * np.exp([0.0, -1.0, -2.0]), rtol=1e-12)
    assert [prior.name for prior in policy.priors] == [f"lengthscale {each:.4g}" for each in lengthscales]
    assert all(policy.plays.values())  # each was played at once


def test_lengthscales_of_every_dimension_are_divided_by_the_same():
    policy = sb.LBGPUCB(sb.Grid([[0, 1], [0, 4]], 4), 3.0 * (2.0 * sb.Matern([0.5, 2.0], nu=2.5)), initial=2)
    assert policy.priors[0].kernel == policy.kernel
    expected = 3.0 * (2.0 * sb.Matern([0.5 * math.exp(-0.5), 2.0 * math.exp(-0.5)], nu=2.5))
    np.testing.assert_allclose(
        policy.priors[1].kernel.block([[0.1, 0.2], [0.4, 3.0]]), expected.block([[0.1, 0.2], [0.4, 3.0]])
    )
    assert policy.priors[1].name == "lengthscale 0.3033, 1.213"


def test_units_of_x_do_not_matter():
    """Suspected regrets have lengthscales in units of the space's sides."""
    near, far = (
        sb.LBGPUCB(sb.Grid([[0, side]], 20), sb.RBF(0.5 * side), initial=3, noise=0.1, regularization=0.01)
        for side in (1.0, 1000.0)
    )
    for t in range(40):
        a, b = near.ask(), far.ask()
        np.testing.assert_allclose(1000.0 * a, b, rtol=1e-9)
        near.tell(a, math.cos(9 * a[0] + t))
        far.tell(b, math.cos(9 * a[0] + t))
    assert list(near.plays.values()) == list(far.plays.values())


def test_categories_have_no_lengthscale_to_divide():
    """d counts the ordered coordinates."""
    space = sb.SearchSpace({"rate": sb.Real(0.1, 1.0), "kind": sb.Categorical(["a", "b", "c"])})
    policy = sb.LBGPUCB(space, sb.RBF(0.5), initial=2, noise=0.1, regularization=0.01, candidates=30)
    assert policy.priors[1].kernel.lengthscale == pytest.approx(0.5 * math.exp(-1.0))
    for _ in range(5):
        policy.tell(policy.ask(), 0.3)
    assert set(policy.ask()) == {"rate", "kind"}


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 8, 30])
@pytest.mark.sampled(3)
def test_a_state_has_its_lengthscales(rounds):
    """Restored in a policy with fewer lengthscales, or with more."""
    policy, ahead = small(), small()
    sb.simulate(policy, environment(), rounds)
    sb.simulate(ahead, environment(), 25)
    state = copied(policy.state())
    fresh = small()
    for other in (ahead, fresh):
        other.restore(copied(state))
        assert [prior.name for prior in other.priors] == [prior.name for prior in policy.priors]
        assert other.log_likelihoods == policy.log_likelihoods
    runs = [sb.simulate(each, environment(), 30) for each in (policy, ahead, fresh, pickle.loads(pickle.dumps(policy)))]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.candidate, runs[0].candidate)
        np.testing.assert_array_equal(run.width, runs[0].width)


def test_plays_over_rounds():
    """Of lengthscales that were not there from the start, too; the policy may be one before the run."""
    policy = small()
    run = sb.simulate(policy, environment(), 25)
    plays, replayed = sb.analysis.plays_over_rounds(small(), run)
    assert plays.shape == (25, 4)
    np.testing.assert_array_equal(plays.sum(axis=1), 1.0)
    np.testing.assert_array_equal(plays.sum(axis=0), list(policy.plays.values()))
    assert replayed.plays == policy.plays
    axes = sb.plots.prior_timeline(policy, run)
    assert len(axes.get_yticklabels()) == 4


# ---- bad input

GRID = sb.Grid([[0, 1]], 5)
RBF = sb.RBF(0.2)


@pytest.mark.parametrize(
    ("space", "kernel", "options", "name"),
    [
        (sb.Arms(3), RBF, {}, "space"),
        (sb.Arms(3), sb.Covariance(np.eye(3)), {}, "kernel"),
        (sb.SearchSpace({"kind": sb.Categorical(["a", "b", "c"])}), RBF, {"candidates": 2}, "space"),
        (GRID, sb.Covariance(np.eye(5)), {}, "kernel"),
        (GRID, sb.Constant(), {}, "kernel"),
        (GRID, sb.Linear(), {}, "kernel"),
        (GRID, sb.RationalQuadratic(0.2), {}, "kernel"),
        (GRID, RBF * sb.TemporalDecay(0.1), {}, "kernel"),
        (GRID, RBF + sb.Matern(0.2), {}, "kernel"),
        (GRID, RBF * sb.Periodic(0.2), {}, "kernel"),
        (GRID, sb.RBF([0.2, 0.3]), {}, "lengthscale"),
        (GRID, 1e20 * RBF, {}, "regularization"),
        (GRID, RBF, {"rkhs_norm": 0.0}, "rkhs_norm"),
        (GRID, RBF, {"rkhs_norm": "double"}, "rkhs_norm"),
        (GRID, RBF, {"growth": -0.1}, "growth"),
        (GRID, RBF, {"growth": math.inf}, "growth"),
        (GRID, RBF, {"initial": 0}, "initial"),
        (GRID, RBF, {"initial": 2.0}, "initial"),
        (GRID, RBF, {"initial": 101}, "initial"),
        (GRID, RBF, {"prior_mean": math.nan}, "prior_mean"),
        (GRID, RBF, {"engine": "sketched"}, "engine"),
        (GRID, RBF, {"scale": 0.0}, "scale"),
    ],
    ids=str,
)
def test_refused_by_name(space, kernel, options, name):
    with pytest.raises(ValueError, match=rf"(?s)^{name}: got .+; allowed: .+"):
        sb.LBGPUCB(space, kernel, **options)


def test_a_width_that_is_not_proven_is_warned_of():
    with warnings.catch_warnings(record=True, action="always") as caught:
        sb.LBGPUCB(GRID, RBF, regularization=0.5)
        sb.LBGPUCB(GRID, RBF)
    assert [each.category for each in caught] == [sb.UnprovenWidth]


# ---- regret


@pytest.mark.parametrize(
    "length", [pytest.param(0.4, marks=pytest.mark.slow), pytest.param(0.8, marks=pytest.mark.long)]
)
def test_a_lengthscale_that_is_far_too_long(length):
    """20 functions of lengthscale 0.1, and 1000 rounds of policies that are told one 4 or 8 times as long.

    Measured: means 152 and 630 for 4 times. For every function the lengthscales that are short enough survive.
    """
    true, regrets, survived, rejected = 0.1, [], 0, 0
    space = sb.Grid([[0, 1]], 60)
    for seed in range(20):
        function = sb.RKHSFunction.sparse(space, sb.RBF(true), sb.GaussianNoise(0.1), seed=seed)  # of norm 1
        options = {"rkhs_norm": math.sqrt(true / length), "noise": 0.1, "seed": seed}  # B(theta) is then 1 for the true
        balanced = sb.LBGPUCB(space, sb.RBF(length), **options)
        plain = sb.IGPUCB(space, sb.RBF(length), **options)
        regrets.append([sb.simulate(policy, function, 1000).regret.sum() for policy in (balanced, plain)])
        fitting = {prior.name for prior in balanced.priors if prior.kernel.lengthscale <= true}
        survived += fitting <= set(balanced.surviving)
        rejected += balanced.priors[0].name not in balanced.surviving
    ours, theirs = np.array(regrets).T
    assert ours.mean() < 0.5 * theirs.mean()
    assert (ours < theirs).sum() >= 12
    assert survived >= 19
    assert rejected >= 5  # or nothing was tested


@pytest.mark.parametrize("kind", ["LBGPUCB", "RegretBalancing"])
def test_failed_points_are_no_plays(kind, monkeypatch):
    """After failures the prior that proposes a point is still the one that its value is credited to."""
    policy = small()
    if kind == "RegretBalancing":
        priors = [sb.Prior(str(scale), sb.RBF(scale)) for scale in (0.1, 0.2, 0.4)]
        policy = sb.RegretBalancing(policy.space, priors, noise=0.1, regularization=0.01)
    asked, proposals = [], policy.proposals
    monkeypatch.setattr(
        policy, "proposals", lambda numbers, allowed: asked.append(numbers) or proposals(numbers, allowed)
    )
    for t in range(25):
        x = policy.ask()
        if t in (0, 7):
            policy.tell_failure(x)
            continue
        before = policy.tally.counts.copy()
        policy.tell(x, math.sin(7.0 * float(np.sum(x)) + t))
        assert np.flatnonzero(policy.tally.counts[: len(before)] - before).tolist() == asked[-1]


def test_a_lengthscale_that_cannot_join_changes_nothing(monkeypatch):
    """For lack of memory, say: told again, everything is as if nothing had happened."""
    policy, twin = small(), small()
    shards, true = type(policy._shards), type(policy._shards).add

    def failing(self, *given):
        true(self, *given)
        raise MemoryError

    failures = 0
    for t in range(30):
        x = policy.ask()
        assert twin.ask().tolist() == x.tolist()
        y = math.sin(7.0 * float(np.sum(x)) + t)
        with monkeypatch.context() as patch:
            patch.setattr(shards, "add", failing)
            count = len(policy.priors)
            try:
                policy.tell(x, y)
            except MemoryError:
                failures += 1
                assert (policy.rounds, len(policy.priors), len(policy.pending)) == (t, count, 1)
        if policy.rounds == t:
            policy.tell(x, y)
        twin.tell(x, y)
        assert policy.plays == twin.plays
        assert policy.log_likelihoods == twin.log_likelihoods
    assert failures >= 1
