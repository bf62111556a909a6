"""`tune`: programs that are not Python; killed, interrupted, resumed, refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.cluster import until
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.runs.resuming import resume
from scalable_bandits.store import ObservationStore

SPACE = """
[depth]
type = "Integer"
low = 0
high = 12

[rate]
type = "Real"
low = 0.001
high = 0.1
log = true

[kind]
type = "Categorical"
values = ["plain", "with space"]
"""
SCRIPT = """#!/bin/sh
echo "$1 $2 $3" >> "$LOG"
if [ "$1" -gt 9 ]; then echo "first line" >&2; echo "too deep: $1" >&2; exit 3; fi
{pause}
echo "training"
echo "$(( ($1 - 4) * ($1 - 4) ))"
"""
LINE = "./train {depth} {rate} {kind}"


def write_script(folder: Path, text: str) -> None:
    script = folder / "train"
    script.write_text(text)
    script.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a space and a program, which is the working folder."""
    (tmp_path / "space.toml").write_text(SPACE)
    write_script(tmp_path, SCRIPT.format(pause=""))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(*more: object, line: str = LINE, budget: int = 14, store: str = "run.zarr") -> list[object]:
    return ["tune", "--space", "space.toml", "--command", line, "--budget", budget, "--store", store, *more]


def rows(
    place: str | Path = "run.zarr",
) -> tuple[list[tuple[float, ...]], list[float], list[tuple[int, tuple[float, ...]]]]:
    store = ObservationStore.open(place)
    found = store.read(names=["x", "y"])
    failures = [(failure.round, failure.x) for failure in store.failures]
    return [tuple(x) for x in found["x"].tolist()], found["y"].tolist(), failures


