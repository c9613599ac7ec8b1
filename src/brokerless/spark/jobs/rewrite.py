"""Compacting and converting the logs of a whole cluster, in place.

The driver owns the log directories: it locks them, plans, and swaps new segments in, partition by partition as they get
done. Tasks read the old segments and write the new ones, each attempt in a directory of its own beside the partition's,
so the log directories have to be seen by the driver and all executors under the same path. Until its swap a partition
is as it was, whatever fails.
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
from brokerless.spark.jobs.pool import SparkPool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from brokerless.append.operation import Outcome, PlanT, ReportT, RewriteOperation
    from brokerless.log_dir.cluster_metadata import Path
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
    """Compact logs in place, as a broker's cleaner does; return what went, partition by partition.

    Args:
        spark: a session.
        paths: log directories, or single partitions' directories; at least one.
        topics: of the log directories; at least one: nothing is changed that was not named.
        partitions: only these; none: all of the topics.
        dry_run: change nothing.
        jobs: how many tasks at a time; None: as many as Spark has cores for.
        task_bytes: a partition with more than so many bytes is divided among tasks of about as many.
        resume_file: a local file of the driver where done partitions are written down: the same call resumes after a
            failure, and does not do these again.
        broker_config: the broker's configuration file; see `brokerless.rewrite`.
        metadata: where the cluster's metadata log is, if it is in none of the paths.
        options: as of `brokerless.Compact`: roll, drop_null_keys, ignore_checkpoint, memory and others.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        ValueError: no topic is named, or an unknown one; records without a key would go; a directory is not to be seen
            on an executor.
        CorruptRecordError: a log is damaged. Some partitions may be done, the others are as they were.
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
    """Convert logs in place to another message format or codec; return what was done, partition by partition.

    Args:
        spark: as of `compact`, and so are the others.
        paths: likewise.
        topics: likewise.
        partitions: likewise.
        dry_run: likewise.
        jobs: likewise.
        task_bytes: likewise.
        resume_file: likewise.
        broker_config: likewise.
        metadata: likewise.
        options: as of `brokerless.Convert`: magic, compression, batch_size, drop and others.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        ValueError: it cannot be, or something would be lost that `drop` does not name; as of `compact`.
        CorruptRecordError: a log is damaged. Some partitions may be done, the others are as they were.
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
    """Do a verb's work on a cluster, and yield what was done to each partition as soon as it is."""
    pool: SparkPool[Outcome[ReportT]] = SparkPool(spark, jobs, progress)
    return rewrite_each(
        operation,
        [storage.absolute(os.fspath(path)) for path in paths],
        topics=topics,
        partitions=partitions,
        dry_run=dry_run,
        pool=pool,
        progress_file=progress_file,
        share=task_bytes,
        broker_config=broker_config,
        metadata=metadata,
    )


def progress_file_of(operation: RewriteOperation[Any, Any], resume_file: Path | None) -> ProgressFile | None:
    """Return the progress of this work in a file; None: there is no file."""
    if resume_file is None:
        return None
    options = {field.name: getattr(operation, field.name) for field in fields(operation)}  # type: ignore[arg-type] # a dataclass
    words = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in options.items()}
    return ProgressFile(os.fspath(resume_file), f"{operation.state_name} {json.dumps(words)}")
