"""Kept results of studies: a file for each study and tuner, with a line of JSON for each run.

A process writes the files of its own tuners alone, so that two processes with other tuners may write at the same time.
A last line without its end is of a process that was killed: it is not read, and the next line is written over it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]
FOLDER = Path("docs/results/measured")


class Key(NamedTuple):
    """Run of a tuner in a study."""

    case: str  # label
    replicate: int


def path_of(folder: Path, study: str, name: str) -> Path:
    """Return the path of the file of a tuner's results."""
    return folder / study / f"{name}.jsonl"


def key_of(line: Line) -> Key:
    return Key(line["case"], line["replicate"])


def load(folder: Path, study: str, name: str) -> dict[Key, Line]:
    """Load the kept runs of a tuner in a study; of several of the same key that with the most evaluations.

    Raises
    ------
    ValueError
        If a line is not JSON.
    """
    path, found = path_of(folder, study, name), {}
    for number, text in enumerate(_whole(path.read_bytes()).splitlines() if path.exists() else [], start=1):
        try:
            line = json.loads(text)
        except ValueError:
            raise ValueError(f"{path}, line {number}: got {text[:40]!r}; allowed: JSON") from None
        known = found.get(key_of(line))
        if known is None or known["evaluations"] <= line["evaluations"]:
            found[key_of(line)] = line
    return found


def append(folder: Path, study: str, name: str, line: Line) -> None:
    """Write a run behind the whole lines of its file, to the disk."""
    path = path_of(folder, study, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(len(_whole(file.read())))
        file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _whole(content: bytes) -> bytes:
    """Return the content of a file up to the end of its last whole line."""
    return content[: content.rfind(b"\n") + 1]
