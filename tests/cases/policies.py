"""Every policy with the oracle's width or index, and the problems to play them on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from naive import drifting
from naive import kernels as naive_kernels
from naive import policies as naive
from naive.additive import AdditiveGP
from naive.gp import GP

import scalable_bandits as sb

NOISE, REGULARIZATION, DELTA, NORM = 0.2, 0.05, 0.1, 0.8
SHARED = {"noise": NOISE, "regularization": REGULARIZATION, "delta": DELTA, "seed": 3}


class Problem(NamedTuple):
    """A space, its kernel and the oracle's, and the largest side for Theorem 2 (None where it has none)."""

    space: sb.Points | sb.Grid | sb.Arms | sb.Box
    kernel: sb.Kernel
    oracle: Any
    side: float | None = None
    candidates: int | None = 1024  # of a box; None: all of it

    def truth(self, x):
        """f at one point, for observations with real noise."""
        x = np.ravel(x)
        return float(np.sin(5 * x[0]) + np.cos(3 * x[-1]))


def _arm_covariance():
    factor = np.random.default_rng(0).standard_normal((90, 30))
    return factor @ factor.T / 30 + 0.1 * np.eye(90)


PROBLEMS = {
    "grid": Problem(sb.Grid([[0, 1], [0, 2]], (14, 12)), sb.RBF([0.2, 0.5]), naive_kernels.rbf((0.2, 0.5)), side=2.0),
    "points": Problem(
        sb.Points(np.random.default_rng(1).random((160, 2))), sb.Matern(0.3, nu=1.5), naive_kernels.matern32(0.3)
    ),
    "arms": Problem(sb.Arms(90), sb.Covariance(_arm_covariance()), naive_kernels.covariance(_arm_covariance())),
    "box": Problem(
        sb.Box([[0, 1], [-1, 0.5]]),
        2.0 * sb.Matern(0.4, nu=2.5),
        naive_kernels.scaled(2.0, naive_kernels.matern52(0.4)),
        side=1.5,
        candidates=100,
    ),
    "whole box": Problem(
        sb.Box([[0, 1], [-1, 0.5]]),
        2.0 * sb.Matern(0.4, nu=2.5),
        naive_kernels.scaled(2.0, naive_kernels.matern52(0.4)),
        side=1.5,
        candidates=None,
    ),
}
for name in ("grid", "whole box"):  # with a kernel of few features
    bounds = tuple(map(tuple, np.array(PROBLEMS[name].space.bounds).tolist()))
    PROBLEMS[f"{name}, features"] = PROBLEMS[name]._replace(
        kernel=2.0 * sb.SphericalLinear(bounds, [1.0, 0.7]),
        oracle=naive_kernels.scaled(2.0, naive_kernels.spherical(bounds, (1.0, 0.7), 2**0.5)),
    )


class Case(NamedTuple):
    """A policy, and the oracle's width (of a policy that has one) and index before a round."""

    kind: type
    arguments: dict
    width: Callable | None = None
    index: Callable | None = None
    oracle: Callable = GP  # posterior from kernel, points and prior mean
    epsilon: float = 0.0  # that the kernel forgets
    priors: Callable | None = None  # from the kernel to several priors, for a policy that takes them
    finite: bool = False  # whether the policy takes finite spaces only
    coordinates: bool = False  # whether the policy takes spaces with coordinates only
    started: bool = False  # whether the policy has a safe start: every fifth candidate

    def make(self, problem, **arguments):
        candidates = {"candidates": problem.candidates} if isinstance(problem.space, sb.Box) else {}
        kernel = problem.kernel * sb.TemporalDecay(self.epsilon) if self.epsilon else problem.kernel
        prior = kernel if self.priors is None else self.priors(kernel)
        if self.started:
            arguments = {"safe_start": problem.space.points(np.arange(0, problem.space.size, 5)), **arguments}
            arguments["threshold"] = 1e3 if arguments.get("minimize") else -1e3  # beyond all values
        return self.kind(problem.space, prior, **{**SHARED, **self.arguments, **candidates, **arguments})

    def indices(self, known, problem):
        """Index of every candidate; `known` is the oracle's `Bandit`, `problem` the space's size and side."""
        if self.width is not None:
            return naive.upper_confidence(known.mean, known.std, self.width(known, problem))
        return self.index(known)


