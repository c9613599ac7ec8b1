"""Where a log starts whose older segments may be in remote storage (KIP-405, tiered storage).

Such a log has two starts. The log start offset is the first offset that a broker serves; the local log start offset is
the first one that this directory holds. Only a checkpoint and the leader epochs know the former: a broker that is told
the local one instead no longer serves what is remote, and deletes it where the epochs are truncated too
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
        checkpointed: as the log directory's checkpoint says; None: it has no entry.
        first_base_offset: of the first segment.
        leader_epochs: the log's epochs and their start offsets, ascending.
        remote_storage_enable: the topic's setting: a broker with it takes the checkpoint as it is (LogLoader.load);
            None: not known.

    >>> log_start_offset(0, 290, [(0, 0)]), log_start_offset(0, 290, [(0, 290)]), log_start_offset(300, 290, [(0, 0)])
    (0, 290, 300)
    >>> log_start_offset(None, 290, [(0, 10)])
    10
    """
    if remote_storage_enable:
        return checkpointed or 0
    # The checkpoint of an ordinary log may be older than the last retention, which truncates the epochs as well.
    is_tiered = remote_storage_enable is None and bool(leader_epochs) and leader_epochs[0][1] < first_base_offset
    if is_tiered:
        # A directory that was moved, or stands alone, has no entry: the epochs are all that tells of the remote part.
        return leader_epochs[0][1] if checkpointed is None else checkpointed
    return max(checkpointed or 0, first_base_offset)
