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
# # Long horizons on a Dask cluster
#
# **Shows** how regret and time grow over 100,000 rounds and with the number of candidates, with fitted exponents and
# their intervals, played by a cluster of two worker processes on this machine; that one worker and two give the same
# numbers; and who played when. A minute.
#
# The address of a scheduler in place of the local cluster is all that changes on many machines.

# %%
import logging
import time

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, get_task_stream

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS
from scalable_bandits.studies import Problem, Study

# %% [markdown]
# ## The study
#
# A study is *cases x policies x replicates*, at every value of its *axes*. `build` makes the problem of one replicate,
# from its seed and the values of the axes: here a random function on a grid of so many arms. IGP-UCB keeps one
# posterior, with the width that its theorem asks for; GP-UCB has a narrower width and no theorem; pi-GP-UCB divides the
# space into cells.

# %%
kernel = sb.Matern(0.2, nu=1.5)


def build(replicate):
    side = round(replicate.values["arms"] ** 0.5)
    space = sb.Grid([[0.0, 1.0], [0.0, 1.0]], side)
    function = sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=replicate.seed)
    norm, known = function.rkhs_norm, {"noise": 1.0, "seed": replicate.seed}
    horizon = replicate.horizon
    policies = {
        "IGP-UCB": sb.IGPUCB(space, kernel, rkhs_norm=norm, **known),
        "pi-GP-UCB": sb.PiGPUCB(space, kernel, rkhs_norm=norm, horizon=horizon, **known),
        "GP-UCB, beta / 5": sb.GPUCB(space, kernel, scale=5, **known),
        "uniform play": sb.RandomSearch(space, **known),
    }
    return Problem(function, policies)


study = Study(
    name="long",
    title="Long horizons, large grids",
    cases=("grid",),
    build=build,
    horizon=100_000,
    replicates=3,
    axes={"arms": [100, 400, 900, 3600]},
    timed=True,
)

# %% [markdown]
# ## A cluster
#
# Two worker processes. Its dashboard, `client.dashboard_link`, shows in a browser what they do as they do it. The same
# line with the address of a scheduler is a cluster of many machines; the folder `cluster/` has recipes for ssh, SLURM
# and Kubernetes. `study.run(on="local:2")` is the shortest way: it starts two workers, and stops them.


# %%
def cluster(workers):
    return Client(
        n_workers=workers,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,  # a busy machine is slow to end processes, and Dask says so
    )


client = cluster(2)
print(len(client.nthreads()), "workers")

# %% [markdown]
# ## 100,000 rounds
#
# Four policies, three functions each: twelve runs, 1.2 million rounds.

# %% tags=["times"]
began = time.perf_counter()
result = study.run(on=client, axes={"arms": [900]})
runs = result["seconds"].count().item()
print(f"{runs} runs, {runs * study.horizon:,} rounds: {time.perf_counter() - began:.0f} s")

# %% [markdown]
# Left: cumulative regret over rounds, mean and all runs; right: the time since round 10. The exponent of the last
# decade of rounds is in the legend, with its 95 % interval over the replicates: 1 is what uniform play has.

# %% tags=["times"]
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
sb.plots.scaling(result, "regret", "round", ax=left)
sb.plots.scaling(result, "elapsed", "round", ax=right)
BELOW = {"loc": "upper center", "ncols": 2}
left.set_title("Regret on 900 arms")
right.set_title("Time on 900 arms")
for ax in (left, right):
    ax.legend(frameon=False, title="exponent [95 % interval]", bbox_to_anchor=(0.5, -0.14), **BELOW)
plt.show()

# %%
for row in sb.analysis.exponents(result, "regret", over="round"):
    total = sb.analysis.totals(result, row.case, row.policy)[1][:, -1].mean()
    print(
        f"{row.policy:16} regret {total:9,.0f}   exponent {row.exponent:.2f} "
        f"[{row.low:.2f}, {row.high:.2f}]"
    )

