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
# # Sensors that drift, and priors nobody is sure of
#
# **Shows** how several priors are used of which some are wrong: a policy takes them out of play as their errors show,
# and is compared with its alternatives on a day of readings. A few seconds.
#
# Fifty sensors measure the temperature of a building, and reading one costs something. Every half hour you may read
# one, and you want the warmest. The temperatures change through the day, so that what was read this morning says
# little by the evening. Earlier days give an idea of what to expect; but which earlier day is today like?

# %%
import matplotlib.pyplot as plt
import numpy as np

import scalable_bandits as sb
from scalable_bandits.environments import load_temperature
from scalable_bandits.plots import COLOURS

REPLICATES = 6

# %% [markdown]
# ## Readings
#
# With the measured temperatures of the Intel Berkeley lab (in `../shared/data`, or where `SCALABLE_BANDITS_DATA`
# points), those; without, a panel of the same shape that is made up: a daily wave that reaches the sensors one after
# the other.

# %%
DAY = 48  # half hours


def made_up(days, seed=0):
    rng = np.random.default_rng(seed)
    time, place = np.arange(days * DAY)[:, None], np.linspace(0.0, 1.0, 50)
    wave = 3.0 * np.cos(2 * np.pi * (time / DAY - 0.55 - 0.35 * place))
    warm = 2.0 * np.exp(-(((place - 0.7) / 0.15) ** 2))
    weather = np.repeat(rng.normal(0.0, 1.0, days), DAY)[:, None]
    wiggle = np.cumsum(rng.normal(0.0, 0.12, (days * DAY, 50)), axis=0)
    return 20.0 + wave + warm + weather + 0.6 * wiggle


try:
    data = load_temperature()
    train, test, origin = data.train, data.test, "Intel Berkeley lab"
except sb.DataMissing:
    train, test, origin = made_up(3), made_up(2, seed=1), "made up"
print(f"{origin}, {train.shape[1]} sensors:", end=" ")
print(f"{len(train) // DAY} days to learn from, {len(test) // DAY} to play")

# %% [markdown]
# ## Priors
#
# Perhaps today is like one of the days before, give or take. A prior's mean may be a function of the points and the
# round: that day's readings. How far days differ, which sensors do so together, and how fast such differences are
# forgotten (the epsilon of a `TemporalDecay`, by maximum likelihood) is what `prior_from_panel` finds in the
# deviations of the days from their average.
#
# Two more priors are mistaken: one has its clock wrong by twelve hours, one expects a heat wave of ten degrees more.

