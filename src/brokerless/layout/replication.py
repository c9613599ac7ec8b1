"""What is known of a partition's other replicas: a rewrite must leave what their brokers can go on from."""

from __future__ import annotations

from typing import NamedTuple


class Replication(NamedTuple):
    """Other replicas of a partition, as far as the log directory tells.

    Attributes:
        others_from: none of them ends below this offset; None: there is no other one. A follower that ends inside a
            batch of its leader's cannot go on: its partition is marked failed (UnexpectedAppendOffsetException).
        high_watermark: where the replicated part ends, as it was checkpointed; None: at the log end. What is behind it
            may yet be truncated, and must not stand in for what is before it.
    """

    others_from: int | None = None
    high_watermark: int | None = None

    def replicated_end(self, log_end_offset: int) -> int:
        """Return where the replicated part of a log ends."""
        return log_end_offset if self.high_watermark is None else min(self.high_watermark, log_end_offset)


SOLE = Replication()
"""There is no other replica."""
