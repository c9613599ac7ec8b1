"""The first difference between two copies of a log, and its cause.

The copies are compared by their batches as columns, or by the latest record of each key.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.checking.comparison import Difference
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.log.segment import whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.checking.comparison import Differing, Place, Status
    from brokerless.log.log import Log

_COLUMNS = ("base_offset", "last_offset", "partition_leader_epoch", "crc")
# The copies in memory: records of both logs, each kept, sorted and, if they differ, counted. And the maximum number of
# shares, which suffices for the keys of any log.
_COPIES, _MOST_SHARES = 8, 1 << 12
# The number of records that are counted at a time, and offsets below and above all others.
_COUNTED, _FIRST, _LAST = 64 << 10, -(1 << 63), (1 << 63) - 1


class _Batches:
    """The batches of a log from an offset on. A caller takes them in portions of any size."""

    def __init__(self, log: Log, start: int, place: Place) -> None:
        self._parts = self._read(log, start, place)
        self._held: pa.Table | None = None
        self.damage: CorruptRecordError | UnsupportedFormatError | None = None

    def next(self) -> pa.Table | None:
        """Return the batches that were read but not taken, at least one; None at the end."""
        while self._held is None or not self._held.num_rows:
            try:
                self._held = next(self._parts, None)
            except (CorruptRecordError, UnsupportedFormatError) as error:
                self.damage, self._held = error, None
            if self._held is None:
                return None
        return self._held

    def take(self, count: int) -> None:
        """Take `count` of these batches."""
        if self._held is not None:
            self._held = self._held.slice(count)

    @staticmethod
    def _read(log: Log, start: int, place: Place) -> Iterator[pa.Table]:
        for number, segment in enumerate(log.segments):
            if number < place.segment or segment.end_offset(log.log_end_offset) <= start:
                continue
            with segment.open() as file:
                extent = segment.extent(file)
                begin = place.position if number == place.segment else 0
                for batches, _ in whole_batches(file, begin, extent.end_position, check_crcs=True):
                    valid: Any = batches["is_valid"]
                    wrong = pc.indices_nonzero(pc.invert(valid)).to_pylist()
                    sound = batches.slice(0, wrong[0]) if wrong else batches
                    table = pa.table([sound[name].cast(pa.int64()) for name in _COLUMNS], list(_COLUMNS))
                    yield table.filter(pc.greater_equal(table["last_offset"], pa.scalar(start, pa.int64())))
                    if wrong:
                        position = batches["position"][wrong[0]].as_py()
                        raise CorruptRecordError("record batch crc mismatch", path=segment.path, position=position)
                if extent.damage is not None:
                    raise extent.damage


def of_batches(log: Log, other: Log, start: int, places: tuple[Place, Place], end: int) -> Difference:
    """Compare the batches from an offset on.

    Args:
        log: the first copy.
        other: the second copy.
        start: the first offset to compare.
        places: the place in each copy at which to begin. All batches before these places must be equal.
        end: the offset after the equal batches.
    """
    one, two = _Batches(log, start, places[0]), _Batches(other, start, places[1])
    while True:
        mine, theirs = one.next(), two.next()
        if mine is None or theirs is None:
            return _ended(one, two, mine, theirs, end)
        count = min(mine.num_rows, theirs.num_rows)
        same: Any = pa.array([True] * count)
        for name in _COLUMNS:
            equal: Any = pc.equal(_head(mine, name, count), _head(theirs, name, count))
            same = pc.and_(same, equal)
        differing = pc.indices_nonzero(pc.invert(same)).to_pylist()
        if differing:
            row, other_row = (table.slice(differing[0], 1).to_pylist()[0] for table in (mine, theirs))
            return _difference(row, other_row, log.path, other.path)
        end = mine["last_offset"][count - 1].as_py() + 1
        one.take(count)
        two.take(count)


def _head(table: pa.Table, name: str, count: int) -> Any:  # noqa: ANN401 - an array
    return table[name].slice(0, count).combine_chunks()


def _ended(one: _Batches, two: _Batches, mine: pa.Table | None, theirs: pa.Table | None, end: int) -> Difference:
    damage = one.damage or two.damage
    if damage is not None:
        return Difference.damaged(end, damage)
    if mine is None and theirs is None:
        return Difference("equal")
    longer = mine if mine is not None else theirs
    epoch = None if longer is None else longer["partition_leader_epoch"][0].as_py()
    status: Status = "behind" if mine is None else "ahead"
    return Difference(status, end, epoch, message=f"the shorter log ends at offset {end}")


def _difference(mine: dict[str, int], theirs: dict[str, int], path: str, other_path: str) -> Difference:
    offset = min(mine["base_offset"], theirs["base_offset"])
    epoch = mine["partition_leader_epoch"]
    if mine["base_offset"] != theirs["base_offset"]:
        lacking = path if mine["base_offset"] > theirs["base_offset"] else other_path
        last = max(mine["base_offset"], theirs["base_offset"]) - 1
        offsets = f"offset {offset}" if last == offset else f"offsets {offset} to {last}"
        message = f"{lacking} has no batch of {offsets}"
        values = mine["base_offset"], theirs["base_offset"]
        return Difference("diverged", offset, epoch, "base_offset", *values, message=message)
    fields: tuple[tuple[Differing, str], ...] = (
        ("last_offset", "ends at offset"),
        ("partition_leader_epoch", "has leader epoch"),
        ("crc", "has checksum"),
    )
    for name, what in fields:
        if mine[name] != theirs[name]:
            shown = [f"{row[name]:08x}" if name == "crc" else str(row[name]) for row in (mine, theirs)]
            message = f"the batch at offset {offset} {what} {shown[0]}, but {shown[1]} in {other_path}"
            return Difference("diverged", offset, epoch, name, mine[name], theirs[name], message=message)
    return Difference("equal")


class _TooManyKeysError(Exception):
    """The latest records of a share of the keys take more memory than is allowed."""


def of_records(log: Log, other: Log, start: int, memory: int) -> Difference:
    """Compare the latest record of each key from an offset on, up to the lower of the two log ends.

    If all records take too much memory, the keys are divided into shares. Each share reads the logs again.
    """
    end = min(log.log_end_offset, other.log_end_offset)
    count, offsets = 0, []
    shares = [(0, 1)]
    try:
        while shares:
            number, of = shares.pop()
            try:
                mine, theirs = (_latest(one, start, end, memory // _COPIES, (number, of)) for one in (log, other))
            except _TooManyKeysError as error:
                if of == _MOST_SHARES:
                    raise UnsupportedFormatError(
                        f"{error}, even if the keys are divided into {of} groups that are compared one by one"
                    ) from error
                shares += [(number + of, 2 * of), (number, 2 * of)]
                continue
            if not mine.equals(theirs):
                for single in _differing(mine, theirs):
                    count += single.num_rows
                    offsets += [] if not single.num_rows else [pc.min(single["offset"]).as_py() or 0]
    except (CorruptRecordError, UnsupportedFormatError) as error:
        return Difference.damaged(error.base_offset, error)
    if count:
        offset = min(offsets)
        message = f"the latest records of keys differ: {count} records, of which the first is at offset {offset}"
        return Difference("diverged", offset, differing="records", value=count, message=message)
    if log.log_end_offset == other.log_end_offset:
        return Difference("equal")
    return Difference(
        "behind" if end == log.log_end_offset else "ahead", end, message=f"the shorter log ends at offset {end}"
    )


def _differing(mine: pa.Table, theirs: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows that only one of the tables has. To save memory, compare one range of offsets at a time."""
    longer = max(mine, theirs, key=lambda table: table.num_rows)["offset"]
    cuts = [longer[at].as_py() or 0 for at in range(_COUNTED, len(longer), _COUNTED)]
    for low, high in pairwise([_FIRST, *cuts, _LAST]):
        parts = [_between(table, low, high) for table in (mine, theirs)]
        if not parts[0].equals(parts[1]):
            both = pa.concat_tables(parts).group_by(["key", "value", "offset"]).aggregate([([], "count_all")])
            yield both.filter(pc.equal(both["count_all"], pa.scalar(1, pa.int64())))


