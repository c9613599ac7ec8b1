"""Erasing records of a log: those with given keys, key prefixes or headers, or only their values.

`find` says, segment by segment, which records go; what rewrites looks at no key again. Offsets, markers and producers
stay, so that consumers and brokers see gaps, as compaction leaves them. In the end the new segments are searched once
more, as they are on the disk: unless nothing is found there, they do not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from brokerless import _native
from brokerless.append.operation import Outcome
from brokerless.io import storage
from brokerless.layout import file_names
from brokerless.log.segment import NO_END, Segment
from brokerless.rewriting.segment_rewrite import feed_all, max_segment_bytes, renew, transaction_index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.append.operation import LogState, Progress
    from brokerless.append.swap import Replacement
    from brokerless.append.writer import LogWriter

_MAX_RANGES = 1000
# A load removes these, or completes them; a dry run may see them before.
_LEFTOVERS = (f".log{file_names.DELETED}", f".log{file_names.SWAP}")


@dataclass(frozen=True, kw_only=True)
class EraseReport:
    """What was erased, or would be. Sizes in bytes.

    Attributes:
        examined_records: how many the log had, aborted and undecided ones among them.
        erased_records: how many of them went, or lost their value.
        erased_bytes: of their keys and values, or values.
        is_blank: the records stayed, with an empty value.
        offset_ranges: first and last offset of each run of them within a segment; of more than 1000 the last one covers
            the rest.
        segments: how many the log has.
        replaced_segments: how many of them held any.
        bytes_before: of all batches.
        bytes_after: likewise.
        remaining_records: what a search of the new segments found: 0; None: nothing was written that could be searched.
        remote_offsets: the range [start, end) that remote storage may hold, which is every segment of a tiered log but
            the active one. Remote copies were not searched, and stay. None: the log is not tiered.
        may_have_replicas: other brokers may have the partition, too: the metadata in the log directory do not say that
            there are none.
        leftovers: files and directories beside the log that may hold the same records: what brokers no longer read, or
            not yet.
        selection_digest: SHA-256 over the keys, prefixes and headers asked for, so that a report can be told to be
            about them without naming them (see `Erase.digest`).
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
        """Return it as JSON takes it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it in words."""
        done = "lost their value" if self.is_blank else "erased"
        lines = [
            f"{self.erased_records} of {self.examined_records} records {done} ({self.erased_bytes} bytes)",
            f"{self.replaced_segments} of {self.segments} segments replaced",
        ]
        if self.erased_records:
            shown = [str(first) if first == last else f"{first}-{last}" for first, last in self.offset_ranges[:10]]
            more = len(self.offset_ranges) - len(shown)
            lines.append(f"offsets {', '.join(shown)}" + (f" and {more} more ranges" if more else ""))
        if self.remote_offsets is not None:
            start, end = self.remote_offsets
            lines.append(
                f"not looked into: remote storage, which may have offsets {start} to {end - 1}: what is there stays"
            )
        lines += [f"not looked into: {path}" for path in self.leftovers]
        return [*lines, f"selection sha256 {self.selection_digest}"]


