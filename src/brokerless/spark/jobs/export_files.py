"""One task of an export: it reads its splits, and writes one file for each of their partitions.

Rows go from the decoder's Arrow batches into the files. The task returns only counts. The plan determines the file
names, so a retry or a speculative attempt writes the same files again.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import CorruptRecordError
from brokerless.log.defect import Defect
from brokerless.log.reader import Reader
from brokerless.log.segment import NO_END
from brokerless.spark.jobs.formats import EXACT_TIME, PATH, decoded_schema, leaf_paths, suffix, writing
from brokerless.spark.jobs.manifest import MANIFEST, RECEIPTS, ExportedFile, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.split import Split
    from brokerless.spark.jobs.export_directory import ExportDirectory
    from brokerless.spark.jobs.formats import Write
    from brokerless.spark.source.decoded import Decoded
    from brokerless.spark.source.tasks import Task
    from brokerless.values.row_decoder import RowDecoder


@dataclass(frozen=True, kw_only=True)
class FileWriter:
    """The work of an export's tasks. Picklable.

    Attributes:
        directory: the directory of the export.
        form: "parquet" or "json".
        columns: the columns of the files.
        compression: the codec of the files.
        check_crcs: verify checksums.
        decoded: the keys and values to decode, with their types and schemas; None: the files have bytes.
    """

    directory: ExportDirectory
    form: str
    columns: tuple[str, ...]
    compression: str
    check_crcs: bool
    decoded: Decoded | None = None

    def check(self) -> None:
        """Check that the files can hold what is decoded.

        Raises:
            ValueError: Parquet has no such type.
        """
        if self.decoded is not None and self.form == "parquet":
            leaf_paths(decoded_schema(self.columns, self.decoded.made))

    def write_numbered(self, numbered: tuple[int, Task[Split]]) -> Receipt:
        """Write the files of a numbered task, and its receipt.

        Raises:
            CorruptRecordError: a log is damaged.
            RecordDeserializationError: a key or value does not decode, and this is to raise an error.
            ValueError: the directory is not the one that the driver uses.
        """
        number, task = numbered
        self.directory.check_visible(MANIFEST)
        decoder = None if self.decoded is None else self.decoded.decoder(self._wanted)
        found = [
            self._write(number, tuple(splits), decoder)
            for _, splits in itertools.groupby(task.work, lambda split: (split.topic, split.partition))
        ]
        receipt = Receipt(
            files=tuple(file for one in found for file in one.files),
            lost=tuple(lost for one in found for lost in one.lost),
            replaced_keys=sum(one.replaced_keys for one in found),
            tallies=() if decoder is None else tuple(decoder.tallies()),
        )
        self.directory.write(receipt_name(number), receipt.to_json())
        return receipt

    def _write(self, number: int, splits: Sequence[Split], decoder: RowDecoder | None) -> Receipt:
        """Write the rows of one partition. Without rows, write no file."""
        begun = time.monotonic()
        name = self._name(number, splits[0])
        first = last = -1
        count = replaced_keys = 0
        lost: list[Defect] = []
        with ExitStack() as closing:
            write = None
            for split in splits:
                reader = Reader([split], self._wanted, check_crcs=self.check_crcs, decode=decoder)
                for found in reader:
                    if not found.num_rows:
                        continue
                    rows, passed_over = _rising(found, max(last, _low(split) - 1), split)
                    lost += passed_over
                    if not rows.num_rows:
                        continue
                    if write is None:
                        write = closing.enter_context(self._file(name))
                        first = rows["offset"][0].as_py()
                    write(rows, split.path)
                    last = rows["offset"][-1].as_py()
                    count += rows.num_rows
                    replaced_keys += _replaced_keys(rows)
                lost += reader.lost
        file = ExportedFile(
            topic=splits[0].topic or "",
            partition=splits[0].partition or 0,
            name=name,
            rows=count,
            bytes=self.directory.size(name) or 0,
            first_offset=first,
            last_offset=last,
            seconds=round(time.monotonic() - begun, 3),
        )
        return Receipt(files=(file,) if count else (), lost=tuple(lost), replaced_keys=replaced_keys)

    @property
    def _wanted(self) -> list[str]:
        """The columns to decode."""
        return [name for name in self.columns if name not in (PATH, EXACT_TIME)]

    def _name(self, number: int, split: Split) -> str:
        """Return the name of a task's file of a partition: the lowest offset that it can hold, and the task."""
        directory = f"topic={split.topic}/partition={split.partition}"
        return f"{directory}/{_low(split):020d}-{number:06d}{suffix(self.form, self.compression)}"

    @contextmanager
    def _file(self, name: str) -> Iterator[Write]:
        made = None if self.decoded is None else self.decoded.made
        with (
            self.directory.create(name) as file,
            writing(file, self.form, self.columns, self.compression, made) as write,
        ):
            yield write


