"""The space that logs take, and would take in other message formats, codecs and batch sizes, measured on samples."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io.file_window import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.io.storage import File
    from brokerless.log.segment import Segment

# How many bytes are read, and in how many stretches: the content of logs changes over time and from log to log.
SAMPLE = 16 << 20
_STRETCHES = 32
# Memory holds all thirteen forms of a batch at once.
_MAX_BATCH = 32 << 20
# The producer's default, and usual larger settings.
_BATCH_SIZES = (16 << 10, 64 << 10, 256 << 10, 1 << 20)


@dataclass(frozen=True)
class FormatEstimate:
    """The space that records take in one message format and codec, at the codec's default level.

    Attributes:
        magic: 0, 1 or 2.
        compression: the codec.
        bytes_per_record: the size of the batches.
        metadata_per_record: the part of `bytes_per_record` that the format adds to the content: keys, values and (in
            format 2) headers. The content is measured by compressing it alone.
    """

    magic: int
    compression: str
    bytes_per_record: float
    metadata_per_record: float


@dataclass(frozen=True)
class BatchEstimate:
    """The space that records take in format 2 if a producer fills its batches.

    Attributes:
        batch_size: the producer's `batch.size`, in bytes. It bounds the compressed size, as the producer estimates it.
        compression: the codec.
        bytes_per_record: the size of the batches.
    """

    batch_size: int
    compression: str
    bytes_per_record: float


@dataclass(frozen=True, kw_only=True)
class SpaceReport:
    """The space that samples of logs take in each form.

    Attributes:
        sampled_records: the number of records in the samples.
        sampled_bytes: the bytes that these records take now.
        forms: the result for each message format with each codec that it supports. Batches hold the same records as
            now.
        batches: the result for each codec with some batch sizes.
    """

    sampled_records: int
    sampled_bytes: int
    forms: tuple[FormatEstimate, ...]
    batches: tuple[BatchEstimate, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report as two tables with a line for each codec: in each format, and in batches of other sizes."""
        if not self.forms:
            return ["no records"]
        now = self.sampled_bytes / self.sampled_records
        lines = [
            f"{self.sampled_records:,} records sampled, {now:.1f} bytes each; in other forms, and metadata of that:"
        ]
        lines.append(f"{'':8}" + "".join(f"{f'v{magic}':>18}" for magic in range(3)))
        by_form = {(form.magic, form.compression): form for form in self.forms}
        for codec in _native.CODECS:
            cells = [by_form.get((magic, codec)) for magic in range(3)]
            texts = [f"{form.bytes_per_record:9.1f} {form.metadata_per_record:8.1f}" if form else "" for form in cells]
            lines.append(f"{codec:8}" + "".join(f"{text:>18}" for text in texts))
        filled = {(batch.batch_size, batch.compression): batch.bytes_per_record for batch in self.batches}
        lines.append("bytes per record in v2, in batches filled up to this batch.size:")
        lines.append(f"{'':8}" + "".join(f"{f'{size >> 10} KiB':>10}" for size in _BATCH_SIZES))
        lines += [
            f"{codec:8}" + "".join(f"{filled[size, codec]:10.1f}" for size in _BATCH_SIZES) for codec in _native.CODECS
        ]
        return lines


def estimate(
    segments: Iterable[Segment], *, sample: int = SAMPLE, on_corrupt: Literal["raise", "skip"] = "raise"
) -> SpaceReport:
    """Measure samples of segments in every message format and codec, and in batches of several sizes.

    Nothing is changed.

    Args:
        segments: the segments; a larger segment has a larger weight.
        sample: the approximate number of bytes to read.
        on_corrupt: "raise", or "skip" to leave out the rest of a damaged sample.

    Raises:
        CorruptRecordError: a sample is damaged, with `on_corrupt="raise"`.

    >>> from brokerless.log.log import Log
    >>> found = estimate(Log(SAMPLE).segments)
    >>> found.sampled_records, len(found.forms), len(found.batches)
    (120, 13, 20)
    """
    measure = _native.SpaceEstimate(max_batch_bytes=_MAX_BATCH, batch_sizes=_BATCH_SIZES)
    sampled = 0
    for segment, stretches in _places(list(segments), sample):
        with segment.open() as file, located(segment.path):
            for position, end in _stretches(segment, file, stretches):
                try:
                    sampled += _measure(measure, file, position, end)
                except (CorruptRecordError, UnsupportedFormatError) as error:
                    if on_corrupt == "raise":
                        raise
                    # The part of the sample before the damage has been measured.
                    sampled += max(0, (error.position or position) - position)
                    measure.finish()
    records = measure.records
    forms = []
    for magic in range(3):
        for codec in _native.CODECS:
            space = measure.space(magic, codec)
            if space is not None and records:
                size, content = space
                forms.append(FormatEstimate(magic, codec, size / records, (size - content) / records))
    batches = [
        BatchEstimate(batch_size, codec, (measure.filled(codec, batch_size) or 0) / records)
        for batch_size in _BATCH_SIZES
        for codec in _native.CODECS
        if records
    ]
    return SpaceReport(sampled_records=records, sampled_bytes=sampled, forms=tuple(forms), batches=tuple(batches))


def _places(segments: Sequence[Segment], sample: int) -> Iterator[tuple[Segment, list[tuple[float, int]]]]:
    """Yield segments with the ranges to read: the start of each, as a fraction of the segment, and its length."""
    sizes = [segment.size for segment in segments]
    total = sum(sizes)
    if total <= sample:
        yield from ((segment, [(0.0, size)]) for segment, size in zip(segments, sizes, strict=True))
        return
    starts = [total * stretch // _STRETCHES for stretch in range(_STRETCHES)]
    position = 0
    for segment, size in zip(segments, sizes, strict=True):
        here = starts[bisect_left(starts, position) : bisect_left(starts, position + size)]
        if here:
            yield segment, [((start - position) / size, sample // _STRETCHES) for start in here]
        position += size


def _stretches(segment: Segment, file: File, wanted: Iterable[tuple[float, int]]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each range to read. A range begins with a batch, and no two ranges overlap."""
    extent = segment.extent(file)
    end = 0
    for share, length in wanted:
        offset = segment.base_offset + int((extent.next_offset - segment.base_offset) * share)
        position = max(end, segment.position_before(file, offset) if share else 0)
        end = min(position + length, extent.end_position)
        if position < end:
            yield position, end


def _measure(measure: _native.SpaceEstimate, file: File, position: int, end: int) -> int:
    """Measure the whole batches in a range. Return the size of the batches that have records."""
    data = file.read(position, end - position)
    consumed = measure.feed(data, position)
    if not consumed and measure.needed <= MAX_BATCH:
        data = file.read(position, measure.needed)
        consumed = measure.feed(data, position)
    measure.finish()
    # Markers and empty batches have no records. They are in no form, and do not count here.
    batches, _ = _native.scan(memoryview(data)[:consumed], position)
    is_empty: Any = pc.or_kleene(batches["is_control"], pc.equal(batches["records_count"], pa.scalar(0, pa.int32())))
    return consumed - (pc.sum(batches.filter(is_empty)["size"]).as_py() or 0)
