"""Every file of a store, damaged in every way: what is read is right, or the damage is named, and nothing else is lost.

A sample is tried with the slow tests; `pytest -m long tests/store` tries all of it, in half an hour.
"""

import collections

import numpy as np
import pytest
from cases import every_damage
from cases import store as cases

RIGHT = ("harmless", "reported")
STORES = [(kind, "folder") for kind in every_damage.KINDS]
STORES += [(kind, "icechunk") for kind in every_damage.KINDS if kind != "study"]  # which is a folder or a URL of runs


@pytest.fixture(scope="module", params=STORES, ids="-".join)
def store(request, tmp_path_factory):
    """A run of each kind in each place."""
    kind, within = request.param
    with pytest.MonkeyPatch.context() as patch:
        cases.shrink(patch)
        cases.save_often(patch)
        yield every_damage.Store(kind, tmp_path_factory.mktemp("damage"), within)


def outcomes(store, damages):
    """How often what came of the damages was harmless or reported; fails if any came to anything else."""
    counts, wrong = collections.Counter(), []
    for damage in damages:
        results = every_damage.try_out(store, damage, store.folder / "work")
        for step, outcome in (results or {}).items():
            counts[f"{step}: {outcome.verdict}"] += 1
            if outcome.verdict not in RIGHT:
                wrong.append((damage, step, *outcome))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return counts


def sample(store, count):
    """Outcomes of some of the damages."""
    damages = list(store.damages(flips=2, digits=1))
    chosen = np.random.default_rng(3).choice(len(damages), count, replace=False)
    return outcomes(store, [damages[i] for i in sorted(chosen)])


@pytest.mark.slow
def test_a_sample(store):
    counts = sample(store, 12 if store.within == "folder" else 6)
    if not (counts["read: harmless"] and counts["read: reported"]):
        counts = sample(store, 40)  # files of icechunk have other names in each run: ten may be all of one kind
    assert counts["read: harmless"] > 0
    assert counts["read: reported"] > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_all(store, capsys):
    counts = outcomes(store, store.damages(flips=50, digits=20))
    with capsys.disabled():
        print(f"\n{store.kind.__name__} in {store.within}: {len(store.files)} files, {dict(sorted(counts.items()))}")
