"""Watching: what is in a place, and the model of a run as it is now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from scalable_bandits.policies import Policy
from scalable_bandits.progress import SHARE
from scalable_bandits.report.run_page import rebuilt, stored_result
from scalable_bandits.report.watched_run import WatchedRun
from scalable_bandits.report.watched_study import WatchedStudy
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.store import ObservationStore, StoreError
from scalable_bandits.store.locations import locate
from scalable_bandits.studies.stored import study_record

Made = TypeVar("Made")
Watched = WatchedRun | WatchedStudy


class RebuiltModel(NamedTuple, Generic[Made]):
    """What was made of a policy that was rebuilt from its store."""

    observations: int  # number of observations and failures that it had
    made: Made | None  # None if the store alone does not suffice


class PresentModel(Generic[Made]):
    """Policy of a tuning run, rebuilt from its store in a thread whenever there is something new, but not often.

    Parameters
    ----------
    place
        Place of the store.
    make
        Function that makes what is shown of the result so far. It may raise ValueError.

    Attributes
    ----------
    last : RebuiltModel or None
        What was made last.
    """

    def __init__(self, place: Any, make: Callable[[TuningResult], Made]):
        self._place, self._make = place, make
        self.last: RebuiltModel[Made] | None = None
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def update(self, count: int, wait: bool = False) -> None:
        """Begin to rebuild it, if there are other observations than before, and it is time.

        Parameters
        ----------
        count
            Number of observations and failures in the store.
        wait
            Whether to rebuild it at once, and to return when it is done.
        """
        if self._thread is not None and wait:
            self._thread.join()
        idle = self._thread is None or not self._thread.is_alive()
        new = self.last is None or self.last.observations != count
        if idle and new and (wait or time.monotonic() >= self._next):
            self._thread = threading.Thread(target=self._rebuild, args=(count,), name="present model", daemon=True)
            self._thread.start()
            if wait:
                self._thread.join()

    def _rebuild(self, count: int) -> None:
        began, made = time.thread_time(), None
        try:
            run = ObservationStore.open(self._place)
            policy = rebuilt(run)
            if isinstance(policy, Policy):
                made = self._make(stored_result(run, policy))
        except (ValueError, OSError, StoreError):
            pass
        self.last = RebuiltModel(count, made)
        self._next = time.monotonic() + (1.0 / SHARE - 1.0) * (time.thread_time() - began)


def watched(place: Any) -> Watched:
    """Return the run or the study in a place, read once; a run may be one whose creation is not finished.

    Parameters
    ----------
    place
        Folder, URL, or zarr store of a run; folder or URL of a study.

    Raises
    ------
    FileNotFoundError
        If there is nothing at all.
    FileExistsError
        If there is something else.
    """
    if isinstance(place, str | Path) and study_record(place) is not None:
        found: Watched = WatchedStudy(place)
    else:
        found = WatchedRun(place)
        try:
            ObservationStore.open(place)
        except FileNotFoundError:
            if not locate(place).occupied():
                raise FileNotFoundError(f"store: there is neither a run nor a study in {place}") from None
        except StoreError:
            pass  # which `state` says
    found.read()
    return found
