"""Rounds of a policy with one model, in a compiled loop of its engine."""

from __future__ import annotations

import math

from scalable_bandits.checks import Floats
from scalable_bandits.policies.base import Policy
from scalable_bandits.posteriors.model import Model
from scalable_bandits.posteriors.rounds import Columns, Game


def play_rounds(policy: Policy, model: Model, salt: int, table: Floats, noise: Floats) -> Columns | None:
    """Play rounds of a policy; see `Algorithm.play`.

    Parameters
    ----------
    policy
        Policy whose class defines a `rule`, and whose `learn` conditions the model and does what `after_play` does.
    model
        Model of the policy.
    salt
        Seed of the tie-breaking hash.
    table
        Values (size,) of f at the candidates, in units of y.
    noise
        Noise (count,) of the rounds, in units of y.
    """
    rule = policy.rule() if "rule" in vars(type(policy)) else None
    points = policy.pending_points
    if rule is None or points.numbers or points.excluded or model.learned is not None or model.schedule is not None:
        return None
    if not model.engine.plays:
        return None
    columns, done = Columns.empty(len(noise)), 0
    while done < len(noise):
        stop = min(len(noise), done + policy.rounds_alike)
        game = Game(policy.rounds + 1, table, noise[done:stop], policy.regularization, salt)
        model.engine.play(rule, game, columns.part(done, stop))
        model.add_played(columns.part(done, stop), policy.regularization)
        policy.rounds, done = policy.rounds + stop - done, stop
        policy.after_play()
    if math.isnan(policy.width):  # the index has a constant weight of the deviation, which is no confidence width
        columns.widths[:] = math.nan
    return columns
