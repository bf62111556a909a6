"""Threads of BLAS: one, unless the environment asks for more.

The last bits of a matrix product depend on their number, and so would a study's on where it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def blas_threads() -> Iterator[None]:
    """Have BLAS use as many threads as OPENBLAS_NUM_THREADS (MKL_, OMP_) says, and one if none of them is set."""
    from threadpoolctl import threadpool_limits

    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    asked = next((os.environ[name] for name in names if os.environ.get(name, "").isdecimal()), "1")
    with threadpool_limits(limits=int(asked), user_api="blas"):
        yield
