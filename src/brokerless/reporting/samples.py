"""Samples of records: the first and the latest records of partitions, as short text."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import BrokerlessError
from brokerless.layout.file_names import is_internal
from brokerless.metadata.schema import TIME, schema
from brokerless.notes import collected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.log.log import Log

SCHEMA = schema(
    topic=pa.string(),
    partition=pa.int32(),
    place=pa.string(),
    offset=pa.int64(),
    time=TIME,
    key=pa.string(),
    key_bytes=pa.int64(),
    value=pa.string(),
    value_bytes=pa.int64(),
)
"""The columns of samples: `place` is "first" or "latest"; `key` and `value` are short texts."""

MOST_PARTITIONS = 200
"""The most partitions that have samples."""

MOST_RECORDS = 20
"""The most first, and the most latest records of a partition."""

_MOST_BYTES = 200
_MOST_HEX_BYTES = 40
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
# A compacted log has few records at its end, so the search for the latest ones extends this often.
_EXTENSIONS, _FACTOR = 5, 8


def sampled(logs: Iterable[Log]) -> list[Log]:
    """Return the logs that have samples: the lowest partitions of every topic, without Kafka's own topics.

    Kafka's own topics may hold credentials, and other parts of the report show their contents.
    """
    chosen = [log for log in logs if log.topic is None or not is_internal(log.topic)]
    return sorted(chosen, key=lambda log: (log.partition or 0, log.topic or ""))[:MOST_PARTITIONS]


def samples_in(log: Log, number: int) -> pa.Table:
    """Return the first and the latest records of a log, with the columns `SCHEMA`, up to the first damage.

    Args:
        log: the log.
        number: the number of first, and of latest records.
    """
    # Damage is a finding.
    with collected():
        first = _rows(log, log.local_log_start_offset, log.log_end_offset, number)[:number]
        after = first[-1]["offset"] + 1 if first else log.local_log_start_offset
        latest = _latest(log, after, number)
    rows = [{**row, "place": "first"} for row in first] + [{**row, "place": "latest"} for row in latest]
    return pa.Table.from_pylist([{"topic": log.topic, "partition": log.partition, **row} for row in rows], SCHEMA)


def _latest(log: Log, after: int, number: int) -> list[dict[str, Any]]:
    """Return the latest records, none of which is below the offset `after`."""
    end, span = log.log_end_offset, number
    rows: list[dict[str, Any]] = []
    for _ in range(_EXTENSIONS):
        start = max(after, end - span)
        if start < end:
            rows = _rows(log, start, end, None)[-number:]
        if len(rows) >= number or start <= after:
            break
        span *= _FACTOR
    return rows


def _rows(log: Log, start: int, end: int, limit: int | None) -> list[dict[str, Any]]:
    """Return records of a range of offsets, of which at most `MOST_RECORDS` at each end are kept."""
    found: list[dict[str, Any]] = []
    try:
        reader = log.read(start, end, columns=["offset", "timestamp", "key", "value"], limit=limit)
        for batch in reader:
            # Of a large batch, only the ends are needed.
            for part in (batch.slice(0, MOST_RECORDS), batch.slice(max(MOST_RECORDS, batch.num_rows - MOST_RECORDS))):
                found += _shortened(part)
            if len(found) > 4 * MOST_RECORDS:
                found = [*found[:MOST_RECORDS], *found[-MOST_RECORDS:]]
    except (BrokerlessError, OSError):
        pass
    return found


def _shortened(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns: dict[str, Sequence[Any]] = {
        "offset": batch["offset"].to_pylist(),
        "time": batch["timestamp"].cast(pa.int64()).to_pylist(),
    }
    for name in ("key", "value"):
        column: Any = batch[name]
        lengths = pc.binary_length(column).to_pylist()
        # The slice comes before Python, because a value may have megabytes.
        heads = pc.binary_slice(column, 0, _MOST_BYTES).to_pylist()
        columns[name] = [
            None if head is None else _as_text(head, size) for head, size in zip(heads, lengths, strict=True)
        ]
        columns[f"{name}_bytes"] = lengths
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _as_text(head: bytes, size: int) -> str:
    r"""Return the beginning of a key or a value as text; as hex digits if it is not UTF-8.

    >>> _as_text(b"paid", 4), _as_text(b"\xff\x01", 2)
    ('paid', '0xff01')
    """
    try:
        # The cut may be inside a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=size <= len(head))
        is_text = not _CONTROLS.search(text)
    except UnicodeDecodeError:
        text, is_text = "", False
    if not is_text:
        head = head[:_MOST_HEX_BYTES]
        text = f"0x{head.hex()}"
    return text if size <= len(head) else f"{text}…"
