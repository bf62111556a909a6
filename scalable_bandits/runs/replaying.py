"""Replay of a stored run to a policy: the rounds of a simulation, or the calls and failures of a recording."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.policies import Policy
from scalable_bandits.store import ObservationStore, StoredRun
from scalable_bandits.tickets import Ticket

REPLAY_BLOCK = 16_384  # rounds read at a time


def replay(policy: Policy, store: ObservationStore, start: int) -> None:
    """Tell the policy a simulation's rounds after the first `start`."""
    for first in range(start, len(store), REPLAY_BLOCK):
        rows = store.read(first, first + REPLAY_BLOCK, ["candidate", "y", "x"])
        policy.introduce(rows["candidate"], rows["x"])
        for candidate, y in zip(rows["candidate"].tolist(), rows["y"].tolist(), strict=True):
            policy.observe(candidate, y)


def replay_calls(policy: Policy, run: StoredRun, start: int = 0) -> int:
    """Tell the policy a recording's rounds after the first `start`, and its failures, in the order of the recording.

    Parameters
    ----------
    policy
        Policy of the recording's specification, which has learned the first `start` rounds.
    run
        Run that was recorded.
    start
        Number of rounds that the policy has learned. It has learned the first `policy.failures` failures, too.

    Returns
    -------
    int
        Number of the last call.
    """
    call = abs(int(run.read(start - 1, start, ["call"])["call"][0])) if start else 0
    done, failures = start, run.failures[policy.failures :]
    while True:
        while failures and (failures[0].round or 0) <= done:
            _tell_failure(policy, failures.pop(0))
        if done >= len(run):
            return call
        stop = min(done + REPLAY_BLOCK, (failures[0].round or 0) if failures else len(run), len(run))
        rows = run.read(done, stop)
        policy.introduce(rows["candidate"], rows["x"])
        done += _tell_calls(policy, rows, whole=stop < done + REPLAY_BLOCK or stop == len(run))
        call = abs(int(run.read(done - 1, done, ["call"])["call"][0]))


def _tell_calls(policy: Policy, rows: Mapping[str, NDArray[Any]], whole: bool) -> int:
    """Tell the calls of a block of rounds, without the last one unless it is `whole`; return how many rounds."""
    bounds = [0, *(np.flatnonzero(np.diff(rows["call"])) + 1).tolist(), len(rows["call"])]
    if not whole and len(bounds) > 2:
        bounds.pop()
    for start, stop in itertools.pairwise(bounds):
        noise = rows["noise"][start:stop]
        own = None if np.isnan(noise).any() else noise
        policy._tell(bool(rows["call"][start] > 0), rows["x"][start:stop], rows["y"][start:stop], own)
    return bounds[-1]


def _tell_failure(policy: Policy, failure: Ticket) -> None:
    point = np.array([failure.x])
    policy.introduce(np.array([failure.candidate]), point)
    policy.tell_failure(point if policy.space.has_coordinates else int(failure.x[0]), failure.trace)
