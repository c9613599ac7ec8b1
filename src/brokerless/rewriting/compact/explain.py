"""Explaining why each record of a key still exists, and whether the next compaction would remove it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import pyarrow as pa

from brokerless.append.operation import Outcome
from brokerless.layout.topic_config import settings_line
from brokerless.log.log import Log
from brokerless.rewriting.compact.compact import SETTINGS, Compaction
from brokerless.rewriting.compact.passes import legacy_horizon
from brokerless.rewriting.compact.plan import limit_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from brokerless.append.operation import LogState, Progress
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.passes import Plan
    from brokerless.rewriting.compact.plan import Limit
    from brokerless.rewriting.compact.report import SkipReason

Reason = Literal["uncleanable", "skipped", "aborted", "superseded", "latest", "tombstone", "tombstone_expired"]
"""The rule that decides whether a record is removed.

- uncleanable: it stays, because it is at or above `first_uncleanable_offset`.
- skipped: it stays, because the log would not be compacted: see `skip_reason`.
- aborted: it is removed, because its transaction was aborted.
- superseded: it is removed, because the record at `newer_offset` has its key.
- latest: it stays, as the newest of its key in the compacted part.
- tombstone: a tombstone that stays until its delete horizon.
- tombstone_expired: a tombstone that is removed, because its delete horizon has passed.
"""


@dataclass(frozen=True)
class ExplainedRecord:
    """A record of the key.

    Attributes:
        offset: the record's offset.
        timestamp: the record's timestamp, ms since the epoch.
        is_tombstone: whether the value is null.
        base_offset: the base offset of its segment.
        goes: whether the next compaction removes the record.
        reason: the rule that decides this; see `Reason`.
        newer_offset: the last offset of the key; None if this record is the last.
        delete_horizon_ms: for a tombstone that has one, the time from which it is removed.
        why: the reason in words.
    """

    offset: int
    timestamp: int
    is_tombstone: bool
    base_offset: int
    goes: bool
    reason: Reason
    newer_offset: int | None
    delete_horizon_ms: int | None
    why: str


@dataclass(frozen=True)
class Explanation:
    """The records of a key, oldest first, and the facts that decide their compaction.

    Attributes:
        key: the key.
        records: its records.
        skip_reason: why the log would not be compacted, see `SkipReason`; None if it would.
        first_dirty_offset: the first offset of the part that was not compacted before.
        first_uncleanable_offset: the first offset of the part that does not change.
        limit: why the unchanged part begins at that offset, see `Limit`.
        settings: the settings that decide, each with its source.
    """

    key: bytes
    records: tuple[ExplainedRecord, ...]
    skip_reason: SkipReason | None
    first_dirty_offset: int
    first_uncleanable_offset: int
    limit: Limit
    settings: Mapping[str, Setting]

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as a dict for JSON. The key is text, with invalid UTF-8 replaced."""
        return {**asdict(self), "key": self.key.decode(errors="replace")}

    def lines(self, *, dry_run: bool = False) -> list[str]:  # noqa: ARG002 - it never changes a log
        """Return the explanation in words, a line for each record."""
        if not self.records:
            return [f"no record has the key {self.key.decode(errors='backslashreplace')}"]
        lines = [
            f"offset {record.offset} (segment {record.base_offset}) {'goes' if record.goes else 'stays'}: {record.why}"
            for record in self.records
        ]
        return [*lines, settings_line(self.settings)]


class _Row(NamedTuple):
    offset: int
    timestamp: int
    is_tombstone: bool
    is_aborted: bool


