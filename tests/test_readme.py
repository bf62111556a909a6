"""The README's Python runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run(capsys, tmp_path, monkeypatch):
    """One after the other, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    namespace = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    assert capsys.readouterr().out.startswith("Best(x=array(")
    run = namespace["run"].dataset()
    assert run.sizes["round"] == 10_000
    best = namespace["policy"].best()
    assert best.std < 1.0
