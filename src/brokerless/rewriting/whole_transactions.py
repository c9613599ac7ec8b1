"""Transactions over several logs that are cut at one time: each is kept whole in all logs, or in none.

A coordinator decides (PrepareCommit), and then writes a marker to each partition of the transaction. A cut between the
decision and the last marker would commit the transaction in some logs, and abort it in others. So a transaction that
was decided below the cut is committed in all logs, if none of its batches is cut. Any other transaction is kept in no
log. A log that already has its COMMIT marker is cut before the marker, and the coordinator's log is cut before the
decision.

No file records which markers belong to one transaction. A producer has one transaction at a time, and its markers
are all written before the next one begins. So the times and partitions in the coordinator's records show which markers
belong together, if compaction left these records. Otherwise, the times of the markers and of the batches show it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.append.operation import Commit
from brokerless.errors import located
from brokerless.io.runner import Threads
from brokerless.log.log import Log
from brokerless.log.segment import NO_END, whole_batches
from brokerless.log.survey import tuples
from brokerless.rewriting.retain import largest_timestamp
from brokerless.state.internal_topic import TRANSACTIONS_TOPIC
from brokerless.state.transactions import states_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from brokerless.append.operation import LogState
    from brokerless.io import storage

# How long the markers of one transaction may take, and how far after the cut's time batches are still read: ms. The
# default of transaction.max.timeout.ms is a quarter of it.
_MARGIN = 3_600_000
# How far the clocks of a producer, its coordinator and the leaders of its partitions may be apart: ms.
_SKEW = 5_000
# No marker is larger: Kafka's take 78 bytes.
_MAX_MARKER = 1 << 12
_COLUMNS = (
    "position",
    "size",
    "base_offset",
    "last_offset",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "is_control",
)
_TIMES = ["started", "coordinator_time"]
_STATE_COLUMNS = ["producer_id", "producer_epoch", "state", "partitions", "coordinator_offset", *_TIMES]
# For each state: whether it is a COMMIT, and whether all markers are written.
_DECISIONS = {
    "PrepareCommit": (True, False),
    "CompleteCommit": (True, True),
    "PrepareAbort": (False, False),
    "CompleteAbort": (False, True),
}


class Cut(NamedTuple):
    """The cut of a log.

    Attributes:
        state: the log.
        name: its topic and partition.
        end: the new log end offset.
        open: the transactions open at the cut: producer id and first offset.
    """

    state: LogState
    name: tuple[str, int]
    end: int
    open: Sequence[tuple[int, int]]


class Verdict(NamedTuple):
    """The changes that keep the transactions whole; logs are given by their numbers.

    Attributes:
        commits: the transactions to end with COMMIT markers.
        ends: the new ends of logs that have to be cut further.
    """

    commits: Mapping[int, Sequence[Commit]]
    ends: Mapping[int, int]


class _Marker(NamedTuple):
    offset: int
    time: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


class _Part(NamedTuple):
    """The part of a transaction in one log.

    Attributes:
        log: the number of the log.
        producer_id: the producer.
        first: the first offset; -1 if only the marker is known.
        last: the last offset before the marker; -1 if only the marker is known.
        time: the earliest time in a batch, ms; 0 if only the marker is known, because the start of the transaction is
            then unknown.
        marker: the marker that ended it; None if the log ends before.
    """

    log: int
    producer_id: int
    first: int
    last: int
    time: int
    marker: _Marker | None


@dataclass
class _Decision:
    """A decision of a coordinator: PrepareCommit or PrepareAbort, or the Complete record if only that is left.

    Attributes:
        log: the number of the coordinator's log.
        offset: the offset of the record.
        producer_epoch: the producer epoch of its markers.
        is_commit: True if it is a COMMIT.
        time: the time of the decision, ms; if only the Complete record is left, the start of the transaction.
        completed: the time at which all markers were written; None if that has not happened.
        partitions: the partitions that get a marker; None if unknown.
        parts: the parts that it ended.
    """

    log: int
    offset: int
    producer_epoch: int
    is_commit: bool
    time: int
    completed: int | None
    partitions: frozenset[tuple[str, int]] | None
    parts: list[_Part] = field(default_factory=list)

    def take(self, part: _Part) -> _Part | None:
        """Add a part. A log has one part of each transaction: if two parts are possible, return the other one."""
        rival = next((one for one in self.parts if one.log == part.log), None)
        if rival is None:
            self.parts.append(part)
            return None
        # A part without a marker is the last one of its log.
        earlier, later = sorted((rival, part), key=lambda one: NO_END if one.marker is None else one.marker.offset)
        is_later_one = later.marker is not None or self.is_older(earlier)
        self.parts[self.parts.index(rival)] = later if is_later_one else earlier
        return earlier if is_later_one else later

    def is_older(self, part: _Part) -> bool:
        """Return whether a part's marker is older than the decision. If clocks are right, an earlier one wrote it."""
        return part.marker is not None and part.marker.time < self.time

    def distance(self, part: _Part, name: tuple[str, int]) -> int | None:
        """Return the ms between a part's marker and the decision's markers; None if the decision did not write it."""
        if self.partitions is not None and name not in self.partitions:
            return None
        marker = part.marker
        if marker is None:
            return 0 if self.completed is None else None
        if (marker.is_commit, marker.producer_epoch) != (self.is_commit, self.producer_epoch):
            return None
        late = 0 if self.completed is None else marker.time - self.completed
        distance = max(self.time - marker.time, late, 0)
        return distance if distance <= _SKEW else None


