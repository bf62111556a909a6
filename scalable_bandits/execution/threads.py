"""Threads of BLAS: one, unless the environment asks for more.

The last bits of a matrix product depend on their number, and so would a study's on where it runs.
"""

from __future__ import annotations

import os

from scalable_bandits.posteriors.blas import Limited, limited

NAMES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def blas_threads() -> Limited:
    """Context in which BLAS has the threads that the first of `NAMES` with a number asks for, or one."""
    return limited(int(next((os.environ[name] for name in NAMES if os.environ.get(name, "").isdecimal()), "1")))
