"""Erasing the records of a log, or only their values, by keys, key prefixes or headers.

`find` decides segment by segment which records are erased, and the rewrite reads no keys. Offsets, markers and
producers stay, so consumers and brokers see the same gaps as after a compaction. At the end, the new segments are read
from the disk and searched again. If they contain a matching record, the log stays unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from brokerless import _native
from brokerless.append.operation import Outcome, PlainOperation, outputs_of
from brokerless.io import storage
from brokerless.layout import file_names
from brokerless.log.segment import NO_END, Segment
from brokerless.rewriting.segment_rewrite import batches_size, feed_all, max_segment_bytes, renew, transaction_index
from brokerless.wording import counted, option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.append.operation import LogState, Progress, Replacement

_MAX_RANGES = 1000
# A load removes these files or completes them; a dry run may see them before.
_LEFTOVERS = (f".log{file_names.DELETED}", f".log{file_names.SWAP}")


@dataclass(frozen=True, kw_only=True)
class ErasureReport:
    """The effect of an erasure, done or planned. Sizes are in bytes.

    Attributes:
        examined_records: the number of records in the log, including aborted and undecided ones.
        erased_records: the number of records that were erased, or lost their value.
        erased_bytes: the size of their keys and values, or only of their values.
        is_blank: whether the records stay, with an empty value.
        offset_ranges: the first and the last offset of each run of erased records within a segment. If there are more
            than 1000 runs, the last range covers the rest.
        segments: the number of segments in the log.
        replaced_segments: the number of segments that had records to erase.
        bytes_before: the size of all batches before.
        bytes_after: the size of all batches after.
        remaining_records: the number of matching records found in the new segments, which is 0; None if no new segments
            were written.
        remote_offsets: the range [start, end) that remote storage may hold: every segment of a tiered log except the
            active one. Copies in remote storage were not searched, and stay there. None if the log is not tiered.
        may_have_replicas: whether other brokers may also have the partition, because the metadata in the log directory
            do not rule that out.
        leftovers: the files and directories beside the log that may hold the same records, and that brokers no longer
            read, or do not read yet.
        selection_digest: the SHA-256 of the keys, prefixes and headers, which identifies the selection without
            revealing it (see `Erasure.digest`).
    """

    examined_records: int
    erased_records: int
    erased_bytes: int
    is_blank: bool
    offset_ranges: tuple[tuple[int, int], ...]
    segments: int
    replaced_segments: int
    bytes_before: int
    bytes_after: int
    remaining_records: int | None
    remote_offsets: tuple[int, int] | None
    may_have_replicas: bool
    leftovers: tuple[str, ...]
    selection_digest: str

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words. For a dry run, the words describe the plan."""
        done, replaced = "lost their value" if self.is_blank else "erased", "replaced"
        if dry_run:
            done, replaced = "would lose their value" if self.is_blank else "would be erased", "would be replaced"
        lines = [
            f"{self.erased_records:,} of {self.examined_records:,} records {done} ({self.erased_bytes:,} bytes)",
            f"{self.replaced_segments} of {counted(self.segments, 'segment')} {replaced}",
        ]
        if self.erased_records:
            shown = [str(first) if first == last else f"{first}-{last}" for first, last in self.offset_ranges[:10]]
            more = len(self.offset_ranges) - len(shown)
            lines.append(f"offsets {', '.join(shown)}" + (f" and {more} more ranges" if more else ""))
        if self.remote_offsets is not None:
            start, end = self.remote_offsets
            lines.append(
                f"remote storage was not searched: it may have offsets {start} to {end - 1}, which are not erased"
            )
        lines += [f"not searched: {path}" for path in self.leftovers]
        return [*lines, f"selection sha256 {self.selection_digest}"]


