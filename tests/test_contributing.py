"""The recipes of CONTRIBUTING run as they stand, agree with an oracle, and pass mypy."""

import importlib.util
import os
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from cases.engines import assert_posterior
from cases.paths import ROOT
from naive import kernels as naive
from naive import policies as naive_policies
from naive.gp import GP
from scipy.optimize import check_grad

import scalable_bandits as sb
from scalable_bandits.posteriors import make_engine, random_features, register_frequencies
from scalable_bandits.studies import Study

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = ("policy", "confidence width", "kernel", "environment", "study", "engine", "space")
GRID = sb.Grid([[-1.0, 1.0], [-1.0, 1.0]], 9)
KNOWN = {"noise": 0.1, "regularization": 0.01, "seed": 5}


def code(recipe: str, language: str = "python") -> str:
    """Return the one block of code of a recipe."""
    section = re.search(rf"^## Add an? {recipe}\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, recipe
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    return block


def write(recipe: str, folder) -> tuple[str, str]:
    """Write the code of a recipe to a file of its own; return the name of the module and the path."""
    name = f"recipe_{recipe.replace(' ', '_')}"
    path = folder / f"{name}.py"
    path.write_text(code(recipe), encoding="utf-8")
    return name, str(path)


@pytest.fixture
def made(tmp_path, monkeypatch, registries):
    """Import the code of a recipe as a module of its own; what it registers is forgotten after the test."""

    def make(recipe: str) -> types.ModuleType:
        name, path = write(recipe, tmp_path)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return make


def test_every_recipe_is_tested():
    assert re.findall(r"^## Add an? (.*)$", PAGE, re.MULTILINE) == list(RECIPES)
    assert len(re.findall(r"^```python$", PAGE, re.MULTILINE)) == len(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_uses_public_names_only(recipe):
    assert not re.findall(r"(?<![\w.])_[a-z]\w*|\._[a-z]\w*", code(recipe))


# Of these no recipe uses anything, and reading their types takes three quarters of the time.
UNUSED = """
[[tool.mypy.overrides]]
module = [
    "dask.*", "distributed.*", "matplotlib.*", "optuna.*", "pandas.*", "rich.*", "scipy.*", "typer.*", "xarray.*",
    "zarr.*",
]
follow_imports = "skip"
"""


@pytest.mark.slow
def test_types(tmp_path):
    """Of all recipes at once, with the settings of the package, which `mypy` itself checks."""
    paths = [write(recipe, tmp_path)[1] for recipe in RECIPES]
    settings = tmp_path / "settings.toml"
    settings.write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8") + UNUSED, encoding="utf-8")
    options = ["--config-file", str(settings), "--follow-imports", "silent", "--cache-dir", os.devnull]
    command = [sys.executable, "-m", "mypy", *options, *paths]
    found = subprocess.run(command, cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("engine", ["dense", "tiled"])
def test_policy_plays_the_largest_index(made, engine):
    policy = made("policy").ConstantUCB(GRID, sb.Matern(0.5, nu=1.5), kappa=1.5, engine=engine, **KNOWN)
    world = sb.Benchmark("branin", GRID, sb.GaussianNoise(0.1), seed=5)
    gp = GP(naive.matern32(0.5), GRID.points())
    for t in range(1, 26):
        mean, variance = gp.mean_variance()
        index = naive_policies.upper_confidence(mean, np.sqrt(np.maximum(variance, 0.0)), policy.width)
        x = policy.ask()
        (chosen,) = GRID.index(x)
        assert index[chosen] == pytest.approx(index.max(), abs=1e-8)
        y = world.observe(x, t) / 100.0
        policy.tell(x, y)
        gp.observe(chosen, y, KNOWN["regularization"])


def test_policy_goes_on_from_its_specification_and_state(made):
    kind = made("policy").ConstantUCB
    world = sb.RKHSFunction.sparse(GRID, sb.RBF(0.5), sb.GaussianNoise(0.1), seed=5)
    policy = kind(GRID, sb.RBF(0.5), **KNOWN)
    sb.simulate(policy, world, 10)
    assert policy.to_dict()["kappa"] == 2.0
    again = kind(**policy.parameters())
    again.restore(policy.state())
    np.testing.assert_array_equal(
        sb.simulate(policy, world, 10).candidate, sb.simulate(pickle.loads(pickle.dumps(again)), world, 10).candidate
    )
    with pytest.raises(ValueError, match=r"^kappa: got -1.0; allowed: a positive number"):
        kind(GRID, sb.RBF(0.5), kappa=-1.0, **KNOWN)


@pytest.mark.parametrize("candidates", [None, 30])
def test_policy_plays_a_box(made, candidates):
    """As a whole and through candidates, also after points that nobody asked for were told."""
    policy = made("policy").ConstantUCB(sb.Box([[0.0, 1.0]] * 2), sb.RBF(0.3), candidates=candidates, **KNOWN)
    policy.tell([[0.123, 0.4], [0.5, 0.77]], [0.1, 0.2])
    for _ in range(3):
        policy.tell(policy.ask(), 0.0)
    assert policy.rounds == 5
    assert policy.domain.by_visit == (candidates is None)


def test_confidence_width(made):
    module = made("confidence width")
    policy = sb.IGPUCB(GRID, sb.RBF(0.5), confidence="kernelized", rkhs_norm=3.0, delta=0.2, noise=0.5)
    assert policy.width == pytest.approx(3.0 + 0.5 * np.sqrt(2 * np.log(5.0)))
    assert module.kernelized(1.0, 0.2, 3.0, 0.5, 4.0) == pytest.approx(3.0 + 0.25 * np.sqrt(2 * (1 + np.log(5.0))))


def test_kernel(made):
    """Formula, and derivative by differences."""
    brownian, grid = made("kernel").Brownian(), sb.Grid([[0, 1]], 5)
    assert sb.GPUCB(grid, brownian).kernel.block(grid.points()[2:]).tolist() == [
        [0.5] * 3,
        [0.5, 0.75, 0.75],
        [0.5, 0.75, 1],
    ]
    kernel, rng = made("kernel").Cauchy(0.5), np.random.default_rng(0)
    X, Z = rng.random((4, 2)), rng.random((3, 2))
    r = np.linalg.norm(X[:, None] - Z[None], axis=2) / 0.5
    np.testing.assert_allclose(kernel.block(X, Z), 1.0 / (1.0 + r**2), rtol=0, atol=1e-14)
    found = np.zeros((1, 2))
    kernel.slope(X, Z[:1], np.ones((4, 1)), found)
    assert check_grad(lambda z: kernel.block(X, z[None]).sum(), lambda z: found[0], Z[0]) < 1e-5
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    box = sb.Box([[0.0, 1.0]] * 2)
    policy = sb.GPEI(box, 1.0 * kernel, refit=5)
    for _ in range(6):
        x = policy.ask()
        policy.tell(x, float(np.sin(5.0 * x[0])))
    assert policy.present_kernel != policy.kernel


def test_kernel_with_frequencies(made):
    """Sample paths need a spectral measure: that of RBF kernels whose inverse squared lengthscales are exponential."""
    kernel, box = made("kernel").Cauchy(0.5), sb.Box([[0.0, 1.0]] * 2)
    with pytest.raises(ValueError, match=r"^kernel: got Cauchy.*; allowed: RBF, .*, and"):
        sb.GPTS(box, kernel)
    register_frequencies(
        type(kernel),
        lambda k, d, n, rng: rng.standard_normal((n, d)) * k.inverse(d) * np.sqrt(2.0 * rng.exponential(size=(n, 1))),
    )
    x = np.random.default_rng(0).random((30, 2))
    phi = random_features(kernel, 2, 40_000, np.random.default_rng(1))(x)
    np.testing.assert_allclose(phi @ phi.T, kernel.block(x), rtol=0, atol=5 / 200)
    assert sb.GPTS(box, kernel).domain.by_visit
    with pytest.raises(TypeError, match=r"^kernel: got 1; allowed: a subclass of Kernel"):
        register_frequencies(1, np.zeros)


def test_environment(made):
    """Formula, declared optimum, and an equal one from its parameters."""
    kind = made("environment").Ripples
    world = kind(GRID, 0.3, sb.GaussianNoise(0.1), 5)
    np.testing.assert_allclose(world.table(), [np.cos(np.hypot(a, b) / 0.3) for a, b in GRID.points()])
    assert world.optimum() == pytest.approx(1.0)
    again = kind(**world.parameters())
    assert again.observe([0.0, 0.0], 3) == world.observe([0.0, 0.0], 3)
    with pytest.raises(ValueError, match=r"^length: got "):
        kind(GRID, "long")


def test_study(made, tmp_path):
    """Its file names the builder, and expected improvement learns."""
    made("study")
    file = tmp_path / "baselines.toml"
    file.write_text(code("study", "toml"), encoding="utf-8")
    result = Study.load(file).run()
    assert dict(result.sizes) == {"case": 2, "policy": 2, "replicate": 3, "round": 50}
    late = result["regret"].isel(round=slice(-10, None)).mean(("case", "replicate", "round"))
    assert late.sel(policy="EI") < 0.3 * late.sel(policy="random")


def test_engine(made):
    """The refit from scratch, also after a restore; every index policy plays with it."""
    made("engine")
    kernel, rng = sb.Matern(0.5, nu=1.5), np.random.default_rng(1)
    means = np.cos(np.arange(GRID.size))
    gp = GP(naive.matern32(0.5), GRID.points(), means)
    engine = make_engine("factored", kernel, GRID.points(), means)
    for t in range(40):
        candidate, y = int(rng.integers(GRID.size)), float(rng.standard_normal())
        engine.observe(candidate, y, 0.1)
        gp.observe(candidate, y, 0.1)
        if t == 20:
            state = {name: np.array(value) for name, value in engine.state().items()}
            engine = make_engine("factored", kernel, GRID.points(), means)
            engine.restore(state)
    assert_posterior(engine, gp)
    some = np.array([3, 77, 3])
    np.testing.assert_allclose(engine.columns(some), gp.mean_covariance()[1][some], rtol=0, atol=1e-8)
    world = sb.RKHSFunction.sparse(GRID, kernel, sb.GaussianNoise(0.1), seed=5)
    runs = [sb.simulate(sb.IGPUCB(GRID, kernel, engine=name, **KNOWN), world, 30) for name in ("factored", "dense")]
    np.testing.assert_array_equal(runs[0].candidate, runs[1].candidate)
    with pytest.raises(ValueError, match=r"at most 1,000 for the engine 'factored'"):
        sb.IGPUCB(sb.Grid([[0.0, 1.0]], 1001), sb.RBF(0.1), engine="factored")


@pytest.mark.parametrize(
    "kind", [sb.IGPUCB, sb.GPUCB, sb.GPEI, sb.GPTS, sb.RandomSearch], ids=lambda kind: kind.__name__
)
def test_space(made, kind):
    """Numbers and points, and a run on it."""
    space = made("space").Subsets(4)
    assert space.size == 16
    np.testing.assert_array_equal(space.index(space.points()), np.arange(16))
    assert space.points([5]).tolist() == [[1.0, 0.0, 1.0, 0.0]]
    with pytest.raises(ValueError, match=r"^x: got .*; allowed: one of the 16 candidates"):
        space.index([0.0, 1.0, 0.5, 1.0])
    assert pickle.loads(pickle.dumps(space)) == space
    world = sb.FunctionEnvironment(space, lambda x: float(x @ [1.0, -1.0, 0.5, 0.2]), sb.GaussianNoise(0.01))
    run = sb.simulate(kind(space, sb.RBF(1.0), **KNOWN), world, 60)
    assert world.optimum() == pytest.approx(1.7)
    assert run.regret.min() == pytest.approx(0.0, abs=1e-12)
    found = sb.maximize(lambda x: float(x @ [1.0, -1.0, 0.5, 0.2]), space, 12)  # kernel and noise are learned
    assert "x3" in repr(found)
    assert sb.LBGPUCB(space, sb.RBF(1.0), **KNOWN).ask().shape == (4,)