def _low(split: Split) -> int:
    """Return the lowest offset that can be in a split."""
    return max(split.start_offset, split.base_offset if split.entry is None else split.entry[0] + 1)


def _rising(rows: pa.RecordBatch, last: int, split: Split) -> tuple[pa.RecordBatch, list[Defect]]:
    """Return the rows whose offsets rise from `last` on and stay below the segment's end: only these can be restored.

    A batch's checksum does not cover its base offset. So a flipped bit in the base offset gives all rows of the batch
    wrong offsets, and no checksum reveals that. As few rows as possible are dropped.

    Raises:
        CorruptRecordError: an offset does not rise, and the split does not skip damage.
    """
    end = NO_END if split.following_offset is None else split.following_offset
    column: Any = rows["offset"]
    is_rising = pc.all(pc.greater(column[1:], column[:-1]), min_count=0).as_py()
    if is_rising and last < column[0].as_py() and column[-1].as_py() < end:
        return rows, []
    offsets: list[int] = column.to_pylist()
    before = [last, *offsets]
    wrong = next(i for i, offset in enumerate(offsets) if not before[i] < offset < end)
    reason = f"offset {offsets[wrong]} after offset {before[wrong]}, in a segment that ends below {end}"
    if split.on_corrupt != "skip":
        raise CorruptRecordError(reason, path=split.path)
    kept = _longest_rising(offsets, last, end)
    lost = []
    for at, following in pairwise([-1, *kept, len(offsets)]):
        dropped = following - at - 1
        start = last + 1 if at < 0 else offsets[at] + 1
        if dropped:
            stop = offsets[following] if following < len(offsets) else start + dropped
            lost.append(Defect(split.path, split.position, start, stop, reason, "record-order"))
    return rows.take(pa.array(kept, pa.int64())), lost


def _longest_rising(offsets: Sequence[int], last: int, end: int) -> list[int]:
    """Return the indices of the longest subsequence of offsets that rises from `last` on and stays below `end`."""
    least: list[int] = []  # the last offset of a rising row of each length, the lowest there is
    places: list[int] = []  # and where it is
    previous: list[int] = [-1] * len(offsets)
    for i, offset in enumerate(offsets):
        if last < offset < end:
            length = bisect_left(least, offset)
            previous[i] = places[length - 1] if length else -1
            least[length : length + 1] = [offset]
            places[length : length + 1] = [i]
    kept = []
    i = places[-1] if places else -1
    while i >= 0:
        kept.append(i)
        i = previous[i]
    return kept[::-1]


def receipt_name(number: int) -> str:
    """Return the file name of a task's receipt."""
    return f"{RECEIPTS}/{number:06d}.json"


def _replaced_keys(rows: pa.RecordBatch) -> int:
    """Count the header keys with bytes that are not UTF-8, shown as U+FFFD as in Kafka's consumers."""
    if "headers" not in rows.schema.names:
        return 0
    headers: Any = rows["headers"]
    return pc.sum(pc.match_substring(headers.flatten().field("key"), "\ufffd")).as_py() or 0
