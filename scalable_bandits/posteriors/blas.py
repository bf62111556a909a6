"""Matrix products and triangular solves by BLAS, in place and without the interpreter's lock, and its threads.

SciPy's wrappers (`scipy.linalg.blas`) hold the lock while they compute. The functions here call the same library at the
addresses that SciPy gives (`scipy.linalg.cython_blas`), through `ctypes`, which releases the lock. Every number equals
the wrapper's, to the last bit.

All arrays are float64 and row-major. To BLAS, a row-major array is the transposed column-major one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from scalable_bandits.checks import Floats

NAMES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")  # variables with a number of threads


class Limited(contextlib.ContextDecorator):
    """Context in which BLAS uses a given number of threads; also a decorator of functions.

    BLAS has one number of threads for the whole process. It is set when the first thread enters the context, and reset
    when the last one leaves.

    Parameters
    ----------
    threads
        Number of threads.
    """

    def __init__(self, threads: int):
        self._threads, self._lock, self._inside = threads, threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _libraries().limit(limits=self._threads, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limit is not None:
                self._limit.restore_original_limits()


@functools.cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


limited = functools.cache(Limited)  # one context a number, which all threads share
# For threads of this process that work side by side, one on each core. And for small products and solves: several
# threads of BLAS wait for each other actively, thirtyfold longer where another process needs one of the cores.
one_thread = limited(1)


def blas_threads() -> Limited:
    """Return the context in which BLAS has as many threads as the environment asks for (`NAMES`), or one.

    The last bits of a matrix product depend on that number, and so would a study's results on its executor.
    """
    return limited(int(next((os.environ[name] for name in NAMES if os.environ.get(name, "").isdecimal()), "1")))


def _routine(name: str, letters: int, others: int) -> tuple[Callable[..., None], Any]:
    """Return a routine of BLAS, which takes letters and then addresses of the others, and the type of its integers."""
    capsule = vars(cython_blas)["__pyx_capi__"][name]
    signature, address = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    arguments = [ctypes.c_char_p] * letters + [ctypes.c_void_p] * others
    text = signature(capsule)
    integer = ctypes.c_int if b" int *" in text else ctypes.c_int64
    return ctypes.CFUNCTYPE(None, *arguments)(address(capsule, text)), integer


_dgemm, _integer = _routine("dgemm", 2, 11)
_dtrmm, _ = _routine("dtrmm", 4, 7)
_dtrsm, _ = _routine("dtrsm", 4, 7)
_ONE, _MINUS_ONE = (ctypes.byref(ctypes.c_double(value)) for value in (1.0, -1.0))


def _address(array: Floats, *shape: int) -> int:
    """Return the address of an array's first number; refuse an array that is not row-major float64 of this shape."""
    if not (array.flags.c_contiguous and array.dtype == np.float64 and array.shape == shape):
        raise ValueError(f"array: got {array.dtype} {array.shape}; allowed: row-major float64 of shape {shape}")
    return array.ctypes.data


def _numbers(*values: int) -> list[Any]:
    return [ctypes.byref(_integer(value)) for value in values]


def subtract_product(out: Floats, left: Floats, right: Floats) -> None:
    """Compute out -= left @ right in place.

    Parameters
    ----------
    out
        (k, n) array to change.
    left, right
        (k, m) and (m, n) factors.
    """
    (k, m), n = left.shape, right.shape[1]
    if not (k and m and n):
        return
    rows, inner, columns = _numbers(k, m, n)
    _dgemm(
        b"N", b"N", columns, rows, inner, _MINUS_ONE, _address(right, m, n), columns, _address(left, k, m), inner,
        _ONE, _address(out, k, n), columns,
    )  # fmt: skip


def multiply_upper(upper: Floats, rows: Floats) -> None:
    """Compute rows = upper @ rows in place.

    Parameters
    ----------
    upper
        (r, r) upper triangular matrix; its entries below the diagonal are not read.
    rows
        (r, n) array to change.
    """
    _triangular(_dtrmm, b"L", upper, rows)


def solve_lower(lower: Floats, rows: Floats) -> None:
    """Compute rows = lower^-1 @ rows in place.

    Parameters
    ----------
    lower
        (r, r) lower triangular matrix; its entries above the diagonal are not read.
    rows
        (r, n) array to change.
    """
    _triangular(_dtrsm, b"U", lower, rows)


def _triangular(routine: Callable[..., None], half: bytes, triangle: Floats, rows: Floats) -> None:
    r, n = rows.shape
    if r and n:
        height, width = _numbers(r, n)
        routine(
            b"R", half, b"N", b"N", width, height, _ONE, _address(triangle, r, r), height, _address(rows, r, n), width
        )
