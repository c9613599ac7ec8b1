"""The `restore` job: it writes an export back to a log directory, with the original offsets of its rows.

Tasks read the files of the export and write parts, as the sink's tasks do. One commit makes all topics visible at once.
The name of the staging directory is a digest of the restored data, so a second run finds the parts of the first run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections import defaultdict
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.arguments import some_or_all, unknown
from brokerless.errors import LogInUseError
from brokerless.io import disk, storage
from brokerless.io.chunking import in_shares
from brokerless.layout.file_names import check_writable_topic, chosen_topics
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.topic_config import TOPIC, TopicConfig
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.log_dir.restoration import Restoration
from brokerless.log_dir.topics import NewTopic
from brokerless.log_dir.writer import LogDirWriter
from brokerless.notes import collected, note
from brokerless.spark.jobs.export import PartitionReport
from brokerless.spark.jobs.export_directory import ExportDirectory
from brokerless.spark.jobs.formats import JSON_COLUMNS, RESTORED_COLUMNS
from brokerless.spark.jobs.manifest import MANIFEST, SUCCESS, Manifest
from brokerless.spark.jobs.restore_parts import PartMaker
from brokerless.spark.jobs.spark_tasks import SparkTasks
from brokerless.spark.sink.batch_sink import PATIENCE, PATIENCE_BEFORE
from brokerless.spark.source.option_values import local
from brokerless.staging.atomic_write import AtomicWrite
from brokerless.staging.parts import DIRECTORY, Encoding, Part, fingerprint
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from brokerless.log.defect import Defect
    from brokerless.spark.jobs.manifest import ExportedFile, ExportedTopic
    from brokerless.spark.jobs.restore_parts import Made
    from brokerless.staging.parts import Staging

# Bytes of exported files that a task reads.
_TARGET = 64 << 20


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """The result of a restore.

    Attributes:
        partitions: the partitions of the requested topics, sorted.
        tasks: the number of tasks that ran.
        skipped: the number of tasks that an earlier run had finished.
        lost: the ranges that the export left out (`onCorrupt=skip`), of all its topics.
        notes: information for the caller, one sentence per note.
    """

    partitions: tuple[PartitionReport, ...]
    tasks: int
    skipped: int
    lost: tuple[Defect, ...]
    notes: tuple[str, ...] = ()


def restore(
    spark: SparkSession,
    exported: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    compression: str = "none",
    batch_size: int = 16384,
    sole_replica: bool = False,
) -> RestoreReport:
    """Restore logs from an export, offset by offset.

    Rows keep their offsets, timestamps and leader epochs, and each log keeps its start and end offsets. All topics
    become visible at once. After a failure, run the same call again: it resumes the restore.

    Args:
        spark: a session, not one of Spark Connect.
        exported: the directory of a finished export, or its URL.
        output: a log directory that the driver and the executors share and no broker uses; created if it does not
            exist.
        topics: the topics to restore; None: all. An existing topic must be empty, or restored from this export.
        topic_ids: the ids of topics, if a cluster was started on the output directory and gave them ids. Other topics
            keep the exported ids.
        compression: the codec of the batches: "none", "gzip", "snappy", "lz4" or "zstd".
        batch_size: a batch is closed at this many bytes.
        sole_replica: see `LogDirWriter`.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        ValueError: the export is not finished, or lacks columns; a topic exists with other records, or is the
            controller's metadata log.

    Example: `restore(spark, "/exports/orders", "/restored/kafka-data")`
    """
    names = some_or_all("topics", topics)
    directory = ExportDirectory(storage.absolute(local(exported)))
    plan = _plan(directory, local(output), tuple(names or ()), dict(topic_ids or {}))
    with collected(forwards=True) as notes:
        restored = _restore(spark, directory, plan, compression, batch_size, sole_replica=sole_replica)
    return replace(restored, notes=tuple(notes))


def _restore(
    spark: SparkSession,
    directory: ExportDirectory,
    plan: _Plan,
    compression: str,
    batch_size: int,
    *,
    sole_replica: bool,
) -> RestoreReport:
    if places := len(plan.manifest.lost):
        note(
            f"the export {directory.path} left out the damaged ranges of its logs, in {counted(places, 'place')}, so "
            "the restored logs lack them too"
        )
    made: list[Made] = []
    tasks = 0
    if plan.missing:
        encoding = Encoding(compression=compression, batch_size=batch_size, keep_offsets=True)
        made, tasks = _run(spark, directory, plan, encoding, sole_replica=sole_replica)
    else:
        _roll_forward(plan.path, sole_replica=sole_replica)
    return RestoreReport(
        partitions=_reports(plan.path, plan.manifest, plan.topics, _seconds(made)),
        tasks=tasks,
        skipped=len(made) - tasks,
        lost=plan.manifest.lost,
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The plan of a restore, made after all checks.

    Attributes:
        path: the log directory.
        manifest: the manifest of the export.
        topics: the requested topics.
        missing: the requested topics that are not restored from this export yet.
        present: the log end offsets of the requested topics that exist, by partition.
        digests: the digest that identifies each topic's records among all exports.
        topic_ids: the ids that the caller gave for topics.
    """

    path: str
    manifest: Manifest
    topics: Mapping[str, ExportedTopic]
    missing: Mapping[str, ExportedTopic]
    present: Mapping[str, Mapping[int, int]]
    digests: Mapping[str, str]
    topic_ids: Mapping[str, str]

    @property
    def new_topics(self) -> dict[str, NewTopic]:
        """The topics to write. Topics that do not exist yet get the exported settings."""
        return {
            name: NewTopic(partitions=max(topic.partitions) + 1)
            if name in self.present
            else _as_it_was(topic, self.topic_ids.get(name))
            for name, topic in self.missing.items()
        }

    @property
    def restoration(self) -> Restoration:
        """The restore as the commit records it: the digest of each topic's export, and the start of each log."""
        starts = {
            (name, number): partition.start_offset
            for name, topic in self.missing.items()
            for number, partition in topic.partitions.items()
        }
        return Restoration({name: self.digests[name] for name in self.missing}, starts)


