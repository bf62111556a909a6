"""Frames of logs: all that is whole is found, whatever happened to the rest."""

import hypothesis
import hypothesis.strategies as st
from naive import journals

from scalable_bandits.store import frames
from scalable_bandits.store.frames import Frame, Gap, Kind

SEED = frames.seed_of("0123456789abcdef", "journal", 3)


def written(payloads, seed=SEED):
    """Bytes of a log, and its frames' ends."""
    data, ends = b"", []
    for number, payload in enumerate(payloads):
        data += frames.encode(seed, number, Kind.ROWS, 10 * number, payload, 1.5)
        ends.append(len(data))
    return data, ends


PAYLOADS = st.lists(st.binary(max_size=90) | st.just(b"\xf5sb\n" * 9) | st.just(bytes(70)), min_size=1, max_size=7)


@hypothesis.given(PAYLOADS)
def test_whole(payloads):
    """As it was written, and as another reader of the format sees it."""
    data, ends = written(payloads)
    contents = frames.parse(data, SEED)
    assert contents.items == [Frame(i, Kind.ROWS, 10 * i, 1.5, payload) for i, payload in enumerate(payloads)]
    assert (contents.frames, contents.good, contents.torn) == (len(payloads), len(data), 0)
    assert [stop for _, stop, _, _ in journals.frames(data, 1)] == ends


@hypothesis.given(PAYLOADS, st.data())
def test_cut(payloads, data):
    """What is before the cut is there; the rest is a torn tail, with zeros behind it or without."""
    whole, ends = written(payloads)
    size = data.draw(st.integers(0, len(whole) - 1))
    rest = bytes(data.draw(st.sampled_from([0, 1, 100])))
    contents = frames.parse(whole[:size] + rest, SEED)
    kept = sum(end <= size for end in ends)
    assert (contents.frames, contents.gaps()) == (kept, [])
    assert contents.torn == size + len(rest) - (ends[kept - 1] if kept else 0)


@hypothesis.given(PAYLOADS, st.data())
def test_flipped(payloads, data):
    """Every frame but the one with the flip is there; that is named by its bytes, and is no torn tail."""
    whole, ends = written(payloads)
    position, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(whole)
    damaged[position] ^= 1 << bit
    contents = frames.parse(bytes(damaged), SEED)
    hit = sum(end <= position for end in ends)
    start, stop = ([0, *ends][hit], ends[hit])
    expected = [Frame(i, Kind.ROWS, 10 * i, 1.5, p) for i, p in enumerate(payloads) if i != hit]
    assert list(contents.valid()) == expected
    last = hit == len(payloads) - 1
    if last and not bytes(damaged[start:]).rstrip(b"\0"):
        return  # nothing but zeros is left
    (gap,) = contents.gaps()
    assert (gap.start, gap.stop) == (start, stop)
    assert gap.frames == (None if last else 1)
    assert contents.torn == 0


@hypothesis.given(PAYLOADS, PAYLOADS, st.integers(0, 1))
def test_of_another_log(payloads, others, way):
    """Of another generation or run no frame is taken, wherever it stands."""
    seed = frames.seed_of("0123456789abcdef", "journal", 4) if way else frames.seed_of("0" * 16, "journal", 3)
    foreign, _ = written(others, seed)
    assert frames.parse(foreign, SEED).frames == 0
    own, _ = written(payloads)
    more = frames.encode(SEED, len(payloads), Kind.CLOSED, 0, b"", 1.5)
    contents = frames.parse(own + foreign + more, SEED)
    assert [f.payload for f in contents.valid()] == [*payloads, b""]
    assert contents.items[-2] == Gap(0, len(own), len(own) + len(foreign))  # rubbish, and no frame is missing
    assert contents.gaps() == []


@hypothesis.given(PAYLOADS, st.data())
def test_a_frame_taken_out(payloads, data):
    """Cleanly: it is missed by the numbers of the others."""
    whole, ends = written([*payloads, b"last"])
    hit = data.draw(st.integers(0, len(payloads) - 1))
    start, stop = [0, *ends][hit], ends[hit]
    contents = frames.parse(whole[:start] + whole[stop:], SEED)
    assert contents.gaps() == [Gap(1, start, start)]
    assert contents.frames == len(payloads) + 1


def test_after_each_other():
    """Two frames that were damaged together are one gap of two."""
    whole, ends = written([b"a" * 20, b"b" * 20, b"c" * 20, b"d" * 20])
    damaged = bytearray(whole)
    damaged[ends[0] + 30] ^= 1
    damaged[ends[1] + 5] ^= 1
    assert frames.parse(bytes(damaged), SEED).gaps() == [Gap(2, ends[0], ends[2])]
