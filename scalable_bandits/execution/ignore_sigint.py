"""Preload module of the workers of `on="local"`: they ignore Ctrl-C, which ends this process, and it ends them."""

from __future__ import annotations

import signal
import threading
from typing import Any


def dask_setup(worker: Any) -> None:
    """Have a starting worker ignore Ctrl-C; Dask calls this function."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
