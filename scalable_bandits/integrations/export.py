"""Stored runs and studies for other tools: tables as CSV or Parquet files, studies of Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalable_bandits import checks
from scalable_bandits.store import ObservationStore

ALLOWED = (
    "a file whose name ends with .csv or .parquet, or a storage of Optuna: a URL such as 'sqlite:///runs.db', or a "
    "journal file whose name ends with .log or .journal"
)
DATABASES = ("sqlite", "mysql", "postgresql", "mariadb", "oracle", "mssql", "redis")  # that Optuna knows
EVALUATED = "a run of minimize, maximize, record or a search; export others to a table"
JOURNALS = (".log", ".journal")


def export(store: Any, to: Any, *, name: str | None = None, overwrite: bool = False) -> int:
    """Write a stored run or study to a table or to a study of Optuna, also while it is written.

    A table has a row for each evaluation of a tuning run or a search, and otherwise a row for each round. In a study
    of Optuna each evaluation is a trial; the same call again adds what is new in the run.

    Parameters
    ----------
    store
        Place of the run or the study.
    to
        File whose name ends with .csv or .parquet; or a storage of Optuna: the URL of a database, a journal file whose
        name ends with .log or .journal, or the object.
    name
        Name of the study of Optuna; if not given, that of the store.
    overwrite
        Whether a table that exists is replaced.

    Returns
    -------
    int
        Number of rows or trials.

    Raises
    ------
    ValueError
        If the target is of another kind, or is a study of Optuna with other trials; if the store has no evaluations.
    FileExistsError
        If the table exists.
    FileNotFoundError
        If there is no run and no study.
    ImportError
        If the package that the target needs is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp()
    >>> space = {"depth": sb.Integer(1, 12)}
    >>> found = sb.minimize(lambda setting: abs(setting["depth"] - 5), space, 12, store=f"{folder}/run")
    >>> sb.export(f"{folder}/run", f"{folder}/run.csv")
    12
    """
    from scalable_bandits.integrations import tables
    from scalable_bandits.studies.stored import study_record

    checks.flag("overwrite", overwrite)
    if name is not None:
        checks.kind("name", name, str, "a text")
    text = str(to) if isinstance(to, str | Path) else ""
    scheme, url, _ = text.partition("://")
    suffix = Path(text).suffix
    is_table = suffix in tables.SUFFIXES and not url
    is_storage = scheme.partition("+")[0] in DATABASES if url else suffix in JOURNALS
    if not text:
        is_storage = any(base.__module__.startswith("optuna.storages") for base in type(to).__mro__)
    if not (is_table or is_storage):
        checks.refuse("to", to, ALLOWED)
    record = study_record(store) if isinstance(store, str | Path) else None
    if record is not None:
        if not is_table:
            checks.refuse("store", f"{store}, a study", EVALUATED)
        return tables.write(tables.study_rounds(record, store), Path(text), overwrite)
    run = ObservationStore.open(store)
    if is_table:
        blocks = iter([tables.evaluations(run)]) if run.kept else tables.rounds(run)
        return tables.write(blocks, Path(text), overwrite)
    if run.attributes.get("kind") == "simulate":
        checks.refuse("store", f"{run.location.name}, a simulation", EVALUATED)
    from scalable_bandits.integrations.optuna_export import export_study

    return export_study(run, to, name or Path(run.location.name).name.removesuffix(".zarr"))
