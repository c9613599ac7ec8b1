"""Two copies of a partition compared: equal, one a prefix of the other, or diverged, and from where on.

Batches are compared by their offsets, leader epochs and checksums, without decompression. Each checksum is verified, so
that equal ones stand for equal bytes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.log.segment import whole_batches
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from brokerless.log.log import Log

Status = Literal["equal", "behind", "ahead", "diverged", "damaged", "missing", "extra"]
"""How a partition is, seen from the first directory.

- equal: both have the same batches, from the later of the two starts on.
- behind, ahead: one is a prefix of the other, and the first one ends earlier, or later.
- diverged: from some offset on, the batches differ.
- damaged: a batch cannot be read, so that it is not known what follows.
- missing, extra: only the second one has the partition, or only the first one.
"""

_COLUMNS = ("base_offset", "last_offset", "partition_leader_epoch", "crc")


@dataclass(frozen=True)
class Comparison:
    """How two copies of a partition differ.

    Attributes:
        topic: the topic.
        partition: the partition.
        status: see `Status`.
        path: the first copy; None if it is missing.
        other: the second copy; None if it is missing.
        start_offset: the first offset that was compared.
        offset: where they differ, or where the shorter one ends; None if neither.
        epoch: the leader epoch there, of the first copy that has one.
        message: what was found.
    """

    topic: str | None
    partition: int | None
    status: Status
    path: str | None
    other: str | None
    start_offset: int | None = None
    offset: int | None = None
    epoch: int | None = None
    message: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as a dict for JSON."""
        return asdict(self)


def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    records: bool = False,
) -> Iterator[Comparison]:
    """Compare the partitions of two directories, and yield how each differs, by topic and partition.

    Args:
        first: a log directory, or a partition's directory.
        second: another one of the same kind: a replica, a backup, a copy.
        topics: only these topics; None: all that one of them has.
        records: compare the latest record of each key instead of batches: of copies that were compacted, each at a time
            of its own, only these are equal. It takes memory for each key.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic is in neither.

    >>> import brokerless as bl
    >>> [(found.status, found.offset) for found in bl.compare(SAMPLE, SAMPLE)]
    [('equal', None)]
    """
    here, there = ({(log.topic, log.partition): log for log in _logs(LogDirs(path))} for path in (first, second))
    wanted = None if topics is None else set(topics)
    places = sorted({*here, *there}, key=lambda place: (str(place[0]), place[1] or 0))
    if wanted is not None and (unknown := wanted - {topic for topic, _ in places}):
        raise ValueError(f"topic {min(unknown)!r} is in neither directory")
    for place in places:
        if wanted is None or place[0] in wanted:
            yield _compared(place, here.get(place), there.get(place), records=records)


def _logs(directories: LogDirs) -> list[Log]:
    return directories.logs(all_replicas=True)


def _compared(place: tuple[str | None, int | None], log: Log | None, other: Log | None, *, records: bool) -> Comparison:
    topic, partition = place
    if log is None or other is None:
        status: Status = "missing" if log is None else "extra"
        there = log or other
        path, other_path = (None, there.path) if log is None and there else (there.path if there else None, None)
        return Comparison(topic, partition, status, path, other_path, message="only one directory has the partition")
    start = max(_start(log), _start(other))
    found = (_records_differ if records else _batches_differ)(log, other, start)
    return Comparison(
        topic, partition, found.status, log.path, other.path, start, found.offset, found.epoch, found.message
    )


def _start(log: Log) -> int:
    return max(log.log_start_offset, log.segments[0].base_offset if log.segments else log.log_start_offset)


class _Found(NamedTuple):
    status: Status
    offset: int | None = None
    epoch: int | None = None
    message: str = ""


