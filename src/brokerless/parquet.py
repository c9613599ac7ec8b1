"""Rows of Parquet files, some megabytes at a time however large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq

_BYTES = 4 << 20
_MANY_ROWS = 1 << 16


def batches(file: pq.ParquetFile, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield rows: as many at a time as go by the size of those around them, where Arrow takes 65,536 of any size."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        rows = _BYTES * group.num_rows // max(1, group.total_byte_size)
        yield from file.iter_batches(min(max(1, rows), _MANY_ROWS), [number], columns)
