"""Workers of a cluster that tests limit, and their messages, which tests look at or keep from them."""

import functools
import math
import pickle

import pytest
import threadpoolctl

from scalable_bandits.execution import clusters, shard_pool
from scalable_bandits.execution.shard_pool import ShardPool


@pytest.fixture
def one_thread():
    """One thread for BLAS, as the workers have."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


class Messages:
    """Messages to workers.

    Attributes
    ----------
    sent
        Messages by worker, of one question each.
    failure
        Function that answers in the place of the workers; None where they answer.
    """

    def __init__(self):
        self.sent, self.failure = [], None

    def workers(self):
        """Workers that were asked."""
        return {worker for messages in self.sent for worker in messages}

    def homes(self):
        """Worker that was last asked for each shard, by the shard's number."""
        return {
            request.number: worker
            for messages in self.sent
            for worker, message in messages.items()
            for request in message.requests
        }


@pytest.fixture
def messages(monkeypatch):
    """Messages that pools of this process send."""
    found, perform = Messages(), ShardPool.perform

    def watched(self, client, given):
        if found.failure is not None:
            return found.failure(given)
        found.sent.append({worker: pickle.loads(message) for worker, message in given.items()})
        return perform(self, client, given)

    monkeypatch.setattr(ShardPool, "perform", watched)
    return found


@pytest.fixture
def some_of_four(four, monkeypatch):
    """Make a client see some of its workers only, over which shards are spread once.

    On a busy machine they would be spread again at each question, and a question to few shards leaves workers out.
    """

    def limit(count):
        monkeypatch.setattr(shard_pool, "REBALANCE_SECONDS", math.inf)
        monkeypatch.setattr(four, "nthreads", lambda: dict(sorted(type(four).nthreads(four).items())[:count]))

    return limit


@pytest.fixture
def connect_seconds(monkeypatch):
    """Set how long a scheduler is waited for."""
    return functools.partial(monkeypatch.setattr, clusters, "CONNECT_SECONDS")


@pytest.fixture
def held_by(monkeypatch):
    """Make an executor hold the shards of policies, whatever their `on` is."""
    return functools.partial(monkeypatch.setattr, "scalable_bandits.policies.base.executor")
