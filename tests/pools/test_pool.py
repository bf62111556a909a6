"""Pools: writing, resuming, reading, x and labels, damage, and what is refused."""

import copy
import itertools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap

import fsspec
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb

RNG = np.random.default_rng(0)
NUMBERS = RNG.random((300, 3))
BITS = RNG.integers(256, size=(300, 7), dtype=np.uint8)
LABELS = [f"C{'c' * (i % 90)}{i}" for i in range(300)]
in_a_folder_or_at_an_address = pytest.mark.parametrize("address", ["{}", "memory:/{}"], ids=["folder", "address"])


def words_of(bits):
    """Words of 32 bits, least significant byte first, as floating-point numbers."""
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 4))).astype(float)
    return padded.reshape(len(bits), -1, 4) @ 256.0 ** np.arange(4)


def pieces(start=0, step=70):
    for first in range(start, 300, step):
        part = slice(first, min(first + step, 300))
        yield {"bits": BITS[part], "numbers": NUMBERS[part], "labels": LABELS[part]}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Path of a pool of fingerprints, numbers and labels, which is copied for each test."""
    return sb.Pool.write(tmp_path_factory.mktemp("written") / "labelled.zarr", pieces(), chunk=64).path


@pytest.fixture
def labelled(written, tmp_path):
    """A pool of fingerprints, numbers and labels."""
    return sb.Pool(shutil.copytree(written, tmp_path / "labelled.zarr"))


class TestWriting:
    @given(chunk=st.integers(1, 400), step=st.integers(1, 310))
    @pytest.mark.slow
    def test_what_was_written_is_read(self, chunk, step, tmp_path_factory):
        path = tmp_path_factory.mktemp("pool") / "pool.zarr"
        pool = sb.Pool.write(path, pieces(step=step), chunk=chunk)
        expected = np.hstack([words_of(BITS), NUMBERS])
        assert (pool.size, pool.model_dimension, pool.words, pool.chunks) == (300, 5, 2, -(-300 // chunk))
        np.testing.assert_array_equal(np.vstack([pool.rows(*pool.bounds(c)) for c in range(pool.chunks)]), expected)
        some = np.array([299, 0, 17, 0])
        np.testing.assert_array_equal(pool.encode(some[:, None].astype(float)), expected[some])
        assert pool.arguments(some) == [LABELS[i] for i in some]
        np.testing.assert_allclose(pool.side_lengths, [1, 1, *np.ptp(NUMBERS, axis=0)])

    @pytest.mark.parametrize("rows", [
        NUMBERS, lambda start: iter([NUMBERS[start:]]), [NUMBERS[:100], NUMBERS[100:]],
        (row[None] for row in NUMBERS), NUMBERS.astype(np.float32), (NUMBERS * 100).astype(np.int64),
        NUMBERS.astype(">f8"), (NUMBERS * 100).astype(np.longlong), {"numbers": NUMBERS}, pd.DataFrame(NUMBERS),
        np.ma.masked_greater(NUMBERS, 2.0),
    ], ids=["array", "function", "list", "generator", "float32", "integers", "big-endian", "long long", "dict",
            "table", "nothing masked"])  # fmt: skip
    def test_rows_of_any_kind(self, rows, tmp_path):
        expected = np.asarray(rows, dtype=float) if hasattr(rows, "shape") else NUMBERS
        pool = sb.Pool.write(tmp_path / "pool.zarr", rows, chunk=128)
        np.testing.assert_array_equal(pool.rows(0, 300), expected.astype(float))

    @pytest.mark.parametrize("ending", ["npy", "csv", "parquet", "table"])
    def test_files(self, ending, tmp_path):
        path, frame = tmp_path / f"candidates.{ending}", pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
        label = None if ending == "npy" else "name"
        if ending == "npy":
            np.save(path, NUMBERS)
        elif frame.insert(1, "name", LABELS) or ending == "table":
            path = frame.set_index(frame["a"].rank())
        else:
            frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
        pool = sb.Pool.write(tmp_path / "pool.zarr", path, label=label, chunk=100)
        np.testing.assert_allclose(pool.rows(0, 300), NUMBERS, rtol=1e-15)
        assert pool.arguments(np.array([250])) == ([250] if label is None else [LABELS[250]])

    @in_a_folder_or_at_an_address
    @pytest.mark.parametrize("written", [0, 1, 63, 64, 65, 200, 299])
    def test_an_interrupted_writer_is_continued(self, written, address, tmp_path):
        def broken():
            yield from itertools.islice(pieces(step=1), written)
            raise KeyboardInterrupt

        path = address.format(tmp_path / "pool.zarr")
        if written:
            with pytest.raises(KeyboardInterrupt):
                sb.Pool.write(path, broken(), chunk=64)
        if written >= 64:
            with pytest.raises(sb.StoreDamaged, match=r"only \d+ candidates have been written; call Pool\.write again"):
                sb.Pool(path)
        starts = []

        def rest(start):
            starts.append(start)
            return pieces(start)

        pool = sb.Pool.write(path, rest, chunk=64)
        assert starts == [written // 64 * 64]
        np.testing.assert_array_equal(pool.rows(0, 300), np.hstack([words_of(BITS), NUMBERS]))
        assert pool.arguments(np.arange(300)) == LABELS

    def test_a_writer_that_ended_before_the_first_chunk_is_begun_again(self, monkeypatch, tmp_path):
        """In the middle of its arrays; also with other candidates, since none is there."""
        made = zarr.Group.create_array

        def ended(group, name, **given):
            if name == "numbers":
                raise KeyboardInterrupt
            return made(group, name, **given)

        path = tmp_path / "pool.zarr"
        path.mkdir()
        (path / "zarr.json.0.partial").touch()  # of a writer that was killed even earlier
        with monkeypatch.context() as patch:
            patch.setattr(zarr.Group, "create_array", ended)
            with pytest.raises(KeyboardInterrupt):
                sb.Pool.write(path, pieces(), chunk=64)
        with pytest.raises(sb.StoreDamaged, match="only 0 candidates have been written"):
            sb.Pool(path)
        other = [{"bits": BITS[:, :3], "numbers": NUMBERS}]
        np.testing.assert_array_equal(sb.Pool.write(path, other).rows(0, 300)[:, 1:], NUMBERS)

    def test_a_path_that_cannot_be_a_folder_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        for path in (tmp_path / "file", tmp_path / "file" / "pool.zarr"):
            with pytest.raises(ValueError, match=r"path: got .*allowed: a new folder.*file is a file"):
                sb.Pool.write(path, NUMBERS)

    @pytest.mark.slow
    def test_a_killed_writer_is_continued(self, tmp_path):
        """By SIGKILL, in the middle of the candidates."""
        program = textwrap.dedent(f"""
            import os, signal, numpy as np, scalable_bandits as sb
            numbers = np.random.default_rng(1).random((1000, 2))
            def rows():
                for i in range(1000):
                    if i == 650:
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield numbers[i:i + 1]
            sb.Pool.write({str(tmp_path / "pool.zarr")!r}, rows(), chunk=100)
        """)
        ended = subprocess.run([sys.executable, "-c", program], check=False)
        assert ended.returncode == -signal.SIGKILL
        expected = np.random.default_rng(1).random((1000, 2))
        pool = sb.Pool.write(tmp_path / "pool.zarr", expected)
        assert pool.shape.chunk == 100
        np.testing.assert_array_equal(pool.rows(0, 1000), expected)

    @pytest.mark.parametrize(("rows", "given"), [
        ([], r"rows: got \[\]; allowed: at least one candidate"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "rows of one length"),
        ([np.zeros(3)], r"numbers \(k, d\)"),
        (np.array([[0.0, np.nan]]), r"rows, 'numbers': got .*allowed: finite numbers"),
        ([{"labels": ["a"]}], "'bits' or 'numbers', or both"),
        ([{"numbers": [[1.0]], "labels": ["a", "b"]}], "as many rows and labels as candidates"),
        ([{"numbers": [[1.0]], "labels": [""]}], r"'labels': got ''; allowed: texts of 1 to 4096 bytes"),
        ([{"bits": [[1.0]]}], "uint8, as of numpy.packbits"),
        ([{"numbers": [[1.0]], "smiles": ["C"]}], "got 'smiles'"),
        *[([{"numbers": [[1.0]], "labels": [label]}], rf"'labels': got {shown}.*allowed: texts of 1 to 4096 bytes")
          for label, shown in [(None, "None"), (b"C", "b'C'"), (np.nan, "nan"), ("\u00e9" * 2049, "'\u00e9"),
                               ("a" + "\u00e9" * 2048, "'a\u00e9"), ("\ud800", r"'\\ud800'")]],
        (np.ones((3, 2), dtype=np.longdouble), r"shape \(3, 2\), float128.*numbers \(k, d\) of at most 64 bits"),
        ([np.ones((3, 2)), np.ones((3, 2), dtype=int)], r"numbers of \['float64', 'int64'\].*numbers of one type"),
        (np.array(1.0), r"shape \(\), float64.*an array \(n, d\)"),
        (np.ma.masked_greater([[0.0], [1.0]], 0.5), "rows, 'numbers': got '1 masked values'; allowed: values without"),
        *[({"numbers": [[1.0]], "labels": labels}, rf"'labels': got {labels!r}; allowed: texts, one for each candidate")
          for labels in (None, "C")],
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "columns of different names"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), "rows: got \"'x' in the column 'b' of candidate 0, counted from 0"),
        (3, "an array"),
        ("nowhere.csv", "a file that exists"),
    ])  # fmt: skip
    def test_bad_rows_are_refused(self, rows, given, tmp_path):
        with pytest.raises(ValueError, match=rf"(?s){given}"):
            sb.Pool.write(tmp_path / "pool.zarr", rows)
        assert not (tmp_path / "pool.zarr" / "zarr.json").exists()

    def test_a_finished_pool_and_other_folders_are_left_alone(self, labelled, tmp_path):
        with pytest.raises(ValueError, match="allowed: a new one: a pool of 300 candidates is there"):
            sb.Pool.write(labelled.path, NUMBERS)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "file").write_text("mine")
        with pytest.raises(ValueError, match="a new folder, or one with an unfinished pool"):
            sb.Pool.write(tmp_path / "other", NUMBERS)
        zarr.open_group(tmp_path / "group.zarr", mode="w")
        with pytest.raises(ValueError, match="this is another group"):
            sb.Pool(tmp_path / "group.zarr")

    def test_other_candidates_are_not_added_to_an_unfinished_pool(self, tmp_path):
        def broken():
            yield NUMBERS[:100]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sb.Pool.write(tmp_path / "pool.zarr", broken(), chunk=50)
        with pytest.raises(ValueError, match=r"allowed: rows of 3 numbers, float64, as before"):
            sb.Pool.write(tmp_path / "pool.zarr", NUMBERS[:, :2])
        with pytest.raises(ValueError, match=r"those with \['numbers'\], as before"):
            sb.Pool.write(tmp_path / "pool.zarr", pieces())

    @pytest.mark.parametrize("given", [list, iter], ids=["list", "generator"])
    @pytest.mark.parametrize(("changed", "place"), [
        ("bits", 0), ("numbers", 63), ("numbers", 100), ("labels", 64), ("labels", 191),
    ])  # fmt: skip
    def test_candidates_that_changed_since_an_error_are_refused(self, changed, place, given, tmp_path):
        """The user mends the data in which an error was found: chunks of the old ones would stay in the pool."""
        path, whole = tmp_path / "pool.zarr", {"bits": BITS.copy(), "numbers": NUMBERS.copy(), "labels": list(LABELS)}
        whole["numbers"][250] = np.nan
        parts = [{name: rows[i : i + 50] for name, rows in whole.items()} for i in range(0, 300, 50)]
        with pytest.raises(ValueError, match="finite numbers") as error:
            sb.Pool.write(path, given(parts), chunk=64)
        left = f"192 candidates have been written to the pool {path}, which is not finished: the same candidates"
        assert [left in note for note in error.value.__notes__] == [True]
        whole["numbers"][250] = NUMBERS[250]
        as_before = copy.copy(whole[changed][place])
        whole[changed][place] = "C" * 200 if changed == "labels" else as_before + 1
        with pytest.raises(ValueError, match=rf"rows, '{changed}': got 'another candidate {place}'.*again, delete it"):
            sb.Pool.write(path, given([whole]))
        whole[changed][place] = as_before
        np.testing.assert_array_equal(sb.Pool.write(path, given([whole])).rows(0, 300)[:, 2:], NUMBERS)

    def test_other_numbers_of_candidates_are_refused(self, monkeypatch, tmp_path):
        """Fewer than are written; and more than were written by a writer that ended just before its end."""
        with pytest.raises(ValueError, match="rows of one length"):
            sb.Pool.write(tmp_path / "short.zarr", [NUMBERS[:250], NUMBERS[:, :2]], chunk=100)
        with pytest.raises(ValueError, match="rows: got '100 candidates'; allowed: the 200 candidates that have been"):
            sb.Pool.write(tmp_path / "short.zarr", NUMBERS[:100])
        with monkeypatch.context() as patch:
            patch.setattr("scalable_bandits.store.pool._Writer.finish", lambda writer: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                sb.Pool.write(tmp_path / "whole.zarr", NUMBERS[:250], chunk=100)
        for more in (NUMBERS, lambda start: [NUMBERS[start:]]):
            with pytest.raises(ValueError, match="rows: got 'more than 250 candidates'; allowed: the 250 candidates"):
                sb.Pool.write(tmp_path / "whole.zarr", more)
        assert sb.Pool.write(tmp_path / "whole.zarr", NUMBERS[:250]).size == 250


class TestFiles:
    def written(self, tmp_path, name, content, **given):
        """Write a file, then a pool of it."""
        path = tmp_path / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return sb.Pool.write(tmp_path / "pool.zarr", path, progress=False, **given)

    @pytest.mark.parametrize("labels", [
        ["001", "002"], ["NA", "None", "null", "nan"], ["1.10", "1.1"], ["17", "1e5"], ["True", " x "],
        [*map(str, range(2**16)), "007"],
    ], ids=lambda labels: labels[-1])  # fmt: skip
    def test_labels_are_as_in_the_csv(self, labels, tmp_path):
        rows = "".join(f"{label},{i}\n" for i, label in enumerate(labels))
        pool = self.written(tmp_path, "some.csv", f"id,a\n{rows}", label="id")
        assert pool.arguments(np.arange(pool.size)) == labels

    @pytest.mark.parametrize(("label", "text", "given"), [
        ("id", "id,a\n17,1\n18,1\n,1\n", r"rows, 'labels': got ''"),
        ("id", "a,id\n1,x\n2\n", r"rows, 'labels': got ''"),
        ("id", "id,a\nx,1\ny,\n", r"rows: got .no value in the column 'a' of candidate 1, .*allowed: numbers, none"),
        ("id", "id,a\nx,1\ny,NA\n", r"rows: got .'NA' in the column 'a' of candidate 1, .*allowed: numbers, none"),
        ("id", "id,a\nx,1\ny\n", r"rows: got .no value in the column 'a' of candidate 1, .*allowed: numbers, none"),
        (None, "a,b\n1,2\n3,nan\n", r"rows: got .'nan' in the column 'b' of candidate 1, .*allowed: numbers, none"),
        (None, "a\n" + "1\n" * 70_000 + '""\n', r"rows: got .no value in the column 'a' of candidate 70000, counted"),
        ("id", ",id,a\n0,x,1\n1,y,2\n", r"some\.csv, with a column without a name'; allowed: .*to_csv\(index=False\)"),
        ("id", "id,a,b\nx,y,1,2\nz,w,2,3\n", r"rows: got .*some\.csv'.*Expected 3 fields in line 2, saw 4"),
        (None, "0.5,1\n2,3\n", r"some\.csv, whose first line is 0\.5, 1'; allowed: a first line with the names"),
        (None, "a,b\n0,1,2\n1,4,5\n", r"rows: got .*some\.csv'.*Expected 2 fields in line 2, saw 3"),
        ("id", "id,a\nx,1\ny,1,2\n", r"rows: got .*some\.csv'.*Expected 2 fields in line 3, saw 3"),
        ("id", "id,a\n", r"rows: got .*some\.csv'.*at least one candidate"),
    ])  # fmt: skip
    def test_a_csv_with_missing_or_further_values_is_refused(self, label, text, given, tmp_path):
        with pytest.raises(ValueError, match=given):
            self.written(tmp_path, "some.csv", text, label=label)

    @pytest.mark.parametrize(("name", "content"), [
        ("empty.csv", ""), ("latin.csv", "id,a\ncaf\u00e9,1\n".encode("latin-1")), ("junk.parquet", "junk"),
        ("text.npy", "a long text that is not an array"), ("short.npy", ""),
        ("many.npy", lambda path: np.savez(f"{path}.npz", NUMBERS) or os.rename(f"{path}.npz", path)),
    ], ids=lambda given: given if isinstance(given, str) and "." in given else "")  # fmt: skip
    def test_a_file_of_another_content_is_named(self, name, content, tmp_path):
        with pytest.raises(ValueError, match=rf"rows: got '.*{name}'; allowed: a \.\w+ file that can be read \("):
            self.written(tmp_path, name, content)

    def test_an_npy_file_of_one_number_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"rows: got 'shape \(\), float64'; allowed: an array \(n, d\)"):
            self.written(tmp_path, "one.npy", lambda path: np.save(path, np.array(1.0)))

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_column_of_numbers_that_lacks_one(self, ending, tmp_path):
        table = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([3, None], dtype="Int64")})
        write = table.to_parquet if ending == "parquet" else lambda path: table.to_csv(path, index=False)
        given = r"rows: got .no value in the column 'b' of candidate 1, counted from 0"
        with pytest.raises(ValueError, match=given):
            self.written(tmp_path, f"some.{ending}", write)
        with pytest.raises(ValueError, match=given):
            sb.Pool.write(tmp_path / "pool.zarr", table)

    @pytest.mark.parametrize("labels", [["x", None], [17, None]])
    def test_a_parquet_file_without_some_label_is_refused(self, labels, tmp_path):
        table = pd.DataFrame({"a": [1.0, 2.0], "id": pd.Series(labels, dtype=object)})
        with pytest.raises(ValueError, match=r"rows, 'labels': got (None|nan)"):
            self.written(tmp_path, "some.parquet", table.to_parquet, label="id")

    def test_the_index_of_a_parquet_file(self, tmp_path):
        """It has a name, and may be the labels; or none, and has no candidates' numbers."""
        table = pd.DataFrame({"smi": ["C", "CC"], "a": [1.0, 2.0]}).set_index("smi")
        with pytest.raises(ValueError, match="column 'smi'"):
            self.written(tmp_path, "some.parquet", table.to_parquet)
        pool = self.written(tmp_path, "some.parquet", table.to_parquet, label="smi")
        assert (pool.arguments(np.arange(2)), pool.rows(0, 2).tolist()) == (["C", "CC"], [[1.0], [2.0]])
        shutil.rmtree(pool.path)
        table.index.name = None
        assert self.written(tmp_path, "some.parquet", table.to_parquet).model_dimension == 1
        shutil.rmtree(pool.path)
        numbered = pd.DataFrame({"id": [17, 18], "a": [1.0, 2.0]})
        pool = self.written(tmp_path, "some.parquet", numbered.to_parquet, label="id")
        assert pool.arguments(np.arange(2)) == ["17", "18"]


