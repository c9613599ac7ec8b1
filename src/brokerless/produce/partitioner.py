"""The partition of each row, by the rules of Kafka's producer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Up to this many bytes, all rows are reordered in one copy. Beyond it the copy would take much memory, and Arrow cannot
# concatenate more than 2 GiB of a column.
_MAX_MOVED = 64 << 20
_CHOICE = random.Random().choice  # noqa: S311 - no secret: any partition will do


class Partitioner:
    """The partitioner of one topic.

    A row goes to the partition in its `partition` column. Without one, Kafka's murmur2 hash of its key chooses. Rows
    without a key fill a batch of one partition, then a batch of another.

    Args:
        topic: the topic's name, for error messages.
        partitions: the topic's partitions in this directory, ascending.
        batch_size: bytes of a batch.

    Attributes:
        partitions: the partitions, as given.
    """

    def __init__(self, topic: str, partitions: Sequence[int], batch_size: int) -> None:
        self._topic = topic
        self.partitions = list(partitions)
        self._batch_size = batch_size
        self._sticky = _CHOICE(self.partitions)
        self._sticky_bytes = 0

    def check(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Refuse rows for which `divide` could choose no partition.

        Args:
            rows: rows as `batches_of` yields them.

        Raises:
            ValueError: a row names a partition that does not exist; or a row must be hashed by its key, and not all
                partitions are in this directory.
        """
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        names = rows.schema.names
        given = rows["partition"] if "partition" in names else None
        if given is not None:
            counted: Any = pc.unique(given)
            for number in counted.to_pylist():
                if number is not None and number not in self.partitions:
                    raise ValueError(
                        f"topic {self._topic!r} has no partition {number}: it has {len(self.partitions)}, and the "
                        f"last of them is {max(self.partitions)}"
                    )
        if "key" in names and self.partitions != list(range(len(self.partitions))):
            by_key = pc.is_valid(rows["key"])
            if given is not None:
                by_key = pc.and_(pc.is_null(given), by_key)
            if pc.any(by_key).as_py():
                raise ValueError(
                    f"topic {self._topic!r} has partitions {', '.join(map(str, self.partitions))} here, and the rest "
                    "elsewhere: how many there are decides where a key goes; give each row its partition"
                )

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Choose a partition for each row, and yield the rows of each partition in order. Call `check` first."""
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        numbers = self._keyed(rows)
        if "partition" in rows.column_names:
            numbers = pc.coalesce(rows["partition"].combine_chunks(), numbers)
        numbers = self._stick(numbers, max(1, rows.nbytes // max(1, rows.num_rows)))
        counted: Any = pc.value_counts(numbers)
        counts: dict[int, int] = {count["values"]: count["counts"] for count in counted.to_pylist()}
        for number, part in _divided(rows, numbers, counts):
            for batch in part.combine_chunks().to_batches():
                yield number, batch

    def _keyed(self, rows: pa.Table) -> pa.Array[Any]:
        """Return the partition of each row by its key; null for a row without a key."""
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        if "key" not in rows.column_names:
            return pa.nulls(rows.num_rows, pa.int32())
        keys = rows["key"].combine_chunks()
        numbers = _native.partition_for_keys(keys, len(self.partitions))
        keyed: pa.Array[Any] = pc.if_else(pc.is_null(keys), pa.scalar(None, pa.int32()), numbers)
        return keyed

    def _stick(self, numbers: pa.Array[Any], row_bytes: int) -> pa.Array[Any]:
        """Assign rows without a partition to the sticky partition, which changes after each full batch."""
        if not numbers.null_count:
            return numbers
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        is_unset = pc.is_null(numbers).cast(pa.int64())
        before = pc.multiply(pc.cumulative_sum(is_unset), pa.scalar(row_bytes))
        batch = pc.divide(pc.add(before, pa.scalar(self._sticky_bytes)), pa.scalar(self._batch_size))
        last: int = pc.max(batch).as_py() or 0
        chosen = [self._sticky]
        for _ in range(last):
            chosen.append(_CHOICE([number for number in self.partitions if number != chosen[-1]] or chosen))
        self._sticky = chosen[-1]
        self._sticky_bytes = (self._sticky_bytes + row_bytes * numbers.null_count) % self._batch_size
        return pc.coalesce(numbers, pa.array(chosen, pa.int32()).take(batch))


def _divided(rows: pa.Table, numbers: pa.Array[Any], counts: dict[int, int]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each partition number, given the count of each."""
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
