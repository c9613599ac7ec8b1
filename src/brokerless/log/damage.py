"""Sound and damaged ranges of a segment, and the offsets lost between them: one rule for checks and for reads.

A batch is sound if its checksum is right and its offsets follow those before it. After a damaged batch, scanning
continues at its claimed end if a sound batch starts there. Otherwise the file is searched for one byte by byte. The
search has a budget, so that crafted bytes cannot prolong it.

No checksum covers base offsets. If batches contradict each other, as few as possible are dropped.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.io.file_window import HEADER, MAX_BATCH, SIZE, Window, batch_at, is_zero_from
from brokerless.layout import file_names
from brokerless.log.segment import NO_END, cut_batch, limit_of, whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from brokerless.io.file_window import Readable

    Kind = Literal["damage", "order", "tail", "unsupported"]
    Error = CorruptRecordError | UnsupportedFormatError

# The read size after damage: more damage may be near.
_NEAR = 1 << 18
# The block sizes of a search for a batch. Blocks overlap by the length of a header.
_MIN_BLOCK, _BLOCK = 1 << 14, 1 << 20
# The budget of all searches in a segment: a fixed number of bytes, plus a number for each byte of the segment. Crafted
# bytes can look like a large batch at every position, and each would be checksummed to its end.
_SEARCHED, _SEARCHED_PER_BYTE = 64 << 20, 8
# The minimum cost of checking a candidate.
_TRY = 1 << 12


class Finding(NamedTuple):
    """A defect at one place in a segment.

    Attributes:
        kind: "damage"; "tail": bytes that a broker truncates when it starts; "unsupported": valid Kafka data that
            brokerless does not read; "order": offsets that do not rise, or leave the segment's range.
        path: the file.
        position: the byte position of the defect.
        base_offset: the base offset field at that position; None if it cannot be read.
        next_position: where scanning continues; None if the rest of the file is lost.
        start_offset: the first offset that may be missing.
        end_offset: the offset after the last one that may be missing; None if the log ends here.
        reason: the explanation.
    """

    kind: Kind
    path: str
    position: int
    base_offset: int | None
    next_position: int | None
    start_offset: int
    end_offset: int | None
    reason: str


class Run(NamedTuple):
    """Consecutive sound batches, whose offsets rise from `first_offset` to below `next_offset`."""

    position: int
    end_position: int
    first_offset: int
    next_offset: int


class _Dropped(NamedTuple):
    """A sound batch that contradicts others. `is_missed`: some of its offsets are in no other batch."""

    position: int
    end_position: int
    first_offset: int
    next_offset: int
    is_missed: bool


class Survey(NamedTuple):
    """The runs of a segment and the findings between them, in file order, and the offset after the last run."""

    parts: list[Run | Finding]
    next_offset: int

    def within(self, start_offset: int, end_offset: int) -> Survey:
        """Return all findings, and the runs that may hold offsets of a range."""
        parts: list[Run | Finding] = []
        low = 0
        for part in self.parts:
            # A wrapper's first offset is inside it. All that is known: it is not below the end of the run before.
            if isinstance(part, Finding) or (part.next_offset > start_offset and low < end_offset):
                parts.append(part)
            low = part.next_offset if isinstance(part, Run) else low
        return self._replace(parts=parts)


def survey(
    file: Readable,
    path: str,
    base_offset: int,
    following_offset: int | None,
    end: int,
    *,
    check_crcs: bool = True,
    is_clean: bool = True,
    limit_offset: int | None = None,
) -> Survey:
    """Find the sound batches of a segment and the damage between them. Read the whole file, but decode no record.

    Args:
        file: the open `.log`.
        path: the path for the findings.
        base_offset: the lowest offset that a batch may have.
        following_offset: the base offset of the next segment; None for the last segment.
        end: the byte position at which the file ends.
        check_crcs: verify checksums.
        is_clean: whether the log was shut down cleanly. A broker then truncates nothing.
        limit_offset: all batches of the last segment must end below it; None: 2^31 above the base offset.
    """
    limit = following_offset if following_offset is not None else limit_offset or limit_of(base_offset)
    with located(path):
        walk = _Walk(
            file,
            path,
            base_offset,
            following_offset,
            end,
            limit,
            is_limited=following_offset is not None or limit_offset is not None,
            check_crcs=check_crcs,
            is_clean=is_clean,
        )
        return walk.survey()


def rows_and_findings(
    found: Survey, file: Readable, path: str, decoder: _native.Decoder
) -> Iterator[pa.RecordBatch | Finding]:
    """Decode the runs. Yield rows and findings, including those for sound batches with malformed records."""
    for part in found.parts:
        if isinstance(part, Finding):
            yield part
            continue
        position, start_offset = part.position, part.first_offset
        while position < part.end_position:
            window = Window(file, position, part.end_position, SIZE if position == part.position else _NEAR)
            try:
                while window.position < part.end_position:
                    rows, consumed = decoder.decode(window.data, window.position)
                    if rows is None and not consumed and not window.fill(decoder.needed):
                        raise cut_batch(window.position, part.end_position)
                    if consumed:
                        start_offset = decoder.next_offset
                    window.advance(consumed)
                    if rows is not None:
                        yield rows
                position = part.end_position
            except (CorruptRecordError, UnsupportedFormatError) as error:
                bad = batch_at(file, window.position, max_bytes=MAX_BATCH)
                size = part.end_position - window.position if bad is None else int(bad["size"])
                position = window.position + size
                after = batch_at(file, position) if position < part.end_position else None
                first = None if after is None else after["base_offset"]
                end_offset = part.next_offset if first is None else max(start_offset, first)
                kind: Kind = "damage" if isinstance(error, CorruptRecordError) else "unsupported"
                yield Finding(
                    kind, path, window.position, error.base_offset, position, start_offset, end_offset, _reason(error)
                )
                start_offset = end_offset


def is_lost(path: str) -> bool:
    """Return whether a `.log` that a listing lacked is still missing while one of its indexes exists.

    A broker may have created or deleted the segment during the listing. It creates and renames the `.log` before the
    indexes.
    """
    # Check in this order: then no change by a broker in between looks like a loss.
    stem = path.removesuffix("log")
    has_index = storage.exists(f"{stem}index") or storage.exists(f"{stem}timeindex")
    return has_index and not (storage.exists(path) or storage.exists(path + file_names.DELETED))


def _left(offsets: tuple[int, int], others: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range of offsets that are in no other range."""
    start, end = offsets
    for low, high in sorted(others):
        if low >= end:
            break
        if start < low:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end