def _plan(directory: ExportDirectory, path: str, names: tuple[str, ...], topic_ids: Mapping[str, str]) -> _Plan:
    """Check the export and the log directory, and return the plan of the restore.

    Raises:
        ValueError: see `restore`.
    """
    manifest = _read(directory)
    wanted = chosen_topics(names, manifest.topics) if names else sorted(manifest.topics)
    for name in topic_ids:
        if name not in manifest.topics:
            raise unknown("topic", name, manifest.topics)
    disk.check_local(path)
    path = os.path.abspath(path)
    topics = {name: manifest.topics[name] for name in wanted}
    for name in topics:
        check_writable_topic(name, is_copy=True)
    digests = _digests(manifest, topics)
    present, done = _present(path, Restoration(digests, {}))
    for name, topic in topics.items():
        _check_present(path, name, topic, present, topic_ids.get(name), is_done=name in done)
    return _Plan(
        path=path,
        manifest=manifest,
        topics=topics,
        missing={name: topic for name, topic in topics.items() if name not in done},
        present=present,
        digests=digests,
        topic_ids=topic_ids,
    )


def _run(
    spark: SparkSession, directory: ExportDirectory, plan: _Plan, encoding: Encoding, *, sole_replica: bool
) -> tuple[list[Made], int]:
    """Write the missing topics and commit them; return the results of tasks, and the number of tasks that ran."""
    files = [file for file in plan.manifest.files if file.topic in plan.missing]
    _check_there(directory, files)
    new, restoration = plan.new_topics, plan.restoration
    attempt = _digest(restoration.digests, plan.path, new, plan.present, encoding)
    write = AtomicWrite(
        path=plan.path, topics=new, encoding=encoding, sole_replica=sole_replica, attempt=attempt, resumes=True
    )
    maker = PartMaker(
        directory=directory,
        form=plan.manifest.form,
        staging=write.begin(patience=PATIENCE_BEFORE),
        segment_bytes={name: _config(topic).segment_bytes for name, topic in plan.missing.items()},
    )
    made, tasks = _made(spark, maker, files)
    parts = [part for one in made for part in one.parts]
    write.commit([*parts, *_ends(maker.staging, plan.missing, parts)], restoration=restoration, patience=PATIENCE)
    return made, tasks


