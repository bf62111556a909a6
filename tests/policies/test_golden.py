"""Golden trajectories: choices that were kept once are made by every version."""

import numpy as np
import threadpoolctl
from cases import golden
from cases.paths import STORES

KEPT = STORES / "golden.npz"


def test_the_same_choices():
    """Numbers are equal but for the last digits, in which processors and their BLAS differ."""
    with np.load(KEPT) as kept, threadpoolctl.threadpool_limits(1, user_api="blas"):
        names = {name.rpartition("/")[0] for name in kept.files}
        for name, (candidates, widths, gains) in golden.trajectories(names.copy()):
            np.testing.assert_array_equal(candidates, kept[f"{name}/candidate"], err_msg=name)
            np.testing.assert_allclose(widths, kept[f"{name}/width"], rtol=1e-9, err_msg=name)
            np.testing.assert_allclose(gains, kept[f"{name}/gain"], rtol=1e-9, atol=1e-12, err_msg=name)
            names.discard(name)
        assert not names