class _Committed(NamedTuple):
    """A committed transaction: its parts, the producer epochs in its markers, and the decision, if known."""

    parts: list[_Part]
    epochs: tuple[int, int]
    decision: _Decision | None


def keep_whole(cuts: Sequence[Cut], timestamp: int | None) -> Verdict:
    """Find the transactions that the cuts would halve.

    Args:
        cuts: the logs, including the coordinators' logs if these are also cut.
        timestamp: the time at which the logs are cut, ms; None if they are cut by offsets.
    """
    if len(cuts) < 2:
        return Verdict({}, {})
    with Threads() as threads:
        behind = [
            part for parts in threads.map(partial(_behind, timestamp=timestamp), enumerate(cuts)) for part in parts
        ]
        begun = [(one.producer_id, _begun(one)) for one in behind if one.marker is not None and one.marker.is_commit]
        decisions = _decisions(cuts, timestamp, min((time for _, time in begun), default=NO_END))
        begun += [
            (producer, one.time)
            for producer, of_it in decisions.items()
            for one in of_it
            if one.is_commit and (one.completed is None or one.offset >= cuts[one.log].end)
        ]
        if not begun:
            return Verdict({}, {})
        suspects = {producer for producer, _ in begun}
        find = partial(_kept, producers=suspects, since=min(time for _, time in begun) - _MARGIN)
        kept = [part for parts in threads.map(find, enumerate(cuts)) for part in parts]
    parts = [*kept, *(part for part in behind if part.producer_id in suspects)]
    return _verdict(cuts, _committed(cuts, parts, decisions))


def _verdict(cuts: Sequence[Cut], committed: Iterable[_Committed]) -> Verdict:
    commits: dict[int, list[Commit]] = defaultdict(list)
    ends: dict[int, int] = {}

    def cut_before(log: int, offset: int) -> None:
        if offset < cuts[log].end:
            ends[log] = min(ends.get(log, offset), offset)

    for parts, epochs, decision in committed:
        is_decided = (
            any(part.marker is not None and part.marker.offset < cuts[part.log].end for part in parts)
            if decision is None
            else decision.offset < cuts[decision.log].end
        )
        if is_decided and all(part.last < cuts[part.log].end for part in parts):
            for part in parts:
                end = cuts[part.log].end
                if 0 <= part.first < end and (part.marker is None or part.marker.offset >= end):
                    commits[part.log].append(Commit(part.producer_id, *epochs))
            continue
        for part in parts:
            if part.marker is not None:
                cut_before(part.log, part.marker.offset)
        if decision is not None:
            cut_before(decision.log, decision.offset)
    return Verdict(commits, ends)


