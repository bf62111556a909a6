"""The summary of a result: its numbers are those of slow computations from the observations."""

import math
import re

import numpy as np
import pytest

import scalable_bandits as sb

NORMAL = 1.959964


def lines(found):
    text = found.summary()
    assert str(text) == repr(text) == "\n".join(text.splitlines())
    assert len(text.splitlines()) <= 10
    return text.splitlines()


def numbers(line):
    return [float(each.replace(",", "")) for each in re.findall(r"(?<![\w.])-?[\d,]*\.?\d+(?:e-?\d+)?", line)]


def line_of(found, beginning):
    (line,) = [line for line in lines(found) if line.startswith(beginning)]
    return line


GRID = sb.Grid([[0, 1], [0, 2]], (8, 8))
KERNEL = sb.RBF((0.4, 0.9))
OPTIONS = {"noise": 0.2, "regularization": 0.04}


@pytest.mark.parametrize("minimize", [False, True])
def test_numbers_of_a_given_kernel_are_those_of_a_refit(minimize):
    sign, rng = (-1.0 if minimize else 1.0), np.random.default_rng(0)
    policy = sb.IGPUCB(GRID, KERNEL, rkhs_norm=3.0, confidence="flynn-reeb", minimize=minimize, **OPTIONS)
    tune = sb.minimize if minimize else sb.maximize
    found = tune(lambda x: sign * (2.0 * x[0] - x[0] * x[1] + 0.2 * rng.standard_normal()), policy, 25)

    def covariance(a, b):
        scaled = (a[:, None] - b[None]) / np.array([0.4, 0.9])
        return np.exp(-0.5 * (scaled**2).sum(axis=2))

    def posterior(at, x, y):
        gains = np.linalg.solve(covariance(x, x) + 0.04 * np.eye(len(x)), covariance(x, at))
        return gains.T @ y, 1.0 - (gains * covariance(x, at)).sum(axis=0)

    every = GRID.points()
    mean, variance = posterior(every, found.x, found.y)
    best = np.argmax(sign * mean)
    deviation = np.sqrt(variance[best])
    np.testing.assert_allclose(numbers(line_of(found, "Recommended: ")), every[best], rtol=1e-3)
    shown = numbers(line_of(found, "Expected value there: "))
    expected = [mean[best], deviation, 95, mean[best] - NORMAL * deviation, mean[best] + NORMAL * deviation]
    np.testing.assert_allclose(shown, expected, atol=0.006)
    measured = np.argmax(sign * found.y)
    shown = numbers(line_of(found, "Best measured value: "))
    np.testing.assert_allclose(shown[:3], [found.y[measured], measured + 1, 25], rtol=1e-3)

    gain = 0.5 * np.linalg.slogdet(np.eye(25) + covariance(found.x, found.x) / 0.04)[1]
    width = sb.formulas.confidence.width("flynn-reeb", gain, 0.1, 3.0, 0.2, 0.04)
    oriented, deviations = sign * mean, np.sqrt(variance)
    room = (oriented + width * deviations).max() - (oriented[best] - width * deviations[best])
    np.testing.assert_allclose(numbers(line_of(found, "Another setting may be better by up to "))[0], room, rtol=0.05)

    table = mean.reshape(8, 8)  # every setting of the grid: the indices are exact
    total = {"x0": table.var(axis=0).mean() / table.var(), "x1": table.var(axis=1).mean() / table.var()}
    shown = dict(re.findall(r"(x\d) (\d+) %", line_of(found, "What matters")))
    assert list(shown) == sorted(total, key=total.get, reverse=True)
    for name, share in total.items():
        assert float(shown[name]) == pytest.approx(100.0 * share, abs=12.0)

    distinct, places = np.unique(found.x, axis=0, return_inverse=True)
    averages = np.array([found.y[places.ravel() == i].mean() for i in range(len(distinct))])
    noise = 0.04 / np.bincount(places.ravel())
    held = 0
    for i in range(len(distinct)):
        others = np.arange(len(distinct)) != i
        gains = np.linalg.solve(
            covariance(distinct[others], distinct[others]) + np.diag(noise[others]),
            covariance(distinct[others], distinct[[i]]),
        )[:, 0]
        spread = 1.0 - gains @ covariance(distinct[others], distinct[[i]])[:, 0] + noise[i]
        held += abs(averages[i] - gains @ averages[others]) <= NORMAL * np.sqrt(spread)
    assert numbers(line_of(found, "Check: "))[:2] == [len(distinct), held]


