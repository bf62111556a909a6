"""Choices of other packages from a list of candidates: a program that runs in the environment of a package alone.

``python choosers.py NAME FILE SEED``, where FILE (.npz) has the candidates' coordinates `x` (n, d), or packed `bits`,
their values `y` (n,), and the lengths of the batches. Prints a line of JSON with the numbers chosen and the CPU seconds
of all choices, batch by batch.
"""

import json
import sys
import time
from importlib.metadata import version

import numpy as np

TREES, DEPTH = 100, 8  # of MolPAL's random forest (Graff, Shakhnovich & Coley 2021)
TOGETHER = 100_000  # candidates that it predicts at once
FEATURES = 2000  # random features of PHYSBO's Thompson sampling, as in its examples


class Forest:
    """Random forest, of whose means the largest are chosen: MolPAL's baseline."""

    package = "scikit-learn"

    def __init__(self, x, seed):
        if x.dtype == np.uint8:  # bits, nearly all 0: a fit to 24,000 is seven times as fast as that to a full array
            from scipy import sparse

            starts = range(0, len(x), TOGETHER)
            parts = [sparse.csr_array(x[start : start + TOGETHER], dtype=np.float32) for start in starts]
            x = sparse.vstack(parts, format="csr")
        self._x, self._seed, self._rng = x, seed, np.random.default_rng(seed)

    def choose(self, count, chosen, y):
        from sklearn.ensemble import RandomForestRegressor

        if not chosen:
            return self._rng.permutation(self._x.shape[0])[:count].tolist()
        forest = RandomForestRegressor(n_estimators=TREES, max_depth=DEPTH, random_state=self._seed, n_jobs=1)
        forest.fit(self._x[chosen], y)
        starts = range(0, self._x.shape[0], TOGETHER)  # the forest converts what it is given to numbers of four bytes
        predicted = np.concatenate([forest.predict(self._x[start : start + TOGETHER]) for start in starts])
        predicted[chosen] = -np.inf
        return np.argsort(-predicted, kind="stable")[:count].tolist()


class Physbo:
    """PHYSBO's Thompson sampling with random features, a draw for each candidate; the first batch is random.

    Its own rule for several candidates at once fits 20 models for each of them: minutes for a batch of 15 of 15,625.
    """

    package = "physbo"

    def __init__(self, x, seed):
        import physbo

        self._policy = physbo.search.discrete.Policy(test_X=physbo.misc.centering(x))
        self._policy.set_seed(seed)

    def choose(self, count, chosen, y):
        if not chosen:
            return [int(i) for i in self._policy.random_search(max_num_probes=1, num_search_each_probe=count)]
        new = len(chosen) - len(self._policy.history.chosen_actions[: self._policy.history.total_num_search])
        if new:
            self._policy.write(chosen[-new:], y[-new:])
        found = [
            self._policy.bayes_search(
                max_num_probes=1, simulator=None, score="TS", interval=-1 if number else 0,  # learns once
                num_rand_basis=FEATURES, is_disp=False,
            )
            for number in range(count)
        ]  # fmt: skip
        return [int(each[0]) for each in found]


class Baybe:
    """BayBE's campaign with its defaults: the first batch is random."""

    package = "baybe"

    def __init__(self, x, seed):
        import pandas as pd
        from baybe import Campaign
        from baybe.searchspace import SearchSpace, SubspaceDiscrete
        from baybe.settings import Settings
        from baybe.targets import NumericalTarget

        Settings(random_seed=seed).activate()
        table = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
        space = SearchSpace(discrete=SubspaceDiscrete.from_dataframe(table))
        objective = NumericalTarget("y").to_objective()
        self._campaign = Campaign(space, objective, allow_recommending_already_measured=False)
        self._asked = None

    def choose(self, count, chosen, y):
        if self._asked is not None:
            self._campaign.add_measurements(self._asked.assign(y=y[-len(self._asked) :]))
        self._asked = self._campaign.recommend(count)
        return self._asked.index.tolist()


CHOOSERS = {"forest": Forest, "PHYSBO": Physbo, "BayBE": Baybe}


def play(chooser, batches, y):
    """Return the candidates chosen, and the CPU seconds after each batch."""
    chosen, seconds, cpu = [], [], 0.0
    for count in batches:
        began = time.process_time()
        chosen += chooser.choose(count, chosen, y[chosen])
        cpu += time.process_time() - began
        seconds.append(round(cpu, 3))
    return chosen, seconds


def main():
    """Run the program."""
    name, path, seed = sys.argv[1:]
    held, kind = np.load(path), CHOOSERS[name]
    x = np.unpackbits(held["bits"], axis=1) if "bits" in held else held["x"]
    began = time.process_time()
    chooser = kind(x, int(seed))
    made = time.process_time() - began
    chosen, seconds = play(chooser, held["batches"].tolist(), held["y"])
    package = f"{kind.package} {version(kind.package)}"
    print(json.dumps({"chosen": chosen, "cpu_seconds": [round(made + each, 3) for each in seconds], "with": package}))


if __name__ == "__main__":
    main()
