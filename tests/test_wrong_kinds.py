"""An argument of a wrong kind is refused by its name, wherever a user may hand one in: nothing fails further down."""

import inspect
import math
import re
import tempfile

import attrs
import matplotlib as mpl
import numpy as np
import pytest

import scalable_bandits as sb

mpl.use("Agg")

GRID, KERNEL = sb.Grid([[0, 1]], 5), sb.RBF(0.3)
DRIFTING = KERNEL * sb.TemporalDecay(0.1)
PRIORS = [sb.Prior("a", KERNEL), sb.Prior("b", KERNEL, 1.0)]
TABLE = sb.TableEnvironment(GRID, np.arange(5.0), sb.GaussianNoise(0.1))
SQUARE = sb.Grid([[0, 1], [0, 1]], 5)


def fresh():
    return sb.IGPUCB(GRID, KERNEL)


def told():
    policy = sb.PEGPUCB(GRID, PRIORS)
    return policy, sb.simulate(policy, TABLE, 5)


RUN = sb.simulate(fresh(), TABLE, 20)
UNSURE, UNSURE_RUN = told()
PARTITIONED = sb.PiGPUCB(SQUARE, sb.Matern(0.3), horizon=10)
COVERAGE = sb.analysis.coverage(fresh(), TABLE, RUN)
TIMES = sb.analysis.time_rounds(fresh(), TABLE, 5)
POLICY = {"space": GRID, "kernel": KERNEL}
FOLDER = tempfile.TemporaryDirectory()
POOL = sb.Pool.write(f"{FOLDER.name}/pool.zarr", GRID.points(), progress=False)

