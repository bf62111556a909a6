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
# # Reading a study with xarray
#
# What a study gives is one xarray dataset: regret, the candidates played, confidence widths, over *case, policy,
# replicate* and *round*. Every question about it is then a line or two: who wins, by how much, is that chance, how
# fast do they learn.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray
from scipy import stats

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS

REPLICATES, HORIZON = 10, 500

# %% [markdown]
# ## A study on disk
#
# Six policies on random functions (Srinivas et al. 2010, Fig. 5a), smaller than published. With a store each run is
# kept as it is played, and the dataset that comes back is lazy: nothing is read until it is needed.

# %%
place = Path(tempfile.mkdtemp()) / "runs"
sb.Study.load("srinivas2010-synthetic").run(replicates=REPLICATES, horizon=HORIZON, store=place)
result = sb.Study.open(place)
result

# %% [markdown]
# Its attributes say what it is, and every run in it is a group that plain zarr and xarray read, without this package:

# %%
case = result["case"].values[0]
print({name: result.attrs[name] for name in ("study", "source", "seed")})
groups = sorted(
    path.parent.relative_to(place)
    for path in place.glob("*/*/*/zarr.json")
    if path.parent.name == "0000"
)
print("some runs:", *groups[:3])
xarray.open_zarr(place / groups[0], consolidated=False)[["y", "value", "regret"]].to_pandas().head(
    4
).round(3)

# %% [markdown]
# ## Who wins
#
# Cumulative regret at the end: the mean over replicates, and its standard error.

# %%
final = result["regret"].sel(case=case, drop=True).sum("round").compute()
table = xarray.Dataset(
    {"regret": final.mean("replicate"), "error": final.std("replicate", ddof=1) / REPLICATES**0.5}
)
table.to_pandas().sort_values("regret").round(1)

# %% [markdown]
# ## By how much, and is that chance
#
# All policies play the same function with the same noise in a replicate: compare them *in pairs*. What makes a
# function easy or hard for both drops out of the difference; for policies that behave alike its error is then smaller
# than that of two separate means.

# %%
reference = "GP-UCB"
paired = (final - final.sel(policy=reference)).drop_sel(policy=reference)
error = paired.std("replicate", ddof=1) / REPLICATES**0.5
apart = np.hypot(table["error"], table["error"].sel(policy=reference)).drop_sel(policy=reference)
xarray.Dataset(
    {"difference": paired.mean("replicate"), "its error": error, "unpaired": apart}
).to_pandas().round(1)

# %% [markdown]
# ## How fast
#
# A round's regret is large where a policy still explores. The last round before it stays, on average over 25 rounds,
# below a tenth of what uniform play loses (NaN: it never does):

# %%
uniform = result["uniform_regret"].sel(case=case, drop=True)
smooth = result["regret"].sel(case=case, drop=True).rolling(round=25, min_periods=1).mean()
bad = (smooth >= 0.1 * uniform).compute()
last = (bad * bad["round"]).max("round")
settled = last.where(last < HORIZON)
xarray.Dataset(
    {"settled in round": settled.median("replicate"), "never": settled.isnull().sum("replicate")}
).to_pandas()

# %% [markdown]
# ## A picture of all of it
#
# Every replicate of every policy: a column is a moment, a row a replicate, dark where regret is paid. Beside it the
# paired differences with 95 % intervals.

# %%
order = final.mean("replicate").sortby(final.mean("replicate"))["policy"].values
each = smooth.sel(policy=order).compute() / uniform

figure = plt.figure(figsize=(12.5, 5.4), layout="constrained")
pictures, right = figure.subfigures(1, 2, width_ratios=(1.45, 1))
rows = pictures.subplots(len(order), 1, sharex=True)
for ax, name in zip(rows, order, strict=True):
    shown = each.sel(policy=name).transpose("replicate", "round").values
    shown = shown[np.argsort(np.nansum(shown, axis=1))]
    image = ax.imshow(
        shown, aspect="auto", cmap="magma_r", vmin=0, vmax=1, extent=(1, HORIZON, 0, REPLICATES)
    )
    ax.set_yticks([])
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
rows[-1].set_xlabel("round")
pictures.colorbar(image, ax=rows, label="regret a round / uniform play's", pad=0.01)

ax = right.subplots()
half = stats.t.ppf(0.975, REPLICATES - 1)  # standard errors on either side: 95 %
shown = [name for name in order[::-1] if name != reference]
for i, name in enumerate(shown):
    differences = paired.sel(policy=name)
    colour = COLOURS[1] if differences.mean() > 0 else COLOURS[2]
    ax.plot(differences, np.full(REPLICATES, i), ".", color=colour, alpha=0.35)
    ax.errorbar(
        differences.mean(), i, xerr=half * error.sel(policy=name), fmt="o", color=colour, capsize=4
    )
ax.axvline(0, color="black", linewidth=1)
ax.set_yticks(range(len(shown)), shown)
ax.set_xlabel(f"regret beyond that of {reference}, in pairs")
ax.set_xscale("symlog", linthresh=10)
ax.set_title(f"{reference} is ahead of what lies to the right", fontsize=10)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
