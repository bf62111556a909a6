"""Kernels against the formulas, pair by pair, and as the values they are."""

import functools
import json
import pickle
from typing import ClassVar

import attrs
import numba
import numpy as np
import pytest
from cases.kernels import KERNEL_CASES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive import kernels as naive
from sklearn.metrics import pairwise_distances

import scalable_bandits as sb
from scalable_bandits.kernels._numba_kernels import exponential

every_kernel = pytest.mark.parametrize("case", KERNEL_CASES.values(), ids=KERNEL_CASES.keys())


@every_kernel
class TestEveryKernel:
    def test_block_is_the_formula(self, case):
        X, Z = case.points(25, seed=1), case.points(18, seed=2)
        np.testing.assert_allclose(case.kernel.block(X, Z), naive.matrix(case.oracle, X, Z), rtol=1e-12, atol=1e-13)

    def test_block_of_one_set_is_symmetric_and_semi_definite(self, case):
        X = case.points(60)
        X[30:35] = X[:5]  # repeated points
        K = case.kernel.block(X)
        np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-15 * np.abs(K).max())
        assert np.linalg.eigvalsh(K)[0] > -1e-12 * len(X) * np.abs(K).max()

    def test_diagonal_is_the_diagonal_of_the_block(self, case):
        X = case.points(20)
        np.testing.assert_allclose(case.kernel.diagonal(X), case.kernel.block(X).diagonal(), rtol=1e-14)

    def test_a_block_does_not_depend_on_what_else_is_in_it(self, case):
        X, Z = case.points(9, seed=3), case.points(1100, seed=4)
        whole = case.kernel.block(X, Z)
        for i in range(len(X)):
            np.testing.assert_array_equal(case.kernel.block(X[i : i + 1], Z)[0], whole[i])
        for rows in (1, 3, 4, 9):
            for columns in (1, 2, 3, 4, 7, 8, 13):
                part = case.kernel.block(X[:rows], Z[5 : 5 + columns])
                np.testing.assert_array_equal(part, whole[:rows, 5 : 5 + columns])

    def test_features_have_the_covariances_as_inner_products(self, case, request):
        X, Z = case.points(9, seed=3), case.points(40, seed=4)
        found = case.kernel.features(X)
        finite = request.node.callspec.id in {"linear", "spherical", "polynomial"}
        assert (found is not None) == finite
        assert (case.kernel.feature_count(case.dimension) > 0) == finite
        if finite:
            others = case.kernel.features(Z)
            np.testing.assert_allclose(found @ others.T, case.kernel.block(X, Z), rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(case.kernel.features(Z[7:12]), others[7:12])

    def test_is_a_value(self, case):
        """JSON and pickles keep it, it cannot be changed, and no other is equal."""
        text = json.dumps(case.kernel.to_dict())
        back = sb.Kernel.from_dict(json.loads(text))
        assert type(back) is type(case.kernel)
        assert back == case.kernel
        assert hash(back) == hash(case.kernel)
        X = case.points(7)
        np.testing.assert_array_equal(back.block(X), case.kernel.block(X))
        back = pickle.loads(pickle.dumps(case.kernel))
        assert back == case.kernel
        assert hash(back) == hash(case.kernel)
        others = [other.kernel for other in KERNEL_CASES.values() if other is not case]
        assert case.kernel not in others
        assert case.kernel != 1.0
        with pytest.raises(AttributeError):
            case.kernel.lengthscale = 3.0

    def test_points_of_two_dimensions_or_not_finite_are_refused(self, case):
        with pytest.raises(ValueError, match=r"Z: got .*points of dimension"):
            case.kernel.block(case.points(3), np.zeros((2, case.dimension + 1)))
        X = case.points(3)
        X[1, 0] = np.nan
        with pytest.raises(ValueError, match=r"(?s)X: got .*finite numbers"):
            case.kernel.block(X)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.8, 1.0, 2.0, 2.2, 3.5, 7.0, 20.0, 60.0, 120.0, 150.0, 500.0])
