"""`Replica`: a directory of a partition; and the ranking of replicas, as a controller would choose a leader."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.layout import lost_offsets
from brokerless.log.segment import whole_batches
from brokerless.log.survey import Run, survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from brokerless.layout.checkpoints import LeaderEpoch
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log


class Replica(NamedTuple):
    """A directory of a partition.

    Attributes:
        log: the log.
        topic_id: the topic's id; None if the directory has no readable one.
        state: "", "future" or "stray".
    """

    log: Log
    topic_id: str | None
    state: str

    @property
    def node_id(self) -> int | None:
        """The id of the node that its disk belongs to; None if the disk does not name a node."""
        return node_id_of(self.log.root)

    def checkpointed(self, offsets: Mapping[tuple[str, int], int]) -> int | None:
        """Return the replica's offset in a checkpoint; None without one, and for stray replicas."""
        return None if self.state == "stray" else offsets.get((self.log.topic or "", self.log.partition or 0))


def node_id_of(root: LogDirFiles) -> int | None:
    """Return the id of the node that a disk belongs to; None if the disk names no node, or its ids are damaged."""
    with contextlib.suppress(CorruptRecordError):
        return root.node_id
    return None


def ranked(replicas: Iterable[Replica], known: Mapping[str, Any] | None = None) -> list[Replica]:
    """Return replicas, the best first: in-sync replicas before others, then by leader epoch.

    Among replicas with the same leader epoch, the order is:

    1. the replica with the highest log end offset;
    2. a replica without gaps that an earlier repair recorded;
    3. the leader;
    4. the replica with the most records.

    Replicas without a topic id come last, because they may be of an older topic.

    The in-sync replicas in the metadata are used unless a replica has a later leader epoch. A replica that has lost
    records is not treated as in sync. Such a replica has gaps, or damage at its end, or ends below the highest high
    watermark of all replicas.

    Args:
        replicas: the replicas.
        known: the partition in the metadata, with `isr` and `leader_epoch`; None if the metadata do not have it.
    """
    known = known or {}
    # If no replica is in sync, a controller elects an eligible leader replica, which has all committed records
    # (KIP-966).
    known_epoch, in_sync = known.get("leader_epoch"), set(known.get("isr") or known.get("elr") or ())
    assigned = set(known.get("replicas") or ())
    found = []
    for replica in replicas:
        epoch, start, end, committed, is_without_gaps, has_end, claim = -1, 0, -1, 0, False, False, None
        with contextlib.suppress(BrokerlessError, OSError):
            is_without_gaps = not lost_offsets.recorded(replica.log.path)
        with contextlib.suppress(BrokerlessError, OSError):
            start = replica.log.local_log_start_offset
            claim = replica.log.files.lone_claim
            end = replica.log.log_end_offset if claim is None else claim.end_offset
            epoch = last_epoch(replica.log, known_epoch)
            has_end = claim is None and replica.log.files.damage_at_end is None
        with contextlib.suppress(BrokerlessError, OSError):
            committed = replica.checkpointed(replica.log.root.high_watermarks) or 0
        found.append(_Ranked(replica, epoch, start, end, committed, is_without_gaps, has_end, claim is not None))
    of_topic = [one for one in found if one.replica.topic_id is not None]
    is_current = known_epoch is not None and all(one.epoch <= known_epoch for one in of_topic)
    committed = max((one.high_watermark for one in of_topic), default=0)

    def rank(one: _Ranked) -> tuple[object, ...]:
        replica = one.replica
        has_all = one.has_end and one.is_without_gaps and one.end >= committed
        is_in_sync = is_current and has_all and replica.state == "" and replica.node_id in in_sync
        is_leader = is_in_sync and replica.node_id == known.get("leader")
        return (
            *(replica.topic_id is not None, is_in_sync, one.epoch, one.end, one.is_without_gaps, one.has_claim),
            *(replica.state == "", is_leader, replica.node_id in assigned, -one.start),
        )

    return [one.replica for one in sorted(found, key=rank, reverse=True)]


class _Ranked(NamedTuple):
    """The criteria that rank a replica: see `ranked`."""

    replica: Replica
    epoch: int
    start: int
    end: int
    high_watermark: int
    is_without_gaps: bool
    has_end: bool
    has_claim: bool


def last_epoch(log: Log, known_epoch: int | None = None) -> int:
    """Return the leader epoch of the last sound batch; without batches, the epoch of the last leader; -1 if unknown.

    No checksum covers the epoch in a batch, so the leader epoch checkpoint is used if it can be read. Without the
    checkpoint, an epoch above the one in the metadata is ignored.

    Args:
        log: the log.
        known_epoch: the leader epoch of the partition in the metadata; None if the metadata do not have the partition.
    """
    entries: list[LeaderEpoch] = []
    with contextlib.suppress(CorruptRecordError, OSError):
        entries = log.leader_epochs
    if log.files.extent.next_offset <= log.log_start_offset:
        # If all batches were deleted, the checkpoint has one entry: that of the last leader
        # (LeaderEpochFileCache.truncateFromStart).
        return entries[-1].epoch if entries and entries[-1].start_offset <= log.log_end_offset else -1
    epoch = _epoch_of_batches(log)
    # A leader writes its entry before its first batch.
    by_file = [entry.epoch for entry in entries if entry.start_offset < log.log_end_offset]
    if epoch < 0:
        return epoch
    if by_file:
        return by_file[-1]
    return epoch if known_epoch is None else min(epoch, max(known_epoch, 0))


def _epoch_of_batches(log: Log) -> int:
    """Return the leader epoch in the header of the last sound batch; -1 without any."""
    for segment in reversed(log.segments):
        with contextlib.suppress(CorruptRecordError, UnsupportedFormatError), segment.open() as file:
            epoch, end = _last_epoch(segment.batches_since(file, log.log_end_offset - 1, check_crcs=True))
            if epoch >= 0 and end == log.log_end_offset:
                return epoch
        # Damage is near the end, or there is no batch: look for sound batches in the whole segment.
        with contextlib.suppress(CorruptRecordError, UnsupportedFormatError), segment.open() as file:
            size = file.size()
            found = survey(file, segment.path, segment.base_offset, segment.next_base_offset, size)
            runs = [part for part in found.parts if isinstance(part, Run)]
            if runs:
                last = whole_batches(file, runs[-1].position, runs[-1].end_position, check_crcs=True)
                return _last_epoch(batches for batches, _ in last)[0]
    return -1


def _last_epoch(headers: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Return the leader epoch of the last of some batches, and the offset after it; -1 if that batch is not sound."""
    epoch, end = -1, -1
    for batches in headers:
        if batches.num_rows:
            is_valid = batches["is_valid"][-1].as_py()
            # Batches of formats without leader epochs count as batches of epoch 0.
            epoch = max(batches["partition_leader_epoch"][-1].as_py() or 0, 0) if is_valid else -1
            end = (batches["last_offset"][-1].as_py() or 0) + 1
    return epoch, end
