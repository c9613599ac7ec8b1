"""The `rewrite` job: an operation that rewrites the logs of a whole cluster in place.

The driver owns the log directories: it locks them, plans the tasks, and swaps in the new segments of each finished
partition. Tasks read the old segments and write the new ones. Each attempt writes to its own directory beside the
partition's, so the driver and all executors must see the log directories under the same path. If a task fails before
the swap, its partition stays unchanged.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from brokerless.arguments import check_paths, some_or_all
from brokerless.io import storage
from brokerless.rewriting.erase import Erasure
from brokerless.rewriting.progress_file import ProgressFile
from brokerless.rewriting.run import SHARE, rewrite_each
from brokerless.spark.jobs.spark_tasks import SparkTasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from brokerless.append.operation import PlanT, ReportT, RewriteOperation
    from brokerless.metadata.topic_settings import Path
    from brokerless.rewriting.run import Progress, RewriteResult


def rewrite(
    spark: SparkSession,
    operation: RewriteOperation[PlanT, ReportT],
    *paths: Path,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    dry_run: bool = False,
    jobs: int | None = None,
    task_bytes: int = SHARE,
    resume_file: Path | None = None,
    progress: Progress = lambda _name, _read: None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> list[RewriteResult[ReportT]]:
    """Run an operation on logs in place, as `brokerless.rewrite` does, and return one result per partition.

    Args:
        spark: a session, not one of Spark Connect.
        operation: `Compaction`, `Conversion`, `Erasure`, `Retention` or `Truncation`, with its options.
        paths: one or more log directories or partition directories.
        topics: one or more topics of the log directories; logs that are not named stay unchanged.
        partitions: the partition numbers to rewrite; None: all partitions of the topics.
        dry_run: report the result, and change nothing.
        jobs: the number of tasks at a time; None: as many as Spark has cores.
        task_bytes: divide a larger partition among tasks of about this many bytes, if the operation can be divided:
            `Compaction` and `Conversion`.
        resume_file: a local file of the driver that records finished partitions. After a failure, the same call
            resumes and skips them.
        progress: called on the driver when a task has finished, with a partition's name and the number of bytes that
            the task read.
        broker_config: the broker's configuration file; see `brokerless.rewrite`.
        metadata: the directory of the cluster's metadata log, if none of the paths has it.

    Raises:
        LogInUseError: a broker, or another writer, has a directory open.
        ValueError: no topic is named, or a named topic is unknown; the operation refuses a log; or a directory is not
            visible on an executor.
        CorruptRecordError: a log is damaged. Some partitions may be finished, the others are unchanged.

    Example: `rewrite(spark, Compaction(roll=True), "/data1", "/data2", topics=["users"], resume_file="done.jsonl")`
    """
    check_paths("rewrite", paths)
    return list(
        rewrite_each(
            operation,
            [storage.absolute(os.fspath(path)) for path in paths],
            topics=some_or_all("topics", topics),
            partitions=some_or_all("partitions", partitions),
            dry_run=dry_run,
            progress=progress,
            runner=SparkTasks(spark, jobs, progress),
            progress_file=None if resume_file is None else progress_file_of(operation, resume_file),
            share=task_bytes,
            broker_config=broker_config,
            metadata=metadata,
        )
    )


def progress_file_of(operation: RewriteOperation[Any, Any], resume_file: Path) -> ProgressFile:
    """Return the progress file of an operation."""
    options = {field.name: getattr(operation, field.name) for field in fields(operation)}  # type: ignore[arg-type] # a dataclass
    if isinstance(operation, Erasure):
        # Keys may be many, and personal data.
        options |= dict.fromkeys(("keys", "key_prefixes", "headers"), operation.digest())
    # Sets have no order.
    return ProgressFile(os.fspath(resume_file), f"{operation.state_name} {json.dumps(options, default=sorted)}")