class TestForeignArrays:
    def test_an_array_of_numbers_or_of_bytes(self, tmp_path):
        zarr.save_array(tmp_path / "numbers.zarr", NUMBERS)
        zarr.save_array(tmp_path / "bits.zarr", BITS)
        numbers, bits = sb.Pool(tmp_path / "numbers.zarr"), sb.Pool(tmp_path / "bits.zarr", packed=True)
        np.testing.assert_array_equal(numbers.rows(5, 200), NUMBERS[5:200])
        np.testing.assert_array_equal(bits.rows(0, 300), words_of(BITS))
        np.testing.assert_allclose(numbers.side_lengths, np.ptp(NUMBERS, axis=0))
        assert numbers.arguments(np.array([7])) == [7]

    def test_numbers_that_are_not_finite_are_named(self, tmp_path):
        for wrong in (np.nan, np.inf):
            numbers = NUMBERS.copy()
            numbers[217, 1] = wrong
            zarr.save_array(tmp_path / f"{wrong}.zarr", numbers)
            pool = sb.Pool(tmp_path / f"{wrong}.zarr")
            given = rf"pool .*{wrong}\.zarr, candidate 217: got \[.*{wrong}.*; allowed: finite numbers"
            for read in (lambda pool=pool: pool.rows(200, 300), lambda pool=pool: pool.encode(np.array([[217.0]]))):
                with pytest.raises(ValueError, match=given):
                    read()
            np.testing.assert_array_equal(pool.rows(218, 300), NUMBERS[218:])

    def test_what_is_no_list_of_candidates_is_refused(self, tmp_path):
        zarr.save_array(tmp_path / "flat.zarr", np.zeros(5))
        with pytest.raises(ValueError, match=r"shape \(5,\), float64.*allowed: an array of numbers \(n, d\)"):
            sb.Pool(tmp_path / "flat.zarr")
        zarr.save_array(tmp_path / "numbers.zarr", NUMBERS)
        with pytest.raises(ValueError, match="packed: got True; allowed: False: the array is one of float64"):
            sb.Pool(tmp_path / "numbers.zarr", packed=True)
        with pytest.raises(ValueError, match=r"path: got .*nowhere.*a pool of Pool.write"):
            sb.Pool(tmp_path / "nowhere")


