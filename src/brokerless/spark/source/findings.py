"""View `findings`: one row per finding of `brokerless.check`; no rows if nothing is wrong.

All replicas in the paths are checked, not only the replica that a read uses. One task checks each log, in the order of
its segments. One more task checks the log directories' other files.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from brokerless.checking import check
from brokerless.checking.finding import SCHEMA as SCHEMA  # noqa: PLC0414 - the columns of this view
from brokerless.checking.finding import Finding
from brokerless.spark.source.tasks import Task, WorkItem, pack, select_from, target_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.checking.codes import Level
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.spark.source.options import Options

    Work = Finding | check.DirectoriesToCheck | check.LogToCheck

# The rows of one Arrow batch.
_ROWS = 4096


def default_columns(options: Options) -> Sequence[str]:  # noqa: ARG001 - those of `records` depend on them
    """Return all columns."""
    return SCHEMA.names


def plan(options: Options) -> list[Task[Work]]:
    """Plan the tasks: one for directories, unless topics are selected, and others for whole logs, the largest first."""

    def choose(directories: LogDirs) -> Sequence[Log]:
        return select_from(directories, options, all_replicas=True)

    planned = check.plan(options.paths, choose if options.chooses_topics else None)
    around: list[Work] = [*planned.findings, *planned.directories]
    # A task that starts late with the largest log would run alone.
    logs = sorted(planned.logs, key=lambda log: log.size, reverse=True)
    pieces: list[WorkItem[Work]] = [WorkItem(log, log.size) for log in logs]
    tasks = pack(pieces, target_bytes((log.size for log in logs), options), options)
    return [Task(tuple(around)), *tasks] if around else tasks


def read(task: Task[Work], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the findings of a task in batches of 4096 rows, because every Kafka batch may be damaged."""
    rows = (finding.to_row() for finding in check.quietly(_findings(task, options)))
    while piece := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema=wanted)


def _findings(task: Task[Work], options: Options) -> Iterator[Finding]:
    roots: dict[str, LogDirFiles] = {}
    level = cast("Level", options.level)
    for work in task.work:
        if isinstance(work, Finding):
            yield work
        elif isinstance(work, check.DirectoriesToCheck):
            yield from check.check_directories(work)
        else:
            yield from check.check_log(check.open_log(work, roots), work.config, level)
