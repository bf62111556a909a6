"""Functions of the bbob suite against the package, and noise against the formulas of the report."""

import pickle

import numpy as np
import pytest
from naive import bbob_noise

import scalable_bandits as sb
from environments.published.installed import needs
from scalable_bandits.environments.published import BBOB, LargeScaleBBOB, MixedIntegerBBOB
from scalable_bandits.environments.published.bbob import MODELS, interquartile_range, observed_above
from scalable_bandits.environments.published.sources import COCO
from scalable_bandits.randomness import generator


class Scripted:
    """In the place of numpy's generator: numbers from lists."""

    def __init__(self, uniforms=(), normals=()):
        self.uniforms, self.normals = list(uniforms), list(normals)

    def random(self, count=None):
        return self._next(self.uniforms, count)

    def standard_normal(self, count=None):
        return self._next(self.normals, count)

    def _next(self, numbers, count):
        return numbers.pop(0) if count is None else np.array([numbers.pop(0) for _ in range(count)])


@pytest.mark.parametrize("severe", [False, True])
@pytest.mark.parametrize("above", [0.0, 9e-9, 1e-8, 1e-3, 70.0, 2e9])
@pytest.mark.parametrize(("u", "v", "n", "m"), [(0.03, 0.9, 1.3, 1e-5), (0.03, 0.9, -1.3, 1e-5), (0.6, 0.1, -2.0, 1.0)])
@pytest.mark.sampled(4)
def test_models(severe, above, u, v, n, m):
    """Given the random numbers, on both sides of the target value and of the probability of an outlier."""
    prefix = "severe " if severe else ""
    for dimension in (2, 40):
        found = observed_above(MODELS[f"{prefix}uniform"], above, dimension, Scripted([u, v]))
        assert found == pytest.approx(bbob_noise.uniform(above, severe, dimension, u, v), rel=1e-12)
    found = observed_above(MODELS[f"{prefix}gauss"], above, 2, Scripted(normals=[n]))
    assert found == pytest.approx(bbob_noise.gauss(above, severe, n), rel=1e-12)
    found = observed_above(MODELS[f"{prefix}cauchy"], above, 2, Scripted([u], [n, m]))
    assert found == pytest.approx(bbob_noise.cauchy(above, severe, u, n, m), rel=1e-12)


@needs(COCO)
@pytest.mark.parametrize("function", range(1, 25))
@pytest.mark.sampled(3)
def test_values(function):
    """Minus those of the package; the optimum is at the package's best parameter, and nothing is above it."""
    import cocoex

    for dimension, instance in ((2, 1), (5, 3)):
        published = cocoex.BareProblem("bbob", function, dimension, instance)
        environment = BBOB(function, dimension, instance)
        points = np.random.default_rng(function).uniform(-5, 5, (50, dimension))
        settings = [environment.space.argument(point) for point in points]
        values = np.array([-published(point) for point in points])
        np.testing.assert_array_equal(environment.mean(settings), values)
        assert settings[0] == {f"x{i}": points[0, i] for i in range(dimension)}
        best = environment.space.argument(np.asarray(published.best_parameter()))
        assert environment.optimum() == pytest.approx(environment.mean(best), abs=1e-8)
        assert environment.optimum() == -published.best_value()
        assert (values <= environment.optimum()).all()
        np.testing.assert_array_equal(environment.observe(settings, 4), values)  # without noise


@needs(COCO)
@pytest.mark.parametrize("function", range(1, 25))
@pytest.mark.parametrize(
    ("kind", "sizes"), [(LargeScaleBBOB, [(20, 1), (80, 101)]), (MixedIntegerBBOB, [(5, 1), (20, 12)])]
)
@pytest.mark.sampled(3)
def test_values_of_other_suites(kind, sizes, function, tmp_path, monkeypatch):
    """Minus those of the package at its bounds and whole numbers; the optimum is at its best parameter, from a file."""
    import cocoex

    monkeypatch.chdir(tmp_path)
    for dimension, instance in sizes:
        suite = cocoex.Suite(kind.SUITE, f"instances: {instance}", f"dimensions: {dimension}")
        published = suite.get_problem_by_function_dimension_instance(function, dimension, instance)
        environment = kind(function, dimension, instance, seed=3)
        kinds = environment.space.kinds
        assert [each.low for each in kinds] == published.lower_bounds.tolist()
        assert [each.high for each in kinds] == published.upper_bounds.tolist()
        assert sum(isinstance(each, sb.Integer) for each in kinds) == published.number_of_integer_variables
        points = environment.space.sample(3)[:50]
        values = environment.evaluate(points)
        np.testing.assert_array_equal(values, [-published(point) for point in points])
        published._best_parameter("print")
        (file,) = tmp_path.iterdir()
        assert environment.evaluate(np.loadtxt(file)[None])[0] == pytest.approx(environment.optimum(), abs=1e-7)
        assert (values <= environment.optimum()).all()
        assert environment.mean({f"x{i}": x for i, x in enumerate(points[0].tolist())}) == values[0]
        for copy in (pickle.loads(pickle.dumps(environment)), kind.from_dict(environment.to_dict())):
            assert copy.to_dict() == environment.to_dict()
            np.testing.assert_array_equal(copy.evaluate(points), values)


