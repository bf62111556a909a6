"""Settings and fixtures that all tests share."""

import collections
import contextlib
import functools
import gc
import itertools
import math
import os
import shutil
import signal
import sys
import tempfile
import unittest.mock
import zlib
from multiprocessing import forkserver

# Before numpy is imported: threads of BLAS and of scikit-learn wait for each other actively, at length where others
# need the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COLUMNS", None)  # which rich would keep from its import on

if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 4e9:
    os.environ["TMPDIR"] = "/dev/shm"  # what the tests write they sync again and again: in memory that takes no time
    tempfile.tempdir = None  # which pytest has asked for already

import hypothesis
import pytest

from scalable_bandits.posteriors.exact import dense
from scalable_bandits.posteriors.tiled import ordering, tiles

gc.disable()  # until all is collected: what is imported and collected stays, and a third of the time would be theirs

hypothesis.settings.register_profile(
    "repeatable",
    deadline=None,  # the first example compiles
    derandomize=True,
    max_examples=20,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("repeatable")


def shown(value):
    """A value as text, also one that is invalid on purpose and cannot be printed."""
    try:
        return repr(value)
    except Exception:
        return f"{type(value)} {id(value)}"


@functools.cache
def combinations(case, count):
    """Every choice of `count` of the arguments that a case of a test is made with, by name and value."""
    return set(itertools.combinations(sorted((n, shown(value)) for n, value in case.callspec.params.items()), count))


def covering(cases, count, most=math.inf):
    """Some of the cases, in which every value of an argument (count 1) or every pair of values (2) occurs.

    Not of arguments that have more than `most` values.
    """
    found = {case: combinations(case, count) for case in cases}
    missing, chosen = set().union(*found.values()), []
    values = collections.Counter(each[0][0] for each in missing)
    missing = {each for each in missing if values[each[0][0]] <= most}
    for case in cases:
        if missing & found[case]:
            missing -= found[case]
            chosen.append(case)
    return chosen


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Mark as slow or long what `sampled(every)` leaves out of a test's cases; in any order of the tests the same.

    Run by default: one case of that number, with every value of an argument where there are so few; of `first=NAME`
    those with NAME first.
    Slow: one of `slow=3` of the cases that have every pair of values. Long: all.
    """
    tests = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") is not None and hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("sampled")
        names = {case: case.callspec.id for case in cases}
        first = mark.kwargs.get("first", "")
        cases.sort(key=lambda case: (first not in names[case], zlib.crc32(names[case].encode()), names[case]))
        room = math.ceil(len(cases) / mark.args[0])
        chosen = covering(cases, 1, most=room)
        rest = [case for case in cases if case not in chosen]
        values = collections.Counter(name for ((name, _),) in set().union(*(combinations(case, 1) for case in cases)))
        several = sum(count > 1 for count in values.values()) > 1
        slow = (covering(cases, 2) if several else cases)[:: mark.kwargs.get("slow", 3)]
        for case in rest[max(room - len(chosen), 0) :]:
            case.add_marker(pytest.mark.slow if case in slow else pytest.mark.long)
    # First those of minutes, for which all would wait at the end; then those on the clusters of a session, one after
    # the other, so that one process alone starts them.
    clusters = {"client", "standing"}
    items.sort(key=lambda item: ("test_executed_again" not in item.nodeid, clusters.isdisjoint(item.fixturenames)))


def pytest_collection_finish():
    """Take what was imported and collected out of the garbage collections, which would look through it again and again.

    These are hundreds of thousands of objects that stay to the end. What the tests make is collected as always.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # of Python's 700, 10, 10 a tenth of the tests' time would be collections
    gc.enable()


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """Shells have what they start in the background ignore Ctrl-C, and some libraries leave a handler behind."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def pictures_are_closed():
    """Pyplot keeps all figures, and warns of many, which the tests before have left."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def registries():
    """What a test registers by a name is forgotten after it: engines, features, widths, builders, studies, classes."""
    from scalable_bandits.formulas.confidence import WIDTHS
    from scalable_bandits.posteriors import registry
    from scalable_bandits.posteriors.sampling import features
    from scalable_bandits.specification import REGISTRY
    from scalable_bandits.studies import Study, builders

    named = registry._engines, features._frequencies, REGISTRY, WIDTHS, builders.BUILDERS, Study.registry
    with contextlib.ExitStack() as stack:
        for each in named:
            stack.enter_context(unittest.mock.patch.dict(each))
        yield


@pytest.fixture(scope="session")
def client():
    """Two worker processes of this machine; one cluster for all tests of a session."""
    from cases.cluster import forked

    from scalable_bandits.execution.clusters import local

    with contextlib.ExitStack() as stack:
        with forked():
            found = stack.enter_context(local(2))
        yield found


@pytest.fixture
def forked_workers():
    """Worker processes that a test starts are forked: two seconds less each, where how they start is not the point."""
    from cases.cluster import forked

    with forked():
        forkserver.ensure_running()  # before the test counts processes
        yield


@pytest.fixture(scope="session")
def standing():
    """A cluster of four worker processes whose workers may be killed; one for all tests of a session."""
    from cases.cluster import Standing, forked

    found = Standing()
    yield found
    with forked():
        found.close()


@pytest.fixture
def four(standing):
    """Four worker processes."""
    from cases.cluster import forked

    with forked():
        yield standing()


@pytest.fixture
def tiles_a_shard(monkeypatch):
    """Set the number of tiles in a shard."""
    return functools.partial(monkeypatch.setattr, ordering, "TILES_A_SHARD")


@pytest.fixture
def tile_by_tile(tiles_a_shard):
    """Every tile is a shard of its own."""
    tiles_a_shard(1)


@pytest.fixture
def tile_sizes(monkeypatch):
    """Set constants of the tiled engine: TILE, WINDOW, COLUMN_MULTIPLE, TILES_A_THREAD; and the dense WINDOW."""

    def change(**sizes):
        for module, name in itertools.product((tiles, dense), sizes):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, sizes[name])

    return change


@pytest.fixture
def small_tiles(tile_sizes):
    """Tiles, windows and batches so small that a few hundred candidates fold and rebuild."""
    tile_sizes(TILE=64, WINDOW=16, COLUMN_MULTIPLE=16)


@pytest.fixture
def rebuilds(monkeypatch):
    """List that grows by one at every rebuild of a tiled engine."""
    seen, rebuild = [], tiles.Tiles._rebuild
    monkeypatch.setattr(tiles.Tiles, "_rebuild", lambda self: (seen.append(self), rebuild(self)))
    return seen
