"""Readers of pickles: what they read is equal, and nothing that a file names is looked up or called."""

import contextlib
import copyreg
import io
import lzma
import os
import pathlib
import pickle

import numpy as np
import pandas
import pytest

from scalable_bandits.environments.published import pickles
from scalable_bandits.environments.published.pickles import read_frame, read_plain


class Call:
    """Pickled as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Named(pickle.Pickler):
    """Writer that replaces a value by a persistent id."""

    def persistent_id(self, obj):
        return "an id" if obj == "replaced" else None


def persistent():
    file = io.BytesIO()
    Named(file).dump(["replaced"])
    return file.getvalue()


def framed(value):
    return pickle.dumps(pandas.DataFrame({"a": pandas.Series([value], dtype=object)}))


@pytest.fixture
def attacks(tmp_path):
    """Pickles that would make a file, or would import something, by name."""
    command = f"touch {tmp_path / 'executed'}"
    copyreg.add_extension("posix", "system", 244)
    try:
        extension = pickle.dumps(Call(os.system, command), protocol=2)
    finally:
        copyreg.remove_extension("posix", "system", 244)
    assert pickle.EXT1 + bytes([244]) in extension
    copyreg.add_extension("posix", "system", 244)
    yield {
        "call": pickle.dumps(Call(os.system, command)),
        "old call": f"(S'{command}'\nios\nsystem\n.".encode(),
        "eval": pickle.dumps([Call(eval, "1 + 1")]),
        "getattr": pickle.dumps({"a": Call(getattr, "a", "join")}),
        "class": pickle.dumps(pathlib.PurePosixPath),
        "persistent id": persistent(),
        "old persistent id": b"Pname\n.",
        "extension code": extension,
        "frame": framed(Call(os.system, command)),
        "frame of a class": framed(pathlib.PurePosixPath),
        "numpy's loader": pickle.dumps(Call(np.load, "a.npy")),
        "cut": pickle.dumps([1, 2, 3])[:-2],
        "empty": b"",
    }
    copyreg.remove_extension("posix", "system", 244)


NAMES = (
    "call", "old call", "eval", "getattr", "class", "persistent id", "old persistent id", "extension code", "frame",
    "frame of a class", "numpy's loader", "cut", "empty",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_attacks_are_refused(name, attacks, tmp_path):
    with pytest.raises(pickle.UnpicklingError, match=r"file: |truncated"):
        read_plain(io.BytesIO(attacks[name]))
    path = tmp_path / "frame.xz"
    path.write_bytes(lzma.compress(attacks[name]))
    with pytest.raises(pickle.UnpicklingError, match=r"file: |truncated"):
        read_frame(path)
    assert not (tmp_path / "executed").exists()
    assert set(attacks) == set(NAMES)


def test_a_file_of_any_size_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(pickles, "LARGEST", 1000)
    (tmp_path / "frame.xz").write_bytes(lzma.compress(bytes(1001)))
    with pytest.raises(pickle.UnpicklingError, match="more than 1,000 bytes"):
        read_frame(tmp_path / "frame.xz")


def test_the_attacks_would_work(attacks, tmp_path):
    """As usual, the first of them is executed: the test above sees something."""
    pickle.loads(attacks["call"])
    assert (tmp_path / "executed").exists()


def test_records_cannot_be_misused(tmp_path):
    """Names of a frame without a frame around them, and states of the wrong form."""
    path = tmp_path / "frame.xz"
    for text in (
        b"cnumpy\ndtype\n.", b"cnumpy\ndtype\n(S'O'\ntR.", b"cnumpy\ndtype\n(S'O'\nI1\ntb.",
        b"cpandas.core.frame\nDataFrame\n(tR(dS'_mgr'\nI1\nsb.", pickle.dumps([1.0, "a"]),
    ):  # fmt: skip
        path.write_bytes(lzma.compress(text))
        with pytest.raises(pickle.UnpicklingError):
            read_frame(path)


def test_plain_values():
    values = {"a": [1, 2.5, "b", None, True, -(10**30)], "c": {"d": [b"e", 1e300]}}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        kept = values if protocol > 2 else {"a": values["a"]}  # old protocols call codecs.encode for bytes
        assert read_plain(io.BytesIO(pickle.dumps(kept, protocol=protocol))) == kept


@pytest.mark.parametrize("protocol", [4, 5])
def test_frames(protocol, tmp_path):
    """Of the installed pandas: integers, floats, flags, and words as objects, several columns of a kind."""
    words = pandas.Series(["one", "två", "3"], dtype=object)
    frame = pandas.DataFrame(
        {"i": [3, 1, 2], "x": [0.5, np.nan, -1.0], "w": words, "j": [7, 8, 9], "f": [True, False, True], "y": [1.0] * 3}
    )
    frame.columns = pandas.Index(list(frame.columns), dtype=object)
    path = tmp_path / "frame.xz"
    frame.to_pickle(path, compression="xz", protocol=protocol)
    found = read_frame(path)
    assert list(found) == list(frame.columns)
    for name in frame:
        np.testing.assert_array_equal(found[name], frame[name].to_numpy())


def test_frames_with_other_things_are_refused_or_equal(tmp_path):
    """Words, dates and categories as the installed pandas keeps them without being asked."""
    path = tmp_path / "frame.xz"
    for column in (["a", "b"], pandas.to_datetime(["2020-01-01", "2021-01-01"]), pandas.Categorical(["a", "b"])):
        frame = pandas.DataFrame({"c": column})
        frame.to_pickle(path, compression="xz")
        with contextlib.suppress(pickle.UnpicklingError):
            np.testing.assert_array_equal(read_frame(path)["c"], frame["c"].to_numpy())
