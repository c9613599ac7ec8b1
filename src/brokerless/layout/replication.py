"""Known facts about a partition's other replicas. After a rewrite, they must be able to continue from the log."""

from __future__ import annotations

from typing import NamedTuple


class Replication(NamedTuple):
    """The other replicas of a partition, as far as the log directory knows them.

    Attributes:
        others_from: no other replica ends below this offset; None if there is no other replica. If a follower's log
            ends inside a batch of its leader, the follower cannot continue and marks the partition as failed
            (UnexpectedAppendOffsetException).
        high_watermark: the checkpointed high watermark; None means the log end. Records above the high watermark may
            still be truncated, so they must not supersede records below it.
    """

    others_from: int | None = None
    high_watermark: int | None = None

    def replicated_end(self, log_end_offset: int) -> int:
        """Return where the replicated part of a log ends."""
        return log_end_offset if self.high_watermark is None else min(self.high_watermark, log_end_offset)


SOLE = Replication()
"""The value for a partition without other replicas."""