@pytest.mark.sampled(4)
def test_matern_of_any_smoothness_at_any_distance(nu):
    """From the smallest distances, where the Bessel function overflows, to the largest."""
    r = np.concatenate([[0.0], np.logspace(-12, 1.5, 60)])
    want = naive.matrix(naive.matern(1.0, nu), np.zeros((1, 1)), r[:, None])[0]
    room = 2e-12 * max(1.0, nu / 100)  # the oracle's own rounding grows with log Gamma(nu)
    np.testing.assert_allclose(sb.Matern(1.0, nu=nu).block([0.0], r)[0], want, rtol=0, atol=room)


STATIONARY = [
    sb.RBF,
    sb.RationalQuadratic,
    *(functools.partial(sb.Matern, nu=nu) for nu in (0.5, 0.7, 1.5, 2.2, 2.5, 200.0)),
]


@pytest.mark.parametrize("distance", [1e12, 1e153, 1e155, 1e200, 1e307])
def test_a_pair_of_points_however_far_apart_has_covariance_and_gradient_0(distance):
    # From 1e154 on the squared distance is infinite; K_nu is NaN from about 1e10 on.
    far, near = np.array([[0.0, 0.0], [distance, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])
    cases = [(make(length), points) for make in STATIONARY for length, points in ((1.0, far), (1.0 / distance, near))]
    for kernel, points in cases:
        slopes = np.zeros((2, 2))
        with np.errstate(over="ignore", invalid="ignore"):  # numpy warns where the loops are not compiled
            blocks = kernel.block(points, points), kernel.block(points, points[1:])
            kernel.slope(points, points, np.ones((2, 2)), slopes)
            sensitivity = kernel.sensitivity(points, np.ones((2, 2)))
        np.testing.assert_allclose(np.hstack(blocks), [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], atol=1e-20)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-9)
        assert np.isfinite(sensitivity).all()


points = arrays(np.float64, (5, 2), elements=st.floats(-3.0, 3.0))
lengths = st.one_of(st.floats(0.05, 20.0), st.tuples(st.floats(0.05, 20.0), st.floats(0.05, 20.0)))


@given(X=points, Z=points, lengthscale=lengths, shape=st.floats(0.2, 12.0))
def test_formulas_hold_for_random_points_and_lengthscales(X, Z, lengthscale, shape):
    pairs = [
        (sb.RBF(lengthscale), naive.rbf(lengthscale)),
        (sb.Matern(lengthscale, nu=0.5), naive.matern12(lengthscale)),
        (sb.Matern(lengthscale, nu=1.5), naive.matern32(lengthscale)),
        (sb.Matern(lengthscale, nu=2.5), naive.matern52(lengthscale)),
        (sb.RationalQuadratic(lengthscale, alpha=shape), naive.rational_quadratic(lengthscale, shape)),
        (sb.Periodic(lengthscale, period=shape), naive.periodic(lengthscale, shape)),
        (sb.Linear(lengthscale, bias=shape), naive.linear(lengthscale, shape)),
    ]
    for kernel, oracle in pairs:
        np.testing.assert_allclose(
            kernel.block(X, Z), naive.matrix(oracle, X, Z), rtol=1e-11, atol=1e-13 * np.abs(kernel.block(X)).max()
        )


@given(X=points, Z=points, lengthscale=lengths, nu=st.floats(0.1, 12.0))
def test_matern_of_random_smoothness(X, Z, lengthscale, nu):
    want = naive.matrix(naive.matern(lengthscale, nu), X, Z)
    got = sb.Matern(lengthscale, nu=nu).block(X, Z)
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-10, atol=1e-12)
    assert np.isfinite(got).all()


@numba.njit
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = exponential(x[i])


