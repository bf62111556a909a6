"""Plans of screenings: the formula by hand, what is measured of a pool, and the command."""

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from cases.command import command

import scalable_bandits as sb
from scalable_bandits import planning
from scalable_bandits.planning import Choosing, Machine, Messages, plan_screen, screening
from scalable_bandits.planning.screening import CHUNK, _on

RNG = np.random.default_rng(0)
BITS = np.packbits(RNG.random((500, 64)) < 0.2, axis=1)


@pytest.fixture
def pool(tmp_path: Path) -> sb.Pool:
    """A pool of fingerprints in five chunks."""
    return sb.Pool.write(tmp_path / "pool.zarr", BITS, packed=True, chunk=100)


def test_batches_by_hand() -> None:
    """Four batches, of which the first is random; 10 chunks on 1 and on 4 workers, which slow each other down."""
    found = [Choosing(10, 2.0, 1.0), Choosing(30, 4.0, 2.0)]
    machine = Machine(4, 5.0, {CHUNK: 1.5}, Messages(0.01, 0.0, 0.0, 1e3))
    alone = _on(found, 10, 10, 4, 500.0, Machine(), 1)
    assert alone == (1, pytest.approx(20 + 1 + 30 + 1.5 + 40 + 2), pytest.approx(42.0))
    beside = 10 * 0.01 + 0.5  # tasks, and 500 bytes
    each = [3 * 1.5 * chunk + driver + beside for chunk, driver in ((2, 1), (3, 1.5), (4, 2))]
    four = _on(found, 10, 10, 4, 500.0, machine, 4)
    assert four == (4, pytest.approx(5 + sum(each)), pytest.approx(each[-1]))
    assert _on(found, 10, 10, 1, 500.0, machine, 1) == (1, 0.0, 0.0)  # a random batch alone


def test_what_a_pool_takes(pool: sb.Pool) -> None:
    found = plan_screen(pool, 40, batch=8, candidates=1_000_000)
    assert (found.candidates, found.chunks, found.batches) == (1_000_000, 10_000, 5)
    assert [each.observations for each in found.measured] == [8, 40]
    assert all(each.chunk > 0.0 for each in found.measured)
    assert [each.workers for each in found.workers] == [1]
    least = 4 * 10_000 * min(each.chunk for each in found.measured)
    assert found.workers[0].seconds >= least
    assert 1 < found.enough <= 16_384
    whole = plan_screen(sb.Pool(pool.path), 500, batch=500)  # more than half of a chunk
    assert (whole.candidates, whole.batches, whole.workers[0].seconds) == (500, 1, 0.0)
    assert [each.observations for each in whole.measured] == [50]


def test_a_pool_smaller_than_a_chunk_takes_no_longer_than_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scoring its 200 candidates takes a second; a larger pool has chunks of 1,000."""
    small = sb.Pool.write(tmp_path / "small.zarr", BITS[:200], packed=True, chunk=1000)
    monkeypatch.setattr(screening, "_seconds_of_chunk", lambda question: 1.0)
    for candidates, seconds in ((None, 1.0), (600, 3.0), (4000, 5.0)):
        found = plan_screen(small, 40, batch=8, candidates=candidates)
        assert [each.chunk for each in found.measured] == pytest.approx([seconds] * 2)


def test_refusals(pool: sb.Pool) -> None:
    with pytest.raises(ValueError, match=r"workers\[1\]: got 0"):
        plan_screen(pool, 40, batch=8, workers=(1, 0))
    with pytest.raises(ValueError, match="batch: got 41"):
        plan_screen(pool, 40, batch=41)
    with pytest.raises(ValueError, match="candidates: got 0"):
        plan_screen(pool, 40, batch=8, candidates=0)
    with pytest.raises(ValueError, match="candidates: got 10; allowed: at least 500"):
        plan_screen(pool, 40, batch=8, candidates=10)
    for more in ({"candidates": 600}, {}):
        with pytest.raises(ValueError, match=f"budget: got 601; allowed: at most {more.get('candidates', 500)}"):
            plan_screen(pool, 601, batch=8, **more)
    assert plan_screen(attrs.evolve(pool, repeats=True), 601, batch=601).batches == 1  # as the screening of this pool
    with pytest.raises(ValueError, match="on: got 'nowhere'"):
        plan_screen(pool, 40, batch=8, on="nowhere")
    with pytest.raises(ValueError, match="pool: got Grid"):
        plan_screen(sb.Grid([[0, 1]], 10), 40, batch=8)  # type: ignore[arg-type]


def test_the_command_plans_and_measures_nothing(pool: sb.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["screen", "--pool", pool.path, "--budget", "40", "--batch", "8"]
    made = plan_screen(pool, 40, batch=8, workers=(1,), candidates=10**9)
    monkeypatch.setattr(planning, "plan_screen", lambda pool, budget, **options: (asked.append(options), made)[1])
    asked: list[dict[str, object]] = []
    planned = [*words, "--plan", "1,256", "--candidates", "1000000000"]
    found, recorded = command(*planned), command(*planned, "--json")
    assert found.exit_code == recorded.exit_code == 0, found.output + recorded.output
    assert asked[0] == asked[1] == {"batch": 8, "workers": [1, 256], "candidates": 10**9, "on": None}
    for text in ("1,000,000,000 candidates in 10,000,000 chunks, 5 batches", "do not pay: they", "40 observations"):
        assert text in " ".join(found.stdout.split())
    assert json.loads(recorded.stdout)["workers"][0]["workers"] == 1
    for more, message in (
        (["--candidates", "9"], "--candidates: it is for --plan"),
        (["--plan", "1,x"], "--plan: got 'x'; allowed: positive integers with commas"),
        (["--plan", "1,0"], "--plan: got '0'; allowed: positive integers with commas"),
        (["--store", "s.zarr"], "screen: --command is missing"),
        (["--command", "./assay {candidate}"], "screen: --store is missing"),
    ):
        refused = command(*words, *more)
        assert refused.exit_code == 2
        assert message in " ".join(refused.stderr.split())


def test_one_is_singular(pool: sb.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan_screen(pool, 40, batch=8)._replace(candidates=1, chunks=1, batches=1, enough=1)
    monkeypatch.setattr(planning, "plan_screen", lambda *given, **options: made)
    found = command("screen", "--pool", pool.path, "--budget", 1, "--batch", 1, "--plan", 1)
    for text in ("1 candidate in 1 chunk, 1 batch ", "more workers than 1 do not pay: they save less than a tenth"):
        assert text in " ".join(found.stdout.split())


@pytest.mark.slow
def test_workers_are_measured(pool: sb.Pool, client: object) -> None:
    found = plan_screen(pool, 40, batch=8, workers=(1, 2), on=client)
    assert found.machine.messages is not None
    assert found.machine.slowdown.keys() == {CHUNK}
    assert [each.workers for each in found.workers] == [1, 2]
