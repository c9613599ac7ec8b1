"""`LogReader`: the rows of several logs, narrowed by a search or a filter before they are read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from brokerless import _native
from brokerless.arguments import check_several, to_ms
from brokerless.log.filter import Filter
from brokerless.log.reader import KAFKA_COLUMNS, Reader
from brokerless.notes import collected
from brokerless.values.forms import PARTS
from brokerless.values.row_decoder import RowDecoder, decoded_columns, default_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from brokerless.log.read_options import Condition, Plannable, RangeOptions, ReadOptions
    from brokerless.log.split import Split
    from brokerless.values.decoding import Decoding

_RANGE = (
    "start_offset",
    "end_offset",
    "start_timestamp",
    "end_timestamp",
    "isolation_level",
    "on_corrupt",
)


class LogReader(Reader):
    """A `Reader` of several logs.

    Args:
        logs: the logs, in this order. Each is planned when its turn comes.
        options: the options of the read. `decode` must have its schemas.
        search: what is sought; None: all rows.
        where: a condition that rows must meet, besides the filter of the options.
        more: columns that are read, too.
        threads: see `Reader`.
        target_bytes: see `Log.plan`.
        by_headers: see `Reader`.
        plans_now: plan all logs now, so that errors of planning are raised now.
        verify_transactions: see `Log.plan`.
        planned: called with each log and its splits, before they are read.
    """

    def __init__(
        self,
        logs: Sequence[Plannable],
        options: ReadOptions,
        *,
        search: _native.Search | None = None,
        where: Condition | None = None,
        more: Iterable[str] = (),
        threads: int = 1,
        target_bytes: int | None = None,
        by_headers: bool = False,
        plans_now: bool = False,
        verify_transactions: bool = False,
        planned: Callable[[Any, Sequence[Split]], None] = lambda _log, _splits: None,
    ) -> None:
        columns, decode = options.get("columns"), cast("Decoding | None", options.get("decode"))
        check_several("columns", columns)
        usual = KAFKA_COLUMNS if decode is None else default_columns(decode, KAFKA_COLUMNS)
        named = list(usual if columns is None else columns)
        shown = [*named, *(name for name in more if name not in named)]
        topics = {log.topic for log in logs}
        condition = _filter_of(options, topics)
        conditions = [one for one in (condition, where) if one is not None]
        needed = list(dict.fromkeys([*shown, *(name for one in conditions for name in one.columns)]))
        if condition is not None and search is None:
            sought = condition.search(_in_form(decode, None), _in_form(decode, "utf8"))
            search = None if sought is None else sought.compiled()
        ranged = range_of(options)

        def plan(log: Plannable) -> Sequence[Split]:
            splits = _plan(
                partial(log.plan, target_bytes=target_bytes, verify_transactions=verify_transactions),
                log,
                ranged,
                condition,
            )
            planned(log, splits)
            return splits

        splits: Iterable[Split] = (split for log in logs for split in plan(log))
        notes: list[str] = []
        if plans_now:
            with collected(forwards=True) as notes:
                splits = list(splits)
        limit = options.get("limit")
        super().__init__(
            splits,
            needed,
            check_crcs=options.get("check_crcs", True),
            limit=limit,
            decode=decode,
            topics=topics,
            search=search,
            threads=threads,
            by_headers=by_headers,
            conditions=conditions,
            shown=shown,
        )
        self.notes += notes


def _filter_of(options: ReadOptions, topics: set[str | None]) -> Filter | None:
    expression, decode = options.get("filter"), cast("Decoding | None", options.get("decode"))
    if expression is None:
        return None
    return Filter(expression, schema_of(decode, topics))


def schema_of(decode: Decoding | None, topics: Iterable[str | None]) -> pa.Schema:
    """Return the schema of all columns that a read of these topics may have."""
    if decode is None:
        return _native.row_schema(_native.ROW_COLUMNS)
    return RowDecoder(decode, [*_native.ROW_COLUMNS, *decoded_columns(decode)], set(topics)).schema


def _in_form(decode: Decoding | None, form: str | None) -> list[str]:
    """Return the parts that are decoded in this form; None: that are not decoded."""
    return [part for part in PARTS if (None if decode is None else decode.form(part)) == form]


def range_of(options: ReadOptions) -> RangeOptions:
    """Return those of the options that `Log.plan` takes."""
    found = {name: value for name, value in options.items() if name in _RANGE}
    return cast("RangeOptions", found)


def _plan(
    plan: Callable[..., list[Split]], log: Plannable, ranged: RangeOptions, condition: Filter | None
) -> Sequence[Split]:
    """Plan a read, without the splits that a filter excludes."""
    if condition is None:
        return plan(**ranged)
    if not condition.may_match(log.topic, log.partition):
        return []
    if condition.start_timestamp is not None:
        given = ranged.get("start_timestamp")
        earliest = 0 if given is None else to_ms("start_timestamp", given)
        ranged = {**ranged, "start_timestamp": max(earliest, condition.start_timestamp)}
    splits = plan(**ranged)
    present = [split for split in splits if not split.is_absent]
    if not present:
        return splits
    first = present[0].start_offset
    # A damaged log may go on after the end that is known.
    known_end = log.log_end_offset
    start, end = condition.offsets
    if start <= first and end >= known_end:
        return splits
    start = min(max(start, first), known_end)
    if end <= start < known_end or start >= present[-1].end_offset:
        return []
    narrowed: RangeOptions = {**ranged, "start_offset": start}
    narrowed.pop("start_timestamp", None)
    if end < min(present[-1].end_offset, known_end):
        narrowed["end_offset"] = end
        narrowed.pop("end_timestamp", None)
    return plan(**narrowed)