class TestX:
    def test_labels_and_numbers(self, labelled):
        assert labelled.parse(LABELS[7])[0].tolist() == [[7.0]]
        points, single = labelled.parse([LABELS[299], LABELS[0]])
        assert (points.tolist(), single) == ([[299.0], [0.0]], False)
        assert labelled.parse(12)[0].tolist() == [[12.0]]
        assert labelled.parse(np.array([3, 4]))[1] is False

    @pytest.mark.parametrize("x", ["nobody", "\ud800", -1, 300, 1.5, [1, 300], ["C0", "nobody"]])
    def test_what_is_no_candidate_is_refused(self, labelled, x):
        with pytest.raises(ValueError, match=r"x: got .*a whole one from 0 to 299, or the label of one"):
            labelled.parse(x)

    @pytest.mark.parametrize("other", [np.nan, None, 3])
    def test_labels_and_others_are_refused(self, labelled, other):
        with pytest.raises(ValueError, match=rf"x: got {other}; allowed: labels alone, which are texts, or numbers"):
            labelled.parse([LABELS[0], other])

    @pytest.mark.parametrize("given", [
        1001, 2.0, [1001, 1002], np.array([1001]), np.array([2.0]), np.array([[2]]), pd.Series([1001, 1002]),
    ], ids=str)  # fmt: skip
    @pytest.mark.parametrize("labels", [["1001", "C", "2"], ["C", "N", "002"], ["C", "2.0", "N"]], ids="-".join)
    def test_numbers_where_labels_are_numbers_are_refused(self, labels, given, tmp_path):
        """A compound's 1001 is not the candidate in place 1001; a label in the last chunk counts."""
        pool = sb.Pool.write(tmp_path / "pool.zarr", [{"numbers": NUMBERS[:3], "labels": labels}], chunk=1)
        policy = sb.GPEI(pool, sb.RBF(0.3), noise=0.1)
        message = r"x: got .*; allowed: labels as texts, such as '\d+(\.0)?', since some labels of this pool are"
        for call in (policy.tell, lambda x, y: policy.posterior(x)):
            with pytest.raises(ValueError, match=message):
                call(given, np.ones(np.shape(given)))
        with pytest.raises(ValueError, match=message):
            sb.Pool(pool.path, contexts={"heat": (0, 1)}).parse({"candidate": 1, "heat": 0.5})
        assert policy.rounds == 0
        places = np.arange(3.0)[:, None]
        np.testing.assert_array_equal(pool.parse(labels)[0], places)
        np.testing.assert_array_equal(pool.parse(places)[0], places)

    def test_labels_that_are_no_whole_numbers_leave_numbers_alone(self, tmp_path):
        labels = ["1H-indole", "-1", "1e", "1.5", "C2"]
        assert sb.Pool.write(tmp_path / "a.zarr", [{"numbers": NUMBERS[:5], "labels": labels}]).parse(4)[0] == 4.0
        changed = zarr.open_group(sb.Pool.write(tmp_path / "b.zarr", [{"numbers": NUMBERS[:1], "labels": ["1"]}]).path)
        about = changed.attrs["pool"]
        del about["numeric_labels"]  # of a pool that was written before
        changed.attrs["pool"] = about
        assert sb.Pool(tmp_path / "b.zarr").parse(0)[0] == 0.0

    def test_labels_of_a_pool_without(self, tmp_path):
        pool = sb.Pool.write(tmp_path / "pool.zarr", NUMBERS)
        with pytest.raises(ValueError, match="they have no labels"):
            pool.parse("CCO")
        for x in ([], [[1.0, 2.0]], [np.nan]):
            with pytest.raises(ValueError, match="x: got"):
                pool.parse(x)

    def test_is_a_value(self, labelled):
        for same in (
            pickle.loads(pickle.dumps(labelled)),
            copy.deepcopy(labelled),
            sb.Pool.from_dict(labelled.to_dict()),
        ):
            assert same == labelled
            np.testing.assert_array_equal(same.rows(10, 20), labelled.rows(10, 20))

    def test_random_candidates_are_all_but_those_taken(self, labelled):
        taken = np.arange(0, 300, 2)
        drawn = {int(labelled.draw_other(np.random.default_rng(i), taken)[0]) for i in range(2000)}
        assert drawn == set(range(1, 300, 2))
        few = np.arange(250)
        drawn = {int(labelled.draw_other(np.random.default_rng(i), few)[0]) for i in range(1000)}
        assert drawn == set(range(250, 300))

    def test_a_pool_that_was_moved_is_the_same(self, tmp_path):
        def played(place, budget):
            policy = sb.GPEI(sb.Pool(tmp_path / place), sb.RBF(0.3))
            return sb.maximize(float, policy, budget, store=tmp_path / "run.zarr")

        sb.Pool.write(tmp_path / "pool.zarr", NUMBERS)
        zarr.create_array(str(tmp_path / "array.zarr"), data=NUMBERS)
        first = played("pool.zarr", 3)
        os.rename(tmp_path / "pool.zarr", tmp_path / "moved.zarr")
        assert sb.Pool(f"file://{tmp_path}/moved.zarr") == sb.Pool(tmp_path / "moved.zarr")
        assert played("moved.zarr", 6).x[:3].tolist() == first.x.tolist()
        with pytest.raises(sb.SpecificationDiffers, match="identity"):  # of an array of another program
            played("array.zarr", 6)

    def test_another_pool_at_the_same_place_is_refused(self, tmp_path):
        """A stored run would go on with other candidates."""
        policy = sb.GPEI(sb.Pool.write(tmp_path / "pool.zarr", NUMBERS), sb.RBF(0.3))
        sb.maximize(float, policy, 3, store=tmp_path / "run.zarr")
        shutil.rmtree(tmp_path / "pool.zarr")
        pool = sb.Pool.write(tmp_path / "pool.zarr", NUMBERS[::-1])
        with pytest.raises(sb.SpecificationDiffers, match="identity"):
            sb.maximize(float, sb.GPEI(pool, sb.RBF(0.3)), 6, store=tmp_path / "run.zarr")
        with pytest.raises(ValueError, match=r"identity: got .*of the pool that is now at"):
            sb.Policy.from_dict(policy.to_dict())


