"""A partition's directory, written from what can be kept of a log, as a broker's recovery leaves it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError
from brokerless.healing.salvage import dropped_files
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.log_dir.copying import copy_file
from brokerless.recovery.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerless.healing.pieces import Piece
    from brokerless.healing.salvage import Salvage
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.log import Log
    from brokerless.recovery.load_result import Loaded

_BLOCK = 4 << 20


def write_partition(
    found: Salvage,
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
        found: what can be kept of the log.
        directory: the new directory; it may exist, and be empty.
        config: the topic's settings.
        topic_id: the topic's id, for a log that has none; None: not known.
        log_start_offset: as the checkpoint has it; None: it does not name the log.
        high_watermark: the same.
        first_dirty_offset: the cleaner's checkpoint; the same.
        links: link whole segments but the last in place of copying them, where the file system can.
        progress: called with the bytes that were written.

    Raises:
        CorruptRecordError: a broker would cut off some of the batches.
    """
    log = found.log
    if not storage.exists(directory):
        disk.make_directory(directory)
    _write_segments(found, directory, links=links, progress=progress)
    dropped = set(dropped_files(found))
    for name in sorted(storage.list_directory(log.path)):
        path = f"{log.path}/{name}"
        if path not in dropped and storage.is_file(path) and _is_kept(name, found.snapshots_from):
            copy_file(path, f"{directory}/{name}")
    metadata = f"{directory}/{checkpoints.PARTITION_METADATA}"
    if topic_id is not None and not storage.exists(metadata):
        disk.atomic_write(metadata, checkpoints.format_partition_metadata(topic_id))
    if found.known:
        disk.atomic_write(f"{directory}/{lost_offsets.FILE}", lost_offsets.content(found.known))
    if config.remote_storage_enable is False:
        # Nothing is before the first segment: the leader epochs begin there, as behind a deletion of a broker's.
        log_start_offset = max(log_start_offset or 0, min(found.segments, default=0))
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
            raise CorruptRecordError(f"a broker would cut off sound batches: {cut}; nothing was changed", path=log.path)
    loaded.changes.apply()
    disk.sync_directory(directory)
    return loaded


def _write_segments(found: Salvage, directory: str, *, links: bool, progress: Callable[[int], None]) -> None:
    for number, (base_offset, pieces) in enumerate(found.segments.items()):
        path = f"{directory}/{file_names.segment_file(base_offset, file_names.LOG)}"
        is_last = number == len(found.segments) - 1
        is_whole = len(pieces) == 1 and not (pieces[0].patches or pieces[0].content) and pieces[0].position == 0
        if is_whole and pieces[0].end_position == storage.size(pieces[0].path):
            # A recovery may cut the last segment, and then both names of a link.
            _take(pieces[0].path, path, progress, links=links and not is_last)
        else:
            _write_pieces(pieces, path, found.log, progress)


def _is_kept(name: str, snapshots_from: int) -> bool:
    """Return whether a file beside the batches is copied. What is not copied is made again."""
    if name.endswith((*file_names.STATES, ".tmp")) or name.startswith(file_names.SET_ASIDE):
        return False
    if name == lost_offsets.FILE or file_names.is_fatal(name):
        return False
    offset = file_names.live_base_offset(name)
    if offset is None:
        return True
    return name.endswith(".snapshot") and offset <= snapshots_from


def _take(path: str, to: str, progress: Callable[[int], None], *, links: bool) -> None:
    if links:
        # Not every file system has links.
        with contextlib.suppress(OSError):
            disk.link(path, to)
            # A killed broker may have left it unflushed, and nobody recovers it any more.
            with disk.open_existing(to) as output:
                output.sync()
            return
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
            own = [one for one in piece.patches if piece.position <= one[0] < piece.end_position]
            output.write_each((begin + at - piece.position, patch) for at, patch in own)
        times = [storage.modified_ns(piece.path) for piece in pieces if not piece.content] or [
            storage.modified_ns(segment.path) for segment in log.segments[-1:]
        ]
        if times:
            # The largest timestamp of a segment whose records have none.
            output.set_modified(max(times))
        output.sync()
