"""The schemas of a registry, from its topic beside the logs that use them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from brokerless.io import storage
from brokerless.notes import note
from brokerless.schemas.schema import SCHEMAS_TOPIC
from brokerless.schemas.store import SchemaStore
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.reader import Reader
    from brokerless.schemas.store import Row

COLUMNS = ["offset", "timestamp", "key", "value"]


def schemas_of(readers: Mapping[str, Reader]) -> SchemaStore:
    """Return the schemas in records of a registry's topic: a reader of `COLUMNS` for the path of each log."""
    return SchemaStore(", ".join(readers), *(_records(path, reader) for path, reader in readers.items()))


def partitions_beside(roots: Iterable[LogDirFiles]) -> list[str]:
    """Return the directories of the registry's topic in log directories; it has one partition.

    Raises:
        ValueError: there are none.
    """
    paths = {root.path: os.path.join(root.path, f"{SCHEMAS_TOPIC}-0") for root in roots}
    found = [path for path in paths.values() if storage.is_directory(path)]
    if not found:
        raise ValueError(
            f"no topic {SCHEMAS_TOPIC} in {', '.join(paths)}: a registry keeps its schemas there. "
            f"Name the schemas with {option('schemas')}"
        )
    return found


def _records(path: str, reader: Reader) -> Iterator[Row]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    for rows in reader:
        columns = [rows["offset"], rows["timestamp"].cast(pa.int64()), rows["key"], rows["value"]]
        yield from zip(*(column.to_pylist() for column in columns), strict=True)
    for lost in reader.lost:
        note(f"{path}: the content of these records is not known: {lost}")
