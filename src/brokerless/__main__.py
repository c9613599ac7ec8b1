"""The process of the command: `python -m brokerless`, and the script `brokerless`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from brokerless.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class _WithoutPandas:
    """An import finder that hides an installed pandas.

    `pyarrow.array` imports pandas if it is installed. For a short command, this import takes as long as everything
    else, and the command does not need pandas.
    """

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def process() -> None:
    """Run the command, and exit."""
    if sys.argv[1:2] != ["spark"]:
        sys.meta_path.insert(0, _WithoutPandas)
    main()


if __name__ == "__main__":
    process()
