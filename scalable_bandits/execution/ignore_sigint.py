"""Preload module that makes the workers of `on="local"` ignore Ctrl-C.

Ctrl-C interrupts the main process, which then ends its workers.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


def dask_setup(worker: Any) -> None:
    """Have a starting worker ignore Ctrl-C; Dask calls this function."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
