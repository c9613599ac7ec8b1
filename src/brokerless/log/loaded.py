"""`Loaded`: a log as opening or truncating it leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError

if TYPE_CHECKING:
    from brokerless import _native
    from brokerless.log.changes import Changes


class Loaded(NamedTuple):
    """A log as it is once `changes` are applied.

    Attributes:
        changes: what is to be done.
        base_offsets: of its segments, ascending; at least one.
        log_start_offset: the first offset that counts.
        log_end_offset: the next offset to be given.
        recovery_point: what is below needs no recovery.
        leader_epochs: the epochs and where they start.
        producers: the producer state at the end.
        losses: what a broker would lose silently, a sentence each.
        max_timestamp: the largest of the last segment, and its batch's last offset; None: what its time index says.
    """

    changes: Changes
    base_offsets: list[int]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: _native.LeaderEpochs
    producers: _native.Producers
    losses: list[str]
    max_timestamp: tuple[int, int] | None = None

    def check_losses(self, *, is_clean: bool) -> None:
        """Refuse a log of which a broker would lose something.

        Raises:
            CorruptRecordError: with the losses, and the cure.
        """
        if self.losses:
            losses = "; ".join(dict.fromkeys(self.losses))
            # Without the marker this is what recovering it comes to.
            cure = "; `brokerless recover` on the log directory brings it in order" if is_clean else ""
            raise CorruptRecordError(
                f"a broker would lose data here without a word: {losses}{cure}", path=self.changes.directory
            )
