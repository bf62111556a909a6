"""The picture of a partition: what is drawn is what the cover says."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import scalable_bandits as sb
from scalable_bandits import plots


def played(space, rounds=400):
    policy = sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5), horizon=100, rkhs_norm=1.0, noise=0.1)
    function = sb.Benchmark("camel", space, sb.GaussianNoise(0.1), scaled=True)
    return policy, function, sb.simulate(policy, function, rounds).candidate


SPACES = {
    "grid": sb.Grid([[-3, 3], [-2, 2]], (13, 17)),
    "points": sb.Points(np.random.default_rng(0).uniform([-3, -2], [3, 2], (200, 2))),
}


@pytest.mark.parametrize("name", SPACES)
def test_cells_and_plays_are_drawn(name):
    space = SPACES[name]
    policy, function, candidates = played(space)
    ax = plots.partition(policy, function, candidates, Figure().subplots())
    leaves = [element for element in policy.cover if element.split is None]
    drawn = [patch for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_fill()]
    outlines = [patch for patch in ax.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    boxes = sorted((*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in outlines)
    expected = sorted((*element.lower, *(element.upper - element.lower)) for element in leaves)
    np.testing.assert_allclose(boxes, expected)
    shades = {(*patch.get_xy(), patch.get_width()): patch.get_facecolor()[3] for patch in drawn}
    by_depth = {}
    for element in leaves:
        shade = shades[(*element.lower.tolist(), float(element.upper[0] - element.lower[0]))]
        by_depth.setdefault(element.depth if element.observations else -1, set()).add(shade)
    assert len(by_depth) >= 3
    assert all(len(shade) == 1 for shade in by_depth.values())
    ordered = [by_depth[depth].pop() for depth in sorted(by_depth)]
    assert ordered == sorted(set(ordered))  # the deeper, the stronger; cells without data are clear
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


def test_makes_axes_where_none_are_given():
    import matplotlib.pyplot as plt

    policy, function, _ = played(SPACES["grid"], 20)
    ax = plots.partition(policy, function)
    assert ax.get_xlabel() == "$x_1$"
    plt.close(ax.figure)
