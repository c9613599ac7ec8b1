"""`readStream`: the stream readers around a `Follower`.

Since 4.2, PySpark asks a source to limit each batch, and announces `Trigger.AvailableNow`. Earlier versions only
request the latest offsets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from brokerless.notes import note
from brokerless.spark.source import records
from brokerless.spark.source.concise_errors import concise_errors
from brokerless.spark.stream.micro_batches import Follower

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    IS_ADMISSION_CONTROLLED = False
else:
    IS_ADMISSION_CONTROLLED = True

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from brokerless.spark.source.options import Options


class _UnlimitedReader(DataSourceStreamReader):
    """A reader without batch limits. Its first call checks options and columns: PySpark hides constructor errors."""

    def __init__(self, check: Callable[[], tuple[Options, pa.Schema]]) -> None:
        self._check = check

    @cached_property
    def _checked(self) -> tuple[Options, pa.Schema]:
        options, wanted = self._check()
        return options.for_stream(is_admission_controlled=IS_ADMISSION_CONTROLLED), wanted

    @property
    def _options(self) -> Options:
        return self._checked[0]

    @cached_property
    def _follower(self) -> Follower:
        return Follower(self._options)

    @concise_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        return dict(self._follower.initial())

    @concise_errors
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as it was before 4.2
        return dict(self._follower.latest({}, is_limited=False))

    @concise_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks: Sequence[InputPartition] = self._follower.plan(start, end)
        return tasks

    @concise_errors
    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a Task
        options, wanted = self._checked
        if options.fail_on_data_loss:
            yield from records.read(partition, options, wanted)
            return
        # Each log separately: if one has disappeared, the others are still read.
        for name, splits in groupby(partition.work, records.name_of):
            try:
                yield from records.read(replace(partition, work=tuple(splits)), options, wanted)
            except FileNotFoundError as error:
                # If the log still exists, a new plan finds its rows in other files.
                if self._follower.has(name):
                    raise
                note(f"some data may be lost (failOnDataLoss is false): {error}")


if IS_ADMISSION_CONTROLLED:

    class _LimitedReader(_UnlimitedReader, SupportsTriggerAvailableNow):
        @concise_errors
        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
            if most is not None:
                return ReadMaxRows(most)
            return ReadAllAvailable() if least is None else ReadMinRows(least)

        @concise_errors
        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override] # noqa: N802
            # Spark passes back our own limit, which may be two, or asks for everything available (`Trigger.Once`).
            return dict(self._follower.latest(start, is_limited=not isinstance(limit, ReadAllAvailable)))

        @concise_errors
        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return dict(self._follower.latest({}, is_limited=False))

        @concise_errors
        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._follower.freeze()


def stream_reader(check: Callable[[], tuple[Options, pa.Schema]]) -> DataSourceStreamReader:
    """Return a stream reader, which starts at the end of the logs unless the options give another start.

    Args:
        check: returns the options and the columns. The reader's methods raise the errors of `check`, and a ValueError
            for an option that a stream cannot have, at least not with this version of PySpark.
    """
    return (_LimitedReader if IS_ADMISSION_CONTROLLED else _UnlimitedReader)(check)
