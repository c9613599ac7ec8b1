"""The binary files of a log directory as text, in the format of Kafka's DumpLogSegments, or as JSON lines.

As in that tool (kafka-dump-log), the suffix after the last dot gives the file's kind. An index is compared with the
.log of the same name beside it, and a time index also with the .index. Unlike that tool, this module ignores the
suffixes `.deleted`, `.swap` and `.cleaned`.

`report` returns the findings at the very end: index entries that do not fit, and gaps between record offsets. Gaps are
normal after compaction and around transaction markers. A batch with broken framing raises; a wrong checksum shows as
`isvalid: false`.
"""

from __future__ import annotations

import json
import os
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from brokerless import _native
from brokerless.errors import CorruptRecordError, located
from brokerless.inspection.decode_files import entries, has_entries, offset_index, sibling, suffix
from brokerless.inspection.decoded_dump import DecodedJson, DecodedText
from brokerless.io.file_window import Window, batch_at
from brokerless.io.storage import File, absolute, read_all
from brokerless.layout.file_names import base_offset, parse_directory_name
from brokerless.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from brokerless.inspection.record_contents import Contents

    Feed = Callable[[memoryview, int], tuple[bytes, int]]

_ABORTED = (
    "version: {version} producerId: {producer_id} firstOffset: {first_offset} lastOffset: {last_offset} "
    "lastStableOffset: {last_stable_offset}\n"
)
# Kafka's tool writes the last space even if no batch follows.
_PRODUCER = (
    "producerId: {producer_id} producerEpoch: {producer_epoch} coordinatorEpoch: {coordinator_epoch} "
    "currentTxnFirstOffset: {open} lastTimestamp: {timestamp} "
)
_LAST_BATCH = (
    "firstSequence: {first} lastSequence: {last_sequence} lastOffset: {last_offset} offsetDelta: {offset_delta} "
    "timestamp: {timestamp}"
)

# Batches around an index entry are read together, because entries are about 4 KiB apart.
_NEIGHBOURS = 1 << 20

# The headings of reports, in output order. The file's path may follow.
_INDEX_MISMATCH = "Mismatches in :"
_TIME_MISMATCH = "Found timestamp mismatch in :"
_TIME_ORDER = "Found out of order timestamp in :"
_NOT_FOUND = "The following indexed offsets are not found in the log."
_GAPS = "Non-consecutive offsets in "
_FILE = ""
_UNKNOWN = "Ignoring unknown file {}"
_REPORTS = (_FILE, _INDEX_MISMATCH, _TIME_MISMATCH, _TIME_ORDER, _NOT_FOUND, _GAPS)


