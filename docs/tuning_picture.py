"""Draw `docs/tuning.png`, the picture of a tuning run in the README, from the README's own first example.

``python -m docs.tuning_picture`` runs the example, a second, and draws.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import scalable_bandits as sb

README, PICTURE = Path(__file__).parent.parent / "README.md", Path(__file__).parent / "tuning.png"


def main() -> None:
    """Draw what `slices` and `importance` say of the example's result."""
    example = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)[0]
    ran: dict[str, Any] = {}
    exec(compile(example, README, "exec"), ran)
    figure, axes = plt.subplots(1, 4, figsize=(11.5, 2.6), layout="constrained", width_ratios=(1, 1, 1, 1.25))
    sb.plots.slices(ran["found"], ax=axes[:3])
    sb.plots.importance(ran["found"], ax=axes[3])
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
