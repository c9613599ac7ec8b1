"""How far a stream follows logs that grow: offsets by partition, from one trigger to the next.

The rules are those of Spark's Kafka source (KafkaMicroBatchStream), so that a query moves over with its options and its
checkpoint reads alike: partitions that appear are read from their start, offsets are shared out among partitions by how
much each has, and what is not there any more is data loss unless `failOnDataLoss` is false. A gap that compaction left
is none: offsets are not records.

Two rules are stricter. Kafka's source forgets a partition that is gone, and reads it from its start if it comes back;
here its offset is kept. And that a log is gone or shorter is told before Spark writes down how far the batch reaches:
what only seemed lost is not read again.

A query that ends in its first batch begins that batch anew: Spark asks once more where a new query starts, and knows
only how far the batch reached.

Nothing here needs Spark.
"""

from __future__ import annotations

import contextlib
import operator
import time
import warnings
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from brokerless.errors import CorruptRecordError, OffsetOutOfRangeError
from brokerless.log.offset_range import stable_end, visible_end
from brokerless.log.reader import LostRange
from brokerless.spark.source.records import check_partitions, name_of, pieces, start_of
from brokerless.spark.source.tasks import pack, select, target_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from brokerless.log.log import Log
    from brokerless.log.offset_range import EndOffset
    from brokerless.log.split import Missing, Split
    from brokerless.spark.source.options import Options, Partition
    from brokerless.spark.source.tasks import Task

    # As Spark keeps them in a query's checkpoint, and as its Kafka source writes them: topic, partition, offset.
    Offsets = Mapping[str, Mapping[str, int]]

_T = TypeVar("_T")

# How often, and after how many seconds, logs are looked at again that seem broken or lost.
_LOOKS = 5
_PAUSE = 0.1


