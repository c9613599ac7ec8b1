"""Rows of Parquet files, some megabytes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq

_BYTES = 4 << 20
_MANY_ROWS = 1 << 16


def batches(file: pq.ParquetFile, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of about 4 MiB by their size in the file. Arrow's own batches have 65,536 rows of any size.

    A file stores a repeated long value only once, so batches of such rows are larger in memory.
    """
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    rows = [_BYTES * group.num_rows // max(1, group.total_byte_size) for group in groups if group.num_rows]
    yield from file.iter_batches(max(1, min([*rows, _MANY_ROWS])), columns=columns)
