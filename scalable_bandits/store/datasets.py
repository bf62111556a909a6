"""Finished datasets (a study's result) as one zarr group each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


def check_new(path: str | Path) -> None:
    """Make sure that nothing is overwritten.

    Parameters
    ----------
    path
        Folder that is to be made.

    Raises
    ------
    FileExistsError
        If something stands there already.
    """
    if Path(path).exists():
        raise FileExistsError(f"store: {path} exists already; name another folder, or remove it first")


def save(dataset: xarray.Dataset, path: str | Path) -> None:
    """Write a dataset as a zarr v3 group.

    Parameters
    ----------
    dataset
        A study's result, say.
    path
        Folder to make.

    Raises
    ------
    FileExistsError
        If the path exists.
    """
    check_new(path)
    dataset.to_zarr(str(path), mode="w-", zarr_format=3, consolidated=False)


def load(path: str | Path) -> xarray.Dataset:
    """Open what `save` wrote, lazily.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    import xarray

    return xarray.open_zarr(str(path), consolidated=False)
