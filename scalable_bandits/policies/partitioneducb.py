"""GP-UCB on the promising chunks of a pool. Source: this package; after BoBa (arXiv 2606.26657).

    input: prior GP(m, k) or none, pool of C chunks, share p, sample size s
    draw a sample of s candidates of each chunk
    whenever values were told:
        chunks to score: the p C whose samples have the largest mu(x) + beta s(x)                     (1)
                         and p C of the others at random                                              (2)
    for t = 1, 2, ...:
        play x_t = argmax of mu_{t-1}(x) + beta_t s_{t-1}(x) in these chunks, as GP-UCB does          (3)

What (1) misses in a chunk that is left out, (2) finds: each chunk is scored every 1 / p passes on average. A rare
pass over all chunks would cost the same; drawn chunks cost the same in every round, and which they are follows from
the seed and the number of values told. A chunk without any candidate left is replaced by all others.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import attrs

from scalable_bandits import checks
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.policies.gpucb import GPUCB
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.models.model import Query
from scalable_bandits.posteriors.pending import Draws
from scalable_bandits.posteriors.pool.chunks import Passes, Question
from scalable_bandits.posteriors.pool.partitions import Partitions
from scalable_bandits.spaces import Indices, Mask, Pool


def _share(_: Any, field: attrs.Attribute[float], value: float) -> None:
    if not (isinstance(value, float) and 0.0 < value <= 0.5):
        checks.refuse(field.name, value, "a number above 0, at most 0.5")


@attrs.define(eq=False, kw_only=True, slots=False)
class PartitionedUCB(GPUCB):
    """GP-UCB on pools over which a whole pass takes too long: it scores a tenth or two of the chunks.

    Parameters
    ----------
    passes
        Share p of the chunks that are scored because of their samples; as many others are drawn at random.
    sample
        Number s of candidates in the sample of each chunk, at most a 16th of it. The samples are read once, with the
        whole pool, and held: at most 128 MB of them, so that of pools above 10^8 they are smaller.

    Other parameters are those of `GPUCB`.

    Raises
    ------
    ValueError
        If the space is not a `Pool`, or `passes` is not above 0 and at most 0.5.

    Notes
    -----
    It pays where alike candidates lie together, so that chunks differ: molecules in the order of their scaffolds, say,
    not at random (docs/pools.md). The width's promises are those of `GPUCB` only where all chunks are scored.
    """

    passes: float = attrs.field(default=0.1, converter=checks.to_float, validator=_share)
    sample: int = attrs.field(default=1000, converter=checks.to_int, validator=checks.whole(1))
    continuous: ClassVar[bool] = False
    _repeats: ClassVar[bool] = False
    _partitions: Partitions = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.space, Pool):
            checks.refuse("space", self.space, "a Pool, whose chunks are left out or not")
        super().__attrs_post_init__()
        self._partitions = Partitions(self.space, self.passes, self.sample, self.seed)

    def _next_query(self, allowed: Mask | None, draws: Draws | None = None) -> Query:
        query = super()._next_query(allowed, draws)

        def promising(posterior: Surface, measured: Indices, passes: Passes) -> Indices:
            index = UpperConfidence(self.width_formula().at(self.rounds + 1, self.information_gain))
            pool = cast(Pool, self.space).at(query.fixed)
            question = Question(pool, posterior, None, index, measured, 1, query.salt, query.available)
            return self._partitions.chosen(question, passes, self.rounds)  # (1), (2)

        return query._replace(chunks=promising)