class TestExponential:
    """The one that blocks of covariances are made of."""

    def exp(self, x):
        x = np.asarray(x, dtype=np.float64)
        out = np.empty_like(x)
        exponentials(x, out)
        return out

    @pytest.mark.parametrize("scale", [1e-12, 1e-3, 0.35, 1.0, 30.0, 708.0])
    def test_is_as_exact_as_the_library(self, scale):
        x = -scale * np.random.default_rng(0).random(200_000)
        found, true = self.exp(x), np.exp(x.astype(np.longdouble))
        assert (np.abs(found - true) / np.spacing(found).astype(np.longdouble) <= 0.7).all()

    def test_falls_with_its_argument(self):
        """Where it is rounded from one power of two to the next, too."""
        near = -np.log(2.0) * (np.arange(1, 40)[:, None] - 0.5 + np.linspace(-1e-9, 1e-9, 401))
        found = self.exp(np.sort(near.ravel()))
        assert (np.diff(found) >= 0.0).all()

    def test_at_the_ends(self):
        x = [0.0, -0.0, -5e-324, -708.0, -708.4, -745.0, -1e308, -np.inf, np.nan]
        np.testing.assert_array_equal(self.exp(x), [1.0, 1.0, 1.0, np.exp(-708.0), 0.0, 0.0, 0.0, 0.0, np.nan])

    @given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-800.0, 0.0)), st.integers(0, 39))
    def test_does_not_depend_on_what_stands_around(self, x, i):
        i %= len(x)
        assert self.exp(x)[i] == self.exp(x[i : i + 1])[0]


def test_sums_and_products_flatten_and_compare_by_value():
    a, b, c = sb.RBF(1.0), sb.Linear(), sb.Periodic()
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a + b != b + a  # rounding differs, so that they are two
    assert 2 * a == a * 2.0
    assert len({a + b, a + b, a * b, 2.0 * a, sb.RBF(1)}) == 4


@pytest.mark.parametrize(
    "kernel",
    [sb.RBF([1.0, 2.0]), 2.0 * sb.Matern([1.0, 2.0]), sb.RBF() + sb.Linear([1.0, 2.0]), sb.RBF() * sb.Periodic([1, 2])],
)
def test_a_lengthscale_for_each_dimension_fits_that_dimension_only(kernel):
    assert kernel.block(np.zeros((3, 2))).shape == (3, 3)
    with pytest.raises(ValueError, match="lengthscale: got"):
        kernel.block(np.zeros((3, 3)))


PEAKED = {
    "linear": KERNEL_CASES["linear"].kernel,
    "spherical": KERNEL_CASES["spherical"].kernel,
    "curved": sb.SphericalLinear([[-1.0, 1.0], [-0.5, 2.0]], radius=4.0, bias=0.0),
    "sum": 0.3 * sb.OnDimensions(sb.SphericalLinear([[-1.0, 1.0]]), [1])
    + 2.0 * sb.Constant()
    + sb.OnDimensions(sb.Linear(0.7), [0]),
}


@pytest.mark.parametrize("kernel", PEAKED.values(), ids=PEAKED.keys())
@pytest.mark.parametrize("bounds", [[[-1.0, 1.0], [-0.5, 2.0]], [[0.2, 0.9], [-0.3, -0.1]]], ids=["whole", "part"])
def test_the_peak_of_a_sum_of_features_is_the_largest_value_on_a_fine_grid(kernel, bounds):
    bounds = np.array(bounds)
    weights = np.random.default_rng(2).standard_normal((60, kernel.feature_count(2)))
    peaks = kernel.features_peak(weights, bounds)
    assert ((bounds[:, 0] <= peaks) & (peaks <= bounds[:, 1])).all()
    fine = sb.Grid(bounds, 101).points()
    largest = (kernel.features(fine) @ weights.T).max(axis=0)
    found = (kernel.features(peaks) * weights).sum(axis=1)
    assert (found >= largest - 1e-12).all()
    assert (found <= largest + 1e-2).all()


def test_the_peak_is_not_known_where_two_parts_share_a_coordinate():
    weights, bounds = np.ones((1, 3)), np.array([[0.0, 1.0]])
    assert (sb.Linear() + sb.SphericalLinear(bounds, bias=0.0)).features_peak(weights, bounds) is None
    assert (sb.Linear() * sb.Linear()).features_peak(weights[:, :1], bounds) is None


