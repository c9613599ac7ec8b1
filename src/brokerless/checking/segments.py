"""The check of a segment: its batches, its records, and its indexes compared with them.

The core checks a plain segment in one pass. For any other segment, `batch_columns.py` reads the headers as columns, and
defines and explains the findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.checking.finding import Finding
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.inspection.findings import exceeded_end, findings, missing_records
from brokerless.log.survey import Run, Survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless import _native
    from brokerless.checking.batch_check import BatchCheck
    from brokerless.inspection.findings import Count
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment


class SegmentReplay:
    """The producer state of a log, which a one-pass check of a segment advances."""

    def __init__(self, producers: _native.Producers | None) -> None:
        self.producers = producers
        self.is_done = producers is None

    def take(self, *, replays: bool) -> None:
        """Note that the segment's producers were replayed, and whether a broker would accept them at its start."""
        self.is_done = True
        self.producers = self.producers if replays else None


def check_segment(
    log: Log,
    segment: Segment,
    checks: BatchCheck,
    *,
    deep: bool,
    replay: SegmentReplay | None = None,
    count: Count | None = None,
) -> Iterator[Finding]:
    """Check a segment, and yield findings.

    Args:
        log: the log.
        segment: a segment of the log. The segments are checked in order.
        checks: the check of the log's batches.
        deep: whether to decode records.
        replay: receives the segment's producers.
        count: called with the file and each of its runs of sound batches.
    """
    yield from checks.start(segment)
    damaged: list[tuple[int, int | None]] = []
    columns = None
    try:
        plain = _plain(log, segment, checks, replay, count, deep=deep)
        if plain is None:
            from brokerless.checking.batch_columns import BatchColumns  # noqa: PLC0415 - Arrow is slow to import

            columns = BatchColumns(checks, segment)
            is_clean = log.root.is_clean
            defects = findings(segment, is_clean=is_clean, contents=columns, count=count, decodes=deep, log=log)
        else:
            defects = missing_records(segment, *plain, log)
        for found in defects:
            if found.path == segment.path:
                damaged.append((found.position, found.next_position))
            yield Finding.of(found, log.topic, log.partition)
    except (CorruptRecordError, UnsupportedFormatError) as error:
        yield Finding(
            code="batch-framing",
            topic=log.topic,
            partition=log.partition,
            path=segment.path,
            position=error.position,
            message=str(error.args[0]),
        )
    # An index entry that leads to damage may be right.
    yield from checks.finish([] if columns is None else columns.of_indexes(damaged))


def _plain(
    log: Log, segment: Segment, checks: BatchCheck, replay: SegmentReplay | None, count: Count | None, *, deep: bool
) -> tuple[Survey, int] | None:
    """Check a plain segment in one pass, and return its batches and its size. For any other segment, return None."""
    producers = None if replay is None else replay.producers
    with segment.open() as file:
        size, limit = file.size(), exceeded_end(segment, log)
        plain = checks.take_plain(segment, file, size, limit, decodes=deep, producers=producers)
        if plain is None:
            return None
        runs = [Run(0, size, segment.base_offset, plain.next_offset)] if size else []
        if count is not None:
            for run in runs:
                count(file, run)
    if replay is not None:
        replay.take(replays=plain.replays)
    return Survey([*runs], plain.next_offset), size
