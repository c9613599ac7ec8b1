"""`readStream`: Spark's face of a `Follower`.

Since 4.2 PySpark asks a source how much a batch is to have, and tells it of `Trigger.AvailableNow`. Before, it only
asks how far there is something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from brokerless.spark import records
from brokerless.spark.following import Follower

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
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from brokerless.spark.options import Options


class _UnlimitedReader(DataSourceStreamReader):
    def __init__(self, options: Options, wanted: pa.Schema) -> None:
        self._options = options
        self._wanted = wanted
        self._follower = Follower(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        return dict(self._follower.initial())

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as it was before 4.2
        return dict(self._follower.latest({}, is_limited=False))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks: Sequence[InputPartition] = self._follower.plan(start, end)
        return tasks

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a Task
        return records.read(partition, self._options, self._wanted)


if IS_ADMISSION_CONTROLLED:

    class _LimitedReader(_UnlimitedReader, SupportsTriggerAvailableNow):
        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
            if most is not None:
                return ReadMaxRows(most)
            return ReadAllAvailable() if least is None else ReadMinRows(least)

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override] # noqa: N802
            # Spark hands back our own limit, which may be two, or asks for all that there is (`Trigger.Once`).
            return dict(self._follower.latest(start, is_limited=not isinstance(limit, ReadAllAvailable)))

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return dict(self._follower.latest({}, is_limited=False))

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._follower.freeze()


def stream_reader(options: Options, wanted: pa.Schema) -> DataSourceStreamReader:
    """Return a reader of what is appended to logs from now on, or from where the options say.

    Raises:
        ValueError: an option that a stream cannot have, or not with this version of PySpark.
    """
    checked = options.for_stream(is_admission_controlled=IS_ADMISSION_CONTROLLED)
    return (_LimitedReader if IS_ADMISSION_CONTROLLED else _UnlimitedReader)(checked, wanted)
