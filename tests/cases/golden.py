"""Golden trajectories, on problems of every kind: every version makes the choices that are kept.

``python golden.py FILE`` writes those of the version that it imports.
"""

import sys

import numpy as np

import scalable_bandits as sb
from cases.policies import EVERY_POLICY, NOISE, PROBLEMS

ROUNDS = 60
SPACE = sb.Grid([[0, 1], [0, 1]], (50, 60))  # three tiles
PRIORS = [sb.Prior(f"{scale}", sb.RBF(scale)) for scale in (0.05, 0.1, 0.2, 0.3)]
SETTINGS = {"noise": 0.1, "regularization": 0.01, "seed": 3}
LARGE = {
    "tiles IGPUCB": lambda: sb.IGPUCB(SPACE, sb.Matern(0.2, nu=1.5), engine="tiled", **SETTINGS),
    "tiles GPEI": lambda: sb.GPEI(SPACE, sb.RBF(0.2), engine="tiled", **SETTINGS),
    "tiles RGPUCB": lambda: sb.RGPUCB(SPACE, sb.RBF(0.2), memory=40, engine="tiled", **SETTINGS),
    **{kind.__name__: lambda kind=kind: kind(SPACE, PRIORS, **SETTINGS)
       for kind in (sb.PEGPUCB, sb.MLEGPUCB, sb.FullyBayesianGPUCB, sb.RegretBalancing)},
    "PiGPUCB": lambda: sb.PiGPUCB(SPACE, sb.Matern(0.2, nu=1.5), rkhs_norm=1.0, **SETTINGS),
}  # fmt: skip


def played(policy, environment):
    """Candidates, widths and information gains of a run, each (rounds,)."""
    run = sb.simulate(policy, environment, ROUNDS)
    return run.candidate, run.width, run.information_gain


def trajectories(kept=None):
    """Every run by its name, or those that are kept."""
    for name, case in EVERY_POLICY.items():
        for kind in ("grid", "arms"):
            if kept is not None and f"{name} {kind}" not in kept:
                continue
            problem = PROBLEMS[kind]
            values = [problem.truth(x) for x in problem.space.points()]
            environment = sb.TableEnvironment(problem.space, values, sb.GaussianNoise(NOISE), seed=7)
            try:
                policy = case.make(problem)
            except ValueError:  # the policy is not for such a space
                continue
            yield f"{name} {kind}", played(policy, environment)
    function = sb.RKHSFunction.sparse(SPACE, sb.Matern(0.2, nu=1.5), sb.GaussianNoise(0.1), seed=4)
    for name, make in LARGE.items():
        yield name, played(make(), function)


if __name__ == "__main__":
    found = {}
    for name, (candidates, widths, gains) in trajectories():
        found[f"{name}/candidate"] = candidates.astype(np.int16)
        found[f"{name}/width"], found[f"{name}/gain"] = widths, gains
    np.savez_compressed(sys.argv[1], **found)
    print(len(found) // 3)