def _seconds(made: Iterable[Made]) -> dict[tuple[str, int], float]:
    """Return the time that tasks took for each partition."""
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    for one in made:
        for part, taken in zip(one.parts, one.seconds, strict=True):
            seconds[part.topic, part.partition] += taken
    return seconds


def _made(spark: SparkSession, maker: PartMaker, files: Sequence[ExportedFile]) -> tuple[list[Made], int]:
    """Make the parts of all files; return them, and the number of tasks that ran."""
    in_order = sorted(files, key=lambda file: (file.topic, file.partition, file.first_offset))
    work = list(enumerate(in_shares(in_order, lambda file: file.bytes, _TARGET)))
    made = maker.made_before(len(work))
    remaining = [numbered for numbered in work if numbered[0] not in made]
    for (number, _), result in zip(remaining, SparkTasks(spark).map(maker.make_numbered, remaining), strict=True):
        made[number] = result
    return list(made.values()), len(remaining)


def _read(directory: ExportDirectory) -> Manifest:
    if not directory.holds(MANIFEST):
        raise ValueError(f"{directory.path} is not an export: it has no {MANIFEST}; give the directory of an export")
    if not directory.holds(SUCCESS):
        raise ValueError(f"{directory.path} is not a finished export: it has no {SUCCESS}; run the export again")
    manifest = Manifest.read(directory)
    if not (manifest.is_complete and Manifest.is_whole(directory)):
        raise ValueError(
            f"{directory.path} is not a finished export: {SUCCESS} is not of this manifest; run the export again"
        )
    _check_kept(directory, manifest)
    by_partition: dict[tuple[str, int], list[ExportedFile]] = defaultdict(list)
    for file in manifest.files:
        by_partition[file.topic, file.partition].append(file)
    for found in by_partition.values():
        for one, following in pairwise(sorted(found, key=lambda file: file.first_offset)):
            if one.last_offset >= following.first_offset:
                raise ValueError(f"{one.name} and {following.name} have the same offsets")
    return manifest


def _check_kept(directory: ExportDirectory, manifest: Manifest) -> None:
    """Refuse an export without all that a record has."""
    if manifest.decoded:
        raise ValueError(
            f"{directory.path} has decoded {' and '.join(f'{part}s' for part in manifest.decoded)}, not the stored "
            "bytes, so records cannot be restored: restore an export without decode"
        )
    lacking = [name for name in RESTORED_COLUMNS if name not in manifest.columns]
    if lacking:
        raise ValueError(f"{directory.path} was exported without {', '.join(lacking)}: records cannot be restored")
    others = set(manifest.columns) - set(JSON_COLUMNS) if manifest.form == "json" else set()
    if others:
        raise ValueError(
            f"{directory.path} was exported with {', '.join(sorted(others))}: JSON lines with these are not read"
        )


def _check_there(directory: ExportDirectory, files: Iterable[ExportedFile]) -> None:
    """Refuse topics with missing files. List directories, because a query for each of many files is slow."""
    names = cache(lambda place: set(directory.names(place)))
    gone = [file for file in files if os.path.basename(file.name) not in names(os.path.dirname(file.name))]
    if gone:
        topics = ", ".join(map(repr, sorted({file.topic for file in gone})))
        raise ValueError(
            f"topic {topics} cannot be restored, because {counted(len(gone), 'file')} of the export "
            f"{'is' if len(gone) == 1 else 'are'} missing, such as {directory.path}/{gone[0].name}. To restore the "
            "other topics, name them"
        )


def _present(path: str, restoration: Restoration) -> tuple[dict[str, dict[int, int]], set[str]]:
    """Return the log end offsets of these topics in the log directory, and the topics restored already."""
    if not (storage.exists(path) and LogDirFiles.is_root(storage.list_directory(path))):
        return {}, set()
    directory = LogDirs(path)
    found: dict[str, dict[int, int]] = {}
    for log in directory.logs():
        if log.topic is not None and log.topic in restoration.digests:
            found.setdefault(log.topic, {})[log.partition or 0] = log.log_end_offset
    return found, restoration.done(directory)


def _roll_forward(path: str, *, sole_replica: bool) -> None:
    """Complete an interrupted commit. If another writer has the directory open, it has completed the commit already."""
    if LogDirFiles(path).journal is not None:
        with contextlib.suppress(LogInUseError):
            LogDirWriter(path, sole_replica=sole_replica).close()