@dataclass(frozen=True)
class Explain:
    """The operation that explains the records of a key. It changes nothing.

    Args:
        key: the key.
        compact: the compaction to explain.
    """

    state_name: ClassVar[str] = "Explain"

    key: bytes
    compact: Compaction = field(default_factory=Compaction)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The settings that decide the compaction."""
        return self.compact.decided_by

    @property
    def consent(self) -> Mapping[str, str]:
        """Nothing is changed."""
        return {}

    def needs_roll(self, state: LogState) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def plan(self, state: LogState) -> tuple[Plan, LogState]:
        """Plan the compaction."""
        return self.compact.plan(state), state

    def work(
        self,
        plan: tuple[Plan, LogState],
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[Explanation]:
        """Read the records of the key, and explain each."""
        compaction, state = plan
        rows = self._rows(state)
        found = compaction.found
        dirty = [
            row.offset
            for row in rows
            if found.first_dirty_offset <= row.offset < found.first_uncleanable_offset and not row.is_aborted
        ]
        last = max((row.offset for row in rows if not row.is_aborted), default=-1)
        records = []
        for row in rows:
            verdict = _verdict(row, compaction, max(dirty, default=None), last)
            records.append(
                ExplainedRecord(
                    offset=row.offset,
                    timestamp=row.timestamp,
                    is_tombstone=row.is_tombstone,
                    base_offset=_segment_of(state.segments, row.offset).base_offset,
                    newer_offset=last if row.offset < last else None,
                    **verdict._asdict(),
                )
            )
        return Outcome(
            report=Explanation(
                key=self.key,
                records=tuple(records),
                skip_reason=compaction.skip_reason,
                first_dirty_offset=found.first_dirty_offset,
                first_uncleanable_offset=found.first_uncleanable_offset,
                limit=found.limit,
                settings=compaction.config.used(SETTINGS),
            )
        )

    def _rows(self, state: LogState) -> list[_Row]:
        log = Log(state.directory)
        columns = ["offset", "timestamp", "key", "value"]
        committed = {
            row["offset"] for row in self._with_key(log.read(columns=columns, isolation_level="read_committed"))
        }
        return [
            _Row(
                row["offset"],
                row["timestamp"],
                row["value"] is None,
                row["offset"] < state.last_stable_offset and row["offset"] not in committed,
            )
            for row in self._with_key(log.read(columns=columns, isolation_level="read_uncommitted"))
        ]

    def _with_key(self, found: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        for batch in found:
            rows = batch.filter(pc.equal(batch["key"], pa.scalar(self.key, batch["key"].type)))
            at = rows.schema.get_field_index("timestamp")
            yield from rows.set_column(at, "timestamp", rows["timestamp"].cast(pa.int64())).to_pylist()


class _Verdict(NamedTuple):
    goes: bool
    reason: Reason
    why: str
    delete_horizon_ms: int | None = None


def _verdict(row: _Row, plan: Plan, newest: int | None, last: int) -> _Verdict:
    """Return whether the record is removed, and why, by the cleaner's rules in their order.

    Args:
        row: the record.
        plan: the plan of the compaction.
        newest: the last offset of the key in the dirty part; None without one.
        last: the last offset of the key.
    """
    found, limit = plan.found, limit_in_words(plan.found.limit)
    if row.offset >= found.first_uncleanable_offset:
        until = f"no record from offset {found.first_uncleanable_offset} on is compacted, because {limit}"
        why = f"{until}; offset {last} has a newer record of the key" if row.offset < last else until
        return _Verdict(False, "uncleanable", why)
    if plan.skip_reason:
        why = "a compaction would change nothing"
        if row.is_aborted:
            return _Verdict(False, "skipped", f"{why}, although the transaction of the record was aborted")
        if row.offset < last:
            below = f"offsets below {found.first_dirty_offset} are compacted already, by the cleaner's checkpoint"
            return _Verdict(False, "skipped", f"{why}; offset {last} has a newer record of the key, but {below}")
        what = "a tombstone, and the newest record" if row.is_tombstone else "the newest record"
        return _Verdict(False, "skipped", f"{what} with its key; {why}")
    if row.is_aborted:
        return _Verdict(True, "aborted", "its transaction was aborted")
    if newest is not None and row.offset < newest:
        return _Verdict(True, "superseded", f"superseded by offset {newest}")
    newer = f"; offset {last} has a newer record of the key, but"
    behind = f"{newer} is not compacted yet ({limit})" if row.offset < last else ""
    if newest is None and row.offset < last < found.first_uncleanable_offset:
        behind = f"{newer} offsets below {found.first_dirty_offset} are compacted already, by the cleaner's checkpoint"
    if not row.is_tombstone:
        return _Verdict(False, "latest", f"the newest record with its key{behind}")
    return _tombstone(row, plan, behind)


def _tombstone(row: _Row, plan: Plan, behind: str) -> _Verdict:
    segment = _segment_of(plan.found.segments, row.offset)
    with segment.open() as file:
        for batches in segment.batches_since(file, row.offset):
            for batch in batches.to_pylist():
                if batch["last_offset"] >= row.offset:
                    horizon, until = batch["delete_horizon_ms"], legacy_horizon(plan)
                    if batch["magic"] < 2 and segment.modified <= until:
                        what = f"a tombstone of format {batch['magic']}, which has no delete horizon"
                        why = (
                            f"{what}. Its segment was last modified at {segment.modified}, and a compaction drops "
                            f"such tombstones if their segment was last modified at {until} or before"
                        )
                        return _Verdict(True, "tombstone_expired", why)
                    if horizon is None:
                        until = plan.delete_horizon_ms
                        why = f"a tombstone without a delete horizon; the next compaction sets it to {until}{behind}"
                        return _Verdict(False, "tombstone", why)
                    if horizon <= plan.now:
                        why = f"a tombstone whose delete horizon {horizon} has passed"
                        return _Verdict(True, "tombstone_expired", why, horizon)
                    return _Verdict(
                        False, "tombstone", f"a tombstone, kept until its delete horizon {horizon}{behind}", horizon
                    )
    return _Verdict(False, "tombstone", "a tombstone")


def _segment_of(segments: Sequence[Segment], offset: int) -> Segment:
    return next(segment for segment in reversed(segments) if segment.base_offset <= offset)
