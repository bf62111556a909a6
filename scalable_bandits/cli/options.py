"""Options of the subcommands: how one is declared, and those that several have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalable_bandits import checks

if TYPE_CHECKING:
    from scalable_bandits.policies.outputs import Limit


def option(value: str, text: str, *names: str, **limits: Any) -> Any:
    """Declare an option.

    Parameters
    ----------
    value
        Word that stands for its value; empty for a flag.
    text
        Line of help.
    names
        Names on the command line, if they do not follow from that of the parameter.
    limits
        Limits of a number, or other arguments of `typer.Option`.
    """
    return typer.Option(*names, metavar=value, help=text, **limits)


STUDY_HELP = "Name of a study (see `list`), or a study file (.toml)."
STUDY = Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP)]
PATH = Annotated[str, typer.Argument(metavar="PATH", help="Store of a run, or a folder with several.")]

REPLICATES = Annotated[int | None, option("N", "Number of replicates. Default: the study's.", min=1)]
HORIZON = Annotated[list[int] | None, option("N", "Number of rounds; may be repeated. Default: the study's.", min=1)]
CASE = Annotated[list[str] | None, option("CASE", "Case; may be repeated. Default: all.")]
POLICY = Annotated[list[str] | None, option("POLICY", "Policy; may be repeated. Default: all.")]
AXIS = Annotated[list[str] | None, option("NAME=V,V", "Values of an axis. Default: the study's.")]
DATA = Annotated[Path | None, option("FOLDER", "Folder of the measured data files.")]
ENVIRONMENT = Annotated[
    str | None, option("NAME", "Function of a study file's environments of type FunctionEnvironment, as module:name.")
]
ON_HELP = (
    "Where to run: local:4 (4 worker processes), threads:4, tcp://host:port (a Dask scheduler), or a recipe file "
    "(.yaml). Default: this process."
)
ON = Annotated[str | None, option("WHERE", ON_HELP)]
OUT = Annotated[Path | None, option("FOLDER", "New folder for tables and figures. Default: name of the study.")]
CLASSES = Annotated[
    list[str] | None, option("NAME", "Class of yours to import, as module:Class; may be repeated.", "--class")
]
JSON = Annotated[bool, option("", "Print JSON, for scripts.", "--json")]
MINIMIZE = Annotated[
    bool | None, typer.Option("--minimize/--maximize", help="Whether smaller values are better, or larger ones.")
]
VALUE_FROM = Annotated[
    str | None, option("KEY", "Key of the value in the last line of output, a JSON object. Default: the line itself.")
]
CONSTRAINT_HELP = (
    'Limit of another value in that object, as "latency<=50" or "accuracy>=0.9"; may be repeated. Needs --value-from.'
)
CONSTRAINT = Annotated[list[str] | None, option("KEY<=LIMIT", CONSTRAINT_HELP)]
OBJECTIVE_HELP = (
    'Key of a further objective in that object, as "seconds" or "accuracy=maximize"; may be repeated. Without one, that'
    " of the first objective, --value-from."
)
OBJECTIVE = Annotated[list[str] | None, option("KEY", OBJECTIVE_HELP)]
CONTEXT_HELP = (
    "Value of a parameter that is given, not chosen; may be repeated. The same store may be continued in another one."
)
CONTEXT = Annotated[list[str] | None, option("NAME=VALUE", CONTEXT_HELP)]
TIMEOUT = Annotated[float | None, option("S", "Seconds after which an evaluation is ended, and has failed.")]
RETRIES = Annotated[int, option("N", "Tries of a failed evaluation after the first.", min=0)]
SEED = Annotated[int, option("N", "Seed of all random numbers.", min=0)]


def limits(texts: list[str] | None) -> dict[str, Limit] | None:
    """Return the limits by key in texts such as "latency<=50"; None without texts."""
    from scalable_bandits.policies.outputs import AtLeast, AtMost

    found: dict[str, Limit] = {}
    for text in texts or []:
        name, sign, number = [part.strip() for part in (*re.split("(<=|>=)", text, maxsplit=1), "", "")][:3]
        try:
            found[name] = (AtMost if sign == "<=" else AtLeast)(float(number))
        except ValueError:
            checks.refuse("--constraint", text, 'a key, <= or >=, and a number: "latency<=50"')
    return found or None


def values(texts: list[str] | None) -> dict[str, Any] | None:
    """Return values by name in texts such as "load=0.7", of which others than JSON are texts; None without any."""
    found: dict[str, Any] = {}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not sign or name in found:
            checks.refuse("--context", text, 'once for each parameter, a name, = and a value: "load=0.7"')
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None


def objectives(texts: list[str] | None, first: str | None, minimize: bool) -> dict[str, str] | None:
    """Return directions by key: of the first objective, and of those in texts such as "seconds"; None without."""
    if not texts:
        return None
    if first is None:
        checks.refuse("--objective", texts[0], "with --value-from, the key of the first objective")
    usual = "minimize" if minimize else "maximize"
    found = {first: usual}
    for text in texts:
        name, _, direction = text.partition("=")
        if not name or name in found or direction not in ("", "minimize", "maximize"):
            checks.refuse("--objective", text, 'another key, or one with a direction: "accuracy=maximize"')
        found[name] = direction or usual
    return found


def counts(option: str, text: str) -> list[int]:
    """Return the numbers in a list with commas, such as "1,16,256"; ValueError, which names the option, for others."""
    parts = text.split(",")
    for part in parts:
        if not part.strip().isdecimal() or not int(part):
            checks.refuse(option, part, "positive integers with commas between them: 1,16,256")
    return [int(part) for part in parts]