def _between(table: pa.Table, low: int, high: int) -> pa.Table:
    offsets: Any = table["offset"]
    return table.filter(
        pc.and_(pc.greater_equal(offsets, pa.scalar(low, pa.int64())), pc.less(offsets, pa.scalar(high, pa.int64())))
    )


def _latest(log: Log, start: int, end: int, memory: int, share: tuple[int, int]) -> pa.Table:
    """Return the latest record of each key, except for keys whose latest record has no value.

    If a record takes more than an eighth of the memory, the size of its value is returned instead of the value.

    Args:
        log: the partition.
        start: the first offset to compare.
        end: the offset after the last one to compare.
        memory: the maximum number of bytes that the records may take.
        share: the share of the keys; see `_native.LatestRecords`.

    Raises:
        _TooManyKeysError: the records take more memory.
    """
    latest = _native.LatestRecords(memory, share=share)
    columns = ["key", "value", "offset", "timestamp"]
    low = max(start, log.local_log_start_offset)
    for rows in log.read(start_offset=low, end_offset=end, columns=columns, isolation_level="read_committed"):
        times: Any = rows["timestamp"]
        try:
            latest.push(rows["key"], rows["value"], rows["offset"], times.view(pa.int64()))
        except UnsupportedFormatError as error:
            raise _TooManyKeysError(error.args[0]) from error
    too_large = latest.too_large()
    table = pa.Table.from_batches(latest.take()).select(["key", "value", "offset"])
    if too_large:
        keys = pa.nulls(len(too_large), pa.binary())
        sizes = pa.array([b"%d bytes" % size for _, size in too_large], pa.binary())
        large: list[pa.Array[Any]] = [keys, sizes, pa.array([offset for offset, _ in too_large], pa.int64())]
        table = pa.concat_tables([table, pa.Table.from_arrays(large, schema=table.schema)])
    return table.sort_by([("offset", "ascending"), ("key", "ascending")])
