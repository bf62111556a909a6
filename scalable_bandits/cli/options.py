"""Options that several subcommands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STUDY_HELP = "Name of a study (see `list`), or a study file (.toml)."
STUDY = Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP)]
REPLICATES = Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of replicates. Default: the study's.")]
HORIZON = Annotated[
    list[int] | None,
    typer.Option(min=1, metavar="N", help="Number of rounds; may be repeated. Default: the study's."),
]
CASE = Annotated[list[str] | None, typer.Option(metavar="CASE", help="Case; may be repeated. Default: all.")]
POLICY = Annotated[list[str] | None, typer.Option(metavar="POLICY", help="Policy; may be repeated. Default: all.")]
AXIS = Annotated[list[str] | None, typer.Option(metavar="NAME=V,V", help="Values of an axis. Default: the study's.")]
DATA = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the measured data files.")]
ENVIRONMENT = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Function of a study file's environments of type FunctionEnvironment, as module:name."
    ),
]
ON = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Where to run: local:4 (4 worker processes), threads:4, tcp://host:port (a Dask scheduler), or a recipe "
        "file (.yaml). Default: this process.",
    ),
]
OUT = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="New folder for tables and figures. Default: name of the study.")
]
CLASSES = Annotated[
    list[str] | None,
    typer.Option("--class", metavar="NAME", help="Class of yours to import, as module:Class; may be repeated."),
]
JSON = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]
PATH = Annotated[str, typer.Argument(metavar="PATH", help="Store of a run, or a folder with several.")]
