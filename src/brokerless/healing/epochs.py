"""Leader epochs that contradict each other: no checksum covers that of a batch.

The file of leader epochs decides, or the epochs of most batches. A batch with another epoch gets the right one. Behind
damage, a batch of an older epoch is not believed: it may be what the disk had there before.
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
from brokerless.log.segment import whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.healing.pieces import Piece
    from brokerless.log.log import Log

_EPOCH_AT = 12
# RecordBatch.NO_PARTITION_LEADER_EPOCH: older formats have none.
_NO_EPOCH = -1
# Between two writes of a file of leader epochs.
_MOST_ELECTIONS = 1000


class Epochs(NamedTuple):
    """Pieces with leader epochs that go together.

    Attributes:
        pieces: those to keep.
        dropped: those that are not believed.
        changed: how many batches get another epoch.
        by_file: whether the file of leader epochs decided: it is right.
    """

    pieces: list[Piece]
    dropped: list[Piece]
    changed: int
    by_file: bool


def with_epochs(log: Log, pieces: list[Piece]) -> Epochs:
    """Give batches whose leader epoch contradicts the others the right one."""
    runs = list(_epoch_runs(pieces, [start for start, _ in _entries(log)]))
    by_file = _epochs_by_file(log, runs)
    expected = by_file or _epochs_by_most(runs)
    of_piece: dict[int, list[tuple[_EpochRun, int]]] = {}
    for run, epoch in zip(runs, expected, strict=True):
        of_piece.setdefault(run.piece, []).append((run, epoch))
    kept: list[Piece] = []
    dropped: list[Piece] = []
    count = 0
    for at, piece in enumerate(pieces):
        patches = list(piece.patches)
        rest: Piece | None = piece
        before = pieces[at - 1] if at else None
        # Elsewhere a batch stands where a broker wrote it.
        is_behind_damage = before is not None and before.path == piece.path and before.end_position < piece.position
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
                count += run.batches
                patches += [(at + _EPOCH_AT, struct.pack(">i", epoch)) for at in _positions(piece.path, run)]
        if rest is not None:
            kept.append(rest._replace(patches=tuple(patches)))
    return Epochs(kept, dropped, count, by_file is not None)


class _EpochRun(NamedTuple):
    """Adjacent batches of one piece with the same leader epoch; the offset where the last one begins, and its last."""

    piece: int
    epoch: int
    base_offset: int
    last_offset: int
    batches: int
    position: int
    end_position: int


def _epoch_runs(pieces: Iterable[Piece], starts: Sequence[int]) -> Iterator[_EpochRun]:
    """Yield the runs; none reaches over an offset where the file of leader epochs begins an epoch."""
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
                    found = _EpochRun(at, epochs[begin].as_py(), bases[end - 1].as_py(), last, end - begin, low, high)
                    if run is None:
                        run = found
                    elif run.epoch == found.epoch and not _begins(starts, run.base_offset, bases[begin].as_py()):
                        run = found._replace(batches=run.batches + found.batches, position=run.position)
                    else:
                        yield run
                        run = found
        if run is not None:
            yield run


def _begins(starts: Sequence[int], before: int, base_offset: int) -> bool:
    """Return whether the file begins an epoch between two batches."""
    return bisect_right(starts, before) < bisect_right(starts, base_offset)


def _positions(path: str, run: _EpochRun) -> Iterator[int]:
    with storage.File(path) as file:
        for batches, _ in whole_batches(file, run.position, run.end_position):
            positions: list[Any] = batches["position"].to_pylist()
            yield from positions


def _entries(log: Log) -> list[tuple[int, int]]:
    """Return the start offset and the epoch of each entry of the file of leader epochs; [] if it is damaged."""
    try:
        return sorted((one.start_offset, one.epoch) for one in log.leader_epochs)
    except CorruptRecordError:
        return []


def _epochs_by_file(log: Log, runs: Sequence[_EpochRun]) -> list[int] | None:
    """Return the epoch of each run by the file of leader epochs; None if most batches contradict it."""
    entries = _entries(log)
    if not entries or any(before[1] >= after[1] for before, after in pairwise(entries)):
        return None
    starts = [start for start, _ in entries]
    expected = []
    agreeing = differing = 0
    for run in runs:
        place = bisect_right(starts, run.base_offset)
        # A broker forgets epochs below the log start.
        epoch = entries[place - 1][1] if place else run.epoch
        expected.append(epoch)
        if run.epoch == epoch:
            agreeing += run.batches
        else:
            differing += run.batches
    if differing == 1 and not agreeing:
        # Of a lone batch, it may be later than a file that a crash left behind, but not by more elections than that.
        (lone,) = runs
        return None if entries[-1][1] < lone.epoch <= entries[-1][1] + _MOST_ELECTIONS else expected
    return expected if agreeing >= differing else None


def _epochs_by_most(runs: Sequence[_EpochRun]) -> list[int]:
    """Return an epoch for each run so that epochs do not fall and as few batches as possible change."""
    # The heaviest chain that does not fall, by the epoch at its end. Of two, the one with the lower epoch has to be the
    # lighter one, so both rise together.
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
