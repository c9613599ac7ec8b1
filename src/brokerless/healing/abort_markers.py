"""Lost markers of aborted transactions. Without them, a `read_committed` reader gets the aborted records.

A transaction index holds the offset of each ABORT marker. No other file records which transactions were committed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.healing.pieces import Piece, last_batch, piece_batches
from brokerless.log.aborted_transactions import transactions
from brokerless.log.segment import NO_END
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.log.log import Log


def with_markers(log: Log, pieces: Sequence[Piece], ranges: Sequence[DamagedRange]) -> tuple[list[Piece], list[Remark]]:
    """Replace lost ABORT markers by new ones. Return the pieces, and the doubts (see `LogRepair`).

    If the end of a loss is not known, no marker is added there. A replica whose log ended with such a marker would not
    fetch the missing records from its leader.
    """
    lost = [(one.start_offset, one.end_offset) for one in ranges if one.state == "lost"]
    if not lost:
        return list(pieces), []
    found = transactions(log.files, log.log_start_offset, log.log_end_offset, verify=True)
    kept = list(pieces)
    doubts: list[Remark] = []
    for producer, first, last in found.aborted:
        if any(start <= last and end is not None and last < end for start, end in lost):
            begun = _batch_at(log, first)
            place = bisect_right([piece.first_offset for piece in kept], last)
            if begun is not None and place:
                said = (
                    f"the transaction of producer {producer} from offset {first} on is ended as aborted, because the "
                    "transaction index says so. The index has no checksum, so its entry may be wrong"
                )
                doubts.append(Remark("transaction-ended", said))
                kept.insert(place, _marker(producer, last, begun, kept[place - 1]))
    doubts += [
        Remark(
            "transaction-doubtful",
            f"{doubt.reason}. Without its marker, consumers with read_committed stop at offset {doubt.first_offset}, "
            "until the producer's next transaction ends, and the records then belong to that transaction",
        )
        for doubt in found.doubts
        if any(start < (doubt.end_offset or NO_END) and doubt.first_offset < (end or NO_END) for start, end in lost)
    ]
    return kept, list(dict.fromkeys(doubts))


def open_at_end(pieces: Iterable[Piece]) -> Iterator[dict[str, Any]]:
    """Yield the transactions that are open after the last piece: `producer_id producer_epoch first_offset`."""
    opened: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        for batch in _headers(piece):
            producer = batch["producer_id"]
            if batch["is_control"]:
                opened.pop(producer, None)
            elif batch["is_transactional"]:
                begun = opened.setdefault(producer, {"producer_id": producer, "first_offset": batch["base_offset"]})
                begun["producer_epoch"] = batch["producer_epoch"]
    yield from opened.values()


def _headers(piece: Piece) -> Iterable[dict[str, Any]]:
    if piece.content:
        batches, _ = _native.scan(piece.content)
        return batches.to_pylist()
    return piece_batches(piece)


def _marker(producer: int, offset: int, begun: dict[str, Any], before: Piece) -> Piece:
    neighbour = last_batch(before) or begun
    content = _native.end_transaction_marker(
        commit=False,
        producer_id=producer,
        producer_epoch=begun["producer_epoch"],
        timestamp=begun["max_timestamp"],
        base_offset=offset,
        partition_leader_epoch=begun["partition_leader_epoch"]
        if neighbour is None
        else neighbour["partition_leader_epoch"],
    )
    return Piece("", 0, len(content), offset, offset + 1, content=content, verb="mark")


def _batch_at(log: Log, offset: int) -> dict[str, Any] | None:
    """Return the header of the batch that contains an offset."""
    for segment in log.segments:
        if segment.base_offset <= offset < segment.limit_offset:
            with segment.open() as file:
                for batches in segment.batches_since(file, offset):
                    for row in batches.to_pylist():
                        if row["last_offset"] >= offset:
                            found: dict[str, Any] = row
                            return found
    return None