def by_offset(file: storage.File, found: Survey) -> list[Run | Finding]:
    """Return the parts of a survey in offset order, so that a moved batch counts at its original place."""
    moved = [part.start_offset for part in found.parts if isinstance(part, Finding) and part.kind == "order"]
    parts: list[Run | Finding] = []
    for part in found.parts:
        if isinstance(part, Finding):
            parts.append(part)
            continue
        cuts = sorted({offset for offset in moved if part.first_offset < offset < part.next_offset})
        bounds = [(part.position, part.first_offset), *((position_in(file, part, cut), cut) for cut in cuts)]
        for (position, first), (end, following) in pairwise([*bounds, (part.end_position, part.next_offset)]):
            parts.append(Run(position, end, first, following))

    def place(part: Run | Finding) -> tuple[int, bool]:
        # At equal offsets, damage comes first: the run begins after it.
        return (part.first_offset, True) if isinstance(part, Run) else (part.start_offset, False)

    return sorted(parts, key=place)


def position_in(file: storage.File, run: Run, offset: int) -> int:
    """Return the position of the first batch in a run that ends at `offset` or above; without one, the run's end."""
    if offset >= run.next_offset:
        return run.end_position
    for batches, _ in whole_batches(file, run.position, run.end_position):
        for position, last_offset in tuples(batches, "position", "last_offset"):
            if last_offset >= offset:
                return int(position)
    return run.end_position


def tuples(columns: pa.RecordBatch, *names: str) -> list[Any]:
    """Return the rows of these columns as tuples."""
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