def test_a_product_of_many_features_has_none():
    linear = sb.Linear(bias=1.0)
    assert (linear * linear).feature_count(31) == 1024
    assert (linear * linear).feature_count(32) == 0
    assert (linear * sb.TemporalDecay(0.1)).feature_count(1) == 0


@pytest.mark.parametrize("arms", [[[12.0]], [[-1.0]], [[0.5]], [[0.0, 1.0]]])
def test_covariance_refuses_what_is_no_arm(arms):
    with pytest.raises(ValueError, match="got"):
        KERNEL_CASES["covariance"].kernel.block(arms)


@given(data=st.data(), count=st.integers(1, 5), rows=st.integers(1, 4))
def test_tanimoto_of_bytes_is_that_of_words_and_of_sets_of_bits(data, count, rows):
    """However 32 bits are packed; empty fingerprints among them."""
    words = data.draw(arrays(np.uint32, (rows, count), elements=st.sampled_from([0, 1, 2**32 - 1, 2**31 + 1, 77])))
    block = sb.Tanimoto().block(words)
    np.testing.assert_array_equal(sb.Tanimoto().block(words.view(np.uint8)), block)
    np.testing.assert_array_equal(block, naive.matrix(naive.tanimoto(), words))
    bits = np.unpackbits(words.view(np.uint8), axis=1)
    np.testing.assert_array_equal(sb.MinMax().block(bits), block)


def test_tanimoto_is_one_less_the_jaccard_distance_of_scikit_learn():
    bits = np.random.default_rng(4).random((40, 100)) < 0.2
    expected = 1.0 - pairwise_distances(bits, metric="jaccard")
    np.testing.assert_allclose(sb.Tanimoto().block(np.packbits(bits, axis=1)), expected, rtol=1e-14)


@pytest.mark.parametrize("number", [-1.0, 0.5, 2.0**32])
def test_tanimoto_refuses_what_is_no_packed_bits(number):
    with pytest.raises(ValueError, match=r"x: got .*whole numbers from 0 to 2\^32 - 1"):
        sb.Tanimoto().block([[1.0, 3.0]], [[2.0, number]])


def test_min_max_refuses_negative_counts():
    with pytest.raises(ValueError, match=r"x: got .*numbers of at least 0"):
        sb.MinMax().block([[1.0, -2.0]])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", [sb.Tanimoto(), sb.MinMax()])
def test_sets_at_random_have_a_semi_definite_covariance(kernel):
    """Full and empty fingerprints, repeated ones, subsets of others."""
    rng = np.random.default_rng(3)
    words = rng.integers(2**32, size=(2, 300, 4), dtype=np.uint64)
    sets = (words[0] & words[1]).astype(float)
    sets[:5], sets[5:10], sets[10:20] = 0.0, 2**32 - 1, sets[20:30]
    sets[30:60] = (words[0, 30:60] & words[1, 30:60] & rng.integers(2**32, size=(30, 4), dtype=np.uint64)).astype(float)
    assert np.linalg.eigvalsh(kernel.block(sets))[0] > -1e-12


