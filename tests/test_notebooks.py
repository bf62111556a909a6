"""Every notebook belongs to its source, is small, has pictures, and shows the same when it is executed again."""

import re
import sys

import pytest
from cases.measured import HAS_DATA
from cases.paths import ROOT

sys.path.insert(0, str(ROOT))  # `notebooks` is no part of the package
import notebooks

sys.path.remove(str(ROOT))


def test_there_is_a_notebook_for_each_source():
    """An empty search would pass for ever, and an old notebook would stay."""
    assert len(notebooks.NAMES) >= 6
    assert sorted(path.stem for path in notebooks.FOLDER.glob("*.ipynb")) == notebooks.NAMES


@pytest.mark.filterwarnings("default")  # what Jupyter's packages warn of is theirs
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_what_is_kept(name):
    """Cells are those of the source; no notebook is too large for a code host, or tells of the machine it is from."""
    assert notebooks.look(name) == []
    text = (notebooks.FOLDER / f"{name}.ipynb").read_text()
    assert re.findall(r"(?<![\w.])/(?:tmp|dev/shm|root|opt|work|home/(?!you))\b[^\s\"]*| at 0x[0-9a-f]+", text) == []
    assert "execution" not in re.findall(r'^ {4,6}"(\w+)"', text, re.MULTILINE)  # times of cells


def test_differences_are_named():
    """Numbers, words, pictures and warnings count, each with its cell; numbers of a timed cell do not."""
    import nbformat.v4 as v4

    def notebook(*shown, tags=()):
        outputs = [v4.new_output("stream", name=name, text=text) for name, text in shown]
        cell = v4.new_code_cell("play()", outputs=outputs, metadata={"tags": list(tags)})
        return v4.new_notebook(cells=[cell])

    kept = notebook(("stdout", "regret 12.3456 in 1,000 rounds\n"))
    assert [*notebooks.differences(kept, kept)] == []
    assert [*notebooks.differences(kept, notebook(("stdout", "regret 12.3457 in 1,000  rounds\n")))] == []
    for text in ("regret 12.4 in 1,000 rounds", "regret 12.3456 in 1,001 rounds", "loss 12.3456 in 1,000 rounds", ""):
        (problem,) = notebooks.differences(kept, notebook(("stdout", text)))
        assert problem.startswith("cell 1 (play())")
    assert [*notebooks.differences(kept, notebook(("stderr", "regret 12.3456 in 1,000 rounds")))] != []

    timed = notebook(("stdout", "2 workers: 3.1 s, version 0.3.0"), tags=["times"])
    assert [
        *notebooks.differences(timed, notebook(("stdout", "2 workers: 1.2 min, version 0.4.1"), tags=["times"]))
    ] == []
    assert [*notebooks.differences(timed, notebook(("stdout", "2 workers died"), tags=["times"]))] != []

    picture = v4.new_output("display_data", data={"image/png": "", "text/plain": "<Figure>"})
    drawn = v4.new_notebook(cells=[v4.new_code_cell("play()", outputs=[picture])])
    assert [*notebooks.differences(drawn, v4.new_notebook(cells=[v4.new_code_cell("play()")]))] != []


LARGE = {  # notebooks that play for minutes, and what makes them small, where it stands
    "1_tuning_a_model": {
        "undisturbed = sb.minimize(error, SPACE, budget=30, progress=False)": "undisturbed = found",
        "for seed in (1, 2):": "for seed in ():", "for seed in (0, 1, 2):": "for seed in (0,):",
        "[place] * 3": "[place] * len(runs)", "error, player, budget=30": "error, player, budget=8",
        "range(1, 31)": "range(1, len(run.y) + 1)", "budget=40": "budget=32",
        'parallel=2, on="local:2", progress': "parallel=2, progress",
    },
    "5_scaling_on_dask": {
        "horizon=100_000,": "horizon=500,", "horizon=1000)": "horizon=100)",
        "[100, 400, 900, 3600]": "[36, 100, 225, 900]",
    },
    "6_reading_a_study": {"replicates=20": "replicates=11"},
}  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LARGE else pytest.mark.slow) for name in notebooks.NAMES],
)
def test_executed_again(name):
    """It runs from an empty folder, warns of nothing, and shows what is kept: words, numbers, pictures."""
    if "sensors" in name and not HAS_DATA:
        pytest.skip("the measured temperatures are missing, and others would be shown")
    assert notebooks.check(name) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", LARGE)
def test_executed_again_smaller(name, monkeypatch):
    """It runs, warns of nothing, and shows what is kept up to the first cell that is smaller; as much from there on."""
    source, smaller = notebooks.source_of(name), []
    for large, small in LARGE[name].items():
        (number,) = (number for number, cell in enumerate(source.cells) if large in cell.source)
        source.cells[number].source = source.cells[number].source.replace(large, small)
        smaller.append(number)
    monkeypatch.setattr(notebooks, "source_of", lambda name: source)
    kept, found = notebooks.kept(name), notebooks.execute(name)
    assert [*notebooks.differences(found, found)] == []  # no warnings
    for before, after in zip(kept.cells[min(smaller) :], found.cells[min(smaller) :], strict=True):
        once, again = notebooks.shown(before), notebooks.shown(after)
        assert (len(again), again.count(notebooks.PICTURE)) == (len(once), once.count(notebooks.PICTURE))
    kept.cells, found.cells = kept.cells[: min(smaller)], found.cells[: min(smaller)]
    assert [*notebooks.differences(kept, found)] == []