def _committed(
    cuts: Sequence[Cut], parts: Iterable[_Part], decisions: Mapping[int, Sequence[_Decision]]
) -> Iterator[_Committed]:
    """Yield the committed transactions to which some parts belong."""
    loose: dict[int, list[_Part]] = defaultdict(list)
    for part in parts:
        decision = _nearest(decisions.get(part.producer_id, ()), part, cuts[part.log].name)
        if decision is not None:
            earlier = decision.take(part)
            if earlier is not None:
                loose[earlier.producer_id].append(earlier)
        elif part.marker is not None and part.marker.is_commit:
            # Without a marker or a decision, nothing shows that a transaction was committed.
            loose[part.producer_id].append(part)
    _take_doubtful(decisions, loose)
    for of_producer in decisions.values():
        for one in of_producer:
            if one.is_commit and one.parts:
                of_markers = (0 if part.marker is None else part.marker.coordinator_epoch for part in one.parts)
                yield _Committed(one.parts, (one.producer_epoch, max(of_markers)), one)
    for left in loose.values():
        yield from _undocumented(left)


def _take_doubtful(decisions: Mapping[int, Sequence[_Decision]], loose: dict[int, list[_Part]]) -> None:
    """Add to each decision all parts of the transactions to which its doubtful parts may belong.

    A part is doubtful if it may belong to an earlier transaction. All these parts are then kept or cut together.
    """
    for producer, of_producer in decisions.items():
        for one in of_producer:
            doubtful = [part for part in one.parts if one.is_older(part)] if one.is_commit else []
            if doubtful and loose[producer]:
                known = {(part.log, part.marker) for part in doubtful}
                together = {
                    (part.log, part.marker)
                    for found in _undocumented([*loose[producer], *doubtful])
                    if any((part.log, part.marker) in known for part in found.parts)
                    for part in found.parts
                } - known
                one.parts += [part for part in loose[producer] if (part.log, part.marker) in together]
                loose[producer] = [part for part in loose[producer] if (part.log, part.marker) not in together]


def _nearest(decisions: Iterable[_Decision], part: _Part, name: tuple[str, int]) -> _Decision | None:
    """Return the decision that ended a part; None if unknown."""
    found: tuple[int, _Decision] | None = None
    for decision in decisions:
        distance = decision.distance(part, name)
        # The later one of two: of a log that ends before the marker, it is the last transaction.
        if distance is not None and (found is None or distance <= found[0]):
            found = distance, decision
    return None if found is None else found[1]


def _undocumented(parts: Sequence[_Part]) -> list[_Committed]:
    """Return the transactions of a producer for which no decision is known."""
    found = list(_by_times([part for part in parts if part.first >= 0]))
    found.sort(key=lambda one: min(part.time for part in one.parts))
    for part in parts:
        marker = part.marker
        if marker is None or part.first >= 0:
            continue
        # A later transaction begins after this marker.
        before = [
            one
            for one in found
            if one.epochs[0] == marker.producer_epoch and min(other.time for other in one.parts) <= marker.time
        ]
        if before:
            before[-1].parts.append(part._replace(time=marker.time))
    return found


