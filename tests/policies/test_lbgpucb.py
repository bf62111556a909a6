"""LBGPUCB against an implementation of the paper's formulas that refits every lengthscale from scratch."""

import json
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


def problem(name):
    """Space, kernel, and what the oracle needs: kernel by factor, lengthscales over the sides, smoothness, function."""
    if name == "line":
        return sb.Grid([[0, 2]], 18), sb.RBF(1.0), lambda f: naive_kernels.rbf((f,)), [0.5], math.inf, waves
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
def test_with_other_parameters(name, options):
    duel = Duel(name, **options).play(60)
    if "growth" in options:  # at most one a round, although more would be allowed
        assert list(duel.oracle.introduced.values())[:4] == ([] if options["growth"] == 0.0 else [2, 3, 4, 5])
