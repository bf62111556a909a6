"""Policies that are unsure of their prior, against an oracle that refits every prior from scratch in every round."""

import functools
import json
import pickle
import warnings

import numpy as np
import pytest
from naive import priors as naive

import scalable_bandits as sb
from scalable_bandits.formulas import confidence
from scalable_bandits.priors import decay_log_likelihood, semidefinite

KINDS = (sb.PEGPUCB, sb.MLEGPUCB, sb.FullyBayesianGPUCB, sb.RegretBalancing)
NOISE, REGULARIZATION, DELTA = 0.1, 0.02, 0.2
SIZE = 12

every_kind = pytest.mark.parametrize("kind", KINDS)
may_exhaust = pytest.mark.filterwarnings("ignore:PEGPUCB. no prior is left")


def hilly(place, points, t):
    """A mean that moves: a hill that grows and shrinks over the rounds."""
    return 0.8 * np.exp(-(((points[:, 0] - place) / 0.2) ** 2)) * np.cos(t / 4)


def sets():
    """Sets of priors: sb.Prior and the oracle's, the truth among them (number 1) but for its noise."""
    grid = sb.Grid([[0, 1]], SIZE)
    x = grid.points()
    rbf = np.exp(-(np.subtract.outer(x[:, 0], x[:, 0]) ** 2) / (2 * 0.3**2))
    factor = np.random.default_rng(2).standard_normal((SIZE, 5))
    arms = 0.05 * (factor @ factor.T) + 0.02 * np.eye(SIZE)
    means = 0.6 * np.random.default_rng(3).standard_normal((4, SIZE))
    zero = np.zeros(SIZE)
    return {
        "still": (
            grid,
            [sb.Prior(f"{i}", 0.05 * sb.RBF(0.3), mean) for i, mean in enumerate(means)],
            [naive.TimedGP(0.05 * rbf, 0.0, lambda t, mean=mean: mean) for mean in means],
        ),
        "moving": (
            grid,
            [
                sb.Prior(f"{i}", 0.05 * sb.RBF(0.3), functools.partial(hilly, place))
                for i, place in enumerate((0.1, 0.5, 0.9))
            ],
            [naive.TimedGP(0.05 * rbf, 0.0, functools.partial(hilly, place, x)) for place in (0.1, 0.5, 0.9)],
        ),
        "drifting": (
            sb.Arms(SIZE),
            [
                sb.Prior("a", sb.Covariance(arms) * sb.TemporalDecay(0.05), means[0]),
                sb.Prior("b", sb.Covariance(arms) * sb.TemporalDecay(0.2)),
                sb.Prior("c", sb.Covariance(2 * arms), 1.0),
                sb.Prior("d", sb.Covariance(arms) * sb.TemporalDecay(0.1), means[1]),
            ],
            [
                naive.TimedGP(arms, 0.05, lambda t: means[0]),
                naive.TimedGP(arms, 0.2, lambda t: zero),
                naive.TimedGP(2 * arms, 0.0, lambda t: zero + 1.0),
                naive.TimedGP(arms, 0.1, lambda t: means[1]),
            ],
        ),
    }


