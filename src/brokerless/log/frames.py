"""Tables as the data frames of other libraries, which no extra installs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def library(name: str, what: str, *, extra: str | None = None) -> Any:  # noqa: ANN401 - a module
    """Import a library.

    Args:
        name: its module.
        what: what needs it.
        extra: the extra that installs it; None: none does.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name if extra is None else f"'brokerless[{extra}]'"
        raise ModuleNotFoundError(f"{what} needs {name}: pip install {package}", name=name) from error


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """Return a table as a data frame of polars."""
    frame: pl.DataFrame = library("polars", "to_polars").DataFrame(table)
    return frame


def pandas_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame of pandas."""
    library("pandas", "to_pandas")
    frame: pd.DataFrame = table.to_pandas()
    return frame
