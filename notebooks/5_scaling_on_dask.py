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
# How do the cost of a round and the regret grow with the space and with the horizon, and what do more workers buy? A
# study is *cases x policies x replicates*, at every value of its *axes*; its runs are independent of each other, so
# that they go to the workers of a cluster one by one. Every regret in it is a function of its seed: two workers or two
# hundred give the same result, bit by bit.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, get_task_stream

import scalable_bandits as sb
from scalable_bandits.planning import plan
from scalable_bandits.plots import COLOURS
from scalable_bandits.studies import Problem, Study

# %% [markdown]
# ## A study of one's own, with two axes
#
# `build` makes the problem of one replicate from its seed and the values of the axes. The grid's side changes the
# environment: it makes a case for each value. `horizon` is a list: pi-GP-UCB, whose cells depend on the horizon, is
# played once for each; the others are played once, up to the longest, and read at each.

# %%
kernel = sb.Matern(0.2, nu=1.5)


def build(replicate):
    space = sb.Grid([[0.0, 1.0], [0.0, 1.0]], int(replicate.values["side"]))
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
    title="Growing grids, growing horizons",
    cases=("grid",),
    build=build,
    horizon=[100, 300, 1000],
    replicates=3,
    axes={"side": [10, 20, 40]},  # add 80, 160 and 320 for a longer look
    timed=True,
)

# %% [markdown]
# ## The shortest way
#
# `on="local:2"` starts two worker processes on this machine, plays the study on them, and stops them. Starting takes
# a few seconds, and so does compiling, the first time on a machine. The axes are coordinates of the result.

# %%
began = time.perf_counter()
result = study.run(on="local:2")
print(f"{result['seconds'].count().item()} runs in {time.perf_counter() - began:.1f} s")
result[["regret", "round_seconds", "peak_memory"]]

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
    study.run(on=client, horizon=[10, 20])  # workers import the package, load what is compiled
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
    assert np.array_equal(again["regret"], result["regret"], equal_nan=True)  # however many workers
    if workers == 1:
        alone = again
    print(f"{workers} worker{'s' * (workers > 1)}: {wall[workers]:.1f} s")

# %% [markdown]
# ## How the cost of a round grows, and the regret
#
# The numbers of the run on one worker, that nothing is shared with. The exact posterior of IGP-UCB is kept on all
# candidates: the larger the grid, the dearer a round. A cell of pi-GP-UCB costs what a cell costs, and those that
# cannot win are left alone. In the legend is the fitted exponent with its 95 % interval over the replicates.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
sb.plots.scaling(alone, "round_seconds", "side", ax=left, expected={"IGP-UCB": 4.0})
sb.plots.scaling(alone, "regret", "round", case="grid, side = 20", ax=right)
left.set_title("Time per round over the side of the grid")
right.set_title("Regret over rounds, 20 x 20 candidates")
for ax in (left, right):
    ax.legend(frameon=False, loc="upper left", title="exponent [95 % interval]")
plt.show()

# %%
for row in sb.analysis.exponents(alone, "round_seconds", over="side", span="whole"):
    print(f"{row.policy:10} side^{row.exponent:.2f}  [{row.low:.2f}, {row.high:.2f}]")

# %% [markdown]
# Folding the latest points into the posterior of n = side^2 candidates takes n^2 = side^4 operations: the grey line. On
# small grids the rest of a round costs more than that, so that the exponent is smaller.
#
# ## The plan for a larger cluster
#
# `plan` plays the first moments of one run of each policy in each case, measures how much slower a run is while the
# other cores are busy and what messages take, and hands the runs out to as many workers as one likes. On paper, that
# is: it takes the machines to be like this one. Here for a longer study: up to 100,000 rounds, 30 replicates.

# %%
found = plan(study, [1, 2, 16, 256], seconds=0.2, horizon=[1000, 100_000], replicates=30, on=client)
client.close()
client.cluster.close()
for each in found.workers:
    print(
        f"{each.workers:>3} workers: {each.seconds:6.1f} s, {each.busy:4.0%} busy, "
        f"{each.memory / 1e6:5,.0f} MB, {each.messages:,} messages"
    )
print(f"beyond {found.enough} workers more save less than a tenth")

# %% [markdown]
# One worker is this process. More are taken to be there already, as those of `client` are; without `on=` the time in
# which they start and import the package is counted, too. However many there are, the longest run limits them.
# `scalable-bandits plan` does the same for a study file or a named study, and tabulates what each policy takes.
#
# ## Who played when

# %%
figure, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
policies = list(sb.analysis.policies_of(alone))
height = 0
for workers, stream in streams.items():
    for worker in sorted({where for where, *_ in stream}):
        for i, name in enumerate(policies):  # the key of a task has the name of its policy
            words = f" {name}".replace("-", " ")
            mine = [bar for where, key, *bar in stream if where == worker and words in key]
            ax.broken_barh(mine, (height - 0.4, 0.8), facecolor=COLOURS[i], edgecolor="white")
        height += 1
    ax.plot([wall[workers]] * 2, [height - workers - 0.4, height - 0.6], color="black")
    where = (wall[workers], height - (workers + 1) / 2)
    ax.annotate(f"{wall[workers]:.1f} s", where, (6, 0), textcoords="offset points", va="center")
ax.set_yticks(range(3), ["one worker", "first of two", "second of two"])
ax.invert_yaxis()
ax.set(xlim=(0, 1.15 * max(wall.values())), xlabel="seconds")
ax.set_title("A bar a run, in the colour of its policy")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# On a machine with two free processors two workers need about half the time; where something else computes as well,
# there is less to gain. Runs are never cut in two: the longest of them is the least that any number of workers needs.
# A task costs some 10 ms to send: it pays when a run takes longer than that.
#
# The same as a study file, with longer horizons and larger spaces: `docs/scalability.md`.
#
# Next: reading a study with xarray, in `6_reading_a_study.py`.
