"""A policy that follows a study: it is told what ended, and asked with what runs as pending."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

import numpy as np
from optuna.trial import FrozenTrial

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.integrations.optuna_history import Outcome, StudyHistory
from scalable_bandits.integrations.optuna_space import TrialSpace, has_no_values
from scalable_bandits.policies import Policy
from scalable_bandits.runs.evaluations import check_fresh

MakePolicy = Callable[..., Policy]  # (space, seed, minimize)
# Number of the preceding trials that are searched for ones whose parameters are still being chosen by another process.
# The policy is asked for one more point for each of them and the last point is used, so that parallel processes do not
# choose the same one.
PRECEDING = 16
MOST_REPEATED = 3  # number of times that a policy is asked again if it chooses what is running


class Adviser:
    """Policy over some parameters of a study, told of the trials that ended.

    What it chooses is a function of the study's history; the policy is a cache of what follows from it.

    Parameters
    ----------
    space
        Space of the parameters.
    make_policy
        Function that makes the policy, from its space, its seed and whether small values are better.
    seed
        Seed of the policy.
    minimize
        Whether small values are better.

    Attributes
    ----------
    policy : Policy
        The policy.

    Raises
    ------
    ValueError
        If the function does not return a fresh policy on the space.
    """

    def __init__(self, space: TrialSpace, make_policy: MakePolicy, seed: int, minimize: bool):
        self.space = space
        try:
            self.policy = make_policy(space.space, seed=seed, minimize=minimize)
        except TypeError as error:
            raise TypeError(f"policy: {error}; it is called with a space, seed= and minimize=") from error
        if not isinstance(self.policy, Policy) or self.policy.space != space.space:
            allowed = "a policy class, or a function (space, seed, minimize) that returns a policy on that space"
            checks.refuse("policy", self.policy, allowed)
        check_fresh(self.policy)
        self._sign = 1.0 if self.policy.minimize == minimize else -1.0
        self._told = 0  # number of the history's outcomes

    def follow(self, history: StudyHistory, number: int | None = None) -> list[Floats]:
        """Tell the policy what ended, and return the points (p,) of the running trials, in their order.

        Parameters
        ----------
        history
            History of the study.
        number
            Number of the trial to be left out of the running ones; None for none.
        """
        new = history.outcomes[self._told :]
        running = [trial for trial in history.running if trial.number != number]
        ended = [(outcome, point) for outcome in new if (point := self.space.point(outcome.trial)) is not None]
        pending = [(trial, point) for trial in running if (point := self.space.point(trial)) is not None]
        known = [(outcome.trial, point) for outcome, point in ended] + pending
        self._number_points([point for _, point in sorted(known, key=lambda pair: pair[0].number)])
        for failed, outcomes in itertools.groupby(ended, key=lambda pair: pair[0].value is None):
            if not failed:
                self._tell(list(outcomes))
                continue
            for _, point in outcomes:
                self.policy.tell_failure(point[None])
        self._told = len(history.outcomes)
        return [point for _, point in pending]

    def _number_points(self, points: list[Floats]) -> None:
        """Number points in the order of their trials, so that the order in which they end does not matter."""
        domain = self.policy.domain
        if not points or not domain.whole_box:
            return
        new = np.array(list(dict.fromkeys(map(tuple, points))))
        new = new[domain.find(new) < 0]
        if len(new):
            self.policy.introduce(np.arange(domain.size, domain.size + len(new)), new)

    def _tell(self, outcomes: list[tuple[Outcome, Floats]]) -> None:
        values = np.array([outcome.value for outcome, _ in outcomes], dtype=np.float64)
        self.policy.tell(np.array([point for _, point in outcomes]), self._sign * values)

    def choose(self, history: StudyHistory, trial: FrozenTrial, own: Collection[int] = ()) -> dict[str, float]:
        """Return the values chosen for a trial by name, in Optuna's internal form.

        Parameters
        ----------
        history
            History of the study.
        trial
            Trial that the values are for.
        own
            Numbers of the trials of this process.
        """
        pending = self.follow(history, trial.number)
        numbers = self.policy.domain.find(np.array(pending)) if pending else np.empty(0, dtype=np.int64)
        self.policy.restore_pending([number for number in numbers.tolist() if number >= 0], reissue=False)
        running = {tuple(point) for point in pending}
        try:
            chosen = self._ask(1 + self._choosing(history, trial, own))
            for _ in range(MOST_REPEATED):
                if tuple(chosen) in running:
                    chosen = self._ask(1)
        finally:
            self.policy.abandon()
        return self.space.internal(chosen)

    def _ask(self, count: int) -> Floats:
        """Return the last (p,) of the next points."""
        setting = self.policy.ask(count)[-1]
        return self.space.space.parse(setting)[0][0]

    def _choosing(self, history: StudyHistory, trial: FrozenTrial, own: Collection[int]) -> int:
        """Return the number of preceding trials of other processes that seem to be choosing now."""
        preceding = set(range(trial.number - PRECEDING, trial.number)).difference(own)
        return sum(other.number in preceding and has_no_values(other) for other in history.running)
