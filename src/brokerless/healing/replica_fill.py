"""The batches that a log lacks, taken from another replica of the same history.

Leader epochs show the history (KIP-101): in each epoch, one leader assigned each offset once. So a batch of the other
replica is the lost one if the leader epoch checkpoints of both logs map its offset to the batch's own epoch. Without
epochs, two logs that have the same batch at one offset also have the same batches before it.

In both cases, the sound batches on both sides of a loss must not contradict those of the other replica.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import CorruptRecordError
from brokerless.healing.damaged_range import covered
from brokerless.healing.pieces import Gaps, first_batch, joined, last_batch, last_batches, piece_batches, spans
from brokerless.layout import lost_offsets
from brokerless.log.defect import Defect
from brokerless.log.segment import NO_END, whole_batches
from brokerless.log.survey import Run, survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.healing.pieces import Batch, Piece
    from brokerless.log.log import Log
    from brokerless.log.survey import Survey

    Verdict = Literal["same", "other", "absent"]

_COLUMNS = ("position", "size", "base_offset", "last_offset", "partition_leader_epoch", "crc")
# Leader epochs are not compared, because no checksum covers them.
_SAME = ("base_offset", "last_offset", "crc")
# A small read size, because usually little is missing.
_NEAR = 1 << 16
# At most this many batches on each side of a loss are compared if the other replica is damaged there, too.
_MOST_COMPARED = 1000


class _Epochs:
    """The leader epochs of a log: `known` if given, else those in its leader epoch checkpoint if that is sound."""

    def __init__(self, log: Log, known: Sequence[tuple[int, int]] | None = None) -> None:
        self._starts = [start for start, _ in known or ()]
        self._epochs = [epoch for _, epoch in known or ()]
        with suppress(CorruptRecordError, OSError):
            entries = log.leader_epochs if known is None else []
            if entries and all(
                one.epoch < other.epoch and one.start_offset <= other.start_offset for one, other in pairwise(entries)
            ):
                self._starts = [one.start_offset for one in entries]
                self._epochs = [one.epoch for one in entries]

    @property
    def highest(self) -> int:
        """The last epoch; -1 without epochs."""
        return max(self._epochs, default=-1)

    def at(self, offset: int) -> int:
        """Return the epoch of an offset; -1 if the checkpoint does not have it."""
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else -1

    def end_of(self, epoch: int) -> int:
        """Return the end offset of an epoch; -1 if the log has not seen the epoch."""
        place = bisect_left(self._epochs, epoch)
        if place == len(self._epochs) or self._epochs[place] != epoch:
            return -1
        return self._starts[place + 1] if place + 1 < len(self._starts) else NO_END


class OtherReplica:
    """Another replica of a log that lacks batches.

    Args:
        log: the log that lacks batches.
        other: the replica.
        epochs: the epochs of the log's batches, if its leader epoch checkpoint is wrong or missing: see `Epochs.known`.
        is_compacted: whether offsets may be missing because of compaction.
    """

    def __init__(self, log: Log, other: Log, *, epochs: Sequence[tuple[int, int]] | None, is_compacted: bool) -> None:
        self._other, self._is_compacted = other, is_compacted
        self._start_offset = log.local_log_start_offset
        self._own_epochs = _Epochs(log, epochs)
        self._epochs = _Epochs(other)
        claim = other.files.lone_claim
        # Batches from here on are not trusted.
        self._end_offset = NO_END if claim is None else claim.base_offset
        self._surveys: dict[str, Survey] = {}
        # The number of surveys that the gaps cover, and the gaps.
        self._known_gaps = 0, Gaps([])
        # By file: an offset, and the position of its batch.
        self._places: dict[str, tuple[int, int]] = {}

    def fill(self, pieces: Iterable[Piece], ranges: Iterable[DamagedRange]) -> tuple[list[Piece], list[DamagedRange]]:
        """Take lost batches from the replica.

        Args:
            pieces: the sound pieces of the log.
            ranges: the ranges that the log lacks.

        Returns:
            The pieces, including those from the replica, and the ranges with their new states.
        """
        kept, left = list(pieces), list(ranges)
        found: list[DamagedRange] = []
        for at, one in enumerate(left):
            if one.state != "lost":
                found.append(one)
                continue
            following = left[at + 1].start_offset if at + 1 < len(left) else None
            lost = self._with_moved(kept, one, following)
            place = _place(kept, lost)
            taken = self._between(kept, place, lost)
            kept[place:place] = taken
            again = [lost]
            # A batch may also hold offsets of the loss before.
            while taken and found and found[-1].meets(taken[0].first_offset, taken[0].next_offset):
                again.insert(0, found.pop())
            found += covered(again, taken, "recovered", self._other.path)
        return kept, found

    def _with_moved(self, pieces: list[Piece], lost: DamagedRange, following: int | None) -> DamagedRange:
        """Remove a batch beside a loss from the pieces if the replica has it at other offsets: a flipped bit moved it.

        Returns:
            The loss, which now includes the offsets that the batch claimed, up to `following` at most.
        """
        place = _place(pieces, lost)
        after = first_batch(pieces[place]) if place < len(pieces) else None
        rest = _rest(pieces[place], is_first=True) if after is not None else []
        limit = next((piece.first_offset for piece in (*rest, *pieces[place + 1 :])), None)
        is_joined = after is not None and after["magic"] > 1 and after["last_offset"] + 1 == limit
        if after is not None and self._is_moved(after, lost.start_offset, limit, is_joined=is_joined):
            pieces[place : place + 1] = rest
            ends = [pieces[place].first_offset if place < len(pieces) else None, following]
            return replace(lost, end_offset=min((end for end in ends if end is not None), default=None))
        before = last_batch(pieces[place - 1]) if place else None
        rest = _rest(pieces[place - 1], is_first=False) if before is not None else []
        low = next((piece.next_offset for piece in (*rest, *reversed(pieces[: max(0, place - 1)]))), 0)
        is_joined = before is not None and before["base_offset"] == low
        if before is not None and self._is_moved(before, low, lost.end_offset, is_joined=is_joined):
            pieces[place - 1 : place] = rest
            place = _place(pieces, lost)
            start = pieces[place - 1].next_offset if place else self._start_offset
            return replace(lost, start_offset=min(start, lost.start_offset))
        return lost

    def _is_moved(self, batch: Batch, start: int, end: int | None, *, is_joined: bool) -> bool:
        """Return whether the replica has a batch within [start, end), and not at the offsets where the log has it.

        If the batch joins a neighbor in the log (`is_joined`), it must also join one in the replica.
        """
        if self._verdict(batch) == "same":
            return False
        for _, batches in self._within(start, end):
            same: Any = pc.and_(
                pc.equal(batches["crc"], pa.scalar(batch["crc"], batches["crc"].type)),
                pc.equal(batches["size"], pa.scalar(batch["size"], batches["size"].type)),
            )
            rows: list[Any] = pc.indices_nonzero(same).to_pylist()
            if rows:
                return not is_joined or self._is_joined(batches.slice(rows[0], 1).to_pylist()[0])
        return False

    def _is_joined(self, batch: Batch) -> bool:
        """Return whether a batch of the replica begins where the previous one ends, or ends where the next begins."""
        first, last = _first(batch), batch["last_offset"]
        near = (row for _, batches in self._headers(max(0, first - 1)) for row in batches.slice(0, 3).to_pylist())
        return any(row["last_offset"] == first - 1 or _first(row) == last + 1 for row in islice(near, 3))

    def _between(self, pieces: Sequence[Piece], place: int, lost: DamagedRange) -> list[Piece]:
        """Return the replica's batches for a loss before a piece; [] if they may belong to another history."""
        before = last_batch(pieces[place - 1]) if place else None
        after = first_batch(pieces[place]) if place < len(pieces) else None
        is_before = None if before is None else self._verdict(before)
        is_after = None if after is None else self._verdict(after)
        reaches_over = after is not None and is_after == "same" and _first(after) == lost.end_offset
        inside = list(self._within(lost.start_offset, lost.end_offset, reaches_over=reaches_over))
        if "other" in (is_before, is_after):
            return []
        sure = [(path, batches.filter(self._is_identified(batches, lost))) for path, batches in inside]
        if sum(batches.num_rows for _, batches in sure) < sum(batches.num_rows for _, batches in inside):
            is_anchored = not pieces or self._is_anchored(pieces, place, is_before, is_after)
            is_anchored = is_anchored and (is_after == "same" or not self._is_left_behind(after, inside))
            if not is_anchored or self._is_diverged(inside):
                inside = sure
        gaps = self._gaps()
        return joined((piece for path, batches in inside for piece in spans(path, batches, gaps)), gaps)

    def _gaps(self) -> Gaps:
        """Return the missing offsets in the segments read so far, except those that a cleaner removed."""
        if not self._is_compacted:
            return Gaps(None)
        if self._known_gaps[0] < len(self._surveys):
            defects = [part for found in self._surveys.values() for part in found.parts if isinstance(part, Defect)]
            ends = ((one.start_offset, NO_END if one.end_offset is None else one.end_offset) for one in defects)
            gaps = Gaps(lost_offsets.merged([(start, end) for start, end in ends if start < end]))
            self._known_gaps = len(self._surveys), gaps
        return self._known_gaps[1]

    def _is_identified(self, batches: pa.RecordBatch, lost: DamagedRange) -> pa.BooleanArray:
        """Return, for each batch, whether both logs map its offset to the batch's epoch.

        A log that ends in its last known epoch may lack later epochs. Later epochs of the replica are accepted too, if
        the replica has seen that last epoch up to the loss.
        """
        known, own = self._epochs, self._own_epochs
        goes_on = lost.end_offset is None and known.end_of(own.highest) >= lost.start_offset
        found = []
        for epoch, base in zip(
            *(batches[name].to_pylist() for name in ("partition_leader_epoch", "base_offset")), strict=True
        ):
            is_known = None not in (epoch, base) and 0 <= epoch == known.at(base)
            found.append(is_known and (epoch == own.at(base) or (goes_on and epoch > own.highest >= 0)))
        return pa.array(found, pa.bool_())

    def _is_left_behind(self, after: Batch | None, inside: Iterable[tuple[str, pa.RecordBatch]]) -> bool:
        """Return whether the replica never saw the epoch after a loss. Its batches may then belong to another history.

        Such a replica truncates its log before it continues (KIP-101).
        """
        epoch = -1 if after is None else self._own_epochs.at(_first(after))
        found = [pc.max(batches["partition_leader_epoch"]).as_py() for _, batches in inside]
        return bool(epoch > max([self._epochs.highest, *(one for one in found if one is not None)]))

    def _is_diverged(self, inside: Iterable[tuple[str, pa.RecordBatch]]) -> bool:
        """Return whether the first batches have a lower leader epoch than the log had there, from another history."""
        for _, batches in inside:
            if batches.num_rows:
                lowest: Any = pc.min(batches["partition_leader_epoch"]).as_py()
                base: Any = batches["base_offset"][0].as_py()
                return None not in (lowest, base) and 0 <= lowest < self._own_epochs.at(base)
        return False

    def _is_anchored(
        self, pieces: Sequence[Piece], place: int, is_before: Verdict | None, is_after: Verdict | None
    ) -> bool:
        """Return whether both logs have the same batch near a loss, and no contradicting batch is nearer."""
        if is_after == "absent":
            is_after = self._nearest(islice(_batches(pieces[place:]), 1, _MOST_COMPARED))
        if is_before == "absent":
            is_before = self._nearest(islice(_batches_back(pieces[:place]), 1, _MOST_COMPARED))
        if "other" in (is_before, is_after):
            return False
        return is_after == "same" or is_before == "same"

    def _nearest(self, batches: Iterable[Batch]) -> Verdict:
        return next((verdict for one in batches if (verdict := self._verdict(one)) != "absent"), "absent")

    def _verdict(self, batch: Batch) -> Verdict:
        """Return whether the replica has the same batch, another batch at the same offsets, or no batch there."""
        verdict: Verdict = "absent"
        # The first batch may overlap the wanted one, and end inside it.
        rows = (row for _, batches in self._headers(_first(batch)) for row in batches.slice(0, 2).to_pylist())
        for found in islice(rows, 2):
            if _first(found) > batch["last_offset"] or _first(found) >= self._end_offset:
                break
            if all(found[name] == batch[name] for name in _SAME):
                return "same"
            verdict = "other"
        return verdict

    def _within(
        self, start: int, end: int | None, *, reaches_over: bool = False
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the headers of the batches that end in the offsets [start, end).

        With `reaches_over`, also yield a batch that begins in the range and ends after it.
        """
        limit = self._end_offset if end is None else min(end, self._end_offset)
        for path, batches in self._headers(start):
            offsets: Any = batches["last_offset"]
            offsets = pc.coalesce(batches["base_offset"], offsets) if reaches_over else offsets
            yield path, batches.filter(pc.less(offsets, pa.scalar(limit, pa.int64())))
            if batches.num_rows and batches["last_offset"][-1].as_py() >= limit:
                return

    def _headers(self, start: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the headers of the replica's sound batches that end at `start` or above, with their file."""
        for segment in self._other.segments:
            if segment.limit_offset <= start:
                continue
            path = segment.path
            with segment.open() as file:
                if path not in self._surveys:
                    following = segment.next_base_offset
                    self._surveys[path] = survey(file, path, segment.base_offset, following, file.size())
                for run in self._surveys[path].parts:
                    if not isinstance(run, Run) or run.next_offset <= start:
                        continue
                    offset, near = self._places.get(path, (start + 1, 0))
                    begin = near if offset <= start and run.position <= near < run.end_position else run.position
                    for batches, _ in whole_batches(file, begin, run.end_position, length=_NEAR):
                        wanted = batches.select(list(_COLUMNS))
                        first: Any = wanted["last_offset"][0].as_py()
                        if first <= start:
                            self._places[path] = first, wanted["position"][0].as_py()
                        is_behind = pc.greater_equal(wanted["last_offset"], pa.scalar(start, pa.int64()))
                        yield path, wanted.filter(is_behind)


def _place(pieces: Sequence[Piece], lost: DamagedRange) -> int:
    """Return the index of the piece after a loss."""
    return bisect_right(pieces, lost.start_offset, key=lambda piece: piece.next_offset)


def _first(batch: Batch) -> int:
    """Return the first offset that a header gives. A wrapper's header gives only its last offset."""
    offset: int = batch["last_offset"] if batch["base_offset"] is None else batch["base_offset"]
    return offset


def _rest(piece: Piece, *, is_first: bool) -> list[Piece]:
    """Return a piece without its first or its last batch; [] if nothing is left."""
    batches = list(islice(piece_batches(piece), 2)) if is_first else last_batches(piece)
    if len(batches) == 1:
        return []
    one, other = batches
    if is_first:
        # A wrapper has its first offset inside.
        first = one["last_offset"] + 1 if other["base_offset"] is None else other["base_offset"]
        return [piece._replace(position=other["position"], first_offset=first)]
    return [piece._replace(end_position=other["position"], next_offset=one["last_offset"] + 1)]


def _batches(pieces: Iterable[Piece]) -> Iterator[Batch]:
    for piece in pieces:
        yield from piece_batches(piece)


def _batches_back(pieces: Sequence[Piece]) -> Iterator[Batch]:
    for piece in reversed(pieces):
        yield from reversed(deque(piece_batches(piece), _MOST_COMPARED))
