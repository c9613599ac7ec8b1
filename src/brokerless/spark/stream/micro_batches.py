"""The progress of a stream over growing logs: offsets by partition, from one trigger to the next.

The rules are those of Spark's Kafka source (KafkaMicroBatchStream), so a query can be moved here with its options and
its checkpoint:

- New partitions are read from their start.
- A limited batch is divided among partitions in proportion to their unread offsets.
- Missing records are data loss, unless `failOnDataLoss` is false. A gap left by compaction is no data loss.

Two rules are stricter. First, Kafka's source forgets a partition that disappears, and reads it from its start if it
returns. Here, the offset of the partition is kept. Second, a missing or shorter log is reported before Spark records
the batch's end. So if the log was only missing for a moment, no record is read twice.

A query that fails in its first batch repeats that batch. Spark then knows only the batch's end, and requests the start
of a new query again.

Nothing here needs Spark.
"""

from __future__ import annotations

import contextlib
import operator
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from brokerless.errors import CorruptRecordError, OffsetOutOfRangeError
from brokerless.log.defect import Defect
from brokerless.log.offset_range import stable_end, visible_end
from brokerless.notes import note
from brokerless.spark.source.records import check_partitions, name_of, pieces, start_of
from brokerless.spark.source.tasks import records_tasks, select_logs, target_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from brokerless.log.defect import Defect
    from brokerless.log.log import Log
    from brokerless.log.offset_range import EndOffset
    from brokerless.log.split import Split
    from brokerless.spark.source.options import Options, Partition
    from brokerless.spark.source.tasks import Task

    # The form in a query's checkpoint, as Spark's Kafka source writes it: topic, partition, offset.
    Offsets = Mapping[str, Mapping[str, int]]

_T = TypeVar("_T")

# The number of attempts, and the seconds between them, before a log counts as damaged or lost.
_LOOKS = 5
_PAUSE = 0.1


