"""The Python of the README runs as it stands. That of the guides runs when the documentation is built."""

import re

from cases.paths import ROOT


def test_readme(capsys, tmp_path, monkeypatch):
    """Its blocks one after the other, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    namespace = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert printed.startswith("TuningResult: smaller is better; 30 evaluations")
    assert "influence" in printed
    assert namespace["found"].value < 1.0
    assert namespace["screened"].value > -0.01
    stored = namespace["run"].dataset()
    assert stored.sizes["round"] == 10_000
