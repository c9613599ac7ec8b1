"""Dumps of a log whose records show decoded keys and values: in the text of a dump, or in its JSON.

The native dumps write everything but the contents. The records come from a dump as JSON, which gives their bytes.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from brokerless import _native
from brokerless.errors import BrokerlessError
from brokerless.inspection.record_contents import ROW
from brokerless.metadata.schema import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.inspection.record_contents import Contents, Fields

_T = TypeVar("_T")
_RECORDS = ',"records":'
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class _Record(NamedTuple):
    """A record as a JSON object. `row` is the number of its row; None for a control record, which has no content."""

    fields: dict[str, Any]
    row: int | None


class _Batch(NamedTuple):
    """A batch as a JSON object without its records, and these records; None if they are damaged."""

    line: str
    size: int
    records: list[_Record] | None


class _Source:
    """The batches and rows of a log, and an error that is kept until its batch comes first."""

    def __init__(self, contents: Contents, topic: str | None, partition: int | None) -> None:
        self.contents = contents
        self._place = (topic, partition)
        self._dump = _native.JsonDump(records=True, bytes="base64")
        self._failed: BrokerlessError | None = None

    def batches(self, data: memoryview, position: int) -> tuple[list[_Batch], pa.RecordBatch, int]:
        """Return whole batches, the rows of their records, and the size of the batches in bytes.

        A damaged batch is the last one, and does not count.
        """
        if self._failed is not None:
            raise self._failed
        text, consumed = self._dump.feed(data, position)
        found: list[_Batch] = []
        rows: list[dict[str, Any]] = []
        # Not `splitlines`: a JSON text may contain U+2028.
        for line in text.decode().split("\n")[:-1]:
            batch = json.loads(line)
            records: list[_Record] = []
            for record in batch["records"] or ():
                if batch["is_control"]:
                    records.append(_Record(record, None))
                else:
                    records.append(_Record(record, len(rows)))
                    rows.append(record)
            known = None if batch["records"] is None else records
            found.append(_Batch(line[: line.index(_RECORDS)], batch["size"], known))
        return found, _rows(rows, *self._place), consumed

    def shown(self, contents: Iterator[tuple[int, _T]]) -> dict[int, _T]:
        """Return what rows show. An error is raised by the next call of `batches`, after the rows before it."""
        shown: dict[int, _T] = {}
        try:
            shown.update(contents)
        except BrokerlessError as error:
            if not shown:
                raise
            self._failed = error
        return shown

    def is_end(self, record: _Record, shown: dict[int, _T]) -> bool:
        """Return whether the dump ends before a record, because it does not decode. The rows before it are shown."""
        return self._failed is not None and record.row is not None and record.row >= len(shown)


class DecodedJson:
    """A dump with one JSON object for each batch: see `_native.JsonDump`."""

    def __init__(self, contents: Contents, topic: str | None, partition: int | None, *, bytes_as: str) -> None:
        self._source = _Source(contents, topic, partition)
        self._bytes_as = bytes_as

    def feed(self, data: memoryview, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and the size of these batches."""
        batches, rows, consumed = self._source.batches(data, position)
        shown = self._source.shown(self._source.contents.members(rows, self._bytes_as))
        lines = []
        for batch in batches:
            records: list[str] = []
            is_end = False
            for record in batch.records or ():
                if is_end := self._source.is_end(record, shown):
                    break
                if record.row is None or record.row in shown:
                    records.append(self._object(record, None if record.row is None else shown[record.row]))
            lines.append(
                f"{batch.line}{_RECORDS}{'null' if batch.records is None else '[' + ','.join(records) + ']'}}}\n"
            )
            if is_end:
                return "".join(lines).encode(), 0
        return "".join(lines).encode(), consumed

    def _object(self, record: _Record, members: str | None) -> str:
        headers = record.fields.get("headers")
        parts = []
        for name, value in record.fields.items():
            if name == "key" and members is not None:
                parts.append(members)
            elif name == "headers" and headers:
                parts.append(_headers(headers, self._bytes_as))
            elif name != "value" or members is None:
                parts.append(f'"{name}":{json_text(value)}')
        return f"{{{','.join(parts)}}}"


