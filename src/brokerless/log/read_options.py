"""The options of reads that many functions pass on, and what they need of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    import pyarrow as pa
    import pyarrow.compute as pc

    from brokerless.arguments import Time
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.split import OnCorrupt, Split
    from brokerless.values.decoding import Decoding


class RangeOptions(TypedDict, total=False):
    """The options that choose the rows of each partition: see `Log.plan`."""

    start_offset: StartOffset | None
    end_offset: EndOffset | None
    start_timestamp: Time | None
    end_timestamp: Time | None
    isolation_level: IsolationLevel
    on_corrupt: OnCorrupt


class ReadOptions(RangeOptions, total=False):
    """The options of a read of several partitions: see `LogDirs.read`."""

    columns: Sequence[str] | None
    check_crcs: bool
    limit: int | None
    decode: Decoding | Mapping[str, object] | str | None
    filter: pc.Expression | None


class Condition(Protocol):
    """A condition that rows must meet."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it needs."""
        ...

    def apply(self, rows: pa.RecordBatch, /) -> pa.RecordBatch:
        """Return the rows that meet it."""
        ...


class Plannable(Protocol):
    """A `Log`, for modules that `Log` itself imports."""

    topic: str | None
    partition: int | None

    @property
    def local_log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def plan(
        self, /, *, target_bytes: int | None = ..., verify_transactions: bool = ..., **options: Unpack[RangeOptions]
    ) -> list[Split]: ...
