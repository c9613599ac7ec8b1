"""Execution of a repair's steps: it writes a partition directory as a broker's recovery would leave it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError
from brokerless.healing.pieces import Piece
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import file_names
from brokerless.log_dir.copying import copy_file
from brokerless.recovery.file_changes import Slice
from brokerless.recovery.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerless.healing.log_repair import LogRepair, Step
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.log import Log
    from brokerless.recovery.load_result import Loaded

_BLOCK = 4 << 20


def write_partition(
    repair: LogRepair,
    directory: str,
    *,
    config: TopicConfig,
    topic_id: str | None,
    log_start_offset: int | None,
    high_watermark: int | None,
    first_dirty_offset: int | None,
    links: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Loaded:
    """Write a partition's directory, durably.

    Args:
        repair: the plan.
        directory: the new directory; it may exist if it is empty.
        config: the topic's settings.
        topic_id: the topic's id, for a log that has none; None if not known.
        log_start_offset: the log start offset in the checkpoint; None if the checkpoint has no entry for the log.
        high_watermark: the high watermark in the checkpoint, or None.
        first_dirty_offset: the offset in the cleaner checkpoint, or None.
        links: hard-link whole segments, except the last, instead of copying them, if the file system supports it.
        progress: called with the number of bytes written.

    Raises:
        CorruptRecordError: a broker would cut off some of the written batches when it loads the partition.
    """
    if not storage.exists(directory):
        disk.make_directory(directory)
    # The last segment is copied: a recovery may truncate it, and a linked source file with it.
    last = file_names.segment_file(max(repair.segments, default=0), file_names.LOG)
    for step in (step for step in repair.steps(topic_id) if step.verb in ("keep", "write")):
        may_link = links and step.name.endswith(".log") and step.name != last
        _take(step, f"{directory}/{step.name}", repair.log, progress, links=may_link)
    if config.remote_storage_enable is False:
        # No records exist before the first segment, so the leader epochs begin there, as after a broker deletes
        # records.
        log_start_offset = max(log_start_offset or 0, min(repair.segments, default=0))
    loaded = load(
        directory,
        config,
        is_clean=False,
        recovery_point=0,
        log_start_offset=log_start_offset,
        now=now_ms(),
        high_watermark=high_watermark,
        first_dirty_offset=first_dirty_offset,
    )
    for cut in loaded.cuts:
        if cut.batches:
            what = f"nothing was changed, because a broker would cut off sound batches: {cut}"
            raise CorruptRecordError(what, path=repair.log.path)
    loaded.changes.apply()
    disk.sync_directory(directory)
    return loaded


def _take(step: Step, to: str, log: Log, progress: Callable[[int], None], *, links: bool) -> None:
    match step.to:
        case Slice():
            raise AssertionError(step)
        case bytes(content):
            disk.atomic_write(to, content)
        case str(path):
            _copy_file(path, to, progress, links=links)
        case [Piece(is_file=True) as piece]:
            _copy_file(piece.path, to, progress, links=links)
        case pieces:
            _write_pieces(pieces, to, log, progress)


def _copy_file(path: str, to: str, progress: Callable[[int], None], *, links: bool) -> None:
    if links:
        # Not every file system supports links.
        with contextlib.suppress(OSError):
            disk.link(path, to)
            try:
                # A killed broker may have left the file unflushed, and nothing recovers it any more.
                with disk.open_existing(to) as output:
                    output.sync()
                return
            except OSError:
                disk.remove(to)
    copy_file(path, to, progress)


def _copy(piece: Piece, output: disk.Output, progress: Callable[[int], None]) -> None:
    with storage.File(piece.path) as source:
        position = piece.position
        while position < piece.end_position:
            content = source.read(position, min(_BLOCK, piece.end_position - position))
            if not content:
                raise CorruptRecordError("became shorter while it was copied", path=piece.path)
            output.append(content)
            position += len(content)
            progress(len(content))


def _write_pieces(pieces: Sequence[Piece], path: str, log: Log, progress: Callable[[int], None]) -> None:
    with disk.create(path) as output:
        for piece in pieces:
            begin = output.size()
            if piece.content:
                output.append(piece.content)
            else:
                _copy(piece, output, progress)
            output.write_each((begin + at - piece.position, patch) for at, patch in piece.own_patches)
        times = [storage.modified_ns(piece.path) for piece in pieces if not piece.content] or [
            storage.modified_ns(segment.path) for segment in log.segments[-1:]
        ]
        if times:
            # The modification time is the largest timestamp of a segment without timestamps.
            output.set_modified(max(times))
        output.sync()
