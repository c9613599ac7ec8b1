"""Spark tasks: the logs to read, and their pieces, packed into tasks of a suitable size.

A large partition is cut into several splits, and many small ones share a task. Spark's file sources do the same.
"""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pyspark.sql.datasource import InputPartition

from brokerless.io.cores import cores
from brokerless.layout import commit_journal
from brokerless.log.defect import Defect
from brokerless.log.split import Split
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.schemas.schema import SchemaVersion
    from brokerless.spark.source.options import Options

# Twice Spark's maxPartitionBytes: a task has some 20 ms of overhead, a tenth of the time of 128 MiB. Tasks grow further
# when their number would burden the driver. Above 20 TB, tasks read whole segments, and planning reads no index. The
# minimum takes a core some milliseconds to decode.
_MAX_BYTES = 256 << 20
_MANY_TASKS = 20_000
_MIN_BYTES = 4 << 20
# Opening a file costs about as much as reading this many bytes.
_OPEN_COST = 64 << 10

# The version of the JSON of a task.
_VERSION = 1
_SPLIT_FIELDS = [field.name for field in fields(Split)]

# The number of attempts at a plan without a commit in between.
_LOOKS = 3

T = TypeVar("T")


@dataclass
class Task(InputPartition, Generic[T]):
    """The pieces that one Spark task reads, in order."""

    work: tuple[T, ...]


@dataclass
class RecordsTask(Task["Split"]):
    """A task that reads records.

    It is pickled as a call of `records_task` with JSON. The reader in the JVM parses the same JSON
    (`rust/jvm/src/task.rs`).
    """

    check_crcs: bool

    def __reduce__(self) -> tuple[Callable[..., object], tuple[bytes, ...]]:
        splits = [{name: getattr(split, name) for name in _SPLIT_FIELDS} for split in self.work]
        task = {"version": _VERSION, "check_crcs": self.check_crcs, "splits": splits}
        return records_task, (json.dumps(task, default=bytes.hex).encode(),)


@dataclass
class DecodedTask(Task["Split"]):
    """A task that reads records and decodes them.

    Attributes:
        changes: the schemas that have changed since the source was loaded.
    """

    changes: tuple[SchemaVersion, ...]


@dataclass
class JvmDecodedTask(RecordsTask):
    """A task that reads records, and decodes them in the JVM.

    Attributes:
        decoding: how all tasks decode, in the first one: see `brokerless.spark.source.decoded.Decoded.for_jvm`.
    """

    decoding: bytes

    def __reduce__(self) -> tuple[Callable[..., object], tuple[bytes, ...]]:
        _, (task,) = super().__reduce__()
        return decoded_task, (task, self.decoding)


def decoded_task(_task: bytes, _decoding: bytes) -> None:
    """Refuse a task of the JVM in a Python worker."""
    raise ValueError("the task was planned for the JVM: driver and executors need the same jar")


def records_task(text: bytes) -> RecordsTask:
    """Return the task that the JSON describes."""
    task = json.loads(text)
    if task["version"] != _VERSION:
        raise ValueError(
            f"the task has version {task['version']}, expected {_VERSION}: "
            "driver and executors need the same brokerless"
        )
    return RecordsTask(tuple(_split(**split) for split in task["splits"]), task["check_crcs"])


def _split(
    *,
    entry: list[int] | None,
    last_batch: tuple[int, str] | None,
    aborted: list[list[int]],
    missing: list[list[Any]],
    **fields: Any,  # noqa: ANN401 - those of `Split` that JSON has as they are
) -> Split:
    return Split(
        entry=None if entry is None else (entry[0], entry[1]),
        last_batch=None if last_batch is None else (last_batch[0], bytes.fromhex(last_batch[1])),
        aborted=tuple((one[0], one[1], one[2]) for one in aborted),
        missing=tuple(Defect(*one) for one in missing),
        **fields,
    )


class WorkItem(NamedTuple, Generic[T]):
    """A part of a log, its bytes, and the maximum number of its records (0 unless they are limited)."""

    work: T
    size: int
    records: int = 0


class SegmentOf(NamedTuple):
    """A whole segment and its partition."""

    topic: str | None
    partition: int | None
    segment: Segment


def plan_consistently(options: Options, plan: Callable[[], T]) -> T:
    """Plan a read. If a commit took effect meanwhile, plan again, so that the plan has the commit in all partitions.

    If commits keep coming, return the third plan.
    """
    for _ in range(_LOOKS):
        before = [commit_journal.commit_token(path) for path in options.paths]
        planned = plan()
        if [commit_journal.commit_token(path) for path in options.paths] == before:
            break
    return planned