SPACE = {
    "rate": sb.Real(1e-3, 1.0, log=True),
    "depth": sb.Integer(1, 5),
    "kind": sb.Categorical(["a", "b", "c"]),
    "unused": sb.Real(0.0, 1.0),
}


@pytest.mark.slow
def test_a_range_over_many_orders_wants_a_log_scale():
    """The best is inside, a thousandth of the range from its lower end."""
    space = {"rate": sb.Real(0.0, 1.0), "drop": sb.Real(0.0, 1.0)}
    found = sb.minimize(lambda s: (math.log10(s["rate"] + 1e-9) + 3.0) ** 2 + s["drop"], space, 60)
    line = line_of(found, "At the end")
    end, inside = "drop (a wider range may be better)", "rate (a log scale may be better)"
    assert line == f"At the end of its range: {end}; near the lower end of its range: {inside}"


@pytest.mark.slow
def test_exact_values_have_no_interval():
    """The steps that refine a setting are not shown to the model of the whole space: its errors are not theirs."""
    space, known = {"x": sb.Real(0.0, 1.0)}, 0
    for seed in range(3):
        found = sb.minimize(lambda s: abs(math.log10(s["x"] + 1e-9) + 5.0), space, 80, seed=seed)
        if found.policy._region.exact:
            known += 1
            value = found.measured.y
            assert (found.value, found.std) == (value, 0.0)
            assert found.policy.interval(found.best) == (value, value)
            assert "partly luck" not in found.summary()
    assert known


@pytest.mark.slow
def test_bounds_that_a_value_contradicts_stop_no_run():
    """Functions with a cusp that a model of few points takes for noise: the rule stopped 15 of 16 runs, 14 wrongly."""
    wrong = []
    for function in (lambda a: abs(a + 5.0), lambda a: (a + 3.5) ** 2):
        for seed in range(3):

            def curve(s, function=function):
                return function(math.log10(s["x"] + 1e-9)) + (s["z"] - 0.4) ** 2

            space = {"x": sb.Real(0.0, 1.0), "z": sb.Real(0.0, 1.0)}
            found = sb.minimize(curve, space, 60, seed=seed, stop=sb.RegretBelow(0.1))
            wrong.append(found.stopped_by is not None and curve(found.best) > 0.1)
            assert "up to -" not in found.summary()
    assert sum(wrong) <= 3  # of 6; all but one before


def test_a_learned_model_says_what_matters_and_where_the_range_ends():
    rng, calls = np.random.default_rng(1), []

    def loss(setting):
        calls.append(setting)
        if len(calls) in (3, 7):
            raise RuntimeError("no")
        return np.log10(setting["rate"]) + 0.5 * abs(setting["depth"] - 3) + 0.05 * rng.standard_normal()

    found = sb.minimize(loss, SPACE, 30, parallel=1, retries=0)
    heading, recommended, *_ = lines(found)
    assert heading.startswith("Smaller is better; 30 evaluations (2 failed); evaluations took ")
    assert recommended.startswith("Recommended: rate = 0.001, depth = 3, kind = ")
    values = [row.value for row in found.evaluations()]
    assert numbers(line_of(found, "Best measured value: "))[1] == np.nanargmin(values) + 1
    exact = sb.analysis.importance(found, points=256)
    shown = re.findall(r"(\w+) (\d+) % ± (\d+)", line_of(found, "What matters"))
    assert [name for name, *_ in shown[:2]] == ["rate", "depth"]
    for name, share, error in shown:
        assert abs(float(share) - 100.0 * exact.total[exact.names.index(name)]) <= 4.0 * float(error) + 0.5
    assert line_of(found, "At the end of its range") == "At the end of its range: rate (a wider range may be better)"
    noise = np.sqrt(len(found.y) / (1.0 / found.policy.observations.noise_variance).sum())
    shown = numbers(line_of(found, "Learned noise of a measurement"))
    np.testing.assert_allclose(shown, [noise, 100.0 * noise / found.y.std()], rtol=0.1)
    assert line_of(found, "Check: of ").endswith(" are in the model's 95 % intervals")
    calls.clear()
    other = sb.minimize(loss, sb.MeanOnly(sb.SearchSpace(SPACE), minimize=True), 14)
    assert len(other.failed) == 2
    assert not [line for line in lines(other) if line.startswith("Check")]  # its model invents values of failures
    room = numbers(line_of(found, "Another setting may be better by up to "))[0]
    assert room == pytest.approx(sb.RegretBelow(1.0).bound(found.policy), rel=0.06)