def _by_times(parts: Iterable[_Part], skew: int = _SKEW) -> Iterator[_Committed]:
    """Yield the transactions of a producer, distinguished by times.

    The decision falls between the first batch and the marker of each part. So if the clocks are right, these periods
    overlap for parts of one transaction, but not for parts of two transactions. Parts are treated as two transactions
    only if their periods differ by more than clocks usually do, or if two parts are in one log.
    """
    for together in _overlapping(parts, skew):
        if skew and len({part.log for part in together}) < len(together):
            yield from _by_times(together, skew // 10)
        else:
            markers = [part.marker for part in together if part.marker is not None]
            yield _Committed(together, (markers[0].producer_epoch, markers[0].coordinator_epoch), None)


def _overlapping(parts: Iterable[_Part], skew: int) -> Iterator[list[_Part]]:
    """Yield the parts whose times overlap, and whose markers have the same producer epoch."""
    found: list[_Part] = []
    until = 0
    for part in sorted(parts, key=lambda one: (0 if one.marker is None else one.marker.producer_epoch, _begun(one))):
        if part.marker is None:
            continue
        marker = found[-1].marker if found else None
        if marker is not None and (marker.producer_epoch != part.marker.producer_epoch or _begun(part) > until + skew):
            yield found
            found, until = [], 0
        found.append(part)
        until = max(until, part.marker.time)
    if found:
        yield found


def _behind(numbered: tuple[int, Cut], timestamp: int | None) -> list[_Part]:
    """Return the parts that do not end below a cut: for each producer, the parts before the time, and the next part."""
    number, cut = numbered
    first = min([cut.end, *(offset for _, offset in cut.open)])
    before = [i for i, segment in enumerate(cut.state.segments) if segment.base_offset <= first]
    open_ones = {producer for producer, _ in cut.open}
    found = []
    is_done = set()
    for part in _parts(number, cut.state, before[-1] if before else 0, timestamp=timestamp, open_ones=open_ones):
        if part.marker is not None and part.marker.offset < cut.end:
            continue
        open_ones.discard(part.producer_id)
        if part.producer_id not in is_done:
            found.append(part)
        if part.marker is None or (timestamp is not None and part.marker.time > timestamp + _SKEW):
            is_done.add(part.producer_id)
    return found


def _kept(numbered: tuple[int, Cut], producers: Collection[int], since: int) -> list[_Part]:
    """Return the parts that end below a cut, and whose marker is not older than a time."""
    number, cut = numbered
    segments = cut.state.segments
    first = len([one for one in segments if one.base_offset < cut.end])
    while first > 0 and largest_timestamp(segments[first - 1]) >= since:
        first -= 1
    found = _parts(number, cut.state, first, producers=producers, end_offset=cut.end)
    return [part for part in found if part.marker is not None and part.marker.offset < cut.end]


def _parts(
    number: int,
    state: LogState,
    first: int,
    *,
    producers: Collection[int] | None = None,
    timestamp: int | None = None,
    open_ones: Collection[int] = (),
    end_offset: int = NO_END,
) -> Iterator[_Part]:
    """Yield the parts of transactions in a log, in the order of their markers, then the parts without a marker.

    Args:
        number: the log's number.
        state: the log.
        first: the first segment to be read. If a transaction begins before it, only its marker is known.
        producers: the producers; None: all.
        timestamp: the time, ms. The scan ends with a segment in which most batches are at least an hour later. A few
            batches may have any time, because a producer's clock may be wrong.
        open_ones: the scan continues until these dicts are empty.
        end_offset: the scan ends with the segment that has this offset.
    """
    wanted = None if producers is None else pa.array(sorted(producers), pa.int64())
    begun: dict[int, tuple[int, int, int]] = {}
    for segment in state.segments[first:]:
        if segment.base_offset >= end_offset:
            break
        late = total = 0
        with segment.open() as file, located(segment.path):
            for batches, _ in whole_batches(file, 0, segment.extent(file).end_position):
                total += batches.num_rows
                late += 0 if timestamp is None else _count_later(batches, timestamp + _MARGIN)
                chosen = batches.filter(batches["is_transactional"])
                if wanted is not None:
                    chosen = chosen.filter(pc.is_in(chosen["producer_id"], value_set=wanted))
                yield from _ended(number, begun, file, chosen)
        if 2 * late > total and not open_ones:
            break
    for producer, of_it in begun.items():
        yield _Part(number, producer, *of_it, None)


def _ended(
    number: int, begun: dict[int, tuple[int, int, int]], file: storage.File, batches: pa.RecordBatch
) -> Iterator[_Part]:
    """Yield the parts that end in the given batches. `begun` has the other parts: first, last and time."""
    for position, size, base, last, time, latest, producer, epoch, is_control in tuples(batches, *_COLUMNS):
        if not is_control:
            start, _, earliest = begun.get(producer, (base, base, time))
            begun[producer] = start, last, min(earliest, time, latest)
            continue
        end = _native.end_of_transaction(file.read(position, min(size, _MAX_MARKER)))
        if end is not None:
            marker = _Marker(last, latest, epoch, end[1], end[0])
            yield _Part(number, producer, *begun.pop(producer, (-1, -1, 0)), marker)


def _count_later(batches: pa.RecordBatch, timestamp: int) -> int:
    """Return the number of batches that have a record later than a time."""
    is_later = pc.greater(batches["max_timestamp"], pa.scalar(timestamp, pa.int64()))
    return batches.filter(is_later).num_rows


def _begun(part: _Part) -> int:
    """Return the time of a part's first batch in ms; without a known batch, the time of its marker."""
    of_marker = part.time if part.marker is None else part.marker.time
    return of_marker if part.first < 0 else min(part.time, of_marker)


def _decisions(cuts: Sequence[Cut], timestamp: int | None, begun: int) -> dict[int, list[_Decision]]:
    """Return the decisions of the coordinators whose logs are cut too, by producer, ascending.

    Decisions made over an hour after `timestamp` are left out. Decisions completed over an hour before both `timestamp`
    and `begun` are also left out.
    """
    found: dict[int, list[_Decision]] = defaultdict(list)
    since, until = (-NO_END, NO_END)
    if timestamp is not None:
        since, until = min(timestamp, begun) - _MARGIN, timestamp + _MARGIN
    for number, cut in enumerate(cuts):
        for segment in cut.state.segments if cut.name[0] == TRANSACTIONS_TOPIC else ():
            for states in states_in(Log(segment.path)):
                rows = states.filter(pc.is_in(states["state"], value_set=pa.array(list(_DECISIONS))))
                rows = rows.select(_STATE_COLUMNS)
                for name in _TIMES:
                    # In ms: Python has no date for some times.
                    column: Any = rows[name].cast(pa.int64())
                    rows = rows.set_column(rows.schema.get_field_index(name), name, column)
                for row in rows.to_pylist():
                    _add(found[row["producer_id"]], number, row, since, until)
    return found


def _add(decisions: list[_Decision], log: int, row: Mapping[str, Any], since: int, until: int) -> None:
    """Add the decision in a record of a coordinator to the decisions on a producer's transactions."""
    is_commit, is_complete = _DECISIONS[row["state"]]
    time = begun = row["coordinator_time"]
    last = decisions[-1] if decisions else None
    if is_complete and last is not None and last.completed is None and last.is_commit == is_commit:
        last.completed = time
        return
    if time > until:
        return
    if last is not None and last.completed is not None and last.completed < since:
        decisions.pop()
    if is_complete:
        # Compaction removed the decision: its markers are between the start of the transaction and this record.
        before = time - _MARGIN if last is None or last.completed is None else last.completed
        begun = row["started"] if row["started"] is not None and before <= row["started"] < time else before
    partitions = frozenset((one["topic"], one["partition"]) for one in row["partitions"] or ())
    decisions.append(
        _Decision(
            log,
            row["coordinator_offset"],
            row["producer_epoch"],
            is_commit,
            begun,
            time if is_complete else None,
            None if is_complete else partitions,
        )
    )
