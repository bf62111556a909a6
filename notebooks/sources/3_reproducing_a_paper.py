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
# # A table of a paper comes out again
#
# **Shows** Table 1 of Janz et al. 2020, of which two thirds are played here, beside the published numbers, with
# standard errors; and the cells into which the paper's policy divides the space. Some ten seconds.
#
# The guarantee of GP-UCB says nothing for rough kernels in several dimensions: its information gain grows too fast.
# *pi-GP-UCB* divides the space into cells that split as data fall into them, and keeps a posterior in each, so that
# the gain within a cell hardly grows. Table 1 of the paper shows what that gives after 10,000 rounds, as a fraction
# of what uniform play loses.
#
# The published runs took between 97 seconds and 30 hours each.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import scalable_bandits as sb
from scalable_bandits import plots
from scalable_bandits.analysis import spread
from scalable_bandits.plots import COLOURS

CASES = ["d = 1", "d = 2"]  # and "d = 3", which takes some minutes
REPLICATES = 4  # 12 in the paper

# %% [markdown]
# ## The study
#
# Each published table is a named study. It knows its source, the problems, and the policies with their parameters.

# %%
study = sb.Study.load("janz2020-table1")
print(study.title, study.source, sep="\n")
print(
    f"whole: {study.horizon:,} rounds, {study.replicates} replicates; here {REPLICATES} replicates"
)

# %%
result = study.run(cases=CASES, replicates=REPLICATES)
print({name: size for name, size in result.sizes.items() if name != "mark"})

# %% [markdown]
# ## Beside the published numbers
#
# Regret as a fraction of uniform play's, with the standard error of its mean over replicates; and the seconds that a
# run took (the first run of all on a machine compiles, and those seconds are in it).

# %% tags=["times"]
rows = study.published(result)
pd.DataFrame(rows).round(3)

# %% [markdown]
# Left: small dots are single runs, circles and squares their means with 95 % intervals, crosses the published numbers.
# Right: the means over rounds. How much problems differ is part of the result.

# %%
total = result["regret"].sum("round")
fraction = total / (result.sizes["round"] * result["uniform_regret"])
places = np.arange(len(CASES))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained")
for i, name in enumerate(("IGP-UCB", "pi-GP-UCB")):
    runs = fraction.sel(policy=name).transpose("replicate", "case").values
    published = [
        float(row.published)
        for row in rows
        if row.policy == name and row.quantity.startswith("fraction")
    ]
    mean, _, low, high = spread(runs)
    place, look = places + (i - 0.5) * 0.3, {"color": COLOURS[i]}
    left.plot(np.tile(place - 0.05, len(runs)), runs.ravel(), ".", alpha=0.5, **look)
    left.errorbar(
        place, mean, (mean - low, high - mean), fmt="os"[i], capsize=3, label=name, **look
    )
    label = "published" if i else None
    left.plot(place + 0.06, published, "x", color="black", markersize=7, label=label)
left.set_xticks(places, CASES)
left.set(xlim=(-0.5, len(CASES) - 0.5), ylim=(0, 1), ylabel="regret / uniform play's")
left.set_title(f"After {study.horizon:,} rounds, {REPLICATES} runs")
left.legend(frameon=False, loc="upper left")
left.spines[["top", "right"]].set_visible(False)
plots.regret_curves(result, "d = 2", right)
right.set_title("Over rounds, d = 2: mean, 95 % band")
right.legend(frameon=False, loc="upper left")
plt.show()

# %% [markdown]
# In two dimensions the order of the policies is the paper's; in one they are level. With the whole study
# (`scalable-bandits run janz2020-table1`, some 15 minutes on two cores) the intervals shrink.
#
# ## A look at the cells
#
# One problem of the second case: the function in grey (the darker, the larger), cells the bluer the deeper, and a dot
# where it played, the larger the more often. Cells are small only where the function is large: a cell splits when it
# has more data than its size warrants.

# %%
problem = study.build(study.replicate("d = 2", 0, study.horizon))
policy = problem.policies["pi-GP-UCB"]
run = sb.simulate(policy, problem.environment, study.horizon)

ax = plots.partition(policy, problem.environment, run.candidate)
ax.set_title(f"Cells of pi-GP-UCB, d = 2: {len(policy.cover)} were made")
plt.show()

# %% [markdown]
# **Next:** sensors that drift, in [4_sensors_and_priors](4_sensors_and_priors.ipynb). All figures and tables of the
# papers beside what comes out here: [published and measured](../docs/figures.md).
