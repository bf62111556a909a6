"""What of a journal is readable, from the description of its frames in docs/store.md: no checksum is looked at.

A frame is a mark (4 bytes), its number (8), the length of the body (4), two checksums (4 each), the body and one byte.
The body is the kind (1 byte), the number of rounds before it (8), a time (8) and a payload; kind 2 holds rows.
"""

import struct


def frames(data, width):
    """Of every frame of an undamaged journal: first byte, byte after the last, rounds [start, stop) that it holds."""
    found, offset = [], 0
    while offset < len(data):
        assert data[offset : offset + 4] == b"\xf5sb\n"
        (length,) = struct.unpack_from("<I", data, offset + 12)
        kind, first = struct.unpack_from("<BQ", data, offset + 24)
        stop = offset + 24 + length + 1
        rows = (length - 17) // width if kind == 2 else 0
        found.append((offset, stop, first, first + rows))
        offset = stop
    return found


def readable(data, damaged, width):
    """Rounds (from 0) in frames of which no byte is changed, moved or missing."""
    rounds = set()
    for start, stop, first, last in frames(data, width):
        if damaged[start:stop] == data[start:stop]:
            rounds |= set(range(first, last))
    return rounds
