"""Where pictures are drawn: on new figures, on given axes; one after another, as scripts and notebooks do."""

import inspect

import matplotlib as mpl
import numpy as np
import pytest
import xarray
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import scalable_bandits as sb
from scalable_bandits import plots
from scalable_bandits.report.writing import save, write_report

mpl.use("agg")

LINE, SQUARE = sb.Grid([[0, 1]], 12), sb.Grid([[0, 1], [0, 1]], 8)
KERNEL, OPTIONS = sb.Matern(0.3, nu=1.5), {"noise": 0.1, "regularization": 0.01}
SPACE = sb.SearchSpace(
    {
        "learning_rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 6),
        "criterion_of_the_split_in_a_tree": sb.Categorical(["gini", "entropy", "log_loss"]),
        "bootstrap": sb.Boolean(),
    }
)
TABLES = {
    "name": "small", "title": "A small study", "horizon": [5, 20], "replicates": 2, "timed": True,
    "environments": {case: {"type": "GPSample", "space": LINE, "kernel": KERNEL} for case in ("rough", "rougher")},
    "policies": {"UCB": {"type": "IGPUCB"}, "random": {"type": "RandomSearch"}},
}  # fmt: skip


def loss(setting):
    return (np.log10(setting["learning_rate"]) + 2.0) ** 2 + abs(setting["depth"] - 4) / 4


@pytest.fixture(scope="module")
def study():
    return sb.Study.from_dict(TABLES)


@pytest.fixture(scope="module")
def calls(study):
    """Arguments of every public function."""
    policy = sb.GPEI(LINE, KERNEL, **OPTIONS)
    run = sb.simulate(policy, sb.GPSample(LINE, KERNEL, sb.GaussianNoise(0.1)), 9)
    unsure = sb.PEGPUCB(LINE, [sb.Prior("low", KERNEL), sb.Prior("high", KERNEL, mean=9.0)], **OPTIONS)
    unsure.tell([0.0], 1.0)
    cells, function = sb.PiGPUCB(SQUARE, KERNEL, horizon=30), sb.Benchmark("cosines", SQUARE)
    sb.simulate(cells, function, 30)
    found = sb.minimize(loss, sb.GPEI(SPACE, sb.RBF(0.8), candidates=32, **OPTIONS), 9)
    front = sb.minimize(lambda x: {"a": x[0], "b": (1.0 - x[0]) ** 2}, sb.Box([[0, 1]]), 11, objectives=["a", "b"])
    shares = (("case", "policy", "replicate", "prior"), np.ones((1, 1, 2, 3)))
    priors = xarray.Dataset({"plays": shares}, {"case": ["c"], "policy": ["p"], "prior": list("abc")})
    result = study.run()
    whole = result.isel(policy=[0]).assign_attrs(title="Growth")
    return {
        "coverage": (sb.analysis.Coverage(np.array([1, 9]), np.array([1.0, 0.9]), np.array([0.8, 0.7])),),
        "cover_panels": ({"a": plots.Played(cells, function, None), "b": plots.Played(cells, function, None)}, "Cover"),
        "front": (front,),
        "growth_panels": (whole, lambda case, t: {"regret": t**0.5}),
        "history": (found,),
        "importance": (found,),
        "index": (policy, run),
        "parallel": (found,),
        "partition": (cells, function),
        "posterior": (policy, None, run),
        "prior_histogram": (priors,),
        "prior_timeline": (unsure,),
        "regret_curves": ({"GP-EI": run},),
        "scaling": (result, "regret", "round", "rough"),
        "scaling_panels": (result,),
        "slices": (found,),
        "study_panels": (result,),
        "time_per_round": (result, "rough"),
    }


NAMES = [name for name, _ in inspect.getmembers(plots, inspect.isfunction)]
SEVERAL = {"slices": 4, "study_panels": 2, "cover_panels": 2, "growth_panels": 2, "scaling_panels": 4}  # panels


def drawn(picture):
    """Draw the figure of a picture, but for its pixels; warnings are errors."""
    figure = np.ravel(picture)[0].figure
    figure.draw_without_rendering()
    return figure


def test_every_public_function_is_tried(calls):
    assert sorted(calls) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(2)
def test_pictures_are_axes_or_arrays_of_axes(name, calls):
    """New ones of pyplot's, or the given ones."""
    draw = getattr(plots, name)
    made = draw(*calls[name])
    assert drawn(made) is plt.gcf()
    if name not in SEVERAL:
        assert isinstance(made, Axes)
        ax = plt.figure(layout="constrained").add_subplot()
        assert draw(*calls[name], ax=ax) is ax
        assert drawn(ax) is plt.gcf()
        with pytest.raises(ValueError, match=r"^ax: got .*; allowed: matplotlib axes"):
            draw(*calls[name], ax=[ax])
        return
    assert isinstance(made, np.ndarray)
    assert made.size == SEVERAL[name]
    assert all(isinstance(ax, Axes) for ax in made.flat)
    for given in (plt.subplots(2, 3)[1], list(plt.subplots(1, made.size, figsize=(15, 3))[1])):
        assert draw(*calls[name], ax=given).ravel().tolist() == np.ravel(given)[: made.size].tolist()
        drawn(given)
    figure, (left, right) = plt.subplots(1, 2, figsize=(16, 9), layout="constrained")
    place = right.get_position()
    divided = draw(*calls[name], ax=right)
    assert figure.axes[0] is left
    assert all(ax.figure is figure and ax.get_position().x0 >= place.x0 - 1e-9 for ax in divided.flat)
    drawn(divided)
    count = made.size - 1
    with pytest.raises(ValueError, match=rf"^ax: got '{count} axes'; allowed: at least {count + 1} matplotlib axes"):
        draw(*calls[name], ax=np.ravel(plt.subplots(1, made.size)[1])[:count])
    with pytest.raises(ValueError, match=r"^ax: got .*; allowed: at least"):
        draw(*calls[name], ax="axes")
    with pytest.raises(ValueError, match=r"^ax: got '1 axes'; allowed: at least"):
        draw(*calls[name], ax=plt.figure().add_axes((0, 0, 1, 1)))  # has no grid