class Follower:
    """Follows the logs that the options choose, while a query runs.

    Args:
        options: of a stream.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._initial: Offsets | None = None
        # How far the first batch reaches that was planned.
        self._first_end: Offsets | None = None
        self._target: dict[Partition, _End] | None = None
        self._reached: dict[Partition, int] = {}
        # Those that a batch of an earlier version left out.
        self._left_out: dict[Partition, int] = {}
        self._last_trigger = -float("inf")
        # Damage that was warned of.
        self._told: set[Missing] = set()

    def initial(self) -> Offsets:
        """Return where a new query starts: by default behind what is there.

        Raises:
            ValueError: a topic or partition that the options name is not there.
        """
        if self._initial is None:
            self._initial = _settled(
                lambda: _as_json({key: self._first(log) for key, log in _logs(self._options, needs_all=True).items()})
            )
        return self._initial

    def freeze(self) -> None:
        """Follow no further than to what is there now: the query ends with that (`Trigger.AvailableNow`)."""
        self._target = _settled(self._found)

    def latest(self, start: Offsets, *, is_limited: bool = True) -> Offsets:
        """Return how far the next batch reaches; `start` again: there is nothing to be read yet.

        Args:
            start: where the last one ended.
            is_limited: False: as far as there is something, whatever the options say of a batch's size.

        Raises:
            CorruptRecordError: the log is damaged at its end, or ends below where it was closed.
            DataLossError: a partition is gone, or ends before `start`, unless failOnDataLoss is false.
            ValueError: offsets by partition do not name exactly the partitions that a new query reads; or `start` is
                none.
        """
        # Before PySpark 4.2 a start is not given.
        begins = self._reached | _from_json(start)
        is_new = self._first_end is None and start == self._initial
        return _settled(lambda: self._latest(start, begins, is_new=is_new, is_limited=is_limited))

    def _latest(self, start: Offsets, begins: dict[Partition, int], *, is_new: bool, is_limited: bool) -> Offsets:
        ends = self._ends(begins, self._found() if self._target is None else self._frozen(self._target, begins))
        if is_new:
            self._check_named(ends.keys())
        if not is_limited:
            return _as_json(ends)
        if self._target is None and self._waits(begins, ends):
            return start
        most = self._options.max_offsets_per_trigger
        return _as_json(ends if most is None else _shared_out(self._begins(begins, ends), ends, most))

    def plan(self, start: Offsets, end: Offsets) -> list[Task[Split]]:
        """Plan the tasks that read from one batch's end to the next one's.

        Raises:
            DataLossError: records in between are not there any more, unless failOnDataLoss is false.
            ValueError: offsets by partition do not name exactly the partitions that a new query reads; or `start` or
                `end` is none.
        """
        begins, ends = _from_json(start), _from_json(end)
        is_first = start == self._initial and self._first_end in (None, end)
        if is_first:
            self._check_named(ends.keys())
            # What has appeared since an earlier try is another batch's, from its start.
            begins = {key: begin for key, begin in begins.items() if key in ends}
        tasks = _settled(lambda: self._plan(begins, ends, is_first=is_first))
        self._left_out |= {key: begins[key] for key in begins.keys() - ends.keys()}
        self._reached = self._left_out | ends
        if self._first_end is None:
            self._first_end = end
        return tasks

    def has(self, partition: Partition) -> bool:
        """Tell whether a partition is there; one that is gone for an instant is.

        Raises:
            FileNotFoundError: nothing is there, not even the path.
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

    def _plan(self, begins: dict[Partition, int], ends: dict[Partition, int], *, is_first: bool) -> list[Task[Split]]:
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
        return pack(work, target, self._options)

    def _begin(self, log: Log, begin: int | None, end: int, *, is_first: bool) -> int:
        """Return where a log is read on from; what is lost before that is told."""
        first = log.local_log_start_offset
        if begin is None:
            self._earliest(log)
            if first > 0:
                self._lost(f"{log.name} appeared, and starts at offset {first}, not 0: what was before is not known")
            return first
        if log.log_end_offset < begin:
            self._shorter(name_of(log), log.log_end_offset, begin)
        elif end < begin and not is_first:
            self._lost(
                f"{log.name} was read to {begin}, and the next batch in the checkpoint ends at {end}: the log was "
                f"shorter then, and what it has from {end} on would be read again"
            )
        elif begin < min(first, end):
            self._lost(
                f"{log.name} starts at offset {first}: retention took those from {begin} on before they were read"
            )
            return first
        return begin

    def _check_named(self, read: AbstractSet[Partition]) -> None:
        check_partitions("offsets", self._options.start.offsets, read)
        check_partitions("times", self._options.start.timestamps, read)

    def _first(self, log: Log) -> int:
        start = self._options.start
        for by_partition in (start.offsets, start.timestamps):
            # One that has appeared since the query was first started, or `_check_named` refuses it.
            if by_partition is not None and name_of(log) not in by_partition:
                return self._earliest(log)
        first = start_of(log, self._options)
        if isinstance(first, int):
            return first
        return self._earliest(log) if first == "earliest" else self._end(log)

    def _earliest(self, log: Log) -> int:
        """Return where a log starts here, if no records before that are missing.

        Raises:
            CorruptRecordError: there are some.
        """
        if log.missing_before is not None:
            self._lost_to_damage(log, log.missing_before)
        return log.local_log_start_offset

    def _found(self) -> dict[Partition, _End]:
        return {key: _End(self._end(log), log.log_end_offset) for key, log in _logs(self._options).items()}

    def _frozen(self, target: dict[Partition, _End], begins: dict[Partition, int]) -> dict[Partition, _End]:
        """Return the target; where a log was gone or shorter then, as it is now.

        It may have been so for an instant, and Spark asks where a new query starts only after it has set the target.
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
            # A checkpointed high watermark may be behind what was read when nobody held the log: that is still there.
            ends[key] = begin if end < begin <= log_end else end
        for key in sorted(begins.keys() - ends.keys()):
            self._gone(key, begins[key])
            ends[key] = begins[key]
        return ends

    def _end(self, log: Log) -> int:
        end = cast("EndOffset | None", self._options.end.offset)
        if end == "high-watermark" and log.high_watermark is None and (log.root.is_locked or log.root.high_watermarks):
            # A broker checkpoints that of a new partition some seconds after it has made it.
            return log.local_log_start_offset
        skips = self._options.skips
        is_committed = self._options.isolation_level == "read_committed"
        reached = stable_end(log, end, skips=skips) if is_committed else visible_end(log, end)
        if log.lost_end is not None and reached >= log.log_end_offset:
            self._lost_to_damage(log, log.lost_end)
            return log.log_end_offset
        return reached

    def _lost_to_damage(self, log: Log, missing: Missing) -> None:
        """Report records lost at either end of the log, where no task reads the damage.

        Raises:
            CorruptRecordError: the stream does not skip damage.
        """
        if not self._options.skips:
            raise CorruptRecordError(missing.reason, path=missing.path, position=missing.position)
        if missing not in self._told:
            self._told.add(missing)
            lost = LostRange(missing.path, missing.position, missing.start_offset, missing.end_offset, missing.reason)
            warnings.warn(f"{log.name}: {lost}", stacklevel=4)

    def _begins(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> dict[Partition, int]:
        """Return where each partition goes on; those that appeared, from their start."""
        fresh = ends.keys() - begins.keys()
        logs = _logs(self._options) if fresh else {}
        starts = {key: logs[key].local_log_start_offset for key in fresh if key in logs}
        return {key: begins.get(key, starts.get(key, 0)) for key in ends}

    def _waits(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> bool:
        """Tell whether there are fewer offsets than a batch is to have, and time to wait for more."""
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
        self._lost(f"{_name(key)} is gone, or no longer selected: what it held from offset {begin} on was not read")

    def _shorter(self, key: Partition, log_end: int, begin: int) -> None:
        self._lost(
            f"{_name(key)} ends at offset {log_end}, and is to be read from {begin} on: it was cut or made anew, or "
            "the start that was given is behind its end"
        )

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}; failOnDataLoss=false goes on without it")
        warnings.warn(f"some data may be lost (failOnDataLoss is false): {what}", stacklevel=3)


class _End(NamedTuple):
    """How far a partition is to be read now, and how far it goes."""

    offset: int
    log_end: int


class DataLossError(ValueError):
    """Records that a stream was to read are not there any more."""


def _settled(look: Callable[[], _T]) -> _T:
    """Look again where a look fails: logs are half there for an instant.

    So they are while a broker deletes a partition or moves it to another directory, and while a copy is brought up to
    date.
    """
    for _ in range(_LOOKS - 1):
        with contextlib.suppress(FileNotFoundError, CorruptRecordError, OffsetOutOfRangeError, ValueError):
            return look()
        time.sleep(_PAUSE)
    return look()


def _logs(options: Options, *, needs_all: bool = False) -> dict[Partition, Log]:
    logs: dict[Partition, Log] = {}
    for log in select(options, needs_all=needs_all):
        other = logs.setdefault(name_of(log), log)
        if other is not log:
            raise ValueError(
                f"a stream keeps where it is by topic and partition, and {other.path} and {log.path} have the same, or "
                "none: give it whole directories, <topic>-<partition>"
            )
    return logs


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _shared_out(begins: dict[Partition, int], ends: dict[Partition, int], most: int) -> dict[Partition, int]:
    """Share out at most about so many offsets among partitions, by how many each has; each that has some gets one."""
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
    """Take offsets from a checkpoint apart.

    Raises:
        ValueError: they are none.
    """
    try:
        return {
            (topic, int(partition)): operator.index(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"the query's checkpoint has {offsets} where offsets by partition belong, like {{'orders': {{'0': 23}}}}: "
            "it is damaged, or another source's; start the query with a new checkpointLocation"
        ) from None
