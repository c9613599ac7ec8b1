"""The space that logs take, and would take in other message formats and codecs, measured on samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.errors import located
from brokerless.io.file_window import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

# About how many bytes are read, and in how many stretches of each segment: the content of a log changes over time.
_SAMPLE = 16 << 20
_STRETCHES = 8
_SMALLEST = 1 << 16
# Memory holds all thirteen forms of a batch at once.
_MAX_BATCH = 32 << 20


@dataclass(frozen=True)
class FormatEstimate:
    """The space that records take in one message format and codec, at the codec's default level.

    Attributes:
        magic: 0, 1 or 2.
        compression: the codec.
        bytes_per_record: the size of the batches.
        metadata_per_record: the part of it that the format adds to keys, values and (in format 2) headers, if these are
            compressed by themselves.
    """

    magic: int
    compression: str
    bytes_per_record: float
    metadata_per_record: float


@dataclass(frozen=True, kw_only=True)
class SpaceReport:
    """The space that samples of logs take in each form.

    Attributes:
        sampled_records: the number of records in the samples.
        sampled_bytes: the bytes that they take now.
        forms: each message format with each codec that it supports.
    """

    sampled_records: int
    sampled_bytes: int
    forms: tuple[FormatEstimate, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report as a table: a line for each codec, with bytes and metadata bytes per record."""
        if not self.forms:
            return ["no records"]
        now = self.sampled_bytes / self.sampled_records
        lines = [f"{self.sampled_records} records sampled, {now:.1f} bytes each; in other forms, and metadata of that:"]
        lines.append(f"{'':8}" + "".join(f"{f'v{magic}':>18}" for magic in range(3)))
        by_form = {(form.magic, form.compression): form for form in self.forms}
        for codec in _native.CODECS:
            cells = [by_form.get((magic, codec)) for magic in range(3)]
            texts = [f"{form.bytes_per_record:9.1f} {form.metadata_per_record:8.1f}" if form else "" for form in cells]
            lines.append(f"{codec:8}" + "".join(f"{text:>18}" for text in texts))
        return lines


def estimate(logs: Iterable[Log]) -> SpaceReport:
    """Measure samples of logs in every message format and codec. Nothing is changed.

    Args:
        logs: the logs; each counts by its size.

    Raises:
        CorruptRecordError: a sample is damaged.
    """
    measure = _native.SpaceEstimate(max_batch_bytes=_MAX_BATCH)
    segments = [segment for log in logs for segment in log.segments]
    sizes = [segment.extent().end_position for segment in segments]
    shares = [size * _SAMPLE // max(sum(sizes), 1) for size in sizes]
    sampled = sum(map(partial(_sample, measure), segments, shares))
    records = measure.records
    forms = []
    for magic in range(3):
        for codec in _native.CODECS:
            space = measure.space(magic, codec)
            if space is not None and records:
                size, content = space
                forms.append(FormatEstimate(magic, codec, size / records, (size - content) / records))
    return SpaceReport(sampled_records=records, sampled_bytes=sampled, forms=tuple(forms))


def _sample(measure: _native.SpaceEstimate, segment: Segment, wanted: int) -> int:
    """Measure stretches of a segment with about `wanted` bytes in all, and return the number of bytes measured."""
    extent = segment.extent()
    length = max(wanted // _STRETCHES, _SMALLEST)
    sampled = end = 0
    with segment.open() as file, located(segment.path):
        for stretch in range(_STRETCHES):
            offset = segment.base_offset + (extent.next_offset - segment.base_offset) * stretch // _STRETCHES
            position = max(end, segment.position_before(file, offset) if stretch else 0)
            if position >= extent.end_position or sampled >= max(wanted, _SMALLEST):
                break
            data = file.read(position, min(length, extent.end_position - position))
            consumed = measure.feed(data, position)
            if not consumed and measure.needed <= MAX_BATCH:
                consumed = measure.feed(file.read(position, measure.needed), position)
            measure.finish()
            sampled += consumed
            end = position + consumed
    return sampled
