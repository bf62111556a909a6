"""The picture of a partition: what is drawn is what the cover says."""

import json

import numpy as np
import pytest
import scipy.stats
import xarray
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import scalable_bandits as sb
from scalable_bandits import plots
from scalable_bandits.plots import style


def played(space):
    policy = sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5), horizon=100, rkhs_norm=1.0, noise=0.1)
    function = sb.Benchmark("camel", space, sb.GaussianNoise(0.1), scaled=True)
    return policy, function, sb.simulate(policy, function, 400).candidate


SPACES = {
    "grid": sb.Grid([[-3, 3], [-2, 2]], (13, 17)),
    "points": sb.Points(np.random.default_rng(0).uniform([-3, -2], [3, 2], (200, 2))),
}


@pytest.mark.parametrize("name", SPACES)
def test_cells_and_plays_are_drawn(name):
    space = SPACES[name]
    policy, function, candidates = played(space)
    ax = plots.partition(policy, function, candidates, Figure().subplots())
    assert ax.get_xlabel() == "$x_1$"
    leaves = [element for element in policy.cover if element.split is None]
    drawn = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    boxes = sorted((*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in drawn)
    expected = sorted((*element.lower, *(element.upper - element.lower)) for element in leaves)
    np.testing.assert_allclose(boxes, expected)
    shades = {(*patch.get_xy(), patch.get_width()): patch.get_facecolor()[3] for patch in drawn}
    by_depth = {}
    for element in leaves:
        shade = shades[(*element.lower.tolist(), float(element.upper[0] - element.lower[0]))]
        by_depth.setdefault(element.depth if element.observations else -1, set()).add(shade)
    assert len(by_depth) >= 2
    assert all(len(shade) == 1 for shade in by_depth.values())
    ordered = [by_depth[depth].pop() for depth in sorted(by_depth)]
    assert ordered == sorted(set(ordered))  # the deeper, the stronger
    dots = ax.collections[-1]
    distinct, counts = np.unique(candidates, return_counts=True)
    np.testing.assert_allclose(dots.get_offsets(), space.points(distinct))
    assert np.argmax(dots.get_sizes()) == np.argmax(counts)


def test_the_function_is_drawn_the_right_way_round():
    space = sb.Grid([[0, 1], [0, 2]], (5, 9))
    policy = sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5))
    values = space.points() @ [1.0, 10.0]
    ax = plots.partition(policy, sb.TableEnvironment(space, values), ax=Figure().subplots())
    (image,) = ax.images
    array = np.asarray(image.get_array())
    assert array.shape == (9, 5)  # rows along the second coordinate, from below
    assert image.origin == "lower"
    np.testing.assert_allclose(array[3], values.reshape(5, 9)[:, 3])
    np.testing.assert_allclose(image.get_extent(), (-0.125, 1.125, -0.125, 2.125))
    assert not ax.patches  # nothing was told


def test_other_dimensions_are_refused():
    space = sb.Grid([[0, 1]], 9)
    policy = sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5))
    with pytest.raises(ValueError, match=r"^policy: got '1 dimensions'"):
        plots.partition(policy, sb.TableEnvironment(space, np.zeros(9)))


LINE, KERNEL = sb.Grid([[0, 1]], 30), sb.Matern(0.2, nu=2.5)
OPTIONS = {"noise": 0.1, "regularization": 0.01}


def test_runs_are_drawn_whole_with_their_exponent():
    policy = sb.IGPUCB(LINE, KERNEL, **OPTIONS)
    run = sb.simulate(policy, sb.GPSample(LINE, KERNEL, sb.GaussianNoise(0.1)), 300)
    ax = plots.regret_curves({"a $\\none$": run}, ax=Figure().subplots(), log=True, fit=True)
    curve = max(ax.lines, key=lambda line: len(line.get_xdata()))
    np.testing.assert_array_equal(curve.get_xdata(), np.arange(1, 301))
    np.testing.assert_allclose(curve.get_ydata(), run.cumulative_regret)
    power = sb.analysis.exponent(np.arange(1, 301), run.cumulative_regret[None]).exponent
    assert curve.get_label() == f"a \\$\\none\\$: t^{power:.2f}"
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def study(replicates, horizon=60, cases=("a", "b", "c")):
    """Two policies whose regrets differ from replicate to replicate by a factor."""
    sizes = {"case": len(cases), "policy": 2, "replicate": replicates, "round": horizon}
    rng = np.random.default_rng(0)
    regret = rng.exponential(2.0, tuple(sizes.values())) * 3.0 ** rng.standard_normal((len(cases), 2, replicates, 1))
    labels = {"case": list(cases), "policy": ["one", "two"], "round": np.arange(1, horizon + 1)}
    attributes = {"title": "A study", "unit": "units of y", "study": "made", "measure": "cumulative"}
    return xarray.Dataset({"regret": (tuple(sizes), regret)}, labels, attributes)


