"""Programs that are not Python: one run of a command is an evaluation."""

from __future__ import annotations

import json
import math
import os
import re
import selectors
import shlex
import shutil
import signal
import string
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from scalable_bandits import checks
from scalable_bandits.execution.base import PlainError
from scalable_bandits.spaces import Space
from scalable_bandits.specification import Specification, nearest

if TYPE_CHECKING:
    from scalable_bandits.store import StoredRun

PLAIN = re.compile(r"[\w@%+=:,./{}-]+")  # words that need no quotes, and names in braces
SHELL = re.compile(r"&|&&|\|\|?|;|[0-9&]?[<>].*")  # words that mean something to a shell alone
CANDIDATE = "candidate"  # name in the command of a pool's candidate, its label or number
TAIL_BYTES = 2**16  # number of last bytes held of a program's output, which ends with its value, and of its errors
LOOK = 0.2  # seconds between looks whether a program has ended
LINGER, LONGEST = 1.0, 10.0  # seconds without output, and in all, for which what it left running is waited for
TAIL_LINES, TAIL_CHARACTERS = 20, 2000  # numbers of last lines and characters kept of a failed command's errors
GRACE_SECONDS = 2.0  # between asking a program to end and killing it


NO_VALUE = "the last line of output is"  # beginning of the error of a program that ended well, without a value


class CommandFailed(PlainError):
    """A command that failed, took too long, or did not print a value."""


