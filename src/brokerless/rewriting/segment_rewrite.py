"""Rewriting one old segment into new ones with a native rewriter, for converting and erasing.

A native rewriter reads whole batches and pushes the rewritten ones into a `SegmentOutput`. When the output is full, a
new output continues at its end offset.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from brokerless import _native
from brokerless.append.operation import Replacement
from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.io.file_window import Window
from brokerless.layout import file_names
from brokerless.log.aborted_transactions import fitting
from brokerless.log.segment import cut_batch
from brokerless.rewriting.cleaned_segment import MAX_PENDING, CleanedSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerless.append.operation import LogState, Progress
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment

    Rewriter: TypeAlias = _native.CompactionRewrite | _native.SegmentConversion | _native.SegmentErasure

# Sizes of batches and their positions in a segment have 32 bits.
_MAX_SEGMENT = (1 << 31) - 1


class Renewed(NamedTuple):
    """The new segments of one old segment.

    Attributes:
        replacement: the new segments that replace the old one.
        size: the size of their batches, in bytes.
    """

    replacement: Replacement
    size: int


def renew(
    rewriter: Rewriter,
    state: LogState,
    segment: Segment,
    *,
    dry_run: bool,
    progress: Progress,
    output: str | None = None,
    is_changed: Callable[[], bool] = lambda: True,
) -> Renewed | None:
    """Rewrite one segment.

    The replacement of the last segment ends at the same offset, even if its last batches are removed. Otherwise a
    broker would assign these offsets again. If no remaining batch ends at that offset, an empty segment begins there.

    Args:
        rewriter: the rewriter, after its `begin` for the segment.
        state: the state of the log.
        segment: one of the log's segments.
        dry_run: measure, and write nothing.
        progress: called with the number of bytes read since the last call.
        output: the directory for the new segments; None for the log's directory.
        is_changed: called at the end. If it returns False, the new segments equal the old one, and are not kept.

    Returns:
        The new segments; None if nothing has changed.

    Raises:
        CorruptRecordError: the segment is damaged, or ends in the middle of a batch.
        ValueError: a record or a batch cannot be rewritten.
    """
    with segment.open() as file:
        modified_ns = file.modified_ns()
    directory = output or state.directory
    new = NewSegments(directory, segment.base_offset, state.config, modified_ns, dry_run=dry_run)
    try:
        _feed(rewriter, new, segment, progress)
        if not is_changed():
            new.abandon()
            return None
        new.finish()
        if segment.is_last and new.next_offset < state.log_end_offset:
            new.begin(state.log_end_offset)
            new.finish()
    except BaseException:
        new.abandon()
        raise
    return Renewed(Replacement(tuple(new.base_offsets), (segment.base_offset,)), new.size)


def batches_size(segment: Segment) -> int:
    """Return the size of a segment's batches: without the preallocated zeros of an active segment."""
    return segment.extent().end_position if segment.is_last else segment.size


def transaction_index(state: LogState, segment: Segment) -> bytes:
    """Return the content of a segment's `.txnindex`; empty without one.

    Raises:
        CorruptRecordError: the index is damaged.
        UnsupportedFormatError: the index has an unknown version.
    """
    if not segment.has_transaction_index:
        return b""
    path = f"{state.directory}/{file_names.segment_file(segment.base_offset, file_names.TXNINDEX)}"
    content = storage.read_all(path)
    with located(path):
        _native.TransactionIndex(content, segment.base_offset).entries()
        if fitting(segment) is None:
            raise CorruptRecordError(
                "the entries do not match the segment: remove this file and the .index, then run recover"
            )
    return content


def max_segment_bytes(state: LogState, segment: Segment) -> int:
    """Return the maximum size of a new segment: the limit in the settings, or the size of the old one.

    A segment of a tiered log is not divided: a broker uploads only segments with a producer snapshot at their end.
    """
    if state.is_tiered:
        return _MAX_SEGMENT
    return min(max(state.config.segment_bytes, segment.size), _MAX_SEGMENT)