def test_few_replicates_are_drawn_one_by_one():
    """A band of Student's t with one degree of freedom would be 12.7 standard errors wide."""
    made = study(3)
    ax = plots.regret_curves(made, "b", Figure().subplots())
    assert not ax.collections
    thin = [line.get_ydata() for line in ax.lines if line.get_linewidth() < 1]
    np.testing.assert_allclose(thin, made["regret"].sel(case="b").values.cumsum(axis=-1).reshape(6, -1))
    assert ax.get_legend_handles_labels()[1] == ["one", "two"]


@pytest.mark.parametrize("log", [False, True])
def test_a_band_is_the_students_interval_and_stays_above_zero_on_logarithmic_axes(log):
    made = study(5)
    ax = plots.regret_curves(made, "a", Figure().subplots(), log=log)
    curves = made["regret"].sel(case="a").values.cumsum(axis=-1)  # (policy, replicate, round)
    mean = curves.mean(axis=1)
    half = scipy.stats.t.ppf(0.975, 4) * curves.std(axis=1, ddof=1) / np.sqrt(5)
    assert (half > mean).any()  # a band of mean - half would leave the logarithmic picture
    bands = [collection.get_paths()[0].vertices for collection in ax.collections]
    assert len(bands) == 2
    for band, m, h in zip(bands, mean, half, strict=True):
        low, high = (m * np.exp(-h / m), m * np.exp(h / m)) if log else (m - h, m + h)
        for t in (1, 30, 60):
            at = band[band[:, 0] == t, 1]
            np.testing.assert_allclose((at.min(), at.max()), (low[t - 1], high[t - 1]))


@pytest.mark.parametrize("measure", ["cumulative", "average"])
def test_the_picture_of_a_record_is_that_of_the_result(measure):
    """The same lines and bands at the rounds that the record has, in the colours that are asked for."""
    made, looks = study(5, horizon=200), {"two": {"color": "black"}}
    curves = [{**one._asdict(), "x": one.x.tolist()} for one in sb.analysis.mean_curves(made)]
    record = json.loads(json.dumps({**made.attrs, "curves": curves}, default=np.ndarray.tolist))
    few, every = (
        plots.regret_curves(each, "b", Figure().subplots(), measure, looks=looks, log=True) for each in (record, made)
    )
    assert (few.get_ylabel(), few.get_yscale()) == (every.get_ylabel(), every.get_yscale())
    np.testing.assert_allclose((*few.get_xlim(), few.get_ylim()[0]), (*every.get_xlim(), every.get_ylim()[0]))
    for one, other in zip(few.lines, every.lines, strict=True):
        at = np.isin(other.get_xdata(), one.get_xdata())
        np.testing.assert_allclose(one.get_ydata(), other.get_ydata()[at])
        assert (one.get_label(), one.get_color()) == (other.get_label(), other.get_color())
        assert 50 < len(one.get_xdata()) < 75
    for one, other in zip(few.collections, every.collections, strict=True):
        corners, all_corners = one.get_paths()[0].vertices, other.get_paths()[0].vertices
        assert all(np.isclose(all_corners, corner).all(axis=1).any() for corner in corners)
    assert few.lines[1].get_color() == "black"
    with pytest.raises(ValueError, match=r"^measure: got 'best'; allowed: that of the record: 'cumulative'$"):
        plots.regret_curves(record, "b", measure="best")


