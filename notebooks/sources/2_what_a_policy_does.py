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
# # What a policy does
#
# **Shows** how a policy chooses where to measure: a problem is made, a policy plays it by hand (ask, measure, tell), a
# picture shows what it believes, and another one what five policies lose over a thousand rounds. A few seconds.
#
# You can measure something at any of a hundred settings. Each measurement is noisy, and you would like to spend as
# few of them as possible on settings that are bad. A *policy* says where to measure next. Tuning, as in
# [the first notebook](1_tuning_a_model.ipynb), has one inside.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS

# %% [markdown]
# ## A problem
#
# The **space** is what may be chosen: 100 points between 0 and 1. The **kernel** says how alike the function is at
# two of them; its lengthscale, 0.1, is the distance over which it changes noticeably. The **environment** answers:
# here a random function whose norm under this kernel is known, with Gaussian noise of standard deviation 0.3.

# %%
space = sb.Grid([[0.0, 1.0]], 100)
kernel = sb.Matern(0.1, nu=2.5)
world = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=4)

x = space.points()[:, 0]
truth = world.table()
print(f"f lies between {truth.min():.2f} and {truth.max():.2f}; its norm is {world.rkhs_norm:.2f}")

# %% [markdown]
# ## Ask, measure, tell
#
# That is the whole interface. `noise` is R, how far a measurement strays; `regularization` is the noise variance that
# the posterior assumes; `rkhs_norm` is B, a bound on the norm of the function; `confidence` is the theorem that says
# how wide the policy's intervals have to be, so that all of them hold with probability 0.9 (`delta=0.1`).

# %%
known = {"noise": 0.3, "regularization": 0.09}
proven = {"rkhs_norm": world.rkhs_norm, "confidence": "flynn-reeb"}
policy = sb.IGPUCB(space, kernel, **known, **proven)

for t in range(1, 6):
    point = policy.ask()
    y = world.observe(point, t)
    policy.tell(point, y)
    print(f"round {t}: x = {point[0]:.2f}, y = {y:+.2f}")

# %% [markdown]
# ## What it believes
#
# The posterior is a mean and a standard deviation at every point, and the policy plays where *mean + width x
# deviation* is largest: a point is worth trying because it looks good, or because little is known about it. That sum
# is the **index**. It overestimates at first, and comes down where there are measurements.


# %%
def draw(ax, policy, measured):
    mean, std = policy.posterior(space.points())
    ax.fill_between(
        x,
        mean - 2 * std,
        mean + 2 * std,
        color=COLOURS[0],
        alpha=0.18,
        linewidth=0,
        label="mean ± 2 std",
    )
    ax.plot(x, mean, color=COLOURS[0], label="posterior mean")
    ax.plot(x, mean + policy.width * std, color=COLOURS[1], linestyle="--", label="index")
    ax.plot(x, truth, color="black", linewidth=1, label="the function")
    ax.plot(
        *np.transpose(measured), "o", color="black", markersize=3.5, alpha=0.4, label="measured"
    )
    ax.set_title(f"after {policy.rounds} rounds", fontsize=10)
    ax.set_xlabel("x")
    ax.spines[["top", "right"]].set_visible(False)


figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
policy = sb.IGPUCB(space, kernel, **known, **proven)
measured = []
for t in range(1, 301):
    point = policy.ask()
    measured.append((point[0], world.observe(point, t)))
    policy.tell(*measured[-1])
    if t in (5, 30, 300):
        draw(axes[(5, 30, 300).index(t)], policy, measured)
axes[0].set_ylabel("y")
axes[0].set_ylim(-2.6, None)
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
)
plt.show()

# %% [markdown]
# Measurements crowd where the function is large. Elsewhere the policy stays vague: it only has to know that the rest
# is worse.
#
# What to recommend in the end is another question than what to try next:

# %%
best = policy.best()
print(f"best x = {best.x[0]:.2f}: {best.mean:.2f} ± {best.std:.2f}")
print(f"the truth there: {world.mean(best.x):.2f}")

# %% [markdown]
# ## What it costs
#
# **Regret** is what a round lost against the best point, and a good policy's regret grows ever more slowly.
# `simulate` plays a policy against an environment; every number in it is a function of the seeds. Printed and drawn:
# the mean over ten functions, with its 95 % interval.

# %%
HORIZON, REPLICATES = 1000, 10


def policies(norm, seed):
    proven = {"rkhs_norm": norm, "confidence": "flynn-reeb"}
    return {
        "uniform play": sb.RandomSearch(space, **known, seed=seed),
        "IGP-UCB": sb.IGPUCB(space, kernel, **known, **proven),
        "GP-UCB, beta / 5": sb.GPUCB(space, kernel, scale=5, **known),
        "GP-TS": sb.GPTS(space, kernel, **known, **proven, seed=seed),
        "GP-EI": sb.GPEI(space, kernel, **known),
    }


regret = {}
for seed in range(REPLICATES):
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=seed)
    for name, player in policies(function.rkhs_norm, seed).items():
        run = sb.simulate(player, function, HORIZON)
        regret.setdefault(name, []).append(run.cumulative_regret)

# %%
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
rounds = np.arange(1, HORIZON + 1)
for colour, (name, curves) in zip(COLOURS, regret.items(), strict=False):
    mean = np.mean(curves, axis=0)
    half = stats.t.ppf(0.975, REPLICATES - 1) * stats.sem(curves, axis=0)
    ax.plot(rounds, mean, color=colour, label=name)
    ax.fill_between(rounds, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
    print(f"{name:17} {mean[-1]:5,.0f} ± {half[-1]:.0f}")
ax.legend(frameon=False)
ax.set(xscale="log", yscale="log")
ax.set(xlabel="round", ylabel="cumulative regret (units of y)", xlim=(1, HORIZON))
ax.set_title(
    f"What five policies lose, mean of {REPLICATES} functions with a 95 % band", fontsize=11
)
ax.spines[["top", "right"]].set_visible(False)
ax.grid(alpha=0.25)
plt.show()

# %% [markdown]
# Uniform play loses the same in every round: a straight line of slope 1. The others bend. The guaranteed widths
# (IGP-UCB, GP-TS) are wide, because a proof needs them to be; a narrower one is better in practice and has no proof
# here. The guide [choosing](../docs/choosing.md) says how to choose a policy, and B, R and lambda.
#
# **Next:** a table of a paper comes out again, in [3_reproducing_a_paper](3_reproducing_a_paper.ipynb). To tune a
# model of your own: [1_tuning_a_model](1_tuning_a_model.ipynb).
