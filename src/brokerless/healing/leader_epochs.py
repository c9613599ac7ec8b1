"""Leader epochs that contradict each other: no checksum covers the leader epoch of a batch.

The leader epoch checkpoint gives the right leader epoch of each batch. If the checkpoint is unusable or wrong, the
epochs are chosen so that as few batches as possible change. A batch with another epoch is corrected. After damage, a
batch of an older epoch is not trusted, because it may be a stale block of the disk.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.layout import checkpoints
from brokerless.log.segment import NO_END, whole_batches
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.healing.pieces import Piece
    from brokerless.log.log import Log

_EPOCH_AT = 12
# RecordBatch.NO_PARTITION_LEADER_EPOCH: older formats have no leader epoch.
_NO_EPOCH = -1
# The most elections between two writes of a leader epoch checkpoint.
_MOST_ELECTIONS = 1000


class Epochs(NamedTuple):
    """Pieces whose leader epochs are consistent.

    Attributes:
        pieces: the pieces to keep.
        dropped: the pieces that are not trusted.
        by_file: whether the leader epoch checkpoint is right, and so gave the epochs.
        known: the start offset of each epoch, ascending, with the epoch; -1 if the epoch is not known.
        doubts: remarks on the batches whose right epoch is not known.
    """

    pieces: list[Piece]
    dropped: list[Piece]
    by_file: bool
    known: list[tuple[int, int]]
    doubts: list[Remark]


def with_epochs(log: Log, pieces: list[Piece], others: Sequence[Log] = ()) -> Epochs:
    """Correct leader epochs that contradict those of the other batches.

    Args:
        log: the log.
        pieces: the pieces of the log and of other replicas.
        others: the other replicas.
    """
    runs = list(_epoch_runs(pieces, [start for start, _ in _entries(log)]))
    doubts: list[Remark] = []
    expected, by_file = _expected(log, others, pieces, runs, doubts)
    of_piece: dict[int, list[tuple[_EpochRun, int]]] = {}
    for run, epoch in zip(runs, expected, strict=True):
        of_piece.setdefault(run.piece, []).append((run, epoch))
    kept: list[Piece] = []
    dropped: list[Piece] = []
    for at, piece in enumerate(pieces):
        patches = list(piece.patches)
        rest: Piece | None = piece
        is_behind_damage = _is_behind_damage(pieces, at)
        for run, epoch in of_piece.get(at, ()):
            if run.epoch == _NO_EPOCH or rest is None:
                continue
            if is_behind_damage and _NO_EPOCH < run.epoch < epoch:
                dropped.append(
                    rest._replace(end_position=run.end_position, next_offset=run.last_offset + 1, patches=())
                )
                rest = rest._replace(position=run.end_position, first_offset=run.last_offset + 1)
                rest = rest if rest.position < rest.end_position else None
                continue
            is_behind_damage = False
            if epoch != run.epoch:
                patches += [(at + _EPOCH_AT, struct.pack(">i", epoch)) for at in _positions(piece.path, run)]
        if rest is not None:
            kept.append(rest._replace(patches=tuple(patches)))
    return Epochs(kept, dropped, by_file, list(_known(runs, expected)), doubts)


def _is_behind_damage(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether damaged bytes precede a piece. Only after damage may a batch be at a wrong place."""
    before = pieces[at - 1] if at else None
    return before is not None and before.path == pieces[at].path and before.end_position < pieces[at].position


