"""Evaluation of a policy on a log of rounds that another policy played.

Source: Li, Chu, Langford & Wang 2011, Algorithm 3, on a log of finite length.

    for each record of the log, with context z, choice x and reward y:
        ask the policy for a choice, given z
        if it is x: tell the policy y, and count the record; otherwise the policy forgets the question
    return the average of the rewards that count

Differs from the paper in: the choices of the log need not be uniform, nor among as many candidates in every record. A
record whose choice had the probability p is kept beforehand with probability (least p) / p. A record then counts with
the same probability, the least p, whatever its context and the policy's choice are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.randomness import RoundStream
from scalable_bandits.runs.evaluations import check_unrecorded
from scalable_bandits.spaces import Indices, availability

IMPLAUSIBLE = 1e-6  # probability below which a log's counts are not those of uniform choices


class LoggedRounds:
    """Log of the rounds that some policy played: for each record a choice and its reward, and what could be chosen.

    Without `propensities`, each choice must have been uniform among the candidates with the context of its record.

    Parameters
    ----------
    choices
        Points (k, d) that were played, arm numbers (k,), or k settings (dicts), as `tell` takes them. A point has the
        coordinates of its context, too.
    rewards
        Rewards (k,), in units of y.
    contexts
        Values (k,) by dimension, counted from 0: the coordinates that each record gave, as in ``ask(context=)``; of
        `Settings` by the name of the parameter. No context if not given.
    available
        Candidates that could be chosen in each record: masks (k, size), or a list of k arrays of candidates' numbers.
        All candidates with the context if not given.
    propensities
        Probabilities (k,) with which the choices were made, each given its context.

    Raises
    ------
    ValueError
        If the lengths differ, there is no record, a reward is not finite, or a propensity is not above 0 and at most 1.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.LoggedRounds(choices=[2, 0, 1, 2], rewards=[0.0, 1.0, 0.0, 1.0])
    LoggedRounds(4 records)
    """

    def __init__(
        self, choices: ArrayLike | Sequence[Any], rewards: ArrayLike, contexts: Mapping[Any, ArrayLike] | None = None,
        available: ArrayLike | Sequence[ArrayLike] | None = None, propensities: ArrayLike | None = None,
    ):  # fmt: skip
        self.rewards = checks.frozen(checks.finite("rewards", rewards, ndim=1))
        count = len(self.rewards)
        if not count or np.abs(self.rewards).max() > LARGEST:
            checks.refuse("rewards", rewards, f"numbers up to {LARGEST:.0e} in size, at least one")
        self.choices = _of_length("choices", choices, count)
        if not isinstance(contexts, Mapping | None) or contexts == {}:
            checks.refuse("contexts", contexts, "values (k,) by dimension, or by the name of a parameter")
        self.contexts = {key: _of_length("contexts", column, count) for key, column in (contexts or {}).items()}
        self.available = None if available is None else _of_length("available", available, count)
        self.propensities: Floats | None = None
        if propensities is not None:
            self.propensities = checks.frozen(checks.finite("propensities", propensities, ndim=1))
            _of_length("propensities", self.propensities, count)
            if self.propensities.min() <= 0.0 or self.propensities.max() > 1.0:
                checks.refuse("propensities", propensities, "probabilities above 0 and at most 1")

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"LoggedRounds({len(self):,} records)"


def _of_length(name: str, values: Any, count: int) -> Any:
    """Return one value a record, as a list or an array; ValueError if there are not as many."""
    given = values.tolist() if hasattr(values, "tolist") and not isinstance(values, np.ndarray) else values
    if not isinstance(given, list | tuple | np.ndarray) or (isinstance(given, np.ndarray) and not given.ndim):
        checks.refuse(name, values, f"{count} values, one a record")
    if len(given) != count:
        checks.refuse(name, f"{len(given)} values", f"{count}, one a record, as there are rewards")
    return given


@attrs.frozen(eq=False, repr=False)
class Replay:
    """What a policy earned on a log: the rewards of the records that counted.

    Parameters
    ----------
    rewards
        Rewards (n,) of the records that counted, in their order, in units of y.
    records
        Positions (n,) of these records in the log.
    read
        Number of records of the log.
    """

    rewards: Floats
    records: Indices
    read: int

    @property
    def accepted(self) -> int:
        """Number n of records that counted, which is the effective sample size."""
        return len(self.rewards)

    @property
    def mean(self) -> float:
        """Average reward of a round, in units of y; NaN if no record counted."""
        return float(self.rewards.mean()) if len(self.rewards) else math.nan

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, as of independent rewards, in units of y; NaN for fewer than two records."""
        count = len(self.rewards)
        return float(self.rewards.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan

    def __repr__(self) -> str:
        earned = f"mean reward {self.mean:.4g}, standard error {self.standard_error:.2g}; "
        return f"Replay({earned if self.accepted else ''}{self.accepted:,} of {self.read:,} records accepted)"


def replay(policy: Policy, log: LoggedRounds, *, seed: int = 0) -> Replay:
    """Evaluate a policy on a log of rounds that another one played, without bias, by rejection.

    For each record the policy chooses among the candidates that the record offers. If it chooses what was logged, it is
    told the reward, and the record counts. Other records leave no trace in the policy. The rewards that count are thus
    distributed as those of a policy that plays by itself for as many rounds, if the records are independent. Of n
    candidates in each record, chosen uniformly, one record in n counts on average.

    Parameters
    ----------
    policy
        Policy on `Arms`, `Points`, `Settings` or a `Grid` that it enumerates. It may have observations, and is told
        those that count.
    log
        Records, whose choices were uniform or have propensities. Records of larger propensity than the least one are
        left out at random, so that very small propensities leave few records.
    seed
        Seed of that. Whether a record is left out is a function of the seed, its position and the propensities alone.

    Returns
    -------
    Replay
        Average reward with its standard error, the rewards, and how many records counted.

    Raises
    ------
    ValueError
        If the choices of a log without propensities were plainly not uniform (counts as these have a probability below
        1e-6), a choice is not among the candidates of its record, a context or candidate does not exist, the space is
        not finite or lists a point twice, points are pending, or the policy is recorded.

    Examples
    --------
    >>> import numpy as np
    >>> import scalable_bandits as sb
    >>> rng = np.random.default_rng(1)
    >>> space = sb.Grid([[0, 1], [0, 1]], shape=(5, 2))  # an action, and a context
    >>> points = space.points(rng.integers(10, size=3000))  # contexts and actions are uniform
    >>> rewards = np.abs(points[:, 0] - points[:, 1]) + 0.1 * rng.standard_normal(3000)
    >>> log = sb.LoggedRounds(points, rewards, contexts={1: points[:, 1]})
    >>> found = sb.replay(sb.GPUCB(space, sb.RBF(0.5), noise=0.1, regularization=0.01), log)
    >>> found.accepted > 400, bool(found.mean > 0.9 > rewards.mean())
    (True, True)
    """
    checks.kind("policy", policy, Policy, "a policy, such as GPUCB(space, kernel)")
    checks.kind("log", log, LoggedRounds, "LoggedRounds")
    if policy.outputs is not None:
        checks.refuse("policy", "one with several outputs", "a policy that is told numbers")
    if policy.space.finite is None or policy.domain.by_visit or not policy.domain.finite.distinct:
        allowed = "one on Arms, Points, Settings or a Grid that it enumerates, where no point is listed twice"
        checks.refuse("policy", f"space {policy.space}", allowed)
    check_unrecorded(policy)
    if policy.pending:
        checks.refuse("policy", f"pending points {policy.pending}", "none pending: tell or abandon them first")
    stream = RoundStream(checks.integer("seed", seed, 0), "replay", np.random.Generator.random)
    offers = _offers(policy, log)
    propensities = log.propensities
    if propensities is None:
        _check_uniform(policy, log, offers)
        propensities = 1.0 / offers.sizes[offers.numbers]
    kept = stream.numbers(0, len(log)) * propensities < propensities.min()
    accepted = _play(policy, offers, log.rewards, np.flatnonzero(kept))
    return Replay(checks.frozen(log.rewards[accepted]), accepted, len(log))


class Offers(NamedTuple):
    """Choices of the records of a log, and the sets of candidates from which they were made."""

    choices: Indices  # (k,) numbers of the candidates
    numbers: Indices  # (k,) number of each record's set
    masks: NDArray[np.bool_]  # (m, size) candidates of the sets
    sizes: Indices  # (m,) numbers of these


def _offers(policy: Policy, log: LoggedRounds) -> Offers:
    """Return the choices and the sets of a log, on a policy's domain; ValueError for a choice from outside its set."""
    domain, size = policy.domain, policy.domain.choosable
    try:
        choices = domain.find(domain.space.parse(log.choices)[0])
    except ValueError as error:
        checks.refuse("log.choices", log.choices, f"points of the policy's space ({error})")
    rows = list(zip(*map(list, log.contexts.values()), strict=True))
    numbers, known = np.empty(len(log), dtype=np.int64), dict[Any, int]()
    masks: list[NDArray[np.bool_]] = []
    for i in range(len(log)):
        row = rows[i] if rows else ()
        try:
            given = None if log.available is None else availability(log.available[i], size)
            key = row, None if given is None else given.tobytes()
            if key not in known:
                mask = domain.allowed(given, dict(zip(log.contexts, row, strict=True)) or None)
                known[key] = len(masks)
                masks.append(np.ones(size, dtype=np.bool_) if mask is None else mask)
        except ValueError as error:
            raise ValueError(f"log, record {i}: {error}") from None
        numbers[i] = known[key]
        if choices[i] < 0 or not masks[numbers[i]][choices[i]]:
            allowed = "a candidate of the space that has the record's context and is available"
            checks.refuse(f"log.choices[{i}]", log.choices[i], allowed)
    table = np.array(masks)
    return Offers(choices, numbers, table, table.sum(axis=1))


def _check_uniform(policy: Policy, log: LoggedRounds, offers: Offers) -> None:
    """Raise ValueError if counts as those of the log have a probability below `IMPLAUSIBLE` under uniform choices.

    They are counted for each candidate in each set, for each candidate in all sets, and for each action in all sets:
    the coordinates of a candidate that are not its context.
    """
    size = offers.masks.shape[1]
    bounds = [_bound_of_sets(offers), _bound_of_cells(offers, np.arange(size))]
    keys = [axis.name if policy.space.named else i for i, axis in enumerate(policy.space.axes)]
    if log.contexts and (others := [i for i, key in enumerate(keys) if key not in log.contexts]):
        actions = policy.domain.points(np.arange(size))[:, others]
        bounds.append(_bound_of_cells(offers, np.unique(actions, axis=0, return_inverse=True)[1].reshape(-1)))
    if len(bounds) * min(bounds) < IMPLAUSIBLE:
        given = f"choices that were not uniform: counts as these have a probability below {IMPLAUSIBLE:g}"
        checks.refuse("log", given, "uniform choices; or LoggedRounds(..., propensities=) with their probabilities")


def _bound_of_sets(offers: Offers) -> float:
    """Return a bound on the probability of a G statistic as large as that of the counts in the sets.

    With D the relative entropy of counts of n draws from k values, P(sum of n D >= g) <= (e g / f)^f exp(-g) for g > f,
    where f is the sum of k - 1: Agrawal 2020 (Theorems 1.2 and 1.3), whatever the expected counts are.
    """
    _, size = offers.masks.shape
    cells, counts = np.unique(offers.numbers * size + offers.choices, return_counts=True)
    draws = np.bincount(offers.numbers)
    expected = (draws / offers.sizes)[cells // size]
    g, freedom = float((counts * np.log(counts / expected)).sum()), float((offers.sizes - 1).sum())
    return math.exp(freedom * (1.0 + math.log(g / freedom)) - g) if g > freedom > 0.0 else 1.0


def _bound_of_cells(offers: Offers, cells: Indices) -> float:
    """Return a bound on the probability that the count of any cell is as far from its mean.

    `cells` (size,) are the numbers of the candidates' cells. The choices are independent given the sets, so that the
    count of a cell of average probability p among n records has P(count / n beyond q) <= exp(-n KL(q, p)): Hoeffding
    1963, Theorem 1.
    """
    count, most = len(offers.numbers), int(cells.max()) + 1
    weights, parts = np.bincount(offers.numbers) / offers.sizes, 1 + len(offers.masks) // 1024  # fewer floats at once
    split = zip(np.array_split(weights, parts), np.array_split(offers.masks, parts), strict=True)
    p = np.bincount(cells, sum(share @ masks for share, masks in split), most) / count
    q = np.bincount(cells[offers.choices], minlength=most) / count
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(a > 0.0, a * np.log(a / b), 0.0) for a, b in ((q, p), (1.0 - q, np.maximum(1.0 - p, 0.0)))]
    return min(1.0, 2.0 * most * math.exp(-count * float((terms[0] + terms[1]).max())))


def _play(policy: Policy, offers: Offers, rewards: Floats, records: Indices) -> Indices:
    """Play the records at positions (k,); return the positions (n,) of those that count."""
    choices, numbers = offers.choices.tolist(), offers.numbers.tolist()
    allowed = [None if mask.all() else mask for mask in offers.masks]
    accepted: list[int] = []
    proposed: dict[int, int] = {}  # what the policy chooses from each set, until it is told something
    for i in records.tolist():
        number = numbers[i]
        if number not in proposed:
            proposed[number] = policy.propose(allowed[number])
        if proposed[number] == choices[i]:
            policy.observe(choices[i], float(rewards[i]))
            proposed = {}
            accepted.append(i)
    return np.array(accepted, dtype=np.int64)