class DecodedText:
    """The text of a dump with its records: see `_native.LogDump`."""

    def __init__(
        self,
        contents: Contents,
        topic: str | None,
        partition: int | None,
        *,
        skip_record_metadata: bool,
        escape_controls: bool,
    ) -> None:
        self._source = _Source(contents, topic, partition)
        self._skips_metadata, self._escapes = skip_record_metadata, escape_controls
        options = {"skip_record_metadata": skip_record_metadata, "escape_controls": escape_controls}
        self._dump = _native.LogDump(deep_iteration=True, **options)
        # Of a batch with damaged records, the readable ones are shown as they are.
        self._stored = _native.LogDump(deep_iteration=True, print_data_log=True, **options)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(offset, next offset) wherever offsets are not consecutive."""
        return self._dump.gaps

    def feed(self, data: memoryview, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and the size of these batches."""
        batches, rows, consumed = self._source.batches(data, position)
        shown = self._source.shown(self._source.contents.fields(rows))
        lines = iter(self._lines(data[:consumed], position))
        out: list[bytes] = []
        for batch in batches:
            if batch.records is None:
                out.append(self._stored.feed(data[consumed : consumed + batch.size], position + consumed)[0])
                break
            out += [next(lines), b"\n"]
            for record in batch.records:
                if self._source.is_end(record, shown):
                    return b"".join(out), 0
                line = b"\n".join(next(lines) for _ in range(self._height(record)))
                if record.row is None or record.row in shown:
                    content = "" if record.row is None else self._content(shown[record.row])
                    out += [line, content.encode(), b"\n"]
        return b"".join(out), consumed

    def _lines(self, data: memoryview, position: int) -> list[bytes]:
        """Return the lines of whole batches, without the contents of their records."""
        texts = []
        while data:
            text, consumed = self._dump.feed(data, position)
            texts.append(text)
            data, position = data[consumed:], position + consumed
        return b"".join(texts).split(b"\n")[:-1]

    def _height(self, record: _Record) -> int:
        """Return how many lines a record takes: the key of a header may have line ends."""
        if self._skips_metadata or self._escapes:
            return 1
        keys: list[str] = [key for key, _ in record.fields.get("headers", ())]
        return 1 + "".join(keys).count("\n")

    def _content(self, fields: Fields) -> str:
        texts = [f" {name}: {_CONTROL.sub(_escaped, text) if self._escapes else text}" for name, text in fields]
        # As in Kafka 4.1, a payload alone has no bar.
        bar = "|" if self._skips_metadata and fields and fields[0][0] == "key" else ""
        return bar + "".join(texts)


def _rows(records: list[dict[str, Any]], topic: str | None, partition: int | None) -> pa.RecordBatch:
    """Return records of a dump as rows with the columns `ROW`."""
    columns: dict[str, Any] = {
        "topic": [topic] * len(records),
        "partition": [partition] * len(records),
        "offset": [record["offset"] for record in records],
        "position": range(len(records)),
        "key": [_stored(record["key"]) for record in records],
        "value": [_stored(record["value"]) for record in records],
        "headers": [
            [{"key": key, "value": _stored(value)} for key, value in record.get("headers", ())] for record in records
        ],
    }
    schema = _native.row_schema(ROW)
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _stored(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _headers(headers: list[tuple[str, str | None]], bytes_as: str) -> str:
    """Return headers as the member of a JSON object."""
    found = [{"headers": [{"key": key, "value": _stored(value)} for key, value in headers]}]
    rows = pa.RecordBatch.from_pylist(found, schema=_native.row_schema(["headers"]))
    return _native.json_lines(rows, bytes_as).decode()[1:-2]


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04X}"
