"""`Matches`: the records that a search finds, with the records around them on request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from brokerless.arguments import check_number
from brokerless.io.cores import cores
from brokerless.log.log_reader import LogReader
from brokerless.log.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from brokerless.log.read_options import Condition, Plannable, ReadOptions
    from brokerless.log.search import Search
    from brokerless.log.split import Split

MATCH = "match"
"""The column that is true for a match, and false for a record around one."""

_PLACE = ("topic", "partition", "offset")
# Splits of one partition are searched at the same time.
_TARGET_BYTES = 128 << 20


class Matches(LogReader):
    """The records that a search finds, as `pyarrow.RecordBatch`. Also an Arrow stream, for `pyarrow.table(matches)`.

    Several threads search. The order of the rows does not depend on their number.

    Args:
        logs: the logs to search, in this order. Each is planned when its turn comes.
        search: what is sought.
        options: the options of the read. `decode` must have its schemas.
        where: a condition that a record must meet, too; None: none.
        around: the number of records before and after each match that are returned, too. The rows then have the column
            `match`, which is false for these records.
        planned: called with each log and its splits, before they are read.

    Attributes:
        schema: the Arrow schema of the rows.
        lost: the ranges left out so far, with `on_corrupt="skip"`.
        notes: one sentence for each uncertainty about the rows so far, such as a skipped range.

    Raises:
        ValueError: a column is unknown, a number is negative, a pattern does not compile, or logs have one name.
        CorruptRecordError: raised at the damage, after all matches before it were returned.

    >>> import brokerless as bl
    >>> matches = bl.Log(SAMPLE).find(key="k1", columns=["offset", "key"])
    >>> matches.read_all().num_rows, matches.searched
    (32, 120)
    """

    def __init__(
        self,
        logs: Sequence[Plannable],
        search: Search,
        options: ReadOptions,
        *,
        where: Condition | None = None,
        around: int = 0,
        planned: Callable[[Any, Sequence[Split]], None] = lambda _log, _splits: None,
    ) -> None:
        check_number("around", around, 0)
        self._search = search.compiled()
        super().__init__(
            logs,
            options,
            search=self._search,
            where=where,
            # Records around a match are read by its place.
            more=_PLACE if around else (),
            threads=cores(),
            target_bytes=_TARGET_BYTES,
            planned=planned,
        )
        if around:
            named = options.get("columns")
            shown = self._columns if named is None else list(named)
            surroundings = Surroundings(logs, partial(_read, like=options, columns=self._columns), around)
            self._rows = (_shown(rows, shown, is_match) for rows, is_match in surroundings.add(self._rows))
            self.schema = _shown(_no_rows(self.schema), shown, False).schema

    @property
    def searched(self) -> int:
        """The number of records that were looked at so far."""
        return self._search.progress[0]


def _read(
    log: Plannable,
    start_offset: int,
    end_offset: int | None,
    *,
    limit: int | None = None,
    columns: Sequence[str],
    like: ReadOptions,
) -> pa.RecordBatch:
    """Read records around a match, which may lie outside the offsets and times of the search."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    options: ReadOptions = {
        "start_offset": start_offset,
        "end_offset": end_offset,
        "isolation_level": like.get("isolation_level", "read_uncommitted"),
        "on_corrupt": like.get("on_corrupt", "raise"),
        "check_crcs": like.get("check_crcs", True),
        "decode": like.get("decode"),
        "columns": columns,
        "limit": limit,
    }
    reader = LogReader([log], options)
    rows = pa.Table.from_batches(reader, schema=reader.schema).combine_chunks().to_batches()
    return rows[0] if rows else _no_rows(reader.schema)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    return pa.RecordBatch.from_pylist([], schema=schema)


def _shown(rows: pa.RecordBatch, columns: Sequence[str], is_match: bool) -> pa.RecordBatch:
    """Return these columns, and whether the rows are matches."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    match = pa.repeat(pa.scalar(is_match), rows.num_rows)
    return pa.RecordBatch.from_arrays([*(rows[name] for name in columns), match], names=[*columns, MATCH])
