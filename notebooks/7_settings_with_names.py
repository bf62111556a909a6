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
# # Tuning settings with names, and what came out
#
# A program has settings of all kinds: numbers on a logarithmic scale, whole numbers, a choice of a method, and numbers
# that only one of the methods has. Name them, give a function of a dict, and `sb.minimize` looks for the best ones. It
# needs no kernel, no noise, no scaling. This notebook is about what can be seen afterwards.

# %%
import matplotlib.pyplot as plt
import numpy as np

import scalable_bandits as sb

# %% [markdown]
# ## The function
#
# Kernel ridge regression of 80 noisy points, judged by its error in a five-fold cross-validation: smaller is better.
# Every evaluation splits the data anew, so that its value is noisy.

# %%
rng = np.random.default_rng(0)
X = rng.random((80, 3))
Y = np.sin(6 * X[:, 0]) * np.exp(-X[:, 1]) + 0.1 * rng.standard_normal(80)  # X[:, 2] says nothing


def gram(setting, x):
    if setting["kernel"] == "polynomial":
        powers = (1 + x @ x.T) ** setting["degree"]
        return powers / powers.max()
    apart = np.abs(x[:, None] - x)
    if setting["kernel"] == "gauss":
        return np.exp(-0.5 * (apart**2).sum(axis=2) / setting["lengthscale"] ** 2)
    return np.exp(-apart.sum(axis=2) / setting["lengthscale"])


def one_error(setting):
    kernel, order, wrong = gram(setting, X[:, : setting["columns"]]), rng.permutation(80), []
    for held in np.array_split(order, 5):
        fit = np.setdiff1d(order, held)
        ridge = kernel[np.ix_(fit, fit)] + setting["penalty"] * np.eye(len(fit))
        predicted = kernel[np.ix_(held, fit)] @ np.linalg.solve(ridge, Y[fit] - Y[fit].mean())
        wrong.append(predicted + Y[fit].mean() - Y[held])
    return float(np.sqrt(np.mean(np.concatenate(wrong) ** 2)))


# %% [markdown]
# ## The settings
#
# `when=` says under which values of another parameter one exists: a polynomial has a degree and no lengthscale.

# %%
space = sb.SearchSpace(
    {
        "kernel": sb.Categorical(["gauss", "laplace", "polynomial"]),
        "lengthscale": sb.Real(0.03, 30.0, log=True, when={"kernel": ["gauss", "laplace"]}),
        "degree": sb.Integer(1, 8, when={"kernel": "polynomial"}),
        "penalty": sb.Real(1e-6, 10.0, log=True),
        "columns": sb.Ordinal([1, 2, 3]),
    }
)
found = sb.minimize(one_error, space, budget=50)
found

# %% [markdown]
# The **best measured** setting had the smallest value, with some luck: the noise helped it. The **recommended** one has
# the best *expected* value, given everything that was measured. `found.best` is that setting, a dict; `found.value` and
# `found.std` are what it is expected to be worth.

# %%
print(found.best)
print(f"{found.value:.4f} ± {found.std:.4f}")
print(f"best measured: {found.measured.y:.4f}, expected {found.measured.value:.4f}")

# %% [markdown]
# Is that so? The function is cheap here, so that we can ask it a hundred times. A setting at random is far worse.

# %%
truth = np.mean([one_error(found.best) for _ in range(100)])
random = np.median([one_error(setting) for setting in space.arguments(space.draw(200, rng))])
print(
    f"true error of the recommended setting: {truth:.4f}; median of random settings: {random:.4f}"
)
assert truth < 0.65 * random

# %% [markdown]
# ## What was measured
#
# A data frame with one row an evaluation; `NaN` where a parameter does not exist.

# %%
found.table().sort_values("value").head()

# %%
sb.plots.history(found)
plt.show()

# %% [markdown]
# All settings at once: each evaluation is a line, the darker the better. The good ones agree on what matters.

# %%
sb.plots.parallel(found)
plt.show()

# %% [markdown]
# ## What matters
#
# Which share of the variance over the whole space is due to each parameter, alone and together with the others?

# %%
sb.plots.importance(found)
plt.show()

# %% [markdown]
# Through the recommended setting, what does the model expect along each parameter? Bands are 95 % intervals, dots are
# measurements nearby. A flat line says that the parameter does not matter *there*.

# %%
sb.plots.slices(found)
plt.show()
