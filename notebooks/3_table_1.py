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
# # Reproducing a table: Janz et al. 2020, Table 1
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

import scalable_bandits as sb
from scalable_bandits import plots
from scalable_bandits.plots import COLOURS

FULL = False  # True: the paper's three dimensions and 12 runs, some 15 minutes on two cores
CASES = ["d = 1", "d = 2", "d = 3"] if FULL else ["d = 1", "d = 2"]
REPLICATES = 12 if FULL else 4

# %% [markdown]
# ## The study
#
# Each published table is a named study. It knows its source, the problems, and the policies with their parameters.

# %%
study = sb.Study.load("janz2020-table1")
print(study.title, study.source, f"{study.horizon:,} rounds, {study.replicates} replicates", sep="\n")

# %%
result = study.run(cases=CASES, replicates=REPLICATES)
result

# %% [markdown]
# ## Beside the published numbers
#
# Regret as a fraction of uniform play's, with the standard error of its mean over replicates.

# %%
for row in study.published(result):
    print(
        f"{row.case}  {row.policy:10}  {row.quantity:32}  {row.ours:8.3f} ± {row.standard_error:.3f}   {row.published}"
    )

# %% [markdown]
# ## A look at the cells
#
# One problem of the second case: the function in grey, cells the bluer the deeper, and where it played. They are
# small only where the function is large: a cell splits when it has more data than its size warrants.

# %%
problem = study.build(study.replicate("d = 2", 0, study.horizon))
policy = problem.policies["pi-GP-UCB"]
run = sb.simulate(policy, problem.environment, study.horizon)
print(f"{len(policy.cover)} cells were made")

# %%
total = result["regret"].sum("round")
fraction = total / (result.sizes["round"] * result["uniform_regret"])
published = {"IGP-UCB": (0.11, 0.71, 0.97), "pi-GP-UCB": (0.09, 0.52, 0.77)}

figure = plt.figure(figsize=(13, 4.6), layout="constrained")
left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.1, 1.1))
for i, name in enumerate(published):
    place = np.arange(len(CASES)) + (i - 0.5) * 0.25
    ours = fraction.sel(policy=name)
    for replicate in ours["replicate"]:
        left.plot(place, ours.sel(replicate=replicate), ".", color=COLOURS[i], alpha=0.35, markersize=6)
    error = ours.std("replicate", ddof=1) / np.sqrt(REPLICATES)
    left.errorbar(place, ours.mean("replicate"), 1.96 * error, fmt="o", color=COLOURS[i], capsize=3, label=name)
    left.plot(place, published[name][: len(CASES)], "x", color="black", markersize=8, label="published" if i else None)
left.set_xticks(range(len(CASES)), CASES)
left.set(
    xlim=(-0.5, len(CASES) - 0.5),
    ylabel="regret / uniform play's",
    ylim=(0, 1),
    title=f"After {study.horizon:,} rounds, {REPLICATES} runs",
)
left.legend(frameon=False, loc="upper left")
left.spines[["top", "right"]].set_visible(False)
plots.regret_curves(result, "d = 2", middle)
middle.set_title("Regret over rounds, d = 2")
middle.legend(frameon=False, loc="upper left")
plots.partition(policy, problem.environment, run.candidate, right)
right.set_title("Cells of pi-GP-UCB, d = 2")
plt.show()

# %% [markdown]
# The bars are 95 % intervals of the mean; small dots are single runs: how much problems differ is part of the result.
# The order of the policies is the paper's. With the whole study (`FULL = True`, or `scalable-bandits run
# janz2020-table1`) the intervals shrink.
#
# Next: sensors that drift, in `4_sensors_and_priors.py`.
