"""Partitions as a write will have them: new ones, and copies of those that are there, with the parts appended.

Little is copied: segments that do not change are hard links, of the active one only what is small is copied, and parts
that are large, or that a segment begins with, become segments, in which only headers change.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.commit.parts import check_no_link
from brokerless.errors import AppendError, CorruptRecordError, UnsupportedFormatError
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.log.segment import segments_in
from brokerless.log_dir.copying import copy_file

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from brokerless.append.writer import Origin
    from brokerless.commit.parts import Encoding, Part
    from brokerless.layout.topic_config import TopicConfig

# A part is read so much at a time; more where a batch is larger.
_BLOCK = 8 << 20
# To change the headers of smaller batches costs no less than to copy them. As a multiple of a header.
_LEAST_BATCH = 64
# Parts of at least this share of a segment become one, or begin one together, and the active segment is not copied.
_LARGE = 4
# So much of a segment is copied for an epoch: a stream of small ones would copy a large segment each time.
_MOST_FOR_EPOCH = 64 << 20


def new_log(to: str, topic_id: str | None, config: TopicConfig) -> LogWriter:
    """Make a partition directory, and open it."""
    disk.make_directory(to)
    if topic_id is not None:
        disk.atomic_write(f"{to}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id))
    return LogWriter.open(to, config=config, is_clean=True, leader_epoch=0)


def copied_log(log: LogWriter, to: str, parts: Sequence[Part], *, is_epoch: bool) -> LogWriter:
    """Copy a closed log, and open the copy: what is appended there does not show in the log.

    Args:
        log: any.
        to: the directory to be made.
        parts: to be appended: by their size the copy begins a new segment, or goes on with the active one.
        is_epoch: there will be more soon: an active segment that is not small is not copied, either.
    """
    active = segments_in(log.directory)[-1]
    is_large = sum(part.size for part in parts) * _LARGE >= log.config.segment_bytes
    is_rolled = bool(active.size) and (is_large or (is_epoch and active.size > _MOST_FOR_EPOCH))
    disk.make_directory(to)
    for name in sorted(storage.list_directory(log.directory)):
        path = f"{log.directory}/{name}"
        if not storage.is_file(path):
            continue
        base_offset = file_names.live_base_offset(name)
        is_old = base_offset is not None and base_offset < active.base_offset
        # The active segment's indexes are written to even if its batches are not.
        if is_old or (is_rolled and name == file_names.segment_file(active.base_offset, file_names.LOG)):
            _link(path, f"{to}/{name}")
        else:
            copy_file(path, f"{to}/{name}")
    disk.sync_directory(to)
    copied = LogWriter.open(
        to,
        config=log.config,
        is_clean=True,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        leader_epoch=log.leader_epoch,
    )
    if is_rolled:
        copied.roll()
    return copied


def gone_directories(root: str, made: Collection[str], staged: Collection[str]) -> list[str]:
    """Return the partition directories that a commit takes away, and that no staged one replaces by its name.

    Args:
        root: the log directory.
        made: topics that are made anew.
        staged: the names of the partition directories that are put there.

    Raises:
        ValueError: one is a link.
    """
    gone = []
    for name in storage.list_subdirectories(root):
        with contextlib.suppress(ValueError):
            topic, partition, leftover = file_names.parse_directory_name(name)
            # Brokers take `t-00` for `t-0`.
            is_replaced = topic in made or f"{topic}-{partition}" in staged
            if is_replaced and not leftover and name not in staged:
                gone.append(name)
    for name in gone:
        check_no_link(f"{root}/{name}")
    return gone


def append_parts(log: LogWriter, parts: Sequence[Part], encoding: Encoding, *, keep: bool) -> None:
    """Append parts to a log, in this order; those that keep their offsets in that of these.

    Args:
        log: any.
        parts: for its partition.
        encoding: theirs.
        keep: False: each is removed once it is in the log. Its memory is then used for what comes behind it, and what
            the system has not written of it yet never needs to be.

    Raises:
        AppendError: a broker would refuse a batch.
        ValueError: offsets are not apart, or a part is not as its task wrote it.
    """
    if encoding.keep_offsets:
        parts = sorted(parts, key=lambda part: part.first_offset)
        end = log.log_end_offset
        for part in parts:
            if part.first_offset < end:
                raise ValueError(
                    f"offsets {part.first_offset} to {part.last_offset} of {part.topic}-{part.partition} are to come "
                    f"behind {end - 1}: each task's offsets of a partition have to be apart from the others', and "
                    "behind what is there (repartition by partition, then sortWithinPartitions)"
                )
            end = part.last_offset + 1
    origin: Origin = "replication" if encoding.keep_offsets else "client"
    for part in parts:
        if keep or not _take(log, part, origin):
            _append(log, part, origin)
            if not keep:
                # Of use, and not needed: a file system in the net keeps files that somebody still reads.
                with contextlib.suppress(OSError):
                    disk.remove(part.path)
        if encoding.transactional:
            marker = _native.end_transaction_marker(
                commit=True, producer_id=part.producer_id, producer_epoch=0, timestamp=now_ms()
            )
            log.append(marker, origin="coordinator")


def _take(log: LogWriter, part: Part, origin: Origin) -> bool:
    """Make a part a segment, if it is as large as one should be or the first of one; False: it is to be appended."""
    is_large = part.size * _LARGE >= log.config.segment_bytes
    if part.size > log.config.segment_bytes or not (is_large or log.active_size == 0):
        return False
    if _access(part.path) != _access(log.active_path):
        # Where tasks run as another user, a broker might not be allowed to write to their files, or to read them.
        return False
    try:
        headers = _headers(part)
        if headers is None:
            return False
        log._append_in_place(part.path, headers, origin=origin)
    except (AppendError, CorruptRecordError, UnsupportedFormatError):
        return False
    return True


def _access(path: str) -> tuple[int, int, int]:
    """Return who may do what with a file."""
    found = os.stat(path)
    return found.st_uid, found.st_gid, found.st_mode


def _headers(part: Part) -> bytes | None:
    """Return the headers of a part's batches alone, whose checksums hold; None: copying these costs no more."""
    headers, position = bytearray(), 0
    block = memoryview(bytearray(min(_BLOCK, part.size)))
    with _open(part) as file:
        while position < part.size:
            content = block[: part.size - position]
            if file.read_into(position, content) < len(content):
                return None
            alone, consumed = _native.headers_alone(content)
            headers += alone
            position += consumed
            if not consumed or len(headers) * _LEAST_BATCH > part.size:
                return None
    return bytes(headers)


def _open(part: Part) -> storage.File:
    file = storage.File(part.path)
    if file.size() != part.size:
        with file:
            raise ValueError(f"{part.path} has {file.size()} bytes, and its task wrote {part.size}")
    return file


def _append(log: LogWriter, part: Part, origin: Origin) -> None:
    position = 0
    # One buffer for all of it: fresh memory costs more than what is read into it.
    block = memoryview(bytearray(min(_BLOCK, part.size)))
    with _open(part) as file:
        while position < part.size:
            content = block[: part.size - position]
            if file.read_into(position, content) < len(content):
                raise ValueError(f"{part.path} is cut while it is read, at {position} or later")
            appended = log._append_encoded(content, origin=origin)
            if appended.duplicates:
                raise ValueError(f"producer id {part.producer_id} has written to {log.directory} before")
            position += appended.consumed
            if not appended.consumed:
                if len(content) == part.size - position:
                    raise ValueError(f"{part.path} ends in the middle of a batch")
                block = memoryview(bytearray(min(2 * len(block), part.size)))


def _link(path: str, to: str) -> None:
    try:
        disk.link(path, to)
    except OSError:
        copy_file(path, to)