def feed_all(walk: Callable[[memoryview, int], int], needed: Callable[[], int], segment: Segment) -> Iterator[int]:
    """Feed all whole batches of a segment to `walk(data, position)`, and yield the number of bytes of each call.

    Raises:
        CorruptRecordError: the segment is damaged, or ends in the middle of a batch.
    """
    with segment.open() as file, located(segment.path):
        # The preallocated zeros of an active segment do not count.
        size = segment.extent().end_position if segment.is_last else file.size()
        window = Window(file, 0, size)
        window.fill(0)
        while window.position < size:
            consumed = walk(window.data, window.position)
            window.advance(consumed)
            yield consumed
            if not consumed and not window.fill(needed()):
                raise cut_batch(window.position, size)


def _feed(rewriter: Rewriter, new: NewSegments, segment: Segment, progress: Progress) -> None:
    try:
        for consumed in feed_all(partial(new.feed, rewriter), lambda: rewriter.needed, segment):
            progress(consumed)
            new.write()
        with located(segment.path):
            while not rewriter.finish(new.output):
                new.roll()
    except ValueError as error:
        # The rewriter names the record or batch by its offset only.
        raise ValueError(f"{segment.path}: {error}") from error


class NewSegments:
    """The new segments that will replace old ones, while they are written or, in a dry run, measured.

    Args:
        directory: the partition's directory, or another directory from which the files are moved there.
        base_offset: the base offset of the first new segment.
        config: the topic's settings.
        modified_ns: the modification time for the new `.log` files, ns since the epoch.
        dry_run: write nothing.

    Attributes:
        base_offsets: the base offsets of the new segments, ascending.
        size: the size of the batches in finished segments, in bytes.
        next_offset: the offset at which the finished segments end.
    """

    def __init__(
        self, directory: str, base_offset: int, config: TopicConfig, modified_ns: int, *, dry_run: bool
    ) -> None:
        self._directory = directory
        self._config = config
        self._modified_ns = modified_ns
        self._dry_run = dry_run
        self.base_offsets: list[int] = []
        self.size = 0
        self.next_offset = base_offset
        self._all: list[CleanedSegment | _Measured] = []
        self.begin(base_offset)

    @property
    def output(self) -> _native.SegmentOutput:
        """The output of the segment being written."""
        return self._all[-1].output

    def begin(self, base_offset: int) -> None:
        """Begin the next segment."""
        self.base_offsets.append(base_offset)
        new = _Measured if self._dry_run else CleanedSegment
        self._all.append(new(self._directory, base_offset, self._config))

    def write(self, *, at_least: int = MAX_PENDING) -> None:
        """Write the pushed batches if they have `at_least` bytes or more."""
        self._all[-1].write(at_least=at_least)

    def feed(self, rewriter: Rewriter, data: memoryview, position: int) -> int:
        """Rewrite whole batches at the start of `data`, which lies at `position`, and return their size in bytes."""
        consumed = rewriter.feed(data, position, self.output)
        while rewriter.is_full:
            self.roll()
            consumed += rewriter.feed(data[consumed:], position + consumed, self.output)
        return consumed

    def roll(self) -> None:
        """Finish the segment being written, and begin the next one at its end offset."""
        self.finish()
        self.begin(self.next_offset)

    def finish(self) -> None:
        """Complete the segment being written, durably."""
        self._all[-1].finish(self._modified_ns)
        self.size += self.output.size
        self.next_offset = self.output.next_offset

    def abandon(self) -> None:
        """Remove all new segments."""
        for segment in self._all:
            segment.abandon()


class _Measured:
    """A new segment that is only measured."""

    def __init__(self, _directory: str, base_offset: int, config: TopicConfig) -> None:
        self.output = _native.SegmentOutput(
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
        )

    def write(self, *, at_least: int) -> None:
        if self.output.pending_bytes >= at_least:
            self.output.take()

    def finish(self, _modified_ns: int) -> None:
        self.output.finish()

    def abandon(self) -> None: ...