class Duel:
    """A policy and the oracle, told the same."""

    def __init__(self, kind, name, batch=None, uninvited=False, available=True, engine="auto", seed=5, scale=1.0):
        self.space, priors, self.gps = sets()[name]
        options = {"on_exhaustion": "warn"} if kind is sb.PEGPUCB else {}
        self.policy = kind(
            self.space, priors, noise=NOISE, regularization=REGULARIZATION, delta=DELTA, seed=seed, engine=engine,
            scale=scale, **options,
        )  # fmt: skip
        self.kind, self.batch, self.uninvited, self.limited = kind, batch, uninvited, available
        self.scale = scale
        self.rng = np.random.default_rng(17)
        truth = self.gps[1]
        self.f = truth.mean(1) + self.rng.multivariate_normal(np.zeros(SIZE), truth.gram)
        self.alive = list(range(len(priors)))
        self.told, self.pending = [], []
        self.plays = {p: [] for p in self.alive}
        self.credits = np.zeros(len(priors))
        self.rejected = {}

    def width(self, t):
        return naive.width(t, SIZE, DELTA) / self.scale**0.5

    def upper(self, p, t, pending):
        mean, variance = self.gps[p].posterior(self.told, len(self.told) + 1, pending, REGULARIZATION)
        return mean + self.width(t) * np.sqrt(variance)

    def eligible(self, pending):
        """Index functions (n,) of which the choice must maximise one."""
        t = len(self.told) + len(pending) + 1
        evidence = {p: self.gps[p].log_likelihood(self.told) for p in self.alive}
        if self.kind is sb.PEGPUCB:
            return [np.max([self.upper(p, t, pending) for p in self.alive], axis=0)]
        if self.kind is sb.MLEGPUCB:
            best = max(evidence.values())
            return [self.upper(p, t, pending) for p in self.alive if evidence[p] >= best - 1e-9 * max(1, abs(best))]
        if self.kind is sb.FullyBayesianGPUCB:
            weights = naive.probabilities(list(evidence.values()))
            return [weights @ [self.upper(p, t, pending) for p in self.alive]]
        counts = {p: len(self.plays[p]) for p in self.alive}
        for _ in pending:
            turn = min(counts, key=counts.get)
            counts[turn] += 1
        if pending:  # whose turn it is among equals is the seed's affair: any that could have come
            return [self.upper(p, t, pending) for p in self.alive if counts[p] <= min(counts.values()) + 1]
        return [self.upper(p, t, pending) for p in self.alive if counts[p] == min(counts.values())]

    def number(self, x):
        return int(self.space.index(x)[0])

    def ask(self):
        allowed = np.arange(SIZE)
        if self.limited:
            allowed = self.rng.permutation(SIZE)[: self.rng.integers(1, SIZE + 1)]
        assert self.policy.width == pytest.approx(self.width(len(self.told) + len(self.pending) + 1), rel=1e-12)
        asked = self.policy.ask(self.batch, available=allowed)
        for x in [asked] if self.batch is None else asked:
            chosen = self.number(x)
            assert chosen in allowed
            short = min(index[allowed].max() - index[chosen] for index in self.eligible(self.pending))
            assert short <= 1e-8
            self.pending.append(chosen)

    def tell(self, x, noise=None):
        t = len(self.told) + 1
        y = self.f[x] + 0.3 * np.sin(t / 9) + NOISE * self.rng.standard_normal()
        before = {p: self.gps[p].posterior(self.told, t) for p in self.alive}
        evidence = [self.gps[p].log_likelihood(self.told) for p in self.alive]
        counts, had = self.policy.plays, list(self.alive)
        self.policy.tell(self.policy.domain.numbered.value(x), y, noise=noise)
        share = 1.0 if noise is None else (noise / NOISE) ** 2
        self.told.append((x, y, REGULARIZATION * share))
        gained = np.array(list(self.policy.plays.values())) - list(counts.values())
        if self.kind is sb.FullyBayesianGPUCB:
            np.testing.assert_allclose(gained, naive.probabilities(evidence), rtol=0, atol=1e-8)
            return
        (p,) = np.flatnonzero(gained)
        assert gained[p] == 1.0
        uppers = {q: before[q][0][x] + self.width(t) * np.sqrt(before[q][1][x]) for q in had}
        if self.kind is sb.PEGPUCB:
            assert uppers[p] >= max(uppers.values()) - 1e-8
        elif self.kind is sb.MLEGPUCB:
            assert evidence[had.index(p)] >= max(evidence) - 1e-8 * max(1.0, abs(max(evidence)))
        else:
            assert len(self.plays[p]) == min(len(self.plays[q]) for q in had)
        slack = uppers[p] - before[p][0][x]
        self.plays[p].append(naive.Play(y - before[p][0][x], y, slack, share))
        self.reject(p, t)

    def reject(self, p, t):
        """Who must go now, and nobody else."""
        count = len(self.gps)
        gone = {}
        if self.kind is sb.PEGPUCB and len(self.rejected) < count:
            statistic, bound = naive.line_12(self.plays[p], t, count, DELTA, NOISE)
            if statistic > bound:
                gone[p] = (t, statistic, bound)
        if self.kind is sb.RegretBalancing and all(self.plays[q] for q in self.alive):
            upper, least = naive.line_11({q: self.plays[q] for q in self.alive}, t, count, DELTA, NOISE)
            gone = {q: (t, least, bound) for q, bound in upper.items() if bound < least}
        self.rejected.update(gone)
        names = [prior.name for prior in self.policy.priors]
        reported = {names.index(name): rejection for name, rejection in self.policy.rejections.items()}
        assert set(reported) == set(self.rejected)
        for q, rejection in self.rejected.items():
            assert reported[q].round == rejection[0]
            assert reported[q][1:] == pytest.approx(rejection[1:], abs=1e-8)
            assert reported[q].excess == pytest.approx(rejection[1] - rejection[2], abs=1e-8)
        if len(self.rejected) < count:
            self.alive = [q for q in self.alive if q not in self.rejected]
            assert self.policy.surviving == tuple(names[q] for q in self.alive)

    def play(self, rounds):
        for t in range(rounds):
            self.ask()
            later = int(self.batch is not None and t % 2)
            for x in self.rng.permutation(self.pending)[later:].tolist():
                self.pending.remove(x)
                self.tell(x)
            if self.uninvited and t % 4 == 3:
                free = np.setdiff1d(np.arange(SIZE), self.pending)
                self.tell(int(self.rng.choice(free)), noise=self.rng.choice([0.05, 0.3]))
        self.check_report()

    def check_report(self):
        names = [prior.name for prior in self.policy.priors]
        found = self.policy.log_likelihoods
        expected = {p: self.gps[p].log_likelihood(self.told) for p in self.alive}
        for p, value in expected.items():
            assert found[names[p]] == pytest.approx(value, rel=1e-8, abs=1e-7)
        t = len(self.told) + 1
        moments = {p: self.gps[p].posterior(self.told, t) for p in self.alive}
        points = self.space.points()
        for p in self.alive:
            mean, std = self.policy.posterior(points, prior=names[p])
            np.testing.assert_allclose(mean, moments[p][0], rtol=0, atol=1e-8)
            np.testing.assert_allclose(std, np.sqrt(moments[p][1]), rtol=0, atol=1e-7)
        weights = np.zeros(len(self.alive))
        weights[int(np.argmax(list(expected.values())))] = 1.0
        if self.kind is sb.FullyBayesianGPUCB:
            weights = naive.probabilities(list(expected.values()))
        mean = weights @ [moments[p][0] for p in self.alive]
        second = weights @ [moments[p][1] + moments[p][0] ** 2 for p in self.alive]
        found_mean, found_std = self.policy.posterior(points)
        np.testing.assert_allclose(found_mean, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(found_std, np.sqrt(second - mean**2), rtol=0, atol=1e-7)
        queried = sorted({x for x, _, _ in self.told})
        best = self.policy.best()
        assert mean[self.number(best.x)] >= mean[queried].max() - 1e-8
        assert best.mean == pytest.approx(mean[self.number(best.x)], abs=1e-8)


@may_exhaust
@every_kind
@pytest.mark.sampled(4)
def test_a_narrower_width(kind):
    """Its square divided by `scale`, in the index, the rejections and the report."""
    duel = Duel(kind, "still", scale=20.0)
    duel.play(40)


@may_exhaust
@every_kind
@pytest.mark.parametrize("name", ["still", "moving", "drifting"])
@pytest.mark.sampled(8)
def test_the_chosen_candidate_has_the_largest_index_in_every_round(name, kind):
    """One point at a time, from an availability set that changes; rejections in the very round."""
    duel = Duel(kind, name)
    duel.play(60)
    if kind is sb.PEGPUCB:
        assert duel.rejected  # or nothing was tested


@may_exhaust
@every_kind
@pytest.mark.parametrize("name", ["still", "moving", "drifting"])
@pytest.mark.sampled(6)
def test_with_points_pending_and_points_nobody_asked_for(name, kind):
    duel = Duel(kind, name, batch=3, uninvited=True)
    duel.play(12)


@may_exhaust
@every_kind
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.sampled(4)
def test_in_tiles(kind):
    """The engine for large spaces."""
    duel = Duel(kind, "still", engine="tiled")
    duel.play(40)


# ---- rejection


def pair(**options):
    """A policy that has the true prior, one of another mean, and one of too small a variance."""
    space = sb.Grid([[0, 1]], 8)
    means = {"truth": 0.0, "high": 1.0}
    priors = [sb.Prior(name, 0.04 * sb.RBF(0.3), mean) for name, mean in means.items()]
    priors.append(sb.Prior("stiff", 1e-4 * sb.RBF(0.3), 0.0))
    return space, sb.PEGPUCB(space, priors, noise=0.05, regularization=0.0025, **options)


@may_exhaust
@pytest.mark.parametrize("delta", [0.1, 0.9])
@pytest.mark.sampled(2)
def test_the_true_prior_is_rejected_in_at_most_a_delta_of_runs(delta):
    """200 seeds of functions drawn from it; the theorem's count is a mean, and gets three standard errors of room."""
    lost, false_ones = 0, 0
    for seed in range(200):
        space, policy = pair(delta=delta, seed=seed, on_exhaustion="warn")
        function = sb.GPSample(space, 0.04 * sb.RBF(0.3), sb.GaussianNoise(0.05), seed=seed)
        sb.simulate(policy, function, 25)
        lost += "truth" not in policy.surviving
        false_ones += "high" not in policy.surviving
    assert lost <= 200 * delta + 3 * np.sqrt(200 * delta * (1 - delta))
    assert false_ones > 100  # or nothing was tested


def far_from_all(policy, rounds=30):
    for _ in range(rounds):
        policy.tell(policy.ask(), -5.0)


def test_when_no_prior_is_right_the_policy_says_so():
    """As the next point is asked for, naming when each was rejected; the observations stand."""
    _, policy = pair()
    with pytest.raises(sb.PriorsExhausted, match="no prior is left") as refused:
        far_from_all(policy)
    assert policy.exhausted
    assert policy.surviving == ()
    assert set(policy.rejections) == {"truth", "high", "stiff"}
    for name, rejection in policy.rejections.items():
        assert f"'{name}' in round {rejection.round}" in str(refused.value)
        assert rejection.excess > 0
    assert policy.rounds == max(r.round for r in policy.rejections.values())
    state = policy.state()
    with pytest.raises(sb.PriorsExhausted):
        policy.ask(3)
    assert policy.pending == []
    assert all(np.array_equal(value, policy.state()[name]) for name, value in state.items())
    policy.tell(0.0, -5.0)  # what is told is still learned
    assert policy.rounds == max(r.round for r in policy.rejections.values()) + 1


def test_when_no_prior_is_right_it_can_go_on_with_the_last():
    _, policy = pair(on_exhaustion="warn")
    with pytest.warns(UserWarning, match="no prior is left") as warned:
        far_from_all(policy)
    assert len(warned) == 1
    last = list(policy.rejections)[-1]
    assert f"continuing with '{last}'" in str(warned[0].message)
    before = policy.plays
    policy.tell(policy.ask(), -5.0)
    assert policy.plays[last] == before[last] + 1
    assert sum(policy.plays.values()) == 31


def test_the_warning_may_be_an_error(tmp_path):
    """As with `python -W error`: it comes as a point is asked for, and everything told was learned and kept."""
    _, policy = pair(on_exhaustion="warn")
    with warnings.catch_warnings(action="error"), sb.record(policy, tmp_path / "run.zarr"):
        policy.tell(np.linspace(0, 1, 8)[np.arange(30) % 8, None], np.full(30, -5.0))
        assert policy.exhausted
        with pytest.raises(UserWarning, match="no prior is left"):
            policy.ask()
        assert policy.pending == []
        policy.tell(policy.ask(), -5.0)  # once is enough
    assert policy.rounds == sum(policy.plays.values()) == 31
    _, again = pair(on_exhaustion="warn")
    with warnings.catch_warnings(action="error"), sb.record(again, tmp_path / "run.zarr"):
        assert again.rounds == 31
    assert again.log_likelihoods == policy.log_likelihoods


def until(last, points, t):
    """A mean that nobody knows for later rounds."""
    return np.zeros(len(points)) if t <= last else np.full(len(points), np.nan)


@every_kind
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.sampled(3)
def test_a_mean_that_fails_in_a_later_round_of_many_told_at_once(recorded, kind, tmp_path):
    """None of them is learned or kept, so that the store can be opened again."""
    priors = [sb.Prior("known", sb.RBF(0.3), functools.partial(until, 4)), sb.Prior("flat", sb.RBF(0.2))]

    def make():
        return kind(sb.Box([[0, 1]]), priors, noise=0.1, regularization=0.01, candidates=16)

    policy, twin = make(), make()
    recording = sb.record(policy, tmp_path / "run.zarr") if recorded else None
    for each in (policy, twin):
        each.tell([[0.1], [0.9]], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^mean: got .*nan"):
        policy.tell([[0.1], [0.5], [0.3]], [1.0, 0.0, 1.0])
    for each in (policy, twin):
        each.tell([[0.3], [0.4]], [2.0, 1.0])
    assert policy.rounds == 4
    assert policy.domain.numbered == twin.domain.numbered
    assert policy.log_likelihoods == twin.log_likelihoods
    with pytest.raises(ValueError, match=r"^mean: got .*nan"):
        policy.tell([0.1], 1.0)
    if recording is not None:
        recording.close()
        again = make()
        sb.record(again, tmp_path / "run.zarr").close()
        assert again.log_likelihoods == twin.log_likelihoods


def test_exhaustion_in_a_simulation_keeps_its_rounds(tmp_path):
    space, policy = pair()
    function = sb.TableEnvironment(space, np.full(8, -5.0), sb.GaussianNoise(0.05))
    with pytest.raises(sb.PriorsExhausted):
        sb.simulate(policy, function, 50, store=tmp_path / "run.zarr")
    _, again = pair()
    with pytest.raises(sb.PriorsExhausted):
        sb.simulate(again, function, 50, store=tmp_path / "run.zarr")
    assert again.rounds == policy.rounds > 1
    assert again.rejections == policy.rejections


def test_the_widths_are_the_papers():
    for t in (1, 7, 400):
        assert confidence.unknown_prior_finite(t, 50, 0.1) == pytest.approx(naive.width(t, 50, 0.1), rel=1e-14)
        assert confidence.unknown_prior_continuous(t, 3, 0.1, 1.2, 0.8, 2.0) == pytest.approx(
            naive.width_continuous(t, 3, 0.1, 1.2, 0.8, 2.0), rel=1e-14
        )
        assert confidence.error_allowance(t, 13, 0.1, 0.3) == pytest.approx(naive.allowance(t, 13, 0.1, 0.3), rel=1e-14)


# ---- equals


def test_equal_priors_take_turns_by_the_seed():
    """Two names for one prior: which of them is credited is decided by the seed alone, for all candidates alike."""
    space = sb.Grid([[0, 1]], 8)
    first = set()
    for seed in range(12):
        policy = sb.PEGPUCB(space, [sb.Prior("a", sb.RBF(0.2)), sb.Prior("b", sb.RBF(0.2))], seed=seed)
        sb.simulate(policy, sb.GPSample(space, sb.RBF(0.2), seed=seed), 10)
        (played,) = [name for name, count in policy.plays.items() if count]
        assert policy.plays[played] == 10
        first.add(played)
    assert first == {"a", "b"}


def test_one_prior_alone_is_gpucb_with_the_papers_width():
    """All four play the same points then, wherever ties are broken."""
    space, kernel = sb.Grid([[0, 1], [0, 1]], 9), sb.Matern(0.3)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.2), seed=4)
    delta = 0.1 / 12  # 2 log(|D| t^2 pi^2 / (6 delta')) is 2 log(2 |D| t^2 pi^2 / delta) then
    expected = sb.simulate(sb.GPUCB(space, kernel, noise=0.2, regularization=0.04, delta=delta, seed=2), function, 60)
    for kind in KINDS:
        policy = kind(space, [sb.Prior("only", kernel)], noise=0.2, regularization=0.04, delta=0.1, seed=2)
        run = sb.simulate(policy, function, 60)
        assert run.candidate.tolist() == expected.candidate.tolist()
        np.testing.assert_allclose(run.width, expected.width, rtol=1e-12)
        np.testing.assert_allclose(run.information_gain, expected.information_gain, rtol=1e-10)