def test_a_study_of_one_round_shows_its_points():
    ax = plots.regret_curves(study(4, horizon=1), "a", Figure().subplots())
    low, high = ax.get_xlim()
    assert all(low < line.get_xdata()[0] < high and line.get_marker() == "o" for line in ax.lines)


def test_a_study_has_one_title_and_one_legend():
    """On a new figure; on given axes, whose figure may have others, there is a legend only."""
    boxes = plots.study_panels(study(4))
    figure = boxes[0].figure
    assert [ax.get_title() for ax in boxes] == ["a", "b", "c"]
    assert figure.get_suptitle() == "A study\nmean of 4 replicates, 95 % confidence band"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    assert plots.study_panels(study(2))[0].figure.get_suptitle().endswith("each a thin line")
    given = plots.study_panels(study(4), Figure().subplots(1, 3))
    assert [ax.get_legend() is not None for ax in given] == [True, False, False]
    assert not given[0].figure.get_suptitle()


def test_plays_do_not_hide_the_colours_of_points():
    space = SPACES["points"]
    policy = sb.GPUCB(space, sb.RBF(1.0), **OPTIONS)
    run = sb.simulate(policy, sb.GPSample(space, sb.RBF(1.0), sb.GaussianNoise(0.1)), 20)
    rings = plots.posterior(policy, run=run, ax=Figure().subplots()).collections[-1]
    np.testing.assert_allclose(rings.get_offsets(), space.points(np.unique(run.candidate)))
    assert rings.get_facecolor().size == 0


def test_the_posterior_in_one_dimension_is_the_policys():
    policy, function = sb.IGPUCB(LINE, KERNEL, **OPTIONS), sb.GPSample(LINE, KERNEL, sb.GaussianNoise(0.1))
    run = sb.simulate(policy, function, 9)
    ax = plots.posterior(policy, function, run, Figure().subplots())
    lines = {line.get_label(): line for line in ax.lines}
    x = lines["mean"].get_xdata()
    mean, std = policy.posterior(x[:, None])
    np.testing.assert_allclose(lines["mean"].get_ydata(), mean)
    np.testing.assert_allclose(lines["confidence width"].get_ydata(), mean + policy.width * std)
    np.testing.assert_allclose(lines["f"].get_ydata(), function.table())
    np.testing.assert_allclose(lines["observations"].get_ydata(), run.y)
    star = plots.index(policy, run, Figure().subplots()).lines[1]
    assert abs(float(star.get_xdata()[0]) - float(policy.ask()[0])) < 1 / 29  # between two candidates


@pytest.mark.parametrize("kind", [sb.IGPUCB, sb.GPTS, sb.BBKB, sb.PiGPUCB, sb.RandomSearch, sb.RGPUCB])
@pytest.mark.sampled(3)
def test_a_policy_told_by_hand_shows_its_observations(kind):
    memory = {"memory": 9} if kind is sb.RGPUCB else {}
    policy = kind(LINE, KERNEL, **OPTIONS, **memory)
    assert "observations" not in [line.get_label() for line in plots.posterior(policy, ax=Figure().subplots()).lines]
    x, y = LINE.points([3, 20, 3]), [1.0, 2.0, 2.0]
    policy.tell(x, y)
    found = policy.observations
    np.testing.assert_allclose(found.x, x[:2])
    np.testing.assert_allclose(found.y, [1.5, 2.0])
    np.testing.assert_allclose(found.noise_variance, policy.regularization / np.array([2.0, 1.0]))
    lines = {line.get_label(): line for line in plots.posterior(policy, ax=Figure().subplots()).lines}
    np.testing.assert_allclose(lines["observations"].get_xydata(), np.column_stack([x[:2, 0], [1.5, 2.0]]))


@pytest.mark.parametrize(
    "policy", [sb.IGPUCB(sb.Grid([[0, 1], [0, 2]], 7), sb.RBF(0.5), **OPTIONS), sb.GPEI(sb.Box([[0, 1], [0, 2]]))]
)
def test_a_policy_told_by_hand_shows_where_it_was_told_in_two_dimensions(policy):
    policy.tell([[0.0, 2.0], [1.0, 0.0], [1.0, 0.0]], [5.0, -5.0, -4.0])
    dots = plots.posterior(policy, ax=Figure().subplots()).collections[-1]
    np.testing.assert_allclose(dots.get_offsets(), [[0.0, 2.0], [1.0, 0.0]])
    assert dots.get_sizes()[0] < dots.get_sizes()[1]


