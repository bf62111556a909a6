"""A search over candidates that are evaluated in batches, each on several folds; it can be stored and continued.

A store has one ticket for each candidate, whose result is the list of the folds' scores and times; with constraints a
dict, in which the list is "folds" beside the "outputs" of the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.randomness import generator
from scalable_bandits.runs.evaluations import Evaluations
from scalable_bandits.spaces import SearchSpace, every_setting

Fold = dict[str, Any]  # what the evaluation of a candidate on one fold gave, as plain data
Setting = dict[str, Any]

MOST_LISTED = 10_000  # largest number of settings of a space that are listed to find those not evaluated yet
DRAWS = 256  # random settings that are drawn otherwise


class CandidateEvaluation(NamedTuple):
    """Evaluation of a candidate on all folds."""

    setting: Setting
    folds: list[Fold]


@attrs.define
class CandidateSearch:
    """Search that asks a policy for candidates in batches, and tells it how they were evaluated.

    Attributes
    ----------
    policy
        Policy on a `SearchSpace`.
    n_iter
        Number of evaluations in all.
    evaluations
        Evaluations so far.
    recording
        Recording of the policy; None without a store.
    """

    policy: Policy
    n_iter: int
    evaluations: list[CandidateEvaluation] = attrs.field(factory=list)
    recording: Evaluations | None = None
    _seen: set[tuple[float, ...]] = attrs.field(factory=set, init=False)
    _left: int = attrs.field(default=0, init=False)  # candidates of a batch that an earlier process told in part

    @property
    def space(self) -> SearchSpace:
        """Space of the policy."""
        assert isinstance(self.policy.space, SearchSpace)
        return self.policy.space

    def resume(self, recording: Evaluations) -> None:
        """Take over the evaluations of a recording, from which the policy was told already."""
        self.recording = recording
        ended = recording.ended()
        for ticket in ended:
            folds = ticket.result if self.policy.outputs is None else ticket.result["folds"]
            self.evaluations.append(CandidateEvaluation(self.space.setting(np.array(ticket.x)), folds))
        told = max((ticket.changed for ticket in ended), default=-math.inf)
        self._left = sum(ticket.asked < told for ticket in recording.open.values())
        self._seen = {self._key(each.setting) for each in self.evaluations}

    def batches(self, size: Callable[[], int]) -> Iterator[list[Setting]]:
        """Yield lists of settings to be evaluated and told, until there are `n_iter` evaluations or no setting is left.

        Parameters
        ----------
        size
            Function that returns the number of settings of the next list.
        """
        while len(self.evaluations) < self.n_iter:
            settings = self._ask(min(self._left or size(), self.n_iter - len(self.evaluations)))
            self._left = 0
            if not settings:
                count, listed = len(self.evaluations), self._listed() is not None
                none = f"no new one was found among {DRAWS} random settings; {count} have been evaluated"
                every = f"all {count} settings of the space have been evaluated" if listed else none
                checks.warn(f"n_iter: got {self.n_iter}, but {every}")
                return
            yield settings

    def tell(self, setting: Setting, folds: list[Fold], value: Any, error: str) -> None:
        """Tell the policy, and the store if there is one, of an evaluation.

        Parameters
        ----------
        setting
            Setting that was evaluated.
        folds
            What its evaluation gave.
        value, error
            Value, or dict of outputs, that the policy is told; and its error, empty if it has a value.
        """
        x: Any = setting
        result = folds if self.policy.outputs is None else {"folds": folds}
        fields: dict[str, Any] = {"result": result, "starts": 1, "failures": int(bool(error))}
        with nullcontext() if self.recording is None else self.recording.ending(**fields):
            if error:
                self.policy.tell_failure(x, error=error)
            else:
                self.policy.tell(x, value)
        self.evaluations.append(CandidateEvaluation(setting, folds))

    def place_of(self, setting: Any) -> int | None:
        """Return the position of the evaluation of a setting; None if it has not been evaluated."""
        keys = [self._key(each.setting) for each in self.evaluations]
        return keys.index(key) if (key := self._key(setting)) in keys else None

    # ---- candidates

    def _ask(self, count: int) -> list[Setting]:
        """Return settings that have not been evaluated, pending now: up to `count`, fewer at the end of a space.

        Folds are fixed, so that a second evaluation of a setting would say nothing new.
        """
        chosen: list[Setting] = []
        for _ in range(count):
            setting = self._asked(len(self.evaluations) + len(chosen))
            if setting is None:
                break
            self._seen.add(self._key(setting))
            chosen.append(setting)
        return chosen

    def _asked(self, counter: int) -> Setting | None:
        """Return the setting that the policy asks for, or one that has not been evaluated; None if none is left."""
        with suppress(AllFailed):
            setting: Any = self.policy.ask()
            if self._key(setting) not in self._seen:
                return dict(setting)
            self.policy.abandon(setting)
        return self._unseen(counter)

    def _unseen(self, counter: int) -> Setting | None:
        """Return a random setting that has not been evaluated; None if all have been, or the draws find no other."""
        rng = generator(self.policy.seed, "settings not evaluated", counter)
        points = self._listed()
        points = self.space.draw(DRAWS, rng, least=0) if points is None else points[rng.permutation(len(points))]
        return next((self.space.setting(p) for p in points if tuple(p.tolist()) not in self._seen), None)

    def _listed(self) -> Floats | None:
        """Return all points (k, p) of a small space; None for others."""
        size = self.space.size
        return None if size is None or size > MOST_LISTED else every_setting(self.space).points()

    def _key(self, setting: Setting) -> tuple[float, ...]:
        points, _ = self.space.parse(setting)
        return tuple(points[0].tolist())