class Follower:
    """The position of a running query in the logs that its options select.

    Args:
        options: the options of a stream.

    Its state, most of it offsets by partition:

    =============== ============================ =========================================================
    state           set by                       meaning
    =============== ============================ =========================================================
    _initial        the first `initial`          start offsets of a new query
    _first_end      the first `plan`             end of the first batch, which a failed query asks for again
    _frozen_ends    `freeze`                     ends that Trigger.AvailableNow stops at; None: none
    _planned_ends   each `plan`                  ends of the last batch, and of partitions it left out
    _left_out       each `plan`                  offsets of partitions that a batch of an earlier version left out
    _last_trigger   a batch that need not wait   time of the last batch, for `maxTriggerDelay`
    _reported       each loss to damage          damage that was reported already
    =============== ============================ =========================================================
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._initial: Offsets | None = None
        self._first_end: Offsets | None = None
        self._frozen_ends: dict[Partition, _End] | None = None
        self._planned_ends: dict[Partition, int] = {}
        self._left_out: dict[Partition, int] = {}
        self._last_trigger = -float("inf")
        self._reported: set[Defect] = set()

    def initial(self) -> Offsets:
        """Return the start offsets of a new query; by default the end of the logs.

        Raises:
            ValueError: a topic or partition that the options name does not exist.
        """
        if self._initial is None:
            self._initial = _settled(
                lambda: _as_json({key: self._first(log) for key, log in _logs(self._options, needs_all=True).items()})
            )
        return self._initial

    def freeze(self) -> None:
        """Stop the query at the current end of the logs (`Trigger.AvailableNow`)."""
        self._frozen_ends = _settled(self._found)

    def latest(self, start: Offsets, *, is_limited: bool = True) -> Offsets:
        """Return the end offsets of the next batch; `start` itself if there is nothing to read yet.

        Args:
            start: the end of the last batch.
            is_limited: whether the options limit the batch; if False, it reaches the end of the logs.

        Raises:
            CorruptRecordError: a log is damaged at its end, or ends below the offset at which it was closed.
            DataLossError: a partition is missing, or ends before `start`, unless failOnDataLoss is false.
            ValueError: offsets by partition do not name exactly the partitions that a new query reads; or `start` is
                malformed.
        """
        # PySpark passes no start before 4.2.
        begins = self._planned_ends | _from_json(start)
        is_new = self._first_end is None and start == self._initial
        return _settled(lambda: self._latest(start, begins, is_new=is_new, is_limited=is_limited))

    def _latest(self, start: Offsets, begins: dict[Partition, int], *, is_new: bool, is_limited: bool) -> Offsets:
        found = self._found() if self._frozen_ends is None else self._frozen(self._frozen_ends, begins)
        ends = self._ends(begins, found)
        if is_new:
            self._check_named(ends.keys())
        if not is_limited:
            return _as_json(ends)
        if self._frozen_ends is None and self._waits(begins, ends):
            return start
        most = self._options.max_offsets_per_trigger
        return _as_json(ends if most is None else _shared_out(self._begins(begins, ends), ends, most))

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Task[Split]]:
        """Plan the tasks of the batch from `start` to `end`.

        Raises:
            DataLossError: records in between no longer exist, unless failOnDataLoss is false.
            ValueError: offsets by partition do not name exactly the partitions that a new query reads; or `start` or
                `end` is malformed.
        """
        begins, ends = _from_json(start), _from_json(end)
        is_first = start == self._initial and self._first_end in (None, end)
        if is_first:
            self._check_named(ends.keys())
            # Partitions that appeared since an earlier attempt belong to a later batch, from their start.
            begins = {key: begin for key, begin in begins.items() if key in ends}
        tasks = _settled(lambda: self._plan(begins, ends, is_first=is_first))
        self._left_out |= {key: begins[key] for key in begins.keys() - ends.keys()}
        self._planned_ends = self._left_out | ends
        if self._first_end is None:
            self._first_end = end
        return tasks

    def has(self, partition: Partition) -> bool:
        """Return whether a partition exists. A brief absence is ignored.

        Raises:
            FileNotFoundError: the path does not exist.
            ValueError: the path is no log directory.
        """

        def find() -> None:
            if partition not in _logs(self._options):
                raise DataLossError(f"{_name(partition)} is gone")

        try:
            _settled(find)
        except DataLossError:
            return False
        return True

    def _plan(
        self, begins: dict[Partition, int], ends: dict[Partition, int], *, is_first: bool
    ) -> Sequence[Task[Split]]:
        logs = _logs(self._options)
        for key in sorted((begins.keys() | ends.keys()) - logs.keys()):
            begin = begins.get(key, self._left_out.get(key, 0))
            if key not in ends or begin < ends[key]:
                self._gone(key, begin)
        ranges = {}
        for key in sorted(ends.keys() & logs.keys()):
            begin = self._begin(logs[key], begins.get(key, self._left_out.get(key)), ends[key], is_first=is_first)
            if begin < ends[key]:
                ranges[key] = (begin, ends[key])
        target = target_bytes((segment.size for key in ranges for segment in logs[key].segments), self._options)
        work = [piece for key, (a, b) in ranges.items() for piece in pieces(logs[key], a, b, self._options, target)]
        return records_tasks(work, target, self._options)

    def _begin(self, log: Log, begin: int | None, end: int, *, is_first: bool) -> int:
        """Return the start offset of a log in this batch, and report offsets lost before it."""
        first = log.local_log_start_offset
        if begin is None:
            self._earliest(log)
            if first > 0:
                self._lost(
                    f"{log.name} is new, and starts at offset {first}, not at 0: it is not known whether it had "
                    "earlier records"
                )
            return first
        if log.log_end_offset < begin:
            self._shorter(name_of(log), log.log_end_offset, begin)
        elif end < begin and not is_first:
            self._lost(
                f"{log.name} was read up to offset {begin}, but the next batch in the checkpoint ends at {end}: the "
                f"log was shorter at that time, and its records from {end} on would be read again"
            )
        elif begin < min(first, end):
            self._lost(
                f"{log.name} starts at offset {first}: retention deleted records from {begin} on before they were read"
            )
            return first
        return begin

    def _check_named(self, read: AbstractSet[Partition]) -> None:
        check_partitions("offsets", self._options.start.offsets, read)
        check_partitions("times", self._options.start.timestamps, read)

    def _first(self, log: Log) -> int:
        start = self._options.start
        for by_partition in (start.offsets, start.timestamps):
            # The partition appeared after the query's first start; otherwise `_check_named` refuses it.
            if by_partition is not None and name_of(log) not in by_partition:
                return self._earliest(log)
        first = start_of(log, self._options)
        if isinstance(first, int):
            return first
        return self._earliest(log) if first == "earliest" else self._end(log)

    def _earliest(self, log: Log) -> int:
        """Return the first local offset of a log, if no records before it are missing.

        Raises:
            CorruptRecordError: records are missing.
        """
        if log.files.lost_before is not None:
            self._lost_to_damage(log, log.files.lost_before)
        return log.local_log_start_offset

    def _found(self) -> dict[Partition, _End]:
        return {key: _End(self._end(log), log.log_end_offset) for key, log in _logs(self._options).items()}

    def _frozen(self, target: dict[Partition, _End], begins: dict[Partition, int]) -> dict[Partition, _End]:
        """Return the ends of Trigger.AvailableNow, updated for logs that were missing or shorter at that time.

        A log may have been missing for a moment. And the start offsets of a new query may be beyond the ends, because
        Spark requests them after it has set the ends.
        """
        doubtful = [key for key, begin in begins.items() if key not in target or target[key].log_end < begin]
        if doubtful:
            found = self._found()
            target |= {key: found[key] for key in doubtful if key in found}
        return target

    def _ends(self, begins: dict[Partition, int], found: dict[Partition, _End]) -> dict[Partition, int]:
        ends = {}
        for key, (end, log_end) in found.items():
            begin = begins.get(key, 0)
            if log_end < begin:
                self._shorter(key, log_end, begin)
            # A checkpointed high watermark may be below offsets read while no broker ran: these records still exist.
            ends[key] = begin if end < begin <= log_end else end
        for key in sorted(begins.keys() - ends.keys()):
            self._gone(key, begins[key])
            ends[key] = begins[key]
        return ends

    def _end(self, log: Log) -> int:
        end = cast("EndOffset | None", self._options.end.offset)
        if end == "high-watermark" and log.high_watermark is None and (log.root.is_locked or log.root.high_watermarks):
            # A broker checkpoints a new partition's high watermark some seconds after creating it.
            return log.local_log_start_offset
        skips = self._options.skips
        is_committed = self._options.isolation_level == "read_committed"
        reached = stable_end(log.files, end, skips=skips) if is_committed else visible_end(log.files, end)
        if log.files.lost_at_end is not None and reached >= log.log_end_offset:
            self._lost_to_damage(log, log.files.lost_at_end)
            return log.log_end_offset
        return reached

    def _lost_to_damage(self, log: Log, missing: Defect) -> None:
        """Report records lost at either end of the log, where no task reads the damage.

        Raises:
            CorruptRecordError: the stream does not skip damage.
        """
        if not self._options.skips:
            raise CorruptRecordError(missing.reason, path=missing.path, position=missing.position)
        if missing not in self._reported:
            self._reported.add(missing)
            note(f"{log.name}: {missing}")

    def _begins(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> dict[Partition, int]:
        """Return the next offset of each partition; a new partition begins at its start."""
        fresh = ends.keys() - begins.keys()
        logs = _logs(self._options) if fresh else {}
        starts = {key: logs[key].local_log_start_offset for key in fresh if key in logs}
        return {key: begins.get(key, starts.get(key, 0)) for key in ends}

    def _waits(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> bool:
        """Return whether to wait, because a batch would have too few offsets and the maximum delay has not passed."""
        least, now = self._options.min_offsets_per_trigger, time.monotonic()
        if least is None:
            return False
        known = self._begins(begins, ends)
        fresh = sum(end - known[key] for key, end in ends.items())
        if fresh < least and now - self._last_trigger < self._options.max_trigger_delay:
            return True
        self._last_trigger = now
        return False

    def _gone(self, key: Partition, begin: int) -> None:
        self._lost(f"{_name(key)} is missing, or no longer selected: its records from offset {begin} on were not read")

    def _shorter(self, key: Partition, log_end: int, begin: int) -> None:
        self._lost(
            f"{_name(key)} ends at offset {log_end}, but the next batch starts at {begin}: it was truncated or "
            "recreated, or the given start is above its end"
        )

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false continues without it")
        note(f"some data may be lost (failOnDataLoss is false): {what}")


class _End(NamedTuple):
    """The offset up to which a partition is read now, and its log end offset."""

    offset: int
    log_end: int


class DataLossError(ValueError):
    """Records that a stream has not read yet no longer exist."""


def _settled(look: Callable[[], _T]) -> _T:
    """Retry a read that fails, because logs can be inconsistent for a moment.

    This happens while a broker deletes a partition or moves it to another directory, and while a copy is updated.
    """
    for _ in range(_LOOKS - 1):
        with contextlib.suppress(FileNotFoundError, CorruptRecordError, OffsetOutOfRangeError, ValueError):
            return look()
        time.sleep(_PAUSE)
    return look()


def _logs(options: Options, *, needs_all: bool = False) -> dict[Partition, Log]:
    logs: dict[Partition, Log] = {}
    for log in select_logs(options, needs_all=needs_all):
        other = logs.setdefault(name_of(log), log)
        if other is not log:
            raise ValueError(
                f"a stream stores its position by topic and partition, but {other.path} and {log.path} have the same "
                "topic and partition, or none: give the stream directories with names of the form <topic>-<partition>"
            )
    return logs


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _shared_out(begins: dict[Partition, int], ends: dict[Partition, int], most: int) -> dict[Partition, int]:
    """Divide about `most` offsets among partitions by their unread offsets; each partition that has some gets one."""
    sizes = {key: max(0, end - begins[key]) for key, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return ends
    return {
        key: begins[key] + min(size, max(1, most * size // total)) if size else ends[key] for key, size in sizes.items()
    }


def _as_json(offsets: Mapping[Partition, int]) -> Offsets:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _from_json(offsets: Offsets) -> dict[Partition, int]:
    """Parse the offsets of a checkpoint.

    Raises:
        ValueError: the offsets are malformed.
    """
    try:
        return {
            (topic, int(partition)): operator.index(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"the query's checkpoint has {offsets} in place of offsets by partition, like {{'orders': {{'0': 23}}}}. "
            "It is damaged, or belongs to another source: start the query with a new checkpointLocation"
        ) from None
