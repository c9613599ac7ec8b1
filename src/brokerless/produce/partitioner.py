"""The partition of each row, by the rules of Kafka's producer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Up to this many bytes, all rows are reordered in one copy. Beyond it the copy would take much memory, and Arrow cannot
# concatenate more than 2 GiB of a column.
_MAX_MOVED = 64 << 20


class Partitioner:
    """The partitioner of one topic.

    A row goes to the partition in its `partition` column. If this column has no value, Kafka's murmur2 hash of the
    row's key determines the partition. Rows without a key fill a batch of one partition, then a batch of another
    partition.

    Args:
        topic: the topic's name, for error messages.
        partitions: the topic's partitions in this directory, ascending.
        batch_size: the size of a full batch in bytes.

    Attributes:
        partitions: the partitions, as given.
    """

    def __init__(self, topic: str, partitions: Sequence[int], batch_size: int) -> None:
        self.partitions = list(partitions)
        # Any order of partitions will do, but writers that start together should not fill the same one.
        seed = int.from_bytes(os.urandom(8))
        self._native = _native.Partitioner(topic, self.partitions, batch_size, seed)

    def check(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Refuse rows for which `divide` would find no partition.

        Args:
            rows: rows as `batches_of` yields them.

        Raises:
            ValueError: a row names a partition that does not exist; or a row must be hashed by its key, and not all
                partitions are in this directory.
        """
        self._native.check(_column(rows, "partition"), _column(rows, "key"))

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Choose a partition for each row, and yield the rows of each partition in order. Call `check` first."""
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
        numbers = self._native.choose(_column(rows, "partition"), _column(rows, "key"), rows.num_rows, row_bytes)
        counted: Any = pc.value_counts(numbers)
        counts: dict[int, int] = {count["values"]: count["counts"] for count in counted.to_pylist()}
        for number, part in _divided(rows, numbers, counts):
            for batch in part.combine_chunks().to_batches():
                yield number, batch


def _column(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array[Any] | None:
    """Return a column as one array; None if it is missing."""
    if name not in rows.schema.names:
        return None
    if isinstance(rows, pa.Table):
        return rows[name].combine_chunks()
    return rows[name]


def _divided(rows: pa.Table, numbers: pa.Array[Any], counts: dict[int, int]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each partition number, given the number of rows of each."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    if len(counts) > 1 and rows.nbytes > _MAX_MOVED:
        for number in sorted(counts):
            yield number, rows.filter(pc.equal(numbers, pa.scalar(number, pa.int32())))
        return
    if len(counts) > 1:
        rows = rows.take(pc.sort_indices(numbers))
    start = 0
    for number in sorted(counts):
        yield number, rows.slice(start, counts[number])
        start += counts[number]


def join(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Concatenate batches, whose columns may differ."""
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")
