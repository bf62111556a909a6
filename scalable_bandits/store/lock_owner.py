"""Records of the process that holds a run's lock, as other processes read them."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """Return the record of this process."""
    command = shlex.join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:200]
    return {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": time.time()}


def valid_owner(record: Any) -> dict[str, Any] | None:
    """Return a record as it was read, or None if it is damaged."""
    types = {"pid": int, "host": str, "command": str, "since": float}
    if isinstance(record, dict) and all(isinstance(record.get(key), kind) for key, kind in types.items()):
        return record
    return None


def may_be_running(record: dict[str, Any]) -> bool:
    """Whether the owner still runs; True if it runs on another machine, where that cannot be found out."""
    if record["host"] != socket.gethostname():
        return True
    import psutil

    try:
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:  # it has ended, and its parent has not waited for it yet
            return False
        created: float = process.create_time()
    except psutil.NoSuchProcess:
        return False
    return created <= record["since"] + 1.0  # both times are rounded


def locked_message(name: str, record: dict[str, Any]) -> str:
    """Return the message that refuses a second writer."""
    hint = "" if record["host"] == socket.gethostname() else "; if it is gone, open with takeover=True"
    return f"store {name}: it is being written by {describe_owner(record)}; only one process can write a run{hint}"


def describe_owner(record: dict[str, Any]) -> str:
    """Describe an owner for a message."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(record["since"])))
    return f"process {record['pid']} on {record['host']} ({record['command']}), since {since}"
