"""Programs whose output is too much, or too deep."""

import tracemalloc

import psutil
import pytest

import scalable_bandits as sb
from scalable_bandits.commands import Programs

MOST_BYTES = 4_000_000  # of memory while a program runs: some tails of its output


@pytest.mark.parametrize(
    ("line", "timeout", "result"),
    [
        ("sh -c 'head -c 50000000 /dev/zero; echo; echo 7'", None, 7.0),
        ("sh -c 'head -c 50000000 /dev/zero >&2; echo 7'", None, 7.0),
        ("yes", 0.2, "TimeoutError: it took longer than 0.2 s"),
        ("sh -c 'head -c 70000 /dev/zero | tr \"\\\\0\" 7'", None, "no output: its last line, of less than 64 kB"),
    ],
    ids=["output", "errors", "without end", "one line"],
)
def test_much_output_takes_little_memory(line: str, timeout: float | None, result: float | str) -> None:
    """The value is the last line; a last line of which a part is lost is none; the time limit holds."""
    programs = Programs(sb.Command(line), timeout)
    tracemalloc.start()
    try:
        if isinstance(result, str):
            with pytest.raises(sb.CommandFailed, match=result):
                programs({})
        else:
            assert programs({}) == result
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_value_that_is_nested_too_deep() -> None:
    with pytest.raises(sb.CommandFailed, match=r"^the last line of output is '.*a JSON object with a number under 'y'"):
        sb.Command(("sh", "-c", "head -c 60000 /dev/zero | tr '\\0' '['"), "y")({})


@pytest.mark.parametrize("timeout", [None, 100.0])
@pytest.mark.sampled(2)
def test_what_a_program_leaves_running_is_not_waited_for(timeout: float | None) -> None:
    """A daemon that has its output, such as a driver's; it was waited for, and with a time limit the value was lost."""
    daemon = psutil.Process(int(Programs(sb.Command("sh -c 'sleep 600 & echo $!'"), timeout)({})))
    assert daemon.cmdline() == ["sleep", "600"]
    daemon.kill()
    assert Programs(sb.Command("sh -c '(sleep 0.3; echo 8) & echo 7'"), timeout)({}) == 8.0