def _size(known, problem):
    return problem.candidates if isinstance(problem.space, sb.Box) else problem.space.size


def _gpucb(theorem, scale):
    def width(known, problem):
        if theorem == 1:
            return naive.gpucb_width1(known.t, _size(known, problem), DELTA, scale)
        if theorem == 2:
            return naive.gpucb_width2(known.t, 2, problem.side, DELTA, 1.3, 0.9, scale)
        return naive.gpucb_width3(known.t, known.gain, NORM, DELTA, scale)

    arguments = {"theorem": theorem, "scale": scale, "rkhs_norm": NORM, "constants": (1.3, 0.9)}
    return Case(sb.GPUCB, arguments, width)


CASES = {
    "gpucb-1": _gpucb(1, 1.0),
    "gpucb-1-scaled": _gpucb(1, 5.0),
    "gpucb-2": _gpucb(2, 1.0),
    "gpucb-2-scaled": _gpucb(2, 20.0),
    "gpucb-3": _gpucb(3, 1.0),
    "gpucb-3-scaled": _gpucb(3, 5000.0),
    "igpucb": Case(
        sb.IGPUCB, {"rkhs_norm": NORM}, lambda known, problem: naive.igpucb_width(known.gain, NORM, NOISE, DELTA)
    ),
    "irgpucb": Case(
        sb.IRGPUCB, {}, lambda known, problem: naive.irgpucb_width(known.t, _size(known, problem), SHARED["seed"])
    ),
    "bkb": Case(
        sb.BKB,
        {"rkhs_norm": NORM, "oversampling": np.inf},
        lambda known, problem: naive.igpucb_width(known.gain, NORM, NOISE, DELTA),
    ),
    "ei": Case(sb.GPEI, {}, index=lambda known: naive.expected_improvement(known.mean, known.std, known.incumbent)),
    "ei-xi": Case(
        sb.GPEI,
        {"xi": 0.3},
        index=lambda known: naive.expected_improvement(known.mean, known.std, known.incumbent, 0.3),
    ),
    "ei-observation": Case(
        sb.GPEI,
        {"incumbent": "observation"},
        index=lambda known: naive.expected_improvement(
            known.mean, known.std, known.incumbent if known.largest_y is None else known.largest_y
        ),
    ),
    "pi": Case(
        sb.GPPI, {}, index=lambda known: naive.improvement_probability(known.mean, known.std, known.incumbent, 0.01)
    ),
    "pi-xi": Case(
        sb.GPPI,
        {"xi": 0.3},
        index=lambda known: naive.improvement_probability(known.mean, known.std, known.incumbent, 0.3),
    ),
    "mean": Case(sb.MeanOnly, {}, index=lambda known: known.mean),
    "variance": Case(sb.VarianceOnly, {}, index=lambda known: known.std),
}

# Policies whose index is an improvement over the maximum of a sample path, which the oracle takes from them.
OVER_A_PATH = {
    "pims": Case(
        sb.PIMS, {}, index=lambda known: naive.improvement_score(known.mean, known.std, known.highest_of_path)
    ),
    "psei": Case(
        sb.PSEI, {}, index=lambda known: naive.expected_improvement(known.mean, known.std, known.highest_of_path)
    ),
}

DRAWN = {
    "ts": Case(sb.GPTS, {"rkhs_norm": NORM}),
    **OVER_A_PATH,
    "random": Case(sb.RandomSearch, {}),
    "arms-ts": Case(sb.IndependentTS, {"prior_std": 1.5}, finite=True),
}

# Policies that learn each arm by itself, and do not draw.
ARMS = {
    "ucb1": Case(sb.UCB1, {}, finite=True),
    "rejects": Case(sb.SuccessiveRejects, {"horizon": 250}, finite=True),
}

