"""What knowing the context is worth where it matters, and what it costs where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from cases.paths import ROOT


def test_the_regret_of_a_contextual_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half of that of a blind one in every run where the context matters, and no more than 1.1 times elsewhere.

    Ten functions of `python -m benchmarks contextual` on a smaller grid. Elsewhere the ratio of the sums may be larger
    by three standard errors of the differences.
    """
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import contextual

    found = contextual.regrets((20, 10), 500, 10)
    name = "contextual, of two kernels the likelier"
    ours, blind = found["matters"][name], found["matters"]["blind"]
    assert (ours < 0.5 * blind).sum() >= 9
    assert ours.sum() < 0.25 * blind.sum()
    ours, blind = found["does not matter"][name], found["does not matter"]["blind"]
    room = 3.0 * np.std(ours - 1.1 * blind, ddof=1) / np.sqrt(10)
    assert (ours - 1.1 * blind).mean() < room
    assert room < 0.3 * blind.mean()
    assert found["does not matter"]["contextual"].mean() > 2.0 * blind.mean()  # which it is that the choice spares
