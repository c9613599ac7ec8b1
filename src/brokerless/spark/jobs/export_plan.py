"""The plan of an export: its tasks, and its manifest before any task runs."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, cast

from brokerless.errors import CorruptRecordError, OffsetOutOfRangeError, UnsupportedFormatError
from brokerless.io.file_window import HEADER
from brokerless.io.remote import is_remote
from brokerless.io.runner import Threads
from brokerless.layout import file_names
from brokerless.log.offset_range import bounds
from brokerless.log.segment import NO_END
from brokerless.metadata.topic_settings import Cluster
from brokerless.notes import note
from brokerless.spark.jobs.manifest import ExportedPartition, ExportedTopic, Manifest
from brokerless.spark.source.decoded import Decoded
from brokerless.spark.source.records import chosen, end_of, name_of, pieces_of_all, start_of, target_of
from brokerless.spark.source.tasks import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.log.split import Split
    from brokerless.spark.jobs.export_files import FileWriter
    from brokerless.spark.source.options import Options, Partition
    from brokerless.spark.source.tasks import Task


def plan(options: Options, writer: FileWriter, target: int | None) -> tuple[list[Task[Split]], Manifest, FileWriter]:
    """Plan the tasks and the manifest of an export, and return both with the writer. Reads no record.

    The writer gets the schemas of what it decodes. They are read after the ends of the logs are known, as a registry
    stores a schema before a client uses it.

    Args:
        options: the options of the read.
        writer: the writer of the files.
        target: the number of bytes that a task reads; None to derive it from the options and this machine.

    Raises:
        OffsetOutOfRangeError: an offset does not exist, unless failOnDataLoss is false.
        ValueError: a topic or partition does not exist, or has no name; or what is decoded has no one type, or one
            that Parquet cannot hold.
    """
    logs = chosen(options)
    for log in logs:
        if log.topic is None:
            raise ValueError(f"{log.path} is of no topic: put it into a directory named <topic>-<partition>")
        file_names.check_topic_name(log.topic)
    target = target or target_of(logs, options)
    ends = {name_of(log): end_of(log, options) for log in logs}
    pieces = list(pieces_of_all(logs, options, target))
    cut = _cut_files([piece.work for piece in pieces], ends)
    # A log may grow after its given end offset, so the size of that file must not change the tasks.
    pieces = [piece._replace(size=0) if piece.work.path in cut else piece for piece in pieces]
    tasks = pack(pieces, target, options)
    if options.decode is not None:
        writer = replace(writer, decoded=Decoded.of(options.decode, lambda: {log.topic for log in logs}))
        writer.check()
    manifest = Manifest(
        form=writer.form,
        columns=writer.columns,
        id=uuid.uuid4().hex,
        plan=_digest(writer, tasks, cut, _segments(logs, [piece.work for piece in pieces], ends, cut)),
        target_bytes=target,
        tasks=len(tasks),
        topics=_topics(logs, [piece.work for piece in pieces], options),
        decoded=() if options.decode is None else tuple(options.decode.decoding.parts),
    )
    return tasks, manifest, writer


def _cut_files(splits: Sequence[Split], ends: Mapping[Partition, object]) -> set[str]:
    """Return the files that contain the end offset of a partition. These files may still grow, or be rolled."""
    return {split.path for split in splits if split.end_offset == ends[split.topic or "", split.partition or 0]}


def _segments(
    logs: Sequence[Log], splits: Sequence[Split], ends: Mapping[Partition, object], cut: set[str]
) -> list[object]:
    """Return values that change if the segments are rewritten, but not if logs grow after their end offsets."""
    positions: dict[str, set[int]] = {}
    for split in splits:
        positions.setdefault(split.path, set()).add(split.position)
    segments = [(segment, log) for log in logs for segment in log.segments if segment.path in positions]

    def state(found: tuple[Segment, Log]) -> object:
        segment, log = found
        if segment.path not in cut:
            return segment.path, segment.size, segment.modified
        return segment.path, _before_end(segment, positions[segment.path], cast("int", ends[name_of(log)]))

    # In an object store each segment takes one request or more.
    with Threads(16 if any(is_remote(path) for path in positions) else 1) as threads:
        return list(threads.map(state, segments))


def _before_end(segment: Segment, positions: set[int], end: int) -> list[object]:
    """Return the positions and headers (with CRCs) of batches below a given end offset, the last one included.

    If a cleaner removes anything from earlier batches, the position of the last batch changes.
    """
    if segment.base_offset >= end:
        return []
    try:
        with segment.open() as file:
            last = segment.batch_of(file, end - 1)
            wanted = {0, *positions, *(() if last is None else (last["position"],))}
            return [(position, bytes(file.read(position, HEADER))) for position in sorted(wanted)]
    except (CorruptRecordError, UnsupportedFormatError) as error:
        # The tasks will report the damage, or skip it.
        return [str(error)]


def _digest(writer: FileWriter, tasks: Sequence[Task[Split]], cut: set[str], segments: Sequence[object]) -> str:
    """Return a digest that is equal for plans that write the same files from the same segments."""
    digest = hashlib.sha256(repr((writer.form, writer.columns, writer.compression, writer.check_crcs)).encode())
    if writer.decoded is not None:
        chosen = writer.decoded.chosen
        digest.update(repr((chosen.decoding, chosen.schemas, writer.decoded.targets)).encode())
    for task in tasks:
        digest.update(b"task")
        for split in task.work:
            if split.path in cut:
                split = replace(split, end_position=0, following_offset=None, file_size=None, last_batch=None)  # noqa: PLW2901
                split = replace(split, limit_offset=None, ends_segment=True, missing=())  # noqa: PLW2901
            digest.update(repr(astuple(split)).encode())
    digest.update(repr(segments).encode())
    return digest.hexdigest()


def _topics(logs: Sequence[Log], splits: Sequence[Split], options: Options) -> dict[str, ExportedTopic]:
    """Return the known settings of the topics, and the exported range of each partition."""
    by_partition: dict[Partition, list[Split]] = {name_of(log): [] for log in logs}
    for split in splits:
        by_partition[split.topic or "", split.partition or 0].append(split)
    config = _Settings()
    topics: dict[str, ExportedTopic] = {}
    for log in logs:
        name, number = name_of(log)
        topic = topics.setdefault(name, ExportedTopic(topic_id=log.topic_id, configs=config.configs(log)))
        topic.partitions[number] = _extent(log, by_partition[name, number], options)
    return topics


class _Settings:
    """The settings of topics, read once per log directory."""

    def __init__(self) -> None:
        self._known: dict[str, Cluster | None] = {}

    def configs(self, log: Log) -> dict[str, str]:
        """Return the known settings of a topic, by Kafka's names."""
        root = log.root
        if root.path not in self._known:
            try:
                cluster = Cluster.of(root.path, root.node_id)
                # Read here, so that damage is reported once.
                self._known[root.path] = cluster if cluster.image is not None or cluster.bootstrap else None
            except (CorruptRecordError, UnsupportedFormatError) as error:
                note(f"settings of topics are not exported: {error}")
                self._known[root.path] = None
        known = self._known[root.path]
        return {} if known is None else known.config_of(log.topic or "").to_configs()


def _extent(log: Log, splits: Sequence[Split], options: Options) -> ExportedPartition:
    if splits:
        end = splits[-1].end_offset
        start, end = splits[0].start_offset, log.log_end_offset if end == NO_END else end
    else:
        start = end = _start_of_nothing(log, options)
    # A later epoch has no record below the end.
    epoch = max((known.epoch for known in log.leader_epochs if known.start_offset < end), default=-1)
    return ExportedPartition(start_offset=start, end_offset=end, leader_epoch=epoch)


def _start_of_nothing(log: Log, options: Options) -> int:
    """Return the start offset of a read that finds no records."""
    try:
        found = bounds(
            log.files,
            start_of(log, options),
            end_of(log, options),
            start_timestamp=None,
            end_timestamp=None,
            isolation_level=options.isolation_level,
            verify_transactions=False,
            skips=options.on_corrupt == "skip",
        )
    except OffsetOutOfRangeError as error:  # and failOnDataLoss is false
        return error.log_end_offset
    return found.start_offset