class _Walk:
    """A walk through a segment from one sound batch to the next.

    Attributes:
        position: the byte position up to which the file has been checked or skipped.
        end: the byte position at which the file ends.
        next_offset: the offset after the last sound batch or the skipped damage.
    """

    def __init__(
        self,
        file: Readable,
        path: str,
        base_offset: int,
        following_offset: int | None,
        end: int,
        limit: int,
        *,
        is_limited: bool,
        check_crcs: bool,
        is_clean: bool,
    ) -> None:
        self._file = file
        self._path = path
        self._base_offset = base_offset
        self._following = following_offset
        self._limit = limit
        self._is_limited = is_limited
        self._check_crcs = check_crcs
        self._is_clean = is_clean
        self._check = _native.Soundness(base_offset, self._limit, check_crcs=check_crcs)
        self._length = SIZE
        self._budget = _SEARCHED + _SEARCHED_PER_BYTE * end
        # The start of the last search, and the position that it found.
        self._last_search: tuple[int, int | None] | None = None
        self._parts: list[Run | Finding] = []
        self.position = 0
        self.end = end
        self.next_offset = base_offset

    def survey(self) -> Survey:
        while self.position < self.end:
            try:
                self._go_on()
            except (CorruptRecordError, UnsupportedFormatError) as error:
                if self._following is None and is_zero_from(self._file, self.position):
                    break
                finding = self._pass_over(error)
                self._parts.append(finding)
                if finding.next_position is None:
                    break
        if not self._check.is_rising:
            self._put_in_order()
        runs = [part for part in self._parts if isinstance(part, Run)]
        return Survey(self._parts, runs[-1].next_offset if runs else self._base_offset)

    def _go_on(self) -> None:
        """Check batches from `position` on, up to the end or the next defect.

        Raises:
            CorruptRecordError: the batch at `position` is damaged.
            UnsupportedFormatError: the batch at `position` has an unsupported format.
        """
        check, start = self._check, self.position
        check.start_run()
        window = Window(self._file, start, self.end, self._length)
        try:
            while self.position < self.end:
                consumed = check.check(window.data, self.position)
                if not consumed and not window.fill(check.needed):
                    raise cut_batch(self.position, self.end)
                window.advance(consumed)
                self.position = window.position
        finally:
            if check.first_offset is not None:
                self._parts.append(Run(start, self.position, check.first_offset, check.next_offset))
                self.next_offset = check.next_offset

    def _pass_over(self, error: Error) -> Finding:
        """Return the finding for the defect at `position`, and move behind it."""
        position, start_offset = self.position, self.next_offset
        kind: Kind = "damage" if isinstance(error, CorruptRecordError) else "unsupported"
        reason = _reason(error)
        framed = error.next_position
        is_given_up = False
        if framed is not None and framed < self.end and self._is_good(framed):
            next_good: int | None = self._swallowed(position + 1, framed)
            next_position = next_good
        else:
            found = self._search(position + 1)
            next_good, is_given_up = found, found is None and self._budget <= 0
            # A damaged neighbour gets its own finding.
            stop = self.end if next_good is None else next_good
            is_neighbour = framed is not None and framed < stop and self._seems_batch(framed)
            next_position = framed if is_neighbour else next_good
        if is_given_up:
            if next_position is None:
                reason += "; the search for a sound batch after it was given up: too many bytes there look like one"
        elif next_good is None and self._following is None and not self._is_clean:
            kind, next_position = "tail", None
        self._length = _NEAR
        end_offset = self._following
        if next_position is not None:
            following = batch_at(self._file, next_position)
            base_offset = None if following is None else following["base_offset"]
            # If the next batch is damaged, too, its own finding reports the offsets that it hides.
            end_offset = start_offset if base_offset is None else max(start_offset, min(base_offset, self._limit))
            self.position, self.next_offset = next_position, end_offset
        return Finding(kind, self._path, position, error.base_offset, next_position, start_offset, end_offset, reason)

    def _put_in_order(self) -> None:
        """Replace batches that contradict others by findings for the lost offsets."""
        check = _native.Soundness(self._base_offset, self._limit, check_crcs=False, collects=True)
        for part in self._parts:
            if isinstance(part, Run):
                window = Window(self._file, part.position, part.end_position)
                while window.position < part.end_position:
                    consumed = check.check(window.data, window.position)
                    if not consumed and not window.fill(check.needed):
                        break
                    window.advance(consumed)
        kept, dropped, covered = check.rising(is_limited=self._is_limited)
        parts: list[Run | Finding | _Dropped] = [part for part in self._parts if isinstance(part, Finding)]
        parts += [Run(*run) for run in kept]
        parts += [_Dropped(*batch) for batch in dropped]
        parts.sort(key=lambda part: part.position)
        # For each gap between two runs: its findings and dropped batches, and the offsets that neither run has.
        gaps: list[tuple[list[Finding | _Dropped], int, int | None]] = []
        low = self._base_offset
        gap: list[Finding | _Dropped] = []
        for piece in parts:
            if isinstance(piece, Run):
                gaps.append((gap, low, max(low, self._first_offset(piece))))
                low, gap = piece.next_offset, []
            else:
                gap.append(piece)
        gaps.append((gap, low, self._following))
        reported = [(low, NO_END if high is None else high) for gap, low, high in gaps if gap]
        reported += covered
        runs = (part for part in parts if isinstance(part, Run))
        self._parts = []
        for gap, low, high in gaps:
            self._parts += self._of_gap(gap, low, high, reported)
            self._parts += [run] if (run := next(runs, None)) is not None else []

    def _first_offset(self, run: Run) -> int:
        """Return the first offset of a run, even if its first batch is a wrapper, which has that offset inside."""
        batch = batch_at(self._file, run.position, max_bytes=MAX_BATCH)
        return run.first_offset if batch is None or batch["base_offset"] is None else int(batch["base_offset"])

    def _of_gap(
        self, parts: list[Finding | _Dropped], low: int, high: int | None, reported: list[tuple[int, int]]
    ) -> Iterator[Finding]:
        """Divide the offsets from `low` to `high` among the findings and dropped batches of a gap.

        `reported` holds the offsets of all gaps and runs.
        """
        start = low
        for i, part in enumerate(parts):
            end = start if isinstance(part, _Dropped) else part.end_offset
            if i == len(parts) - 1:
                end = high if high is not None else end
            elif end is not None:
                end = max(start, end if high is None else min(end, high))
            if isinstance(part, _Dropped):
                yield from self._out_of_order(part, low, start, max(start, start if end is None else end), reported)
            else:
                yield part._replace(start_offset=start, end_offset=end)
            start = start if end is None else end

    def _out_of_order(
        self, batch: _Dropped, low: int, start: int, end: int, reported: list[tuple[int, int]]
    ) -> Iterator[Finding]:
        """Yield findings for the offsets of a dropped batch: those missing where it lies, and those that it claims."""
        first, last = batch.first_offset, batch.next_offset - 1
        if first < low:
            reason = f"offset {first} is below {low}, where the segment goes on"
        elif last >= self._limit:
            reason = f"offset {last} is not below {self._limit}, where the segment has to end"
        else:
            reason = f"offset {last} is above the offsets that follow it"
        is_own = batch.is_missed and first >= self._base_offset
        own = list(_left((first, last + 1), reported)) if is_own else []
        for lost in [*([(start, end)] if start < end or not own else []), *own]:
            yield Finding("order", self._path, batch.position, first, batch.end_position, *lost, reason)

    def _swallowed(self, position: int, end: int) -> int:
        """Return the start of sound batches up to `end` that a wrong length has swallowed; without any, `end`."""
        found = self._find(position, end)
        if found is None:
            return end
        check = _native.Soundness(self._base_offset, self._limit)
        window = Window(self._file, found, end, _NEAR)
        try:
            while window.position < end:
                consumed = check.check(window.data, window.position)
                if not consumed and not window.fill(check.needed):
                    return end
                window.advance(consumed)
        except (CorruptRecordError, UnsupportedFormatError):
            return end
        return found if window.position == end else end

    def _search(self, position: int) -> int | None:
        """Find the first sound batch that starts at `position` or later, from the last search if it still applies.

        If many batches in a row are damaged, each of them searches for the same batch.
        """
        if self._last_search is not None:
            start, found = self._last_search
            # The last search would have found a sound batch in between.
            if start <= position and (found is None or position <= found):
                return found
        found = self._find(position, self.end)
        if found is not None or self._budget > 0:
            self._last_search = (position, found)
        return found

    def _find(self, position: int, end: int) -> int | None:
        """Find the first sound batch from `position` to `end`; return None if there is none or the budget is spent."""
        length = _MIN_BLOCK
        while self._budget > 0 and position < end:
            block = memoryview(self._file.read(position, min(length, end - position)))
            at = position
            while place := _native.find_batch(block[at - position :], at, end, self._base_offset, self._limit):
                at, size = place
                self._budget -= size + _TRY
                if self._fits(self._batch(at, size)):
                    return at
                if self._budget <= 0:
                    return None
                at += 1
            if len(block) < length:
                return None
            self._budget -= length
            position = max(at, position + length - HEADER + 1)
            length = min(4 * length, _BLOCK)
        return None

    def _batch(self, position: int, size: int) -> dict[str, Any] | None:
        """Return the result of `batch_at` for a batch of known size."""
        try:
            batches, consumed = _native.scan(self._file.read(position, size), position, check_crcs=True)
        except (CorruptRecordError, UnsupportedFormatError):
            return None
        return batches.slice(0, 1).to_pylist()[0] if consumed else None

    def _is_good(self, position: int) -> bool:
        """Return whether a batch with a right checksum and offsets of this segment starts at `position`."""
        return self._fits(batch_at(self._file, position, check_crcs=True))

    def _seems_batch(self, position: int) -> bool:
        """Return whether a possibly damaged batch with offsets of this segment starts at `position`."""
        batch = batch_at(self._file, position)
        offset = None if batch is None else batch["base_offset"]
        return offset is not None and self.next_offset <= offset < self._limit

    def _fits(self, batch: dict[str, Any] | None) -> bool:
        """Return whether a batch has a right checksum and offsets of this segment. Their order is checked later."""
        if batch is None or not batch["is_valid"] or batch["base_offset"] is None:
            return False
        return bool(self._base_offset <= batch["base_offset"] <= batch["last_offset"] < self._limit)


def _reason(error: Error) -> str:
    return str(error.args[0])
