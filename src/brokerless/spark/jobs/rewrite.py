"""The `compact` and `convert` jobs: rewrite the logs of a whole cluster in place.

The driver owns the log directories: it locks them, plans the tasks, and swaps the new segments of each finished
partition in. Tasks read the old segments and write the new ones. Each attempt writes to its own directory beside the
partition's, so the driver and all executors must see the log directories under the same path. Until its swap, a
partition is unchanged, whatever fails.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from brokerless.io import storage
from brokerless.rewriting.compact.compact import Compact
from brokerless.rewriting.convert import Convert
from brokerless.rewriting.progress_file import ProgressFile
from brokerless.rewriting.run import SHARE, rewrite_each
from brokerless.spark.jobs.spark_tasks import SparkTasks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from brokerless.append.operation import PlanT, ReportT, RewriteOperation
    from brokerless.metadata.topic_settings import Path
    from brokerless.rewriting.compact.report import CompactionReport
    from brokerless.rewriting.convert import ConvertReport
    from brokerless.rewriting.run import Progress, RewriteResult


def compact(
    spark: SparkSession,
    *paths: Path,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    dry_run: bool = False,
    jobs: int | None = None,
    task_bytes: int = SHARE,
    resume_file: Path | None = None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
    **options: Any,  # noqa: ANN401 - those of `Compact`
) -> list[RewriteResult[CompactionReport]]:
    """Compact logs in place, as a broker's log cleaner does, and return one result per partition.

    Args:
        spark: a session.
        paths: one or more log directories or partition directories.
        topics: one or more topics of the log directories; logs that are not named stay unchanged.
        partitions: the partition numbers to compact; empty: all partitions of the topics.
        dry_run: report the result, and change nothing.
        jobs: the number of tasks at a time; None: as many as Spark has cores.
        task_bytes: divide a larger partition among tasks of about this many bytes.
        resume_file: a local file of the driver that records finished partitions. After a failure, the same call
            resumes and skips them.
        broker_config: the broker's configuration file; see `brokerless.rewrite`.
        metadata: the directory of the cluster's metadata log, if none of the paths has it.
        options: the options of `brokerless.Compact`: roll, drop_null_keys, ignore_checkpoint, memory and others.

    Raises:
        LogInUseError: a broker, or another writer, has a directory open.
        ValueError: no topic is named, or an unknown one; records without a key would be dropped; or a directory is not
            visible on an executor.
        CorruptRecordError: a log is damaged. Some partitions may be finished, the others are unchanged.

        compact(spark, "/kafka/data1", "/kafka/data2", topics=["users"], roll=True, resume_file="done.jsonl")
    """
    operation = Compact(**options)
    done = progress_file_of(operation, resume_file)
    where = (paths, topics, partitions)
    return list(
        rewritten(
            spark,
            operation,
            *where,
            dry_run=dry_run,
            jobs=jobs,
            task_bytes=task_bytes,
            progress_file=done,
            broker_config=broker_config,
            metadata=metadata,
        )
    )


def convert(
    spark: SparkSession,
    *paths: Path,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    dry_run: bool = False,
    jobs: int | None = None,
    task_bytes: int = SHARE,
    resume_file: Path | None = None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
    **options: Any,  # noqa: ANN401 - those of `Convert`
) -> list[RewriteResult[ConvertReport]]:
    """Convert logs in place to another message format or codec, and return one result per partition.

    Args:
        spark: a session.
        paths: one or more log directories or partition directories.
        topics: one or more topics of the log directories; logs that are not named stay unchanged.
        partitions: the partition numbers to convert; empty: all partitions of the topics.
        dry_run: report the result, and change nothing.
        jobs: the number of tasks at a time; None: as many as Spark has cores.
        task_bytes: divide a larger partition among tasks of about this many bytes.
        resume_file: a local file of the driver that records finished partitions; see `compact`.
        broker_config: the broker's configuration file; see `brokerless.rewrite`.
        metadata: the directory of the cluster's metadata log, if none of the paths has it.
        options: the options of `brokerless.Convert`: magic, compression, batch_size, drop and others.

    Raises:
        LogInUseError: a broker, or another writer, has a directory open.
        ValueError: an option is invalid, or the format cannot hold data that `drop` does not name; no topic is named,
            or an unknown one; or a directory is not visible on an executor.
        CorruptRecordError: a log is damaged. Some partitions may be finished, the others are unchanged.

        convert(spark, "/kafka/data1", topics=["clicks"], compression="zstd")
    """
    operation = Convert(**options)
    done = progress_file_of(operation, resume_file)
    where = (paths, topics, partitions)
    return list(
        rewritten(
            spark,
            operation,
            *where,
            dry_run=dry_run,
            jobs=jobs,
            task_bytes=task_bytes,
            progress_file=done,
            broker_config=broker_config,
            metadata=metadata,
        )
    )


def rewritten(
    spark: SparkSession,
    operation: RewriteOperation[PlanT, ReportT],
    paths: Collection[Path],
    topics: Collection[str],
    partitions: Collection[int],
    *,
    dry_run: bool,
    jobs: int | None,
    progress_file: ProgressFile | None,
    task_bytes: int = SHARE,
    progress: Progress = lambda _name, _read: None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> Iterator[RewriteResult[ReportT]]:
    """Run an operation on a Spark cluster, and yield the result of each partition as soon as it is finished."""
    return rewrite_each(
        operation,
        [storage.absolute(os.fspath(path)) for path in paths],
        topics=topics,
        partitions=partitions,
        dry_run=dry_run,
        runner=SparkTasks(spark, jobs, progress),
        progress_file=progress_file,
        share=task_bytes,
        broker_config=broker_config,
        metadata=metadata,
    )


def progress_file_of(operation: RewriteOperation[Any, Any], resume_file: Path | None) -> ProgressFile | None:
    """Return the progress file of an operation; None: `resume_file` is None."""
    if resume_file is None:
        return None
    options = {field.name: getattr(operation, field.name) for field in fields(operation)}  # type: ignore[arg-type] # a dataclass
    words = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in options.items()}
    return ProgressFile(os.fspath(resume_file), f"{operation.state_name} {json.dumps(words)}")
