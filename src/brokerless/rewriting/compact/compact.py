"""Compacting a log as a broker's cleaner does (LogCleaner): the last record of each key stays."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from brokerless.append.operation import Outcome, UnknownSettingsError, outputs_of
from brokerless.arguments import check_number
from brokerless.layout.release import NEWEST, Release
from brokerless.layout.topic_config import UNKNOWN
from brokerless.log.aborted_transactions import aborted_index
from brokerless.notes import note
from brokerless.rewriting.compact import distributed
from brokerless.rewriting.compact.passes import ALL_HASHES, VERDICTS_SHARE, Plan, decide_all, merged, rewrite
from brokerless.rewriting.compact.plan import cleanable, groups
from brokerless.rewriting.compact.record_selection import Verdicts
from brokerless.rewriting.compact.report import CompactionReport
from brokerless.rewriting.segment_rewrite import batches_size
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from brokerless.append.operation import LogState, Progress, Steps
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.rewriting.compact.passes import Decided
    from brokerless.rewriting.compact.plan import Cleanable
    from brokerless.rewriting.compact.report import Counts, SegmentReport, SkipReason

# The topic's settings that decide which records are removed, and those that decide which logs a cleaner cleans.
_OF_RECORDS = ("min_compaction_lag_ms", "delete_retention_ms")
_OF_DUE_LOGS = ("cleanup_policy", "min_cleanable_dirty_ratio", "max_compaction_lag_ms")
SETTINGS = (*_OF_RECORDS, *_OF_DUE_LOGS, "segment_bytes")
"""The topic's settings that a compaction uses, except those of indexes."""


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """Compact a log as a broker's cleaner does: the last record of each key stays.

    Args:
        roll: roll the active segment first, as a broker does after some time. The active segment is never cleaned.
        drop_null_keys: drop records that have no key. Without this option, the compaction refuses a log that would lose
            such records.
        ignore_checkpoint: ignore the cleaner's checkpoint and treat the whole log as dirty. This also removes expired
            tombstones of keys without newer records.
        only_due: skip logs that a broker's cleaner would skip, such as those of topics whose cleanup.policy does not
            include "compact".
        cleanup_policy: overrides the topic's policy: "compact" or "compact,delete". Without it, a compaction refuses a
            topic that a broker would never compact.
        min_compaction_lag_ms: overrides the topic's setting.
        delete_retention_ms: overrides the topic's setting.
        release: the Kafka release whose cleaner to follow. A batch that ends at the high watermark stays, even without
            records; before 4.4, the batch that ends the compacted part stays.
        memory: the approximate number of bytes that the process may use; at least half of them are for keys. The less
            memory, the more often the log is read.

    >>> import brokerless as bl
    >>> with bl.Producer(NEW, "users", cleanup_policy="compact") as producer:
    ...     producer.send([{"key": b"a", "value": b"1"}, {"key": b"a", "value": b"2"}])
    >>> [done.report.total("kept") for done in bl.rewrite(Compaction(roll=True), NEW, topics=["users"])]
    [1]
    """

    state_name: ClassVar[str] = "Compact"

    roll: bool = False
    drop_null_keys: bool = False
    ignore_checkpoint: bool = False
    only_due: bool = False
    cleanup_policy: str | None = None
    min_compaction_lag_ms: int | None = None
    delete_retention_ms: int | None = None
    memory: int = 512 << 20
    release: str = str(NEWEST)

    def __post_init__(self) -> None:
        Release.parse(self.release)
        for name, lowest in (("min_compaction_lag_ms", 0), ("delete_retention_ms", 0), ("memory", 1)):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, lowest)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The topic's settings that are not overridden: lag and retention, and with `only_due`, when a log is due."""
        own = tuple(name for name in _OF_RECORDS if getattr(self, name) is None)
        return own + tuple(name for name in _OF_DUE_LOGS if self.only_due and getattr(self, name, None) is None)

    @property
    def consent(self) -> Mapping[str, str]:
        """A policy that includes "compact". A dry run only says that it is not known."""
        return {"cleanup_policy": "compact"} if self.cleanup_policy is None else {}

    def needs_roll(self, state: LogState) -> bool:
        """Return whether `roll` is set and the active segment has batches."""
        return self.roll and state.segments[-1].extent().end_position > 0

    def plan(self, state: LogState) -> Plan:
        """Plan what to clean.

        Raises:
            ValueError: the log is tiered, and brokers never clean such a log.
            CorruptRecordError: a segment is damaged where a transaction's marker may be.
        """
        overriding = ("cleanup_policy", *_OF_RECORDS)
        given = {name: getattr(self, name) for name in overriding if getattr(self, name) is not None}
        config, active = state.config.with_keywords(given), state.segments[-1]
        # The log has been rolled, unless this is a dry run.
        active_bytes = batches_size(active)
        is_rolled = self.roll and active_bytes > 0
        found = cleanable(
            state,
            active_base_offset=state.log_end_offset if is_rolled else active.base_offset,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            ignore_checkpoint=self.ignore_checkpoint,
        )
        if state.is_tiered:
            raise ValueError(
                f"cannot compact {state.directory}, because the log is tiered: {state.remote_part()}, and these would "
                "stay unchanged. Brokers do not compact tiered topics either"
            )
        is_due = config.is_compacted and found.is_due(config.min_cleanable_dirty_ratio)
        return Plan(
            directory=state.directory,
            config=config,
            found=found,
            groups=groups(found, state.directory, config),
            aborted=aborted_index(state.segments, state.log_end_offset, below=found.first_uncleanable_offset)
            if found.segments
            else b"",
            log_start_offset=state.log_start_offset,
            producers=state.producers,
            kept_end_offset=found.first_uncleanable_offset
            if Release.parse(self.release).keeps_last_cleaned_batch
            else state.high_watermark,
            hash_key=(secrets.randbits(64), secrets.randbits(64)),
            now=state.now,
            delete_retention_ms=config.delete_retention_ms,
            is_due=is_due,
            skip_reason=_skip_reason(found, config)
            if not found.cleanable_bytes or (self.only_due and not is_due)
            else None,
            bytes=sum(batches_size(segment) for segment in state.segments),
            active=(active.base_offset, active_bytes),
            is_rolled=is_rolled,
        )

    def work(
        self, plan: Plan, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[CompactionReport]:
        """Decide in as many passes as the memory requires, then rewrite.

        Raises:
            ValueError: the topic's policy does not include "compact", or records without a key would be dropped.
            CorruptRecordError: a segment is damaged.
            UnsupportedFormatError: an empty batch would have to stay, but it is a message of magic 0 or 1. Kafka's
                cleaner also fails in this case.
        """
        if plan.skip_reason:
            return Outcome(report=_report(plan, [], ()))
        if not dry_run:
            _check_policy(plan)
        elif refusal := _of_policy(plan.config):
            note(f"{plan.directory} would be refused: {refusal} {option('cleanup_policy', 'compact')}")
        with Verdicts(self.memory // VERDICTS_SHARE) as verdicts:
            decided = decide_all(plan, verdicts, ALL_HASHES, memory=self.memory, progress=progress)
            if not self.drop_null_keys:
                _refuse_unkeyed(plan, decided.counts.values())
            done = [
                rewrite(plan, group, verdicts, decided.counts, dry_run=dry_run, progress=progress, output=output)
                for group in plan.groups
            ]
        report = _report(plan, [decided], [report for _, of_group in done for report in of_group])
        if dry_run:
            return Outcome(report=report)
        replacements = tuple(replacement for replacement, _ in done)
        return Outcome(
            report=report,
            replacements=replacements,
            outputs=outputs_of(replacements, output),
            first_dirty_offset=plan.found.first_uncleanable_offset,
            unread_from=plan.found.segments[-1].next_base_offset,
        )

    def steps(self, plan: Plan, share: int) -> Steps[CompactionReport] | None:
        """Divide the decisions by ranges of hashes, and the rewrite by groups of segments; see `Divisible`."""
        is_small = sum(segment.size for segment in plan.found.segments) <= share
        return None if plan.skip_reason or is_small else self._steps(plan, share)

    def _steps(self, plan: Plan, share: int) -> Steps[CompactionReport]:
        _check_policy(plan)
        decided: list[Decided] = yield [partial(distributed.decide, plan, ALL_HASHES, self.memory, passes=1)]
        remaining = decided[0].next_hash_range
        if remaining is not None:
            # The first pass shows how many hashes fit into the memory.
            ranges = distributed.divided(remaining)
            decided += yield [partial(distributed.decide, plan, hash_range, self.memory) for hash_range in ranges]
        counts = merged(decided).counts
        if not self.drop_null_keys:
            _refuse_unkeyed(plan, counts.values())
        verdict_directories = [result.place for result in decided]
        done: list[distributed.GroupResult] = yield [
            partial(distributed.rewrite, plan, groups, verdict_directories, counts, self.memory)
            for groups in distributed.shares(plan, share)
        ]
        return Outcome(
            report=_report(plan, decided, [report for part in done for report in part.reports]),
            replacements=tuple(replacement for part in done for replacement in part.replacements),
            outputs=tuple(part.output for part in done for _ in part.replacements),
            first_dirty_offset=plan.found.first_uncleanable_offset,
            unread_from=plan.found.segments[-1].next_base_offset,
        )


def _skip_reason(found: Cleanable, config: TopicConfig) -> SkipReason:
    if not found.cleanable_bytes:
        return "nothing_cleanable"
    return "not_dirty" if config.is_compacted else "cleanup_policy"


def _of_policy(config: TopicConfig) -> str:
    """Return why a topic is not compacted whose policy does not allow it, or is not known; "" if it allows it."""
    if config.is_compacted:
        return ""
    is_known = config.source_of("cleanup_policy") != UNKNOWN
    policy = f"{config.cleanup_policy or 'empty'}, so" if is_known else "not known. Unless it includes compact,"
    return (
        f"the cleanup.policy of its topic is {policy} a broker keeps several records of a key, and a compaction would "
        "remove all but the last. If that is what you want, give"
    )


def _check_policy(plan: Plan) -> None:
    if refusal := _of_policy(plan.config):
        raise UnknownSettingsError(f"cannot compact {plan.directory}: {refusal}", {"cleanup_policy": "compact"})


def _refuse_unkeyed(plan: Plan, counts: Iterable[Counts]) -> None:
    found = list(counts)
    unkeyed = sum(of.unkeyed for of in found)
    if unkeyed:
        first = min(of.first_unkeyed for of in found if of.first_unkeyed is not None)
        raise ValueError(
            f"cannot compact {plan.directory}, because {unkeyed} of its records have no key, the first of them at "
            f"offset {first}. To drop these records, give {option('drop_null_keys')}"
        )


def _report(plan: Plan, decided: Sequence[Decided], segments: Sequence[SegmentReport]) -> CompactionReport:
    found = plan.found
    return CompactionReport(
        skip_reason=plan.skip_reason,
        bytes_before=plan.bytes,
        bytes_after=plan.bytes - sum(segment.bytes - segment.cleaned_bytes for segment in segments),
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
        passes=sum(result.passes for result in decided),
        keys=sum(result.keys for result in decided),
        segments=tuple(segments),
        settings=plan.config.used(SETTINGS),
    )
