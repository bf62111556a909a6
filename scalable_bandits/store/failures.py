"""Failures of evaluations in the journal of a run: which point failed, after how many rounds, and with which error.

The frame of a failure also has the pending candidates that are left, so that a failure and the end of its evaluation
are written at once. In a later generation of the journal, which repeats the failures, the frames are without them.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

_LENGTH = struct.Struct("<I?")  # length of the JSON, and whether pending candidates follow it


class Failure(NamedTuple):
    """Failure of an evaluation."""

    rounds: int  # number of rounds before it
    candidate: int  # number of the candidate
    x: tuple[float, ...]  # coordinates (d,) of its point; of an arm its number
    error: str


def encode(failure: Failure, pending: bytes | None) -> bytes:
    """Return a failure as bytes, with the encoded pending candidates if they are given."""
    text = json.dumps(failure._asdict()).encode()
    return _LENGTH.pack(len(text), pending is not None) + text + (pending or b"")


def decode(data: bytes) -> tuple[Failure, bytes | None]:
    """Return the failure and the encoded pending candidates in bytes of `encode`."""
    length, has_pending = _LENGTH.unpack_from(data)
    start = _LENGTH.size
    plain = json.loads(data[start : start + length])
    failure = Failure(**{**plain, "x": tuple(plain["x"])})
    return failure, data[start + length :] if has_pending else None