# What is called, with arguments that are fine, and the names of those that may be anything.
CALLS = {
    **{name: (kind, POLICY, ()) for name, kind in vars(sb.policies).items() if isinstance(kind, type)
       and issubclass(kind, sb.policies.Policy) and kind is not sb.policies.Policy},  # below: those that need others
    **{name: (getattr(sb, name), POLICY, ("kernel",)) for name in ("RandomSearch", "UCB1", "IndependentTS")},
    "SuccessiveRejects": (sb.SuccessiveRejects, {**POLICY, "horizon": 10}, ("kernel",)),
    "SupKernelUCB": (sb.SupKernelUCB, {**POLICY, "horizon": 10}, ()),
    "PhasedElimination": (sb.PhasedElimination, {**POLICY, "horizon": 10}, ()),
    "DUETS": (sb.DUETS, {**POLICY, "horizon": 10}, ()),
    **{name: (getattr(sb, name), {**POLICY, "groups": [[0]]}, ()) for name in ("AddGPUCB", "AddGPTS")},
    "SafeOpt": (sb.SafeOpt, {**POLICY, "threshold": 0.0, "safe_start": [0.5]}, ()),
    "StageOpt": (sb.StageOpt, {**POLICY, "threshold": 0.0, "safe_start": [0.5], "stage": 3}, ()),
    "LoSBO": (
        sb.LoSBO, {**POLICY, "threshold": 0.0, "safe_start": [0.5], "lipschitz": 1.0, "noise_bound": 0.1}, ()
    ),
    "PartitionedUCB": (sb.PartitionedUCB, {"space": POOL, "kernel": KERNEL}, ()),
    "GPEHVI": (sb.GPEHVI, {"space": GRID, "objectives": ["f", "g"]}, ()),
    "HypervolumeUCB": (sb.HypervolumeUCB, {"space": GRID, "objectives": ["f", "g"]}, ()),
    "ConstrainedGPEI": (sb.ConstrainedGPEI, {"space": GRID, "constraints": {"g": sb.AtMost(0.0)}}, ()),
    "CONFIG": (sb.CONFIG, {**POLICY, "constraints": {"g": sb.AtMost(0.0)}}, ()),
    "CKB": (sb.CKB, {**POLICY, "constraints": {"g": sb.AtMost(0.0)}, "horizon": 9, "rho": 1.0}, ()),
    "Pool": (sb.Pool, {"path": POOL.path}, ()),
    "RGPUCB": (sb.RGPUCB, {**POLICY, "memory": 3}, ()),
    "SWGPUCB": (sb.SWGPUCB, {**POLICY, "memory": 3}, ()),
    "TVGPUCB": (sb.TVGPUCB, {"space": GRID, "kernel": DRIFTING}, ()),
    "PiGPUCB": (sb.PiGPUCB, {"space": GRID, "kernel": sb.Matern(0.3)}, ()),
    **{name: (getattr(sb, name), {"space": GRID, "priors": PRIORS}, ()) for name in (
        "PEGPUCB", "MLEGPUCB", "FullyBayesianGPUCB", "RegretBalancing"
    )},
    "Box": (sb.Box, {"bounds": [[0, 1]]}, ()),
    "Box.candidates": (sb.Box([[0, 1]]).candidates, {"count": 3}, ()),
    "Grid": (sb.Grid, {"bounds": [[0, 1]], "shape": 3}, ()),
    "Grid.index": (GRID.index, {"x": [0.0]}, ()),
    "Grid.matching": (GRID.matching, {"context": {0: 0.5}}, ()),
    "Points": (sb.Points, {"array": [[0.0], [1.0]]}, ()),
    "Arms": (sb.Arms, {"count": 2}, ()),
    **{name: (getattr(sb, name), {}, ()) for name in ("RBF", "Matern", "RationalQuadratic", "Periodic", "Linear")},
    "SphericalLinear": (sb.SphericalLinear, {"bounds": [[0, 1]]}, ()),
    "Scaled": (sb.kernels.base.Scaled, {"kernel": KERNEL, "factor": 2.0}, ()),
    "Covariance": (sb.Covariance, {"matrix": np.eye(2)}, ()),
    "TemporalDecay": (sb.TemporalDecay, {"epsilon": 0.1}, ()),
    "Kernel.block": (KERNEL.block, {"X": [[0.0]]}, ()),
    **{name: (getattr(sb, name), {}, ()) for name in (
        "GaussianNoise", "UniformNoise", "RademacherNoise", "StudentTNoise"
    )},
    "Prior": (sb.Prior, {"name": "a", "kernel": KERNEL}, ()),
    "prior_from_panel": (sb.prior_from_panel, {"readings": [[0.0, 1.0], [2.0, 1.5], [1.0, 1.0]]}, ()),
    "LogNormal": (sb.LogNormal, {"median": 1.0}, ()),
    "learn_kernel": (
        sb.learn_kernel, {"kernel": KERNEL, "x": [0.0, 1.0], "y": [0.0, 1.0], "noise_variance": 0.1}, ()
    ),
    "TableEnvironment": (sb.TableEnvironment, {"space": GRID, "values": np.zeros(5)}, ()),
    "FunctionEnvironment": (sb.FunctionEnvironment, {"space": GRID, "function": math.fsum}, ()),
    "RKHSFunction": (
        sb.RKHSFunction, {"space": GRID, "kernel": KERNEL, "centers": [[0.1]], "weights": [1.0]}, ()
    ),
    "RKHSFunction.sparse": (sb.RKHSFunction.sparse, POLICY, ()),
    "RKHSFunction.posterior_mean": (sb.RKHSFunction.posterior_mean, POLICY, ()),
    "AdditiveFunction": (sb.AdditiveFunction, {"space": GRID, "terms": [TABLE], "groups": [[0]]}, ()),
    "AdditiveFunction.sparse": (sb.AdditiveFunction.sparse, POLICY, ()),
    "GPSample": (sb.GPSample, POLICY, ()),
    "Benchmark": (sb.Benchmark, {"name": "forrester"}, ()),
    "DriftingFunction": (
        sb.DriftingFunction,
        {"space": GRID, "kernel": KERNEL, "centers": [[0.1]], "weights": [[1.0]], "knots": [1]},
        (),
    ),
    "DriftingFunction.sparse": (sb.DriftingFunction.sparse, {**POLICY, "knots": [1, 5]}, ()),
    "AutoregressiveProcess": (sb.AutoregressiveProcess, {"space": GRID, "kernel": DRIFTING}, ()),
    "SensorPanel": (sb.SensorPanel, {"readings": np.zeros((3, 2))}, ()),
    "ContextualEnvironment": (
        sb.ContextualEnvironment, {"environment": TABLE, "dimensions": [0], "contexts": [0.5, 1.0]}, ()
    ),
    "LoggedRounds": (sb.LoggedRounds, {
        "choices": [[0.0]], "rewards": [1.0], "contexts": {0: [0.0]}, "available": [[0]], "propensities": [1.0]
    }, ()),
    "replay": (sb.replay, {"policy": fresh(), "log": sb.LoggedRounds([[0.0]], [1.0])}, ()),
    "MovingSearchSpace": (sb.MovingSearchSpace, {"environment": TABLE, "available": np.ones((2, 5), bool)}, ()),
    "Environment.optimum": (TABLE.optimum, {"t": 1, "available": None}, ("t",)),
    "Environment.mean": (TABLE.mean, {"x": [0.0]}, ()),
    "Environment.observe": (TABLE.observe, {"x": [0.0]}, ()),
    "Environment.set_noise": (TABLE.set_noise, {"noise": TABLE.noise}, ()),
    "GreedyInformationGain": (sb.GreedyInformationGain, {**POLICY, "regularization": 1.0}, ()),
    "growth_rate": (sb.growth_rate, {"kernel": KERNEL, "t": 10, "dimension": 1}, ()),
    "improved_matern_rate": (sb.improved_matern_rate, {"nu": 1.5, "t": 10, "dimension": 1}, ()),
    "cells_rate": (sb.cells_rate, {"nu": 1.5, "t": 10, "dimension": 1}, ()),
    "cell_gain_rate": (sb.cell_gain_rate, {"t": 10}, ()),
    "partition_exponents": (sb.partition_exponents, {"nu": 1.5, "dimension": 1}, ()),
    "partition_regret_exponent": (sb.partition_regret_exponent, {"nu": 1.5, "dimension": 1}, ()),
    "ask": (fresh().ask, {}, ()),
    "tell": (fresh().tell, {"x": [0.0], "y": 1.0}, ()),
    "posterior": (fresh().posterior, {"x": [0.0]}, ()),
    "abandon": (fresh().abandon, {}, ()),
    "posterior of a prior": (UNSURE.posterior, {"x": [0.0]}, ()),
    "simulate": (
        sb.simulate, {"policy": fresh(), "environment": TABLE, "horizon": 2}, ("progress", "store", "durability")
    ),
    **{name: (
        getattr(sb, name), {"function": math.fsum, "space_or_policy": fresh(), "budget": 2}, ("store", "durability")
    ) for name in ("minimize", "maximize")},
    "tell_failure": (fresh().tell_failure, {"x": [0.0]}, ()),
    "RegretBelow": (sb.RegretBelow, {"eps": 0.1}, ()),
    "NoImprovement": (sb.NoImprovement, {"k": 3}, ()),
    "Deadline": (sb.Deadline, {"seconds": 3.0}, ()),
    "Command": (sb.Command, {"command": "true"}, ()),
    "Trajectory.curve": (RUN.curve, {}, ("log",)),
    "spread": (sb.analysis.spread, {"values": [1.0, 2.0]}, ()),
    "exponent": (sb.analysis.exponent, {"x": np.arange(1, 21), "values": np.ones((1, 20)).cumsum(1)}, ()),
    "index_of": (sb.analysis.index_of, {"policy": fresh(), "points": GRID.points()}, ("points",)),
    "coverage": (sb.analysis.coverage, {"policy": fresh(), "environment": TABLE, "run": RUN}, ()),
    "plays_over_rounds": (sb.analysis.plays_over_rounds, {"policy": UNSURE, "run": UNSURE_RUN}, ()),
    "time_rounds": (sb.analysis.time_rounds, {"policy": fresh(), "environment": TABLE, "horizon": 3}, ()),
    "lattice": (sb.analysis.lattice, {"policy": fresh(), "side": 5}, ()),
    "plots.regret_curves": (sb.plots.regret_curves, {"result": RUN}, ("case", "log", "fit")),
    "plots.posterior": (sb.plots.posterior, {"policy": fresh()}, ()),
    "plots.index": (sb.plots.index, {"policy": fresh()}, ()),
    "plots.partition": (
        sb.plots.partition,
        {"policy": PARTITIONED, "environment": sb.Benchmark("cosines", SQUARE)},
        ("candidates",),
    ),
    "plots.prior_timeline": (sb.plots.prior_timeline, {"policy": UNSURE}, ()),
    "plots.coverage": (sb.plots.coverage, {"found": COVERAGE}, ()),
    "plots.time_per_round": (sb.plots.time_per_round, {"found": TIMES}, ("case",)),
}  # fmt: skip