def select_logs(options: Options, *, needs_all: bool = True) -> list[Log]:
    """Return the logs that the options select from their paths, one replica of each: see `select_from`."""
    return select_from(LogDirs(*options.paths), options, needs_all=needs_all)


def select_from(log_dir: LogDirs, options: Options, *, all_replicas: bool = False, needs_all: bool = True) -> list[Log]:
    """Return the logs that subscribe, subscribePattern or assign select; by default, all but internal topics.

    A partition directory or file given as a path is read even if its topic is internal.

    Args:
        log_dir: the log directories.
        options: the options of the read.
        all_replicas: return every replica, not only the replica that a read uses.
        needs_all: require that every named topic and partition exists.

    Raises:
        ValueError: a named topic or partition does not exist, and `needs_all` is true.
    """
    if options.assigned is not None:
        named = sorted(set(options.assigned))
        if not needs_all:
            there = {(log.topic, log.partition) for log in log_dir.logs(all_replicas=True)}
            named = [partition for partition in named if partition in there]
        return [log for topic, number in named for log in log_dir.logs([topic], [number], all_replicas=all_replicas)]
    if options.topics is not None:
        topics = set(options.topics) if needs_all else set(options.topics) & set(log_dir.topics())
        return log_dir.logs(topics=topics, all_replicas=all_replicas) if topics else []
    logs = log_dir.readable(all_replicas=all_replicas)
    pattern = options.topic_pattern
    if pattern is None:
        return logs
    # The pattern may match any part of the name, as in Spark's Kafka source. A Kafka consumer matches the whole name.
    return [log for log in logs if log.topic is not None and pattern.search(log.topic)]


def chosen_topics(options: Options) -> set[str | None]:
    """Return the topics of a read: those that the options name, though they may not exist yet."""
    if options.topics is not None:
        return set(options.topics)
    if options.assigned is not None:
        return {topic for topic, _ in options.assigned}
    return {log.topic for log in select_logs(options)}


def target_bytes(sizes: Iterable[int], options: Options) -> int:
    """Return the bytes that a task should read, given the sizes of all files: a few tasks per core of this machine.

    The planning process does not know the number of the cluster's cores. On a large cluster the upper limit decides.
    """
    total = sum(size + _OPEN_COST for size in sizes)
    target = min(max(_MAX_BYTES, total // _MANY_TASKS), max(_MIN_BYTES, total // (2 * cores())))
    # A piece may be a tenth larger than it should be.
    return min(target, max(1, total * 10 // (options.min_partitions * 11))) if options.min_partitions else target


def pack(pieces: Sequence[WorkItem[T]], target: int, options: Options) -> list[Task[T]]:
    """Fill tasks with pieces in order. Return at least one task; otherwise Spark would make one without pieces."""
    if options.min_partitions:
        target = sum(piece.size + _OPEN_COST for piece in pieces) // options.min_partitions
    most = options.max_records_per_partition
    tasks: list[Task[T]] = []
    held: list[T] = []
    size = records = 0
    for piece in pieces:
        more = piece.size + _OPEN_COST
        if held and (size + more > target or (most and records + piece.records > most)):
            tasks.append(Task(tuple(held)))
            held, size, records = [], 0, 0
        held.append(piece.work)
        size, records = size + more, records + piece.records
    if held or not tasks:
        tasks.append(Task(tuple(held)))
    return tasks


def records_tasks(splits: Sequence[WorkItem[Split]], target: int, options: Options) -> Sequence[Task[Split]]:
    """Fill tasks that read records with splits: see `pack`."""
    packed = pack(splits, target, options)
    if options.decoded is None:
        return [RecordsTask(task.work, options.check_crcs) for task in packed]
    if options.decodes_in_jvm:
        topics = {split.topic for task in packed for split in task.work}
        decoding = options.decoded.for_jvm(topics)
        return [
            JvmDecodedTask(task.work, options.check_crcs, b"" if number else decoding)
            for number, task in enumerate(packed)
        ]
    changes = options.decoded.changes()
    return [DecodedTask(task.work, changes) for task in packed]


def plan_segments(options: Options) -> list[Task[SegmentOf]]:
    """Plan tasks of whole segments, in order; see `select_logs` for errors."""
    logs = select_logs(options)
    for log in logs:
        # A task cannot see that segments are missing.
        for said in log.files.contradictions():
            note(said)
    pieces = [
        WorkItem(SegmentOf(log.topic, log.partition, segment), segment.size) for log in logs for segment in log.segments
    ]
    return pack(pieces, target_bytes((piece.size for piece in pieces), options), options)


@cache
def keep_modules() -> None:
    """Exclude imported modules from the garbage collections of a Spark worker.

    PySpark runs a collection after every plan and task, which takes 40 ms for these objects alone.
    """
    gc.freeze()
