"""The last batch of a log, where only its own base offset says where it belongs: no checksum covers that."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.layout import lost_offsets
from brokerless.log.segment import whole_batches

if TYPE_CHECKING:
    from brokerless.log.log import Log


class LoneClaim(NamedTuple):
    """A last batch that nothing backs.

    Attributes:
        base_offset: the first offset that it claims.
        end_offset: the offset after the batch before it.
        position: where it lies in the last segment.
        expected_end: the highest offset in between that another file gives as an end of the log; None: no file does.
            Then the batch was moved: no log ends amid a gap.
    """

    base_offset: int
    end_offset: int
    position: int
    expected_end: int | None


def lone_claim(log: Log) -> LoneClaim | None:
    """Return the last batch if offsets are missing before it and no other file knows of its own.

    A cleaner leaves the active segment alone, but a follower's has what the leader's cleaner left: in a compacted log,
    the batch may well be right. What other files know is where a batch ended: a batch that begins below and ends above
    contradicts them.
    """
    if not log.segments:
        return None
    known = [log.recovery_point or 0, log.high_watermark or 0, *log.snapshots[-1:]]
    epochs: list[int] = []
    with suppress(CorruptRecordError, OSError):
        epochs = [entry.start_offset for entry in log.leader_epochs[-1:]]
    segment = log.segments[-1]
    end, last = segment.base_offset, None
    with suppress(BrokerlessError, OSError), segment.open() as file:
        extent = segment.extent(file)
        if max(*known, *(start + 1 for start in epochs)) >= extent.next_offset:
            return None
        for batches, _ in whole_batches(file, 0, extent.end_position):
            for one in batches.slice(max(0, batches.num_rows - 2)).to_pylist():
                end = end if last is None else last["last_offset"] + 1
                last = one
    if last is None or last["magic"] < 2 or last["base_offset"] <= end:
        return None
    base = last["base_offset"]
    if base in known or any(base <= start for start in epochs):
        return None
    with suppress(CorruptRecordError, OSError):
        if any(low <= end and base <= high for low, high in lost_offsets.recorded(log.path)):
            return None
    between = [offset for offset in known if end < offset < base]
    return LoneClaim(base, end, last["position"], max(between, default=None))
