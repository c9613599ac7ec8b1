"""The log start offset of a log whose older segments may be in remote storage (KIP-405, tiered storage).

Such a log has two start offsets. The log start offset is the first offset that a broker serves. The local log start
offset is the first offset in this directory. Only a checkpoint and the leader epochs record the log start offset. If
the checkpoint held the local log start offset instead, a broker would stop serving the remote segments. If the leader
epochs were also truncated to the local log start offset, the broker would delete these segments
(`RemoteLogManager.deleteLogSegmentsDueToLeaderEpochCacheTruncation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def log_start_offset(
    checkpointed: int | None,
    first_base_offset: int,
    leader_epochs: Sequence[tuple[int, int]],
    *,
    remote_storage_enable: bool | None = None,
) -> int:
    """Return the log start offset.

    Args:
        checkpointed: the entry in the log directory's checkpoint; None if it has no entry.
        first_base_offset: the base offset of the first segment.
        leader_epochs: the log's epochs and their start offsets, ascending.
        remote_storage_enable: the topic's setting; None if not known. If True, a broker uses the checkpoint unchanged
            (LogLoader.load).

    >>> log_start_offset(0, 290, [(0, 0)]), log_start_offset(0, 290, [(0, 290)]), log_start_offset(300, 290, [(0, 0)])
    (0, 290, 300)
    >>> log_start_offset(None, 290, [(0, 10)])
    10
    """
    if remote_storage_enable:
        return checkpointed or 0
    # The checkpoint of a log that is not tiered may be older than the last retention, which also truncates the epochs.
    is_tiered = remote_storage_enable is None and bool(leader_epochs) and leader_epochs[0][1] < first_base_offset
    if is_tiered:
        # A moved or single directory has no entry, so that only the epochs show the remote part.
        return leader_epochs[0][1] if checkpointed is None else checkpointed
    return max(checkpointed or 0, first_base_offset)