def arguments(name):
    """What is checked: of a policy, its own arguments, those of all are IGPUCB's."""
    function, _, anything = CALLS[name]
    taken = set(inspect.signature(function).parameters) - set(anything)
    if inspect.isclass(function) and issubclass(function, sb.policies.Policy) and name != "IGPUCB":
        return {field.name for field in attrs.fields(function) if not field.inherited} & taken
    return taken


@pytest.mark.filterwarnings("ignore:PiGPUCB's guarantee")
@pytest.mark.parametrize("name", CALLS)
def test_refused_by_name(name):
    """ValueError, or TypeError for an object of another class; what the table calls fine is."""
    function, fine, _ = CALLS[name]
    for argument in arguments(name):
        with pytest.raises((ValueError, TypeError), match=rf"(?s)^{re.escape(argument)}: got .*; allowed: "):
            function(**{**fine, argument: object()})
    if name in ("simulate", "time_rounds"):
        fine = {**fine, "policy": fresh()}
    if name in ("minimize", "maximize"):
        fine = {**fine, "function": lambda x: 0.0, "space_or_policy": fresh()}
    function(**fine)


NAN, INF = math.nan, math.inf
BAD_SCALES = (0.0, -1.0, NAN, INF)
BAD_LENGTHS = (*BAD_SCALES, [1.0, 0.0], [1.0, NAN], [], [[1.0]], "short", None)
BAD_GAINS = ("nonsense", -1.0, NAN, INF, None, [1.0])
BAD_SETS = ([], [9], [-1], [0.5], [True, False], [False] * 5, np.zeros((5, 1), dtype=bool))
INVALID = {  # values of the right kind, or nearly so
    "IGPUCB": {
        "noise": (*BAD_SCALES, "loud", [1.0, 2.0]), "regularization": (*BAD_SCALES, "some"), "rkhs_norm": BAD_SCALES,
        "delta": (0.0, 1.0, -0.1, 1.1, NAN, "small", None), "horizon": (0, -1, 2.5, True, NAN, "long"),
        "seed": (-1, 2**64, 1.5, "x", None), "candidates": (0, -1, 2.5, True, "many"),
        "engine": ("fast", "", None, 3), "information_gain": BAD_GAINS,
        "prior_mean": (
            NAN, INF, "zero", np.zeros(3), np.zeros((5, 1)), [NAN] * 5, lambda points: NAN * points[:, 0],
            lambda points: np.zeros((len(points), 2)), lambda points: np.zeros(7),
        ),
    },
    "GPTS": {"rkhs_norm": BAD_SCALES, "information_gain": BAD_GAINS},
    "GPUCB": {
        "rkhs_norm": BAD_SCALES, "information_gain": BAD_GAINS, "scale": BAD_SCALES,
        "constants": ((1.0,), (0.0, 1.0), (1.0, -1.0), (1.0, NAN), 3.0),
    },
    **{name: {"xi": (-0.1, NAN, INF)} for name in ("GPEI", "GPPI")},
    "SafeOpt": {
        "threshold": (NAN, INF, "low", None), "safe_start": (0.1, NAN, [], [0.5, 0.1], [[0.0, 0.5]], "start", None),
        "rkhs_norm": (*BAD_SCALES, "double"), "width": (*BAD_SCALES, "two"), "lipschitz": (*BAD_SCALES, "steep"),
        "information_gain": BAD_GAINS, "confidence": ("wide", None),
    },
    "StageOpt": {"epsilon": (*BAD_SCALES, "small"), "stage": (0, 2.5, True, "long")},
    "CONFIG": {
        "rkhs_norm": (*BAD_SCALES, "double"), "rkhs_norms": ({"g": 0.0}, {"f": 1.0}, [1.0], None),
        "noises": ({"g": NAN}, {"f": 1.0}, "low"), "kernels": ({"f": KERNEL}, KERNEL, None), "objective": ("g", 3),
        "information_gain": BAD_GAINS, "confidence": ("wide", None), "constraints": ({}, {3: sb.AtMost(1.0)}, None),
    },
    "CKB": {"rho": (*BAD_SCALES, "high", None), "horizon": (0, 2.5, True, None)},
    "LoSBO": {"lipschitz": (*BAD_SCALES, None), "noise_bound": (-1.0, NAN, INF, "none", None)},
    "RBF": {"lengthscale": BAD_LENGTHS},
    "Matern": {"lengthscale": BAD_LENGTHS, "nu": (0.0, -1.5, NAN, "rough")},
    "RationalQuadratic": {"lengthscale": BAD_LENGTHS, "alpha": BAD_SCALES},
    "Periodic": {"lengthscale": BAD_LENGTHS, "period": BAD_SCALES},
    "Linear": {"lengthscale": BAD_LENGTHS, "bias": (-1.0, NAN, INF)},
    "SphericalLinear": {
        "bounds": ([[1.0, 0.0]], [0.0, 1.0], [[0.0, NAN]]), "lengthscale": BAD_LENGTHS, "radius": BAD_SCALES,
        "bias": (-1.0, NAN, INF),
    },
    "Scaled": {"factor": BAD_SCALES},
    "Covariance": {"matrix": (
        [[1.0, 2.0], [2.0, 1.0]], [[-1.0]], [[1.0, 0.5], [0.4, 1.0]], np.ones((2, 3)), np.ones((0, 0)), np.ones(4),
        [[1.0, NAN], [NAN, 1.0]], [["a"]],
    )},
    "TableEnvironment": {"values": ([1.0, 2.0], [1.0, NAN, 2.0, 0.0, 0.0], [INF] * 5, [[1.0] * 5], "abc", 3.0, None)},
    "RKHSFunction": {
        "centers": ([[0.0], [NAN]], [[0.0, 1.0]]), "weights": ([NAN], [INF], [1.0, 2.0], [[1.0, 2.0]]),
    },
    "Environment.optimum": {"available": BAD_SETS},
    **{name: {"scale": (-1.0, NAN, INF)} for name in ("GaussianNoise", "RademacherNoise")},
    "UniformNoise": {"half_width": (-1.0, NAN, INF)},
    "StudentTNoise": {"df": (1.0, 0.0, -3.0, NAN), "scale": (-1.0, NAN, INF)},
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_values(name):
    """The message names the argument."""
    function, fine, _ = CALLS[name]
    for argument, values in INVALID[name].items():
        said = "(centers|X|Z)" if argument == "centers" else argument
        for value in values:
            with pytest.raises((ValueError, TypeError), match=rf"(?s)^{said}: got .*; allowed: "):
                function(**{**fine, argument: value})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sb.RKHSFunction.sparse(GRID, KERNEL, count=0), "count: got 0; allowed: a positive integer"),
        (lambda: sb.RKHSFunction.posterior_mean(GRID, KERNEL, regularization=0.0), "regularization: got 0.0; allowed"),
        (lambda: sb.DriftingFunction.sparse(GRID, KERNEL, knots=[]), r"knots: got \[\]; allowed: increasing rounds"),
        (lambda: sb.DriftingFunction.sparse(GRID, KERNEL, knots=[1], rkhs_norm=-1.0), "rkhs_norm: got -1.0; allowed"),
        (lambda: TABLE.observe([0.0], 0), "t: got 0; allowed: a positive integer"),
        (lambda: sb.analysis.spread([1.0, 2.0], level=1.0), "level: got 1.0; allowed: a number between 0 and 1"),
        (lambda: sb.plots.prior_histogram(RUN.dataset()), "result: got 'study None'; allowed: a study with policies"),
        (lambda: sb.PiGPUCB(GRID, sb.Matern(0.3, nu=1.5), prior_mean=[1.0, 2.0]), "prior_mean: got .*a finite number"),
        (lambda: sb.Prior("a", KERNEL, lambda x: x), r"mean: got 'a function of \(x\)'; .*\(points, t\) \(prior 'a'\)"),
        (lambda: sb.GPEI(GRID, KERNEL, prior_mean=lambda x, t: x), r"prior_mean: got .*\(x, t\)'; .*of \(points\)"),
        (lambda: sb.IGPUCB(GRID, KERNEL, information_gain="all"), "information_gain: got .*the number of observations"),
        (lambda: KERNEL.block([]), r"X: got 'an array of shape \(0,\)'; allowed: .*at least one point"),
        (lambda: sb.improved_matern_rate(1.0, 10, 1), "nu: got 1.0; allowed: a number above 1"),
        (lambda: sb.growth_rate(KERNEL, 10, 0), "dimension: got 0; allowed: a positive integer"),
    ],
)
def test_values(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("IGPUCB", "noise"), ("IGPUCB", "regularization"), ("IGPUCB", "delta"), ("IGPUCB", "rkhs_norm"),
        ("GPUCB", "scale"), ("GPEI", "xi"), ("BKB", "oversampling"), ("PiGPUCB", "rkhs_norm"), ("PiGPUCB", "nu"),
        ("PEGPUCB", "delta"), ("Matern", "nu"), ("RationalQuadratic", "alpha"), ("TemporalDecay", "epsilon"),
        ("GaussianNoise", "scale"), ("LogNormal", "spread"),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_number(name, argument):
    """Texts and truth values."""
    function, fine, _ = CALLS[name]
    for value in ("0.5", True, np.True_, b"0.5", 10**400):
        with pytest.raises(ValueError, match=rf"^{argument}: got .*; allowed: .*number"):
            function(**{**fine, argument: value})


@pytest.mark.parametrize(
    "value",
    ["0.5", ["0.5"], [["0.5"]], np.array(["0.5"]), np.array(["0.5"], dtype=object), [10**400]],
    ids=lambda value: str(value)[:9],
)
def test_text_among_points(value):
    for call, argument in (
        (lambda: fresh().tell(value, 1.0), "x"),
        (lambda: fresh().tell([0.5], value), "y"),
        (lambda: fresh().posterior(value), "x"),
        (lambda: sb.Points(value), "array"),
        (lambda: sb.RBF(value), "lengthscale"),
    ):
        with pytest.raises(ValueError, match=rf"^{argument}: got .*; allowed: "):
            call()


def test_theorem_regularization_is_not_overridden():
    with pytest.raises(ValueError, match=r"^regularization: got 0\.3; allowed: no value: theory=True sets"):
        sb.PiGPUCB(SQUARE, sb.Matern(0.3), theory=True, horizon=100, regularization=0.3)
    policy = sb.PiGPUCB(SQUARE, sb.Matern(0.3), theory=True, horizon=100)
    assert policy.regularization == 1.02
    assert sb.PiGPUCB(**policy.parameters()).regularization == 1.02


@pytest.mark.filterwarnings("ignore:PiGPUCB's guarantee")
@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: sb.Covariance(np.eye(2)).slope(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)), None), "kernel"),
        (lambda: sb.Covariance(np.eye(2)).diagonal_slope(np.zeros((1, 1))), "kernel"),
        (lambda: sb.RBF([0.1, 0.2]).check(3), "lengthscale"),
        (lambda: sb.GreedyInformationGain(DRIFTING, GRID, 1.0), "kernel"),
        (lambda: sb.Grid([[0, 1]], 2**62), "shape"),
        (lambda: GRID.parse([]), "x"),
        (lambda: GRID.parse([[0.0, 1.0]]), "x"),
        (lambda: sb.Arms(3).matching({0: 1.0}), "context"),
        (lambda: sb.Benchmark("branin").optimum(1, [0]), "available"),
        (lambda: sb.Benchmark("branin").table(), "space"),
        (lambda: sb.SensorPanel(np.zeros((0, 2))), "readings"),
        (lambda: sb.TableEnvironment(sb.Points([0.0, 0.0]), [1.0, 2.0]), "values"),
        (lambda: sb.Prior("a", KERNEL, lambda x, t: np.zeros(2)).mean_at(np.zeros((3, 1)), 1, GRID), "mean"),
        (lambda: fresh().domain.allowed(np.zeros(5, bool)), "available"),
        (lambda: sb.PhasedElimination(GRID, KERNEL, horizon=9, engine="sketched"), "engine"),
        (lambda: sb.PhasedElimination(GRID, KERNEL, horizon=9, refit=3), "refit"),
        (lambda: UNSURE.posterior([0.0], prior="c"), "prior"),
        (lambda: sb.analysis.coverage(fresh(), sb.Benchmark("branin"), RUN), "environment"),
        (lambda: sb.plots.posterior(fresh(), of="variance"), "of"),
        (lambda: sb.plots.index(sb.GPTS(GRID, KERNEL)), "policy"),
        (lambda: sb.plots.prior_timeline(sb.PEGPUCB(GRID, PRIORS)), "policy"),
    ],
)
def test_what_docstrings_promise(call, argument):
    """A ValueError that begins with the argument, each where a section Raises has it."""
    with pytest.raises(ValueError, match=f"^{argument}: got .*; allowed: "):
        call()
