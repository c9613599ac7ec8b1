"""`Loaded`: the result of planning to open or truncate a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless import _native
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.expected_end import ExpectedEnd
    from brokerless.recovery.file_changes import Changes
    from brokerless.recovery.lost_batches import Cut
    from brokerless.remarks import Remark


class SilentLossError(CorruptRecordError):
    """A broker would start on the log, and lose some of it."""


class Loaded(NamedTuple):
    """A log as it will be once `changes` are applied.

    Attributes:
        changes: the changes to the partition's directory.
        base_offsets: the base offsets of the segments, ascending; at least one.
        log_start_offset: the log start offset.
        log_end_offset: the log end offset.
        recovery_point: records below this offset need no recovery.
        leader_epochs: the leader epochs, with their start offsets.
        producers: the producer state at the log end.
        losses: one sentence for each loss that a broker would not report.
        cuts: the parts of segments that recovery cuts off.
        max_timestamp: the largest timestamp of the last segment, and the last offset of its batch; None to take them
            from the time index.
        missing: the records that are missing inside the log.
        moved: the evidence that damage changed the base offset of the last batch, as text; "" without evidence. A
            broker does not detect this, and keeps the batch.
        expected_end: the log end offset according to other files, if the log ends below it; else None.
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
    missing: Sequence[Remark] = ()
    moved: str = ""
    expected_end: ExpectedEnd | None = None

    def is_tiered(self, config: TopicConfig) -> bool:
        """Return whether segments of the log may be in remote storage."""
        return bool(config.remote_storage_enable) or self.log_start_offset < self.base_offsets[0]

    def check_losses(self, *, is_clean: bool) -> None:
        """Refuse a log from which a broker would lose something silently.

        Raises:
            SilentLossError: names the losses and the remedy.
        """
        if self.losses:
            losses = "; ".join(dict.fromkeys(self.losses))
            # Without the clean-shutdown marker, recovery itself causes these losses.
            cure = "; run `brokerless recover` on the log directory" if is_clean else ""
            raise SilentLossError(
                f"a broker would lose records without an error: {losses}{cure}", path=self.changes.directory
            )

    def check_cuts(self) -> None:
        """Refuse a log from which recovery would cut sound batches.

        Raises:
            CorruptRecordError: names the batches and the remedy.
        """
        lost = sorted((cut for cut in self.cuts if cut.offsets is not None), key=lambda cut: cut.name)
        if lost:
            records, offsets = sum(cut.records for cut in lost), [cut.offsets or (0, 0) for cut in lost]
            raise CorruptRecordError(
                "the log needs recovery: this cuts the log at damage, and loses "
                f"{counted(records, 'sound record')} after it, offsets {offsets[0][0]} to {offsets[-1][1]}. The "
                f"damage is in {lost[0].name} from byte {lost[0].position} on ({lost[0].why}). Nothing was changed. "
                "`brokerless recover` on the log directory cuts the log as a broker would, and sets aside the bytes "
                "that it cuts. To keep these records, copy the log first: `brokerless read --on-corrupt skip` and "
                "`brokerless produce --keep-offsets`",
                path=self.changes.directory,
            )

    def check_missing(self) -> None:
        """Refuse a log that lacks records according to other files. Opening it would destroy this evidence.

        Raises:
            CorruptRecordError: names the records and the remedy.
        """
        expected = self.expected_end if self.expected_end is not None and self.expected_end.is_certain else None
        if expected is not None and not expected.is_clean and any(cut.is_damage for cut in self.cuts):
            # The cut explains it, and `check_cuts` refuses what it would lose.
            expected = None
        missing = [*map(str, self.missing), *([self.moved] if self.moved else [])]
        missing += [] if expected is None else [expected.missing]
        if missing:
            raise CorruptRecordError(
                f"records are missing: {'; '.join([*missing, *dict.fromkeys(self.losses)])}. Nothing was changed. A "
                "broker silently continues without them. Restore the removed or truncated files, or take the records "
                "from another replica: `brokerless repair --from`. `brokerless recover --force` accepts the log as it "
                "is",
                path=self.changes.directory,
            )

    def check_uncut(self) -> None:
        """Refuse a log that recovery would cut.

        Raises:
            CorruptRecordError: names the place and the remedy.
        """
        for cut in self.cuts:
            raise CorruptRecordError(
                f"the log needs recovery first: this cuts off {cut}. Run `brokerless recover`",
                path=self.changes.directory,
            )