def test_arms_told_by_hand_are_drawn_and_a_policy_that_forgets_has_none_to_draw():
    policy = sb.GPUCB(sb.Arms(4), sb.Covariance(np.eye(4)), noise=0.1)
    policy.tell([2, 2], [1.0, 3.0])
    dots = plots.posterior(policy, ax=Figure().subplots()).lines[-1]
    np.testing.assert_allclose(dots.get_xydata(), [[2.0, 2.0]])
    forgetting = sb.SWGPUCB(LINE, KERNEL, memory=5, **OPTIONS)
    forgetting.tell([0.0], 1.0)
    assert forgetting.observations is None
    plots.posterior(forgetting, ax=Figure().subplots())


@pytest.mark.parametrize("space", [sb.Grid([[0, 1], [0, 2]], 7), sb.Box([[0, 1], [0, 2]])], ids=["grid", "box"])
def test_the_posterior_in_two_dimensions_is_the_right_way_round(space):
    policy = sb.GPEI(space, sb.RBF(0.5), **OPTIONS)
    policy.tell([[0.0, 2.0], [1.0, 0.0]] if isinstance(space, sb.Grid) else [[0.1, 1.9], [0.9, 0.1]], [5.0, -5.0])
    for draw in (plots.posterior, plots.index):
        mesh = draw(policy, ax=Figure().subplots()).collections[0]
        if draw is plots.posterior:
            values = mesh.get_array().reshape(90, 90)  # rows along the second coordinate
            assert values[-1, 0] > 4.0
            assert values[0, -1] < -4.0
            corners = mesh.get_coordinates().reshape(-1, 2)
            np.testing.assert_allclose((corners.min(axis=0), corners.max(axis=0)), ([0, 0], [1, 2]))


def test_three_dimensions_are_refused():
    policy = sb.GPEI(sb.Grid([[0, 1]] * 3, 3), sb.RBF(0.5), **OPTIONS)
    for draw in (plots.posterior, plots.index):
        with pytest.raises(ValueError, match=r"^policy: got '3 dimensions'"):
            draw(policy)


def test_a_timeline_has_a_cross_at_each_rejection():
    priors = [sb.Prior("right", KERNEL), sb.Prior("high", KERNEL, mean=2.0), sb.Prior("absurd", KERNEL, mean=40.0)]
    policy = sb.PEGPUCB(LINE, priors, **OPTIONS)
    run = sb.simulate(policy, sb.GPSample(LINE, KERNEL, sb.GaussianNoise(0.1), seed=1), 50)
    ax = plots.prior_timeline(policy, run, Figure().subplots())
    names = [prior.name for prior in priors]
    crosses = {names[int(line.get_ydata()[0])]: line.get_xdata()[0] - 0.5 for line in ax.lines}
    assert crosses == {name: rejection.round for name, rejection in policy.rejections.items()}
    assert "absurd" in crosses
    for row, name in enumerate(names):  # the bars of a prior's turns are as long as they were many
        bars = [b for b in ax.patches if abs(b.get_y() + b.get_height() / 2 - row) < 0.1]
        assert sum(bar.get_width() for bar in bars[1:]) == policy.plays[name]
    with pytest.raises(ValueError, match=r"^policy: got 'IGPUCB'; allowed: a policy with several priors"):
        plots.prior_timeline(sb.IGPUCB(LINE, KERNEL))


def test_times_and_coverage_are_drawn():
    times = sb.analysis.Times(np.array([1, 10]), np.array([2e-3, 1e-3]))
    (line,) = plots.time_per_round(times, ax=Figure().subplots()).lines
    np.testing.assert_allclose(line.get_ydata(), [2.0, 1.0])  # ms
    found = sb.analysis.Coverage(np.array([1, 10]), np.array([1.0, 0.9]), np.array([0.8, 0.7]))
    ax = plots.coverage({"one": found, "two": found}, Figure().subplots())
    with pytest.raises(ValueError, match=r"allowed: a Coverage, or several by their labels$"):
        plots.coverage({"one": 1})
    drawn = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 2 and line.get_xdata()[1] == 10]
    np.testing.assert_allclose(drawn, [[1.0, 0.9], [0.8, 0.7]] * 2)


