"""`Loaded`: a log as opening or truncating it leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless import _native
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.expected_records import Promise
    from brokerless.recovery.directory_plan import Changes
    from brokerless.recovery.lost_batches import Cut


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
        cuts: what recovery takes off its segments.
        max_timestamp: the largest of the last segment, and its batch's last offset; None: what its time index says.
        missing: the segments of which only indexes are left, a sentence each.
        promise: the log end offset that other files tell of; None: the log does not end below it.
    """

    changes: Changes
    base_offsets: list[int]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: _native.LeaderEpochs
    producers: _native.Producers
    losses: list[str]
    cuts: Sequence[Cut] = ()
    max_timestamp: tuple[int, int] | None = None
    missing: Sequence[str] = ()
    promise: Promise | None = None

    def is_tiered(self, config: TopicConfig) -> bool:
        """Tell whether segments of the log may be in remote storage."""
        return bool(config.remote_storage_enable) or self.log_start_offset < self.base_offsets[0]

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

    def check_cuts(self) -> None:
        """Refuse a log of which recovery would take sound batches.

        Raises:
            CorruptRecordError: with what they are, and the cure.
        """
        lost = sorted((cut for cut in self.cuts if cut.offsets is not None), key=lambda cut: cut.name)
        if lost:
            records, offsets = sum(cut.records for cut in lost), [cut.offsets or (0, 0) for cut in lost]
            raise CorruptRecordError(
                f"needs recovery, which cuts it at damage and loses {records} sound records behind it, offsets "
                f"{offsets[0][0]} to {offsets[-1][1]}: {lost[0].name} from {lost[0].position} on: "
                f"{lost[0].why}; nothing was changed. `brokerless recover` on the log directory does that, as a broker "
                "would, and sets aside what it cuts; to keep these records, copy the log first: `brokerless read "
                "--on-corrupt skip` and `brokerless produce --keep-offsets`",
                path=self.changes.directory,
            )

    def check_missing(self) -> None:
        """Refuse a log that lacks records which its directory's own files tell of: opened, these say so no more.

        Raises:
            CorruptRecordError: with which they are, and the cure.
        """
        promise = self.promise if self.promise is not None and self.promise.is_certain else None
        missing = [*self.missing, *([] if promise is None else [promise.missing])]
        if missing:
            raise CorruptRecordError(
                f"records are missing: {'; '.join([*missing, *dict.fromkeys(self.losses)])}; nothing was changed. A "
                "broker goes on without them, and without a word. Put back what was removed or cut, or take the log as "
                "it is by `brokerless recover --force` on the log directory",
                path=self.changes.directory,
            )

    def check_uncut(self) -> None:
        """Refuse a log that recovery would cut.

        Raises:
            CorruptRecordError: with where, and the cure.
        """
        for cut in self.cuts:
            raise CorruptRecordError(
                f"the log needs recovery first, which cuts off {cut}; run `brokerless recover`",
                path=self.changes.directory,
            )