TUNING = ("history", "slices", "importance", "parallel")


def test_four_pictures_in_a_row(calls):
    figures = [drawn(getattr(plots, name)(*calls[name])) for name in TUNING]
    assert len(set(figures)) == 4


@pytest.mark.parametrize("name", TUNING)
def test_given_axes_keep_what_is_drawn_on_them(name, calls):
    """As with all of matplotlib: nothing of the user's disappears."""
    panels = plt.subplots(1, 4)[1]
    lines = [ax.plot([0.2, 0.4], [0.1, 0.3])[0] for ax in panels]
    getattr(plots, name)(*calls[name], ax=panels if name == "slices" else panels[0])
    assert all(line in ax.lines for line, ax in zip(lines, panels, strict=True))


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
@pytest.mark.sampled(3)
def test_pictures_in_small_axes(calls, layout):
    """Of two and a half by two inches; names are shortened."""
    for name in TUNING:
        figure, axes = plt.subplots(2, 2, figsize=(5, 4), layout=layout)
        getattr(plots, name)(*calls[name], ax=axes if name == "slices" else axes[0, 1])
        figure.draw_without_rendering()
        assert min(ax.get_position().width for ax in axes.flat) > 0.2


@pytest.mark.slow
def test_pages_and_files_leave_pyplot_alone(study, tmp_path, monkeypatch):
    """And need no display."""
    mine = plt.figure()

    def refused(*_, **__):
        raise AssertionError("pyplot makes a figure")

    monkeypatch.setattr(plt, "figure", refused)
    files = save(study, study.run(store=tmp_path / "study"), tmp_path)
    assert {"regret.png", "scaling.png"} <= {file.name for file in files}
    write_report(tmp_path / "study", tmp_path / "study.html")
    sb.minimize(loss, sb.GPEI(SPACE, sb.RBF(0.8), candidates=32, **OPTIONS), 5, store=tmp_path / "run")
    write_report(tmp_path / "run", tmp_path / "run.html")
    assert (plt.get_fignums(), plt.gcf()) == ([mine.number], mine)
    assert Figure is type(mine)


def growth(values, policies=("a",)):
    """Result of a study without runs that have taken time: regret falls along an axis of these values."""
    regret = 20.0 / np.outer(np.arange(1, len(policies) + 1), np.sqrt(values)).T[..., None, None]
    cases = [f"c, s = {value:g}" for value in values]
    coords = {"case": cases, "policy": list(policies), "replicate": [0], "round": [1], "s": ("case", list(values))}
    dims = ("case", "policy", "replicate", "round")
    return xarray.Dataset({"regret": (dims, regret)}, coords, {"title": "Growth", "horizon": 1})


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([2.0, 5.0], ["2", "5"]),
        ([8.0, 14.0], ["8", "14"]),
        ([0.1, 1.0, 30.0, 2000.0], ["0.1", "1", "30", "2,000"]),
        ([1.0, 990.0, 1000.0], ["1", "1,000"]),  # labels would meet
        (np.arange(1.0, 13.0), ["1", "10"]),  # too many
    ],
)
def test_few_values_of_an_axis_are_its_ticks(values, labels):
    ax = plots.scaling_panels(growth(values))[0]
    drawn(ax)
    low, high = ax.get_xlim()
    ticks = [*ax.xaxis.get_major_ticks(), *ax.xaxis.get_minor_ticks()]
    shown = sorted((tick.get_loc(), tick.label1.get_text()) for tick in ticks if low <= tick.get_loc() <= high)
    assert [text for _, text in shown if text] == labels


def test_the_title_tells_of_slopes_where_they_are():
    result = growth([2.0, 5.0])
    for expected, told in (
        (None, False),
        ({"s": {"regret": {"b": 1.0}}}, False),
        ({"s": {"regret": {"a": 1.0}}}, True),
    ):
        ax = plots.scaling_panels(result, expected)[0]
        assert ("expected slope" in ax.figure.get_suptitle()) == told
        assert len(ax.get_legend().get_texts()) == 1


def test_legends_of_growth_cover_no_curve():
    """Of many policies too, below each panel, which is as high as with one."""
    heights = []
    for count in (1, 5, 12):
        ax = plots.scaling_panels(growth([2.0, 5.0, 9.0], [f"policy {i}" for i in range(count)]))[0]
        drawn(ax)
        assert ax.get_legend().get_window_extent().y1 < ax.xaxis.get_tightbbox().y0
        heights.append(ax.get_window_extent().height)
    assert max(heights) < 1.1 * min(heights)
