"""A stored search that is interrupted in a chosen fit; a process of its own calls `main`."""

import os
import signal
import sys
from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

SPACE = {"max_depth": [1, 2, 3, 4, 5], "min_samples_leaf": list(range(1, 30)), "criterion": ["gini", "entropy"]}
CANDIDATES, FOLDS = 7, 3
FITS = {"file": "", "last": 0}  # file with a line a fit, and the number of the fit that is interrupted


class Counted(DecisionTreeClassifier):
    """Tree that adds a line to the file at every fit."""

    def fit(self, X, y, sample_weight=None):
        with open(FITS["file"], "a") as file:
            file.write(f"{len(X)} {self.max_depth} {self.min_samples_leaf} {self.criterion}\n")
        if len(lines(FITS["file"])) == abs(FITS["last"]):
            if FITS["last"] < 0:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y, sample_weight)


def lines(file):
    """Fits so far."""
    return Path(file).read_text().splitlines() if Path(file).exists() else []


def run(store, file, last=0, **keywords):
    """Search, with the default policy; `last` is negative for Ctrl-C."""
    from scalable_bandits.integrations.sklearn import BanditSearchCV

    FITS.update(file=str(file), last=last)
    given = {"n_iter": CANDIDATES, "cv": StratifiedKFold(FOLDS, shuffle=True, random_state=0), **keywords}
    found = BanditSearchCV(
        Counted(random_state=0), SPACE, scoring=["accuracy", "neg_log_loss"], refit="accuracy",
        return_train_score=True, store=store, **given,
    )  # fmt: skip
    return found.fit(*load_iris(return_X_y=True))


def main():
    """Run with arguments of the command: store, file, number of the interrupted fit, candidates at a time."""
    store, file, last, batch = sys.argv[1:]
    run(store, file, int(last), batch=int(batch))
