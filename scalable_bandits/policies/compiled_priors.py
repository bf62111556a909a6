"""Rounds of a policy with several priors, in a compiled loop over the models of all priors.

The models in play have observed the same, so that their windows have the same points in the same rows. A model that is
taken out of play keeps what it had learned by then. The words are in `unknown_prior.py` and `exact/window.py`.
"""

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
    scale: float  # number by which the squared width is divided
    noise: float  # standard deviation R of the noise, in units of y


def play_priors(
    rule: int, constants: Constants, tally: Tally, models: Sequence[PriorShard], game: Game
) -> Columns | None:
    """Play rounds; see `Policy.play`.

    Parameters
    ----------
    rule
        Number of the policy in `_numba_priors.py`.
    constants, tally
        Constants of width and allowance, and the policy's tally.
    models
        Models of all priors; no prior is moving.
    game
        Values at the candidates, and noise of the rounds.
    """
    at_start = playing = tally.in_play.tolist()
    engines = [engine for model in models if type(engine := model.engine) is DenseEngine]
    if len(engines) < len(models) or not in_step([engines[p] for p in playing]):
        return None
    one, stack = engines[playing[0]], stacked(engines)
    learned = np.array([(engine.information_gain, engine.floored, 0.0) for engine in engines])  # rounds come last
    columns, done, slots = Columns.empty(len(game.noise)), 0, one.window.slots(one.size)
    opened, opened_rank = 0, one.window.rank  # rounds done, and rows of the window, when this pass of the loop began
    while True:
        done, rank, full = numba_priors.play(
            rule, constants, tally, stack, slots, opened_rank, learned, game, columns, done
        )
        for p in playing:
            gain, floored, rounds = learned[p].tolist()
            known = columns.candidates[opened : int(rounds)]
            rows = rank if rounds == done else _rows_after(slots, known, opened_rank)
            engines[p].take(np.where(slots < rows, slots, -1), rows, gain, int(floored))
        if not full:
            break
        playing, opened, opened_rank = tally.in_play.tolist(), done, 0
        for p in playing:
            engines[p].fold()
        slots[:] = -1
    for p in at_start:
        models[p].add_played(columns.part(0, int(learned[p, 2])), game.noise_variance)
    return columns.part(0, done)


def _rows_after(slots: Indices, candidates: Indices, before: int) -> int:
    """Return the number of a window's rows after rounds in which candidates (k,) were played."""
    return max(before, int(slots[candidates].max(initial=-1)) + 1)
