"""Rounds of a policy with one model, in a compiled loop of its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.rounds import Columns, Game

if TYPE_CHECKING:
    from scalable_bandits.policies.gp_policy import GaussianProcessPolicy


def play_rounds(policy: GaussianProcessPolicy, salt: int, table: Floats, noise: Floats) -> Columns | None:
    """Play rounds of a policy; see `Algorithm.play`.

    Parameters
    ----------
    policy
        Policy whose class defines a `rule`, and whose `learn` conditions the model and does what `after_play` does.
    salt
        Seed of the tie-breaking hash.
    table
        Values (size,) of f at the candidates, in units of y.
    noise
        Noise (count,) of the rounds, in units of y.
    """
    rule = policy.rule() if "rule" in vars(type(policy)) else None
    points, model = policy.pending_points, policy.model
    if rule is None or points.numbers or points.excluded or model.learned is not None or model.schedule is not None:
        return None
    if not model.engine.plays:
        return None
    columns, done = Columns.empty(len(noise)), 0
    while done < len(noise):
        stop = min(len(noise), done + policy.rounds_alike)
        game = Game(policy.rounds + 1, table, noise[done:stop], policy.regularization, salt)
        model.play(rule, game, columns.part(done, stop))
        policy.rounds, done = policy.rounds + stop - done, stop
        policy.after_play()
    return columns