class _Batches:
    """The batches of a log from an offset on, to be taken in any number."""

    def __init__(self, log: Log, start: int) -> None:
        self._parts = self._read(log, start)
        self._held: pa.Table | None = None
        self.damage: CorruptRecordError | UnsupportedFormatError | None = None

    def next(self) -> pa.Table | None:
        """Return the batches at hand, at least one; None at the end."""
        while self._held is None or not self._held.num_rows:
            try:
                self._held = next(self._parts, None)
            except (CorruptRecordError, UnsupportedFormatError) as error:
                self.damage, self._held = error, None
            if self._held is None:
                return None
        return self._held

    def take(self, count: int) -> None:
        """Go on behind so many of the batches at hand."""
        if self._held is not None:
            self._held = self._held.slice(count)

    @staticmethod
    def _read(log: Log, start: int) -> Iterator[pa.Table]:
        for segment in log.segments:
            if segment.end_offset(log.log_end_offset) <= start:
                continue
            with segment.open() as file:
                extent = segment.extent(file)
                for batches, _ in whole_batches(file, 0, extent.end_position, check_crcs=True):
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


def _batches_differ(log: Log, other: Log, start: int) -> _Found:
    one, two = _Batches(log, start), _Batches(other, start)
    end = start
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
            return _difference(mine.slice(differing[0], 1).to_pylist()[0], theirs.slice(differing[0], 1).to_pylist()[0])
        end = mine["last_offset"][count - 1].as_py() + 1
        one.take(count)
        two.take(count)


def _head(table: pa.Table, name: str, count: int) -> Any:  # noqa: ANN401 - an array
    return table[name].slice(0, count).combine_chunks()


def _ended(one: _Batches, two: _Batches, mine: pa.Table | None, theirs: pa.Table | None, end: int) -> _Found:
    damage = one.damage or two.damage
    if damage is not None:
        return _Found("damaged", end, message=str(damage))
    if mine is None and theirs is None:
        return _Found("equal")
    longer = mine if mine is not None else theirs
    epoch = None if longer is None else longer["partition_leader_epoch"][0].as_py()
    status: Status = "behind" if mine is None else "ahead"
    return _Found(status, end, epoch, f"the shorter one ends at offset {end}")


def _difference(mine: dict[str, int], theirs: dict[str, int]) -> _Found:
    offset = min(mine["base_offset"], theirs["base_offset"])
    epoch = mine["partition_leader_epoch"]
    for name, what in (
        ("base_offset", "begins at offset"),
        ("last_offset", "ends at offset"),
        ("partition_leader_epoch", "has leader epoch"),
        ("crc", "has checksum"),
    ):
        if mine[name] != theirs[name]:
            values = [f"{row[name]:08x}" if name == "crc" else str(row[name]) for row in (mine, theirs)]
            message = f"the batch at offset {offset} {what} {values[0]}, in the other copy {values[1]}"
            return _Found("diverged", offset, epoch, message)
    return _Found("equal")


def _records_differ(log: Log, other: Log, start: int) -> _Found:
    """Compare the latest record of each key up to the end that both have."""
    end = min(log.log_end_offset, other.log_end_offset)
    try:
        mine, theirs = (_latest(one, start, end) for one in (log, other))
    except (CorruptRecordError, UnsupportedFormatError) as error:
        return _Found("damaged", error.base_offset, message=str(error))
    if mine.equals(theirs):
        if log.log_end_offset == other.log_end_offset:
            return _Found("equal")
        return _Found("behind" if end == log.log_end_offset else "ahead", end, message=f"the shorter one ends at {end}")
    both = pa.concat_tables([mine, theirs]).group_by(["key", "value", "offset"]).aggregate([([], "count_all")])
    single = both.filter(pc.equal(both["count_all"], pa.scalar(1, pa.int64()))).sort_by("offset")
    offset = single["offset"][0].as_py()
    return _Found("diverged", offset, message=f"{single.num_rows} latest records differ, the first at offset {offset}")


def _latest(log: Log, start: int, end: int) -> pa.Table:
    """Return the latest record of each key, but for keys whose latest record has no value."""
    latest = _native.LatestRecords()
    columns = ["key", "value", "offset", "timestamp"]
    low = max(start, _start(log))
    for rows in log.read(start_offset=low, end_offset=end, columns=columns, isolation_level="read_committed"):
        times: Any = rows["timestamp"]
        latest.push(rows["key"], rows["value"], rows["offset"], times.view(pa.int64()))
    batches = latest.take()
    table = pa.Table.from_batches(batches).select(["key", "value", "offset"])
    return table.sort_by([("offset", "ascending"), ("key", "ascending")])
