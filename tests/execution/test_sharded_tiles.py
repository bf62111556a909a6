"""Tiles on workers: the numbers of one process, for any division into shards, also when workers die."""

import functools
import tracemalloc

import numpy as np
import pytest
from cases.cluster import Killer, until_it_works
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, UpperConfidence
from scalable_bandits.posteriors import TiledEngine
from scalable_bandits.posteriors.engine import choose, finalists
from scalable_bandits.posteriors.placement import InProcess, Shards
from scalable_bandits.posteriors.tiled import sharded
from scalable_bandits.posteriors.tiled.ordering import spatial_order, tile_order
from scalable_bandits.posteriors.tiled.sharded import TilesShard
from scalable_bandits.posteriors.tiled.tiles import Tiles

SPACE = sb.Grid([[0, 1], [0, 1]], (80, 82))  # seven tiles
KERNEL = sb.Matern(0.2, nu=1.5)
HORIZON = 110  # long enough to fold a window and to compute columns several times
KINDS = {
    "IGPUCB": functools.partial(sb.IGPUCB, rkhs_norm=1.0),
    "GPUCB": functools.partial(sb.GPUCB, scale=5.0),
    "GPEI": sb.GPEI,
    "RGPUCB": functools.partial(sb.RGPUCB, memory=60, rkhs_norm=1.0),
    "SupKernelUCB": functools.partial(sb.SupKernelUCB, horizon=HORIZON),
    "PhasedElimination": functools.partial(sb.PhasedElimination, horizon=HORIZON, rkhs_norm=0.2),
}


pytestmark = pytest.mark.usefixtures("one_thread")


def policy_of(kind, on=None, **options):
    return KINDS[kind](SPACE, KERNEL, noise=0.1, regularization=0.01, seed=3, engine="tiled", on=on, **options)


@functools.cache
def function():
    return sb.RKHSFunction.sparse(SPACE, KERNEL, sb.GaussianNoise(0.1), seed=4)


def play(policy, before=lambda t: None, horizon=HORIZON):
    """Play a run; return its points, widths and gains, and the posterior at its end."""
    environment, seen = function(), []
    for t in range(1, horizon + 1):
        before(t)
        allowed = np.arange(t % 7, SPACE.size, 2) if t % 20 == 0 else None
        x = policy.ask(available=allowed)
        more = [policy.ask() for _ in range(2 if t % 50 == 0 else 0)]
        if t % 30 == 0:
            x = SPACE.points([17 * t])[0]  # a point that `ask` did not return
        seen.append([*x.tolist(), *np.ravel(more).tolist(), policy.width, policy.information_gain])
        policy.tell(x, float(environment.evaluate(x[None])[0] + environment.noise_at(t)))
        policy.abandon()
    mean, std = policy.posterior([[0.31, 0.2], [0.77, 0.9]])
    return repr(seen), mean.tolist(), std.tolist(), policy.best().mean, policy.best().x.tolist()


@functools.cache
def alone(kind):
    """Play the same run in this process, without shards."""
    return play(policy_of(kind))


