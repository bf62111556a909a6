"""Search of a pool: passes over its chunks, and a queue between them (`posteriors/pool/queue.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.box.lattice import GridPoints
from scalable_bandits.posteriors.box.queried import QueriedEngine
from scalable_bandits.posteriors.box.sketched import QueriedSketch, Sketch
from scalable_bandits.posteriors.box.surface import Surface, constant_mean
from scalable_bandits.posteriors.engine import Acquisition, Engine, choose
from scalable_bandits.posteriors.models.model import Candidates, LazyModel, Model, Query
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.pool.chunks import GrowingIndex, Passes
from scalable_bandits.posteriors.pool.draws import Choices, Paths
from scalable_bandits.posteriors.pool.queue import Queue
from scalable_bandits.spaces import Domain, Indices, Pool
from scalable_bandits.spaces.pool import NoCandidateLeft, PoolInContext

MakePaths = Callable[[Surface, Floats, Indices], Paths]  # arguments: posterior, noise variances (m,), rounds (q,)


class PoolSearch(Candidates):
    """Search of a pool, whose chunks an executor scores.

    Parameters
    ----------
    pool
        Pool of the candidates.
    executor
        Executor that scores the chunks.
    repeats
        Whether a candidate may be chosen again that is pending or was measured.
    sketch
        Settings of a sketched engine; None for an exact one.

    Attributes
    ----------
    passes : Passes
        What scores the chunks.
    """

    def __init__(self, pool: Pool, executor: Executor, repeats: bool, sketch: Sketch | None = None):
        self._pool, self.passes, self._repeats, self._sketch = pool, Passes(executor), repeats, sketch
        self._queue: Queue | None = None  # of the present observations
        self._choices: list[Choices] = []  # by sample paths, of the present observations
        self._means: tuple[Surface, dict[int, float]] | None = None  # posterior means of numbered points

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_queue": None, "_choices": [], "_means": None}

    def engine(self, model: Model) -> QueriedEngine:
        constant = model.constant_mean
        assert constant is not None
        prior = model.kernel, self._pool.model_dimension, constant_mean(constant)
        engine: QueriedEngine
        if self._sketch is None:
            engine = BoxEngine(*prior, appends=model.appends)
        else:
            engine = QueriedSketch(*prior, *self._sketch)
        engine.points = cast(Floats, GridPoints(model.domain))
        return engine

    def extended(self, engine: Engine, model: Model) -> Engine:
        engine.points = cast(Floats, GridPoints(model.domain))
        return engine

    def describe(self, domain: Domain) -> str:
        return f"computed at each of {self._pool.size:,} candidates, chunk by chunk"

    @property
    def activity(self) -> str:
        passes = self.passes
        return f"chunk {passes.done:,} of {passes.total:,}" if passes.total else ""

    def argmax(self, model: Model, index: Acquisition, query: Query) -> tuple[Any, float]:
        """Return the point (1 + c,) of largest index, and that index; given a mask of numbered points, one of these."""
        if query.allowed is not None:
            return self._among(model, index, query, np.flatnonzero(query.allowed))
        try:
            queue = self._brought_up_to_date(model, query) if query.measured else self._of_all(model, query)
            number, row, value = queue.largest(cast(GrowingIndex, index))
        except BaseException:  # a damaged chunk, lost workers or Ctrl-C: not all chunks were scored
            self._queue = None
            raise
        if number < 0:
            raise NoCandidateLeft(f"ask: {self._pool.all_taken}")
        self._pool.remember(np.array([number]), row[None])
        return queue.pool.point(number), value

    def _of_all(self, model: Model, query: Query) -> Queue:
        """Return a queue of all candidates, also of those that are not worth another measurement."""
        posterior, none = cast(Surface, cast(QueriedEngine, model.engine).surface()), np.empty(0, dtype=np.int64)
        pool = self._pool.at(query.fixed)
        queue = Queue(pool, posterior, model.regularization, self.passes, none, True, query.salt)
        queue.add(_numbers(pool, model, query.pending), model.domain.coordinates(list(query.pending)))
        return queue

    def _brought_up_to_date(self, model: Model, query: Query) -> Queue:
        """Return the queue of the present observations and pending points, for a choice that will be measured."""
        posterior, pool = cast(QueriedEngine, model.engine).surface(), self._pool.at(query.fixed)
        failed = query.excluded
        asked = query.pending[: len(query.pending) - len(failed)] if failed else query.pending
        points = [*failed, *asked]
        pending = _numbers(pool, model, points)
        queue, new = self._queue, None
        if queue is not None and queue.posterior is posterior and queue.available is query.available:
            new = queue.extends(pending) if queue.pool == pool else None
        if queue is None or new is None:
            given = cast(Surface, posterior)
            measured = np.sort(np.array(self._settled(pool, model, []), dtype=np.int64))  # whatever is pending
            parts = pool, given, model.regularization, self.passes, measured, self._repeats, query.salt
            chunks = None if query.chunks is None else query.chunks(given, measured, self.passes)
            queue = Queue(*parts, query.batch, query.available, chunks)
            self._queue, new = queue, pending
        if new:
            queue.add(new, model.domain.coordinates(points[len(points) - len(new) :]))
        if self._repeats:  # with those that are pending, of which there are more at each choice
            queue.take(self._settled(pool, model, asked))
        queue.take(_numbers(pool, model, failed))
        return queue

    def _settled(self, pool: PoolInContext, model: Model, asked: Sequence[int]) -> list[int]:
        """Return the numbers in the pool of the candidates that were measured and are not to be measured again."""
        return _numbers(pool, model, model.settled(asked) if self._repeats else np.flatnonzero(model.queried))

    def choice_of_path(self, model: Model, query: Query, rounds: range, paths: MakePaths, improvement: bool) -> Floats:
        """Return the point (1 + c,) that the first of some rounds chooses by its sample path.

        How it is found is in `posteriors/pool/draws.py`.

        Parameters
        ----------
        model, query
            Model, and pending and excluded candidates.
        rounds
            Numbers of this round and of those that will follow, whose choices are made in the same pass.
        paths
            Function that draws the paths of some rounds, given posterior and noise variances.
        improvement
            Whether the probability of improvement over the largest value of the path decides, not the path itself.
        """
        engine = cast(BoxEngine, model.engine)
        posterior, pool = engine.surface(), self._pool.at(query.fixed)
        held = self._choices
        same = held and held[0].posterior is posterior and held[-1].available is query.available
        if not (same and held[0].pool == pool and rounds[0] in held[0].rounds):
            noise = engine.noise_variances
            given = pool, posterior, self.passes, query.salt, rounds
            drawn = Choices(
                *given, lambda some: paths(posterior, noise, some), None if improvement else query.available
            )
            self._choices = [drawn]
            if improvement:
                self._choices.append(Choices(*given, drawn.highest, query.available))
        asked = query.pending[: len(query.pending) - len(query.excluded)]
        taken = {*self._settled(pool, model, asked), *_numbers(pool, model, query.excluded)}
        if not self._repeats:
            taken.update(_numbers(pool, model, asked))
        try:
            number, _ = self._choices[-1].choose(rounds[0], taken)
        except BaseException:
            self._choices = []
            raise
        if number < 0:
            raise NoCandidateLeft(f"ask: {self._pool.all_taken}")
        return pool.point(number)

    def _among(self, model: Model, index: Acquisition, query: Query, numbers: Indices) -> tuple[int, float]:
        """Return the numbered point of largest index among some (k,), and that index."""
        if not cast(GrowingIndex, index).of_mean:
            return super().argmax(model, index, query)
        posterior = cast(Surface, cast(QueriedEngine, model.engine).surface())
        if self._means is None or self._means[0] is not posterior:
            self._means = posterior, {}
        known = self._means[1]
        if new := [number for number in numbers.tolist() if number not in known]:
            known.update(zip(new, posterior.mean(model.domain.coordinates(new)).tolist(), strict=True))
        means = np.array([known[number] for number in numbers.tolist()])
        position, value = choose(index(means, np.zeros(len(means))), query.salt, None, numbers)
        return int(numbers[position]), value


def _numbers(pool: PoolInContext, model: Model, points: Sequence[int] | Indices) -> list[int]:
    """Return the numbers in the pool of numbered points; those in other contexts get numbers below 0, each its own."""
    own = np.array(points, dtype=np.int64)
    found = pool.numbers(model.domain.points(own))
    return cast(list[int], np.where(found < 0, -1 - own, found).tolist())


class PoolModel(LazyModel):
    """Model of a given prior on a pool, whose engine is made from all observations when it is needed.

    The parameters are those of `Model`.
    """

    def observe(self, candidate: int, y: float, noise_variance: float) -> None:
        self._engine = None
        super().observe(candidate, y, noise_variance)