def test_regret_balancing_takes_turns_among_pending_points():
    """Each prior has a favourite of its own: three points asked for at once are those, and six are those twice."""
    space = sb.Arms(6)
    priors = [sb.Prior(str(i), sb.Covariance(1e-6 * np.eye(6)), np.eye(6)[i]) for i in (1, 3, 4)]
    for seed in range(5):
        policy = sb.RegretBalancing(space, priors, seed=seed)
        assert sorted(policy.ask(3).tolist()) == [1, 3, 4]
        assert sorted(policy.ask(3).tolist()) == [1, 3, 4]


# ---- kept and taken up again


@every_kind
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_box_takes_the_points_of_others(epsilon, kind):
    """Rebuilt over a longer candidate set, the posterior is the oracle's given everything told."""
    kernel = sb.RBF(0.2) * sb.TemporalDecay(epsilon)
    means = {"flat": 0.3, "hill": functools.partial(hilly, 0.5)}
    priors = [sb.Prior(name, kernel, mean) for name, mean in means.items()]
    make = functools.partial(kind, sb.Box([[0.0, 1.0]]), priors, noise=0.3, regularization=0.09, candidates=30, seed=1)
    policy, told = make(), []
    points = np.append(policy.domain.points(), [[0.123]], axis=0)

    def tell(x, y):
        policy.tell(x, y)
        told.append((int(np.flatnonzero(points == x)[0]), y, 0.09))

    for y in (0.2, 0.5):
        tell(policy.ask(), y)
    tell(np.array([0.123]), 0.7)
    assert policy.domain.size == 31
    assert sum(policy.plays.values()) == pytest.approx(3)
    tell(policy.ask(), 0.4)
    gram = np.exp(-(np.subtract.outer(points[:, 0], points[:, 0]) ** 2) / (2 * 0.2**2))
    again = make()
    again.restore(policy.state())
    for name, mean in means.items():
        known = functools.partial(mean, points) if callable(mean) else lambda t: np.full(31, 0.3)
        gp = naive.TimedGP(gram, epsilon, known)
        expected, variance = gp.posterior(told, 5)
        for held in (policy, again):
            found, std = held.posterior(points, prior=name)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
            np.testing.assert_allclose(std, np.sqrt(variance), rtol=0, atol=1e-7)
        assert policy.log_likelihoods[name] == pytest.approx(gp.log_likelihood(told), abs=1e-8)
    assert again.ask().tolist() == policy.ask().tolist()
    assert policy.ask(40).max() <= 1.0
    assert [0.123] not in np.array(policy.pending).tolist()  # learned from, never chosen