class Dump:
    """A dump of files, one after the other, that collects findings for a report at the end.

    Args:
        deep_iteration: show the records of each batch, too.
        print_data_log: show keys and values, too (implies `deep_iteration`).
        skip_record_metadata: show only keys and values of a record.
        verify_index_only: check indexes without showing their entries.
        index_sanity_check: check only the index itself, not its entries against the .log.
        max_bytes: the maximum number of bytes to read from each .log.
        escape_controls: escape control characters in keys, values and header keys, as JSON does, for a terminal.
        contents: decodes the keys and values of records, which are then shown (implies `print_data_log`).

    Attributes:
        is_damaged: whether any file had a wrong checksum or an index that does not fit.
    """

    def __init__(
        self,
        *,
        deep_iteration: bool = False,
        print_data_log: bool = False,
        skip_record_metadata: bool = False,
        verify_index_only: bool = False,
        index_sanity_check: bool = False,
        max_bytes: int | None = None,
        escape_controls: bool = False,
        contents: Contents | None = None,
    ) -> None:
        self._log_options = {
            "escape_controls": escape_controls,
            "deep_iteration": deep_iteration or print_data_log,
            "print_data_log": print_data_log,
            "skip_record_metadata": skip_record_metadata,
        }
        self._contents = contents
        self._verify_index_only = verify_index_only
        self._index_sanity_check = index_sanity_check
        self._max_bytes = max_bytes
        self._reports: dict[tuple[str, str], list[str]] = {}
        self.is_damaged = False

    def text(self, path: str) -> Iterator[bytes]:
        """Yield the text of one file, in pieces that end with a line.

        Raises:
            CorruptRecordError: the framing is broken or, with `index_sanity_check`, the index.
            ValueError: the name of an index does not give its base offset.
        """
        yield f"Dumping {printable(path)}\n".encode()
        texts = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._offset_index,
            ".timeindex": self._time_index,
            ".txnindex": self._transaction_index,
            ".snapshot": self._snapshot,
        }
        text = texts.get(suffix(path))
        if text is not None:
            yield from text(path)
        elif has_entries(path):
            self._report(_FILE, f"Ignoring text file {path}: JSON shows its entries")
        else:
            self._report(_FILE, _UNKNOWN.format(path))

    def json_lines(self, path: str, *, records: bool = False, bytes_as: str = "utf8") -> Iterator[bytes]:
        """Yield one file as JSON lines: an object for each batch of a .log or .checkpoint, or for each entry.

        Raises:
            CorruptRecordError: raised at the damage, after all lines before it.
            ValueError: the name of an index does not give its base offset.
        """
        if suffix(path) in (".log", ".checkpoint"):
            if self._contents is None:
                dump: _native.JsonDump | DecodedJson = _native.JsonDump(records=records, bytes=bytes_as)
            else:
                dump = DecodedJson(self._contents, *place_of(path), bytes_as=bytes_as)
            feed = self._checked(dump.feed, b'"is_valid":false')
            with File(path) as file, located(path):
                yield from _whole_batches(file, self._end(file), feed)
        elif has_entries(path):
            for entry in entries(path):
                yield f"{json.dumps(entry, separators=(',', ':'))}\n".encode()
        else:
            self._report(_FILE, _UNKNOWN.format(path))

    def report(self) -> str:
        """Return the findings of all files so far, the latest first within each file, and clear them."""
        reports = sorted(self._reports.items(), key=lambda report: _REPORTS.index(report[0][0]))
        self._reports = {}
        return "".join(
            f"{printable(line)}\n" for heading, lines in reports for line in ["".join(heading), *reversed(lines)]
        )

    def _report(self, heading: str, path: str, *lines: str) -> None:
        self._reports.setdefault((heading, path), []).extend(lines)

    def _finding(self, heading: str, path: str, line: str) -> None:
        self.is_damaged = True
        self._report(heading, "" if heading == _NOT_FOUND else absolute(path), line)

    def _log(self, path: str) -> Iterator[bytes]:
        yield f"{_log_heading(path)}\n".encode()
        dump = self._log_dump(path)
        try:
            with File(path) as file, located(path):
                length, end = file.size(), self._end(file)
                position = yield from _whole_batches(file, end, self._checked(dump.feed, b" isvalid: false"))
                # Kafka's tool omits this line whenever a maximum is set, even one beyond the file's end.
                if self._max_bytes is None and position < length:
                    name = printable(os.path.basename(path))
                    yield f"Found {length - position} invalid bytes at the end of {name}\n".encode()
        finally:
            gaps = [f"  {before} is followed by {after}" for before, after in dump.gaps]
            if gaps:
                self._report(_GAPS, absolute(path), *gaps)

    def _log_dump(self, path: str) -> _native.LogDump | DecodedText:
        options = self._log_options
        if self._contents is None:
            return _native.LogDump(**options)
        return DecodedText(
            self._contents,
            *place_of(path),
            skip_record_metadata=options["skip_record_metadata"],
            escape_controls=options["escape_controls"],
        )

    def _end(self, file: File) -> int:
        return file.size() if self._max_bytes is None else min(file.size(), self._max_bytes)

    def _checked(self, feed: Feed, mark: bytes) -> Feed:
        """Wrap `feed` to detect wrong checksums.

        If a checksum is wrong, the text contains `mark`. A record may contain it as well, so checksums are verified.
        """

        def fed(data: memoryview, position: int) -> tuple[bytes, int]:
            text, consumed = feed(data, position)
            if not self.is_damaged and mark in text:
                batches, _ = _native.scan(data[:consumed], position, check_crcs=True)
                self.is_damaged = not all(batches["is_valid"].to_pylist())
            return text, consumed

        return fed

    def _offset_index(self, path: str) -> Iterator[bytes]:
        found = entries(path)
        first = next(found, None)
        if first is None:
            yield f"{printable(path)} is empty.\n".encode()
            return
        if self._index_sanity_check:
            yield _sanity(path, _native.OffsetIndex)
            return
        with _Batches(sibling(path, ".log")) as batches:
            for entry in chain([first], found):
                offset, position = entry["offset"], entry["position"]
                batch = batches.at(position)
                if batch is None:
                    raise CorruptRecordError(
                        f"no batch where the offset index points: offset {offset} at {position}, "
                        f"the log ends at {batches.end}",
                        path=path,
                    )
                if batch.last_offset != offset:
                    line = f"  Index offset: {offset}, log offset: {batch.last_offset}"
                    self._finding(_INDEX_MISMATCH, path, line)
                if not self._verify_index_only:
                    yield f"offset: {offset} position: {position}\n".encode()

    def _time_index(self, path: str) -> Iterator[bytes]:
        if self._index_sanity_check:
            yield _sanity(path, _native.TimeIndex)
            return
        index = offset_index(sibling(path, ".index"))
        previous = -1
        with _Batches(sibling(path, ".log")) as batches:
            for entry in entries(path):
                timestamp, offset = entry["timestamp"], entry["offset"]
                batch = next((b for b in batches.since(index.lookup(offset)[1]) if b.last_offset >= offset), None)
                if batch is None or batch.last_offset != offset:
                    found = -1 if batch is None else batch.last_offset
                    self._finding(_NOT_FOUND, path, f"Indexed offset: {offset}, found log offset: {found}")
                else:
                    self._check_timestamp(path, timestamp, previous, batches.max_timestamp(batch))
                if not self._verify_index_only:
                    yield f"timestamp: {timestamp} offset: {offset}\n".encode()
                previous = timestamp

    def _check_timestamp(self, path: str, timestamp: int, previous: int, in_log: int) -> None:
        if in_log != timestamp:
            self._finding(_TIME_MISMATCH, path, f"  Index timestamp: {timestamp}, log timestamp: {in_log}")
        if previous >= timestamp:
            line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
            self._finding(_TIME_ORDER, path, line)

    def _transaction_index(self, path: str) -> Iterator[bytes]:
        for entry in entries(path):
            yield _ABORTED.format(**entry).encode()

    def _snapshot(self, path: str) -> Iterator[bytes]:
        try:
            producers = entries(path)
        except CorruptRecordError as error:
            self.is_damaged = True
            self._report(_FILE, _snapshot_error(error))
            return
        for producer in producers:
            yield _snapshot_line(producer).encode()


