"""Reading of the rounds in a journal, around damaged frames."""

from __future__ import annotations

from typing import Any, Protocol

from scalable_bandits.store import failures
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.chunks import ChunkReader
from scalable_bandits.store.failures import Failure
from scalable_bandits.store.frames import Frame, Gap, Kind
from scalable_bandits.store.pending import Proposals
from scalable_bandits.store.record import ROUNDS
from scalable_bandits.store.rows import Columns, Rows
from scalable_bandits.store.scan import Scan


class Run(Protocol):
    """Interface of the run that takes the rounds: a part of `StoredRun`."""

    location: Any
    chunks: ChunkReader
    dimension: int
    pending: list[int]
    proposals: Proposals
    failures: list[Failure]
    orderly: bool
    last_write: float
    problems: list[str]

    @property
    def deterministic(self) -> bool:
        """Whether lost rounds can be simulated again."""

    def rows(self) -> Rows:
        """Return the rounds after the whole chunks."""

    def take(self, rows: Columns, count: int, skip: int = 0) -> None:
        """Add rows, arrays (count, ...) of each field, without the first `skip`."""


class JournalReader:
    """Reader that adds the rounds of a journal to a run, around damaged frames.

    Parameters
    ----------
    run
        Run with its whole chunks only.
    found
        Scan of the run's files.
    """

    def __init__(self, run: Run, found: Scan):
        self._run = run
        self._contents, self._least = found.logs[ROUNDS], found.least[ROUNDS]
        self._file = found.file(run.location, ROUNDS)
        self._position = run.chunks.whole  # number of rounds in the run or lost
        self._ended = False  # whether the run ends before a lost round

    def read(self) -> int:
        """Add all readable rounds to the run; return how many rounds there were, including lost ones."""
        gap: Gap | None = None
        seen = self._run.chunks.whole
        for item in self._contents.items:
            if isinstance(item, Gap):
                gap = item if item.frames != 0 else None
                continue
            if gap is not None or item.first > max(seen, self._run.chunks.whole):
                self._skip_gap(gap, item.first)
            if self._ended:
                return max(self._position, self._least.rounds)
            gap, seen = None, max(seen, self._read_frame(item))
        self._check_end(gap)
        return self._position

    def _read_frame(self, frame: Frame) -> int:
        """Apply a frame; return the number of rounds of the run after it."""
        run = self._run
        run.orderly, run.last_write = frame.kind == Kind.CLOSED, frame.time
        if frame.kind != Kind.ROWS:
            payload: bytes | None = frame.payload
            if frame.kind == Kind.FAILURE:
                failure, payload = failures.decode(frame.payload)
                run.failures.append(failure)
            if payload is not None:
                run.pending, run.proposals = pendings.decode(payload, run.dimension)
            return frame.first
        columns, count = run.rows().decode(frame.payload)
        run.take(columns, count, skip=min(max(self._position - frame.first, 0), count))
        self._position = max(self._position, frame.first + count)
        return frame.first + count

    def _skip_gap(self, gap: Gap | None, rounds: int) -> None:
        """Report a gap, which ends after `rounds` rounds of the run, and continue after it."""
        self._run.problems.append(f"{self._place_of(gap)}: damaged; {self._restore_lost(rounds)}")

    def _place_of(self, gap: Gap | None) -> str:
        """Return the file and the bytes of a gap, for messages."""
        return self._file if gap is None or gap.stop == gap.start else f"{self._file}, bytes {gap.start} to {gap.stop}"

    def _restore_lost(self, rounds: int) -> str:
        """Read lost rounds from the arrays if the last close wrote them there; return what remains lost."""
        run, start = self._run, self._position
        if min(rounds, run.chunks.committed) > start:
            rows = run.chunks.published()
            if rows is not None:
                self._position = min(rounds, run.chunks.committed)
                inside = slice(start - run.chunks.whole, self._position - run.chunks.whole)
                run.take({name: values[inside] for name, values in rows.items()}, self._position - start)
        first, self._position = self._position, max(self._position, rounds)
        if first >= rounds:
            return "no round is lost, but pending candidates and failures may be"
        self._ended = run.deterministic
        return f"rounds {first + 1} to {rounds} cannot be read"

    def _check_end(self, gap: Gap | None) -> None:
        """Compare the end of the journal with the extent that it is known to have had."""
        run, contents = self._run, self._contents
        start, rounds = self._position, max(self._least.rounds, run.chunks.committed)
        missing = self._least.frames - contents.frames
        if gap is not None:
            lost = self._restore_lost(rounds)
            if self._position == start and missing <= 0:  # perhaps the damaged bytes were not a frame
                lost = f"rounds after round {start} cannot be read, if there were any"
            run.problems.append(f"{self._place_of(gap)}: damaged, and no frame follows; {lost}")
        elif missing > 0 and contents.frames:
            lost = self._restore_lost(rounds)
            run.problems.append(f"{self._file}: it ends too early, {missing} frames are missing; {lost}")
        elif rounds > start:
            run.problems.append(f"{self._file}: {self._restore_lost(rounds)}")
