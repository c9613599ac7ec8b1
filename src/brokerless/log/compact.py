"""Compacting a log as a broker's cleaner does (LogCleaner): of each key the last record stays."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.log import files
from brokerless.log.cleanable import cleanable, groups
from brokerless.log.compaction import ALL_HASHES, VERDICTS_SHARE, Plan, decide, rewrite
from brokerless.log.compaction_report import CompactionReport
from brokerless.log.rewrite import Outcome
from brokerless.log.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.log.compaction_report import Counts, SegmentReport
    from brokerless.log.rewrite import LogState, Progress
    from brokerless.log.writer import LogWriter


@dataclass(frozen=True, kw_only=True)
class Compact:
    """The verb (see `brokerless.rewriting`).

    Args:
        roll: roll the active segment first, as a broker's time roll would: it is never cleaned.
        drop_unkeyed: let records without a key go. Else a log where some would is refused.
        from_start: take all of the log for dirty, whatever its cleaner has checkpointed: also tombstones whose time has
            come go, of keys that nothing was written to since.
        only_due: leave logs alone that a broker's cleaner would leave alone.
        min_compaction_lag_ms: in place of the topic's.
        delete_retention_ms: in place of the topic's.
        memory: bytes that the process may take, more or less; half of them at least are for keys. With less memory the
            log is read more often.
    """

    roll: bool = False
    drop_unkeyed: bool = False
    from_start: bool = False
    only_due: bool = False
    min_compaction_lag_ms: int | None = None
    delete_retention_ms: int | None = None
    memory: int = 512 << 20

    def prepare(self, log: LogWriter) -> None:
        """Roll, if that is asked for and the active segment has anything."""
        if self.roll and log.state().segments[-1].extent().end_position:
            log.roll()

    def plan(self, state: LogState) -> Plan:
        """Say what is to be cleaned."""
        settings, active = state.settings, state.segments[-1]
        # It was rolled, unless this is a dry run.
        active_bytes = active.extent().end_position
        is_rolled = self.roll and active_bytes > 0
        lag = settings.min_compaction_lag_ms if self.min_compaction_lag_ms is None else self.min_compaction_lag_ms
        found = cleanable(
            state,
            active_base_offset=state.log_end_offset if is_rolled else active.base_offset,
            min_compaction_lag_ms=lag,
            from_start=self.from_start,
        )
        is_due = found.is_due(settings.min_cleanable_dirty_ratio)
        retention = settings.delete_retention_ms if self.delete_retention_ms is None else self.delete_retention_ms
        return Plan(
            directory=state.directory,
            settings=settings,
            found=found,
            groups=groups(found, state.directory, settings),
            txnindexes=tuple(
                f"{state.directory}/{files.segment_file(segment.base_offset, files.TXNINDEX)}"
                for segment in state.segments
                if segment.has_transaction_index
            ),
            producers=state.producers,
            hash_key=(secrets.randbits(64), secrets.randbits(64)),
            now=state.now,
            delete_retention_ms=retention,
            is_due=is_due,
            is_left=not found.cleanable_bytes or (self.only_due and not is_due),
            active=(active.base_offset, active_bytes),
            is_rolled=is_rolled,
        )

    def work(self, plan: Plan, *, dry_run: bool, progress: Progress) -> Outcome[CompactionReport]:
        """Decide, in as many passes as the memory asks for, and rewrite.

        Raises:
            ValueError: records without a key would go.
            CorruptRecordError: a segment is damaged.
            UnsupportedFormatError: the range ends with a message of magic 0 or 1 that goes: Kafka's cleaner fails.
        """
        if plan.is_left:
            return Outcome(report=_report(plan, 0, 0, ()))
        with Verdicts(self.memory // VERDICTS_SHARE) as verdicts:
            keys, passes = 0, 0
            counts: dict[int, Counts] = {}
            hash_range: tuple[int, int] | None = ALL_HASHES
            while hash_range is not None:
                decision = decide(plan, verdicts, hash_range, memory=self.memory, progress=progress)
                keys, passes = keys + decision.keys, passes + 1
                counts = _together(counts, decision.counts)
                hash_range = decision.next_hash_range
            if not self.drop_unkeyed:
                _refuse_unkeyed(plan, counts.values())
            done = [rewrite(plan, group, verdicts, counts, dry_run=dry_run, progress=progress) for group in plan.groups]
        reports = [report for _, of_group in done for report in of_group]
        return Outcome(
            report=_report(plan, passes, keys, reports),
            replacements=() if dry_run else tuple(replacement for replacement, _ in done),
            first_dirty_offset=None if dry_run else plan.found.first_uncleanable_offset,
        )


def _together(counts: dict[int, Counts], more: dict[int, Counts]) -> dict[int, Counts]:
    """Put together what was counted for different keys: expired tombstones are theirs, all else is the same."""
    return {base: of.with_expired(more[base].expired) for base, of in counts.items()} or more


def _refuse_unkeyed(plan: Plan, counts: Iterable[Counts]) -> None:
    found = list(counts)
    unkeyed = sum(of.unkeyed for of in found)
    if unkeyed:
        first = min(of.first_unkeyed for of in found if of.first_unkeyed is not None)
        raise ValueError(
            f"cannot compact {plan.directory}: {unkeyed} records without a key would go, the first at offset {first}; "
            "ask for that with drop_unkeyed (--drop-unkeyed)"
        )


def _report(plan: Plan, passes: int, keys: int, segments: Sequence[SegmentReport]) -> CompactionReport:
    found = plan.found
    return CompactionReport(
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        limit=found.limit,
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        dirty_ratio=found.dirty_ratio,
        is_due=plan.is_due,
        active_base_offset=plan.active[0],
        active_bytes=plan.active[1],
        is_rolled=plan.is_rolled,
        passes=passes,
        keys=keys,
        segments=tuple(segments),
    )