@dataclass(frozen=True)
class Found:
    """Which records of a segment go. Picklable.

    Attributes:
        base_offset: the segment's.
        bits: a bit for each record by its number in the file, set if it goes, least significant first.
        records: how many.
        bytes: of keys and values.
        examined: records that were looked at.
        ranges: first and last offset of each run.
    """

    base_offset: int
    bits: bytes
    records: int
    bytes: int
    examined: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Erase:
    """Erase records that match: any of the keys, prefixes or headers is enough. Null keys match nothing.

    Args:
        keys: whole keys.
        key_prefixes: what keys start with.
        headers: (name, value) of a header.
        blank: leave the records, with an empty value in place of theirs; never null, which would be a tombstone. Keys
            and headers stay.
        local_only: of a tiered log, erase what is in local segments, though remote storage keeps what it has.
        max_batch_bytes: the most that one batch may decompress to.

    Raises:
        ValueError: nothing is asked for, or an empty prefix, which every key starts with.
        TypeError: keys, prefixes or headers that are not of bytes.

    >>> Erase(keys=(b"user-1",)).digest() == Erase(keys=(b"user-1", b"user-1")).digest()
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
            raise TypeError("headers: of each a name and a value are expected")
        if not (self.keys or self.key_prefixes or self.headers):
            raise ValueError("nothing to erase: give keys, key prefixes or headers")
        if b"" in self.key_prefixes:
            raise ValueError("an empty key prefix would erase every record with a key")

    def digest(self) -> str:
        """Return the SHA-256 over the sorted selection: of each part its kind, its length in 8 bytes, and itself."""
        parts = [b"key", b"prefix", b"header"]
        chosen = [(parts[0], key) for key in set(self.keys)]
        chosen += [(parts[1], prefix) for prefix in set(self.key_prefixes)]
        chosen += [(parts[2], _framed(name) + _framed(value)) for name, value in set(self.headers)]
        digest = hashlib.sha256()
        for kind, content in sorted(chosen):
            digest.update(kind + _framed(content))
        return digest.hexdigest()

    @property
    def decided_by(self) -> tuple[str, ...]:
        """No setting: what goes is what was asked for."""
        return ()

    def prepare(self, log: LogWriter) -> None:
        """Nothing comes before: the active segment is rewritten too."""

    def plan(self, state: LogState) -> LogState:
        """Check that all of the log can be searched.

        Raises:
            ValueError: it is tiered, and `local_only` was not asked for.
        """
        if state.is_tiered and not self.local_only:
            raise ValueError(
                f"cannot erase from all of {state.directory}: it is tiered: {state.remote_part()}, and stay there; to "
                "erase from local segments alone, say local_only (--local-only)"
            )
        return state

    def work(
        self, plan: LogState, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[EraseReport]:
        """Find what goes, write new segments without it, and search these; see `verb.RewriteOperation`."""
        found = find(self, plan.segments, progress)
        sizes = {
            segment.base_offset: segment.extent().end_position if segment.is_last else segment.size
            for segment in plan.segments
        }
        is_here, output = output is None, output or plan.directory
        replacements, after = _rewrite(self, plan, found, dry_run=dry_run, output=output)
        replaced = [segment for segment in found if segment.records]
        ranges = tuple(run for segment in found for run in segment.ranges)
        if len(ranges) > _MAX_RANGES:
            ranges = (*ranges[: _MAX_RANGES - 1], (ranges[_MAX_RANGES - 1][0], ranges[-1][1]))
        before = sum(sizes.values())
        report = EraseReport(
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
            leftovers=tuple(_leftovers(plan.directory)),
            selection_digest=self.digest(),
        )
        if dry_run:
            return Outcome(report=report)
        report = replace(report, remaining_records=_remaining(self, output, replacements))
        if report.remaining_records:
            raise RuntimeError(f"{report.remaining_records} records are still there: the log was left as it was")
        outputs = () if is_here else (output,) * len(replacements)
        return Outcome(report=report, replacements=tuple(replacements), outputs=outputs)


def find(erase: Erase, segments: Iterable[Segment], progress: Progress = lambda _: None) -> list[Found]:
    """Find the records that go, segment by segment. Several processes may each do some.

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
        scan.begin(segment.base_offset, NO_END if segment.next_base_offset is None else segment.next_base_offset)
        for consumed in feed_all(scan.feed, lambda: scan.needed, segment):
            progress(consumed)
        of_segment = scan.take()
        found.append(
            Found(
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
    erase: Erase, state: LogState, found: list[Found], *, dry_run: bool, output: str
) -> tuple[list[Replacement], int]:
    """Write new segments for those that hold records that go; return them, and the bytes of all their batches."""
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


def _remaining(erase: Erase, output: str, replacements: list[Replacement]) -> int:
    """Search the new segments, as they are on the disk."""
    new = [
        Segment(output, base, NO_END, name=file_names.segment_file(base, file_names.LOG, file_names.CLEANED))
        for replacement in replacements
        for base in replacement.base_offsets
    ]
    return sum(segment.records for segment in find(erase, new))


def _remote(state: LogState) -> tuple[int, int] | None:
    """Return the offsets that remote storage may have: a broker uploads every segment but the active one."""
    start, end = state.log_start_offset, state.segments[-1].base_offset
    return (start, end) if state.is_tiered and start < end else None


def _leftovers(directory: str) -> list[str]:
    """Find what may hold older states of the partition: leftover files of it, directories on their way in or out."""
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
                if other.leftover and (other.topic, other.partition) == (own.topic, own.partition):
                    found.append(f"{around}/{name}")
    return sorted(found)


def _of_bytes(option: str, values: Any) -> tuple[bytes, ...]:  # noqa: ANN401 - whatever was given
    """Refuse what can match no key; the values are not named, for they may be what is to be forgotten."""
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