# %%
today = test[:DAY]
noise = 0.3  # degrees, of a reading
days = np.split(train, len(train) // DAY)
deviations = np.concatenate(days - np.mean(days, axis=0))
kernel = sb.prior_from_panel(deviations, noise_variance=noise**2).kernel
print(f"days differ by {deviations.std():.1f} degrees (standard deviation)")
print(f"such a difference is forgotten in some {1 / kernel.epsilon:.0f} half hours")


def like(day):
    """Mean of a prior: the readings of a day, at sensors (k, 1) in round t."""
    return lambda sensors, t: day[(t - 1) % DAY, sensors.ravel().astype(int)]


priors = [sb.Prior(f"day {i}", kernel, mean=like(day)) for i, day in enumerate(days, 1)]
priors.append(sb.Prior("clock off", kernel, mean=like(np.roll(days[-1], DAY // 2, axis=0))))
priors.append(sb.Prior("heat wave", kernel, mean=like(days[-1] + 10.0)))

# %% [markdown]
# ## Elimination
#
# `PEGPUCB` plays the most optimistic of the priors, and takes one out of play when its prediction errors are larger
# than it can explain. Optimists are found out quickly, because they are played.

# %%
space = sb.Arms(today.shape[1])
world = sb.SensorPanel(today, sb.GaussianNoise(noise), seed=0)
known = {"noise": noise, "regularization": noise**2}

policy = sb.PEGPUCB(space, priors, on_exhaustion="warn", **known)
turns = []
played = []
for t in range(1, DAY + 1):
    before = policy.plays
    arm = policy.ask()
    policy.tell(arm, world.observe(arm, t))
    played.append(int(arm))
    turns.append(next(name for name, count in policy.plays.items() if count > before[name]))

for name, rejection in policy.rejections.items():
    print(f"{name}: out in round {rejection.round},", end=" ")
    print(f"errors {rejection.excess:.1f} degrees larger than it can explain")
print("still in play:", ", ".join(policy.surviving))

# %% [markdown]
# Above: the temperatures of the day, the warmest sensor of each half hour, and the one that was read. Below: whose turn
# it was; a cross is where a prior went out of play.

# %%
figure, (panel, below) = plt.subplots(
    2, 1, figsize=(10, 6), layout="constrained", height_ratios=(2.2, 1), sharex=True
)
hours = np.arange(DAY) / 2
order = np.argsort(np.argmax(today, axis=0), kind="stable")
rank = np.argsort(order)
extent = (0, 24, -0.5, len(order) - 0.5)
image = panel.imshow(
    today[:, order].T, aspect="auto", cmap="inferno", origin="lower", extent=extent
)
figure.colorbar(image, ax=panel, label="degrees Celsius", pad=0.01)
warmest = {"linestyle": "none", "marker": "s", "markersize": 6, "markerfacecolor": "none"}
spot = hours + 0.25, rank[np.argmax(today, axis=1)]
panel.plot(*spot, color="black", markeredgewidth=2.6, **warmest)
panel.plot(*spot, color="white", label="warmest", **warmest)
read = {"color": COLOURS[5], "markeredgecolor": "black", "markersize": 4.5}
panel.plot(hours + 0.25, rank[played], "o", label="read", **read)
panel.set(ylabel="sensor, by the hour of its peak", title=f"One day ({origin})")
panel.legend(loc="lower right", facecolor="0.55", framealpha=1, fontsize=8, ncols=2)

names = [prior.name for prior in priors]
for i, name in enumerate(names):
    mine = hours[[turn == name for turn in turns]] + 0.25
    end = policy.rejections[name].round / 2 if name in policy.rejections else 24
    below.hlines(i, 0, end, color=COLOURS[i], alpha=0.25, linewidth=7)
    below.plot(mine, [i] * len(mine), "|", color=COLOURS[i], markersize=11, markeredgewidth=2)
    if name in policy.rejections:
        below.plot(end, i, "x", color="black", markersize=8, markeredgewidth=2)
below.set_yticks(range(len(names)), names)
below.set(xlim=(0, 24), ylim=(-0.6, len(names) - 0.4), xlabel="hour", xticks=range(0, 25, 6))
below.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## Against the alternatives
#
# The likeliest prior (`MLEGPUCB`), all of them weighted by their probabilities (`FullyBayesianGPUCB`), each in turn
# (`RegretBalancing`), and uniform play; on each of the days to play, with fresh noise. Printed and drawn: what each
# lost in a day, mean of six runs.

# %%
KINDS = {
    "elimination": sb.PEGPUCB,
    "likeliest": sb.MLEGPUCB,
    "Bayesian": sb.FullyBayesianGPUCB,
    "balancing": sb.RegretBalancing,
    "uniform play": sb.RandomSearch,
}
regret = {name: [] for name in KINDS}
for seed in range(REPLICATES):
    panel = np.split(test, len(test) // DAY)[seed % (len(test) // DAY)]
    function = sb.SensorPanel(panel, sb.GaussianNoise(noise), seed=seed)
    for name, kind in KINDS.items():
        more = {"on_exhaustion": "warn"} if kind is sb.PEGPUCB else {}
        player = kind(space, priors, seed=seed, **known, **more)
        regret[name].append(sb.simulate(player, function, DAY).regret)

# %%
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for i, (name, curves) in enumerate(regret.items()):
    curve = np.cumsum(np.mean(curves, axis=0))
    ax.plot(hours + 0.5, curve, color=COLOURS[i], label=f"{name}: {curve[-1]:.0f}")
    print(f"{name:12} {curve[-1]:4.0f} degrees")
ax.set(xlim=(0, 24), ylim=(0, None), xlabel="hour", ylabel="cumulative regret (degrees)")
ax.set_xticks(range(0, 25, 6))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The mistaken priors are the most optimistic ones, so that they are played first, and they are gone as soon as the
# readings disagree. From then on the days before take turns. All who use the priors lose far less than uniform play;
# between the rules there is little on a single day, but only elimination comes with a guarantee.
#
# **Next:** long horizons on a cluster, in [5_scaling_on_dask](5_scaling_on_dask.ipynb). Policies for functions that
# change, and for several priors: [choosing](../docs/choosing.md).