class Programs:
    """Function of a setting that runs a command's program and returns its value, and ends programs that are running.

    Its calls may be in several threads. A copy in another process has its own programs.

    Parameters
    ----------
    command
        The command.
    timeout
        Longest duration of a program in seconds, after which it is ended; None for no limit.

    Attributes
    ----------
    shield : callable
        Function that makes a context whose end Ctrl-C waits for, in the main thread.
    """

    def __init__(self, command: Command, timeout: float | None = None):
        self._command, self._timeout = command, timeout
        self.shield: Callable[[], AbstractContextManager[None]] = nullcontext
        self._running: list[subprocess.Popen[bytes]] = []
        self._guard = threading.Lock()
        self._ended = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._command, self._timeout)

    def __call__(self, setting: Any) -> Any:
        """Run the command for a setting, and return the value that it prints, or a dict of several.

        Parameters
        ----------
        setting
            Values of the parameters by name; or a candidate of a pool, its label or number.

        Raises
        ------
        CommandFailed
            If the program cannot be started, takes too long, ends with another exit code than 0, or does not print a
            value.
        """
        try:
            process = self._start(self._command.words(setting))
        except OSError as error:
            raise CommandFailed(f"{self._command.command[0]}: {error.strerror}") from None
        with process:  # closes its pipes
            try:
                output, errors = _ends_of_output(process, self._timeout)
            except subprocess.TimeoutExpired:
                end([process])
                raise CommandFailed(f"TimeoutError: it took longer than {self._timeout:g} s") from None
            except BaseException:  # Ctrl-C
                end([process])
                raise
            finally:
                self._discard(process)
        if process.returncode:
            raise CommandFailed(_failure(process.returncode, _tail(errors)))
        return self._command.value(output, errors)

    def _start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program; Ctrl-C waits until it is known, and ends it then."""
        main = threading.current_thread() is threading.main_thread()
        try:
            with self.shield() if main else nullcontext():
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                    start_new_session=True,
                )  # fmt: skip
                with self._guard:
                    self._running.append(process)
                if self._ended:
                    end([process])
        except KeyboardInterrupt:
            self.end_calls()
            with process:  # closes its pipes
                self._discard(process)
            raise
        return process

    def _discard(self, process: subprocess.Popen[bytes]) -> None:
        with self._guard:
            self._running.remove(process)

    def end_calls(self) -> None:
        """End all programs, and any that is still started."""
        self._ended = True
        with self._guard:
            running = list(self._running)
        end(running)


def _ends_of_output(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[str, str]:
    """Wait for the end of a program; return the ends of what it wrote to standard output and standard error.

    However much that is, `TAIL_BYTES` of each are held. A line of output whose beginning is lost is not returned. What
    the program leaves running, such as a daemon that has its output, is not waited for.

    Raises
    ------
    subprocess.TimeoutExpired
        If it takes longer than a number of seconds.
    """
    until, ended = math.inf if timeout is None else time.monotonic() + timeout, math.inf
    tails = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as unread:
        for pipe, tail in zip((process.stdout, process.stderr), tails, strict=True):
            assert pipe is not None
            unread.register(pipe, selectors.EVENT_READ, tail)
        while unread.get_map() and (now := time.monotonic()) < ended + LONGEST:
            if ended == math.inf and process.poll() is not None:
                ended = now
            if ended == math.inf and now >= until:
                raise subprocess.TimeoutExpired(process.args, timeout or 0.0)
            ready = unread.select(min(LOOK, max(until - now, 0.0)) if ended == math.inf else LINGER)
            if ended < math.inf and not ready:
                break
            for key, _ in ready:
                read = os.read(key.fd, TAIL_BYTES)
                if not read:
                    unread.unregister(key.fileobj)
                key.data.extend(read)
                del key.data[:-TAIL_BYTES]
    process.wait(None if timeout is None else max(until - time.monotonic(), 0.0))
    output, errors = tails
    whole_lines = output.partition(b"\n")[2] if len(output) == TAIL_BYTES else output
    return whole_lines.decode(errors="replace"), errors.decode(errors="replace")


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, tuple | list) and value and all(isinstance(word, str) for word in value):
        return tuple(value)
    if not isinstance(value, str):
        checks.refuse("command", value, 'a line such as "./train --rate {rate}", or its words')
    try:
        words = tuple(shlex.split(value))
    except ValueError as error:
        checks.refuse("command", value, f"a line that can be split into words ({error})")
    if not words:
        checks.refuse("command", value, 'a line such as "./train --rate {rate}"')
    return words


def _keys(value: Any) -> tuple[str, ...]:
    """Return keys as a tuple."""
    keys = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(key, str) and key for key in keys):
        checks.refuse("outputs", value, "keys, a sequence of texts")
    return keys


@attrs.frozen(eq=True, slots=False)
class Command(Specification):
    """Function of a setting that runs a program, without a shell, and returns the number that it prints.

    Parameters
    ----------
    command
        Line of the command, which is split into words as a shell does; ``{name}`` in a word becomes the value of the
        parameter of that name, ``{{`` and ``}}`` are braces. A tuple of words is not split.
    value_from
        Key of the value in the JSON object on the last line of output; "a.b" is key b in the object under a. If not
        given, the last line is the value.
    outputs
        Keys of further values in that object, of further objectives and of `constraints`. The result is then a dict by
        key, with None for a value that is null.

    Raises
    ------
    ValueError
        If the line has no words, or braces that do not enclose a name.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.Command("echo {depth}")({"depth": 3})
    3.0
    """

    runs_programs: ClassVar[bool] = True

    command: tuple[str, ...] = attrs.field(converter=_words)
    value_from: str | None = attrs.field(default=None)
    outputs: tuple[str, ...] = attrs.field(default=(), converter=_keys)

    def __attrs_post_init__(self) -> None:
        if self.value_from is not None and not (isinstance(self.value_from, str) and self.value_from):
            checks.refuse("value_from", self.value_from, "a key, or None")
        if self.outputs and self.value_from is None:
            checks.refuse("value_from", None, "the key of the objective, beside those of other outputs")
        _ = self.names

    def __str__(self) -> str:
        return " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in self.command)

    def is_named_by(self, line: str | Command) -> bool:
        """Return whether a line, or another command, has the same words."""
        return self.command == (line if isinstance(line, Command) else Command(line)).command

    @property
    def names(self) -> list[str]:
        """Names of the parameters in the command."""
        found: list[str] = []
        for word in self.command:
            try:
                for _, name, layout, conversion in string.Formatter().parse(word):
                    if name is not None and (layout or conversion or not name):
                        raise ValueError(f"{{{name}{layout and ':'}{layout}}}")
                    found += [] if name is None else [name]
            except ValueError as error:  # also where braces are not paired
                checks.refuse("command", word, f"names in braces, and {{{{ and }}}} for braces ({error})")
        return found

    def check(self, space: Space, given: Collection[Any] = ()) -> None:
        """Raise ValueError unless the parameters are those of a space, and the program can be found.

        Parameters
        ----------
        space
            Space of the parameters.
        given
            Names of parameters that are not chosen, which the command may do without.
        """
        if not (space.named or space.scanned):
            checks.refuse("space", type(space).__name__, "a SearchSpace or a Pool: a command is given values by name")
        names = space.names if space.named else (CANDIDATE,)  # type: ignore[attr-defined]
        known = dict.fromkeys(names)
        for word in self.command:
            if SHELL.fullmatch(word):
                checks.refuse("command", word, f"words of one program; or a shell: sh -c '... {word} ...'")
        for name in self.names:
            if name not in known:
                checks.refuse("command", f"{{{name}}}", f"names of parameters; {nearest(name, known)}")
        for name in known:
            if name not in self.names and name not in given:
                checks.refuse("command", str(self), f"one with {{{name}}} in it, or a space without this parameter")
        if shutil.which(self.command[0]) is None:
            checks.refuse("command", self.command[0], "a program that can be found, or the path of one")

    def words(self, setting: Any) -> list[str]:
        """Return the words of the command for a setting; a parameter that does not exist in it is an empty string."""
        if not isinstance(setting, dict):
            setting = {CANDIDATE: setting}
        values = {name: "" if setting.get(name) is None else str(setting[name]) for name in self.names}
        pieces = [string.Formatter().parse(word) for word in self.command]
        return ["".join(text + ("" if name is None else values[name]) for text, name, _, _ in each) for each in pieces]

    def __call__(self, setting: Any) -> Any:
        """Run the command for a setting, and return the value that it prints, or the dict; see `Programs`."""
        return Programs(self)(setting)

    def value(self, output: str, errors: str) -> Any:
        """Return the value, or the dict of values, in the last line of output.

        Without a value it raises CommandFailed, with the end of the errors.
        """
        lines = output.strip().splitlines()
        if not lines:
            wanted = f"its last line, of less than {TAIL_BYTES // 1024} kB, is to be the value"
            raise CommandFailed(f"no output: {wanted}\n{_tail(errors)}".rstrip())
        values: dict[str | None, float | None] = {}
        for key in (self.value_from, *self.outputs):
            try:
                value = lines[-1] if key is None else _under(json.loads(lines[-1]), key)
                values[key] = None if value is None and self.outputs else float(value)
            except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
                wanted = "a number" if key is None else f"a JSON object with a number under {key!r}"
                with suppress(ValueError, RecursionError):
                    printed = json.loads(lines[-1])
                    others = list(printed) if isinstance(printed, dict) and key is not None else []
                    wanted += f"; {nearest(str(key), others)}" if others and key not in others else ""
                raise CommandFailed(f"{NO_VALUE} {lines[-1][:200]!r}, not {wanted}") from None
        return values if self.outputs else values[self.value_from]


def _under(printed: Any, key: str) -> Any:
    """Return the value under a key, which may have points in it, of a JSON object."""
    for part in [key] if isinstance(printed, dict) and key in printed else key.split("."):
        printed = printed[part]
    return printed


def command_of(run: StoredRun) -> Command | None:
    """Return the command that a run evaluates; None if it evaluates a function.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    described = run.specification.get("function")
    if not isinstance(described, dict) or described.get("type") != Command.__name__:
        return None
    return Command.from_dict(described)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End programs, and those that they started: ask them first, and kill what is left."""
    until = time.monotonic() + GRACE_SECONDS
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0.1))


def _reason(code: int) -> str:
    """Return why a program failed, by its exit code."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def _failure(code: int, errors: str) -> str:
    """Return the message of a program that failed: on its first line the last one of its errors, then all of them."""
    before, _, last = errors.rpartition("\n")
    first = f"{_reason(code)}: {last}" if last else _reason(code)
    return f"{first}\n{errors}" if before else first


def _tail(text: str) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]
