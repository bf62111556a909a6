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
# # Screening molecules
#
# **Shows** how the best of 87,808 molecules are found by measuring 600 of them, in six batches: a pool is written with
# a fingerprint of each molecule, batches are chosen from it, and a run that ended early goes on. Half a minute.
#
# Choosing from a long list is what chemistry does: a library of molecules that could be made or bought, an assay that
# measures some dozens at once, and no time for all of them. Nothing here needs a package of chemistry; with `rdkit` the
# fingerprints would be its own, and all else the same.

# %%
import itertools
import zlib

import matplotlib.pyplot as plt
import numpy as np

import scalable_bandits as sb
from scalable_bandits.plots import COLOURS

# %% [markdown]
# ## The library
#
# Four ring systems with three places each, and 28 groups for each place. Of every group two published constants are
# known: how much it raises the affinity to fat, pi, and how much it draws electrons, sigma (Hansch, Leo & Taft 1991).

# %%
GROUPS = {  # SMILES: (pi, sigma)
    "[H]": (0.00, 0.00), "C": (0.56, -0.17), "CC": (1.02, -0.15), "C(C)(C)C": (1.98, -0.20), "F": (0.14, 0.06),
    "Cl": (0.71, 0.23), "Br": (0.86, 0.23), "I": (1.12, 0.18), "C(F)(F)F": (0.88, 0.54), "O": (-0.67, -0.37),
    "OC": (-0.02, -0.27), "OCC": (0.38, -0.24), "N": (-1.23, -0.66), "N(C)C": (0.18, -0.83), "NC(=O)C": (-0.97, 0.00),
    "[N+](=O)[O-]": (-0.28, 0.78), "C#N": (-0.57, 0.66), "C=O": (-0.65, 0.42), "C(=O)C": (-0.55, 0.50),
    "C(=O)O": (-0.32, 0.45), "C(=O)OC": (-0.01, 0.45), "C(=O)N": (-1.49, 0.36), "S(=O)(=O)C": (-1.63, 0.72),
    "SC": (0.61, 0.00), "c9ccccc9": (1.96, -0.01), "Oc9ccccc9": (2.08, -0.03), "S(=O)(=O)N": (-1.82, 0.57),
    "CO": (-1.03, 0.00),
}  # fmt: skip
RINGS = {  # with three places: affinity of the ring itself, and the one at which the assay is most sensitive
    "c1c({})cc({})cc1{}": (2.1, 3.4), "c1c({})nc({})cc1{}": (0.7, 1.6), "c1c({})c2cc({})ccc2cc1{}": (3.3, 3.9),
    "c1c({})oc({})c1{}": (1.3, 2.4),
}  # fmt: skip

library = [
    ring.format(*groups) for ring, *groups in itertools.product(RINGS, GROUPS, GROUPS, GROUPS)
]
print(f"{len(library):,} molecules, for instance {library[40_000]}")

# %% [markdown]
# The assay is unknown to whoever screens. Here it is the classical equation of drug design: activity is a parabola of
# the affinity to fat, since what does not dissolve does not get there, plus what the electrons do, plus noise.


# %%
def activity(smiles_ring, groups):
    """Activity of a molecule: Hansch's equation."""
    own, most = RINGS[smiles_ring]
    pi, sigma = np.sum([GROUPS[group] for group in groups], axis=0)
    return 6.0 - 0.4 * (own + pi - most) ** 2 + 0.9 * sigma


truth = {
    ring.format(*groups): activity(ring, groups)
    for ring, *groups in itertools.product(RINGS, GROUPS, GROUPS, GROUPS)
}
noise = np.random.default_rng(1)


def assay(smiles):
    """Measure a molecule."""
    return truth[smiles] + 0.1 * noise.standard_normal()


values = np.array([truth[smiles] for smiles in library])
best = set(np.array(library)[np.argsort(-values)[:88]])
least = min(truth[smiles] for smiles in best)
print(
    f"activities from {values.min():.1f} to {values.max():.1f}; the best 0.1 % begin at {least:.2f}"
)

# %% [markdown]
# ## The pool
#
# A fingerprint has 1,024 bits. Every part of the text of up to five letters sets one of them: molecules with many
# common parts have many common bits. `Pool.write` takes them piece by piece, so that a library need not fit into
# memory; after an interruption the same call writes what is missing. The text of each molecule is kept as its label.


# %%
def fingerprint(smiles):
    """Packed bits of all parts of a text of up to five letters."""
    parts = {smiles[i : i + n] for n in range(1, 6) for i in range(len(smiles) - n + 1)}
    bits = np.zeros(1024, dtype=bool)
    bits[[zlib.crc32(part.encode()) % 1024 for part in parts]] = True
    return np.packbits(bits)


def pieces(size=10_000):
    """Yield the library in pieces."""
    for first in range(0, len(library), size):
        some = library[first : first + size]
        yield {"bits": np.array([fingerprint(smiles) for smiles in some]), "labels": some}


pool = sb.Pool.write("library.zarr", pieces(), chunk=16_384, progress=False)
print(f"{pool.size:,} molecules in {pool.chunks} chunks")

# %% [markdown]
# ## Six batches of a hundred
#
# `screen` chooses a batch by a pass over the pool, measures it, tells all values, and chooses the next one. The first
# batch is random; the others have the largest upper confidence bounds under what was learned from those before, each
# candidate as if the ones chosen before it were already measured. With `store=` the run is on disk: the same call goes
# on after a crash, and measures nothing twice. Here the first call ends after 300.

# %% tags=["times"]
for budget in (300, 600):
    found = sb.screen(assay, pool, budget, batch=100, store="screen.zarr", progress=False)
    table = found.table()
    print(f"{budget} measured: {len(best & set(table['candidate']))} of the best {len(best)}")
print(table.nlargest(5, "value")[["candidate", "value"]].to_string(index=False))

# %% [markdown]
# Measuring 600 at random would find 0.6 of the best 88 on average. What each batch brought:

# %%
measured = table["value"].to_numpy()
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(measured))
ax.plot(
    np.arange(len(measured)) // 100 + 1 + jitter,
    measured,
    ".",
    color=COLOURS[0],
    alpha=0.5,
    label="measured",
)
ax.axhline(
    min(truth[s] for s in best), color="black", linewidth=1, linestyle="--", label="the best 0.1 %"
)
ax.set_xlabel("batch")
ax.set_ylabel("activity")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")
plt.show()

# %% [markdown]
# ## Where to go from here
#
# - In a terminal: `scalable-bandits screen --pool library.zarr --command "./assay {candidate}" --store screen.zarr
#   --budget 600 --batch 100 --maximize`. With `--plan 1,16,256` it says before what choosing takes on so many workers.
# - Millions of molecules on several processes, or a Dask cluster: `on="local:4"`, or an address. The numbers are the
#   same.
# - By hand, where an assay takes a week: `policy = sb.GPUCB(pool)`, `policy.ask(100)`, `policy.tell(labels, values)`.
# - What is in stock changes: `policy.ask(100, available=...)`.
#
# **Next:** all of it, with measurements beside other packages: [pools](../docs/pools.md).
