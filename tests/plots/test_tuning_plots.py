"""Pictures of a tuning result: what is drawn is what was measured, and what the posterior says."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

import scalable_bandits as sb
from scalable_bandits import plots

mpl.use("agg")

SPACE = sb.SearchSpace(
    {
        "rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 6),
        "kind_$x$_of_a_very_long_name_indeed": sb.Categorical(["a", "$b$", None]),
        "size": sb.Ordinal([16, 32, 64]),
        "drop": sb.Boolean(),
        "share": sb.Real(0.0, 0.5, when={"drop": True}),
    }
)
OPTIONS = {"noise": 0.1, "regularization": 0.01, "candidates": 32}


def loss(setting):
    return (np.log10(setting["rate"]) + 2.0) ** 2 + abs(setting["depth"] - 4) / 4 + setting.get("share", 0.6)


def tuned(space=SPACE, function=loss, minimize=True, budget=12):
    policy = sb.GPEI(space, sb.RBF(0.8), minimize=minimize, **OPTIONS)
    return (sb.minimize if minimize else sb.maximize)(function, policy, budget)


@pytest.fixture(scope="module")
def found():
    return tuned()


def lines(ax, label):
    return [line for line in ax.lines if line.get_label() == label]


@pytest.mark.parametrize("minimize", [True, False])
def test_history_has_the_values_and_the_best_so_far(minimize):
    sign = 1.0 if minimize else -1.0
    found = tuned(function=lambda setting: sign * loss(setting), minimize=minimize)
    ax = plots.history(found, Figure().subplots())
    (measured,), (best,) = lines(ax, "measured"), lines(ax, "best so far")
    np.testing.assert_array_equal(measured.get_xdata(), np.arange(1, 13))
    np.testing.assert_array_equal(measured.get_ydata(), found.y)
    so_far = np.minimum if minimize else np.maximum
    np.testing.assert_array_equal(best.get_ydata(), so_far.accumulate(found.y))
    (expected,) = lines(ax, "recommended: expected value")
    np.testing.assert_allclose(expected.get_ydata(), found.value)
    assert ax.get_ylabel() == f"value ({'smaller' if minimize else 'larger'} is better)"
    assert not lines(ax, "failed")


@pytest.mark.parametrize("count", [1, 2, 12])
def test_evaluations_are_numbered_by_whole_numbers(count):
    ax = plots.history(tuned(budget=count), Figure().subplots())
    assert {float(tick).is_integer() for tick in ax.get_xticks()} == {True}


def test_history_shows_values_that_would_hide_the_others_at_its_edge():
    values = iter([3.0, 1.0, 2.0, 4.0, 1e6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1])
    found = tuned(function=lambda setting: -next(values), minimize=False)
    ax = plots.history(found, Figure().subplots())
    (far,) = lines(ax, "measured, off the scale")
    np.testing.assert_array_equal(far.get_xdata(), [5])
    assert far.get_marker() == "v"
    assert ax.get_ylim()[0] > -20.0
    assert ax.get_yscale() == "linear"
    values = iter([3.0, 1.0, 2.0, 4.0, 1e6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1])
    positive = tuned(function=lambda setting: next(values))
    assert plots.history(positive, Figure().subplots()).get_yscale() == "log"
    assert plots.history(positive, Figure().subplots(), log=False).get_yscale() == "linear"
    with pytest.raises(ValueError, match=r"^log: got True; allowed: False or None"):
        plots.history(found, Figure().subplots(), log=True)


def test_ticks_of_values_that_differ_little_have_all_their_digits():
    found = sb.minimize(lambda x: 40_000.0 + 1e-3 * x[0] ** 2, sb.Box([[0, 1]]), 6)
    ax = plots.history(found, Figure().subplots())
    ax.figure.draw_without_rendering()
    inside = [text.get_text() for text in ax.get_yticklabels()]
    assert not ax.yaxis.get_offset_text().get_text()
    assert all(39_999 < float(text) < 40_001 for text in inside)


def test_slices_have_a_panel_for_each_parameter(found):
    figure = Figure(layout="constrained")
    axes = plots.slices(found, ax=figure.subplots())
    numbers = sb.analysis.slices(found)
    assert len(axes) == len(numbers) == len(found.best)
    by_name = {one.axis.name: (ax, one) for ax, one in zip(axes, numbers, strict=True)}
    ax, one = by_name["rate"]
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "rate")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), one.numbers)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), one.mean)
    ax, one = by_name["depth"]
    assert ax.lines[0].get_drawstyle() == "steps-mid"
    ax, one = by_name["kind_$x$_of_a_very_long_name_indeed"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", r"\$b\$", "None"]
    (bars,) = ax.containers
    np.testing.assert_array_equal(bars[0].get_ydata(), one.mean)
    ends = np.array([segment[:, 1] for segment in bars[2][0].get_segments()])
    np.testing.assert_allclose(ends, one.mean[:, None] + 1.959964 * one.std[:, None] * [-1.0, 1.0])
    figure.canvas.draw()


@pytest.mark.parametrize("mean", [0.0, -50.0])
def test_slices_below_a_logarithmic_axis(mean):
    """Of positive values the posterior may be negative: star, mean and band are then at the end of the axis."""
    policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.1), prior_mean=mean, minimize=True)
    policy.tell([[0.2], [0.4], [0.9]], [0.01, 0.02, 30.0])
    figure = Figure()
    (ax,) = plots.slices(policy, ax=figure.subplots())
    low, high = ax.get_ylim()
    line, star = ax.lines
    assert (ax.get_yscale(), low < high, low > 0.0) == ("log", True, True)
    assert line.get_ydata().min() == low <= star.get_ydata()[0] < 0.02
    (band,) = [each for each in ax.collections if not isinstance(each, PathCollection)]
    assert band.get_paths()[0].vertices[:, 1].min() == low
    figure.canvas.draw()


def test_dots_fade_with_their_distance_from_a_slice():
    space = sb.Box([[0, 1], [0, 10]])
    policy = sb.GPEI(space, sb.RBF((0.3, 3.0)), noise=0.1, regularization=0.01)
    policy.tell([[0.5, 5.0], [0.2, 5.0], [0.8, 6.0], [0.1, 10.0]], [2.0, 1.0, 1.5, 0.0])
    first, _ = plots.slices(policy, [0.5, 5.0], ax=Figure().subplots())
    (dots,) = [each for each in first.collections if isinstance(each, PathCollection)]
    shown = dict(zip(dots.get_offsets()[:, 0].tolist(), dots.get_facecolors()[:, 3].tolist(), strict=True))
    assert shown[0.5] == shown[0.2] == 1.0
    assert 0.0 < shown[0.8] < 1.0
    assert 0.1 not in shown


def test_what_is_not_allowed_is_left_out_of_a_slice():
    space = sb.SearchSpace({"a": sb.Integer(1, 6), "b": sb.Integer(1, 6)}, where=lambda s: s["a"] + s["b"] < 8)
    policy = sb.GPEI(space, sb.RBF(0.5), noise=0.1, regularization=0.01)
    policy.tell({"a": 2, "b": 3}, 1.0)
    first, second = plots.slices(policy, ax=Figure().subplots())
    assert np.isnan(first.lines[0].get_ydata()).tolist() == [False] * 4 + [True] * 2
    assert np.isnan(second.lines[0].get_ydata()).tolist() == [False] * 5 + [True]


def test_importance_is_sorted_and_is_that_of_the_analysis(found):
    shares = sb.analysis.importance(found)
    ax = plots.importance(found, Figure().subplots())
    order = np.argsort(-shares.total, kind="stable")
    total, alone = (bars for bars in ax.containers if hasattr(bars, "patches"))
    np.testing.assert_allclose([bar.get_width() for bar in total], shares.total[order])
    np.testing.assert_allclose([bar.get_width() for bar in alone], np.maximum(shares.first[order], 0.0))
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == plots.style.plain(shares.names[order[0]])
    same = plots.importance(shares, Figure().subplots())
    assert [label.get_text() for label in same.get_yticklabels()] == names


def test_parallel_has_a_line_for_each_evaluation(found):
    ax = plots.parallel(found, Figure().subplots())
    (collection,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    segments = np.array(collection.get_segments())
    assert segments.shape == (12, 7, 2)
    np.testing.assert_array_equal(segments[:, :, 0], np.tile(np.arange(7.0), (12, 1)))
    order = np.argsort(-found.y, kind="stable")  # the best is drawn last, and ends on top
    rate = [np.log(found.x[i]["rate"] / 1e-4) / np.log(1000.0) for i in order]
    np.testing.assert_allclose(segments[:, 0, 1], rate)
    drop = np.array([found.x[i]["drop"] for i in order])
    np.testing.assert_allclose(segments[:, 4, 1], drop)
    assert (segments[~drop, 5, 1] < 0.0).all()
    assert (segments[drop, 5, 1] >= 0.0).all()
    assert segments[-1, 6, 1] == 1.0
    assert (np.diff(segments[:, 6, 1]) >= 0.0).all()
    texts = [text.get_text() for text in ax.texts]
    assert {"16", "64", r"\$b\$", "none", "True"} <= set(texts)


@pytest.mark.slow
def test_long_labels_and_a_constant_mean():
    """Labels of categories end before the next axis; an empty figure says why it is."""
    kinds = ["stochastic gradient descent with momentum", "adam with decoupled weight decay", "lion"]
    space = {"kind": sb.Categorical(kinds), "rate": sb.Real(0.0, 1.0)}
    found = sb.minimize(lambda setting: setting["rate"], space, 1)
    ax = plots.parallel(found)
    ax.figure.canvas.draw()
    ends = {text.get_text(): text.get_window_extent().x1 for text in ax.texts}
    labels = [label for label in ends if label.startswith(("stochastic", "adam"))]
    assert len(labels) == 2
    assert max(ends[label] for label in labels) < ax.transData.transform((1.0, 0.0))[0]
    assert "the posterior mean is the same everywhere" in plots.importance(found).get_xlabel()


@pytest.mark.parametrize("draw", [plots.history, plots.slices, plots.importance, plots.parallel])
@pytest.mark.parametrize(
    "space",
    [
        SPACE,
        sb.SearchSpace({"only": sb.Integer(1, 3)}),
        sb.Box([[0, 1]]),
        sb.Box([[0, 1]] * 13),
        sb.Grid([[0, 1], [0, 9]], (5, 300)),
    ],
    ids=["mixed", "single", "line", "many", "grid"],
)
@pytest.mark.sampled(5)
def test_pictures_are_drawn_without_warnings(draw, space):
    """Warnings are errors in these tests; with pyplot, as a user has it."""
    import matplotlib.pyplot as plt

    found = tuned(space, lambda x: 1.0, budget=3)
    drawn = draw(found)
    figure = np.ravel(drawn)[0].figure
    figure.canvas.draw()
    assert figure.number in plt.get_fignums()


def test_pictures_of_arms_and_points():
    options = {"noise": 0.1, "regularization": 0.01, "minimize": True}
    arms = sb.minimize(float, sb.GPEI(sb.Arms(5), sb.Covariance(np.eye(5)), **options), 6)
    points = sb.Points(np.random.default_rng(0).random((20, 2)))
    listed = sb.minimize(lambda x: x[0], sb.GPEI(points, sb.RBF(0.3), **options), 6)
    for found in (arms, listed):
        for draw in (plots.history, plots.parallel):
            draw(found, Figure().subplots()).figure.canvas.draw()
        plots.slices(found, ax=(figure := Figure()).subplots())
        figure.canvas.draw()
        with pytest.raises(ValueError, match=r"^found: got .*; allowed: a policy on a box, a grid or a search space"):
            plots.importance(found, Figure().subplots())


def test_other_things_are_refused():
    for draw in (plots.history, plots.parallel):
        with pytest.raises(ValueError, match=r"^found: got 3; allowed: a result of maximize or minimize"):
            draw(3)
    with pytest.raises(ValueError, match=r"^found: got 3; allowed: a policy, or a result"):
        plots.slices(3)
    single = sb.GPEI(sb.SearchSpace({"only": sb.Categorical(["a"])}), sb.RBF(0.3))
    with pytest.raises(ValueError, match=r"^found: got .*; allowed: a space with a parameter of several values"):
        plots.slices(single)