def _check_present(
    path: str,
    name: str,
    topic: ExportedTopic,
    present: Mapping[str, Mapping[int, int]],
    topic_id: str | None,
    *,
    is_done: bool,
) -> None:
    """Refuse an existing topic whose records or id differ from a restore of this export.

    Raises:
        ValueError: the topic exists, and its records or its id differ.
    """
    wanted = dict.fromkeys(range(max(topic.partitions) + 1), 0)
    if is_done:
        wanted |= {number: partition.end_offset for number, partition in topic.partitions.items()}
        if present[name] != wanted:
            raise ValueError(
                f"topic {name!r} was restored to {path}, and written to since: restore it into another directory"
            )
    elif any(present.get(name, {}).values()):
        raise ValueError(f"topic {name!r} is in {path} already, with other records: restore it into another directory")
    if topic_id is not None and name in present:
        known = LogDirs(path).logs([name])[0].topic_id
        if known != topic_id:
            raise ValueError(f"topic {name!r} is in {path} already, with the id {known}, not {topic_id}")


def _digests(manifest: Manifest, topics: Iterable[str]) -> dict[str, str]:
    """Return a digest per topic that identifies its records among all exports."""
    files: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for file in manifest.files:
        described = (file.name, file.partition, file.rows, file.bytes, file.first_offset, file.last_offset)
        files[file.topic].append(described)
    return {name: _digest(manifest.id, name, manifest.topics[name], sorted(files[name])) for name in topics}


def _config(topic: ExportedTopic) -> TopicConfig:
    return TopicConfig.from_configs(topic.configs)


def _as_it_was(topic: ExportedTopic, topic_id: str | None) -> NewTopic:
    config = _config(topic)
    return NewTopic(
        partitions=max(topic.partitions) + 1,
        topic_id=topic_id or topic.topic_id,
        config={name: getattr(config, name) for name, source in config.sources.items() if source == TOPIC},
    )


def _digest(*what: object) -> str:
    """Return 32 hex digits that only runs with the same arguments share."""
    return hashlib.sha256(json.dumps(what, default=astuple, sort_keys=True).encode()).hexdigest()[:32]


def _ends(staging: Staging, topics: Mapping[str, ExportedTopic], parts: Iterable[Part]) -> Iterator[Part]:
    """Yield a part for each log that ends after its last row, because it ended in markers or removed records.

    The part holds an empty batch, as compaction leaves it, which ends at the old log end offset. So consumers'
    positions at the end of the log stay valid.
    """
    last: dict[tuple[str, int], int] = {}
    epochs: dict[tuple[str, int], int] = {}
    for part in parts:
        key = (part.topic, part.partition)
        last[key] = max(last.get(key, -1), part.last_offset)
        epochs[key] = max(epochs.get(key, 0), part.leader_epoch)
    for name, topic in topics.items():
        for number, partition in topic.partitions.items():
            offset = partition.end_offset - 1
            if offset > last.get((name, number), -1):
                # An epoch below that of a record would remove later epochs from the checkpoint.
                batch = _native.empty_batch(offset, max(partition.leader_epoch, epochs.get((name, number), 0)))
                path = f"{staging.path}/{DIRECTORY}/{uuid.uuid4().hex}"
                with disk.create(path) as output:
                    output.append(batch)
                yield Part(
                    path=path,
                    topic=name,
                    partition=number,
                    among=fingerprint(staging.partitions_of(name)),
                    size=len(batch),
                    first_offset=offset,
                    last_offset=offset,
                )


def _reports(
    path: str, manifest: Manifest, topics: Mapping[str, ExportedTopic], seconds: Mapping[tuple[str, int], float]
) -> tuple[PartitionReport, ...]:
    rows: dict[tuple[str, int], int] = defaultdict(int)
    for file in manifest.files:
        rows[file.topic, file.partition] += file.rows
    return tuple(
        PartitionReport(
            topic=log.topic or "",
            partition=log.partition or 0,
            rows=rows[log.topic or "", log.partition or 0],
            bytes=sum(segment.size for segment in log.segments),
            seconds=seconds.get((log.topic or "", log.partition or 0)),
        )
        for log in (LogDirs(path).logs(topics) if topics else ())
    )
