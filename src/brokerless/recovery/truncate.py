"""Truncating a log to an offset (UnifiedLog.truncateTo), planned on a view of its directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.layout import checkpoints, file_names
from brokerless.recovery.file_changes import Changes
from brokerless.recovery.load_result import Loaded
from brokerless.recovery.producer_state import Snapshots
from brokerless.recovery.segment_replay import headers

if TYPE_CHECKING:
    from brokerless.layout.topic_config import TopicConfig

# The size of an entry: a timestamp and a relative offset.
_TIME_ENTRY = 12


def truncate(
    directory: str,
    config: TopicConfig,
    offset: int,
    *,
    log_start_offset: int,
    recovery_point: int,
    producers: _native.Producers | None,
    end_offset: int,
    now: int,
) -> Loaded:
    """Plan the deletion of everything from `offset` on. The log must be closed cleanly or recovered first.

    A batch that contains `offset` is deleted as a whole. If all segments begin above `offset`, an empty segment at
    `offset` replaces them.

    Args:
        directory: the partition's directory.
        config: the topic's settings.
        offset: the new log end offset, not above the present one.
        log_start_offset: the present log start offset.
        recovery_point: the present recovery point.
        producers: the present producer state, from which expired producers are missing; None: rebuild the state from
            snapshots and batches.
        end_offset: the present log end offset.
        now: ms since the epoch, for the expiry of producers.
    """
    changes = Changes(directory)
    why = f"truncated to offset {offset}"
    base_offsets = sorted(file_names.base_offset(name) for name in changes.names() if name.endswith(".log"))
    kept = [base for base in base_offsets if base <= offset]
    max_timestamp = None
    # Delete the last segment first, so that a crash leaves no gap.
    for base in reversed(base_offsets):
        if base > offset:
            changes.delete_segment(base, why)
    if kept:
        max_timestamp = _cut(changes, kept[-1], offset, why)
    else:
        kept = [offset]
        for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX):
            changes.write(file_names.segment_file(offset, kind), b"", why)
    known = (
        changes.read(checkpoints.LEADER_EPOCHS)
        if checkpoints.LEADER_EPOCHS in changes
        else checkpoints.format_leader_epochs([])
    )
    epochs = _native.LeaderEpochs(checkpoints.parse_leader_epochs(known))
    epochs.truncate_from_end(offset)
    changes.write(checkpoints.LEADER_EPOCHS, checkpoints.format_leader_epochs(epochs.entries()), why)
    start_offset = min(log_start_offset, offset)
    snapshots = Snapshots(changes, now=now, producer_id_expiration_ms=config.producer_id_expiration_ms)
    if producers is not None:
        snapshots.producers, snapshots.end_offset = producers, end_offset
    snapshots.rebuild(kept, start_offset, offset, is_legacy=config.message_format < 2)
    return Loaded(
        changes,
        kept,
        start_offset,
        offset,
        min(recovery_point, offset),
        epochs,
        snapshots.producers,
        losses=[],
        max_timestamp=max_timestamp,
    )


def _time_before(time_index: bytes, end: int) -> int:
    """Return the timestamp in the time index entry that ends at a position."""
    return int.from_bytes(time_index[end - _TIME_ENTRY : end - _TIME_ENTRY + 8], "big", signed=True)


def _cut(changes: Changes, base_offset: int, offset: int, why: str) -> tuple[int, int]:
    """Cut a segment at its first batch that reaches `offset`, and cut the index entries of that batch and later ones.

    Returns:
        The largest remaining timestamp, and the last offset of its batch. The time index may have lost its entry
        (LogSegment.readLargestTimestamp).
    """
    log = file_names.segment_file(base_offset, file_names.LOG)
    max_timestamp = (-1, base_offset)
    with changes.open(log) as file:
        # If no batch reaches the offset, it lies in a gap, and the segment stays as it is.
        cut = file.size() if offset > base_offset else 0
        for batch in headers(file) if cut else ():
            if batch["last_offset"] >= offset:
                cut = batch["position"]
                break
            if batch["max_timestamp"] > max_timestamp[0]:
                max_timestamp = (batch["max_timestamp"], batch["last_offset"])
            if batch["last_offset"] + 1 == offset:
                # The zeros of a preallocated segment may follow.
                cut = batch["position"] + batch["size"]
                break
    changes.truncate(log, cut, why)
    for kind, index in ((file_names.INDEX, _native.OffsetIndex), (file_names.TIMEINDEX, _native.TimeIndex)):
        name = file_names.segment_file(base_offset, kind)
        if name in changes:
            content = changes.read(name)
            length = index(content, base_offset).length_below(offset)
            while kind == file_names.TIMEINDEX and length and _time_before(content, length) > max_timestamp[0]:
                # No remaining batch has the time of this entry, and an entry with a lower time could not follow it.
                length -= _TIME_ENTRY
            changes.truncate(name, length, why)
    name = file_names.segment_file(base_offset, file_names.TXNINDEX)
    if name in changes:
        changes.truncate(name, _native.TransactionIndex(changes.read(name), base_offset).length_below(offset), why)
    return max_timestamp
