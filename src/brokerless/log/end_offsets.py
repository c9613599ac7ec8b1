"""The log end offset at past times, from time index entries and the batch headers after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.errors import located
from brokerless.io.file_window import Window
from brokerless.log.offsets_for_times import entry_before, max_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.io.storage import File
    from brokerless.log.partition_files import PartitionFiles
    from brokerless.log.segment import Segment

# The first batch later than a time lies at most one index interval away, so each read is this small.
_PROBE = 16 << 10


def end_offsets(files: PartitionFiles, times: pa.Array[Any]) -> pa.Array[Any]:
    """Return the log end offset at each time: the end of the last batch before the first batch with a later timestamp.

    The log records no other times than the timestamps of its records. So the result is as exact as the producers'
    clocks, unless the topic has `LogAppendTime`.

    Args:
        files: the partition's files.
        times: ms, int64, ascending.

    Returns:
        One offset for each time, int64. For times before the first batch, the offset at which the log starts.

    Raises:
        CorruptRecordError: a batch on the way is damaged.
    """
    search = _native.EndOffsets(times)
    for segment in files.segments:
        if search.next_time is None:
            break
        with segment.open() as file, located(segment.path):
            size = segment.extent(file).end_position
            # At that time, the log did not end in a segment whose largest timestamp is not later.
            if max_timestamp(segment, file, size, enough=search.next_time + 1) > search.next_time:
                _search_in(segment, file, size, search)
    return search.finish(files.log_end_offset)


def _search_in(segment: Segment, file: File, size: int, search: _native.EndOffsets) -> None:
    window = Window(file, 0, size, _PROBE)
    search.seek(segment.base_offset)
    known = None
    while (time := search.next_time) is not None:
        if time != known:
            known = time
            # The batches up to this offset are not later than the time. The search begins with the last of them.
            offset = entry_before(segment, file, time + 1)
            window.seek(max(window.position, 0 if offset is None else segment.position_before(file, offset)))
        consumed = search.feed(window.data, window.position)
        window.advance(consumed)
        if not consumed and search.next_time == time and not window.fill(0):
            return
