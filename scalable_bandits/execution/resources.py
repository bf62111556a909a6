"""What a process takes beside time: memory, and messages to the shards on workers."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import sys
import time
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # on Linux


class Traffic:
    """Messages between this process and the shards on workers, since the process began.

    Attributes
    ----------
    messages : int
        Number of messages to workers; each has one answer.
    sent, received : int
        Bytes of the messages and of the answers.
    waited : float
        Seconds from sending to the last answer, summed over questions.
    asked : dict
        By the number of shards in a question: how many questions, and the seconds that the shards worked on them.
    """

    def __init__(self) -> None:
        self.messages = self.sent = self.received = 0
        self.waited = 0.0
        self.asked: dict[int, tuple[int, float]] = {}

    def add(self, messages: int, sent: int, received: int, shards: int, waited: float, worked: float) -> None:
        """Count a question to some shards, and its messages."""
        self.messages, self.sent, self.received = self.messages + messages, self.sent + sent, self.received + received
        questions, seconds = self.asked.get(shards, (0, 0.0))
        self.asked[shards] = questions + 1, seconds + worked
        self.waited += waited


traffic = Traffic()
_collected, _collecting = -math.inf, 0.0  # when cycles of objects were last looked for, and how long that took


def forget_peak() -> int:
    """Let `peak_memory` count from now on, where the system can; return the bytes that this process has in memory.

    What is free already is given back to the system first, so that it is counted when it is used again. Cycles of
    objects are looked for in a tenth of the time at most, as that takes long where there are many objects.
    """
    import psutil

    global _collected, _collecting
    began = time.monotonic()
    if began - _collected > 9.0 * _collecting:
        gc.collect()
        _collected = time.monotonic()
        _collecting = _collected - began
    with contextlib.suppress(OSError, AttributeError):  # other C libraries than that of GNU
        ctypes.CDLL(None).malloc_trim(0)
    if _FORGET.exists():
        _FORGET.write_text("5")
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Return the largest number of bytes that this process has had in memory since `forget_peak`.

    Systems other than Linux cannot forget: it is then the largest number since the process began.
    """
    if _STATUS.exists():
        return int(_STATUS.read_text().split("VmHWM:")[1].split()[0]) * 1024
    import resource  # there is none on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