@pytest.mark.usefixtures("tile_by_tile")
class TestOnWorkers:
    @pytest.mark.parametrize(
        ("kind", "workers"), [("IGPUCB", 1), ("IGPUCB", 2), *[(kind, 4) for kind in KINDS]], ids=str
    )
    @pytest.mark.sampled(12)
    def test_same_numbers(self, kind, workers, four, some_of_four, messages):
        some_of_four(workers)
        assert play(policy_of(kind, four)) == alone(kind)
        homes = messages.homes()
        assert len(set(homes.values())) == workers
        assert len(homes) == 7

    @pytest.mark.parametrize("threads", [2, 3])
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.sampled(5)
    def test_threads(self, kind, threads):
        assert play(policy_of(kind, f"threads:{threads}")) == alone(kind)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.sampled(2)
    def test_deaths(self, seed, four):
        """Ten kills in all; the tiles of the dead are made again elsewhere."""
        killer = Killer(four, seed, HORIZON)
        assert play(policy_of("IGPUCB", four), killer) == alone("IGPUCB")
        assert len(killer.ended()) == 5

    @pytest.mark.slow
    def test_messages(self, four, messages):
        """One to each worker a round; columns that were not foreseen cost some more."""
        sb.simulate(policy_of("IGPUCB", four), function(), 60)
        sent = [next(iter(each.values())).question.method for each in messages.sent]
        assert sent.count(TilesShard.find_finalists) == 60
        assert 60 > sent.count(TilesShard.rows_at_here) > 0
        assert set(sent) <= {TilesShard.find_finalists, TilesShard.rows_at_here, TilesShard.group_maxima}
        assert sent.count(TilesShard.group_maxima) <= 1

    @pytest.mark.slow
    def test_state(self, four):
        """A state of workers is restored in this process, and the reverse."""
        there, here = policy_of("IGPUCB", four), policy_of("IGPUCB")
        for policy in (there, here):
            sb.simulate(policy, function(), 70)
        back, forth = policy_of("IGPUCB"), policy_of("IGPUCB", four)
        back.restore(there.state())
        forth.restore(here.state())
        found = [sb.simulate(policy, function(), 20).candidate.tolist() for policy in (there, here, back, forth)]
        assert found.count(found[0]) == 4

    @pytest.mark.slow
    def test_several_in_flight(self, four):
        """Pending points, whose columns the workers compute too."""
        found = []
        for on in (None, four):
            policy = policy_of("IGPUCB", on)
            for _ in range(5):
                points = policy.ask(4)
                policy.tell(points, function().evaluate(points))
            found.append(repr((points.tolist(), policy.information_gain)))
        assert found[0] == found[1]


class TestRefusals:
    def test_other_engines(self):
        """The specification does not contain `on`, which only the blocked engine accepts."""
        assert policy_of("IGPUCB", "local:2").to_dict() == policy_of("IGPUCB").to_dict()
        with pytest.raises(ValueError, match=r"^on: got 'local:2'; allowed: None for the engine 'dense'"):
            sb.IGPUCB(sb.Grid([[0, 1]], 50), KERNEL, on="local:2")
        with pytest.raises(ValueError, match=r"^on: got 'local:2'; allowed: None for the engine"):
            sb.GPEI(sb.Box([[0, 1]]), KERNEL, on="local:2")
        with pytest.raises(ValueError, match=r"^on: got 'nowhere'; allowed: None, 'local', 'local:4'"):
            policy_of("IGPUCB", "nowhere")