@dataclass(frozen=True)
class SegmentMatches:
    """The records of a segment that are erased. Picklable.

    Attributes:
        base_offset: the segment's base offset.
        bits: a bit for each record in file order, least significant first. A set bit marks an erased record.
        records: the number of records that are erased.
        bytes: the size of their keys and values.
        examined: the number of records in the segment.
        ranges: the first and the last offset of each run of erased records.
    """

    base_offset: int
    bits: bytes
    records: int
    bytes: int
    examined: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Erasure(PlainOperation):
    """Erase the records that match any of the keys, prefixes or headers. Null keys match nothing.

    Args:
        keys: whole keys.
        key_prefixes: prefixes of keys.
        headers: the (name, value) of headers.
        blank: keep the records with their keys and headers, and empty their values. An empty value is not null, so the
            record does not become a tombstone.
        local_only: erase from the local segments of a tiered log, although remote storage keeps its copies.
        max_batch_bytes: the maximum decompressed size of one batch, in bytes.

    Raises:
        ValueError: there is no key, prefix or header, or an empty prefix, which every key starts with.
        TypeError: a key, prefix or header is not of bytes.

    >>> Erasure(keys=(b"user-1",)).digest() == Erasure(keys=(b"user-1", b"user-1")).digest()
    True
    """

    state_name: ClassVar[str] = "Erase"

    keys: tuple[bytes, ...] = ()
    key_prefixes: tuple[bytes, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    blank: bool = False
    local_only: bool = False
    max_batch_bytes: int = _native.DEFAULT_MAX_BATCH_BYTES

    def __post_init__(self) -> None:
        for name in ("keys", "key_prefixes"):
            object.__setattr__(self, name, _of_bytes(name, getattr(self, name)))
        object.__setattr__(self, "headers", tuple(_of_bytes("headers", header) for header in self.headers))
        if any(len(header) != 2 for header in self.headers):
            raise TypeError("headers: a name and a value are expected for each")
        if not (self.keys or self.key_prefixes or self.headers):
            raise ValueError("nothing to erase: give keys, key prefixes or headers")
        if b"" in self.key_prefixes:
            raise ValueError("an empty key prefix would erase every record with a key")

    def digest(self) -> str:
        """Return the SHA-256 over the sorted selection: the kind of each part, its length in 8 bytes, and its bytes."""
        parts = [b"key", b"prefix", b"header"]
        chosen = [(parts[0], key) for key in set(self.keys)]
        chosen += [(parts[1], prefix) for prefix in set(self.key_prefixes)]
        chosen += [(parts[2], _framed(name) + _framed(value)) for name, value in set(self.headers)]
        digest = hashlib.sha256()
        for kind, content in sorted(chosen):
            digest.update(kind + _framed(content))
        return digest.hexdigest()

    def plan(self, state: LogState) -> LogState:
        """Check that the whole log can be searched.

        Raises:
            ValueError: the log is tiered, and `local_only` is not set.
        """
        if state.is_tiered and not self.local_only:
            raise ValueError(
                f"cannot erase from all of {state.directory}, because the log is tiered: {state.remote_part()}, and "
                f"these are not changed. To erase from local segments only, give {option('local_only')}"
            )
        return state

    def work(
        self, plan: LogState, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[ErasureReport]:
        """Find the matching records, write new segments without them, and search these; see `RewriteOperation`."""
        found = find(self, plan.segments, progress)
        sizes = {segment.base_offset: batches_size(segment) for segment in plan.segments}
        replacements, after = _rewrite(self, plan, found, dry_run=dry_run, output=output)
        replaced = [segment for segment in found if segment.records]
        ranges = tuple(run for segment in found for run in segment.ranges)
        if len(ranges) > _MAX_RANGES:
            ranges = (*ranges[: _MAX_RANGES - 1], (ranges[_MAX_RANGES - 1][0], ranges[-1][1]))
        before = sum(sizes.values())
        report = ErasureReport(
            examined_records=sum(segment.examined for segment in found),
            erased_records=sum(segment.records for segment in found),
            erased_bytes=sum(segment.bytes for segment in found),
            is_blank=self.blank,
            offset_ranges=ranges,
            segments=len(plan.segments),
            replaced_segments=len(replaced),
            bytes_before=before,
            bytes_after=before - sum(sizes[segment.base_offset] for segment in replaced) + after,
            remaining_records=None,
            remote_offsets=_remote(plan),
            may_have_replicas=plan.others_from is not None,
            leftovers=tuple(_leftovers(plan.directory, output)),
            selection_digest=self.digest(),
        )
        if dry_run:
            return Outcome(report=report)
        report = replace(report, remaining_records=_remaining(self, output or plan.directory, replacements))
        if report.remaining_records:
            raise RuntimeError(f"{report.remaining_records} records remain in the new segments; nothing was changed")
        outputs = outputs_of(replacements, output)
        return Outcome(report=report, replacements=tuple(replacements), outputs=outputs)


def find(erase: Erasure, segments: Iterable[Segment], progress: Progress = lambda _: None) -> list[SegmentMatches]:
    """Find the records to erase, segment by segment. Several processes may share the segments.

    Raises:
        CorruptRecordError: a segment is damaged, or its batches are out of order.
    """
    scan = _native.ErasureScan(
        keys=erase.keys,
        key_prefixes=erase.key_prefixes,
        headers=erase.headers,
        blank=erase.blank,
        max_batch_bytes=erase.max_batch_bytes,
    )
    found = []
    for segment in segments:
        scan.begin(segment.base_offset, segment.limit_offset)
        for consumed in feed_all(scan.feed, lambda: scan.needed, segment):
            progress(consumed)
        of_segment = scan.take()
        found.append(
            SegmentMatches(
                segment.base_offset,
                of_segment.bits,
                of_segment.records,
                of_segment.bytes,
                of_segment.examined,
                tuple(of_segment.ranges),
            )
        )
    return found


def _rewrite(
    erase: Erasure, state: LogState, found: list[SegmentMatches], *, dry_run: bool, output: str | None
) -> tuple[list[Replacement], int]:
    """Write new segments for those with records to erase. Return the replacements, and the size of their batches."""
    rewriter = _native.SegmentErasure(blank=erase.blank, max_batch_bytes=erase.max_batch_bytes)
    replacements, size = [], 0
    for segment, of_segment in zip(state.segments, found, strict=True):
        if of_segment.records:
            index = transaction_index(state, segment)
            rewriter.begin(of_segment.bits, index, max_segment_bytes(state, segment))
            renewed = renew(rewriter, state, segment, dry_run=dry_run, progress=lambda _: None, output=output)
            assert renewed is not None
            replacements.append(renewed.replacement)
            size += renewed.size
    return replacements, size


def _remaining(erase: Erasure, output: str, replacements: list[Replacement]) -> int:
    """Read the new segments from the disk, and return the number of matching records in them."""
    new = [
        Segment(output, base, NO_END, name=file_names.segment_file(base, file_names.LOG, file_names.CLEANED))
        for replacement in replacements
        for base in replacement.base_offsets
    ]
    return sum(segment.records for segment in find(erase, new))


def _remote(state: LogState) -> tuple[int, int] | None:
    """Return the offsets that remote storage may have: a broker uploads every segment except the active one."""
    start, end = state.log_start_offset, state.segments[-1].base_offset
    return (start, end) if state.is_tiered and start < end else None


def _leftovers(directory: str, output: str | None) -> list[str]:
    """Return files and directories with older states of the partition: leftovers, future and deleted replicas.

    The directory of this erasure's own attempts, which holds `output`, is left out.
    """
    attempts = None if output is None else os.path.basename(os.path.dirname(output))
    directory = os.path.abspath(directory)
    found = [
        f"{directory}/{name}"
        for name in storage.list_directory(directory)
        if name.endswith(_LEFTOVERS) or name.startswith(file_names.SET_ASIDE)
    ]
    around, own_name = os.path.split(directory)
    with contextlib.suppress(ValueError):
        own = file_names.parse_directory_name(own_name)
        for name in storage.list_subdirectories(around):
            with contextlib.suppress(ValueError):
                other = file_names.parse_directory_name(name)
                is_own = (other.topic, other.partition) == (own.topic, own.partition)
                if other.leftover and is_own and name != attempts:
                    found.append(f"{around}/{name}")
    return sorted(found)


def _of_bytes(option: str, values: Any) -> tuple[bytes, ...]:  # noqa: ANN401 - whatever was given
    """Refuse values that can match no key. Errors do not show the values, which may be personal data."""
    expected = f'{option}: a tuple of bytes is expected, such as (b"user-1",), not '
    if isinstance(values, str | bytes):
        raise TypeError(f"{expected}{type(values).__name__}")
    found = tuple(values)
    for value in found:
        if not isinstance(value, bytes):
            raise TypeError(f"{expected}{type(value).__name__} in it: encode it first")
    return found


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content