PHASED = {
    "supkernel": Case(sb.SupKernelUCB, {"rkhs_norm": NORM, "horizon": 200}),
    "elimination": Case(sb.PhasedElimination, {"rkhs_norm": 0.1, "horizon": 100}),
    "duets": Case(sb.DUETS, {"rkhs_norm": 0.1, "horizon": 100}),
}


def _forgetting(oracle, how):
    """Maker of an oracle that forgets, from kernel, points and prior mean."""
    return lambda kernel, points, prior_mean=0.0: oracle(kernel, points, how, prior_mean)


def _decaying(kind, arguments=(), width=None, index=None, epsilon=0.05):
    return Case(kind, dict(arguments), width, index, _forgetting(drifting.TimedGP, epsilon), epsilon)


def _limited(kind, arguments, oracle, how, width=None):
    width = width or (lambda known, problem: naive.igpucb_width(known.gain, NORM, NOISE, DELTA))
    return Case(kind, {"rkhs_norm": NORM, **arguments}, width, oracle=_forgetting(oracle, how))


def _event_triggered(probability):
    """Case with a reset probability; the oracle knows a measurement's own noise by its variance."""

    def bound(t, std, noise_variance):
        noise = NOISE * np.sqrt(noise_variance / REGULARIZATION)
        return naive.event_triggered_bound(t, std, noise, probability)

    return Case(
        sb.ETGPUCB, {"reset_probability": probability, "theorem": 1, "scale": 5.0},
        lambda known, problem: naive.gpucb_width1(known.t, _size(known, problem), DELTA, 5.0),
        oracle=_forgetting(drifting.EventTriggeredGP, bound),
    )  # fmt: skip


FORGETTING = {
    "tv": _decaying(
        sb.TVGPUCB,
        {"scale": 5.0},
        lambda known, problem: naive.gpucb_width1(known.t, _size(known, problem), DELTA, 5.0),
    ),
    "tv-3": _decaying(
        sb.TVGPUCB,
        {"theorem": 3, "scale": 5000.0, "rkhs_norm": NORM},
        lambda known, problem: naive.gpucb_width3(known.t, known.gain, NORM, DELTA, 5000.0),
        epsilon=0.5,
    ),
    "ei-decay": _decaying(
        sb.GPEI, index=lambda known: naive.expected_improvement(known.mean, known.std, known.incumbent)
    ),
    "restart": _limited(sb.RGPUCB, {"memory": 13}, drifting.RestartingGP, 13),
    "restart-1": _limited(sb.RGPUCB, {"memory": 1}, drifting.RestartingGP, 1),
    "window": _limited(sb.SWGPUCB, {"memory": 9}, drifting.SlidingGP, 9),
    "window-theorem": _limited(
        sb.SWGPUCB, {"memory": 20, "width": "theorem", "horizon": 500}, drifting.SlidingGP, 20,
        lambda known, problem: naive.swgpucb_width(known.gain, NORM, NOISE, DELTA, REGULARIZATION, 500),
    ),
    "event": _event_triggered(0.1),
    "event-often": _event_triggered(0.99),
    "weighted": _limited(sb.WGPUCB, {"eta": 0.9}, drifting.WeightedGP, 0.9),
}  # fmt: skip


def _several(kernel):
    """Priors of which the last is out of the question."""
    return [
        sb.Prior("plain", kernel),
        sb.Prior("wide", 2.0 * kernel),
        sb.Prior("forgetful", kernel * sb.TemporalDecay(0.01), 0.4),
        sb.Prior("seasonal", kernel, lambda x, t: 0.2 * np.cos(x[:, 0] + t)),
        sb.Prior("off", kernel, 25.0),
    ]


UNSURE = {
    "pe": Case(sb.PEGPUCB, {}, priors=_several),
    "mle": Case(sb.MLEGPUCB, {}, priors=_several),
    "bayes": Case(sb.FullyBayesianGPUCB, {}, priors=_several),
    "balance": Case(sb.RegretBalancing, {}, priors=_several),
    "lengthscales": Case(sb.LBGPUCB, {"rkhs_norm": NORM, "initial": 2, "growth": 1.0}, coordinates=True),
}