# %% [markdown]
# All but uniform play learn, at an exponent below 1. The guaranteed widths cost regret at first and over a long time:
# that of IGP-UCB comes from a bound for all functions of that norm. A hundred thousand rounds cost each policy some
# seconds, since a posterior on 900 arms costs the same in round 100,000 as in round 1,000.
#
# ## Larger and larger grids
#
# The same study for the values of its axis, 1,000 rounds, on two workers and on one. However many workers there are,
# **every number is the same, to the last bit**.

# %% tags=["times"]
wall, streams, results = {}, {}, {}
for workers in (2, 1):
    if workers == 1:
        client.close()
        client = cluster(1)
    study.run(on=client, horizon=10, replicates=1)  # workers import what they need
    with get_task_stream(client) as stream:
        began = time.time()
        results[workers] = study.run(on=client, horizon=1000)
        wall[workers] = time.time() - began
    streams[workers] = [
        (task["worker"], task["key"], part["start"] - began, part["stop"] - part["start"])
        for task in stream.data
        for part in task["startstops"]
        if part["action"] == "compute"
    ]
    print(f"{workers} worker{'s' * (workers > 1)}: {wall[workers]:.0f} s")
client.close()

# %%
one, two = (results[workers].transpose(..., "round") for workers in (1, 2))
assert np.array_equal(one["regret"], two["regret"], equal_nan=True)
assert np.array_equal(one["candidate"], two["candidate"], equal_nan=True)
print(f"{one['regret'].count().item():,} regrets, equal on one worker and on two")

# %% tags=["times"]
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
sb.plots.scaling(one, "round_seconds", "arms", ax=left)
sb.plots.scaling(one, "regret", "arms", ax=right)
left.set_title("Time of a round")
right.set_title("Regret after 1,000 rounds")
for ax in (left, right):
    ax.legend(frameon=False, title="exponent [95 % interval]", bbox_to_anchor=(0.5, -0.14), **BELOW)
plt.show()

# %% tags=["times"]
for row in sb.analysis.exponents(one, "round_seconds", over="arms", span="whole"):
    print(f"{row.policy:16} arms^{row.exponent:.2f}  [{row.low:.2f}, {row.high:.2f}]")

# %% [markdown]
# One posterior on all arms makes a round dearer with every arm; a cell of pi-GP-UCB costs what a cell costs, and those
# that cannot win are left alone. The regret does not depend on the number of arms: neighbours tell of each other, so
# that a finer grid is no harder to search, only dearer.
#
# ## Who played when
#
# Each bar is a run, in the colour of its policy; a row is a worker.

# %% tags=["times"]
figure, ax = plt.subplots(figsize=(10, 3.2), layout="constrained")
policies = list(sb.analysis.policies_of(one))
height = 0
for stream in streams.values():
    for worker in sorted({where for where, *_ in stream}):
        for i, name in enumerate(policies):  # the key of a task has the name of its policy
            words = f" {name}".replace("-", " ")
            mine = [bar for where, key, *bar in stream if where == worker and words in key]
            ax.broken_barh(
                mine,
                (height - 0.4, 0.8),
                facecolor=COLOURS[i],
                edgecolor="white",
                label="_" if height else name,
            )
        height += 1
ax.set_yticks(range(height), ["first of two", "second of two", "one worker"])
ax.invert_yaxis()
ax.set(xlim=(0, 1.05 * max(wall.values())), xlabel="seconds")
ax.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# With two free processors, two workers need about half the time; where something else computes as well, as when this
# page was made, there is less to gain. Runs are never cut in two: the longest of them is the least that any number of
# workers needs. A task takes some 10 ms to send, and pays when a run takes longer than that.
#
# `scalable-bandits plan` says beforehand what a study will take on 1, 16 or 256 workers.

# %% [markdown]
# **Next:** reading what a study has left behind, in [6_reading_a_study](6_reading_a_study.ipynb). Up to a million
# rounds, a million arms and eight dimensions: [scalability](../docs/scalability.md); machines, schedulers and what
# happens when a worker dies: [cluster](../docs/cluster.md).