# ---- specifications and refusals


def test_priors_are_specifications():
    priors = [
        sb.Prior("a", 2.0 * sb.RBF(0.2), 0.5),
        sb.Prior("b", sb.Covariance(np.eye(3)) * sb.TemporalDecay(0.1), [1.0, 2.0, 3.0]),
    ]
    for prior in priors:
        again = sb.Prior.from_dict(json.loads(json.dumps(prior.to_dict())))
        assert again == prior == pickle.loads(pickle.dumps(prior))
        assert hash(again) == hash(prior)
    assert priors[0] != sb.Prior("a", 2.0 * sb.RBF(0.2), 0.6)
    assert not priors[1].mean.flags.writeable
    assert not pickle.loads(pickle.dumps(priors[1])).mean.flags.writeable
    with pytest.raises(TypeError, match="function"):
        sb.Prior("c", sb.RBF(), lambda points, t: 0.0).to_dict()


@every_kind
def test_policies_are_specifications(kind):
    space = sb.Arms(3)
    priors = (sb.Prior("b", sb.Covariance(np.eye(3)) * sb.TemporalDecay(0.1), [1.0, 2.0, 3.0]),)
    policy = kind(space, priors, noise=0.3, delta=0.2, seed=4)
    again = sb.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert type(again) is kind
    assert again.to_dict() == policy.to_dict()
    assert again.ask() == policy.ask()


