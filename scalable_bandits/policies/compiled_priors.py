"""Rounds of a policy with several priors, in a compiled loop over the models of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.prior_model import PriorShard
from scalable_bandits.policies.tally import Tally
from scalable_bandits.posteriors.exact.dense import DenseEngine, in_step, stacked
from scalable_bandits.posteriors.rounds import Columns, Game
from scalable_bandits.spaces import Indices


class Constants(NamedTuple):
    """Constants in the confidence width and in the allowance of errors."""

    size: float  # number of candidates to choose from
    delta: float  # failure probability
    scale: float  # by which the squared width is divided
    noise: float  # standard deviation R of the noise, in units of y


def play_priors(
    steps: int, constants: Constants, tally: Tally, models: Sequence[PriorShard], game: Game
) -> Columns | None:
    """Play rounds; see `Algorithm.play`.

    Parameters
    ----------
    steps
        Number of the policy in `_numba_priors.py`.
    constants, tally
        Constants of width and allowance, and the policy's tally.
    models
        Models of all priors, none of which has a mean that moves.
    game
        Values at the candidates, and noise of the rounds.
    """
    began = playing = tally.in_play.tolist()
    engines = [engine for model in models if type(engine := model.engine) is DenseEngine]
    if len(engines) < len(models) or not in_step([engines[p] for p in playing]):
        return None
    leader, stack = engines[playing[0]], stacked(engines)
    numbers = np.array([(engine.information_gain, engine.floored, 0.0) for engine in engines])
    columns, done, slots = Columns.empty(len(game.noise)), 0, leader.window.slots(leader.size)
    begun, leading = 0, leader.window.rank  # first round in the open window, and its rows before that
    while True:
        done, rank, full = numba_priors.play(
            steps, constants, tally, stack, slots, leading, numbers, game, columns, done
        )
        for p in playing:
            gain, floored, learned = numbers[p].tolist()
            held = _rows_of(slots, columns.candidates[begun : int(learned)], leading) if learned < done else rank
            engines[p].take(np.where(slots < held, slots, -1), held, gain, int(floored))
        if not full:
            break
        playing, begun, leading = tally.in_play.tolist(), done, 0
        for p in playing:
            engines[p].fold()
        slots[:] = -1
    for p in began:
        models[p].add_played(columns.part(0, int(numbers[p, 2])), game.noise_variance)
    return columns.part(0, done)


def _rows_of(slots: Indices, candidates: Indices, before: int) -> int:
    """Return the number of a window's rows after rounds that played candidates (k,)."""
    return max(before, int(slots[candidates].max(initial=-1)) + 1)
