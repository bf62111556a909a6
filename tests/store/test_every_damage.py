"""Every file of a store, damaged in every way: what is read is right, or the damage is named, and nothing else is lost.

A few damages of some kinds of run are tried by default, and of the others with the slow tests; `pytest -m long` tries
all of them.
"""

import collections

import numpy as np
import pytest
from cases import every_damage
from cases import store as cases

DEFAULT = ("Told", "ClosedMaximize")
KINDS = [pytest.param(kind, marks=() if kind in DEFAULT else pytest.mark.slow) for kind in every_damage.KINDS]


@pytest.fixture(scope="module", params=KINDS)
def store(request, tmp_path_factory):
    """A run of each kind."""
    if request.param == "Objects":
        pytest.importorskip("obstore")
    with pytest.MonkeyPatch.context() as patch:
        cases.shrink(patch)
        cases.save_often(patch)
        yield every_damage.Store(request.param, tmp_path_factory.mktemp("damage"))


def outcomes(store, damages):
    """Return how often what came of the damages was harmless or reported; fail if any came to anything else."""
    counts, wrong = collections.Counter(), []
    for damage in damages:
        for step, outcome in every_damage.try_out(store, damage, store.folder / "work").items():
            counts[f"{step}: {outcome.verdict}"] += 1
            if outcome.verdict not in ("harmless", "reported"):
                wrong.append((*damage, step, *outcome))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return counts


@pytest.mark.parametrize("count", ["few", pytest.param(40, marks=pytest.mark.long)])
def test_a_sample(store, count):
    """Drawn from all, and of the files without which nothing can be read some in any case."""
    if count == "few":
        count = 3 if store.kind.__name__ in DEFAULT else 12  # with the slow tests
    damages = list(store.damages(flips=2, digits=1))
    chosen = np.random.default_rng(count).choice(len(damages), count, replace=False)
    first = [d for d in damages if "committed/run" in d.file and d.way in ("removed", "emptied", "other", "earlier")]
    counts = outcomes(store, [*first[:4], *(damages[i] for i in sorted(chosen))])
    assert counts["go on: harmless"] + counts["go on: reported"] > count // 2


def test_damage_that_only_writing_meets(tmp_path, monkeypatch):
    """The error names the file, also where all rows are read as they were."""
    cases.shrink(monkeypatch)
    store = every_damage.Store("ClosedTold", tmp_path)
    outcomes(store, [every_damage.Damage("committed/run.sqlite", "flip", number) for number in (186, 187, 188)])


def test_a_ledger_of_another_run_on_an_object_store(tmp_path, monkeypatch):
    """Neither file says which of both is the wrong one: the error names them."""
    pytest.importorskip("obstore")
    cases.shrink(monkeypatch)
    store = every_damage.Store("Objects", tmp_path)
    outcomes(store, [every_damage.Damage("committed/zarr.json", way) for way in ("other", "removed")])


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_all(store, capsys):
    counts = outcomes(store, store.damages(flips=50, digits=20))
    with capsys.disabled():
        print(f"\n{store.kind.__name__}: {len(store.files)} files, {dict(sorted(counts.items()))}")
