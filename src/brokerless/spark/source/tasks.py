"""Spark tasks: which logs are read, and pieces of them packed so that neither a task is huge nor their number.

A large partition is cut into several splits; many small ones share a task. Spark's own sources of files do the same.
"""

from __future__ import annotations

import gc
import os
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pyspark.sql.datasource import InputPartition

from brokerless.io import storage
from brokerless.layout import journal
from brokerless.layout.file_names import is_internal
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.spark.source.options import Options

# Twice Spark's maxPartitionBytes: a task takes some 20 ms besides what it reads, a tenth of the time of 128 MiB. More
# where there would be more tasks than a driver keeps track of with ease. Above 20 TB tasks take whole segments then,
# and planning reads no index. The smallest is what a core decodes in some milliseconds.
_MAX_BYTES = 256 << 20
_MANY_TASKS = 20_000
_MIN_BYTES = 4 << 20
# Opening a file costs about as much as reading this many bytes.
_OPEN_COST = 64 << 10

# How often a plan is made anew that a writer came in between.
_LOOKS = 3

T = TypeVar("T")


@dataclass
class Task(InputPartition, Generic[T]):
    """What one Spark task reads, one after the other."""

    work: tuple[T, ...]


class Piece(NamedTuple, Generic[T]):
    """Something to read, its bytes, and how many records it has at most (where that is asked for)."""

    work: T
    size: int
    records: int = 0


class SegmentOf(NamedTuple):
    """A whole segment, and whose it is; `is_clean`: its log directory was shut down cleanly."""

    topic: str | None
    partition: int | None
    segment: Segment
    is_clean: bool


def at_one_moment(options: Options, plan: Callable[[], T]) -> T:
    """Plan, and plan again if a commit came into force meanwhile: it would be in some partitions, and not in others.

    Where one comes after the other, what was planned after some looks counts.
    """
    for _ in range(_LOOKS):
        before = [journal.commit_token(path) for path in options.paths]
        planned = plan()
        if [journal.commit_token(path) for path in options.paths] == before:
            break
    return planned


def select(options: Options, *, all_replicas: bool = False, needs_all: bool = True) -> list[Log]:
    """Return the logs that subscribe, subscribePattern or assign name; without them all but the internal topics.

    A partition directory or file given as the path itself is read whatever its topic.

    Args:
        options: which.
        all_replicas: not only the one of each partition that is read.
        needs_all: what is named has to be there.

    Raises:
        ValueError: a topic or partition that is not there, if it has to be.
    """
    log_dir = LogDirs(*options.paths)
    if options.assigned is not None:
        named = sorted(set(options.assigned))
        if not needs_all:
            there = {(log.topic, log.partition) for log in log_dir.logs(all_replicas=True)}
            named = [partition for partition in named if partition in there]
        return [log for topic, number in named for log in log_dir.logs([topic], [number], all_replicas=all_replicas)]
    if options.topics is not None:
        topics = set(options.topics) if needs_all else set(options.topics) & set(log_dir.topics())
        return log_dir.logs(topics=topics, all_replicas=all_replicas)
    found = log_dir.logs(all_replicas=all_replicas)
    given = {storage.absolute(path) for path in options.paths}
    logs = [log for log in found if storage.absolute(log.path) in given or not is_internal(log.topic)]
    pattern = options.topic_pattern
    if pattern is None:
        return logs
    # Anywhere in the name, as Spark's Kafka source looks for it; a Kafka consumer has to match all of it.
    return [log for log in logs if log.topic is not None and pattern.search(log.topic)]


def target_bytes(sizes: Iterable[int], options: Options) -> int:
    """Return how much a task should read, given the sizes of all files: every core of this machine gets a few tasks.

    The number of the cluster's cores is not known where Spark plans; on a larger one the upper limit governs.
    """
    total = sum(size + _OPEN_COST for size in sizes)
    target = min(max(_MAX_BYTES, total // _MANY_TASKS), max(_MIN_BYTES, total // (2 * (os.cpu_count() or 1))))
    # A piece may be a tenth larger than it should be.
    return min(target, max(1, total * 10 // (options.min_partitions * 11))) if options.min_partitions else target


def pack(pieces: Sequence[Piece[T]], target: int, options: Options) -> list[Task[T]]:
    """Fill tasks with pieces in order; at least one task, since Spark would make one up with no pieces at all."""
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


def plan_segments(options: Options, *, all_replicas: bool = False) -> list[Task[SegmentOf]]:
    """Plan tasks of whole segments, in order; arguments and errors as of `select`."""
    logs = select(options, all_replicas=all_replicas)
    for log in logs if not all_replicas else ():
        # Which segments there should be no task can tell; that of a check says it.
        for said in log.contradictions():
            warnings.warn(said, stacklevel=2)
    pieces = [
        Piece(SegmentOf(log.topic, log.partition, segment, log.root.is_clean), segment.size)
        for log in logs
        for segment in log.segments
    ]
    return pack(pieces, target_bytes((piece.size for piece in pieces), options), options)


@cache
def keep_modules() -> None:
    """Let the garbage collections of one of Spark's workers pass over what it has imported.

    PySpark collects after all that a worker does, plan or task: 40 ms of it for these objects alone.
    """
    gc.freeze()
