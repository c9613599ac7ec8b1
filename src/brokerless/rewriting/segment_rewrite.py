"""One old segment through a native rewriter into new ones: what converting and erasing share.

A native rewriter (`_native.SegmentConversion`, `_native.SegmentErasure`) takes whole batches and puts what becomes of
them into a `SegmentOutput`; where that is full, the next one goes on where it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from brokerless import _native
from brokerless.append.swap import Replacement
from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.io.file_window import Window
from brokerless.layout import file_names
from brokerless.log.segment import cut_batch
from brokerless.log.transactions import fitting
from brokerless.rewriting.cleaned_segment import MAX_PENDING, CleanedSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerless.append.operation import LogState, Progress
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment

# Batches are counted in bytes of 32 bits, and so is where they stand in a segment.
_MAX_SEGMENT = (1 << 31) - 1


class Rewriter(Protocol):
    """What puts an old segment's batches into new ones."""

    @property
    def needed(self) -> int:
        """Bytes that the batch at the last `consumed` needs; 0: cannot be told."""

    @property
    def is_full(self) -> bool:
        """Whether the new segment is full: go on with another, based where it ends."""

    def feed(self, data: memoryview, position: int, output: _native.SegmentOutput) -> int:
        """Take whole batches of the old segment, and return how many bytes."""

    def finish(self, output: _native.SegmentOutput) -> bool:
        """Put out what waits at the end of the old segment; False: go on with another output."""


class Renewed(NamedTuple):
    """What became of one old segment.

    Attributes:
        replacement: the new segments that stand for it.
        size: bytes of their batches.
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
    """Let a rewriter, which knows the segment's beginning, see all of it, and finish what it makes of it.

    At the log's end the new segments end where the old one does, though its last batches may be gone: an offset is
    never given twice. Where no batch is left that ends there, an empty segment begins there.

    Args:
        rewriter: told of the segment by its own `begin`.
        state: the log as it is.
        segment: one of its segments.
        dry_run: measure, and write nothing.
        progress: called with the bytes read since the last call.
        output: the directory for what it makes; None: the log's.
        is_changed: asked in the end; False: what was made is what was there, and is not kept.

    Returns:
        None: nothing was changed.

    Raises:
        CorruptRecordError: the segment is damaged, or ends in the middle of a batch.
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
    """Return the content of a segment's `.txnindex`; nothing if there is none.

    Raises:
        CorruptRecordError: it is damaged.
        UnsupportedFormatError: it is of another version.
    """
    if not segment.has_transaction_index:
        return b""
    path = f"{state.directory}/{file_names.segment_file(segment.base_offset, file_names.TXNINDEX)}"
    content = storage.read_all(path)
    with located(path):
        _native.TransactionIndex(content, segment.base_offset).entries()
        if fitting(segment) is None:
            raise CorruptRecordError("its entries are not of this segment; remove it and the .index, and run recover")
    return content


def max_segment_bytes(state: LogState, segment: Segment) -> int:
    """Return how large a new segment may be: one that came to be larger than the settings say may stay so.

    One of a tiered log is not divided: a broker uploads none that no producer snapshot begins behind.
    """
    if state.is_tiered:
        return _MAX_SEGMENT
    return min(max(state.config.segment_bytes, segment.size), _MAX_SEGMENT)


def feed_all(walk: Callable[[memoryview, int], int], needed: Callable[[], int], segment: Segment) -> Iterator[int]:
    """Show all whole batches of a segment to `walk(data, position)`, and yield the bytes that it takes at a time.

    Raises:
        CorruptRecordError: the segment is damaged, or ends in the middle of a batch.
    """
    with segment.open() as file, located(segment.path):
        # Not the preallocated zeros of an active segment.
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
    def walk(data: memoryview, position: int) -> int:
        consumed = rewriter.feed(data, position, new.output)
        while rewriter.is_full:
            new.roll()
            consumed += rewriter.feed(data[consumed:], position + consumed, new.output)
        return consumed

    try:
        for consumed in feed_all(walk, lambda: rewriter.needed, segment):
            progress(consumed)
            new.write()
        with located(segment.path):
            while not rewriter.finish(new.output):
                new.roll()
    except ValueError as error:
        # What cannot be done to a record or a batch, in words that know its offset only.
        raise ValueError(f"{segment.path}: {error}") from error


class NewSegments:
    """The segments that take the place of old ones, being written, or only measured.

    Args:
        directory: the partition's, or another one from which they are moved there.
        base_offset: of the first one.
        config: the topic's.
        modified_ns: what they get for a modification time, ns since the epoch.
        dry_run: write nothing.

    Attributes:
        base_offsets: theirs, ascending.
        size: bytes of the batches of those that are finished.
        next_offset: where these end.
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
        """Where batches go."""
        return self._all[-1].output

    def begin(self, base_offset: int) -> None:
        """Begin the next one."""
        self.base_offsets.append(base_offset)
        new = _Measured if self._dry_run else CleanedSegment
        self._all.append(new(self._directory, base_offset, self._config))

    def write(self, *, at_least: int = MAX_PENDING) -> None:
        """Let what was pushed go to the files, if it is that many bytes."""
        self._all[-1].write(at_least=at_least)

    def roll(self) -> None:
        """Finish the one being written, and begin the next where it ends."""
        self.finish()
        self.begin(self.next_offset)

    def finish(self) -> None:
        """Complete the one being written; it is durable then."""
        self._all[-1].finish(self._modified_ns)
        self.size += self.output.size
        self.next_offset = self.output.next_offset

    def abandon(self) -> None:
        """Take all of them back."""
        for segment in self._all:
            segment.abandon()


class _Measured:
    """A new segment of which nothing is kept but its size."""

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