class _Batch(NamedTuple):
    """The fields of a batch that the checks of an index need."""

    position: int
    size: int
    last_offset: int
    max_timestamp: int
    is_control: bool
    records_count: int | None


class _Batches:
    """The batches of a .log by position. Requested positions mostly ascend, so one window of batches is cached."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = File(path)
        self._known: dict[int, _Batch] = {}
        self.end = self._file.size()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def at(self, position: int) -> _Batch | None:
        """Return the batch that starts at `position`; None after the last whole batch and for negative positions."""
        if position < 0:
            return None
        if position not in self._known:
            self._known = self._window(position)
        return self._known.get(position)

    def since(self, position: int) -> Iterator[_Batch]:
        """Yield the batches from the one at `position` on."""
        while batch := self.at(position):
            yield batch
            position += batch.size

    def max_timestamp(self, batch: _Batch) -> int:
        """Return the largest timestamp of the records themselves; -1 without records."""
        if batch.records_count == 0:
            return -1
        if batch.is_control:
            return batch.max_timestamp  # one record
        decoder = _native.Decoder(["timestamp"], check_crcs=False)
        data = self._file.read(batch.position, batch.size)
        largest, consumed = -1, 0
        with located(self._path):
            # A batch with many records is decoded in parts.
            while not consumed:
                rows, consumed = decoder.decode(data, batch.position)
                if rows is None:
                    break
                stamps = rows.column(0).cast(pa.int64()).to_pylist()
                largest = max([largest, *(stamp for stamp in stamps if stamp is not None)])
        return largest

    def _window(self, position: int) -> dict[int, _Batch]:
        length = _NEIGHBOURS
        while True:
            data = self._file.read(position, length)
            with located(self._path):
                batches, consumed = _native.scan(data, position)
            if consumed or len(data) < length:
                return {row["position"]: _Batch(*row.values()) for row in batches.select(_Batch._fields).to_pylist()}
            length *= 4


def _whole_batches(file: File, end: int, feed: Feed) -> Generator[bytes, None, int]:
    """Yield the output of `feed` for the whole batches before `end`; return the position where they end."""
    window = Window(file, 0, end)
    while window.position < end:
        text, consumed = feed(window.data, window.position)
        window.advance(consumed)
        if text:  # may come without progress: the readable part of a batch whose damage the next call raises
            yield text
        elif len(window.data) >= end - window.position or not window.fill(0):
            break
    return window.position


def place_of(path: str) -> tuple[str | None, int | None]:
    """Return the topic and the partition of a file, by the name of its directory."""
    try:
        name = parse_directory_name(os.path.basename(os.path.dirname(absolute(path))))
    except ValueError:
        return None, None
    return name.topic, name.partition


def _log_heading(path: str) -> str:
    if suffix(path) != ".checkpoint":
        return f"Log starting offset: {_starting_offset(path)}"
    snapshot = re.match(r"(\d{20})-(\d{10})\.checkpoint", os.path.basename(path))
    if snapshot is None:
        return "KRaft bootstrap snapshot"
    return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"


def _starting_offset(path: str) -> int:
    """Return the base offset from the file's name or, if the name has none, from the first batch."""
    try:
        return base_offset(path)
    except ValueError:
        with File(path) as file:
            first = batch_at(file, 0)
        return 0 if first is None else int(first["base_offset"])


def _sanity(path: str, kind: type[_native.OffsetIndex | _native.TimeIndex]) -> bytes:
    with located(path):
        kind(read_all(path), base_offset(path), raw=True).sanity_check()
    return f"{printable(path)} passed sanity check.\n".encode()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None or value < 0 else f"OptionalLong[{value}]"


def _snapshot_line(producer: dict[str, Any]) -> str:
    line = _PRODUCER.format(open=_optional(producer["current_txn_first_offset"]), **producer)
    if producer["last_offset"] >= 0:
        first = _first_sequence(producer["last_sequence"], producer["offset_delta"])
        line += _LAST_BATCH.format(first=first, **producer)
    return line + "\n"


def _first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Return the first sequence. Sequences wrap from 2^31 - 1 to 0 (Kafka's DefaultRecordBatch.decrementSequence)."""
    first = last_sequence - offset_delta
    return first if first >= 0 else first + (1 << 31)


def _snapshot_error(error: CorruptRecordError) -> str:
    stored = re.search(r"stored ([0-9a-f]+), computed ([0-9a-f]+)", str(error))
    if stored is None:
        return f"Snapshot is corrupt: {error}"
    crcs = [int(crc, 16) for crc in stored.groups()]
    return "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}".format(*crcs)