# Policies that play a chosen point several times: the index is that of a choice.
REPEATING = {
    "mini-ucb": CASES["igpucb"]._replace(kind=sb.MiniGPUCB, arguments={"rkhs_norm": NORM, "shrinkage": 1.5}),
    "mini-ei": CASES["ei"]._replace(kind=sb.MiniGPEI, arguments={"shrinkage": 1.2}),
}


def _believing(case):
    """Policy of a case, with values drawn at pending points."""
    return case._replace(arguments={**case.arguments, "pending": "sample"})


# Policies that assume drawn values at pending points.
BELIEVING = {
    "igpucb-sample": _believing(CASES["igpucb"]),
    "ei-sample": _believing(CASES["ei"]),
    "ei-observation-sample": _believing(CASES["ei-observation"]),
    "bkb-sample": _believing(CASES["bkb"]),
    "tv-sample": _believing(FORGETTING["tv"]),
    "window-sample": _believing(FORGETTING["window"]),
}


def _groupwise(kernel, *lengthscales):
    """Parts of an additive oracle, a kernel of each of two dimensions."""
    return [(kernel(lengthscale), [k]) for k, lengthscale in enumerate(lengthscales)]


# Problems whose function is a sum over dimensions for the oracle, too.
ADDITIVE_PROBLEMS = {
    "grid": PROBLEMS["grid"]._replace(oracle=_groupwise(naive_kernels.rbf, 0.2, 0.5)),
    "points": PROBLEMS["points"]._replace(oracle=_groupwise(naive_kernels.matern32, 0.3, 0.3)),
    "box": PROBLEMS["box"]._replace(
        oracle=_groupwise(lambda scale: naive_kernels.scaled(2.0, naive_kernels.matern52(scale)), 0.4, 0.4)
    ),
}
ADDITIVE = {
    "additive": Case(sb.AddGPUCB, {"groups": [[0], [1]]}, coordinates=True),
    "additive-groups": Case(
        sb.AddGPUCB,
        {"groups": [[0], [1]], "bound": "groups"},
        index=lambda known: known.posterior.sum_of_bounds([naive.additive_width(known.t, 1)] * 2),
        oracle=AdditiveGP,
        coordinates=True,
    ),
    "additive-ts": Case(sb.AddGPTS, {"groups": [[0], [1]]}, coordinates=True),
}

# Policies that evaluate what is known to be safe: here all, once the model or an observation says so.
SAFE = {
    "safe": Case(sb.SafeOpt, {"rkhs_norm": NORM}, finite=True, started=True),
    "safe-stages": Case(sb.StageOpt, {"rkhs_norm": NORM, "epsilon": 0.5, "stage": 20}, finite=True, started=True),
    "safe-lipschitz": Case(
        sb.LoSBO, {"lipschitz": 5.0, "noise_bound": NOISE}, finite=True, coordinates=True, started=True
    ),
}

EVERY_POLICY = {
    **{name: CASES[name] for name in CASES if name != "gpucb-2-scaled"}, **DRAWN, **PHASED, **FORGETTING,
    **UNSURE, **REPEATING, **ARMS, **BELIEVING, **ADDITIVE, **SAFE,
}  # fmt: skip

every_policy = pytest.mark.parametrize("name", EVERY_POLICY)


def on(spaces, cases):
    """Parametrise by policy and space, without Theorem 2 where a space has no sides, or spaces it refuses."""
    fitting = [
        (name, space)
        for name in cases
        for space in spaces
        if cases[name].arguments.get("theorem") != 2 or PROBLEMS[space].side is not None
        if cases[name].arguments.get("theorem") != 1 or PROBLEMS[space].candidates is not None
        if not (cases[name].finite and isinstance(PROBLEMS[space].space, sb.Box))
        if not (cases[name].coordinates and isinstance(PROBLEMS[space].space, sb.Arms))
    ]
    return pytest.mark.parametrize(("name", "space"), fitting)
