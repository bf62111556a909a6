"""Every notebook runs from a clean kernel, without an error, and ends in a figure."""

import jupytext
import nbclient
import pytest
from cases.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def test_there_are_notebooks():
    """An empty search would pass for ever."""
    assert len(NOTEBOOKS) == 7


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "default"
)  # what Jupyter's packages warn of is theirs; those of a notebook are in its kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    """The last cell that shows anything shows a figure."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = jupytext.read(path)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()  # raises what a cell raises
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown[-1])
    warned = [o.text for outputs in shown for o in outputs if o.output_type == "stream" and "Warning" in o.text]
    assert not warned