RBF = sb.RBF(0.2)
BAD = {
    "none": ([], "priors"),
    "no priors": ([sb.RBF()], "priors"),
    "one alone": (sb.Prior("a", RBF), "priors"),
    "same names": ([sb.Prior("a", RBF), sb.Prior("a", sb.RBF(0.3))], "priors"),
    "mean of other size": ([sb.Prior("a", RBF, [1.0, 2.0])], "mean"),
    "mean of wrong shape": ([sb.Prior("a", RBF, lambda points, t: np.zeros(7))], "mean"),
    "mean that is not finite": ([sb.Prior("a", RBF, lambda points, t: points[:, 0] + np.nan)], "mean"),
    "kernel of other dimension": ([sb.Prior("a", sb.RBF([1.0, 2.0]))], "lengthscale"),
    "variance out of proportion": ([sb.Prior("a", 1e20 * RBF)], "regularization"),
}


@every_kind
@pytest.mark.parametrize("case", BAD)
@pytest.mark.sampled(4)
def test_bad_priors_are_refused_by_name(case, kind):
    priors, name = BAD[case]
    with pytest.raises(ValueError, match=rf"^{name}: got .+; allowed: .+") as refused:
        kind(sb.Grid([[0, 1]], 5), priors)
    assert name != "mean" or "(prior 'a')" in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("",), "name"),
        ((3,), "name"),
        (("a", RBF, [[1.0]]), "mean"),
        (("a", RBF, [np.nan]), "mean"),
        (("a", RBF, "1"), "mean"),
    ],
)
def test_a_prior_that_is_none_is_refused(arguments, name):
    with pytest.raises(ValueError, match=rf"^{name}: got ") as refused:
        sb.Prior(*arguments, **({} if len(arguments) > 1 else {"kernel": RBF}))
    assert name != "mean" or "(prior 'a')" in str(refused.value)


