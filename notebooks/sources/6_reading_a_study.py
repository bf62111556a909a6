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
# # Reading somebody else's study
#
# **Shows** what can be learned from a folder that somebody has sent: what was played and how far, regret curves, who
# wins, by how much and how sure that is, which priors were used, a report; and how to go on with more replicates. Half
# a minute.
#
# Nothing but the folder is needed. A study on disk is one xarray dataset, and every question a line or two.

# %%
import os
import shutil
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import xarray

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS

os.chdir(tempfile.mkdtemp())  # the files of this notebook go to a new folder

# %% [markdown]
# Somebody else did this, on another machine; for you it is the line that stands for "I got a folder":

# %%
# !scalable-bandits run ziomek2025-toy --replicates 10 --store theirs --out elsewhere > theirs.log 2>&1

# %% [markdown]
# ## What is in it?
#
# The command reads any store or a part of it, also one that is being written at this moment. The runs of one of the
# policies:

# %% tags=["times"]
# !scalable-bandits status theirs/toy/pe-gp-ucb

# %% [markdown]
# `Study.open` returns all of it as one lazy dataset: nothing is read until it is needed. NaN is what has not been
# played.

# %% tags=["times"]
result = sb.Study.open("theirs")
result

# %%
for name in ("study", "title", "source", "seed"):
    print(f"{name}: {result.attrs[name]}")
print(f"{result.sizes['replicate']} replicates of {result.sizes['round']} rounds")

# %% [markdown]
# A folder outlives the package that wrote it: each run in it is a zarr group, which xarray alone reads, too.

# %%
run = xarray.open_zarr("theirs/toy/pe-gp-ucb/0000", consolidated=False)
run[["y", "value", "regret"]].to_pandas().head(3).round(2)

# %% [markdown]
# ## Who wins?
#
# In a few lines; the study is a named one, which knows how its policies are compared:

# %%
study = sb.Study.load(result.attrs["study"])
print(study.summary(result))

# %% [markdown]
# Cumulative regret over rounds: the mean over replicates with its 95 % band.

# %%
ax = sb.plots.regret_curves(result)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %% [markdown]
# Selections and means are xarray's. The regret at the end, mean and standard error over replicates:

# %%
final = result["regret"].sel(case="toy", drop=True).sum("round").compute()
error = final.std("replicate", ddof=1) / final.sizes["replicate"] ** 0.5
table = xarray.Dataset({"regret": final.mean("replicate"), "error": error})
table.to_pandas().sort_values("regret").round(1)

# %% [markdown]
# ## By how much, and is that chance?
#
# In a replicate all policies play the same function with the same noise: compare them *in pairs*. What makes a
# function easy or hard for both drops out of the difference.

# %%
first = "PE-GP-UCB"
rows = sb.analysis.differences(result, against=first)
for row in rows:
    print(
        f"{row.policy:17} {row.difference:+7.1f} [{row.low:+.1f}, {row.high:+.1f}]   "
        f"less regret than {first} in {row.wins:.0%} of the replicates"
    )

# %%
figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
for i, row in enumerate(rows):
    each = final.sel(policy=row.policy) - final.sel(policy=first)
    ax.plot(each, np.full(each.size, i), ".", color=COLOURS[5], alpha=0.6)
    ax.plot([row.low, row.high], [i, i], color=COLOURS[0], linewidth=2)
    ax.plot(row.difference, i, "o", color=COLOURS[0])
ax.axvline(0.0, color="black", linewidth=1)
ax.set_yticks(range(len(rows)), [row.policy for row in rows])
ax.invert_yaxis()
ax.set_xlabel(f"regret beyond that of {first}")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Dots are replicates, bars 95 % intervals of the mean difference. Where a bar does not reach zero, the order of the two
# is not chance; after ten replicates that is so for random play alone. The fully Bayesian policy has less regret in
# most replicates, and far more in one, which the mean hides.
#
# ## Which priors were used?
#
# Eleven priors say where the highest hill may be; number 2 is the true one. `plays` counts the rounds in which each was
# followed. The study's search space leaves out the true hill in every other round.

# %%
ax = sb.plots.prior_histogram(result)
ax.legend(frameon=False)
plt.show()

# %%
share = result["plays"].sel(case="toy").mean("replicate") / result.sizes["round"]
for name, true in share.sel(prior="2").dropna("policy").to_series().items():
    print(f"{name:17} followed the true prior in {true:.0%} of the rounds")

# %% [markdown]
# ## Make it yours
#
# A copy of the folder is a whole study, and more replicates are a line: what is there is not played again, and the
# first ten are theirs, to the last bit.

# %%
shutil.copytree("theirs", "mine")
more = study.run(replicates=20, store="mine")
assert np.array_equal(more["regret"].isel(replicate=slice(10)), result["regret"])
for row in sb.analysis.differences(more, against=first):
    print(f"{row.policy:17} {row.difference:+7.1f} [{row.low:+.1f}, {row.high:+.1f}]")

# %% [markdown]
# Twice as many replicates make intervals shorter by a third or so.
#
# The report is one page with all of this, to be sent to the next reader:

# %%
# !scalable-bandits report mine --out mine.html

# %% [markdown]
# **Next:** a study of your own, its file, environments and policies: [research](../docs/research.md). What is in a
# store, and what happens when one is damaged: [stores](../docs/store.md). Where the figures of the papers come out
# again: [published and measured](../docs/figures.md). Long lists to choose from:
# [7_screening_molecules](7_screening_molecules.ipynb).