class TestDamage:
    @in_a_folder_or_at_an_address
    def test_a_chunk_that_is_missing_or_damaged_is_named(self, address, labelled):
        place = address.format(labelled.path)
        if place != labelled.path:
            sb.Pool.write(place, pieces(), chunk=64)
        files, root = fsspec.core.url_to_fs(place)
        key = f"{root}/numbers/c/4/0"
        files.pipe(key, b"nothing of this was there before" + files.cat(key)[32:])
        with pytest.raises(sb.StoreDamaged, match=r"'numbers' of candidates 256 to 299 cannot be read \(.*checksum"):
            sb.Pool(place).rows(256, 300)
        files.rm(key)
        with pytest.raises(
            sb.StoreDamaged, match=r"'numbers' of candidates 256 to 299 are missing: there is no numbers/c"
        ):
            sb.Pool(place).rows(200, 300)
        policy = sb.GPEI(sb.Pool(place), sb.OnDimensions(sb.Tanimoto(), [0, 1]), noise=0.1)
        with pytest.raises(sb.StoreDamaged, match="256 to 299"):
            policy.ask()
        assert policy.pending == []

    @pytest.mark.parametrize("name", ["bits", "numbers", "labels"])
    def test_an_array_that_is_missing_is_named(self, name, labelled):
        shutil.rmtree(os.path.join(labelled.path, name))
        with pytest.raises(sb.StoreDamaged, match=f"labelled.zarr: there is no array '{name}'"):
            sb.Pool(labelled.path)

    def test_labels_that_are_missing_are_named(self, labelled):
        """Nothing was asked for, and no label was empty."""
        shutil.rmtree(os.path.join(labelled.path, "labels", "c"))
        policy = sb.GPEI(sb.Pool(labelled.path), sb.RBF(0.3), noise=0.1)
        missing = r"'labels' of candidates \d+ to \d+ are missing: there is no labels/c/\d/0"
        for n in (None, 2):
            with pytest.raises(sb.StoreDamaged, match=missing):
                policy.ask(n)
            assert policy.pending == []
        with pytest.raises(sb.StoreDamaged, match=missing):
            policy.tell(LABELS[0], 1.0)

    def test_empty_fingerprints_are_not_damage(self, tmp_path):
        pool = sb.Pool.write(tmp_path / "pool.zarr", np.zeros((40, 4), dtype=np.uint8), packed=True, chunk=10)
        assert not pool.rows(0, 40).any()
        assert sb.GPEI(pool, sb.Tanimoto(), noise=0.1).ask(40).tolist() != []


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        (np.full((3, 32), 7, dtype=np.uint8), "packed=True"),
        (np.ones((3, 32), dtype=np.uint8), r"numpy\.packbits\(rows, axis=1\), packed=True"),
        (np.ones((3, 32), dtype=np.bool_), r"numpy\.packbits\(rows, axis=1\), packed=True"),
    ],
)
def test_fingerprints_that_are_given_as_numbers(rows, how, tmp_path):
    with pytest.warns(UserWarning, match=f"32 numbers of type .* if they are fingerprints, give packed bits: {how}$"):
        sb.Pool.write(tmp_path / "pool.zarr", rows, progress=False)
    sb.Pool.write(tmp_path / "said.zarr", {"numbers": rows}, progress=False)  # without a warning
    sb.Pool.write(tmp_path / "few.zarr", rows[:, :8], progress=False)
