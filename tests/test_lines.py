"""Messages to workers on this machine that do not go through Dask."""

import multiprocessing
import os
import stat
import sys
import threading
import time
import types
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client as Caller
from pathlib import Path

import cloudpickle
import pytest

from scalable_bandits.execution import lines
from scalable_bandits.execution.holding import packed
from scalable_bandits.execution.lines import Lines, listen


def ask(messages):
    """As Dask has workers call functions: all of them are this process."""
    return {worker: function(*arguments) for worker, (function, *arguments) in messages.items()}


def nothing():
    return {}


@pytest.fixture
def opened():
    found = Lines()
    found.open(["a", "b"], ask)
    yield found
    for worker in "ab":
        found.drop(worker)


def sent(opened, messages, meanwhile=nothing, known=("a", "b")):
    return opened.exchange(messages, meanwhile, 0.05, lambda: known)


def serving():
    """Threads that serve a line: those of earlier tests are still ending."""
    return {thread for thread in threading.enumerate() if thread.name == "line"}


def test_modules_that_are_nowhere_else(monkeypatch):
    """By their contents, where the user has told cloudpickle so."""
    module = types.ModuleType("nowhere_else")
    exec("def double(x):\n    return 2 * x", module.__dict__)  # held by no file
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "nowhere_else", module)
        cloudpickle.register_pickle_by_value(module)
        try:
            message = packed((module.double, 2))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
    function, x = cloudpickle.loads(message)
    assert function(x) == 4


class TestExchange:
    def test_answers(self, opened):
        """To each worker its own, and what came in the meantime beside."""
        messages = {"a": (pow, 2, 3), "b": (len, "four")}
        assert sent(opened, messages, lambda: {"far": 1}) == {"a": 8, "b": 4, "far": 1}
        assert sent(opened, {"b": (pow, 3, 2)}) == {"b": 9}

    def test_large_messages(self, opened):
        both = bytes(10**7)
        assert sent(opened, {"a": (bytes.__add__, both, both), "b": (len, both)}) == {"a": both + both, "b": 10**7}

    def test_errors(self, opened):
        """Said in words, whether or not what was raised or returned survives the way; the line stays."""

        def breaks():
            raise ZeroDivisionError("nothing to divide by")

        found = sent(opened, {"a": (breaks,), "b": (threading.Lock,)})
        assert str(found["a"]) == "ZeroDivisionError: nothing to divide by"
        assert "cannot pickle" in str(found["b"])
        assert sent(opened, {"a": (abs, -1), "b": (abs, -2)}) == {"a": 1, "b": 2}

    def test_interrupted(self, opened):
        """The answer that nobody waited for is not taken for the next one."""

        def interrupt():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sent(opened, {"a": (abs, -1)}, interrupt)
        assert "a" not in opened
        opened.open(["a"], ask)
        assert sent(opened, {"a": (abs, -5)}) == {"a": 5}

    def test_given_up(self, opened):
        """A worker that does not answer, and is not known any more."""
        assert str(sent(opened, {"b": (time.sleep, 0.5)}, known=("a",))["b"]) == "b is gone"
        assert "b" not in opened
        opened.open(["b"], ask)
        assert sent(opened, {"a": (abs, -3), "b": (abs, -4)}) == {"a": 3, "b": 4}

    def test_death(self, opened):
        """A process that ends under a message, or before it."""
        for before in (False, True):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
                opened.open(["c"], lambda messages: {"c": other.submit(*messages["c"]).result()})
                assert sent(opened, {"c": (os.getpid,)})["c"] != os.getpid()
                if before:
                    other.submit(os._exit, 0).exception()
                found = sent(opened, {"a": (abs, -1), "c": (os._exit, 0)})
                assert found["a"] == 1
                assert isinstance(found["c"], OSError)
                assert "c" not in opened


class TestOpening:
    def test_elsewhere(self, monkeypatch, tmp_path):
        """On another machine, or where there can be no socket in the folder: no line, and none is tried again."""
        asked = []

        def elsewhere(messages):
            asked.append(sorted(messages))
            return {w: f("another", *given[1:]) for w, (f, *given) in messages.items()}

        found = Lines()
        found.open(["a"], elsewhere)
        found.open(["a"], elsewhere)
        assert "a" not in found
        assert asked == [["a"]]
        assert not listen(lines.machine(), "/no/such/folder/0", b"key")
        deep = tmp_path / ("deep" * 40)  # too long a name for a socket
        deep.mkdir()
        assert not listen(lines.machine(), str(deep / "0"), b"key")
        monkeypatch.delattr("socket.AF_UNIX")
        found.open(["b"], ask)
        assert "b" not in found

    def test_nowhere(self, monkeypatch):
        """What came otherwise is there, also on systems without poll."""
        monkeypatch.delattr("select.poll")
        assert sent(Lines(), {}, lambda: {"far": 1}) == {"far": 1}

    def test_workers_that_are_gone(self, opened):
        """Nothing is held of them."""
        line = opened._held["a"]
        opened.keep({"b"})
        assert "a" not in opened
        assert line.closed
        assert sent(opened, {"b": (abs, -2)}) == {"b": 2}

    def test_interrupted(self, monkeypatch):
        """Workers that listen for a client that does not call do not do so for ever."""
        monkeypatch.setattr(lines, "CALL_SECONDS", 0.1)
        before, listening = serving(), []

        def interrupted(messages):
            ask(messages)
            listening.extend(serving() - before)
            raise KeyboardInterrupt

        found = Lines()
        with pytest.raises(KeyboardInterrupt):
            found.open(["a"], interrupted)
        listening[0].join(10)
        assert not listening[0].is_alive()
        found.open(["a"], ask)
        time.sleep(0.3)  # a line that is open stays so
        assert sent(found, {"a": (abs, -1)}) == {"a": 1}
        found.drop("a")

    def test_no_answer(self):
        """A worker that did not say is asked again."""
        found = Lines()
        found.open(["a"], lambda messages: dict.fromkeys(messages, OSError("gone")))
        assert "a" not in found
        found.open(["a"], ask)
        assert "a" in found
        found.drop("a")

    def test_a_folder_of_its_own(self):
        """Nobody else may look into it, and it is gone once the line is open."""
        seen = []

        def look(messages):
            (_, _, place, _), *_ = messages.values()
            found = ask(messages)
            seen.append((Path(place).parent, stat.S_IMODE(Path(place).parent.stat().st_mode)))
            return found

        found = Lines()
        found.open(["a"], look)
        assert "a" in found
        assert seen[0][1] == 0o700
        assert not seen[0][0].exists()
        found.drop("a")

    def test_key(self, tmp_path):
        """Who does not know it is refused, and nothing is left listening."""
        before = serving()
        assert listen(lines.machine(), str(tmp_path / "0"), b"right")
        with pytest.raises(AuthenticationError):
            Caller(str(tmp_path / "0"), authkey=b"wrong")
        deadline = time.monotonic() + 10
        while serving() - before or list(tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def test_ends_with_the_client(self):
        before = serving()
        found = Lines()
        found.open(["a", "b"], ask)
        assert len(serving() - before) == 2
        del found
        deadline = time.monotonic() + 10
        while serving() - before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
