"""Finished datasets, for example the result of a study, each in a zarr group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


def save(dataset: xarray.Dataset, path: str | Path) -> None:
    """Write a dataset as a zarr v3 group.

    Parameters
    ----------
    dataset
        Dataset, for example the result of a study.
    path
        Folder to be made.

    Raises
    ------
    FileExistsError
        If the path exists.
    """
    if Path(path).exists():
        raise FileExistsError(f"store: {path} exists already; name another folder, or remove it first")
    dataset.to_zarr(str(path), mode="w-", zarr_format=3, consolidated=False)


def load(path: str | Path) -> xarray.Dataset:
    """Open a dataset written by `save`, lazily.

    Parameters
    ----------
    path
        Folder of the dataset.

    Raises
    ------
    FileNotFoundError
        If there is no dataset.
    """
    import xarray

    return xarray.open_zarr(str(path), consolidated=False)
