"""Explaining why each record of a key still exists, and whether the next compaction would remove it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa

from brokerless.append.operation import Outcome
from brokerless.layout.topic_config import settings_line
from brokerless.log.log import Log
from brokerless.rewriting.compact.compact import SETTINGS, Compaction
from brokerless.rewriting.compact.passes import legacy_horizon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from brokerless.append.operation import LogState, Progress
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.passes import Plan


@dataclass(frozen=True)
class ExplainedRecord:
    """A record of the key.

    Attributes:
        offset: the record's offset.
        timestamp: the record's timestamp, ms since the epoch.
        is_tombstone: the value is null.
        base_offset: the base offset of its segment.
        goes: the next compaction removes the record.
        why: the reason why it goes or stays.
    """

    offset: int
    timestamp: int
    is_tombstone: bool
    base_offset: int
    goes: bool
    why: str


@dataclass(frozen=True)
class Explanation:
    """The records of a key, oldest first, and the settings by which a compaction decides."""

    key: bytes
    records: tuple[ExplainedRecord, ...]
    settings: Mapping[str, Setting]

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as a dict for JSON. The key is text, with invalid UTF-8 replaced."""
        return {
            "key": self.key.decode(errors="replace"),
            "records": [asdict(record) for record in self.records],
            "settings": {name: asdict(setting) for name, setting in self.settings.items()},
        }

    def lines(self, *, dry_run: bool = False) -> list[str]:  # noqa: ARG002 - it never changes a log
        """Return the explanation in words, a line for each record."""
        if not self.records:
            return [f"no record with key {self.key!r}"]
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
            goes, why = _why(row, compaction, max(dirty, default=None), last)
            segment = _segment_of(state.segments, row.offset)
            records.append(ExplainedRecord(row.offset, row.timestamp, row.is_tombstone, segment.base_offset, goes, why))
        return Outcome(report=Explanation(self.key, tuple(records), compaction.config.used(SETTINGS)))

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


def _why(row: _Row, plan: Plan, newest: int | None, last: int) -> tuple[bool, str]:
    """Return whether the record goes, and why, by the cleaner's rules in their order.

    Args:
        row: the record.
        plan: the plan of the compaction.
        newest: the last offset of the key in the dirty part; None without one.
        last: the last offset of the key.
    """
    found = plan.found
    if row.offset >= found.first_uncleanable_offset:
        until = f"nothing is compacted from offset {found.first_uncleanable_offset} on: {found.limit}"
        return False, f"{until}; offset {last} is newer" if row.offset < last else until
    if plan.skip_reason:
        why = "nothing would be compacted"
        if row.is_aborted:
            return False, f"{why}, although its transaction was aborted"
        if row.offset < last:
            below = f"offsets below {found.first_dirty_offset} count as compacted"
            return False, f"{why}, although offset {last} is newer: {below}"
        what = "a tombstone, and the newest" if row.is_tombstone else "the newest"
        return False, f"{what} with its key; {why}"
    if row.is_aborted:
        return True, "its transaction was aborted"
    if newest is not None and row.offset < newest:
        return True, f"superseded by offset {newest}"
    behind = f"; offset {last} is newer, but is not compacted yet ({found.limit})" if row.offset < last else ""
    if newest is None and row.offset < last < found.first_uncleanable_offset:
        behind = f"; offset {last} is newer, but offsets below {found.first_dirty_offset} count as compacted"
    if not row.is_tombstone:
        return False, f"the newest with its key{behind}"
    return _tombstone(row, plan, behind)


def _tombstone(row: _Row, plan: Plan, behind: str) -> tuple[bool, str]:
    segment = _segment_of(plan.found.segments, row.offset)
    with segment.open() as file:
        for batches in segment.batches_since(file, row.offset):
            for batch in batches.to_pylist():
                if batch["last_offset"] >= row.offset:
                    horizon, until = batch["delete_horizon_ms"], legacy_horizon(plan)
                    if batch["magic"] < 2 and segment.modified <= until:
                        what = f"a tombstone of format {batch['magic']}, which has no delete horizon"
                        return (
                            True,
                            f"{what}: its segment was last modified at {segment.modified}, up to {until} they go",
                        )
                    if horizon is None:
                        until = plan.delete_horizon_ms
                        return False, f"a tombstone without a delete horizon; the next pass sets {until}{behind}"
                    if horizon <= plan.now:
                        return True, f"a tombstone whose delete horizon {horizon} has passed"
                    return False, f"a tombstone until its delete horizon {horizon}{behind}"
    return False, "a tombstone"


def _segment_of(segments: Sequence[Segment], offset: int) -> Segment:
    return next(segment for segment in reversed(segments) if segment.base_offset <= offset)
