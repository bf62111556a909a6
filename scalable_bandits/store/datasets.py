"""Finished datasets (a study's result) as one zarr group each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


def check_new(path: str | Path) -> None:
    """Raise FileExistsError where something stands already: nothing is ever overwritten."""
    if Path(path).exists():
        raise FileExistsError(f"store: {path} exists already; name another folder, or remove it first")


def save(dataset: xarray.Dataset, path: str | Path) -> None:
    """Write a dataset as a zarr v3 group; FileExistsError if the path exists."""
    check_new(path)
    dataset.to_zarr(str(path), mode="w-", zarr_format=3, consolidated=False)


def load(path: str | Path) -> xarray.Dataset:
    """Open what `save` wrote, lazily."""
    import xarray

    return xarray.open_zarr(str(path), consolidated=False)