@needs(COCO)
@pytest.mark.parametrize("model", MODELS)
def test_observations(model):
    """The numbers of a round are drawn from the generator of seed and round, uniform ones first."""
    environment = BBOB(8, 5, 2, model=model, seed=7)
    x = {f"x{i}": 0.3 * i for i in range(5)}
    above = environment.optimum() - environment.mean(x)
    severe = model.startswith("severe")
    observed = [environment.observe(x, t) for t in range(1, 40)]
    for t, y in enumerate(observed, 1):
        rng = generator(7, "bbob noise", t)
        if model.endswith("gauss"):
            expected = bbob_noise.gauss(above, severe, rng.standard_normal())
        elif model.endswith("uniform"):
            expected = bbob_noise.uniform(above, severe, 5, *rng.random(2))
        else:
            expected = bbob_noise.cauchy(above, severe, rng.random(), *rng.standard_normal(2))
        assert environment.optimum() - y == pytest.approx(expected, rel=1e-9)
    copy = pickle.loads(pickle.dumps(environment))
    assert [copy.observe(x, t) for t in (30, 2)] == [observed[29], observed[1]]
    assert environment.observe([x, x], 2).tolist() == observed[1:3]
    assert environment.mean(x, 3) == environment.mean(x, 9)
    assert environment.sub_gaussian == np.inf
    assert len(set(observed)) == 39 or model.endswith("cauchy")
    noisy = BBOB(8, 5, 2, model=model, noise=sb.GaussianNoise(2.0), seed=7)
    assert noisy.observe(x, 6) == observed[5] + noisy.noise_at(6)


@needs(COCO)
def test_share_of_the_interquartile_range():
    """A wide sample of f agrees; the noise is described by the share, until another one is set."""
    environment = BBOB(10, 3, share=0.1, seed=2)
    values = environment.evaluate(np.random.default_rng(1).uniform(-5, 5, (4000, 3)))
    spread = np.subtract(*np.quantile(values, [0.75, 0.25]))
    assert interquartile_range(environment) == pytest.approx(spread, rel=0.1)
    assert environment.noise.scale == 0.1 * interquartile_range(environment)
    assert (environment.parameters()["share"], environment.parameters()["noise"]) == (0.1, None)
    environment.set_noise(sb.GaussianNoise(3.0))
    assert (environment.parameters()["share"], environment.parameters()["noise"]) == (0.0, sb.GaussianNoise(3.0))
    assert pickle.loads(pickle.dumps(environment)).to_dict() == environment.to_dict()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BBOB(25, 2), "^function: got 25"),
        (lambda: BBOB(1, 4), "^dimension: got 4; allowed: one of 2, 3, 5, 10, 20, 40"),
        (lambda: LargeScaleBBOB(1, 10), "^dimension: got 10; allowed: one of 20, 40, 80, 160, 320, 640"),
        (lambda: MixedIntegerBBOB(1, 2), "^dimension: got 2; allowed: one of 5, 10, 20, 40, 80, 160"),
        (lambda: BBOB(1, "2"), "^dimension: got '2'"),
        (lambda: BBOB(1, 2, 0), "^instance: got 0"),
        (lambda: BBOB(1, 2, model="gaus"), r"^model: got 'gaus'; allowed: did you mean 'gauss'\?"),
        (lambda: BBOB(1, 2, share=-1.0), "^share: got -1.0"),
        (lambda: BBOB(1, 2, share=0.1, noise=sb.GaussianNoise(1.0)), "^share: got 0.1; allowed: .* 0 if a noise is"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@needs(COCO)
def test_no_candidates():
    with pytest.raises(ValueError, match=r"^available: got"):
        BBOB(1, 2).optimum(available=[0])