def test_covariance_keeps_a_copy_of_its_matrix():
    matrix = np.eye(3)
    kernel = sb.Covariance(matrix)
    matrix[0, 0] = 5.0
    assert kernel.matrix[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        kernel.matrix[0, 0] = 5.0


# ---- kernels of other packages


@attrs.frozen
class Mine(sb.Kernel):
    """Exponential kernel in one dimension, with a fault."""

    broken: ClassVar[bool] = False  # from now on, as no check can see it
    fault: str = ""

    def fill(self, X, Z, out):
        lag = X - Z.T
        values = np.exp(-np.abs(lag))
        if self.fault == "returns":
            return values
        if self.fault == "part":
            out[:, :1] = values[:, :1]
            return None
        if self.fault == "nan" or Mine.broken:
            values[lag == 0.0] = np.nan
        elif self.fault == "asymmetric":
            values = np.exp(-lag)
        elif self.fault == "indefinite":
            values = np.where(np.abs(lag) < 0.35, 1.0, 0.0)
        elif self.fault == "scaled":
            values /= values.sum()
        out[:] = values
        return None

    def diagonal(self, X):
        return {"half": np.full(len(X), 0.5), "column": np.ones((len(X), 1)), "no number": np.full(len(X), np.nan)}.get(
            self.fault, np.ones(len(X))
        )


LINE, OTHERS = sb.Grid([[0, 1]], 30), {"noise": 0.1}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("returns", r"fill, which returns values, as at points \[0\.0\] and \[0\.0\]"),
        ("part", r"fill, which leaves some of out unset, or writes nan, as at points \[0\.0\] and \[0\.03"),
        ("nan", r"fill, which leaves some of out unset, or writes nan, as at points \[0\.0\] and \[0\.0\]"),
        ("asymmetric", r"fill, with .* = 2\.35'; allowed: a symmetric function"),
        (
            "indefinite",
            "fill, whose matrix at 30 points has the eigenvalue -.*; allowed: a positive semi-definite",
        ),
        ("scaled", "fill, whose value at two points depends on the other points"),
        ("half", r"diagonal, which is 0\.5 at \[0\.0\], where Mine\.fill has 1"),
        ("no number", r"diagonal, which is nan at \[0\.0\], where Mine\.fill has 1"),
        ("column", r"diagonal, of shape \(30, 1\) at 30 points'; allowed: \(30,\), one for each point"),
    ],
)
def test_a_kernel_of_others_has_covariances(fault, message):
    with pytest.raises(ValueError, match=rf"^kernel: got [\"']Mine\.{message}"):
        sb.GPUCB(LINE, Mine(fault))


@pytest.mark.parametrize("make", [
    *(lambda k, name=name: getattr(sb, name)(LINE, k, **OTHERS) for name in ("GPUCB", "GPTS", "GPEI", "BKB")),
    lambda k: sb.SWGPUCB(LINE, k, memory=3),
    lambda k: sb.PiGPUCB(LINE, k),
    lambda k: sb.GPUCB(sb.Box([[0, 1]]), k),
    lambda k: sb.PEGPUCB(LINE, [sb.Prior("a", sb.RBF(0.2)), sb.Prior("b", k)]),
    lambda k: sb.CONFIG(LINE, sb.RBF(0.2), constraints={"g": sb.AtMost(0.0)}, kernels={"g": k}),
    lambda k: sb.GPUCB(LINE, sb.RBF(0.2) + 2.0 * k),
    lambda k: sb.GPUCB(sb.Grid([[0, 1]] * 2, 9), sb.RBF(0.2) * sb.OnDimensions(k, [1])),
    lambda k: sb.GPSample(LINE, k),
    lambda k: sb.RKHSFunction.sparse(LINE, k),
    lambda k: sb.RKHSFunction.planted(LINE, k),
    lambda k: sb.DriftingFunction.sparse(LINE, k, knots=[1, 5]),
    lambda k: sb.AutoregressiveProcess(LINE, k * sb.TemporalDecay(0.1)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:PiGPUCB's guarantee")
def test_who_takes_a_kernel_of_others_looks_at_it(make):
    with pytest.raises(ValueError, match=r"^kernel: got [\"']Mine\.fill, which .* writes nan"):
        make(Mine("nan"))
    make(Mine())


def test_a_kernel_of_others_on_a_single_point():
    assert sb.GPUCB(sb.Points([0.5]), Mine()).ask().tolist() == [0.5]


def test_no_candidate_is_chosen_by_an_index_that_is_nan(monkeypatch):
    """In the compiled loop too, where it was played as candidate -1."""
    policy = sb.SWGPUCB(LINE, Mine(), memory=5)
    monkeypatch.setattr(Mine, "broken", True)
    with pytest.raises(ValueError, match=r"^index: got NaN at every candidate; allowed: numbers"):
        sb.simulate(policy, sb.GPSample(LINE, sb.RBF(0.2)), 20)