@every_kind
def test_a_mean_that_fails_in_some_round_or_place_changes_nothing(kind):
    """Whether it is asked first or second, on a candidate or on a new point of a box."""

    def fails(points, t):
        return np.where((points[:, 0] == 0.123) | (t == 3), np.nan, 0.0)

    for order in (1, -1):
        priors = [sb.Prior("good", RBF), sb.Prior("bad", RBF, fails)][::order]
        policy = kind(sb.Box([[0.0, 1.0]]), priors, candidates=20, noise=0.1, regularization=0.01)
        policy.tell(policy.ask(), 0.3)
        for x in (0.123, None):
            before, size = policy.state(), policy.domain.size
            with pytest.raises(ValueError, match=r"^mean: got"):
                policy.tell([x] if x else policy.domain.points([3])[0], 0.1)
            assert policy.domain.size == size
            assert all(np.array_equal(value, policy.state()[name]) for name, value in before.items())
            if x:
                policy.tell(policy.ask(), 0.2)  # round 2; round 3 is the one that has no mean


@every_kind
def test_a_decaying_kernel_needs_its_engine(kind):
    with pytest.raises(ValueError, match=r"^engine: got 'dense'"):
        kind(sb.Grid([[0, 1]], 5), [sb.Prior("a", RBF), sb.Prior("b", RBF * sb.TemporalDecay(0.1))], engine="dense")


