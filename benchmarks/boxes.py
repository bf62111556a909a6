"""Boxes: our policies and the defaults of other packages on the same functions, from the same first points.

Every peer is asked for one point at a time and told its value; its other settings are its own, but where it takes the
noise (bayesian-optimization's `alpha`) it is given it. Regret is measured on noise-free values.

Seconds of runs are seconds of processor (`time.process_time`), and everybody, ours and others, is held to one thread: a
machine that is busy with something else then says nearly the same as a quiet one.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks.measure import Line, timed
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.maximization import maximize_over_box
from scalable_bandits.posteriors.box.surface import constant_mean

Ask = Callable[[], np.ndarray]
Tell = Callable[[np.ndarray, float], None]
Peer = Callable[[sb.Environment, np.ndarray, np.ndarray, int], tuple[Ask, Tell]]


def ours(
    environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int, noise: float = 1e-2, refit: int = 10
) -> tuple[Ask, Tell]:
    """GP-EI with a Matern 5/2 kernel whose hyperparameters are learned every `refit` rounds."""
    box = environment.space
    assert isinstance(box, sb.Box)
    kernel = 1.0 * sb.Matern([0.5 * (high - low) for low, high in box.bounds], nu=2.5)
    policy = sb.GPEI(box, kernel, noise=noise, regularization=noise**2, refit=refit, seed=seed)
    policy.tell(x, y)
    return policy.ask, policy.tell


def upper_bound(environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """GP-UCB, its width divided by sqrt(20), with the kernel learned as in `ours`; for `noisy`."""
    box = environment.space
    assert isinstance(box, sb.Box)
    kernel = 1.0 * sb.Matern([0.5 * (high - low) for low, high in box.bounds], nu=2.5)
    policy = sb.GPUCB(box, kernel, noise=3**-0.5, regularization=1.0 / 3.0, scale=20.0, refit=10, seed=seed)
    policy.tell(x, y)
    return policy.ask, policy.tell


def known_kernel(environment: sb.RKHSFunction, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """GP-UCB, its width divided by sqrt(20), with the kernel that the function is made of."""
    policy = sb.GPUCB(environment.space, environment.kernel, noise=1.0, regularization=1.0 / 3.0, scale=20.0, seed=seed)
    policy.tell(x, y)
    return policy.ask, policy.tell


def botorch(environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """`SingleTaskGP` fitted each round, log expected improvement from 10 starts of 512 (its tutorial's settings)."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    bounds = torch.tensor(environment.space.bounds, dtype=torch.float64).T
    xs, ys = list(x), list(y)

    def ask() -> np.ndarray:
        points, values = torch.tensor(np.array(xs)), torch.tensor(ys, dtype=torch.float64)[:, None]
        model = SingleTaskGP(points, values, input_transform=Normalize(len(bounds.T), bounds=bounds))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        index = LogExpectedImprovement(model, best_f=values.max())
        found, _ = optimize_acqf(index, bounds=bounds, q=1, num_restarts=10, raw_samples=512)
        return found.numpy()[0]

    return ask, lambda at, value: (xs.append(at), ys.append(value))


def scikit_optimize(environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """`Optimizer` of a Gaussian process with its defaults; it minimises."""
    import skopt

    optimizer = skopt.Optimizer(list(environment.space.bounds), random_state=seed, n_initial_points=len(x))
    optimizer.tell(x.tolist(), (-y).tolist())
    return (
        lambda: np.clip(optimizer.ask(), *np.array(environment.space.bounds).T),
        lambda at, value: optimizer.tell(at.tolist(), -value),
    )


def optuna(environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """`GPSampler` with its defaults."""
    import optuna as package
    import torch

    torch.set_num_threads(1)
    package.logging.set_verbosity(package.logging.ERROR)
    space = {f"x{k}": package.distributions.FloatDistribution(*b) for k, b in enumerate(environment.space.bounds)}
    study = package.create_study(direction="maximize", sampler=package.samplers.GPSampler(seed=seed))
    for at, value in zip(x, y, strict=True):
        named = dict(zip(space, at.tolist(), strict=True))
        study.add_trial(package.trial.create_trial(params=named, distributions=space, value=float(value)))
    open_: list[Any] = []

    def ask() -> np.ndarray:
        open_.append(study.ask(space))
        return np.array([open_[-1].params[name] for name in space])

    return ask, lambda at, value: study.tell(open_[-1], value)


def bayesian_optimization(environment: sb.Environment, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[Ask, Tell]:
    """`BayesianOptimization` with its defaults, but for its `alpha`, which is given the noise's variance."""
    from bayes_opt import BayesianOptimization

    names = [f"x{k}" for k in range(environment.space.dimension)]
    bounds = dict(zip(names, environment.space.bounds, strict=True))
    optimizer = BayesianOptimization(None, bounds, random_state=seed, verbose=0, allow_duplicate_points=True)
    optimizer.set_gp_params(alpha=1.0 / 3.0)
    for at, value in zip(x, y, strict=True):
        optimizer.register(dict(zip(names, at.tolist(), strict=True)), float(value))

    def ask() -> np.ndarray:
        found = optimizer.suggest()
        return np.array([found[name] for name in names])

    return ask, lambda at, value: optimizer.register(dict(zip(names, at.tolist(), strict=True)), value)


def play(peer: Peer, environment: sb.Environment, rounds: int, seed: int) -> tuple[float, np.ndarray]:
    """Seconds of processor, and regret of each of the rounds, the first 2 (d + 1) of which are Sobol points."""
    box, optimum = environment.space, environment.optimum()
    assert isinstance(box, sb.Box)
    first = box.candidates(2 * (box.dimension + 1), seed).array
    points = list(first)
    with threadpool_limits(limits=1):
        started = time.process_time()
        ask, tell = peer(environment, first, environment.observe(first, 1), seed)
        for t in range(len(first) + 1, rounds + 1):
            x = ask()
            points.append(x)
            tell(x, environment.observe(x, t))
    return time.process_time() - started, optimum - environment.mean(np.array(points))


def smooth(name: str) -> sb.Environment:
    """One of the two six-dimensional functions, without noise."""
    return sb.Benchmark(name, noise=sb.GaussianNoise(0.0), **({"dimension": 6} if name == "ackley" else {}))


def noisy(seed: int) -> sb.RKHSFunction:
    """The two-dimensional problem of Janz et al. 2020 on a box."""
    return sb.RKHSFunction.sparse(sb.Box([[0, 1]] * 2), sb.Matern(0.2, nu=1.5), sb.UniformNoise(1.0), seed=seed)


def six(quick: bool, seeds: Sequence[int] | None = None) -> Iterator[Line]:
    """300 rounds with refitting on Hartmann 6 and Ackley; seeds 0 to 9 if not given."""
    rounds, seeds = (20, (seeds or [0])[:1]) if quick else (300, seeds or range(10))
    for name in ("hartmann6", "ackley"):
        environment = smooth(name)
        for peer in (ours, botorch, scikit_optimize):
            play(peer, environment, 24, 0)  # imports and compiles
        own = [play(ours, environment, rounds, seed) for seed in seeds]
        seconds = np.mean([s for s, _ in own])
        what = f"{name} in 6 dimensions, {rounds} rounds, refit=10"
        yield Line(what, f"{seconds:.1f} s, {_regrets(own)}", "", "", "")
        for peer in (botorch, scikit_optimize):
            runs = [play(peer, environment, rounds, seed) for seed in seeds]
            theirs = np.mean([s for s, _ in runs])
            yield Line(
                f"... against {peer.__name__}", "", f"{theirs:.0f} s, {_regrets(runs)}",
                f"{theirs / seconds:.0f}", "> 5, no more regret",
            )  # fmt: skip


def _regrets(runs: Sequence[tuple[float, np.ndarray]]) -> str:
    """Regret a round, and that of the best point of a run: means over runs, with standard errors of both."""
    each = np.array([[regret.mean(), regret.min()] for _, regret in runs])
    error = each.std(axis=0, ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else np.full(2, np.nan)
    (mean, best), (mean_error, best_error) = each.mean(axis=0), error
    return f"regret {mean:.3g} ({mean_error:.1g}) a round, of the best point {best:.2g} ({best_error:.1g})"


def two(quick: bool, seeds: Sequence[int] | None = None) -> Iterator[Line]:
    """200 rounds on the noisy RKHS problem, seeds 0 to 7 if not given.

    Regret is a fraction of uniform play's; its standard error over seeds in brackets.
    """
    rounds, seeds = (20, (seeds or [0, 1])[:2]) if quick else (200, seeds or range(8))
    grid = sb.Grid([[0, 1]] * 2, 100).points()
    spread = [noisy(seed).optimum() - noisy(seed).evaluate(grid).mean() for seed in seeds]
    own: dict[str, Peer] = {
        "GP-UCB, scale=20, refit=10": upper_bound,
        "GP-EI, refit=10": functools.partial(ours, noise=3**-0.5),
        "GP-UCB, scale=20, kernel known": known_kernel,
    }
    seconds, fractions = {}, {}
    for peer in (*own.values(), scikit_optimize, optuna, bayesian_optimization):
        play(peer, noisy(0), 16, 0)  # imports and compiles
        runs = [play(peer, noisy(seed), rounds, seed) for seed in seeds]
        seconds[peer] = np.mean([s for s, _ in runs])
        fractions[peer] = np.array([r.mean() for _, r in runs]) / spread

    def shown(peer: Peer) -> str:
        error = fractions[peer].std(ddof=1) / len(seeds) ** 0.5 if len(seeds) > 1 else np.nan
        return f"{seconds[peer]:.2f} s, regret {fractions[peer].mean():.3f} ({error:.3f})"

    others = [peer for peer in seconds if peer not in own.values()]
    fastest = min(seconds[peer] for peer in others)
    best = min(others, key=lambda peer: fractions[peer].mean())
    for name, peer in own.items():
        yield Line(
            f"noisy RKHS function on a square, {rounds} rounds, seeds {seeds[0]} to {seeds[-1]}, {name}", shown(peer),
            f"fastest {fastest:.1f} s; less regret than {best.__name__} on "
            f"{(fractions[peer] < fractions[best]).sum()} of {len(seeds)}",
            f"{fastest / seconds[peer]:.0f}", "> 10, regret of the best",
        )  # fmt: skip
    for peer in others:
        yield Line(f"... {peer.__name__}", "", shown(peer), "", "")


def searches(quick: bool) -> Iterator[Line]:
    """The largest index, against a million points."""
    for dimension in (2, 3, 6):
        rng, gaps, seconds, used = np.random.default_rng(dimension), [], [], []
        for seed in range(2 if quick else 10):
            engine = BoxEngine(sb.Matern(0.3 * (dimension / 2) ** 0.5, nu=2.5), dimension, constant_mean(0.0))
            engine.points = rng.random((20 * dimension, dimension))
            for i, y in enumerate(rng.standard_normal(20 * dimension)):
                engine.observe(i, float(y), 0.1)
            surface, index = engine.surface(), UpperConfidence(2.0)
            took, top = timed(
                functools.partial(maximize_over_box, surface, index, np.array([[0.0, 1.0]] * dimension), seed)
            )
            every = sb.Box([[0, 1]] * dimension).candidates(2**10 if quick else 2**20, seed + 1).array
            most = max(index(*surface.predict(every[i : i + 2**14])).max() for i in range(0, len(every), 2**14))
            gaps.append(most - top.value)
            seconds.append(took)
            used.append(top.evaluations)
        what = f"largest index in {dimension} dimensions, {np.mean(used):.0f} points"
        yield Line(what, f"{np.median(seconds) * 1e3:.1f} ms", f"of 10^6 points {max(gaps):+.1e}", "", "< 1e-6")


def learning(quick: bool) -> Iterator[Line]:
    """Hyperparameters, as likely as scikit-learn's from as many starts."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels

    for dimension, count in ((2, 60), (3, 150), (6, 300)):
        rng = np.random.default_rng(dimension)
        x = rng.random((count // 4 if quick else count, dimension))
        y = np.sin(5 * x[:, 0]) + 2 * np.cos(3 * x[:, -1]) + 0.1 * rng.standard_normal(len(x))
        theirs = kernels.ConstantKernel(1.0, (1e-4, 1e4)) * kernels.Matern(np.ones(dimension), (1e-4, 1e4), nu=2.5)
        model = GaussianProcessRegressor(theirs, alpha=0.01, n_restarts_optimizer=4, random_state=0)
        begin = 1.0 * sb.Matern(np.ones(dimension), nu=2.5)
        sb.learn_kernel(begin, x[:5], y[:5], 0.01)  # compiles
        seconds, found = timed(functools.partial(sb.learn_kernel, begin, x, y, 0.01))
        other, _ = timed(functools.partial(model.fit, x, y))
        gap = found.log_likelihood - model.log_marginal_likelihood_value_
        yield Line(
            f"{dimension} lengthscales of {len(x)} points, 5 starts", f"{seconds:.2f} s, log likelihood {gap:+.1e}",
            f"scikit-learn {other:.2f} s", f"{other / seconds:.1f}", "> 1, not below",
        )  # fmt: skip


def boxes(quick: bool, seeds: Sequence[int] | None = None) -> Iterator[Line]:
    """Boxes: the maximiser, learned kernels, and whole runs against other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from searches(quick)
        yield from learning(quick)
        yield from two(quick, seeds)
        yield from six(quick, seeds)