class TestTuned:
    def test_the_best_setting(self, folder: Path) -> None:
        done = command(*arguments("--minimize"))
        assert done.exit_code == 0, done.output
        words = " ".join(done.stdout.split())
        assert "smaller is better; 14 evaluations" in words
        assert all(word in words for word in ("depth", "rate", "kind", "measured value"))
        assert f"scalable-bandits resume run.zarr --command '{LINE}' --rounds 28" in words
        assert "scalable-bandits report run.zarr" in words
        _, values, failures = rows()
        assert min(values) == 0.0
        assert len(values) + len(failures) == 14 == len((folder / "log").read_text().splitlines())

    @pytest.mark.slow
    def test_values_are_handed_over_as_words(self, folder: Path) -> None:
        """Without a shell: spaces and signs are part of a word, and numbers have all their digits."""
        write_script(folder, '#!/bin/sh\nprintf "%s|" "$#" "$@" >> "$LOG"; echo >> "$LOG"; echo 1\n')
        assert (
            command(*arguments("--minimize", line="./train '{kind} $HOME;' {rate} --n={depth}{{}}", budget=3)).exit_code
            == 0
        )
        lines = [line.split("|") for line in (folder / "log").read_text().splitlines()]
        points, _, _ = rows()
        space = sb.SearchSpace.from_toml("space.toml")
        for (count, kind, rate, depth, _), point in zip(lines, points, strict=True):
            setting = space.setting(np.array(point))
            assert (count, kind, depth) == ("3", f"{setting['kind']} $HOME;", f"--n={setting['depth']}{{}}")
            assert float(rate) == setting["rate"]

    @pytest.mark.slow
    def test_failures_are_stored_with_the_end_of_their_errors(self, folder: Path) -> None:
        done = command(*arguments("--minimize", budget=25))
        assert done.exit_code == 0
        store = ObservationStore.open("run.zarr")
        assert store.failures
        assert all(
            failure.trace == f"exit code 3: {last}\nfirst line\n{last}"
            for failure in store.failures
            for last in [f"too deep: {failure.x[0]:.0f}"]
        )
        told = re.findall(r"failed: (\d+) evaluations?: exit code 3: too deep: \d+ \(", done.stderr)
        assert sum(map(int, told)) == len(store.failures)
        assert f"{len(store)}/25 ({len(store.failures)} failed)" in command("status", "run.zarr").stdout

    @pytest.mark.slow
    def test_many_errors(self, folder: Path) -> None:
        """The first of those that differ are printed."""
        write_script(
            folder, "#!/bin/sh\necho >> log; n=$(wc -l < log)\n[ $n = 1 ] || { echo no $n >&2; exit 2; }; echo 1"
        )
        done = command(*arguments("--minimize", budget=9))
        assert done.exit_code == 0
        told = re.findall(r"failed: (.*)", done.stderr)
        assert told[:5] == [f"1 evaluation: exit code 2: no {n} (tickets {n - 1})" for n in range(2, 7)]
        assert told[5:] == ["3 evaluations: 3 other errors, which `export` writes"]
        command("export", "run.zarr", "--to", "run.csv")
        assert (folder / "run.csv").read_text().count("exit code 2: no ") == 8

    def test_a_value_in_json(self, folder: Path) -> None:
        write_script(folder, """#!/bin/sh\necho "{}"; echo "{\\"test\\": {\\"loss\\": $1}, \\"at\\": [1]}"\n""")
        done = command(*arguments("--maximize", "--value-from", "test.loss", "--json", budget=12))
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["evaluations"], found["minimize"], found["failed"], found["interrupted"]) == (
            12,
            False,
            [],
            False,
        )
        assert found["measured"]["x"]["depth"] == found["measured"]["y"] == max(rows()[1])
        assert found["best"]["x"].keys() == {"depth", "rate", "kind"}

    def test_a_key_with_a_point_in_it(self, folder: Path) -> None:
        write_script(folder, """#!/bin/sh\necho "{\\"test.loss\\": $1}"\n""")
        done = command(*arguments("--maximize", "--value-from", "test.loss", store="my run.zarr", budget=3))
        assert done.exit_code == 0, done.output
        assert len(rows("my run.zarr")[1]) == 3
        assert f"scalable-bandits resume 'my run.zarr' --command '{LINE}' --rounds 6" in done.output
        assert "report 'my run.zarr'" in done.output
        fewer = command(*arguments("--maximize", "--value-from", "test.loss", store="my run.zarr", budget=2))
        assert "nothing was evaluated: the run has 3 already, --budget is 2" in fewer.stderr
        assert "nothing was evaluated" not in done.stderr
        fewer = command("resume", "my run.zarr", "--command", LINE, "--rounds", 1)
        assert "nothing was evaluated: the run has 3 already, --rounds is 1" in fewer.stderr

    @pytest.mark.slow
    def test_names_that_mean_something_in_a_store(self, folder: Path) -> None:
        """The run can be resumed, looked at and reported."""
        given = SPACE.replace("[depth]", "[type]").replace("[rate]", "[function]").replace("[kind]", "[where]")
        (folder / "space.toml").write_text(given)
        line = "./train {type} {function} {where}"
        done = command(*arguments("--minimize", line=line, budget=6))
        assert done.exit_code == 0, done.output
        assert command("resume", "run.zarr", "--command", line, "--rounds", 8).exit_code == 0
        assert "type = " in " ".join(command("status", "run.zarr").output.split())
        done = command("report", "run.zarr", "--out", "page.html")
        assert done.exit_code == 0, done.output

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ("true", "no output"), ("echo nan", "finite numbers"), (f"echo {'9' * 400}", "finite numbers"),
            ("kill -9 $$", "ended by SIGKILL"), ("exit 7", "exit code 7"),
            ("echo one line; echo hello >&2; exit 7", "exit code 7: hello"), ("echo 1; echo; echo", None),
        ],
    )  # fmt: skip
    @pytest.mark.sampled(3)
    def test_what_is_no_value(self, body: str, error: str | None, folder: Path) -> None:
        write_script(folder, f"#!/bin/sh\n{body}\n")
        done = command(*arguments("--minimize", budget=2))
        assert done.exit_code == (0 if error is None else 1), done.output
        assert error is None or (error in done.stderr and "Another command" in done.stderr)

    @pytest.mark.parametrize("given", [("--value-from", "los"), ()])
    def test_a_program_that_prints_no_value_is_run_once(self, given: tuple[str, ...], folder: Path) -> None:
        """It ended well: the key is wrong, or was forgotten."""
        write_script(folder, """#!/bin/sh\necho "$1" >> log\necho '{"loss": 1.0}'\n""")
        done = command(*arguments("--minimize", *given, budget=30))
        assert done.exit_code == 1
        assert "the first evaluation failed" in done.stderr
        assert "needs another store" in done.stderr
        assert ("did you mean 'loss'?" in done.stderr) == bool(given)
        assert len((folder / "log").read_text().splitlines()) == 1

    @pytest.mark.slow
    def test_a_timeout_ends_the_program_and_what_it_started(self, folder: Path) -> None:
        write_script(folder, '#!/bin/sh\nif [ "$1" -gt 6 ]; then sleep 300 & echo $! >> "$LOG"; wait; fi\necho "$1"\n')
        done = command(*arguments("--maximize", "--timeout", 1, "--parallel", 2, budget=10))
        assert done.exit_code == 0, done.output
        failures = ObservationStore.open("run.zarr").failures
        assert failures
        assert {failure.error for failure in failures} == {"TimeoutError: it took longer than 1 s"}
        assert max(rows()[1]) <= 6
        started = [int(line) for line in (folder / "log").read_text().split()]
        assert 0 < len(started) <= len(failures)
        until(lambda: not any(map(alive, started)))

    def test_resumed_from_the_store_alone(self, folder: Path) -> None:
        """The command, the space and the settings are in it; the numbers are those of one run."""
        command(*arguments("--minimize", "--timeout", 60, budget=6))
        (folder / "space.toml").unlink()
        again = "--command './train {depth} {rate} {kind}'"
        for given in ((), ("--command", "./train {depth} {rate}")):  # a program runs only when it is named again
            refused = command("resume", "run.zarr", "--rounds", 14, *given)
            assert refused.exit_code == 2
            assert again in refused.stderr
            assert "running" not in refused.stderr
        assert len((folder / "log").read_text().splitlines()) == 6
        done = command("resume", "run.zarr", "--command", LINE, "--rounds", 14)
        assert done.exit_code == 0, done.output
        assert "running: ./train {depth} {rate} {kind}" in done.stderr
        (folder / "space.toml").write_text(SPACE)
        command(*arguments("--minimize", store="whole.zarr"))
        assert rows() == rows("whole.zarr")
        assert ObservationStore.open("run.zarr").attributes["settings"]["timeout"] == 60.0
        refused = command("resume", "run.zarr", "--function", "math:sin")
        assert refused.exit_code == 2
        assert "the run evaluates the command ./train" in refused.stderr

    def test_the_same_command_continues(self, folder: Path) -> None:
        for budget in (3, 9, 9, 14):
            assert command(*arguments("--minimize", budget=budget)).exit_code == 0
        assert len((folder / "log").read_text().splitlines()) == 14
        other = command(*arguments("--maximize"))
        assert other.exit_code == 2
        assert "kind: stored 'minimize', given 'maximize'" in other.stderr

    @pytest.mark.slow
    def test_a_report(self, folder: Path) -> None:
        command(*arguments("--minimize", budget=25))
        assert command("report", "run.zarr").exit_code == 0
        page = (folder / "run.html").read_text()
        assert "too deep" in page
        assert "with space" in page
        assert "resume run.zarr --rounds 50 --command &#39;./train {depth} {rate} {kind}&#39;" in page
        assert "--function" not in page

    def test_in_python(self, folder: Path) -> None:
        found = sb.minimize(sb.Command(LINE), sb.SearchSpace.from_toml("space.toml"), 14, store="own.zarr", parallel=2)
        assert len(found) + len(found.failed) == 14
        again = resume("own.zarr", rounds=16, command=sb.Command(LINE))
        assert isinstance(again, sb.TuningResult)
        assert len(again.tickets) == 16


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"line": "./trian {depth} {rate} {kind}"}, "command: got './trian'; allowed: a program that can be found"),
            ({"line": "no-such-program {depth} {rate} {kind}"}, "command: got 'no-such-program'"),
            ({"line": "./train {dpeth} {rate} {kind}"}, "command: got '{dpeth}'.*did you mean 'depth'"),
            ({"line": "./train {depth} {rate}"}, "one with {kind} in it"),
            ({"line": "./train {depth:03d} {rate} {kind}"}, "command: got '{depth:03d}'"),
            ({"line": "./train {depth} {rate} {kind} | tail -1"}, "command: got '|'.*sh -c"),
            ({"line": "./train {depth} {rate} {kind} 2>/dev/null"}, "command: got '2>/dev/null'.*sh -c"),
            ({"line": "./train {depth"}, "command: got '{depth'"),
            ({"line": "./train 'open"}, "No closing quotation"), ({"line": ""}, "command: got ''"),
            ({"budget": 0}, "--budget"), ({"more": ("--timeout", 0)}, "timeout: got 0.0"),
            ({"more": ("--value-from", "")}, "value_from: got ''"), ({"direction": ()}, "--minimize or --maximize"),
            ({"space": SPACE.replace("low", "lo")}, "space.toml.*'lo'"),
            ({"space": SPACE.replace("log = true", "log = true\\nlgo = 1")}, "space.toml"),
            ({"space": SPACE.replace('"Real"', '"Rael"')}, "space.toml.*Rael.*did you mean"),
            ({"space": SPACE.replace("high = 0.1", "high = 0.0001")}, "space.toml"),
            ({"space": SPACE.replace("low = 0.001", "low = 0.0")}, "space.toml"), ({"space": "[depth"}, "space.toml"),
            ({"space": ""}, "parameter"), ({"space": None}, "space.toml"),
        ],
        ids=lambda value: str(value)[:40],
    )  # fmt: skip
    def test_nothing_is_made(self, change: dict[str, Any], text: str, folder: Path) -> None:
        if "space" in change and change["space"] is None:
            (folder / "space.toml").unlink()
        elif "space" in change:
            (folder / "space.toml").write_text(change["space"])
        given = {key: value for key, value in change.items() if key in ("line", "budget")}
        before = sorted(folder.iterdir())
        done = command(*arguments(*change.get("direction", ("--minimize",)), *change.get("more", ()), **given))
        assert done.exit_code == 2, done.output
        assert sorted(folder.iterdir()) == before
        assert re.search(text, " ".join(done.stderr.split())), done.stderr

    def test_a_program_that_cannot_be_run(self, folder: Path) -> None:
        (folder / "train").chmod(0o644)
        done = command(*arguments("--minimize"))
        assert done.exit_code == 2
        assert "command: got './train'; allowed: a program that can be found" in done.stderr
        write_script(folder, "#!/no/such/interpreter\n")
        done = command(*arguments("--minimize", budget=2))
        assert done.exit_code == 1
        assert "./train: No such file or directory" in done.stderr

    def test_spaces_without_names(self) -> None:
        with pytest.raises(ValueError, match=r"^space: got 'Box'; allowed: a SearchSpace"):
            sb.minimize(sb.Command("echo 1"), sb.Box([[0, 1]]), 3)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def start(*given: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", "from scalable_bandits.cli import app; app()", *map(str, given)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
class TestEnded:
    """The command itself, in a process of its own."""

    @pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("parallel", [1, 3])
    @pytest.mark.sampled(4)
    def test_by_a_signal(self, parallel: int, sent: signal.Signals, folder: Path) -> None:
        """What was found is shown, the programs are ended, and the run goes on from there."""
        write_script(
            folder, SCRIPT.format(pause='[ -e go ] || [ $(wc -l < "$LOG") -lt 5 ] || { echo $$ >> pids; sleep 300; }')
        )
        process = start(*arguments("--minimize", "--parallel", parallel))
        until(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == parallel)
        process.send_signal(sent)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert f"continue with: scalable-bandits resume run.zarr --command '{LINE}'" in errors
        assert "evaluations" in output
        assert "interrupted" in output
        until(lambda: not any(alive(int(pid)) for pid in (folder / "pids").read_text().split()))
        before = rows()
        (folder / "go").touch()
        done = command("resume", "run.zarr", "--command", LINE)
        assert done.exit_code == 0, done.output
        after = rows()
        assert after[0][: len(before[0])] == before[0]
        assert len(after[1]) + len(after[2]) == 14
        runs = (folder / "log").read_text().splitlines()
        assert len(runs) <= 14 + parallel
        if parallel == 1:
            command(*arguments("--minimize", store="whole.zarr"))
            assert after == rows("whole.zarr")

    def test_by_a_signal_in_the_background_of_a_script(self, folder: Path) -> None:
        """Where a shell without job control lets it ignore Ctrl-C; and nothing was measured."""
        write_script(folder, "#!/bin/sh\necho $$ >> pids; sleep 300\n")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a child has, too
        try:
            process = start(*arguments("--minimize"))
        finally:
            signal.signal(signal.SIGINT, before)
        until(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 1)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert "nothing was measured: there is no recommendation" in output
        until(lambda: not any(alive(int(pid)) for pid in (folder / "pids").read_text().split()))

    def test_on_worker_processes(self, folder: Path) -> None:
        """In Python, with a worker: its program ends with the run too."""
        write_script(folder, SCRIPT.format(pause="echo $$ >> pids; sleep 300"))
        Path("search.py").write_text(
            "import scalable_bandits as sb\n"
            "if __name__ == '__main__':\n"
            "    space = sb.SearchSpace.from_toml('space.toml')\n"
            f"    found = sb.minimize(sb.Command({LINE!r}), space, 20, on='local:1')\n"
            "    print(found.interrupted)\n"
        )
        process = subprocess.Popen([sys.executable, "search.py"], stdout=subprocess.PIPE, text=True)
        until(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 1)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "True\n"
        until(lambda: not any(alive(int(pid)) for pid in (folder / "pids").read_text().split()))