# ---- a prior from readings


def walk(times, n, epsilon, seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, n)) / np.sqrt(n)
    f = factor @ rng.standard_normal(n)
    rows = []
    for _ in range(times):
        rows.append(f + 0.1 * rng.standard_normal(n))
        f = np.sqrt(1 - epsilon) * f + np.sqrt(epsilon) * (factor @ rng.standard_normal(n))
    return np.array(rows), factor @ factor.T


def test_the_likelihood_of_a_panel_is_that_of_all_its_numbers():
    rows, covariance = walk(7, 4, 0.2, 0)
    epsilons = np.array([1e-6, 0.05, 0.3, 1.0])
    expected = [naive.autoregression_log_likelihood(rows, covariance, e, 0.03) for e in epsilons]
    np.testing.assert_allclose(decay_log_likelihood(rows, covariance, epsilons, 0.03), expected, rtol=1e-9)
    assert float(decay_log_likelihood(rows, covariance, 0.05, 0.03)) == pytest.approx(expected[1], rel=1e-9)


def test_a_prior_from_a_panel_has_its_covariance_and_the_best_epsilon():
    rows, _ = walk(120, 6, 0.1, 1)
    rows = rows + np.arange(6)
    prior = sb.prior_from_panel(rows, "walk", noise_variance=0.01)
    assert prior.name == "walk"
    np.testing.assert_allclose(prior.mean, rows.mean(axis=0), rtol=1e-12)
    covariance = prior.kernel.block(np.arange(6.0))
    np.testing.assert_allclose(covariance, np.cov(rows.T, bias=True), rtol=1e-9, atol=1e-12)
    epsilon = prior.kernel.epsilon
    centred = rows - rows.mean(axis=0)
    best = naive.autoregression_log_likelihood(centred, covariance, epsilon, 0.01)
    for other in (0.9 * epsilon, 1.1 * epsilon, 0.01, 0.5):
        assert best > naive.autoregression_log_likelihood(centred, covariance, other, 0.01)


