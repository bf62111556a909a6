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
# # A scalability study on a Dask cluster
#
# How does the cost of a round grow with the space, and what do more workers buy? A study is *cases x policies x
# replicates*; its runs are independent of each other, so that they go to the workers of a cluster one by one. Every
# number in it is a function of its seed: two workers or two hundred give the same result, bit by bit.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, get_task_stream

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS
from scalable_bandits.plots.style import line as style
from scalable_bandits.plots.style import logarithmic
from scalable_bandits.studies import Problem, Study

SIDES = (10, 20, 40, 80)  # of square grids; add 160 and 320 for a longer look
HORIZON, REPLICATES = 400, 2

# %% [markdown]
# ## A study of one's own
#
# `build` makes the problem of one replicate from its seed. Nothing else is needed.

# %%
kernel = sb.Matern(0.2, nu=1.5)


def build(replicate):
    space = sb.Grid([[0.0, 1.0], [0.0, 1.0]], int(replicate.case))
    function = sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=replicate.seed)
    known = {"noise": 1.0, "seed": replicate.seed}
    norm = function.rkhs_norm
    return Problem(
        function,
        {
            "IGP-UCB": sb.IGPUCB(space, kernel, rkhs_norm=norm, **known),
            "pi-GP-UCB": sb.PiGPUCB(
                space, kernel, rkhs_norm=norm, horizon=replicate.horizon, **known
            ),
            "random": sb.RandomSearch(space, **known),
        },
    )


study = Study(
    name="grids",
    title="The cost of a round on growing grids",
    source="this notebook",
    cases=tuple(str(side) for side in SIDES),
    build=build,
    horizon=HORIZON,
    replicates=REPLICATES,
    duration="20 s",
    timed=True,
)

# %% [markdown]
# ## The shortest way
#
# `on="local:2"` starts two worker processes on this machine, plays the study on them, and stops them. Starting takes
# a few seconds, and so does compiling, the first time on a machine.

# %%
began = time.perf_counter()
result = study.run(on="local:2")
print(f"{result['seconds'].count().item()} runs in {time.perf_counter() - began:.1f} s")

# %% [markdown]
# ## A cluster that stays, and its dashboard
#
# With a client of your own the workers stay, and the dashboard shows what they do as they do it (it needs bokeh: `pip
# install 'scalable_bandits[cluster]'`). The same line with the address of a scheduler is a cluster of many machines;
# `cluster/` has recipes for ssh, SLURM and Kubernetes.

# %%
client = Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
print("dashboard:", client.dashboard_link)
client

# %%
wall = {}
streams = {}
for workers in (1, 2):
    client.cluster.scale(workers)
    while len(client.nthreads()) != workers:
        time.sleep(0.05)
    study.run(on=client, horizon=10)  # workers import the package, load what is compiled
    with get_task_stream(client) as stream:
        began = time.time()
        again = study.run(on=client)
        wall[workers] = time.time() - began
    streams[workers] = [
        (task["worker"], task["key"], part["start"] - began, part["stop"] - part["start"])
        for task in stream.data
        for part in task["startstops"]
        if part["action"] == "compute"
    ]
    assert np.array_equal(again["regret"], result["regret"])  # the same, however many workers
    if workers == 1:
        alone = again
    print(f"{workers} worker{'s' * (workers > 1)}: {wall[workers]:.1f} s")

client.close()
client.cluster.close()

# %% [markdown]
# ## What a round costs
#
# Each run keeps how long it took: here on one worker, that nothing is shared or compiled. The exact posterior of
# IGP-UCB is kept on all candidates: the larger the grid, the dearer a round. A cell of pi-GP-UCB costs what a cell
# costs, and those that cannot win are left alone.

# %%
cost = 1e3 * alone["seconds"] / HORIZON  # milliseconds
candidates = np.array(SIDES) ** 2
policies = cost["policy"].values

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.6), layout="constrained", width_ratios=(1, 1.25)
)
for i, name in enumerate(policies):
    each = cost.sel(policy=name).transpose("replicate", "case").values
    left.plot(candidates, each.T, ".", color=COLOURS[i], alpha=0.35)
    left.plot(candidates, each.mean(axis=0), label=name, **style(i))
logarithmic(left)
left.set(xlabel="candidates", ylabel="time per round (ms)")
left.set_title(f"What a round costs: mean of {REPLICATES} runs, and each")
left.set_xticks(candidates, [f"{n:,}" for n in candidates], minor=False)
left.set_xticks([], minor=True)
left.legend(frameon=False, loc="upper left")
left.grid(alpha=0.25)

height = 0
for workers, stream in streams.items():
    for worker in sorted({where for where, *_ in stream}):
        for i, name in enumerate(policies):  # the key of a task has the name of its policy
            words = f" {name}-".replace("-", " ", name.count("-"))
            mine = [bar for where, key, *bar in stream if where == worker and words in key]
            right.broken_barh(mine, (height - 0.4, 0.8), facecolor=COLOURS[i], edgecolor="white")
        height += 1
    right.plot([wall[workers]] * 2, [height - workers - 0.4, height - 0.6], color="black")
    where = (wall[workers], height - (workers + 1) / 2)
    right.annotate(f"{wall[workers]:.1f} s", where, (6, 0), textcoords="offset points", va="center")
right.set_yticks(range(3), ["one worker", "first of two", "second of two"])
right.invert_yaxis()
right.set(xlim=(0, 1.15 * max(wall.values())), xlabel="seconds")
right.set_title("Who played when: a bar a run, in the colour of its policy")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# On a machine with two free processors two workers need about half the time; where something else computes as well,
# there is less to gain. Runs are never cut in two: the longest of them is the least that any number of workers needs.
# A task costs some 10 ms to send: it pays when a run takes longer than that.
#
# Next: reading a study with xarray, in `6_reading_a_study.py`.