class TestInProcess:
    """Shards in this process, with tiles so small that folds and refits happen."""

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize(("tiles", "seed"), [(1, 0), (1, 1), (3, 2), (7, 3), (7, 4)])
    @pytest.mark.sampled(5)
    def test_same_bits(self, tiles, seed, tiles_a_shard):
        tiles_a_shard(tiles)
        space, rng = sb.Grid([[0, 1], [0, 1]], (30, 40)), np.random.default_rng(seed)
        points = space.points()
        truth = np.sin(5 * points[:, 0] + seed) * np.cos(7 * points[:, 1])
        kernel, prior_mean = (sb.RBF(0.2), np.zeros(1200)) if seed % 2 else (KERNEL, 0.1 * points[:, 0])
        whole = TiledEngine(kernel, points, prior_mean)
        parted = TiledEngine(kernel, points, prior_mean, InProcess(), space if seed % 2 else None)
        favourites = rng.integers(1200, size=4).tolist()
        for t in range(200):
            index = ExpectedImprovement(0.5) if seed % 3 == 1 else UpperConfidence(0.3 + 0.002 * t)
            allowed = rng.random(1200) < 0.5 if t % 7 == 0 else None
            found = whole.argmax(index, 3, allowed)
            assert parted.argmax(index, 3, allowed) == found
            candidate = favourites[t % 4] if t % 3 == 0 else int(rng.integers(1200)) if t % 11 == 0 else found[0]
            y = float(truth[candidate] + 0.1 * rng.standard_normal())
            for engine in (whole, parted):
                engine.observe(candidate, y, 0.01)
            assert parted.information_gain == whole.information_gain
            if t % 50 == 20:
                some = np.array([3, 700, candidate])
                np.testing.assert_array_equal(parted.columns(some), whole.columns(some))
                np.testing.assert_array_equal(parted.at(some), whole.at(some))
            if t == 120:
                states = whole.state(), parted.state()
                assert set(states[0]) == set(states[1])
                whole = TiledEngine(kernel, points, prior_mean)
                parted = TiledEngine(kernel, points, prior_mean, InProcess(), space)
                whole.restore(states[1])
                parted.restore(states[0])
        np.testing.assert_array_equal(parted.mean(), whole.mean())
        np.testing.assert_array_equal(parted.variance(), whole.variance())

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("lost", [1, 2, 3])
    @pytest.mark.sampled(3)
    def test_lost_shards(self, lost, tiles_a_shard, tile_sizes, rebuilds):
        """Made again after some rounds, in which windows were full and rows rebuilt; also after a restored state."""
        tiles_a_shard(4)
        tile_sizes(REBUILD_AFTER=30)
        points = sb.Grid([[0, 1], [0, 1]], (30, 40)).points()
        truth = np.sin(5 * points[:, 0]) * np.cos(7 * points[:, 1])
        parted, whole = (TiledEngine(KERNEL, points, np.zeros(1200), executor) for executor in (InProcess(), None))
        for t in range(230):
            candidate = whole.argmax(UpperConfidence(0.3), 3)[0]
            if t < 90 or t % 9:
                candidate = 5 + t % 3 if t < 90 else 7 * t % 90  # at first so few that the rows are rebuilt
            for engine in (whole, parted):
                engine.argmax(UpperConfidence(0.3), 3)
                engine.observe(candidate, float(truth[candidate]), 0.01)
            if t % 11 == 0:
                shards = parted._tiles._shards
                shards._shards[:lost] = [shards._source(number)() for number in range(lost)]
            if t == 60:
                state = parted.state()
                parted = TiledEngine(KERNEL, points, np.zeros(1200), InProcess())
                parted.restore(state)
        np.testing.assert_array_equal(parted.mean(), whole.mean())
        np.testing.assert_array_equal(parted.variance(), whole.variance())
        assert parted.information_gain == whole.information_gain
        assert whole._tiles in rebuilds

    @pytest.mark.usefixtures("small_tiles")
    def test_a_shard_is_lost_between_a_fold_and_the_next_observation(self, tiles_a_shard, monkeypatch):
        tiles_a_shard(4)
        fold, folds = sharded.ShardedTiles.fold, []

        def fold_and_lose(self):
            fold(self)
            folds.append(len(self._source.changes))
            self._shards._shards[:1] = [self._source(0)()]

        monkeypatch.setattr(sharded.ShardedTiles, "fold", fold_and_lose)
        points = sb.Grid([[0, 1], [0, 1]], (30, 40)).points()
        parted, whole = (TiledEngine(KERNEL, points, np.zeros(1200), executor) for executor in (InProcess(), None))
        for t in range(40):
            for engine in (whole, parted):
                engine.argmax(UpperConfidence(0.3), 3)
                engine.observe(7 * t, float(np.sin(t)), 0.01)
        assert len(folds) > 1
        np.testing.assert_array_equal(parted.mean(), whole.mean())
        np.testing.assert_array_equal(parted.variance(), whole.variance())

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize(
        "query", ["find_finalists", "moments_here", "rows_at_here", "group_maxima", "point_posterior"]
    )
    @pytest.mark.sampled(5)
    def test_places_out_of_reach(self, query, tiles_a_shard):
        """A call that fails goes on when it is repeated, wherever it was interrupted: the same but for rounding."""
        tiles_a_shard(2)
        points, asked = sb.Grid([[0, 1], [0, 1]], (30, 40)).points(), []

        class Unreachable(Shards):
            def ask(self, numbers, method, *arguments):
                if method.__name__ == query:
                    asked.append(query)
                    if len(asked) % 11 == 1:
                        raise ConnectionError(query)
                return super().ask(numbers, method, *arguments)

        class Away(InProcess):
            def shards(self, source, count, name):
                return Unreachable(source, count)

        whole = TiledEngine(KERNEL, points, np.zeros(1200))
        parted = TiledEngine(KERNEL, points, np.zeros(1200), Away())
        truth = np.sin(5 * points[:, 0]) * np.cos(7 * points[:, 1])
        for t in range(150):
            found = whole.argmax(UpperConfidence(0.3), 3)
            candidate, largest = until_it_works(parted.argmax, UpperConfidence(0.3), 3)
            assert candidate == found[0]
            assert largest == pytest.approx(found[1], rel=1e-9)
            candidate = 37 * t % 1200 if t % 3 == 0 else found[0]
            whole.observe(candidate, truth[candidate], 0.01)
            until_it_works(parted.observe, candidate, truth[candidate], 0.01)
            if t % 10 == 5:
                some = np.array([candidate, 3, 700])
                np.testing.assert_allclose(until_it_works(parted.at, some), whole.at(some), rtol=0, atol=1e-9)
        np.testing.assert_allclose(until_it_works(parted.mean), whole.mean(), rtol=0, atol=1e-9)
        assert parted.information_gain == pytest.approx(whole.information_gain, rel=1e-9)
        assert len(asked) > 2

    def test_memory(self):
        """A part has room for its own tiles alone."""

        def allocated(first, stop):
            tracemalloc.start()
            try:
                part = TilesShard(KERNEL, SPACE, 0.0, first, stop)
                return tracemalloc.get_traced_memory()[0], part
            finally:
                tracemalloc.stop()

        allocated(0, 1)  # what all parts share
        (one, _), (three, _) = allocated(2, 3), allocated(2, 5)
        assert 2.5 * one < three

    @pytest.mark.usefixtures("small_tiles")
    def test_values_are_revised_in_tiles_that_begin_elsewhere(self):
        """As in all tiles, and as if the changed values had been observed."""
        points, values = SPACE.points()[:400], [(130, 1.0, 0.1), (141, -0.5, 0.2), (130, 0.3, 0.1), (190, 0.2, 0.1)]
        whole, some, changed = (
            Tiles(KERNEL, points, np.zeros(400)),
            *(Tiles(KERNEL, points, np.zeros(400), first=2, stop=4) for _ in range(2)),
        )
        for tiles in (whole, some, changed):
            for p, y, noise in values:
                tiles.observe(p, y + (0.7 if tiles is changed and p == 141 else 0.0), noise)
        position = np.array([141])
        for tiles in (whole, some):
            tiles.revise(np.array([tiles.window.slot(141)]), position, np.array([0.7 / 0.2]))
        np.testing.assert_array_equal(some.mean[128:256], whole.mean[128:256])
        np.testing.assert_allclose(some.mean[128:256], changed.mean[128:256], rtol=0, atol=1e-12)
        np.testing.assert_allclose(some.window.shift, changed.window.shift, rtol=0, atol=1e-12)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40), st.lists(st.integers(1, 39), max_size=4),
    st.integers(0, 2**32 - 1), st.sampled_from([1.0, -1.0, -np.inf]),
)  # fmt: skip
def test_finalists(steps, cuts, salt, sign):
    """The best finalist of all pieces is the best of all candidates, also among near ties."""
    index = sign + 0.6e-10 * np.array(steps)
    numbers = np.random.default_rng(salt).permutation(len(steps)) * 7
    named = []
    for piece in np.split(np.arange(len(steps)), sorted(min(cut, len(steps)) for cut in cuts)):
        named += piece[finalists(index[piece], salt, numbers[piece])].tolist()
    chosen, best = choose(index[named], salt, None, numbers[named])
    expected, largest = choose(index, salt, None, numbers)
    assert (named[chosen], best) == (expected, largest)