def test_a_standardised_panel_has_mean_zero_and_variance_one():
    rows, _ = walk(48, 60, 0.1, 2)  # fewer rows than sensors: singular
    prior = sb.prior_from_panel(20.0 + 3.0 * rows, standardised=True, zero_mean=True)
    plain = sb.prior_from_panel(rows, standardised=True)
    assert prior.mean == 0.0
    covariance = prior.kernel.block(np.arange(60.0))
    assert covariance.diagonal().mean() == pytest.approx(1.0)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-10
    np.testing.assert_allclose(covariance, plain.kernel.block(np.arange(60.0)), rtol=1e-9, atol=1e-12)
    assert abs(plain.mean.mean()) < 1e-12
    policy = sb.PEGPUCB(sb.Arms(60), [prior], regularization=0.05)
    policy.tell(policy.ask(), 0.1)


def test_a_matrix_is_made_positive_semidefinite():
    matrix = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.9], [0.1, 0.9, 1.0]])
    assert np.linalg.eigvalsh(matrix)[0] < -0.1
    fixed = semidefinite(matrix)
    spectrum, vectors = np.linalg.eigh(matrix)
    np.testing.assert_allclose(fixed, vectors @ np.diag(np.maximum(spectrum, 0)) @ vectors.T, atol=1e-14)
    assert sb.Covariance(fixed)
    good = np.eye(3) + 0.5
    np.testing.assert_array_equal(semidefinite(good), good)


@pytest.mark.parametrize(
    ("readings", "options", "name"),
    [
        (np.zeros((2, 3)), {}, "readings"),
        (np.ones((5, 3)), {}, "readings"),
        ([1.0, 2.0, 3.0], {}, "readings"),
        ([[1.0, np.nan], [2.0, 1.0], [3.0, 1.0]], {}, "readings"),
        (np.eye(3), {"noise_variance": 0.0}, "noise_variance"),
        (np.eye(3), {"noise_variance": "much"}, "noise_variance"),
    ],
)
def test_readings_that_are_no_panel_are_refused(readings, options, name):
    with pytest.raises(ValueError, match=rf"^{name}: got .+; allowed: .+"):
        sb.prior_from_panel(readings, **options)
