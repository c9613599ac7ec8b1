"""One segment of a log: its `.log`, the indexes beside it, and where its batches end.

The offset index and the time index may be missing, stale or damaged. An entry is used only after a check of the batch
that it points to. Without a usable entry, the batch headers are read instead.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.io.file_window import SIZE, Window, batch_at, is_zero_from, sweep
from brokerless.layout import commit_journal, file_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from brokerless.io.file_window import Readable

_T = TypeVar("_T")


NO_END = (1 << 63) - 1
"""The end offset of a range that has no end before the end of the file."""


class Extent(NamedTuple):
    """The end of a segment.

    Attributes:
        next_offset: the offset after its last whole batch.
        end_position: the byte position after that batch. If there is damage, the file's size, so that a read reaches
            the damage.
        damage: the error for the bytes after that batch. None if there are no such bytes, or if they are a tail that a
            crashed broker leaves: a cut batch with no whole batch after it, or preallocated zeros.
        last_batch: for the last segment: the position and the first bytes of its last batch, checksum included.
    """

    next_offset: int
    end_position: int
    damage: CorruptRecordError | UnsupportedFormatError | None = None
    last_batch: tuple[int, bytes] | None = None


class Entry(NamedTuple):
    """An entry of an offset index.

    Attributes:
        before: the offset of the entry before it; for the first entry, the offset before the segment.
        offset: the last offset of the batch.
        position: the byte position of the batch.
    """

    before: int
    offset: int
    position: int

    def holds(self, file: storage.File) -> bool:
        """Return whether a sound batch starts at `position`, with a last offset above `before` and at most `offset`."""
        offsets = _native.batch_offsets_at(file, self.position)
        return offsets is not None and self.before < offsets[1] <= self.offset


class Segment:
    """One segment of a log: a `.log` file and its indexes. Files are read on first use.

    Get segments from `Log.segments`.

    Attributes:
        base_offset: the offset in its file names.
        next_base_offset: the base offset of the next segment; None for the last one.
        lost: the base offset of a missing segment between this one and the next, whose indexes exist but whose `.log`
            does not; else None.

    >>> import brokerless as bl
    >>> [(segment.base_offset, segment.size, segment.is_last) for segment in bl.Log(SAMPLE).segments]
    [(0, 47775, True)]
    """

    __slots__ = ("_directory", "_kinds", "_name", "_swapped", "base_offset", "lost", "next_base_offset")

    def __init__(
        self,
        directory: str,
        base_offset: int,
        next_base_offset: int | None = None,
        kinds: int = file_names.LOG,
        swapped: int = 0,
        name: str | None = None,
        lost: int | None = None,
    ) -> None:
        self._directory = directory
        self._kinds = kinds
        self._swapped = swapped
        self._name = name
        self.base_offset = base_offset
        self.next_base_offset = next_base_offset
        self.lost = lost

    def __repr__(self) -> str:
        return f"Segment({self.path!r})"

    @property
    def path(self) -> str:
        """The path of the `.log` file."""
        return f"{self._directory}/{self._name}" if self._name else self.path_of(file_names.LOG)

    @property
    def is_last(self) -> bool:
        """True for the active segment. A crash may leave a cut batch at its end; elsewhere that is damage."""
        return self.next_base_offset is None

    @property
    def is_swapped(self) -> bool:
        """True if its `.log` still has the suffix `.swap`, because it was not renamed to its final name yet."""
        return bool(self._swapped & file_names.LOG)

    @property
    def limit_offset(self) -> int:
        """The offset below which all batches of the segment must end."""
        return self.end_offset(NO_END)

    def end_offset(self, log_end_offset: int) -> int:
        """Return the next segment's base offset; for the last segment, return the log end offset."""
        return log_end_offset if self.next_base_offset is None else self.next_base_offset

    @property
    def size(self) -> int:
        """The length of the `.log` in bytes."""
        return _surviving(self.path, storage.size)

    @property
    def modified(self) -> int:
        """The modification time of the `.log` in ms: the largest timestamp of a segment without timestamps."""
        return _surviving(self.path, storage.modified)

    @property
    def has_transaction_index(self) -> bool:
        """True if it has a `.txnindex`. A broker creates this file at the first abort in the segment."""
        return self.has(file_names.TXNINDEX)

    def open(self) -> storage.File:
        """Open the `.log`, even if retention or the cleaner has renamed it since it was listed."""
        return open_log(self.path)

    def entry_behind(self, next_offset: int, size: int) -> tuple[int, int] | None:
        """Return the last offset index entry if it lies after the end of an older segment's `.log`; else None.

        The entry is an offset and a byte position. If it lies after the end of the `.log`, batches are missing there,
        because a broker truncates the index and the `.log` together. No checksum covers the index, so the entry is
        returned only if both its offset and its position lie after the end.

        Args:
            next_offset: the offset after the last batch of the `.log`.
            size: the length of the `.log`.
        """
        if self.is_last or not self.has(file_names.INDEX):
            return None

        def last(path: str) -> tuple[int, int] | None:
            with storage.File(path) as file:
                return last_entry(file, self.base_offset)

        try:
            found = _in_force(self.path_of(file_names.INDEX), last)
        except OSError:
            return None
        is_behind = found is not None and next_offset <= found[0] < self.limit_offset and size <= found[1]
        return found if is_behind else None

    def position_before(self, file: storage.File, offset: int) -> int:
        """Return a batch boundary before which all batches end below `offset`: from the offset index, else 0."""
        entry = index_entry(self, offset)
        return entry.position if entry is not None and entry.holds(file) else 0

    def batch_of(self, file: storage.File, offset: int) -> dict[str, Any] | None:
        """Return the position and some header fields of the first batch that ends at `offset` or above."""
        for batches in self.batches_since(file, offset):
            for i, last_offset in enumerate(batches["last_offset"].to_pylist()):
                if last_offset is not None and last_offset >= offset:
                    return {name: batches[name][i].as_py() for name in _BATCH_FIELDS}
        return None

    def batches_since(self, file: storage.File, offset: int, *, check_crcs: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield batch headers as `scan` does. Batches that end below `offset` may be missing."""
        with located(self.path):
            start = self.position_before(file, offset)
            end = self.extent(file).end_position
            for batches, _ in whole_batches(file, start, end, check_crcs=check_crcs, length=_PROBE):
                yield batches

    def extent(
        self, file: storage.File | None = None, *, is_clean: bool = False, limit_offset: int | None = None
    ) -> Extent:
        """Find where the segment ends. For the last segment, this walks the headers after its last index entry.

        Args:
            file: the open `.log`, if the caller has it open. A file opened anew by its name may be a replacement. None:
                open it.
            is_clean: whether the log was shut down cleanly. If so, a cut batch is damage, not the trace of a crash.
            limit_offset: all batches of the last segment must end below it; None: no limit.
        """
        if self.next_base_offset is not None:
            return Extent(self.next_base_offset, self.size if file is None else file.size())
        with contextlib.nullcontext(file) if file is not None else self.open() as log:
            # Read the size after the index: a broker may append a batch and its entry at any time.
            start = self.position_before(log, NO_END)
            size = log.size()
            walk = _native.HeaderWalk()
            walk.start_file((self.base_offset, self.limit_offset if limit_offset is None else limit_offset))
            damage = None
            try:
                # If the file is now shorter than the entry's position, it was truncated: walk all of it.
                walk_headers(self, walk, log, start if start < size else 0, size)
                is_cut = walk.end_position < size
            except (CorruptRecordError, UnsupportedFormatError) as error:
                is_cut = False
                if not is_zero_from(log, walk.end_position):
                    damage = error
            next_offset = self.base_offset if walk.next_offset is None else walk.next_offset
            # The offset after the largest possible one has wrapped around.
            next_offset = NO_END if next_offset == -NO_END - 1 else next_offset
            if is_cut and self._is_damage(log, walk.end_position, size, next_offset, is_clean=is_clean):
                damage = cut_batch(walk.end_position, size)
            last = None if damage or walk.last_batch is None else _bad_batch(log, walk.last_batch[0])
            if last is not None and last.position is not None:
                # The last batch is damaged, and with it the header that gives the end of the log: end before that
                # batch.
                damage, before = last, _native.HeaderWalk()
                walk_headers(self, before, log, start if start < last.position else 0, last.position)
                next_offset = self.base_offset if before.next_offset is None else before.next_offset
            return Extent(next_offset, size if damage else walk.end_position, damage, walk.last_batch)

    def last_batch(self) -> tuple[int, dict[str, Any] | None]:
        """Return the offset after the second to last batch, and the header of the last batch (None without a batch)."""
        end, last = self.base_offset, None
        with self.open() as file:
            extent = self.extent(file)
            position = 0 if extent.last_batch is None else extent.last_batch[0]
            base = (batch_at(file, position) or {}).get("base_offset")
            start = 0 if base is None else self.position_before(file, base)
            for batches, _ in whole_batches(file, start if start < position else 0, extent.end_position):
                for batch in batches.slice(max(0, batches.num_rows - 2)).to_pylist():
                    end = end if last is None else last["last_offset"] + 1
                    last = batch
        return end, last

    def _is_damage(self, file: storage.File, position: int, end: int, next_offset: int, *, is_clean: bool) -> bool:
        """Return whether a batch that seems cut is damage. A crash leaves only a cut last batch, or zeros."""
        if is_clean and not is_zero_from(file, position):
            return True
        return _goes_on(file, position, end, next_offset)

    def scan(self, *, check_crcs: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the headers of all batches in the file, as Arrow, with the columns of `Log.scan`.

        Raises:
            CorruptRecordError: the framing is broken, or the last batch is cut and it is not the last segment.
        """
        with self.open() as file, located(self.path):
            end = self.extent(file).end_position
            done = 0
            for batches, position in whole_batches(file, 0, end, check_crcs=check_crcs):
                yield batches
                done = position
            if done < end:
                raise cut_batch(done, end)

    def has(self, kind: int) -> bool:
        """Return whether the segment has a file of a kind, such as `file_names.INDEX`."""
        return bool(self._kinds & kind)

    def path_of(self, kind: int) -> str:
        """Return the path of the segment's file of a kind, such as `file_names.INDEX`."""
        state = file_names.SWAP if self._swapped & kind else ""
        return f"{self._directory}/{file_names.segment_file(self.base_offset, kind, state)}"


def _entries(segment: Segment, kind: int, *, raw: bool) -> bytes | None:
    if not segment.has(kind):
        return None
    try:
        return _in_force(segment.path_of(kind), storage.read_all if raw else storage.read_until_zeros)
    except OSError:
        return None


def offset_index(segment: Segment, *, raw: bool = False) -> _native.OffsetIndex | None:
    """Return the `.index`; None if it is absent or unreadable. With `raw`, zeros after the entries are entries."""
    content = _entries(segment, file_names.INDEX, raw=raw)
    return None if content is None else _native.OffsetIndex(content, segment.base_offset, raw)


def time_index(segment: Segment, *, raw: bool = False) -> _native.TimeIndex | None:
    """Return the `.timeindex`; None if it is absent or unreadable. With `raw`, zeros after the entries are entries."""
    content = _entries(segment, file_names.TIMEINDEX, raw=raw)
    return None if content is None else _native.TimeIndex(content, segment.base_offset, raw)


def transaction_index(segment: Segment) -> _native.TransactionIndex | None:
    """Return the `.txnindex`; None if it is absent.

    Raises:
        OSError: the `.txnindex` exists, but is unreadable.
    """
    if not segment.has_transaction_index:
        return None
    path = segment.path_of(file_names.TXNINDEX)
    with located(path):
        return _native.TransactionIndex(_in_force(path, storage.read_all), segment.base_offset)


def index_entry(segment: Segment, offset: int, index: _native.OffsetIndex | None = None) -> Entry | None:
    """Return the last index entry at or below `offset`; None without a useful one."""
    index = index or offset_index(segment)
    if index is None or not len(index):
        return None
    found, position = index.lookup(offset)
    # An entry for the first batch is useless, and no other batch ends at the base offset.
    if position <= 0 or found <= segment.base_offset:
        return None
    return Entry(index.lookup(found - 1)[0], found, position)


def walk_headers(segment: Segment, walk: _native.HeaderWalk, file: storage.File, position: int, end: int) -> None:
    """Walk the headers of the batches from `position` (a batch boundary) to `end`."""

    def step(data: memoryview, position: int, end: int) -> int:
        wanted = walk.feed(data, position, end)
        return end if walk.done else wanted

    with located(segment.path):
        sweep(file, position, end, step)


def walk_whole_batches(segment: Segment, walk: _native.HeaderWalk, file: storage.File, position: int, end: int) -> None:
    """Walk like `walk_headers`. Require whole batches up to `end`, except in the last segment.

    Raises:
        CorruptRecordError: the framing is broken, or the last batch is cut and it is not the last segment.
    """
    walk_headers(segment, walk, file, position, end)
    if not segment.is_last and position < end and walk.end_position < end:
        with located(segment.path):
            raise cut_batch(walk.end_position, end)


def sound_batches(
    segment: Segment, file: storage.File, position: int, end: int, walk: _native.HeaderWalk
) -> Iterator[tuple[memoryview, int]]:
    """Yield the bytes of whole batches from `position` (a batch boundary) to `end`, with their position.

    The batches' checksums are right, and `walk` has read their headers. The bytes are valid until the next iteration.

    Raises:
        CorruptRecordError: the next batch is damaged, cut, or out of the order that `walk` expects.
        UnsupportedFormatError: the next batch is valid Kafka data that brokerless does not read.
    """
    check, window = _native.Soundness(0, NO_END), Window(file, position, end, _SOUND)
    with located(segment.path):
        while window.position < end:
            count = check.check(window.data, window.position)
            if count:
                data, position = window.data[:count], window.position
                # Pass the end of the range, not the end of these bytes: the walk is finished at the end that it is
                # given.
                wanted = walk.feed(data, position, max(end, position + count))
                if position < wanted < position + count:
                    data, count = data[: wanted - position], wanted - position
                elif wanted < position + count:
                    # A batch that overlaps the one before it proves nothing until a batch after it confirms its
                    # offsets.
                    if len(window.data) < count + _SOUND and window.fill(0):
                        continue
                    walk.feed(data, position, position + count)
                yield data, position
                window.advance(count)
            elif not window.fill(check.needed):
                # A live broker may truncate its log meanwhile.
                if window.position < file.size():
                    raise cut_batch(window.position, end)
                return


def last_entry(file: Readable, base_offset: int) -> tuple[int, int] | None:
    """Return the offset and the position of the last entry of an offset index; None if it has no entry."""
    size = file.size() // _INDEX_ENTRY * _INDEX_ENTRY
    start = max(0, size - _INDEX_ENTRY)
    content = file.read(start, size - start)
    if not any(content) and size <= _LARGEST_INDEX:
        # The index is preallocated, and was not trimmed by a clean close: search the whole file.
        content = file.read(0, size)
    index = _native.OffsetIndex(content, base_offset)
    return index.lookup(NO_END) if len(index) else None


def limit_of(base_offset: int) -> int:
    """Return the first offset beyond the reach of a segment: indexes hold 31 bits (LogSegment)."""
    return min(base_offset + (1 << 31), NO_END)


def segments_in(directory: str) -> tuple[Segment, ...]:
    """Return the segments of a partition directory after a load has completed its swaps."""
    kinds = file_names.live_files(storage.list_files(directory), _no_swap).kinds
    ends = [*list(kinds)[1:], None]
    return tuple(Segment(directory, base, end, kinds[base]) for base, end in zip(kinds, ends, strict=False))


def _no_swap(name: str) -> int:
    raise ValueError(f"unexpected {name}: a load should have completed the swap")


# The search for a batch after one that seems cut covers this many bytes, and candidates of this total size.
_LOOK_BEHIND = 16 << 20
_OFFSETS = 1 << 31


def _goes_on(file: storage.File, position: int, end: int, next_offset: int) -> bool:
    """Return whether a whole batch follows the seemingly cut batch at `position`. After a crash, none does."""
    data = memoryview(file.read(position, min(end - position, _LOOK_BEHIND)))
    limit = min(next_offset + _OFFSETS, NO_END)
    at, tried = position + 1, 0
    while tried < _LOOK_BEHIND and (place := _native.find_batch(data[at - position :], at, end, next_offset, limit)):
        at, size = place
        batch = batch_at(file, at, check_crcs=True)
        if batch is not None and batch["is_valid"]:
            return True
        at, tried = at + 1, tried + max(size, _PROBE)
    return False


def _bad_batch(file: storage.File, position: int) -> CorruptRecordError | None:
    """Return the checksum error of the batch at `position`; None if the checksum is right."""
    check, window = _native.Soundness(0, NO_END), Window(file, position, file.size(), _PROBE)
    try:
        while not check.check(window.data, position) and window.fill(check.needed):
            pass
    except CorruptRecordError as error:
        return error
    return None


# Enough for the batches between two index entries: 4 KiB by default.
_PROBE = 1 << 15
# A read size that is efficient for whole segments.
_SOUND = 1 << 18
_INDEX_ENTRY = 8
_LARGEST_INDEX = 64 << 20
_BATCH_FIELDS = ("position", "size", "base_offset", "max_timestamp", "magic")


def cut_batch(position: int, end: int) -> CorruptRecordError:
    """Build the error for a batch that the end of its file cuts off."""
    return CorruptRecordError(f"record batch is cut: {end - position} bytes are left of it", position=position)


def open_log(path: str, is_wanted: Callable[[storage.File], bool] | None = None) -> storage.File:
    """Open a `.log` that may have been renamed since it was listed.

    A broker renames `.swap` files to their final names. A minute before it deletes a file for retention or the cleaner,
    it renames the file to `.deleted`. A commit of brokerless renames the directory into its journal, and then to its
    place.

    Args:
        path: the name when it was listed.
        is_wanted: distinguishes the file from a replacement of the same name; None: accept any.

    Raises:
        FileNotFoundError: the file no longer exists.
    """

    def use(name: str) -> storage.File:
        file = storage.File(name)
        if is_wanted is None or is_wanted(file):
            return file
        file.close()
        raise FileNotFoundError(errno.ENOENT, "replaced by another file", name)

    return _surviving(path, use)


def _surviving(path: str, use: Callable[[str], _T]) -> _T:
    return _in_force(path, lambda there: _renamed(there, use))


def _in_force(path: str, use: Callable[[str], _T]) -> _T:
    directory, _, name = path.rpartition("/")
    return commit_journal.in_force(directory, lambda there: use(f"{there}/{name}" if directory else name))


def _renamed(path: str, use: Callable[[str], _T]) -> _T:
    final = path.removesuffix(file_names.SWAP)
    for name in (path, final, final + file_names.DELETED):
        try:
            return use(name)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(errno.ENOENT, "a broker deleted or replaced the file after it was listed: read again", path)


def whole_batches(
    file: Readable, position: int, end: int, *, check_crcs: bool = False, length: int = SIZE
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batch headers, each time with the position after them, up to the last whole batch."""
    window = Window(file, position, end, length)
    window.fill(0)
    while window.position < end:
        batches, consumed = _native.scan(window.data, window.position, check_crcs=check_crcs)
        window.advance(consumed)
        if consumed:
            yield batches, window.position
        elif not window.fill(0):
            return