@given(st.integers(1, 300), st.integers(1, 2), st.integers(0, 3))
def test_any_stretch_of_tiles_is_spread_over_the_space(tiles, dimension, over):
    """The order has every candidate once and the incomplete tile last, and spreads any quarter over the space."""
    width = 4
    points = np.random.default_rng(tiles).random((tiles * width + over, dimension))
    compact, order = spatial_order(points, width), tile_order(points, width)
    assert np.array_equal(np.sort(order), np.arange(len(points)))
    assert np.array_equal(order[tiles * width :], compact[tiles * width :])
    numbers = {tuple(tile): number for number, tile in enumerate(compact[: tiles * width].reshape(-1, width).tolist())}
    dealt = np.array([numbers[tuple(tile)] for tile in order[: tiles * width].reshape(-1, width).tolist()])
    half = (
        1 << max(tiles - 1, 0).bit_length() >> 1
    )  # half of the numbers: neighbours in the order are in different halves
    if tiles == 2 * half > 1:
        assert ((dealt[::2] < half) & (dealt[1::2] >= half)).all()
    for stretch in np.array_split(dealt, 4) if tiles >= 16 else ():
        below = (stretch < tiles / 2).sum()
        assert abs(below - len(stretch) / 2) <= 3 + len(stretch) / 8
