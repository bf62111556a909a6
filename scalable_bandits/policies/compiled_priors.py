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
    playing = tally.in_play.tolist()
    engines = [engine for model in models if type(engine := model.engine) is DenseEngine]
    if len(engines) < len(models) or not in_step([engines[p] for p in playing]):
        return None
    stack, columns = stacked(engines), Columns.empty(len(game.noise))
    learned = np.zeros(len(engines), dtype=np.int64)  # rounds
    done, full = numba_priors.play(rule, constants, tally, stack, learned, game, columns, 0)
    while full:
        for p in tally.in_play.tolist():
            engines[p].fold()
        done, full = numba_priors.play(rule, constants, tally, stack, learned, game, columns, done)
    for p in playing:
        models[p].add_played(columns.part(0, int(learned[p])), game.noise_variance)
    return columns.part(0, done)
