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
# # Tuning your own function, with a crash in the middle
#
# A real experiment takes hours, and machines go down. With a store every value is on disk before the next point is
# chosen, and the same script started again goes on where it stopped. Here a script is killed, by SIGKILL, twice; what
# it finds is compared with a run that nobody killed.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS

os.chdir(tempfile.mkdtemp())  # stores and scripts of this notebook go here
print(Path.cwd())

# %% [markdown]
# ## The function
#
# Anything that takes a point and returns a number will do. Ours fits a kernel ridge regression to sixty noisy points,
# and is worth minus the logarithm of its error on held-out data: larger is better. It has two knobs, both on a
# logarithmic scale: the lengthscale of the fit, and its penalty. Four splits of the data are drawn for a measurement,
# so that the values are noisy.

# %%
# %%writefile tune.py
import os
import signal
import sys
import zlib

import numpy as np

import scalable_bandits as sb

rng = np.random.default_rng(0)
X = rng.random(60)
Y = np.sin(12 * X) * np.exp(-X) + 0.2 * rng.standard_normal(60)
SPACE = sb.Box([[-2.5, 1.0], [-5.0, 1.0]])  # log10 of lengthscale and of penalty


def quality(x, repeats, seed):
    lengthscale, penalty = 10.0 ** np.asarray(x)
    K = np.exp(-0.5 * ((X[:, None] - X) / lengthscale) ** 2)
    splits, errors = np.random.default_rng(seed), []
    for _ in range(repeats):
        order = splits.permutation(60)
        fit, held = order[:45], order[45:]
        weights = np.linalg.solve(K[np.ix_(fit, fit)] + penalty * np.eye(45), Y[fit])
        errors.append(np.mean((K[np.ix_(held, fit)] @ weights - Y[held]) ** 2))
    return -float(np.log10(np.mean(errors)))


def policy():
    kernel = 0.5 * sb.Matern([0.8, 1.5], nu=2.5)
    return sb.GPEI(SPACE, kernel, noise=0.1, regularization=0.01, prior_mean=0.5)


calls = 0


def experiment(x):
    global calls
    calls += 1
    if calls == int(os.environ.get("CUT_AT", "0")):
        os.kill(os.getpid(), signal.SIGKILL)  # nobody can catch this one
    return quality(x, repeats=4, seed=zlib.crc32(x.tobytes()))


if __name__ == "__main__":
    found = sb.maximize(experiment, policy(), budget=40, store=sys.argv[1])
    print(f"{len(found)} evaluations, {calls} of them now; best {found.best.x.round(2)}")

# %%
sys.path.insert(0, ".")
import tune


# %%
def start(store, cut_at=0):
    """Run the script as you would in a terminal: python tune.py STORE."""
    environment = {**os.environ, "CUT_AT": str(cut_at)}
    done = subprocess.run(
        [sys.executable, "tune.py", store], env=environment, capture_output=True, text=True
    )
    print(f"exit code {done.returncode}", done.stdout or done.stderr)


# %% [markdown]
# ## Killed
#
# The thirteenth call kills the process: twelve values have been told, and one point is out.

# %%
start("tuning.zarr", cut_at=13)

# %% [markdown]
# What is left is on disk. `scalable-bandits status` reads any store, also while somebody writes it:

# %%
command = Path(sys.executable).with_name("scalable-bandits")
print(subprocess.run([command, "status", "tuning.zarr"], capture_output=True, text=True).stdout)

# %% [markdown]
# ## Started again
#
# The same command. It is killed once more, and then left in peace.

# %%
start("tuning.zarr", cut_at=11)
start("tuning.zarr")

# %% [markdown]
# ## As if nothing had happened
#
# A run that was never interrupted asks for the same points, to the last bit:

# %%
start("undisturbed.zarr")
killed = sb.ObservationStore.open("tuning.zarr").read(names=["x", "y"])
undisturbed = sb.ObservationStore.open("undisturbed.zarr").read(names=["x", "y"])
assert np.array_equal(killed["x"], undisturbed["x"])
assert np.array_equal(killed["y"], undisturbed["y"])

# %% [markdown]
# A store needs no package to be read: xarray opens it, with the times of the evaluations.

# %%
run = xarray.open_zarr("tuning.zarr", consolidated=False)
xarray.Dataset({name: run[name] for name in ("x", "y", "time")})

# %% [markdown]
# ## What it found
#
# Told all forty values, a policy recommends a point. The function is cheap here, so that its landscape can be drawn,
# too.

# %%
SIDE, SPLITS = 36, 16
axis1, axis2 = (np.linspace(*bounds, SIDE) for bounds in tune.SPACE.bounds)
landscape = np.array([[tune.quality([a, b], SPLITS, seed=1) for a in axis1] for b in axis2])

# %%
points, y = run["x"].values, run["y"].values
policy = tune.policy()
policy.tell(points, y)
best = policy.best()
print(f"quality {best.mean:.2f} ± {best.std:.2f} at {best.x.round(2)}")

# %%
number = np.arange(1, len(y) + 1)
lives = {"first life": number <= 12, "second": (number > 12) & (number <= 22), "third": number > 22}

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.8), layout="constrained", width_ratios=(1.15, 1)
)
levels = np.arange(0.0, landscape.max() + 0.1, 0.1)
filled = left.contourf(axis1, axis2, landscape, levels=levels, cmap="Greys_r", extend="min")
figure.colorbar(filled, ax=left, label="quality: minus log10 of the error", pad=0.01)
for colour, (life, mine) in zip(COLOURS[1:], lives.items(), strict=False):
    left.scatter(
        *points[mine].T,
        s=34,
        color=colour,
        edgecolor="white",
        linewidth=0.7,
        label=life,
        clip_on=False,
        zorder=3,
    )
    right.plot(number[mine], y[mine], "o", color=colour, markersize=5, label=life)
left.plot(*best.x, marker="*", markersize=17, color="white", markeredgecolor="black", zorder=4)
left.set(
    xlabel="log10 lengthscale",
    ylabel="log10 penalty",
    title="Where it measured; star: its recommendation",
)
right.plot(
    number, np.maximum.accumulate(y), color="black", linewidth=1.2, label="best measured so far"
)
for cut in (12.5, 22.5):
    right.axvline(cut, color="black", linestyle=":", linewidth=1)
    right.annotate(
        "kill -9",
        (cut, 0.96),
        (3, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
    )
right.set(ylim=(0, None), xlabel="evaluation", ylabel="measured quality", title="What it measured")
right.legend(frameon=False, loc="lower right")
right.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# On a cluster the same call keeps several evaluations in flight: `sb.maximize(..., parallel=8,
# on="tcp://scheduler:8786")`; a worker that dies costs nothing but the time of its evaluation.
#
# Next: a table of a paper, in `3_table_1.py`.
