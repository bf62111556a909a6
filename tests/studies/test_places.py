"""Studies at URLs, and runs whose writer was on another machine."""

import json
import socket

import pytest
from cases.cluster import toy
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.status import release, runs_in, status
from scalable_bandits.store import Field, StoreLocked, locations
from scalable_bandits.studies import Study, StudyIncomplete, runs
from scalable_bandits.studies.runs import Player


@pytest.fixture
def url(tmp_path):
    """URL of a place in this process's memory."""
    return f"memory://{tmp_path.name}/study"


@pytest.fixture
def shared(monkeypatch):
    """No folder is on a disk of this machine, whose locks can be trusted."""
    monkeypatch.setattr(locations, "is_local", lambda _: False)


def left_by_another(run, **fields):
    """Write the record of a writer on another machine into a run's lock; return it."""
    record = {**locations.this_process(), "host": "another", **fields}
    (run / "committed/writer.json").write_text(json.dumps(record))
    return record


def test_results_that_only_the_workers_have_are_no_results(client, url):
    with pytest.raises(StudyIncomplete, match="where this process finds nothing; allowed: a folder that all workers"):
        toy().run(on=client, store=url, replicates=1, cases=["a"], policies=["random"])
    toy().run(store=url, replicates=1, cases=["a"], policies=["random"])
    assert [status(run).state for run in runs_in(url)] == ["complete"]


def test_a_study_at_a_url_is_checked_run_by_run(url):
    toy().run(store=url, replicates=2)
    found = sb.check(url)
    assert len(found) == 1 + 8
    assert all(each.whole for each in found)
    damaged = next(iter(runs_in(url)))
    location = locations.locate(damaged)
    key = next(key for key in location.files("regret/") if "/c/" in key)
    location.put(key, location.get(key)[:-9] + b"\0" * 9)
    assert [each.name for each in sb.check(url) if not each.whole] == [damaged]


def test_a_file_url_is_its_folder(tmp_path):
    place = tmp_path / "with a space"
    for address in (f"file://{tmp_path}/with%20a%20space", f"file://localhost{tmp_path}/with%20a%20space"):
        toy().run(store=address, replicates=1, cases=["a"])
        assert list(runs_in(address)) == list(runs_in(place))
        assert len(sb.check(address)) == 1 + 2
    with pytest.raises(ValueError, match="store: got 'file://other/study'; allowed: file:///"):
        toy().run(store="file://other/study")
    assert Study.open(address).sizes["replicate"] == 1


@pytest.mark.usefixtures("shared")
def test_a_run_of_a_worker_that_was_given_up_goes_on(tmp_path, monkeypatch):
    """The lock that its worker left on another machine is that of an earlier try of the same call."""
    study = toy()
    study.run(store=tmp_path, replicates=1, cases=["a"], policies=["random"], horizon=5)
    run = next(runs_in(tmp_path))
    player, replicate = Player(study.build), study.replicate("a", 0, 9, study.seed, None, {})
    monkeypatch.setattr(runs, "LOCKED_SECONDS", 0.0)
    for call in ("of another study", ""):
        left_by_another(run, call=call)
        with pytest.raises(StoreLocked, match=r"another .*takeover"):
            player(replicate, "random", str(run))
    left_by_another(run, call=player._call)
    player(replicate, "random", str(run))
    assert len(sb.ObservationStore.open(run)) == 9


@pytest.mark.usefixtures("shared")
def test_takeover_by_command(tmp_path):
    place, out = tmp_path / "study", ("--out", tmp_path / "out")
    begun = command(
        "run", "ziomek2025-toy", "--policy", "random", "--replicates", 1, "--horizon", 5, "--store", place, *out
    )
    assert begun.exit_code == 0, begun.output
    run = next(runs_in(place))
    record = left_by_another(run)
    with sb.ObservationStore.open(run, "a", takeover=True), pytest.raises(StoreLocked):
        locations.locate(run).release(record)  # another process has the lock
    left_by_another(run)
    resumed = command("resume", place, "--takeover", *out)
    assert resumed.exit_code == 0, resumed.output
    assert f"the lock of process {record['pid']} on another was removed" in " ".join(resumed.output.split())
    assert release(place) == []
    left_by_another(run, host=socket.gethostname())
    assert release(place) == []  # it can be seen here whether it runs


def test_a_writer_that_runs_here_keeps_its_lock(url):
    """Of a place without locks of the operating system, too, where an earlier try of the same call may still write."""
    with sb.ObservationStore.create(url, [Field("y")], specification={}):
        location = locations.locate(url)
        with pytest.raises(StoreLocked):
            location.release(location.writer())
        assert location.writer() is not None


def test_a_file_system_that_does_not_say_how_large_it_is(tmp_path, monkeypatch):
    usage = locations.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(locations.shutil, "disk_usage", lambda _: usage._replace(total=0, free=0))
    assert locations.locate(tmp_path).free() is None