def labels(axis):
    """What stands at the ticks that are in sight."""
    FigureCanvasAgg(axis.get_figure()).draw()
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]


@pytest.mark.parametrize(
    ("low", "high", "shown", "digits"),
    [
        (9, 61, {"10", "20", "60"}, True),
        (1, 20_000, {"1", "100", "10,000"}, True),
        (0.03, 0.3, {"0.1"}, True),
        (1e-9, 1e9, {"$\\mathdefault{10^{-2}}$", "$\\mathdefault{10^{6}}$"}, False),
    ],
)
@pytest.mark.sampled(2)
def test_logarithmic_ticks_are_plain_numbers(low, high, shown, digits):
    """20 and 10,000, not 2 x 10^1; powers where numbers have many zeros. Each stands where it says."""
    ax = Figure().subplots()
    ax.plot([low, high], [low, high])
    style.logarithmic(ax)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_view_interval(low, high, ignore=True)
        texts = labels(axis)
        assert shown <= set(texts)
        if digits:
            assert all(low <= float(text.replace(",", "")) <= high for text in texts)
        else:
            assert all("mathdefault" in text for text in texts)


def test_only_the_rounds_are_logarithmic_where_asked():
    ax = Figure().subplots()
    style.logarithmic(ax, "x")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")


def test_a_legend_of_arms_is_above_their_intervals():
    """Twelve intervals from side to side leave no other place."""
    policy = sb.GPUCB(sb.Arms(12), sb.Covariance(np.eye(12)), noise=0.1)
    ax = plots.posterior(policy, ax=Figure(figsize=(6.4, 4.2), layout="constrained").subplots())
    FigureCanvasAgg(ax.figure).draw()
    above = ax.transData.transform([(0.0, 1.96)])[0, 1]
    assert ax.get_legend().get_window_extent().y0 > above


def test_surfaces_have_units():
    """And say what the contours are, if there are any."""
    space = sb.Grid([[0, 1], [0, 1]], 5)
    policy = sb.IGPUCB(space, sb.RBF(0.3))
    plain = plots.posterior(policy, ax=Figure().subplots())
    both = plots.posterior(policy, sb.Benchmark("cosines", space), ax=Figure().subplots(), of="deviation")
    assert plain.figure.axes[1].get_ylabel() == "posterior mean (units of y)"
    assert both.figure.axes[1].get_ylabel() == "posterior deviation (units of y)\nwhite lines: contours of f"
    assert plots.index(policy, ax=Figure().subplots()).figure.axes[1].get_ylabel() == "index (units of y)"


def test_curves_differ_in_colour_or_style():
    """Also where there are more than colours."""
    looks = [style.line(number) for number in range(16)]
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 16


@pytest.mark.parametrize("names", [("a", "b"), tuple(f"lengthscale {0.1 * i:.4g}" for i in range(1, 9))])
def test_long_names_of_priors_do_not_cover_each_other(names):
    shares = np.full((1, 1, 2, len(names)), 5.0)
    result = xarray.Dataset(
        {"plays": (("case", "policy", "replicate", "prior"), shares)},
        coords={"case": ["c"], "policy": ["LB-GP-UCB"], "prior": list(names)},
    )
    figure = Figure(figsize=(5.2, 3.7), layout="constrained")
    ax = plots.prior_histogram(result, ax=figure.subplots())
    FigureCanvasAgg(figure).draw()
    renderer = figure.canvas.get_renderer()
    labels = ax.get_xticklabels()
    assert [label.get_text() for label in labels] == list(names)
    ends = [label.get_window_extent(renderer).x1 for label in labels]
    heights = [label.get_window_extent(renderer).height for label in labels]
    slanted = len(names) > 2
    assert all((height > 40) == slanted for height in heights)
    assert all(np.diff(ends) > 10)
