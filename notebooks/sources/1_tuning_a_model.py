# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Tuning a model, from start to report
#
# **Shows** a tuning run of gradient boosted trees: settings of all kinds, a crash in the middle, what came out and how
# sure that is, which settings matter, a comparison with random search, more evaluations on two worker processes, and a
# report. It takes about a minute, and needs scikit-learn.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import scalable_bandits as sb

os.chdir(tempfile.mkdtemp())  # the files of this notebook go to a new folder
sys.path.insert(0, ".")

# %% [markdown]
# ## The model and its settings
#
# Is a handwritten digit odd? scikit-learn ships 1,797 images: 600 to learn from, 600 to tune on, and 597 that are kept
# until the end. `error` is what is to be small: the log loss on the 600 images of the middle.
#
# A space has a name for each setting: numbers on a linear or logarithmic scale, whole numbers, a choice. `when=` says
# under which choice a setting exists: trees are limited either by their leaves or by their depth. No kernel, noise or
# scale is asked for. All of this is a module, because a script is going to use it too, and worker processes.

# %%
# %%writefile model.py
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import scalable_bandits as sb

images, digits = load_digits(return_X_y=True)
X, rest, Y, Y_rest = train_test_split(images, digits % 2, train_size=600, random_state=0)
X_middle, X_last, Y_middle, Y_last = train_test_split(rest, Y_rest, train_size=600, random_state=0)

SPACE = sb.SearchSpace(
    {
        "learning_rate": sb.Real(0.01, 1.0, log=True),
        "max_iter": sb.Integer(5, 60, log=True),
        "limit": sb.Categorical(["leaves", "depth"]),
        "max_leaf_nodes": sb.Integer(2, 31, log=True, when={"limit": "leaves"}),
        "max_depth": sb.Integer(1, 6, when={"limit": "depth"}),
        "min_samples_leaf": sb.Integer(2, 60, log=True),
        "l2_regularization": sb.Real(1e-3, 100.0, log=True),
        "max_features": sb.Real(0.1, 1.0),
    }
)


def fitted(setting):
    options = {"max_leaf_nodes": None, **setting}
    options.pop("limit", None)  # says which of two options there is
    model = HistGradientBoostingClassifier(**options, early_stopping=False, random_state=0)
    with threadpool_limits(1):  # six hundred images are too few for several threads
        return model.fit(X, Y)


def error(setting):
    return float(log_loss(Y_middle, fitted(setting).predict_proba(X_middle)))


def final(setting):
    """Return the log loss on the images that no tuning has seen."""
    return float(log_loss(Y_last, fitted(setting).predict_proba(X_last)))


# %%
from model import SPACE, error, final

DEFAULTS = {"max_iter": 60, "max_leaf_nodes": 31}
print(f"scikit-learn's defaults, with 60 trees: {error(DEFAULTS):.3f}")

# %% [markdown]
# ## Run it, and lose it
#
# Real evaluations take hours, and machines go down. With `store=` every value is on disk before the next setting is
# chosen. This script is killed after its twelfth evaluation, by a signal that nobody can catch; -9 says that it was.

# %%
# %%writefile tune.py
import os
import signal

from model import SPACE, error

import scalable_bandits as sb


def crash(run):  # a callback: it is called after each evaluation
    if run.number == 12:
        os.kill(os.getpid(), signal.SIGKILL)


sb.minimize(error, SPACE, budget=30, store="tuning.zarr", callbacks=crash)

# %%
subprocess.run([sys.executable, "tune.py"], stderr=subprocess.DEVNULL).returncode

# %% [markdown]
# The command reads any store, also while somebody writes it:

# %% tags=["times"]
# !scalable-bandits status tuning.zarr

# %% [markdown]
# ## Go on
#
# The same call with the same store goes on where it stopped. It prints the **recommended** setting, whose *expected*
# value is best given everything that was measured, and the **best measured** one, whose value may have been luck.

# %%
found = sb.minimize(error, SPACE, budget=30, store="tuning.zarr", progress=False)
found

# %% [markdown]
# A run that nobody killed asks for the same settings, and finds the same to the last bit:

# %%
undisturbed = sb.minimize(error, SPACE, budget=30, progress=False)
assert np.array_equal(found.y, undisturbed.y)
assert found.best == undisturbed.best
print(len(found), "evaluations, equal in both runs")

# %% [markdown]
# ## What came out
#
# In a few lines, with how sure it is:

# %% tags=["times"]
print(found.summary())

# %% [markdown]
# Every value in the order of the evaluations. The first ten settings are spread over the space; from then on a model
# of all values chooses. The green band is what the recommended setting is expected to be worth.

# %%
sb.plots.history(found)
plt.show()

# %% [markdown]
# Each evaluation is a line across the settings, the darker the better; the recommended one is on top. Lines pass below
# an axis whose setting they do not have.

# %%
sb.plots.parallel(found)
plt.show()

# %% [markdown]
# ## What matters
#
# Which share of the variance over the whole space is due to each setting, alone and together with others?

# %%
sb.plots.importance(found)
plt.show()

# %% [markdown]
# What the model expects along each setting through the recommended one; bands are 95 % intervals, dots measurements
# nearby. A flat line says that a setting does not matter *there*.

# %%
sb.plots.slices(found)
plt.show()

# %% [markdown]
# ## Was it worth it?
#
# Random search with the same budget, three seeds each. Left: the best value so far, on the images that were tuned on.
# Right: the settings that came out, on images that neither has seen.

# %%
ours, random = [undisturbed], []
for seed in (1, 2):
    ours.append(sb.minimize(error, SPACE, budget=30, seed=seed, progress=False))
for seed in (0, 1, 2):
    player = sb.RandomSearch(SPACE, minimize=True, seed=seed)
    random.append(sb.minimize(error, player, budget=30, progress=False))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for place, (name, runs, colour) in enumerate(
    [("random search", random, "tab:gray"), ("sb.minimize", ours, "tab:blue")]
):
    for i, run in enumerate(runs):
        left.step(
            range(1, 31), np.minimum.accumulate(run.y), color=colour, label="_" if i else name
        )
    last = [final(run.measured.x) for run in runs]
    right.plot(last, [place] * 3, "o", color=colour)
    best = np.mean([run.measured.y for run in runs])
    print(f"{name:13}: best value {best:.3f}, on images not seen {np.mean(last):.3f}")
left.set(xlabel="evaluation", ylabel="best log loss so far", yscale="log")
left.legend(frameon=False)
right.axvline(final(DEFAULTS), color="black", linestyle=":", label="scikit-learn's defaults")
right.set(xlabel="log loss on images not seen", ylim=(-0.5, 1.5), xlim=(0, None))
right.set_yticks([0, 1], ["random search", "sb.minimize"])
right.legend(frameon=False, loc="lower left")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The best of thirty values is always a little better than it will be on new images: it was chosen for being small.
# Three seeds show a direction, no more; [Tuners compared](../docs/tuners.md) has many problems, also those on which
# this package loses.
#
# ## More evaluations, two at a time
#
# A run that has ended goes on with a larger budget. `parallel=2, on="local:2"` keeps two evaluations in flight on two
# worker processes; the address of a Dask scheduler in its place is a cluster. Which evaluation ends first is chance,
# so that here the settings differ from run to run.

# %% tags=["times"]
more = sb.minimize(
    error, SPACE, budget=40, store="tuning.zarr", parallel=2, on="local:2", progress=False
)
print(f"{len(more)} evaluations, best value {more.measured.y:.3f}")

# %% [markdown]
# ## The report
#
# One page with the table, all pictures, the specification and the commands; it needs nothing else, and can be sent to
# somebody. Here its parts; open the file in a browser.

# %%
# !scalable-bandits report tuning.zarr --out tuning.html

# %%
page = Path("tuning.html").read_text()
print(*[part.split("</h2>")[0] for part in page.split("<h2>")[1:]], sep="\n")

# %% [markdown]
# **Next:** how a policy chooses where to measure, in [2_what_a_policy_does](2_what_a_policy_does.ipynb). Programs that
# are not Python, failures, time limits, earlier observations: the guide [tuning](../docs/tuning.md).