def _known(runs: Sequence[_EpochRun], expected: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the start of each epoch. In a gap between batches of two epochs, the epoch is not known."""
    before, end = _NO_EPOCH, 0
    for run, epoch in zip(runs, expected, strict=True):
        if epoch != before:
            if end < run.first_offset:
                yield end, _NO_EPOCH
            yield run.first_offset, epoch
        before, end = epoch, run.last_offset + 1
    yield end, _NO_EPOCH


class _EpochRun(NamedTuple):
    """Adjacent batches of one piece with the same leader epoch.

    Attributes:
        piece: the number of the piece.
        epoch: the leader epoch.
        first_offset: the lowest offset that the first batch may hold.
        base_offset: the base offset of the last batch.
        last_offset: the last offset of the last batch.
        batches: the number of batches.
        position: the byte position where the batches begin.
        end_position: the byte position where the batches end.
    """

    piece: int
    epoch: int
    first_offset: int
    base_offset: int
    last_offset: int
    batches: int
    position: int
    end_position: int


def _epoch_runs(pieces: Iterable[Piece], starts: Sequence[int]) -> Iterator[_EpochRun]:
    """Yield the runs. No run crosses an offset at which an epoch of the leader epoch checkpoint begins."""
    for at, piece in enumerate(pieces):
        run: _EpochRun | None = None
        with storage.File(piece.path) as file:
            for batches, done in whole_batches(file, piece.position, piece.end_position):
                epochs: Any = batches["partition_leader_epoch"].fill_null(-1)
                bases: Any = pc.coalesce(batches["base_offset"], batches["last_offset"])
                changes: Any = pc.not_equal(epochs[1:], epochs[:-1])
                for start in starts[bisect_right(starts, bases[0].as_py()) : bisect_right(starts, bases[-1].as_py())]:
                    limit = pa.scalar(start, pa.int64())
                    begins: Any = pc.and_(pc.less(bases[:-1], limit), pc.greater_equal(bases[1:], limit))
                    changes = pc.or_(changes, begins)
                firsts: list[Any] = [0, *(row + 1 for row in pc.indices_nonzero(changes).to_pylist())]
                positions: list[Any] = [*batches["position"].take(firsts).to_pylist(), done]
                for (begin, end), (low, high) in zip(
                    pairwise([*firsts, batches.num_rows]), pairwise(positions), strict=True
                ):
                    last: Any = batches["last_offset"][end - 1].as_py()
                    first = piece.first_offset if run is None else bases[begin].as_py()
                    counted = end - begin, low, high
                    found = _EpochRun(at, epochs[begin].as_py(), first, bases[end - 1].as_py(), last, *counted)
                    if run is None:
                        run = found
                    elif run.epoch == found.epoch and not _begins(starts, run.base_offset, bases[begin].as_py()):
                        found = found._replace(first_offset=run.first_offset, position=run.position)
                        run = found._replace(batches=run.batches + found.batches)
                    else:
                        yield run
                        run = found
        if run is not None:
            yield run


def _begins(starts: Sequence[int], before: int, base_offset: int) -> bool:
    """Return whether an epoch of the checkpoint begins between two batches."""
    return bisect_right(starts, before) < bisect_right(starts, base_offset)


def _positions(path: str, run: _EpochRun) -> Iterator[int]:
    with storage.File(path) as file:
        for batches, _ in whole_batches(file, run.position, run.end_position):
            positions: list[Any] = batches["position"].to_pylist()
            yield from positions


def _entries(log: Log) -> list[tuple[int, int]]:
    """Return the start offset and the epoch of each entry of the leader epoch checkpoint; [] if it is damaged."""
    try:
        return sorted((one.start_offset, one.epoch) for one in log.leader_epochs)
    except CorruptRecordError:
        return []


def _expected(
    log: Log, others: Sequence[Log], pieces: Sequence[Piece], runs: Sequence[_EpochRun], doubts: list[Remark]
) -> tuple[list[int], bool]:
    """Return the epoch of each run, and whether the leader epoch checkpoint is right.

    Batches of other replicas after the log's own may have epochs that the log's checkpoint does not contain. For these
    batches, the checkpoint of the other replica is used.
    """
    paths = {segment.path for segment in log.segments}
    last = max((run.piece for run in runs if pieces[run.piece].path in paths), default=-1)
    inside = [run for run in runs if run.piece <= last]
    by_file, is_right = _epochs_by_file(log, pieces, inside, others, doubts)
    expected = (
        [run.epoch for run in runs] if by_file is None else [*by_file, *(run.epoch for run in runs[len(inside) :])]
    )
    own = _entries(log)
    for other in others:
        theirs = {segment.path for segment in other.segments}
        at = [
            i
            for i, run in enumerate(runs)
            if pieces[run.piece].path in theirs and (i >= len(inside) or by_file is None)
        ]
        found, _ = _epochs_by_file(other, pieces, [runs[i] for i in at], is_donor=True)
        for i, epoch in zip(at, found or (), strict=False):
            expected[i] = runs[i].epoch if runs[i].epoch in _votes([own], runs[i].base_offset) else epoch
    known = [epoch for epoch in expected if epoch != _NO_EPOCH]
    if by_file is None or any(before > after for before, after in pairwise(known)):
        return _epochs_by_most([run._replace(epoch=epoch) for run, epoch in zip(runs, expected, strict=True)]), False
    return expected, is_right and _agrees(log, runs, expected)


def _agrees(log: Log, runs: Sequence[_EpochRun], expected: Sequence[int]) -> bool:
    """Return whether the leader epoch checkpoint maps the first and the last offset of each run to the run's epoch."""
    entries = _entries(log)
    ends = [*(run.first_offset - 1 for run in runs[1:]), NO_END]
    for run, epoch, end in zip(runs, expected, ends, strict=False):
        for offset in (run.base_offset, min(run.last_offset, end)) if epoch != _NO_EPOCH else ():
            place = bisect_right(entries, offset, key=lambda entry: entry[0])
            if place and entries[place - 1][1] != epoch:
                return False
    return True


def _epochs_by_file(
    log: Log,
    pieces: Sequence[Piece],
    runs: Sequence[_EpochRun],
    others: Sequence[Log] = (),
    doubts: list[Remark] | None = None,
    *,
    is_donor: bool = False,
) -> tuple[list[int] | None, bool]:
    """Return the epoch of each run according to a leader epoch checkpoint, and whether the checkpoint is right.

    No checksum covers the checkpoint either. If several adjacent batches contradict an entry, the batches are right. If
    a single batch contradicts it, the checkpoints of other replicas show which one is right.

    The epochs are None if most batches contradict the checkpoint but not each other, or if the checkpoint is unusable.
    """
    entries = _entries(log)
    if not entries or any(before[1] >= after[1] for before, after in pairwise(entries)):
        return None, False
    starts = [start for start, _ in entries]
    places = [bisect_right(starts, run.base_offset) for run in runs]
    # A broker forgets epochs below the log start.
    expected = [entries[place - 1][1] if place else run.epoch for run, place in zip(runs, places, strict=True)]
    differing = sum(run.batches for run, epoch in zip(runs, expected, strict=True) if run.epoch != epoch)
    agreeing = sum(run.batches for run in runs) - differing
    if differing == 1 and not agreeing and not is_donor:
        # The epoch of a lone batch may be later than a checkpoint that a crash left stale, but only by this many
        # elections.
        (lone,) = runs
        newest = entries[-1][1]
        is_later = newest < lone.epoch <= newest + _MOST_ELECTIONS
        is_later &= lone.epoch == newest + 1 or not _is_flipped(lone.epoch, newest)
        return (None, False) if is_later else (expected, True)
    wrong = set(_refuted(pieces, runs, expected, others, doubts))
    ends = [*(run.first_offset - 1 for run in runs[1:]), NO_END]
    for i, (run, end) in enumerate(zip(runs, ends, strict=False)):
        is_missing = not places[i] and run.epoch >= 0 and run.last_offset >= log.log_start_offset
        # No epoch begins inside a batch.
        if is_missing or bisect_right(starts, min(run.last_offset, end)) != places[i]:
            wrong.add(i)
    if not wrong:
        own = [run.epoch for run in runs if run.epoch != _NO_EPOCH]
        pairs = ((run.epoch, epoch) for run, epoch in zip(runs, expected, strict=True) if run.epoch != _NO_EPOCH)
        are_flipped = own != sorted(own) or all(_is_flipped(*pair) for pair in pairs)
        return (expected, True) if is_donor or agreeing >= differing or are_flipped else (None, False)
    wrong_places = {places[i] for i in wrong}
    for i, (run, place) in enumerate(zip(runs, places, strict=True)):
        if place in wrong_places and (run.batches > 1 or run.epoch == _NO_EPOCH):
            expected[i] = run.epoch
        elif place in wrong_places:
            low = expected[i - 1] if i else run.epoch
            high = runs[i + 1].epoch if i + 1 < len(runs) else run.epoch
            expected[i] = run.epoch if low <= run.epoch <= high else low
    return expected, False


def _is_flipped(epoch: int, expected: int) -> bool:
    """Return whether an epoch is the expected one, or differs from it in one bit."""
    return (epoch ^ expected).bit_count() <= 1


def _refuted(
    pieces: Sequence[Piece],
    runs: Sequence[_EpochRun],
    expected: Sequence[int],
    others: Sequence[Log],
    doubts: list[Remark] | None,
) -> Iterator[int]:
    """Yield the indexes of the runs that are right where the checkpoint is wrong. Add uncertain runs to `doubts`."""
    files = [_entries(other) for other in others]
    for i, is_lone in _contradicting(pieces, runs, expected):
        epoch, offset = runs[i].epoch, runs[i].base_offset
        votes = _votes(files, offset) if is_lone else {epoch}
        if epoch in votes:
            yield i
        elif expected[i] not in votes and doubts is not None:
            said = (
                f"the batch at offset {offset} has leader epoch {epoch}, but {checkpoints.LEADER_EPOCHS} says "
                f"{expected[i]}. It is not known which is right"
            )
            doubts.append(Remark("epoch-doubtful", said))


def _votes(files: Iterable[list[tuple[int, int]]], offset: int) -> set[int]:
    """Return the epochs to which some checkpoints map an offset."""
    found = set()
    for entries in files:
        place = bisect_right(entries, offset, key=lambda entry: entry[0])
        found |= {entries[place - 1][1]} if place else set()
    return found


def _contradicting(
    pieces: Sequence[Piece], runs: Sequence[_EpochRun], expected: Sequence[int]
) -> Iterator[tuple[int, bool]]:
    """Yield the index of each run with a neighbor's epoch instead of the expected one, and whether the run is alone.

    A run is alone if only one batch contradicts the expected epoch. Runs of older epochs directly after damage are
    ignored, because they may be stale blocks of the disk.
    """
    stale = -1
    # Adjacent runs of one epoch.
    groups: list[list[int]] = []
    for i, (run, epoch) in enumerate(zip(runs, expected, strict=True)):
        is_behind = run.position == pieces[run.piece].position and _is_behind_damage(pieces, run.piece)
        if is_behind:
            stale = run.piece
        if run.epoch >= epoch:
            stale = -1
        if run.piece == stale or run.epoch == _NO_EPOCH:
            groups.append([])
        elif groups and groups[-1] and runs[groups[-1][-1]].epoch == run.epoch:
            groups[-1].append(i)
        else:
            groups.append([i])
    for group in groups:
        differing = [i for i in group if runs[i].epoch != expected[i]]
        count = sum(runs[i].batches for i in differing)
        if sum(runs[i].batches for i in group) > 1:
            yield from ((i, count == 1) for i in differing)


def _epochs_by_most(runs: Sequence[_EpochRun]) -> list[int]:
    """Return an epoch for each run, so that epochs never fall and as few batches as possible change."""
    # The heaviest chain whose epochs do not fall, by the epoch at its end. A chain with a higher epoch is kept only if
    # it is heavier, so epochs and weights rise together.
    weights, before = [0] * len(runs), [-1] * len(runs)
    ends: list[tuple[int, int]] = []
    for at, run in enumerate(runs):
        if run.epoch < _NO_EPOCH:
            continue
        place = bisect_right(ends, run.epoch, key=lambda end: end[0])
        before[at] = ends[place - 1][1] if place else -1
        weights[at] = run.batches + (weights[before[at]] if place else 0)
        lighter = place
        while lighter < len(ends) and weights[ends[lighter][1]] <= weights[at]:
            lighter += 1
        is_same = place > 0 and ends[place - 1][0] == run.epoch
        ends[place - is_same : lighter] = [(run.epoch, at)]
    at = ends[-1][1] if ends else -1
    kept = set()
    while at >= 0:
        kept.add(at)
        at = before[at]
    epochs = [run.epoch for run in runs]
    known = min((epochs[at] for at in kept), default=-1)
    for at, _ in enumerate(runs):
        known = epochs[at] if at in kept else known
        epochs[at] = known
    return epochs
