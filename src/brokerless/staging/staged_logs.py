"""The staged partitions of a write: new ones, and copies of existing ones, with the parts appended.

Little is copied. Old segments and a large active segment become hard links. A part that is large, or with which a
segment begins, becomes a segment itself, and only its headers are written.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.errors import AppendError, CorruptRecordError, UnsupportedFormatError
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.log.segment import segments_in
from brokerless.log_dir.copying import copy_file
from brokerless.staging.parts import check_no_link

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from brokerless.append.writer import Origin
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.staging.parts import Encoding, Part

# How much of a part is read at a time; more where a batch is larger.
_BLOCK = 8 << 20
# The least average batch, as a multiple of a header: to change the headers of smaller ones costs as much as a copy.
_LEAST_BATCH = 64
# Parts are large from 1/_LARGE of a segment's size on: they become or begin one, and the active segment is not copied.
_LARGE = 4
# The largest active segment that is copied for an epoch: a stream of small epochs would copy it each time.
_MOST_FOR_EPOCH = 64 << 20


def new_log(to: str, topic_id: str | None, config: TopicConfig) -> LogWriter:
    """Create a partition directory, and open it."""
    disk.make_directory(to)
    if topic_id is not None:
        disk.atomic_write(f"{to}/{checkpoints.PARTITION_METADATA}", checkpoints.format_partition_metadata(topic_id))
    return LogWriter.open(to, config=config, is_clean=True, leader_epoch=0)


def copied_log(log: LogWriter, to: str, parts: Sequence[Part], *, is_epoch: bool) -> LogWriter:
    """Copy a closed log, and open the copy. Appends to the copy leave the log unchanged.

    Args:
        log: the closed log.
        to: the directory of the copy, which is created.
        parts: the parts to be appended. If they are large, the copy begins a new segment.
        is_epoch: True for a streaming epoch. More commits will follow soon, so the copy begins a new segment unless the
            active segment is small.
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
        # The indexes of the active segment are written to, even if its batches are not.
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
    """Return the partition directories that a commit removes, and that no staged directory of the same name replaces.

    Args:
        root: the log directory.
        made: the topics that are created or overwritten.
        staged: the names of the staged partition directories.

    Raises:
        ValueError: a directory is a symbolic link.
    """
    gone = []
    for name in storage.list_subdirectories(root):
        with contextlib.suppress(ValueError):
            topic, partition, leftover = file_names.parse_directory_name(name)
            # Brokers treat `t-00` as `t-0`.
            is_replaced = topic in made or f"{topic}-{partition}" in staged
            if is_replaced and not leftover and name not in staged:
                gone.append(name)
    for name in gone:
        check_no_link(f"{root}/{name}")
    return gone


def append_parts(log: LogWriter, parts: Sequence[Part], encoding: Encoding, *, keep: bool) -> None:
    """Append parts to a log in this order, or in the order of their offsets if they keep them.

    Args:
        log: the log.
        parts: the parts for its partition.
        encoding: the encoding of the parts.
        keep: False to remove each part once it is appended. The system can then use its cache for the next parts, and
            does not have to write the removed part to the disk.

    Raises:
        AppendError: a broker would refuse a batch.
        ValueError: offsets overlap, or a part has changed since its task wrote it.
    """
    if encoding.keep_offsets:
        parts = sorted(parts, key=lambda part: part.first_offset)
        end = log.log_end_offset
        for part in parts:
            if part.first_offset < end:
                raise ValueError(
                    f"offsets {part.first_offset} to {part.last_offset} of {part.topic}-{part.partition} are not all "
                    f"above offset {end - 1}, which the log or another task already has: repartition the rows by "
                    "partition, then use sortWithinPartitions"
                )
            end = part.last_offset + 1
    origin: Origin = "replication" if encoding.keep_offsets else "client"
    for part in parts:
        if keep or not _append_in_place(log, part, origin):
            _append(log, part, origin)
            if not keep:
                # Not essential: a network file system may refuse to remove files that another host still reads.
                with contextlib.suppress(OSError):
                    disk.remove(part.path)
        if encoding.transactional:
            marker = _native.end_transaction_marker(
                commit=True, producer_id=part.producer_id, producer_epoch=0, timestamp=now_ms()
            )
            log.append(marker, origin="coordinator")


def _append_in_place(log: LogWriter, part: Part, origin: Origin) -> bool:
    """Make a part a segment if it is large, or if the active segment is empty. Return whether that was done."""
    is_large = part.size * _LARGE >= log.config.segment_bytes
    if part.size > log.config.segment_bytes or not (is_large or log.active_size == 0):
        return False
    if _access(part.path) != _access(log.active_path):
        # Tasks of another user may have created files that a broker may not write or read.
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
    """Return the owner and the permissions of a file."""
    found = os.stat(path)
    return found.st_uid, found.st_gid, found.st_mode


def _headers(part: Part) -> bytes | None:
    """Verify the batches of a part, and return only their headers; None if copying the whole part costs no more."""
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
            raise ValueError(f"{part.path} has {file.size()} bytes, but its task wrote {part.size}")
    return file


def _append(log: LogWriter, part: Part, origin: Origin) -> None:
    position = 0
    # One buffer for the whole part: new memory costs more than reading into it.
    block = memoryview(bytearray(min(_BLOCK, part.size)))
    with _open(part) as file:
        while position < part.size:
            content = block[: part.size - position]
            if file.read_into(position, content) < len(content):
                raise ValueError(f"{part.path} was truncated while it was read, at {position} or later")
            appended = log._append_encoded(content, origin=origin)
            if appended.duplicates:
                raise ValueError(f"producer id {part.producer_id} has already written to {log.directory}")
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
