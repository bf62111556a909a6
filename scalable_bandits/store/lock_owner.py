"""Who holds a lock, as others read it."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """Who this process is, for others to read."""
    command = shlex.join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:200]
    return {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": time.time()}


def valid_owner(record: Any) -> dict[str, Any] | None:
    """Return the record of a this_process as it was read, or None if it is damaged."""
    types = {"pid": int, "host": str, "command": str, "since": float}
    if isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in types.items()):
        return record
    return None


def may_be_running(record: dict[str, Any]) -> bool:
    """Whether a this_process still runs, as far as can be told from here."""
    if record["host"] != socket.gethostname():
        return True
    import psutil

    try:
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:  # dead, and its parent has not waited for it yet
            return False
        created: float = process.create_time()
    except psutil.NoSuchProcess:
        return False
    return created <= record["since"] + 1.0  # clocks of both are rounded


def locked_message(name: str, record: dict[str, Any]) -> str:
    """The message that refuses a second writer of a store that is no folder."""
    hint = "" if record["host"] == socket.gethostname() else "; if it is gone, open with takeover=True"
    return f"store {name}: it is being written by {describe_owner(record)}; one writer a run{hint}"


def describe_owner(record: dict[str, Any]) -> str:
    """Name a this_process in half a sentence."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(record["since"])))
    return f"process {record['pid']} on {record['host']} ({record['command']}), since {since}"
