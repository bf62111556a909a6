"""The commit record of a run: the rounds, digests and logs that belong to it. It is written last, and as a whole.

It is the only file that says what must exist. It names every log with its generation and the number of frames at the
last commit, so that a log that is missing, cut short or replaced by an earlier one is detected.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import attrs

ROUNDS, TICKETS, DIGESTS = "journal", "tickets", "digests"  # names of the logs


class Extent(NamedTuple):
    """Length of a log at a commit."""

    generation: int
    frames: int = 0
    rounds: int = 0  # number of rounds of the run at that time; 0 for logs without rounds

    @classmethod
    def from_plain(cls, values: Any) -> Self:
        """Convert a list of three whole numbers; raise ValueError for anything else."""
        if not isinstance(values, list) or len(values) != 3 or any(type(v) is not int or v < 0 for v in values):
            raise ValueError(f"{values!r} is not the extent of a log")
        return cls(*values)


def digest_of(plain: Any) -> str:
    """Return the digest of JSON-ready data; the order of keys does not matter."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sign(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with their digest as an additional key."""
    return {**plain, "digest": digest_of({key: value for key, value in plain.items() if key != "digest"})}


def is_signed(plain: Any) -> bool:
    """Whether data carry the digest that `sign` would give them."""
    if not isinstance(plain, dict) or "digest" not in plain:
        return False
    return plain["digest"] == digest_of({key: value for key, value in plain.items() if key != "digest"})


@attrs.frozen
class CommitRecord:
    """What is committed in a run.

    Attributes
    ----------
    run
        Name of the run, drawn at random when the run was made.
    attributes
        Digest of the run's attributes.
    rounds
        Number of rounds in the arrays that any zarr reader may trust.
    chain
        CRC-32 of the digests of all whole chunks in order.
    tail
        CRC-32 of each field's rows after the last whole chunk, up to `rounds`; empty if there are none.
    logs
        Extents of the logs at the last commit, by name.
    """

    run: str
    attributes: str = ""
    rounds: int = 0
    chain: int = 0
    tail: tuple[int, ...] = ()
    logs: Mapping[str, Extent] = attrs.field(factory=dict)

    def file(self, name: str) -> str:
        """Return the name of a log's file."""
        return f"{name}-{self.logs[name].generation}"

    def to_plain(self) -> dict[str, Any]:
        """Return JSON-ready data with their digest."""
        logs = {name: list(extent) for name, extent in self.logs.items()}
        return sign({**attrs.asdict(self, recurse=False), "tail": list(self.tail), "logs": logs})

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Convert data returned by `to_plain`.

        Raises
        ------
        ValueError
            If the digest does not match.
        """
        if not is_signed(plain):
            raise ValueError("its digest does not match")
        logs = {name: Extent.from_plain(values) for name, values in plain["logs"].items()}
        given = {key: value for key, value in plain.items() if key != "digest"}
        return cls(**{**given, "tail": tuple(plain["tail"]), "logs": logs})


_COUNTER = struct.Struct("<8s6Q")  # beginning of the run's name, extents of two logs
_COUNTED = (ROUNDS, TICKETS)


def encode_counter(run: str, journal: Extent, tickets: Extent) -> bytes:
    """Return the extents of two logs as bytes, which are overwritten in place after every frame."""
    data = _COUNTER.pack(run[:8].encode(), *journal, *tickets)
    return data + zlib.crc32(data).to_bytes(4, "little")


def decode_counter(run: str, data: bytes | None) -> dict[str, Extent] | None:
    """Return the extents in bytes of `encode_counter`; None if the bytes are damaged or of another run."""
    if data is None or len(data) != _COUNTER.size + 4:
        return None
    if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    start, *numbers = _COUNTER.unpack(data[:-4])
    if start != run.encode()[:8]:
        return None
    return {name: Extent(*numbers[3 * i : 3 * i + 3]) for i, name in enumerate(_COUNTED)}
