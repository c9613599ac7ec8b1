"""The state of a cluster, as tables that are read when a query names them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.checking.check import check
from brokerless.checking.finding import SCHEMA as FINDINGS
from brokerless.io.scanning import Scannable
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import schema
from brokerless.state import groups, offset_commits, producers, schemas, transactions
from brokerless.state.schemas import Schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.compute as pc

TOPICS = schema(topic=pa.string(), topic_id=pa.string(), partitions=pa.int32(), segments=pa.int64(), bytes=pa.int64())
PARTITIONS = schema(
    topic=pa.string(),
    partition=pa.int32(),
    segments=pa.int64(),
    bytes=pa.int64(),
    start_offset=pa.int64(),
    end_offset=pa.int64(),
    high_watermark=pa.int64(),
    path=pa.string(),
)


class StateTable(Scannable):
    """A table whose rows are read anew by each scan.

    Args:
        columns: its schema.
        read: returns its rows.
    """

    def __init__(self, columns: pa.Schema, read: Callable[[], pa.Table | pa.RecordBatchReader]) -> None:
        super().__init__(columns)
        self._read = read

    def rows(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """Yield these columns of the rows that meet an expression; None: of all rows."""
        found = self._read()
        for batch in found.to_batches() if isinstance(found, pa.Table) else found:
            table = pa.Table.from_batches([batch])
            yield from (table if filter is None else table.filter(filter)).select(list(columns)).to_batches()


def state_tables(*paths: str) -> dict[str, StateTable]:
    """Return the tables of log directories, by name: those of the functions of the same names, and of their topics."""
    return {
        "groups": StateTable(groups.SCHEMA, partial(groups.groups, *paths)),
        "commits": StateTable(offset_commits.SCHEMA, partial(offset_commits.commits, *paths, history=False)),
        "transactions": StateTable(transactions.SCHEMA, partial(transactions.transactions, *paths)),
        "producers": StateTable(producers.SCHEMA, partial(producers.producers, *paths)),
        "topics": StateTable(TOPICS, partial(_topics, paths)),
        "partitions": StateTable(PARTITIONS, partial(_partitions, paths)),
        "schemas": StateTable(schemas.SCHEMA, partial(_schemas, paths)),
        "findings": StateTable(FINDINGS, partial(_findings, paths)),
    }


def _schemas(paths: Sequence[str]) -> pa.Table:
    return Schemas(*paths).table()


def _findings(paths: Sequence[str]) -> pa.Table:
    return pa.Table.from_pylist([finding.to_dict() for finding in check(*paths)], FINDINGS)


def _partitions(paths: Sequence[str]) -> pa.Table:
    rows = [
        {
            "topic": log.topic,
            "partition": log.partition,
            "segments": len(log.segments),
            "bytes": sum(segment.size for segment in log.segments),
            "start_offset": log.log_start_offset,
            "end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "path": log.path,
        }
        for log in LogDirs(*paths).logs()
    ]
    return pa.Table.from_pylist(rows, PARTITIONS)


def _topics(paths: Sequence[str]) -> pa.Table:
    found: dict[str, dict[str, Any]] = {}
    for log in LogDirs(*paths).logs():
        if log.topic is None:
            continue
        row = found.setdefault(log.topic, dict(zip(TOPICS.names, (log.topic, log.topic_id, 0, 0, 0), strict=True)))
        size = sum(segment.size for segment in log.segments)
        for name, more in (("partitions", 1), ("segments", len(log.segments)), ("bytes", size)):
            row[name] += more
    return pa.Table.from_pylist(list(found.values()), TOPICS)