def test_a_constant_is_not_among_what_hardly_matters():
    space = {"x": sb.Real(0.0, 1.0), "y": sb.Real(0.0, 1.0), "device": sb.Categorical(["cpu"])}
    found = sb.minimize(lambda setting: setting["x"], space, 14)
    assert line_of(found, "What matters").endswith("; hardly: y")


def test_a_lucky_measurement_is_called_so():
    """Of noise 1 and prior variance 1: after one value of 8, 4 is expected."""
    values = {0: 0.5, 1: 8.0, 2: 0.1}
    policy = sb.GPUCB(sb.Arms(3), sb.Covariance(np.eye(3)), noise=1.0)
    policy.tell([0, 1, 2], list(values.values()))
    found = sb.TuningResult(policy.best(), policy, np.array([0, 1, 2]), np.array(list(values.values())))
    lucky = "Best measured value: 8 in evaluation 2 of 3, at the recommended setting: partly luck"
    assert lucky in lines(found)
    assert "Expected value there: 4.00 ± 0.71, 95 % interval 2.61 to 5.39" in lines(found)
    policy.tell([1] * 20, [8.0] * 20)
    again = sb.TuningResult(policy.best(), policy, np.full(20, 1), np.full(20, 8.0))
    assert "Best measured value: 8 in evaluation 1 of 20, at the recommended setting" in lines(again)


def test_intervals_that_do_not_hold_are_called_too_narrow():
    """A smooth model of values that are nothing but noise."""
    policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(1.0), noise=0.01, regularization=1e-4)
    x, y = np.linspace(0, 1, 20)[:, None], np.random.default_rng(0).standard_normal(20)
    with pytest.warns(sb.ContradictedModel):
        policy.tell(x, y)
    found = sb.TuningResult(policy.best(), policy, x, y)
    assert line_of(found, "Check: of 20 values left out one by one").endswith("95 % intervals: they are too narrow")


def test_what_is_not_known_is_left_out():
    calls = []

    def interrupted(setting):
        calls.append(setting)
        raise RuntimeError("no") if len(calls) < 2 else KeyboardInterrupt

    failed = sb.minimize(interrupted, SPACE, 9, parallel=1, retries=0)
    heading, nothing = lines(failed)
    assert nothing == "Nothing was measured: there is no recommendation"
    assert heading.startswith("Smaller is better; 1 evaluation (1 failed); evaluations took ")
    assert heading.endswith("; interrupted")
    one = sb.maximize(lambda x: 3.0, sb.Box([[0, 1]]), 1)
    assert lines(one)[2:] == [
        "Best measured value: 3 in evaluation 1 of 1, at the recommended setting",
        "How sure this is cannot be said before 10 different settings are measured",
    ]
    uniform = sb.maximize(lambda x: x[0], sb.RandomSearch(sb.Box([[0, 1]])), 12)
    assert [line.split(":")[0].split(";")[0] for line in lines(uniform)] == [
        "Larger is better", "Recommended", "Best measured value"
    ]  # fmt: skip
    constant = sb.minimize(lambda setting: 1.0, SPACE, 12)
    assert "No parameter makes a difference, as far as the model knows" in lines(constant)


def test_a_summary_changes_nothing():
    def tuned(summarised):
        policy = sb.GPEI(sb.SearchSpace(SPACE), minimize=True)
        found = sb.minimize(lambda setting: setting["rate"] + setting["depth"], policy, 14)
        if summarised:
            found.summary()
        return [policy.ask() for _ in range(3)]

    assert tuned(True) == tuned(False)
